"""What a conda package says of itself in ``info/index.json`` and ``info/about.json``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.model.errors import DamagedFileError

SUFFIXES = (".conda", ".tar.bz2")
METADATA_LIMIT = 16 << 20
"""Bytes of a metadata file that are read at most: a few kilobytes of a hostile package may hold gigabytes."""


@dataclass(frozen=True)
class Package:
    """Metadata of one package file. ``extra`` is the ``extra`` mapping of ``about.json``."""

    path: Path
    name: str
    version: str
    build: str
    build_number: int
    subdir: str
    depends: tuple[str, ...]
    extra: Mapping[str, Any]

    @property
    def stem(self) -> str:
        return f"{self.name}-{self.version}-{self.build}"

    @property
    def declared(self) -> bool:
        """A declared build of ``amdgpu-arch`` or ``rocm-userspace``, by its build string."""
        return "declared" in self.build.split("_")

    @property
    def toolchain(self) -> str | None:
        """``conda``, ``host``, or ``None`` for a package that no compiler made."""
        value = self.extra.get("toolchain")
        return None if value is None else str(value)


def package_stem(path: Path) -> str:
    """File name without the suffix of either package format."""
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    return path.stem


def read_package(path: Path) -> Package:
    """Read the metadata of a ``.conda`` or ``.tar.bz2``.

    :raises DamagedFileError: no package, or one that ends early
    """
    from conda_package_streaming.package_streaming import stream_conda_info

    wanted = {"info/index.json", "info/about.json"}
    found: dict[str, Any] = {}
    try:
        for tar, member in stream_conda_info(str(path)):
            if member.name in wanted:
                if member.size > METADATA_LIMIT:
                    raise ValueError(f"{member.name} of {member.size} bytes")
                handle = tar.extractfile(member)
                found[member.name] = json.load(handle) if handle else {}
            if len(found) == len(wanted):
                break
        index = found["info/index.json"]
        return Package(
            path=path,
            name=index["name"],
            version=index["version"],
            build=index["build"],
            build_number=int(index["build_number"]),
            subdir=index["subdir"],
            depends=tuple(index.get("depends", ())),
            extra=_mapping(_mapping(found.get("info/about.json")).get("extra")),
        )
    except FileNotFoundError:
        raise
    except Exception as error:
        raise DamagedFileError(
            "cannot be read as a conda package", where=path, found=f"{type(error).__name__}: {error}"
        ) from error


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def sha256(path: Path) -> str:
    """SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
