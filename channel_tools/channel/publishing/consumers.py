"""The kinds of hosts that a release has packages for, and what each of them asks a solver."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from channel_tools.channel.layout import arch_label, combined_label, rocm_label
from channel_tools.channel.release import ReleaseFile
from channel_tools.model import arch as registry

DETECTED, DECLARED, UNKNOWN = "detected", "declared", "unknown GPU"
_ISA_OF_NO_GPU = "999.9.9"
_GLIBC = (2, 39)
_HOST = (("__unix", "0", "0"), ("__linux", "6.8", "0"), ("__archspec", "1", "x86_64_v4"))
"""A host of today. That packages ask for no newer glibc than they should is what `verify` looks at."""

_ASKS_FOR_GLIBC = re.compile(r"__glibc >=(\d+)\.(\d+)")


def glibc_of_hosts(toolchain: str | None, records: Iterable[Mapping[str, Any]]) -> str:
    """Version of the C library of the hosts that a channel is for.

    Builds with a host's own tools run on hosts that are as new as that one, whatever is usual today.

    :param toolchain: the channel's
    :param records: what its indexes have
    """
    asked = (
        (int(found[1]), int(found[2]))
        for record in (records if toolchain == "host" else ())
        for text in record.get("depends", ())
        if (found := _ASKS_FOR_GLIBC.match(text))
    )
    return ".".join(map(str, max([_GLIBC, *asked])))


@dataclass(frozen=True)
class Case:
    """One kind of host and one package that it asks for; ``exact`` is the file where no other will do."""

    way: str
    arch: str | None
    rocm: str | None
    python: str | None
    name: str
    exact: ReleaseFile | None = None

    def fits(self, file: ReleaseFile) -> bool:
        return (
            file.arch in (None, self.arch)
            and file.rocm in (None, self.rocm)
            and file.python in (None, self.python)
        )

    @property
    def label(self) -> str | None:
        """The label in front of the channel."""
        if self.way != DECLARED:
            return None
        if self.arch and self.rocm:
            return combined_label(self.arch, self.rocm)
        return arch_label(self.arch) if self.arch else rocm_label(self.rocm) if self.rocm else None

    def specs(self) -> list[str]:
        wanted = f"{self.name} =={self.exact.version} {self.exact.build}" if self.exact else self.name
        return [wanted, f"python {self.python}.*"] if self.python else [wanted]

    def virtual(self, glibc: str) -> list[list[str]]:
        found = [*(list(package) for package in _HOST), ["__glibc", glibc, "0"]]
        if self.way != DECLARED and self.arch is not None:
            known = registry.lookup(self.arch)
            isa = known.isa if known and self.way == DETECTED else _ISA_OF_NO_GPU
            found += [["__amdgpu", "0", "0"], ["__amdgpu_arch", isa, "0"]]
        if self.way != DECLARED and self.rocm is not None:
            found.append(["__rocm_userspace", self.rocm, "0"])
        return found

    def __str__(self) -> str:
        words = [self.arch if self.way != UNKNOWN else None, self.rocm and f"ROCm {self.rocm}"]
        words += [self.python and f"Python {self.python}", self.way]
        return f"{self.exact.name if self.exact else self.name} for " + ", ".join(
            word for word in words if word
        )


def cases_of(main: Sequence[ReleaseFile]) -> Iterator[Case]:
    """Each package of a release for each kind of host that it has packages for.

    :param main: the files of the main channel
    """
    archs: list[str | None] = [*sorted({file.arch for file in main if file.arch})]
    releases: list[str | None] = [*sorted({file.rocm for file in main if file.rocm})]
    pairs = sorted({(file.arch, file.rocm) for file in main if file.arch and file.rocm})
    for arch, rocm in pairs or product(archs or [None], releases or [None]):
        fitting = [file for file in main if file.arch in (None, arch) and file.rocm in (None, rocm)]
        pythons: list[str | None] = [*sorted({file.python for file in fitting if file.python})]
        for name in sorted({file.name for file in fitting}):
            own = [file for file in fitting if file.name == name]
            for python in [p for p in pythons if any(p == f.python for f in own)] or pythons[:1] or [None]:
                ways = [DETECTED, DECLARED] if arch or rocm else [DETECTED]
                if any(file.arch for file in own):
                    ways.append(UNKNOWN)
                yield from (Case(way, arch, rocm, python, name) for way in ways)


def exactly(file: ReleaseFile, cases: Sequence[Case]) -> list[Case]:
    """A host that asks for this very file, for one that no host takes by its name alone."""
    fitting = [case for case in cases if case.fits(file) and case.way == DETECTED]
    return [replace(case, name=file.name, exact=file) for case in fitting[:1]]
