"""GPU arch and ROCm release of an environment: packages against each other and against the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE
from channel_tools.client.env_check.findings import Finding, listed
from channel_tools.client.env_check.package import Package
from channel_tools.client.env_check.prefix import Prefix
from channel_tools.client.host import Host, read_release

ROCM_LINK: Final = "lib/rocm-host"
"""The link of ``rocm-userspace`` through which libraries of ROCm are found."""


@dataclass(frozen=True)
class Wanted:
    """What an environment is held against.

    ``archs`` are the GPU targets that it may be for (empty: not known), ``rocm`` the release (None: not
    known); ``arch_from`` and ``rocm_from`` say whose they are. ``declared`` is true where the user named one
    of them, so that the host is not what counts.
    """

    archs: tuple[str, ...]
    arch_from: str
    rocm: str | None
    rocm_from: str
    declared: bool


def wanted(prefix: Path, host: Host, arch: str | None, rocm: str | None) -> Wanted:
    """What the user declares, else what the host has; its ROCm is the one that the environment leads to."""
    root = prefix / ROCM_LINK
    linked = read_release(root.resolve().parent) if root.is_symlink() and root.exists() else None
    release, where = (linked, str(root.resolve().parent)) if linked else (host.rocm, str(host.rocm_root))
    return Wanted(
        archs=(arch,) if arch else tuple(one.target for one in host.archs),
        arch_from="as declared" if arch else "as this host has it",
        rocm=rocm or release,
        rocm_from="as declared" if rocm else f"as this host has it in {where}",
        declared=bool(arch or rocm),
    )


def arch_findings(prefix: Prefix, packages: Sequence[Package], want: Wanted) -> Iterator[Finding]:
    """Of packages that name an arch."""
    by_arch: dict[str, list[Package]] = {}
    for one in packages:
        for arch in one.archs:
            by_arch.setdefault(arch, []).append(one)
    anew = "make the environment anew for one arch: rocm-channel install --prefix NEW ..."
    if len(by_arch) > 1:
        yield Finding(
            "arch-mixed",
            "packages for different GPU archs are in one environment",
            _least(by_arch)[0].info,
            found="; ".join(
                f"{arch}: {listed([p.name for p in some])}" for arch, some in sorted(by_arch.items())
            ),
            wanted="one arch",
            fix=anew,
            files=tuple(one.info for one in _least(by_arch)),
        )
    if want.archs:
        for arch, some in sorted(by_arch.items()):
            if arch not in want.archs:
                yield Finding(
                    "arch-other",
                    f"packages are for {arch}, not for {' or '.join(want.archs)} {want.arch_from}",
                    some[0].info,
                    found=f"{arch}: {listed([str(one) for one in some])}",
                    wanted=" or ".join(want.archs),
                    fix=_fix_arch(some, want),
                    files=tuple(one.info for one in some),
                )
    tied = {one.name for one in prefix.records}
    loose = [one for one in packages if one.by_conda and one.archs and one.name != ARCH_PACKAGE]
    if loose and ARCH_PACKAGE not in tied:
        yield Finding(
            "arch-unguarded",
            f"packages with GPU code are installed without {ARCH_PACKAGE}",
            loose[0].info,
            found=listed([str(one) for one in loose]),
            wanted=f"{ARCH_PACKAGE} for {loose[0].archs[0]}, on which they depend",
            fix=f"install {ARCH_PACKAGE}; without it the next update may bring code for another GPU",
            files=tuple(one.info for one in loose),
        )


def rocm_findings(packages: Sequence[Package], want: Wanted) -> Iterator[Finding]:
    """Of packages that name a ROCm release."""
    by_release: dict[str, list[Package]] = {}
    for one in packages:
        if one.rocm:
            by_release.setdefault(one.rocm, []).append(one)
    if len(by_release) > 1:
        guard = next((one for some in by_release.values() for one in some if one.name == ROCM_PACKAGE), None)
        yield Finding(
            "rocm-mixed",
            "packages for different ROCm releases are in one environment",
            _least(by_release)[0].info,
            found="; ".join(
                f"{r}: {listed([p.name for p in some])}" for r, some in sorted(by_release.items())
            ),
            wanted=f"{guard.rocm}, as {ROCM_PACKAGE} says" if guard else "one release",
            fix="make the environment anew for one release",
            files=tuple(one.info for one in _least(by_release)),
        )
    for release, some in sorted(by_release.items()):
        if want.rocm and release != want.rocm:
            yield Finding(
                "rocm-other",
                f"packages are for ROCm {release}, not for {want.rocm} {want.rocm_from}",
                some[0].info,
                found=f"ROCm {release}: {listed([str(one) for one in some])}",
                wanted=f"ROCm {want.rocm}",
                fix=f"install ROCm {release} where it runs, or make the environment anew for {want.rocm}",
                files=tuple(one.info for one in some),
            )


def _least(groups: dict[str, list[Package]]) -> list[Package]:
    """The packages of the smallest group: most likely the ones that do not belong."""
    return min(groups.values(), key=len)


def _fix_arch(some: Sequence[Package], want: Wanted) -> str:
    from_pip = [one for one in some if not one.by_conda]
    if from_pip:
        one = from_pip[0]
        version = f"{one.name}=={one.version.replace(some[0].archs[0], want.archs[0])}"
        return f"install it from the wheel index of {want.archs[0]}: pip install --index-url ... '{version}'"
    return f"make the environment anew: rocm-channel install --arch {want.archs[0]} --prefix NEW ..."
