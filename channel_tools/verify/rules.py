"""Whether what was found is what was declared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from channel_tools.verify.findings import Fault
from channel_tools.verify.package_info import PackageInfo
from channel_tools.verify.policy import ExtraTargets
from channel_tools.verify.report import FileReport
from channel_tools.verify.targets import base_of


def compare_files(
    files: Sequence[FileReport], expected: frozenset[str], whose: str, extra: Sequence[ExtraTargets] = ()
) -> tuple[FileReport, ...]:
    """Add a fault to each file with code, or tuning data, for a target that is not expected.

    :param whose: who expects them, for messages: ``as the package declares``
    :param extra: what some files may hold beyond that
    """
    if not expected:
        return tuple(files)
    wanted = f"{', '.join(sorted(expected))}, {whose}"
    processors = {base_of(target) for target in expected}
    return tuple(
        replace(
            file,
            faults=file.faults
            + tuple(_surplus(target, expected, wanted) for target in surplus_targets(file, expected, extra))
            + tuple(
                _named_for(processor, wanted)
                for processor in file.named
                if processor not in processors and not _is_extra(file.path, processor, extra)
            ),
        )
        for file in files
    )


def surplus_targets(
    file: FileReport, expected: frozenset[str], extra: Sequence[ExtraTargets]
) -> tuple[str, ...]:
    """The targets of a file that neither are expected nor may be there all the same."""
    return tuple(
        target
        for target in file.targets
        if target not in expected and not _is_extra(file.path, target, extra)
    )


def _is_extra(path: str, target: str, extra: Sequence[ExtraTargets]) -> bool:
    return any(entry.covers(path, target) for entry in extra)


def _surplus(target: str, expected: frozenset[str], wanted: str) -> Fault:
    plain = base_of(target)
    if plain != target and plain in expected:
        return Fault(
            f"code for one setting of {plain} only: a GPU that is set otherwise cannot load it",
            found=target,
            wanted=wanted,
            fix=f"build with --offload-arch={plain}, without xnack and sramecc, or declare {target}",
            rule="target-feature",
        )
    return Fault(
        f"code for {target}",
        found=target,
        wanted=wanted,
        fix="build it again for the wanted target alone, in an empty build folder",
        rule="surplus-target",
    )


def _named_for(processor: str, wanted: str) -> Fault:
    return Fault(
        f"tuning data that is named for {processor}",
        found=processor,
        wanted=wanted,
        fix="leave out the data of other GPUs when the package is made",
        rule="named-data",
    )


def compare_whole(
    targets: frozenset[str],
    package: PackageInfo | None,
    want: frozenset[str] | None,
    *,
    damaged: bool,
    code: bool | None = None,
) -> list[Fault]:
    """Faults of a package or folder as a whole.

    Where something was damaged, code may be missing for that reason alone, so only a declaration that
    contradicts ``want`` is reported.

    :param targets: of all files, without those that may be there beyond what is expected
    :param package: None for anything that is not a conda package: then only ``want`` counts
    :param want: what the caller or the policy wants, if either names targets
    :param code: whether there must be code (None: where the package promises it, or ``want`` is given)
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
                rule="other-declaration",
            )
        )
    if damaged:
        return faults
    expected = want if want is not None else declared
    promised = want is not None or (package is not None and package.promises_code)
    if not targets and (promised if code is None else code):
        faults.append(
            Fault(
                "no GPU code at all",
                found="none",
                wanted=_spell(expected) or "code for the GPU that the package is for",
                fix="see the build log: the device compiler did not run, or its output was stripped",
                rule="no-code",
            )
        )
    elif targets and code is False:
        faults.append(
            Fault(
                "GPU code in a package that must hold none",
                found=_spell(targets),
                wanted="none",
                fix="find out which file it came with; the files with code are listed",
                rule="policy",
            )
        )
    elif targets and package is not None and not declared:
        faults.append(
            Fault(
                "a package with GPU code that declares no target",
                found=_spell(targets),
                wanted="extra: gfx_targets in its recipe, with these targets",
                fix="declare the targets in the recipe and build it again",
                rule="undeclared-target",
            )
        )
    elif targets:
        faults += [
            Fault(
                f"no code for {target}",
                found=_spell(targets),
                wanted=_spell(expected),
                fix=f"build it again for {target}",
                rule="missing-target",
            )
            for target in sorted(expected - targets - {base_of(target) for target in targets})
        ]
    return faults


def _spell(targets: frozenset[str]) -> str:
    return ", ".join(sorted(targets))
