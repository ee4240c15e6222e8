"""How the units of a package were compiled, by what the build left behind.

There are two kinds of evidence, and a package may have both: command lines that the compiler recorded in the
files (:mod:`channel_tools.verify.command_lines`), and the package's build record
(:mod:`channel_tools.verify.build_record`). A file may record some of its units only, so neither stands in for
the other: all that is there is judged, and the result says what that was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from channel_tools.verify.build_record import (
    BUILD_RECORD,
    COMPILE_COMMANDS,
    MAX_NAME,
    UnreadableRecordError,
    read_build_record,
    read_compile_commands,
    shorten,
)
from channel_tools.verify.command_lines import Unit, optimisation_level, read_recorded
from channel_tools.verify.findings import Fault
from channel_tools.verify.libraries import release
from channel_tools.verify.source import printable
from channel_tools.verify.targets import Target

_RULE: Final = "evidence"


@dataclass
class Evidence:
    """What was there and what is wrong with it.

    ``source`` says in words what was there; ``units`` is the number of compiler calls known, ``levels`` how
    many of them run at each optimisation level. ``gcc_version`` and ``hip_version`` are the build record's.
    A fault goes with the path of the file that recorded it, or with None.
    """

    source: str = "none"
    units: int = 0
    levels: dict[str, int] = field(default_factory=dict)
    gcc_version: str | None = None
    hip_version: str | None = None
    faults: list[tuple[str | None, Fault]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Everything but the faults."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "faults"}


def judge_build_evidence(
    package: str,
    *,
    build_json: bytes | None,
    compile_commands: bytes | None,
    recorded: Mapping[str, Sequence[str]],
    targets: frozenset[str] = frozenset(),
    forbidden: Sequence[str] = (),
    gcc_major: int | None = None,
) -> Evidence:
    """Read all evidence of a package, and compare it with what the package should be.

    :param build_json: content of that file of the build record, None where there is none
    :param compile_commands: likewise
    :param recorded: ``Linkage.flags`` of each ELF file by its path
    :param targets: GPU targets that units may be compiled for; empty: any
    :param forbidden: flags that must be in force in no unit (:meth:`Unit.uses`); then there must be evidence
    :param gcc_major: no GCC newer than this
    """
    evidence = Evidence()
    if build_json is not None:
        _judge_record(evidence, package, build_json, targets, gcc_major)
    known: list[Unit] = []
    recording = {path: lines for path, lines in recorded.items() if lines}
    for path, lines in recording.items():
        units = _recorded_units(evidence, path, lines)
        _judge_units(evidence, path, "recorded in the file", units, targets, forbidden)
        known += units
    sources = []
    if recording:
        sources.append(f"flags recorded in {len(recording)} of {len(recorded)} files ({len(known)} units)")
    if compile_commands is not None:
        units = _commands_units(evidence, compile_commands)
        _judge_units(evidence, None, COMPILE_COMMANDS, units, targets, forbidden)
        known += units
        sources.append(f"{COMPILE_COMMANDS} ({len(units)} units)")
    evidence.source = " and ".join(sources) or "none"
    evidence.units = len(known)
    evidence.levels = dict(sorted(Counter(level for unit in known for level in unit.levels).items()))
    if forbidden and not known:
        evidence.faults.append((None, _no_evidence(package, forbidden)))
    return evidence


def _no_evidence(package: str, forbidden: Sequence[str]) -> Fault:
    record = f"share/rocm-channel/{package}/{COMPILE_COMMANDS}"
    return Fault(
        f"nothing shows that it was built without {', '.join(forbidden)}",
        found=f"no flags recorded in its files, no unit in {record}",
        wanted="one of the two",
        fix="call record_evidence with the build folder in the build script, or compile with "
        "-frecord-gcc-switches (GCC) and -frecord-command-line (clang)",
        rule=_RULE,
    )


def _judge_record(
    evidence: Evidence, package: str, raw: bytes, targets: frozenset[str], gcc_major: int | None
) -> None:
    try:
        record = read_build_record(raw)
    except UnreadableRecordError as error:
        evidence.faults.append((None, _unreadable(BUILD_RECORD, error)))
        return
    evidence.gcc_version, evidence.hip_version = record.gcc_version, record.hip_version
    gcc = release(record.gcc_version or "")
    wrong = []
    if record.package != package:
        wrong.append(("package", record.package, package))
    if record.rocm_arch and targets and record.rocm_arch not in targets:
        wrong.append(("rocm_arch", record.rocm_arch, ", ".join(sorted(targets))))
    if gcc and gcc_major is not None and gcc[0] > gcc_major:
        wrong.append(("gcc_version", record.gcc_version, f"{gcc_major} or older"))
    for key, found, wanted in wrong:
        fault = Fault(
            f"the build record is of another build: {key}",
            found=printable(found or "none")[:MAX_NAME],
            wanted=wanted,
            fix="build it again from the variant that the package declares",
            rule=_RULE,
        )
        evidence.faults.append((None, fault))


def _recorded_units(evidence: Evidence, path: str, lines: Sequence[str]) -> list[Unit]:
    try:
        return read_recorded(lines)
    except ValueError as error:
        unreadable = UnreadableRecordError(printable(str(error)), "commands as a shell takes them")
        evidence.faults.append((path, _unreadable("section .GCC.command.line", unreadable)))
        return []


def _commands_units(evidence: Evidence, raw: bytes) -> list[Unit]:
    try:
        return read_compile_commands(raw)
    except UnreadableRecordError as error:
        evidence.faults.append((None, _unreadable(COMPILE_COMMANDS, error)))
        return []


def _unreadable(name: str, error: UnreadableRecordError) -> Fault:
    return Fault(
        f"{name} cannot be read",
        found=error.found,
        wanted=error.wanted,
        fix="build it again; a tool may have changed the package afterwards",
        rule=_RULE,
    )


def _judge_units(
    evidence: Evidence,
    path: str | None,
    where: str,
    units: Sequence[Unit],
    targets: frozenset[str],
    forbidden: Sequence[str],
) -> None:
    """Add one fault for each thing that is wrong, with the units that it is wrong in."""
    faults = [
        _fault_of(
            [unit for unit in units if unit.option_files],
            "take options from files that were not kept",
            wanted="every option in the command",
            fix="make the build system write options into the command, not into response files",
            rule=_RULE,
            detail=shorten(sorted({name for unit in units for name in unit.option_files})),
        )
    ]
    faults += [
        _fault_of(
            [unit for unit in units if unit.uses(flag)],
            f"are compiled with {flag}",
            wanted=f"no {flag}",
            fix="see what sets it last: CMAKE_BUILD_TYPE, CMAKE_ARGS, CXXFLAGS, HIPFLAGS or the project",
            rule="optimisation" if optimisation_level(flag) else "forbidden-flag",
        )
        for flag in forbidden
    ]
    if targets:
        faults += _judge_targets(units, targets)
    for fault in faults:
        if fault:
            what = f"{fault.what} ({where}, {len(units)} units in all)"
            evidence.faults.append((path, replace(fault, what=what)))


def _judge_targets(units: Sequence[Unit], targets: frozenset[str]) -> list[Fault | None]:
    allowed = targets | set(_canonical(targets))
    others = {
        target for unit in units for target in unit.targets if not allowed.issuperset(_canonical([target]))
    }
    wanted = f"--offload-arch={','.join(sorted(targets))}"
    fix = "make the project take its targets from CMAKE_HIP_ARCHITECTURES alone, and build it again"
    return [
        _fault_of(
            [unit for unit in units if others.intersection(unit.targets)],
            "are compiled for other targets",
            wanted=wanted,
            fix=fix,
            rule="offload-arch",
            detail=", ".join(map(printable, sorted(others))),
        ),
        _fault_of(
            [unit for unit in units if unit.is_hip and not unit.targets],
            "are HIP and name no target, so the compiler chose one",
            wanted=wanted,
            fix=fix,
            rule="offload-arch",
        ),
    ]


def _canonical(targets: Iterable[str]) -> Iterator[str]:
    """The targets with their features in order, as far as they are targets."""
    for target in targets:
        try:
            yield str(Target.parse(target))
        except ValueError:
            yield target


def _fault_of(
    units: Sequence[Unit], what: str, *, wanted: str, fix: str, rule: str, detail: str = ""
) -> Fault | None:
    if not units:
        return None
    names = [printable(unit.name)[:MAX_NAME] or "a unit without a name" for unit in units]
    found = f"{detail} in {shorten(names)}" if detail else shorten(names)
    return Fault(f"{len(units)} units {what}", found=found, wanted=wanted, fix=fix, rule=rule)
