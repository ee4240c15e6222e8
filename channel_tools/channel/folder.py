"""A channel in a folder, with its labels.

Layout, as conda clients read it::

    CHANNEL/linux-64/     every package, but no declared build
    CHANNEL/noarch/
    CHANNEL/label/gfx942/            the declared build of amdgpu-arch for that arch, nothing else
    CHANNEL/label/rocm-7.2/          the declared build of rocm-userspace for that release
    CHANNEL/label/gfx942-rocm7.2/    both, so that one more ``-c`` is all a user types

Routing is by build string: a declared build in the main channel would give every client every arch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools import rattler_process
from channel_tools.model.errors import ChannelError, StorageError
from channel_tools.model.files import copy_whole, locked, storage_errors, write_text_whole
from channel_tools.model.package import Package, package_stem, read_package, sha256

SUBDIRS = ("linux-64", "noarch")
INDEX_FILES = ("repodata.json", "repodata.json.zst", "repodata_shards.msgpack.zst")
ARCH_PACKAGE = "amdgpu-arch"
ROCM_PACKAGE = "rocm-userspace"


def arch_label(target: str) -> str:
    return target


def rocm_label(release: str) -> str:
    return f"rocm-{release}"


def combined_label(target: str, release: str) -> str:
    return f"{target}-rocm{release}"


@contextmanager
def index_restored_on_failure(folders: list[Path]) -> Iterator[None]:
    """Put the index files of ``folders`` back when the block fails, without needing room on the disk.

    The indexer renames new files into place one by one, so a full disk can leave a new ``repodata.json``
    beside old shards. Hard links keep the old ones at hand.
    """
    subdirs = [folder / subdir for folder in folders for subdir in SUBDIRS]
    index_files = [subdir / name for subdir in subdirs for name in INDEX_FILES]
    shards = {path for subdir in subdirs for path in subdir.glob("shards/*")}
    kept: dict[Path, Path] = {}
    try:
        for file in index_files:
            if file.is_file():
                kept[file] = file.with_name(f".{file.name}.before")
                kept[file].unlink(missing_ok=True)
                kept[file].hardlink_to(file)
        yield
    except BaseException:
        for file in index_files:
            if file in kept:
                kept[file].replace(file)
            else:
                file.unlink(missing_ok=True)
        for subdir in subdirs:
            for path in set(subdir.glob("shards/*")) - shards:
                path.unlink(missing_ok=True)
        raise
    finally:
        for link in kept.values():
            link.unlink(missing_ok=True)


@dataclass(frozen=True)
class FolderChannel:
    """One channel folder. Reading never creates anything."""

    path: Path

    @property
    def url(self) -> str:
        return self.path.resolve().as_uri()

    def label_url(self, label: str) -> str | None:
        """URL of a label that exists, else ``None``."""
        folder = self.path / "label" / label
        return folder.resolve().as_uri() if (folder / "linux-64" / "repodata.json").is_file() else None

    def labels(self) -> list[str]:
        return sorted(p.parent.parent.name for p in self.path.glob("label/*/linux-64/repodata.json"))

    def records(self, label: str | None = None) -> list[dict[str, Any]]:
        """Records of the index of the main channel or of one label, each with its file name as ``fn``.

        :raises ChannelError: the index cannot be read
        """
        folder = self.path if label is None else self.path / "label" / label
        records = []
        for subdir in SUBDIRS:
            index = folder / subdir / "repodata.json"
            if not index.is_file():
                continue
            try:
                data = json.loads(index.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise ChannelError(f"the index cannot be read: {error}", where=index) from error
            for section in ("packages", "packages.conda"):
                records += [{**record, "fn": fn} for fn, record in data.get(section, {}).items()]
        return records

    def stems(self) -> set[str]:
        """Stems of all packages that the index of the channel or of any label lists and that are there."""
        found = set()
        for label in (None, *self.labels()):
            folder = self.path if label is None else self.path / "label" / label
            for record in self.records(label):
                file = folder / record["subdir"] / record["fn"]
                if file.is_file():
                    found.add(package_stem(file))
        return found

    def files(self) -> list[Path]:
        """Every package file of the channel and its labels."""
        return sorted(
            path
            for pattern in ("*/*.conda", "*/*.tar.bz2", "label/*/*/*.conda", "label/*/*/*.tar.bz2")
            for path in self.path.glob(pattern)
            if path.parent.name in SUBDIRS
        )

    def init(self) -> None:
        """Make the folders and empty indexes of a channel that is not there yet.

        :raises StorageError: the folder cannot be written
        """
        if (self.path / "linux-64" / "repodata.json").is_file():
            return
        with storage_errors(self.path), locked(self.path / ".lock"):
            self._index([self.path])

    def add(self, packages: list[Path], *, replace: bool = False) -> list[Path]:
        """Put verified packages where they belong, then index once. All of them appear, or none.

        :param replace: put a package in the place of one with the same name and other content
        :returns: the folders whose index changed
        :raises ChannelError: same name and other content, or a toolchain that this channel does not take
        :raises StorageError: the channel cannot be written
        """
        new = [read_package(path) for path in packages]
        placed: list[Path] = []
        with storage_errors(self.path), locked(self.path / ".lock"):
            self._check_toolchain(new)
            targets = self._targets(new)
            for source, target in targets:
                if target.is_file() and not replace and sha256(target) != sha256(source):
                    raise ChannelError(
                        "a package of this name with other content is in the channel already",
                        where=target,
                        fix="raise the build number in recipe.yaml: published files never change",
                    )
            folders = sorted({target.parent.parent for _, target in targets})
            if not replace and all(self._is_indexed(target) for _, target in targets):
                return []
            with index_restored_on_failure(folders):
                try:
                    for source, target in targets:
                        existed = target.is_file()
                        copy_whole(source, target)
                        if not existed:
                            placed.append(target)
                    self._index(folders, force=replace)
                except BaseException:
                    for target in placed:
                        target.unlink(missing_ok=True)
                    raise
        return folders

    def _is_indexed(self, target: Path) -> bool:
        label = None if target.parent.parent == self.path else target.parent.parent.name
        return target.is_file() and any(record["fn"] == target.name for record in self.records(label))

    def _targets(self, new: list[Package]) -> list[tuple[Path, Path]]:
        """Pairs of a package file and the place it belongs to, for all that ``new`` brings along.

        A declared build goes to the label of its own and to each combined label, together with the
        declared builds of the other kind that are there already.
        """
        targets = [(p.path, self.path / p.subdir / p.path.name) for p in new if not p.declared]
        if len(targets) == len(new):
            return targets
        known = [read_package(file) for file in self.path.glob("label/*/linux-64/*.conda")]
        archs: dict[str, Package] = {}
        releases: dict[str, Package] = {}
        for package in (*known, *(p for p in new if p.declared)):
            if package.name == ARCH_PACKAGE:
                archs[str(package.extra["rocm_arch"])] = package
            elif package.name == ROCM_PACKAGE:
                releases[package.version] = package
            else:
                raise ChannelError(
                    "is a declared build of a package that no label channel is for",
                    where=package.path,
                    wanted=f"{ARCH_PACKAGE} or {ROCM_PACKAGE}",
                )
        labels = [(arch_label(a), package) for a, package in archs.items()]
        labels += [(rocm_label(r), package) for r, package in releases.items()]
        labels += [
            (combined_label(a, r), package)
            for a in archs
            for r in releases
            for package in (archs[a], releases[r])
        ]
        for label, package in labels:
            target = self.path / "label" / label / package.subdir / package.path.name
            if package in new or not target.is_file():
                targets.append((package.path, target))
        return targets

    def _check_toolchain(self, new: list[Package]) -> None:
        """One channel holds builds of one toolchain, so that no solve mixes them."""
        marker = self.path / "channel.json"
        wanted = {p.toolchain for p in new if p.toolchain is not None}
        if marker.is_file():
            wanted.add(json.loads(marker.read_text(encoding="utf-8"))["toolchain"])
        if len(wanted) > 1:
            raise ChannelError(
                "holds builds of another toolchain, and a channel takes builds of one only",
                where=self.path,
                found=" and ".join(sorted(wanted)),
                fix="give another --channel, or move this one away",
            )
        if wanted and not marker.is_file():
            write_text_whole(marker, json.dumps({"version": 1, "toolchain": wanted.pop()}) + "\n")

    def _index(self, folders: list[Path], *, force: bool = False) -> None:
        for folder in folders:
            for subdir in SUBDIRS:
                (folder / subdir).mkdir(parents=True, exist_ok=True)
        payload = {"channels": [str(folder) for folder in folders], "force": force}
        try:
            rattler_process.call("index", payload)
        except rattler_process.RattlerCallError as error:
            raise StorageError(
                f"cannot be indexed: {error}",
                where=self.path,
                fix="free some space on the disk, or choose a folder that can be written",
            ) from error
