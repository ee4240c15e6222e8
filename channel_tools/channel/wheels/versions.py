"""GPU arch and ROCm release in the local version of a wheel: ``0.1.0+rocm72.gfx942``.

A wheel has no field for either. A local version (PEP 440) stands in the file name, in the metadata and in the
name of the installed ``.dist-info`` folder, so no cache, lock file or environment takes one arch for another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import Version

ARCH = re.compile(r"gfx[0-9]+[0-9a-f]{2}")
RELEASE = re.compile(r"\d+\.\d+")
"""A ROCm release, X.Y."""
_ROCM = re.compile(r"rocm([0-9]+)")


@dataclass(frozen=True)
class LocalFacts:
    """What a local version says.

    ``archs`` are its GPU targets. ``rocm`` holds the numbers of the ROCm release as they are written:
    ``("72",)`` for ``rocm72``, ``("7", "0")`` for ``rocm7.0``; empty where it names none.
    """

    archs: tuple[str, ...] = ()
    rocm: tuple[str, ...] = ()

    @property
    def release(self) -> str | None:
        """ROCm release as X.Y; None where none is named, or where the digits can be read in two ways."""
        if len(self.rocm) > 1:
            return f"{self.rocm[0]}.{self.rocm[1]}"
        if len(self.rocm) == 1 and len(self.rocm[0]) == 2:
            return f"{self.rocm[0][0]}.{self.rocm[0][1]}"
        return None

    def is_of(self, release: str) -> bool:
        """May this be that release? ``rocm72`` and ``rocm720`` are 7.2, ``rocm714`` is 7.14 or 7.1."""
        if not self.rocm:
            return False
        if len(self.rocm) > 1:
            return self.release == release
        digits = release.replace(".", "")
        return self.rocm[0] == digits or (
            self.rocm[0].startswith(digits) and len(self.rocm[0]) == len(digits) + 1
        )


def local_facts(version: str) -> LocalFacts:
    """Read the local part of a version; nothing of one that PEP 440 does not allow."""
    try:
        local = Version(version).local
    except ValueError:  # InvalidVersion, and numbers without end
        return LocalFacts()
    segments = (local or "").split(".") if local else []
    archs = tuple(segment for segment in segments if ARCH.fullmatch(segment))
    return LocalFacts(archs, _rocm(segments))


def _rocm(segments: Sequence[str]) -> tuple[str, ...]:
    for index, segment in enumerate(segments):
        if match := _ROCM.fullmatch(segment):
            numbers = [match[1]]
            for following in segments[index + 1 :]:
                if not following.isdecimal():
                    break
                numbers.append(following)
            return tuple(numbers)
    return ()


def release_tag(release: str) -> str:
    """``rocm72`` for 7.2, as in the build strings of packages."""
    return f"rocm{release.replace('.', '')}"


def with_local(version: str, release: str, arch: str) -> str:
    """The version with what its local part lacks of ROCm release and arch, in PEP 440's own spelling.

    :raises InvalidVersion: a version that PEP 440 does not allow
    """
    parsed = Version(version)
    facts = local_facts(version)
    local = parsed.local.split(".") if parsed.local else []
    if not facts.rocm:
        local.append(release_tag(release))
    if arch not in facts.archs:
        local.append(arch)
    return f"{parsed.public}+{'.'.join(local)}"
