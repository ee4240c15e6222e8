"""Every dependency can be had: in the release, in the channel, or in one that consumers add after it."""

from __future__ import annotations

from collections.abc import Iterator

from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE
from channel_tools.channel.publishing.checks import specs
from channel_tools.channel.publishing.checks.builds import Build, rocm_word
from channel_tools.channel.publishing.checks.names import conda_forge
from channel_tools.channel.publishing.checks.reasons import Candidate, Reason


def dependencies(candidate: Candidate) -> Iterator[Reason]:
    """Dependencies that nothing provides, and such that only another arch or ROCm release provides.

    A name that the release or the channel has is looked for nowhere else: so does a client with strict
    channel priority.
    """
    for build in candidate.builds:
        for spec in build.depends:
            reason = _reason(candidate, build, spec)
            if reason:
                yield reason


def _reason(candidate: Candidate, build: Build, spec: str) -> Reason | None:
    name = specs.name_of(spec)
    if name is None:
        return Reason("dependency", build.where, "has a dependency that cannot be read", found=spec)
    if name.startswith("__"):
        return _virtual(build, name)
    ours = candidate.by_name.get(name)
    if ours is None:
        return _elsewhere(candidate, build, name, spec)
    fitting = specs.matching(spec, ours)
    if not fitting:
        return Reason(
            "dependency",
            build.where,
            f"needs a build of {name} that neither the release nor the channel has",
            found=spec,
            wanted="one of " + "; ".join(sorted({f"{b.version} {b.build}" for b in ours})[:8]),
            fix=f"publish that {name} together with it, or first",
        )
    if not any(_agree(build, other) for other in fitting):
        return Reason(
            "mixed-stack",
            build.where,
            f"needs {name}, which is there for another GPU arch, ROCm release or Python only",
            found=f"{spec}: {'; '.join(sorted({other.build for other in fitting})[:8])}",
            wanted=" ".join(word for word in (build.rocm, build.arch, build.python) if word),
            fix=f"publish the {name} of its own variant together with it, or first",
        )
    return None


def _virtual(build: Build, name: str) -> Reason | None:
    if name not in conda_forge().virtual:
        return Reason(
            "dependency",
            build.where,
            "depends on a virtual package that no client reports",
            found=name,
            wanted="one of " + ", ".join(sorted(conda_forge().virtual)),
        )
    if name == "__amdgpu_arch" and build.name != ARCH_PACKAGE:
        return Reason(
            "virtual",
            build.where,
            f"names __amdgpu_arch itself, so no label can declare its arch: only {ARCH_PACKAGE} may",
            fix=f"depend on {ARCH_PACKAGE} in its place",
        )
    if name == "__rocm_userspace" and build.name != ROCM_PACKAGE:
        return Reason(
            "virtual",
            build.where,
            f"names __rocm_userspace itself, so no label can declare its release: only {ROCM_PACKAGE} may",
            fix=f"depend on {ROCM_PACKAGE} in its place",
        )
    return None


def _elsewhere(candidate: Candidate, build: Build, name: str, spec: str) -> Reason | None:
    channels = candidate.settings.dependency_channels
    known = conda_forge()
    provided = candidate.provided(name) if channels else False
    if name in known.aliases:
        provided = False  # the only ones that fit are ours
    elif provided is None:
        provided = known.has(name)
    if provided:
        return None
    return Reason(
        "dependency",
        build.where,
        "depends on what no channel provides",
        found=spec,
        wanted=f"{name} in the release, in the channel, or in one of its dependency channels: "
        + (", ".join(channels) or "it has none"),
        fix=f"publish {name} together with it, or name a channel that has it in channel.json "
        "(`rocm-channel channel init CHANNEL --change --dependency-channel`)",
    )


def _agree(build: Build, other: Build) -> bool:
    """Can both be in one environment, as far as arch, ROCm release and Python go?"""
    theirs = other.words[0] if other.name == ARCH_PACKAGE else other.arch
    release = rocm_word(other.version) if other.name == ROCM_PACKAGE else other.rocm
    pairs = ((build.arch, theirs), (build.rocm, release), (build.python, other.python))
    return all(a is None or b is None or a == b for a, b in pairs)
