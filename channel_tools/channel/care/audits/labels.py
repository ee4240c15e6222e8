"""Labels: each has exactly the declared builds that it is for, and the main channel has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from channel_tools.channel.care.audits.findings import Finding, listed
from channel_tools.channel.index.encoding import SubdirIndex
from channel_tools.channel.layout import (
    ARCH_PACKAGE,
    ROCM_PACKAGE,
    arch_label,
    combined_label,
    rocm_label,
    subdir_key,
)
from channel_tools.channel.publishing.checks.builds import Build, in_labels, in_main
from channel_tools.channel.publishing.checks.routing import labels_of
from channel_tools.model.errors import ChannelError

_ROUTE = "yank it there; `rocm-channel publish` puts each build where it belongs"


def check_labels(indexes: Mapping[str, SubdirIndex]) -> Iterator[Finding]:
    """See the module's docstring. A declared build in the main channel would give every client every arch."""
    for build in in_main(indexes):
        if build.declared:
            yield Finding(
                build.where,
                "label",
                "is a declared build in the main channel, which gives it to every host whatever its GPU",
                fix="yank it now: `rocm-channel yank CHANNEL "
                + build.where
                + " --reason 'declared build in the main channel'`",
            )
    there = list(in_labels(indexes))
    for label, build in there:
        fault = _misplaced(label, build)
        if fault:
            yield Finding(build.where, "label", fault, fix=_ROUTE)
    yield from _missing(
        indexes, {(label, build.name, _axis(build)) for label, build in there if build.declared}
    )


def _misplaced(label: str, build: Build) -> str | None:
    if not build.declared:
        return f"is no declared build, and lies in label {label}, where only declared ones belong"
    try:
        own = labels_of(build, (), {})
    except ChannelError as error:
        return error.what
    axis = _axis(build)
    combined = (
        label.startswith(f"{axis}-rocm") if build.name == ARCH_PACKAGE else label.endswith(f"-rocm{axis}")
    )
    return None if label in own or combined else f"is declared for {axis}, and lies in label {label}"


def _missing(indexes: Mapping[str, SubdirIndex], there: set[tuple[str, str, str]]) -> Iterator[Finding]:
    """Labels that the detected builds of the main channel want."""
    detected = [b for b in in_main(indexes) if b.selects and "detected" in b.words]
    archs = {_axis(b) for b in detected if b.name == ARCH_PACKAGE}
    releases = {_axis(b) for b in detected if b.name == ROCM_PACKAGE}
    wanted = {(arch_label(arch), ARCH_PACKAGE, arch) for arch in archs}
    wanted |= {(rocm_label(release), ROCM_PACKAGE, release) for release in releases}
    for arch in archs:
        for release in releases:
            wanted.add((combined_label(arch, release), ARCH_PACKAGE, arch))
            wanted.add((combined_label(arch, release), ROCM_PACKAGE, release))
    lacking: dict[str, list[str]] = {}
    for label, name, axis in wanted - there:
        lacking.setdefault(label, []).append(f"{name} for {axis}")
    for label, names in sorted(lacking.items()):
        index = indexes.get(subdir_key(label, "linux-64"))
        if index is not None and not index.exists:  # a finding of its own
            continue
        yield Finding(
            subdir_key(label, "linux-64"),
            "label",
            "lacks the declared build that hosts without detection install",
            wanted=listed(names),
            fix="publish it: `rocm-channel build amdgpu-arch rocm-userspace`",
        )


def _axis(build: Build) -> str:
    return build.words[0] if build.name == ARCH_PACKAGE else build.version
