"""Builds that a newer one of their variant replaces, and that nothing which stays needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from channel_tools.channel.care.upkeep import State
from channel_tools.channel.publishing.checks import specs
from channel_tools.channel.publishing.checks.builds import Build, in_main


def superseded(state: State) -> list[tuple[Build, Build]]:
    """Builds of the main channel that a newer one of their variant replaces, and that no kept one needs."""
    newest: dict[tuple[str, str, str], Build] = {}
    builds = list(in_main(state.indexes))
    for build in builds:
        slot = (build.subdir, build.name, build.variant)
        # ROCm releases and GPU archs are versions of the packages that select them, so none replaces another.
        if not build.selects and (slot not in newest or _rank(newest[slot]) < _rank(build)):
            newest[slot] = build
    old = {
        build.where: (build, first)
        for build in builds
        if (first := newest.get((build.subdir, build.name, build.variant))) is not None and first != build
    }
    while needed := _needed(builds, {where: pair[0] for where, pair in old.items()}):
        for where in needed:
            del old[where]
    return list(old.values())


def _needed(builds: Sequence[Build], old: dict[str, Build]) -> set[str]:
    """Those of the old builds without which a build that stays has a dependency that nothing provides."""
    by_name: dict[str, list[Build]] = {}
    for build in builds:
        by_name.setdefault(build.name, []).append(build)
    names = {build.name for build in old.values()}
    found: set[str] = set()
    for build in builds:
        for spec in build.depends if build.where not in old else ():
            name = specs.name_of(spec)
            if name not in names:
                continue
            fitting = specs.matching(spec, by_name[str(name)])
            own = [f for f in fitting if _fits(build, f)]
            if own and all(f.where in old for f in own):
                found |= {f.where for f in own}
    return found


def _fits(build: Build, other: Build) -> bool:
    pairs = ((build.arch, other.arch), (build.rocm, other.rocm), (build.python, other.python))
    return all(a is None or b is None or a == b for a, b in pairs)


def _rank(build: Build) -> tuple[Any, int]:
    from rattler import Version

    return Version(build.version), build.number
