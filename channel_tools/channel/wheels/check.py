"""Which index a wheel belongs into: what it says, what is asked for, and what its binaries hold."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from channel_tools.channel.wheels.file import Wheel, read_wheel
from channel_tools.channel.wheels.pages import Place
from channel_tools.channel.wheels.versions import RELEASE, LocalFacts, local_facts, with_local
from channel_tools.model.errors import ChannelError, DamagedFileError, VerifyError
from channel_tools.model.package import sha256
from channel_tools.verify import Report, exit_code, verify_path
from channel_tools.verify.reading_cache import ReadingCache, default_folder

_HIP = re.compile(r"libamdhip64\.so\.(\d+)")


@dataclass(frozen=True)
class Candidate:
    """A wheel that was verified: where it goes, and the version that it has there.

    ``sha256`` is that of the file as it was given.
    """

    wheel: Wheel
    place: Place
    version: str
    sha256: str
    notes: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        return self.wheel.file_name(self.version)


def check_wheel(
    path: Path, *, arch: str | None = None, rocm: str | None = None, policy: Path | None = None
) -> Candidate:
    """Verify a wheel, and find out its GPU arch and ROCm release.

    The arch is what its binaries hold, and must be one; the release is what its local version names, or
    ``rocm``.

    :param arch: GPU target that it must be for
    :param rocm: ROCm release (X.Y) of a wheel that does not name one
    :param policy: a policy of verify that it must keep
    :raises VerifyError: no GPU code, code for several archs, or for another than it says
    :raises DamagedFileError: damaged bytes, or a RECORD that is not true
    :raises ChannelError: no release is known, or a contradiction
    """
    wheel = read_wheel(path)
    said = local_facts(wheel.version)
    release = _release(wheel, said, rocm)
    cache = ReadingCache(default_folder())
    listed = verify_path(path, cache=cache)
    _refuse_damage(listed, path)
    found = _only_arch(wheel, listed, said, arch)
    report = verify_path(path, frozenset({found}), policy=policy, cache=cache)
    if exit_code([report]):
        faults = report.all_faults()
        raise VerifyError(
            f"is not for {found} alone",
            where=path,
            found="; ".join(faults[:5]),
            wanted=f"GPU code for {found}, and nothing else",
            fix="build it again for one arch",
        )
    version = with_local(wheel.version, release, found)
    notes = tuple(_notes(wheel, report, release, version))
    return Candidate(wheel, Place(release, found), version, report.sha256 or sha256(path), notes)


def _release(wheel: Wheel, said: LocalFacts, rocm: str | None) -> str:
    if rocm is not None and not RELEASE.fullmatch(rocm):
        raise ChannelError(f"{rocm} is no ROCm release", wanted="X.Y, such as 7.2", fix="correct --rocm")
    if rocm is None:
        if said.release is None:
            raise ChannelError(
                "does not say for which ROCm release it was built",
                where=wheel.path,
                found=f"version {wheel.version}",
                wanted="a local version such as +rocm7.2",
                fix="say it with --rocm X.Y",
            )
        return said.release
    if said.rocm and not said.is_of(rocm):
        raise ChannelError(
            f"is for another ROCm release than {rocm}",
            where=wheel.path,
            found=f"version {wheel.version}",
            wanted=f"rocm{rocm}",
            fix="leave out --rocm, or add the wheel of that release",
        )
    return rocm


def _refuse_damage(report: Report, path: Path) -> None:
    if report.damaged:
        raise DamagedFileError(
            "holds damaged files",
            where=path,
            found="; ".join(report.all_faults()[:5]),
            fix="build or fetch it again",
        )


def _only_arch(wheel: Wheel, report: Report, said: LocalFacts, arch: str | None) -> str:
    found = sorted({target.partition(":")[0] for target in report.targets()})
    asked = [(arch, "asked for")] if arch else []
    asked += [(one, f"named by its version {wheel.version}") for one in said.archs]
    if not found:
        raise VerifyError(
            "holds no GPU code, so it is for no arch",
            where=wheel.path,
            wanted="a wheel with code for one arch",
            fix="serve it from an index for all machines; if it should have code, it was built without HIP",
        )
    if len(found) > 1:
        raise VerifyError(
            "holds code for several archs, and an index is for one",
            where=wheel.path,
            found=", ".join(found),
            wanted=arch or "one of them",
            fix="build it for one arch at a time (PYTORCH_ROCM_ARCH, CMAKE_HIP_ARCHITECTURES)",
        )
    for one, who in asked:
        if one != found[0]:
            raise VerifyError(
                f"holds code for another arch than is {who}",
                where=wheel.path,
                found=found[0],
                wanted=one,
                fix="add the wheel that was built for it",
            )
    return found[0]


def _notes(wheel: Wheel, report: Report, release: str, version: str) -> list[str]:
    notes = []
    if version != wheel.version:
        notes.append(
            f"{wheel.path.name}: gets the version {version}; its own code still says {wheel.version}"
        )
    libraries = {name for file in report.files if file.linkage for name in file.linkage.needed}
    numbers = {match[1] for name in libraries if (match := _HIP.fullmatch(name))}
    others = sorted(numbers - {release.partition(".")[0]})
    if others:
        notes.append(
            f"{wheel.path.name}: needs libamdhip64.so.{others[0]}, which is not what ROCm {release} has"
        )
    return notes
