"""Builds as the checks see them: packages of the release and records of the channel alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE, label_of
from channel_tools.model.package import SUFFIXES, Package

if TYPE_CHECKING:
    from channel_tools.channel.index.encoding import SubdirIndex

_HASH = re.compile(r"h[0-9a-f]{7,}")
_ROCM = re.compile(r"rocm\d+")
_ARCH = re.compile(r"gfx[0-9a-f]{3,}")
_PYTHON = re.compile(r"py\d+")


@dataclass(frozen=True)
class Build:
    """One build. ``where`` is its file or key; ``package`` that of the release, None for a record."""

    name: str
    version: str
    build: str
    number: int
    subdir: str
    depends: tuple[str, ...]
    file: str
    where: str
    package: Package | None = field(default=None, compare=False)

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(self.build.split("_"))

    @cached_property
    def arch(self) -> str | None:
        """GPU target in the build string: ``gfx942``."""
        return next((word for word in self.words if _ARCH.fullmatch(word)), None)

    @cached_property
    def rocm(self) -> str | None:
        """ROCm release as build strings spell it: ``rocm72``; of ``rocm-userspace`` by its version."""
        if self.name == ROCM_PACKAGE:
            return rocm_word(self.version)
        return next((word for word in self.words if _ROCM.fullmatch(word)), None)

    @cached_property
    def python(self) -> str | None:
        """Python as build strings spell it: ``py312``."""
        return next((word for word in self.words if _PYTHON.fullmatch(word)), None)

    @property
    def declared(self) -> bool:
        return "declared" in self.words

    @property
    def selects(self) -> bool:
        """One of the two packages that choose a GPU arch or a ROCm release."""
        return self.name in (ARCH_PACKAGE, ROCM_PACKAGE)

    @cached_property
    def variant(self) -> str:
        """The build string without its hash and number: what two engines give one variant alike."""
        words = _HASH.sub("", self.build).split("_")
        return "_".join(word for word in words if word and word != str(self.number))

    def __str__(self) -> str:
        return f"{self.name} {self.version} {self.build}"


def rocm_word(release: str) -> str:
    """A ROCm release as build strings spell it: ``rocm72`` for 7.2."""
    return "rocm" + release.replace(".", "")


def python_word(version: str) -> str:
    """A Python as build strings spell it: ``py312`` for 3.12."""
    return "py" + version.replace(".", "")


def of_package(package: Package) -> Build:
    return Build(
        package.name,
        package.version,
        package.build,
        package.build_number,
        package.subdir,
        package.depends,
        package.path.name,
        package.path.name,
        package,
    )


def of_record(subdir_key: str, file: str, record: Mapping[str, Any]) -> Build:
    return Build(
        str(record["name"]),
        str(record["version"]),
        str(record["build"]),
        int(record["build_number"]),
        subdir_key.rpartition("/")[2],
        tuple(record.get("depends", ())),
        file,
        f"{subdir_key}/{file}",
    )


def of_file(subdir_key: str, file: str) -> Build | None:
    """What a file's name says, of a yanked build that no index has a record of."""
    stem = next((file.removesuffix(suffix) for suffix in SUFFIXES if file.endswith(suffix)), "")
    parts = stem.rsplit("-", 2)
    if len(parts) != 3:
        return None
    last = parts[2].rpartition("_")[2]
    number = int(last) if last.isdecimal() else 0
    subdir = subdir_key.rpartition("/")[2]
    return Build(parts[0], parts[1], parts[2], number, subdir, (), file, f"{subdir_key}/{file}")


def in_main(present: Mapping[str, SubdirIndex]) -> Iterator[Build]:
    """The builds that the main channel offers; yanked ones are not among them."""
    for key, index in present.items():
        if label_of(f"{key}/x") is None:
            for file, record in index.records.items():
                yield of_record(key, file, record)


def in_labels(present: Mapping[str, SubdirIndex]) -> Iterator[tuple[str, Build]]:
    """Each label's builds, with the label."""
    for key, index in present.items():
        label = label_of(f"{key}/x")
        if label is not None:
            for file, record in index.records.items():
                yield label, of_record(key, file, record)


def yanked(present: Mapping[str, SubdirIndex]) -> Iterator[Build]:
    """Yanked builds, by their file names."""
    for key, index in present.items():
        for file in sorted(index.removed):
            build = of_file(key, file)
            if build is not None:
                yield build
