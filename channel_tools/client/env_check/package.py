"""One installed package: its files, and the GPU arch and ROCm release that it names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE
from channel_tools.channel.wheels.versions import LocalFacts, local_facts

OURS: Final = frozenset(
    {"torch", "triton", "vllm", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm", "pytorch-rocm"}
    | {"vllm-rocm", "rocm-canary"}
)
"""Names of packages with GPU code, as conda and as pip call them."""

_ARCH = re.compile(r"(?:^|_)(gfx[0-9]+[0-9a-f]{2})(?=_|$)")
_ISA = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_RELEASE = re.compile(r"=*\s*(\d+\.\d+)")

EntryKind = Literal["file", "link", "folder"]


@dataclass(frozen=True)
class Entry:
    """A path of a package, below the prefix.

    ``sha256`` holds the digests that the content may have (empty: any), of a link that the text of its target
    or the content there may have; ``size`` is the number of bytes (None: any). ``placeholder`` is what the
    prefix took the place of in a text whose digest was ``packed`` before, where no other is known.
    """

    path: str
    kind: EntryKind = "file"
    sha256: frozenset[str] = frozenset()
    size: int | None = None
    placeholder: str | None = None
    packed: str = ""


@dataclass(frozen=True, eq=False)
class Package:
    """One installed package.

    ``source`` is ``conda`` or what ``INSTALLER`` says, usually ``pip``. ``info`` is the record or the
    ``.dist-info`` folder, below the prefix; ``folder`` of a distribution is the folder that it is in.
    """

    source: str
    name: str
    version: str
    build: str
    info: str
    depends: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = field(default=(), repr=False)
    folder: str = ""
    cache: str | None = None

    def __str__(self) -> str:
        return " ".join(part for part in (self.name, self.version, self.build) if part)

    @property
    def by_conda(self) -> bool:
        return self.source == "conda"

    @cached_property
    def paths(self) -> frozenset[str]:
        return frozenset(entry.path for entry in self.entries)

    @cached_property
    def local(self) -> LocalFacts:
        return LocalFacts() if self.by_conda else local_facts(self.version)

    @cached_property
    def archs(self) -> tuple[str, ...]:
        """GPU targets that the package names, sorted."""
        found = set(_ARCH.findall(self.build)) | set(self.local.archs)
        versions = [_after(spec, ARCH_PACKAGE) for spec in self.depends]
        if self.by_conda and self.name == ARCH_PACKAGE:
            versions.append(self.version)
        matches = (_ISA.search(version) for version in versions if version)
        found |= {f"gfx{int(m[1])}{int(m[2]):x}{int(m[3]):x}" for m in matches if m}
        return tuple(sorted(found))

    @cached_property
    def rocm(self) -> str | None:
        """ROCm release (X.Y) that the package is for, as far as that can be told without a doubt."""
        if self.by_conda and self.name == ROCM_PACKAGE:
            return _release_of(self.version)
        versions = (_after(spec, ROCM_PACKAGE) for spec in self.depends)
        return next((r for v in versions if v and (r := _release_of(v))), None) or self.local.release

    @property
    def is_ours(self) -> bool:
        """Is it of those that hold GPU code, or choose it?"""
        return bool(
            self.name in OURS
            or (self.by_conda and self.name in (ARCH_PACKAGE, ROCM_PACKAGE))
            or self.archs
            or self.local.rocm
            or any(
                _after(spec, name) is not None
                for spec in self.depends
                for name in (ARCH_PACKAGE, ROCM_PACKAGE)
            )
        )


def _after(spec: str, name: str) -> str | None:
    """What a match spec says after that name; None for a spec of another package."""
    match = re.fullmatch(rf"{re.escape(name)}(?:[\s=<>!~](.*))?", spec.strip())
    return None if match is None else (match[1] or "").strip()


def _release_of(text: str) -> str | None:
    match = _RELEASE.match(text)
    return match[1] if match else None
