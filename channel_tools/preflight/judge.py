"""Is what CMake configured what the variant says? One fault for each thing that is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from channel_tools.preflight.configure import Configuration
from channel_tools.preflight.data import read_data
from channel_tools.preflight.report import Fault, holds
from channel_tools.preflight.units import HIP, CompileUnit
from channel_tools.verify.command_lines import optimisation_level

_NAMES_SHOWN = 3
_CMAKE_ERROR = re.compile(r"^CMake Error[^\n]*\n(?:(?:[ \t][^\n]*)?\n)*", re.MULTILINE)
_SETS_FLAGS = (
    "see what sets it: CXXFLAGS or HIPFLAGS of the host, PyTorch's options (they come after CMake's), or the "
    "patch that caps the level"
)


@dataclass(frozen=True)
class Wanted:
    """What the variant and the recipe say. ``supported`` are the archs that the source keeps, None: all."""

    arch: str
    level: str
    languages: tuple[str, ...]
    forbidden: tuple[str, ...]
    arch_variable: str
    supported: tuple[str, ...] | None


def supported_archs(file: Path, variable: str) -> tuple[str, ...] | None:
    """The list ``set(VARIABLE "gfx90a;gfx942")`` of a CMake file; None where it has none."""
    match = re.search(rf'set\({variable} "([^"]*)"\)', file.read_text(encoding="utf-8"))
    return tuple(match[1].split(";")) if match else None


def judge_request(environment: Mapping[str, str], wanted: Wanted) -> Iterator[Fault]:
    """Does the environment ask for the one arch, in words that the source understands?"""
    name, given = wanted.arch_variable, environment.get(wanted.arch_variable)
    one = f"{name}={wanted.arch}"
    fix = "guard_arch of build_scripts/lib exports it: see that nothing changes it after that"
    if not given:
        yield Fault(
            f"{name} is {'empty' if given == '' else 'not set'}: PyTorch would take this host's GPUs",
            found="nothing",
            wanted=one,
            fix=fix,
        )
        return
    asked = [arch for arch in re.split(r"[;\s]+", given) if arch]
    if len(asked) > 1:
        yield Fault(
            f"{name} names {len(asked)} archs, and a package of this channel is for one",
            found=given,
            wanted=one,
            fix=fix,
        )
    for arch in asked:
        if wanted.supported is not None and arch not in wanted.supported:
            features = (
                f", since features such as {arch[arch.index(':') :]} are part of the text"
                if ":" in arch
                else ""
            )
            yield Fault(
                f"the source compares archs letter by letter, and drops {arch} without a word{features}",
                found=f"{name}={given}",
                wanted=f"one of {', '.join(wanted.supported)}",
                fix="name the plain target" if features else "build an arch that this release supports",
            )
    if asked == [given] and given != wanted.arch and given in (wanted.supported or (given,)):
        yield Fault(f"{name} is not the variant's arch", found=given, wanted=one, fix=fix)


def judge_configuration(configuration: Configuration) -> Iterator[Fault]:
    """Did it end well, and without reaching for the network?"""
    for attempt in configuration.downloads:
        yield Fault(
            "the source would download in its build",
            found=attempt,
            wanted="every source in the recipe, with its sha256",
            fix="add it to the recipe's sources, or switch the part off",
        )
    if configuration.status and not configuration.downloads:
        yield _explain(configuration)


def _explain(configuration: Configuration) -> Fault:
    errors = [" ".join(match.split()) for match in _CMAKE_ERROR.findall(configuration.log)]
    found = "; ".join(errors[:2]) or (configuration.log.strip().splitlines() or ["no output"])[-1]
    for known in read_data("failures")["explained"]:
        if re.search(known["pattern"], configuration.log):
            return Fault(known["what"], found=found[:600], wanted=known["wanted"], fix=known["fix"])
    return Fault(
        f"CMake does not configure (exit status {configuration.status})",
        found=found[:600],
        wanted="a configuration",
        fix="see the log",
    )


def judge_units(units: Sequence[CompileUnit], wanted: Wanted) -> Iterator[Fault]:
    """Level, targets, compilers and flags of every unit."""
    for language in wanted.languages:
        if not any(unit.language == language for unit in units):
            yield Fault(f"there is no {language} unit", found="none", wanted="some", fix="see the log")
    for language in sorted({unit.language for unit in units}):
        mine = [unit for unit in units if unit.language == language]
        yield from _judge_levels(mine, language, wanted)
        yield from _judge_flags(mine, language, wanted)
        compilers = sorted({unit.compiler for unit in mine})
        if len(compilers) > 1:
            yield Fault(
                f"{language} units are compiled with {len(compilers)} compilers",
                found=", ".join(compilers),
                wanted="one",
                fix="see what sets the compiler of single targets",
            )
        yield from _fault_of(
            mine,
            lambda unit: bool(unit.unit.option_files),
            f"{language} units take options from files",
            wanted="every option on the command line, where this check sees it",
            fix="configure with CMAKE_NINJA_FORCE_RESPONSE_FILE=OFF",
        )
    yield from _judge_targets([unit for unit in units if unit.language == HIP], wanted)


def _judge_levels(units: Sequence[CompileUnit], language: str, wanted: Wanted) -> Iterator[Fault]:
    for level in sorted({unit.level for unit in units} - {wanted.level}):
        yield from _fault_of(
            units,
            lambda unit, level=level: unit.level == level,  # type: ignore[misc]
            f"{language} units are compiled at {level}",
            wanted=wanted.level,
            fix=_SETS_FLAGS,
        )


def _judge_flags(units: Sequence[CompileUnit], language: str, wanted: Wanted) -> Iterator[Fault]:
    for flag in wanted.forbidden:
        # A level in force is a fault of its own already.
        in_force = [] if optimisation_level(flag) else [unit for unit in units if unit.unit.uses(flag)]
        yield from _fault_of(
            units,
            lambda unit, found=in_force: unit in found,  # type: ignore[misc]
            f"{language} units are compiled with {flag}",
            wanted=f"no {flag}",
            fix=_SETS_FLAGS,
        )
        yield from _fault_of(
            units,
            lambda unit, flag=flag: holds(unit, flag) and not unit.unit.uses(flag),  # type: ignore[misc]
            f"{language} units are given {flag}, which only a later option on the line undoes",
            wanted=f"no {flag} on the line",
            fix=_SETS_FLAGS,
        )


def _judge_targets(units: Sequence[CompileUnit], wanted: Wanted) -> Iterator[Fault]:
    fix = "see what reads another variable than the ones of build_scripts/lib/arch.sh"
    yield from _fault_of(
        units,
        lambda unit: not unit.unit.targets,
        "HIP units name no arch, so that the compiler chooses one",
        wanted=f"--offload-arch={wanted.arch}",
        fix=fix,
    )
    others = sorted({target for unit in units for target in unit.unit.targets} - {wanted.arch})
    for target in others:
        yield from _fault_of(
            units,
            lambda unit, target=target: target in unit.unit.targets,  # type: ignore[misc]
            f"HIP units are compiled for {target}",
            wanted=f"--offload-arch={wanted.arch} and no other",
            fix=fix,
        )


def _fault_of(
    units: Sequence[CompileUnit], wrong: Callable[[CompileUnit], bool], what: str, *, wanted: str, fix: str
) -> Iterator[Fault]:
    found = [unit for unit in units if wrong(unit)]
    if found:
        names = [Path(unit.unit.name).name for unit in found]
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        yield Fault(
            f"{len(found)} of {len(units)} {what}",
            found=", ".join(names[:_NAMES_SHOWN]) + more,
            wanted=wanted,
            fix=fix,
            units=len(found),
        )
