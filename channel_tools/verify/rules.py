"""Whether what was found is what was declared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from channel_tools.verify.findings import Fault
from channel_tools.verify.package_info import PackageInfo
from channel_tools.verify.report import FileReport
from channel_tools.verify.targets import base_of


def compare_files(
    files: Sequence[FileReport], expected: frozenset[str], whose: str
) -> tuple[FileReport, ...]:
    """Add a fault to each file with code for a target that is not expected.

    :param whose: who expects them, for messages: ``as the package declares``
    """
    if not expected:
        return tuple(files)
    wanted = f"{', '.join(sorted(expected))}, {whose}"
    return tuple(
        replace(
            file,
            faults=file.faults
            + tuple(_surplus(target, expected, wanted) for target in file.targets if target not in expected),
        )
        for file in files
    )


def _surplus(target: str, expected: frozenset[str], wanted: str) -> Fault:
    plain = base_of(target)
    if plain != target and plain in expected:
        return Fault(
            f"code for one setting of {plain} only: a GPU that is set otherwise cannot load it",
            found=target,
            wanted=wanted,
            fix=f"build with --offload-arch={plain}, without xnack and sramecc, or declare {target}",
        )
    return Fault(
        f"code for {target}",
        found=target,
        wanted=wanted,
        fix="build it again for the wanted target alone, in an empty build folder",
    )


def compare_whole(
    targets: frozenset[str],
    package: PackageInfo | None,
    want: frozenset[str] | None,
    *,
    damaged: bool,
) -> list[Fault]:
    """Faults of a package or folder as a whole.

    Where something was damaged, code may be missing for that reason alone, so only a declaration that
    contradicts ``want`` is reported.

    :param package: None for anything that is not a conda package: then only ``want`` counts
    """
    declared = frozenset(package.declared) if package else frozenset()
    faults = []
    if want is not None and declared and declared != want:
        faults.append(
            Fault(
                "the package declares other targets than wanted",
                found=_spell(declared),
                wanted=_spell(want),
                fix="take the package that was built for the wanted target",
            )
        )
    if damaged:
        return faults
    expected = want if want is not None else declared
    must_have = want is not None or (package is not None and package.promises_code)
    if not targets and must_have:
        faults.append(
            Fault(
                "no GPU code at all",
                found="none",
                wanted=_spell(expected),
                fix="see the build log: the device compiler did not run, or its output was stripped",
            )
        )
    elif targets and package is not None and not declared:
        faults.append(
            Fault(
                "a package with GPU code that declares no target",
                found=_spell(targets),
                wanted="extra: gfx_targets in its recipe, with these targets",
                fix="declare the targets in the recipe and build it again",
            )
        )
    elif targets:
        faults += [
            Fault(
                f"no code for {target}",
                found=_spell(targets),
                wanted=_spell(expected),
                fix=f"build it again for {target}",
            )
            for target in sorted(expected - targets - {base_of(target) for target in targets})
        ]
    return faults


def _spell(targets: frozenset[str]) -> str:
    return ", ".join(sorted(targets))
