"""One host as the doctor sees it: files below a root folder, and the few things that no file tells.

Paths are the host's own (``/opt/rocm``), whatever folder the root is. Links are followed inside the root, so
that an absolute one in a recorded host leads to the recorded file, never to this machine's.
"""

from __future__ import annotations

import posixpath
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TEXT_LIMIT: Final = 4 << 20
"""Bytes of a file that are read as text."""

_LINKS: Final = 40
_USUAL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Device:
    """A device node: permission bits and numeric owner and group."""

    mode: int
    uid: int
    gid: int


@dataclass(frozen=True)
class Space:
    """Bytes of a file system, and how many of them this user may still fill."""

    total: int
    free: int


@dataclass(frozen=True)
class Mount:
    """One line of ``/proc/self/mounts``."""

    point: str
    kind: str
    options: frozenset[str]


@dataclass(frozen=True)
class Output:
    """What a program printed, both streams, and its exit status."""

    status: int
    text: str


class HostRoot(ABC):
    """A host. No method raises for a file that is missing, unreadable or damaged.

    :param root: folder that stands for ``/``
    """

    live = False
    """Is it the machine that this process runs on?"""

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self.root = root
        self.environ = environ

    # --- what no file tells ---

    @abstractmethod
    def device(self, path: str) -> Device | None:
        """The device node at a path; None where there is none."""

    def opens(self, path: str) -> bool | None:
        """May this process read and write a device, access lists included? None where nobody can tell."""
        return None

    @abstractmethod
    def run(self, *command: str) -> Output | None:
        """What a program prints; None where it is not known, not there or does not end."""

    @abstractmethod
    def space(self, path: str) -> Space | None:
        """The file system that a path lies in."""

    @abstractmethod
    def now(self) -> float | None:
        """The host's clock, seconds since 1970."""

    @abstractmethod
    def modified(self, path: str) -> float | None:
        """When a file was changed last, seconds since 1970."""

    # --- files ---

    def path(self, path: str) -> Path:
        """Where a host's path lies here, its links not followed."""
        return self.root / path.lstrip("/")

    def real(self, path: str) -> str | None:
        """The host's path without links; None where it leads nowhere."""
        left = [part for part in path.split("/") if part not in ("", ".")][::-1]
        done: list[str] = []
        links = 0
        try:
            while left:
                part = left.pop()
                if part == "..":
                    del done[-1:]
                    continue
                here = self.root.joinpath(*done, part)
                mode = here.lstat().st_mode
                if not stat.S_ISLNK(mode):
                    done.append(part)
                    continue
                links += 1
                if links > _LINKS:
                    return None
                target = str(here.readlink())
                if target.startswith("/"):
                    done = []
                left += [piece for piece in target.split("/") if piece not in ("", ".")][::-1]
        except (OSError, ValueError):
            return None
        return "/" + "/".join(done)

    def local(self, path: str) -> Path | None:
        """The file or folder here that a host's path leads to; None where it leads nowhere."""
        real = self.real(path)
        return None if real is None else self.path(real)

    def is_file(self, path: str) -> bool:
        found = self.local(path)
        return found is not None and found.is_file()

    def is_dir(self, path: str) -> bool:
        found = self.local(path)
        return found is not None and found.is_dir()

    def exists(self, path: str) -> bool:
        return self.real(path) is not None

    def is_link(self, path: str) -> bool:
        try:
            return self.path(path).is_symlink()
        except (OSError, ValueError):
            return False

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted; none where it cannot be read."""
        found = self.local(path)
        try:
            return sorted(entry.name for entry in found.iterdir()) if found is not None else []
        except OSError:
            return []

    def glob(self, folder: str, pattern: str) -> list[str]:
        """Paths in a folder whose name matches a regular expression as a whole."""
        wanted = re.compile(pattern)
        return [posixpath.join(folder, name) for name in self.names(folder) if wanted.fullmatch(name)]

    def data(self, path: str, limit: int = TEXT_LIMIT) -> bytes | None:
        """The first bytes of a file; None where it is no file or cannot be read."""
        found = self.local(path)
        try:
            if found is None or not found.is_file():
                return None
            with found.open("rb") as stream:
                return stream.read(limit)
        except OSError:
            return None

    def text(self, path: str) -> str | None:
        """A text file; what is no UTF-8 in it is replaced."""
        raw = self.data(path)
        return None if raw is None else raw.decode("utf-8", "replace")

    def line(self, path: str) -> str | None:
        """The first line of a text file, without white space around it."""
        text = self.text(path)
        return None if text is None else (text.strip().splitlines() or [""])[0].strip()

    # --- what files tell ---

    def variable(self, name: str) -> str | None:
        """An environment variable; None when unset or empty."""
        return self.environ.get(name) or None

    @property
    def home(self) -> str:
        return self.variable("HOME") or "/root"

    def fields(self, path: str) -> dict[str, str]:
        """``Name: value`` lines, as ``/proc/meminfo`` and ``/proc/self/status`` have them."""
        pairs = (line.partition(":") for line in (self.text(path) or "").splitlines())
        return {name.strip(): value.strip() for name, colon, value in pairs if colon}

    def user_ids(self) -> tuple[int, frozenset[int]] | None:
        """Effective user id, and all groups of this process; None where they are not known."""
        status = self.fields("/proc/self/status")
        uid, gid = numbers(status.get("Uid", "")), numbers(status.get("Gid", ""))
        if len(uid) < 2 or len(gid) < 2:
            return None
        return uid[1], frozenset([gid[1], *numbers(status.get("Groups", ""))])

    def group_ids(self) -> dict[str, int]:
        """Numbers of the groups in ``/etc/group``, by name."""
        rows = (line.split(":") for line in (self.text("/etc/group") or "").splitlines())
        return {row[0]: int(row[2]) for row in rows if len(row) > 2 and re.fullmatch(r"[0-9]{1,10}", row[2])}

    def mounts(self) -> Iterator[Mount]:
        """What this process sees mounted, in the order in which it was."""
        for line in (self.text("/proc/self/mounts") or "").splitlines():
            parts = line.split()
            if len(parts) >= 4:
                point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), parts[1])
                yield Mount(point, parts[2], frozenset(parts[3].split(",")))

    def mount(self, path: str) -> Mount | None:
        """The mount that a path lies in; the last one on the same point counts."""
        real = self.real(path) or posixpath.normpath(path)
        best: Mount | None = None
        for one in self.mounts():
            inside = real == one.point or real.startswith(one.point.rstrip("/") + "/")
            if inside and (best is None or len(one.point) >= len(best.point)):
                best = one
        return best

    def search_path(self) -> list[str]:
        """Folders in which programs are looked for."""
        return [part for part in (self.variable("PATH") or _USUAL_PATH).split(":") if part.startswith("/")]

    def which(self, program: str) -> str | None:
        """The path of a program, its links not followed."""
        if "/" in program:
            return program if self.is_program(program) else None
        for folder in self.search_path():
            found = posixpath.join(folder, program)
            if self.is_program(found):
                return found
        return None

    def is_program(self, path: str) -> bool:
        return self.is_file(path)

    def walk(self, folder: str, depth: int) -> Iterator[str]:
        """Files below a folder, no link followed, down to ``depth`` folders."""
        for name in self.names(folder):
            found = posixpath.join(folder, name)
            if self.is_link(found):
                continue
            if self.is_dir(found):
                if depth > 0:
                    yield from self.walk(found, depth - 1)
            else:
                yield found


def numbers(text: str) -> list[int]:
    """The whole numbers in a text."""
    return [int(word) for word in re.findall(r"\d{1,18}", text)]
