"""What ``rocm-channel clean`` may remove: items that a finder has recognised, and how they are removed.

No link is ever followed: one that stands for a folder on the way is a reason to leave the folder alone, and
one inside a folder is removed as a link.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from channel_tools.diagnose.doctor.host_root import HostRoot
from channel_tools.model.errors import StorageError


@dataclass(frozen=True)
class Item:
    """One thing to remove.

    :param kind: which of the kinds it is, for example ``pip-wheel``
    :param path: the host's path: what is removed, or the folder that ``parts`` lie in
    :param parts: names in ``path`` that are removed; empty where it is ``path`` itself
    :param reason: why it is stale
    """

    kind: str
    path: str
    reason: str
    parts: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(posixpath.join(self.path, part) for part in self.parts) or (self.path,)


@dataclass(frozen=True)
class Kept:
    """Something that looks like one of the kinds and is left alone, and why."""

    path: str
    reason: str


def base_folder(host: HostRoot, start: str, *parts: str) -> str | Kept | None:
    """A folder below ``start``, none of the named parts being a link; None where it is not there."""
    if not start.startswith("/"):  # of a variable: whose current folder is meant, nobody knows
        return Kept(start, "is no absolute path")
    here = host.real(start)
    if here is None:
        return None
    for part in parts:
        here = posixpath.join(here, part)
        if host.is_link(here):
            return Kept(here, "is a link, and links are not followed")
    return here if host.is_dir(here) else None


def named_folder(host: HostRoot, path: str) -> str | Kept | None:
    """As :func:`base_folder`, for a folder that a variable names."""
    parent, name = posixpath.split(posixpath.normpath(path))
    found = base_folder(host, parent, name) if name else "/"
    home = host.real(host.home) or host.home
    if isinstance(found, str) and (home + "/").startswith(found.rstrip("/") + "/"):
        return Kept(found, "a variable names it as a cache, and it holds the home folder")
    return found


def size_of(host: HostRoot, item: Item) -> int:
    """Bytes on the disk, a file with several names counted once."""
    seen: set[tuple[int, int]] = set()
    return sum(_size(host.path(path), seen) for path in item.paths)


def _size(path: Path, seen: set[tuple[int, int]]) -> int:
    try:
        found = path.lstat()
    except OSError:
        return 0
    key = (found.st_dev, found.st_ino)
    if key in seen:
        return 0
    seen.add(key)
    total = found.st_blocks * 512
    if not stat.S_ISDIR(found.st_mode):
        return total
    stack = [path]
    while stack:
        try:
            entries = list(os.scandir(stack.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                total += status.st_blocks * 512
            if entry.is_dir(follow_symlinks=False):
                stack.append(Path(entry.path))
    return total


def in_use(host: HostRoot) -> dict[str, int]:
    """Current folders of this host's processes, with a process for each."""
    found = {}
    for name in host.names("/proc"):
        if name.isdecimal():
            try:
                found[str(host.path(f"/proc/{name}/cwd").readlink())] = int(name)
            except OSError:
                continue
    return found


def inside(item: Item, folders: Iterable[str]) -> str | None:
    """The first of some folders that is, or lies in, what an item would remove."""
    return next((one for one in folders for path in item.paths if (one + "/").startswith(path + "/")), None)


def apart(items: Iterable[Item]) -> list[Item]:
    """The items without those that another one, or an earlier one of the same paths, removes with it."""
    paths = {item: item.paths for item in items}
    every = {path for found in paths.values() for path in found}
    taken: set[str] = set()
    left = []
    for item, found in paths.items():
        new = [one for one in found if one not in taken and not every.intersection(_above(one))]
        taken.update(found)
        if new:
            left.append(item)
    return left


def _above(path: str) -> Iterator[str]:
    while (path := posixpath.dirname(path)) not in ("/", ""):
        yield path


def remove(host: HostRoot, item: Item) -> None:
    """Remove an item.

    :raises StorageError: a part of it is a link by now, holds the home folder, or cannot be removed
    """
    home = host.real(host.home) or host.home
    for path in item.paths:
        parent = posixpath.dirname(path)
        if host.real(parent) != parent or home == path or home.startswith(path.rstrip("/") + "/"):
            raise StorageError("is not what it was", where=path, fix="look at the folder")
        local = host.path(path)
        try:
            if stat.S_ISDIR(local.lstat().st_mode):
                shutil.rmtree(local)
            else:
                local.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StorageError(
                f"cannot be removed: {error.strerror}", where=local, fix="remove it as its owner"
            ) from error
