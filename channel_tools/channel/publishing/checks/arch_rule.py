"""A package with GPU code is tied to exactly one arch, and says the same of it everywhere."""

from __future__ import annotations

from collections.abc import Iterator

from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE
from channel_tools.channel.publishing.checks import specs
from channel_tools.channel.publishing.checks.builds import Build, rocm_word
from channel_tools.channel.publishing.checks.reasons import Candidate, Reason
from channel_tools.model import arch as registry


def one_arch(candidate: Candidate) -> Iterator[Reason]:
    """Build string, ``about.json``, dependency and binaries name one arch, which the dependency pins."""
    for build in candidate.builds:
        if build.selects:
            continue
        said = _said(candidate, build)
        targets = {target for found in said.values() for target in found}
        if not targets:
            continue
        if len(targets) > 1:
            yield Reason(
                "arch",
                build.where,
                "names several GPU archs, and a package is for one",
                found="; ".join(f"{who}: {', '.join(sorted(what))}" for who, what in said.items() if what),
                wanted="one arch everywhere",
                fix="build it again from one variant",
            )
            continue
        yield from _pinned(candidate, build, targets.pop())


def _pinned(candidate: Candidate, build: Build, target: str) -> Iterator[Reason]:
    known = registry.lookup(target)
    if known is None:
        yield Reason("arch", build.where, "names a GPU arch that there is not", found=target)
    elif not _pins(build) and not _is_alias(candidate, build, target):
        yield Reason(
            "arch-pin",
            build.where,
            f"is for {target}, and would be installed on any GPU",
            found=", ".join(spec for spec in build.depends if specs.name_of(spec) == ARCH_PACKAGE)
            or f"no dependency on {ARCH_PACKAGE}",
            wanted=f"{ARCH_PACKAGE} =={known.isa}",
            fix=f"put {ARCH_PACKAGE} into the host requirements of its recipe, and build it again",
        )


def one_release(candidate: Candidate) -> Iterator[Reason]:
    """Build string and ``about.json`` name one ROCm release."""
    for build in candidate.builds:
        said = build.package.extra.get("rocm_version") if build.package else None
        if said is not None and build.rocm is not None and rocm_word(str(said)) != build.rocm:
            yield Reason(
                "rocm",
                build.where,
                "names two ROCm releases",
                found=f"build string: {build.rocm}; extra.rocm_version: {said}",
                wanted="one of them",
                fix="build it again from one variant",
            )


def selection(candidate: Candidate) -> Iterator[Reason]:
    """The packages that select: a detected build asks the client for what it is for, a declared one never.

    A declared build goes to a label by its build string, so a detected one that asks nothing would offer
    its arch to every client of the main channel.
    """
    for build in candidate.builds:
        if build.name == ARCH_PACKAGE:
            yield from _selects_arch(build)
        elif build.name == ROCM_PACKAGE:
            wanted = {"__rocm_userspace": build.version} if "detected" in build.words else {}
            yield from _asks(build, "__rocm_userspace", wanted)
        elif build.declared:
            yield Reason(
                "declared",
                build.where,
                "is a declared build of a package that no label channel is for",
                found=build.build,
                wanted=f"only {ARCH_PACKAGE} and {ROCM_PACKAGE} have declared builds",
                fix="give it another build string",
            )


def _selects_arch(build: Build) -> Iterator[Reason]:
    target, known = build.words[0], registry.lookup(build.words[0])
    said = build.package.extra.get("rocm_arch") if build.package else None
    if known is None or known.isa != build.version or said not in (None, target):
        yield Reason(
            "arch",
            build.where,
            "names a GPU arch and the ISA version of another",
            found=f"build string: {build.build}; version: {build.version}; extra.rocm_arch: {said}",
            wanted=f"{known.target} and {known.isa}" if known else "a GPU target, as gfx942_detected_0",
            fix="build it from recipes/amdgpu-arch",
        )
    elif not {"detected", "declared"} & set(build.words):
        yield Reason(
            "selection",
            build.where,
            "is neither a detected nor a declared build, so it is not known who may install it",
            found=build.build,
            wanted=f"{target}_detected_{build.number} or {target}_declared_{build.number}",
            fix="build it from recipes/amdgpu-arch",
        )
    else:
        yield from _asks(build, "__amdgpu", {} if build.declared else {"__amdgpu_arch": known.isa})


def _asks(build: Build, prefix: str, wanted: dict[str, str]) -> Iterator[Reason]:
    """Virtual packages that begin with ``prefix``: exactly the wanted ones with exactly these versions."""
    asked = [spec for spec in build.depends if str(specs.name_of(spec)).startswith(prefix)]
    pins = {str(specs.name_of(spec)): specs.exact_version(spec) for spec in asked}
    plain = {"__amdgpu"} if wanted else set()
    if {name: version for name, version in pins.items() if name not in plain} != wanted:
        yield Reason(
            "selection",
            build.where,
            "would be installed on hosts that it is not for"
            if wanted
            else "asks the client for what its label is there to declare",
            found=", ".join(asked) or "no virtual package",
            wanted=", ".join(f"{name} =={version}" for name, version in wanted.items()) or "none",
            fix=f"build it from recipes/{build.name}",
        )


def _said(candidate: Candidate, build: Build) -> dict[str, set[str]]:
    """GPU archs by who names them. Binaries that a policy lets hold further targets only confirm one."""
    extra = build.package.extra if build.package else {}
    said = {
        "build string": {build.arch} if build.arch else set(),
        "extra.rocm_arch": _listed(extra.get("rocm_arch")),
        "extra.gfx_targets": _listed(extra.get("gfx_targets")),
        f"dependency on {ARCH_PACKAGE}": {_target_of(isa) for isa in _pins(build)},
    }
    named = {target for found in said.values() for target in found}
    targets = set(candidate.targets(build))
    said["binaries"] = targets & named if targets & named else targets
    return said


def _listed(value: object) -> set[str]:
    items = (
        value if isinstance(value, list | tuple) else str(value).replace(",", " ").split() if value else []
    )
    return {str(item).split(":")[0] for item in items}


def _pins(build: Build) -> set[str]:
    """ISA versions that exact dependencies on ``amdgpu-arch`` name."""
    pins = (specs.exact_version(spec) for spec in build.depends if specs.name_of(spec) == ARCH_PACKAGE)
    return {isa for isa in pins if isa}


def _target_of(isa: str) -> str:
    """``gfx90a`` of ``9.0.10``: the last two numbers are hexadecimal digits."""
    parts = isa.split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return f"ISA {isa}"
    return f"gfx{parts[0]}{int(parts[1]):x}{int(parts[2]):x}"


def _is_alias(candidate: Candidate, build: Build, target: str) -> bool:
    """No GPU code of its own, and tied to a build of that arch which has it: the alias ``pytorch``."""
    if candidate.targets(build) or (build.package and build.package.extra.get("gfx_targets")):
        return False
    for spec in build.depends:
        parsed = specs.parse(spec)
        if parsed is not None and parsed.build is not None and target in str(parsed.build).split("_"):
            return bool(candidate.by_name.get(str(specs.name_of(spec))))
    return False
