"""What ``rocm-channel bump`` leaves to a person: one sentence for each thing to decide or do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from channel_tools.requirements.patch_check import MOVED, REJECTED

if TYPE_CHECKING:
    from channel_tools.requirements.bump import Bump
    from channel_tools.requirements.release import Said


def left_to_a_person(bump: Bump) -> Iterator[str]:
    """One sentence for each thing that a person has to decide or do."""
    for patch in bump.patches:
        if patch.state == REJECTED:
            yield f"make patch {patch.patch.name} anew: {patch.notes[0]}"
        elif patch.state == MOVED:
            yield f"look at patch {patch.patch.name}, which fits at other lines than its own"
    yield from _versions(bump, "torch", "pytorch_version", bump.after.torch)
    abi = bump.after.stable_abi
    if abi and _older(bump.stack.get("pytorch_version", ""), abi):
        yield f"build with torch {abi} or newer: it is compiled against the stable interface of {abi}"
    yield from _versions(bump, "triton", "triton_version", bump.after.triton)
    yield from _kernels(bump)
    yield from _modules(bump)
    for download in bump.after.left:
        yield f"pin or switch off the download of {download.name} ({download.address}, {download.where})"
    for difference in bump.differences:
        yield f"change recipe.yaml, or say why not in requirements.toml: {difference.name} {difference.what}"
    least, gcc = bump.after.least_gcc, bump.stack.get("cxx_compiler_version", "")
    # A major release alone stands for the newest one of it.
    if least and _older(gcc if "." in gcc else f"{gcc}.999", least):
        yield f"take GCC {least} or newer for this stack (cxx_compiler_version is {gcc})"
    for arch in bump.missing_archs:
        yield f"leave {arch} out for this stack: vLLM drops it without a word (HIP_SUPPORTED_ARCHS)"
    for name in bump.no_licences:
        yield f"correct license_file in recipe.yaml: the release has no {name}"
    yield from _pythons(bump)
    yield "run `rocm-channel deps` and `rocm-channel preflight` for the new version, then build"


def _modules(bump: Bump) -> Iterator[str]:
    """What the recipe's import tests and the policy for this version do not say of the modules."""
    built = {module.name for module in bump.after.modules if not module.optional}
    for name in sorted(built - set(bump.imports)):
        yield f"add {name} to the import tests of recipe.yaml"
    for name in bump.dropped_modules:
        if name in bump.imports:
            yield f"take {name} out of the import tests of recipe.yaml"
    if bump.policy is not None and set(bump.policy) != built:
        listed = ", ".join(sorted(bump.policy)) or "none"
        yield (
            f"correct [[modules]] in channel_tools/verify/policies for {bump.after.version}: it lists "
            f"{listed}, setup.py makes {', '.join(sorted(built))}"
        )


def _versions(bump: Bump, name: str, key: str, said: Sequence[Said]) -> Iterator[str]:
    """A sentence where upstream names another version than the matrix, or several."""
    ours = bump.stack.get(key, "")
    other = [one for one in said if one.value != ours]
    if other:
        places = "; ".join(f"{one.value} in {one.where}" for one in other)
        same = [one for one in said if one.value == ours]
        agree = f", and {ours} in {same[0].where}" if same else ""
        yield f"decide on {name}: the matrix has {ours}, upstream names {places}{agree}"


def _kernels(bump: Bump) -> Iterator[str]:
    kernels, ours = bump.after.kernels, bump.stack.get("triton_kernels_version", "")
    if kernels is None:
        return
    release = "triton-lang/triton" in kernels.address and re.fullmatch(r"v\d+(\.\d+)*", kernels.revision)
    if release and kernels.revision == f"v{ours}":
        return
    if release:
        yield (
            f"set triton_kernels_version to {kernels.revision[1:]} and its sha256: this release takes "
            f"triton_kernels from {kernels.address}"
        )
        return
    yield (
        f"give the recipe's second source by commit: this release takes triton_kernels from "
        f"{kernels.address} at {kernels.revision}, and the matrix names release {ours} of triton-lang"
    )


def _pythons(bump: Bump) -> Iterator[str]:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        allowed = SpecifierSet(bump.after.requires_python)
    except InvalidSpecifier:
        yield f"see which Python it takes: requires-python is {bump.after.requires_python!r}"
        return
    for python in bump.pythons:
        if not allowed.contains(f"{python}.0"):
            yield f"take Python {python} out for this stack: requires-python is {bump.after.requires_python}"


def _older(version: str, than: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version) < Version(than)
    except InvalidVersion:
        return False
