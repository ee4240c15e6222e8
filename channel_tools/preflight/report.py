"""What a preflight found, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from channel_tools.preflight.units import CompileUnit

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Fault:
    """One reason not to start the build. ``units`` is how many units have it; 0: it is not about units."""

    what: str
    found: str
    wanted: str
    fix: str
    units: int = 0

    def to_json(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in ("what", "found", "wanted", "fix", "units")}


@dataclass(frozen=True)
class Language:
    """The units of one language; each mapping counts them."""

    name: str
    units: int
    levels: Mapping[str, int]
    targets: Mapping[str, int]
    standards: Mapping[str, int]
    compilers: Mapping[str, int]
    flags: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        return {
            "language": self.name,
            "units": self.units,
            "levels": dict(self.levels),
            "targets": dict(self.targets),
            "standards": dict(self.standards),
            "compilers": dict(self.compilers),
            "forbidden_flags": dict(self.flags),
        }


@dataclass
class Report:
    """One variant with one build type. ``stands_in`` names what is not the real thing here."""

    package: str
    version: str
    rocm_arch: str
    rocm_version: str
    build_type: str
    torch: str = ""
    rocm: str = ""
    source: str = ""
    stands_in: tuple[str, ...] = ()
    languages: tuple[Language, ...] = ()
    faults: list[Fault] = field(default_factory=list)
    seconds: float = 0.0
    compile_commands: str | None = None

    @property
    def units(self) -> int:
        return sum(language.units for language in self.languages)

    @property
    def title(self) -> str:
        return f"{self.package} {self.version}, {self.rocm_arch}, ROCm {self.rocm_version}, {self.build_type}"

    def to_json(self) -> dict[str, Any]:
        keys = ("package", "version", "rocm_arch", "rocm_version", "build_type", "torch", "rocm", "source")
        return {
            **{key: getattr(self, key) for key in keys},
            "compile_commands": self.compile_commands,
            "stands_in": list(self.stands_in),
            "languages": [language.to_json() for language in self.languages],
            "faults": [fault.to_json() for fault in self.faults],
            "passed": not self.faults,
            "seconds": round(self.seconds, 1),
        }

    def lines(self) -> list[str]:
        """The report as text."""
        lines = [f"{self.title}: {'FAILED' if self.faults else 'ok'} ({self.seconds:.1f} s)"]
        for language in self.languages:
            parts = [
                f"{language.units} units",
                _counts(language.levels),
                *([_counts(language.targets)] if language.name == "HIP" else []),
                _counts(language.standards),
                _counts(language.compilers),
                *([f"forbidden: {_counts(language.flags)}"] if language.flags else []),
            ]
            lines.append(f"  {language.name:<4}{'; '.join(parts)}")
        lines.append(f"  with {self.torch}; {self.rocm}")
        if self.stands_in:
            lines.append(f"  stood in: {'; '.join(text.partition(' (')[0] for text in self.stands_in)}")
        for fault in self.faults:
            lines.append(f"  fault: {fault.what}")
            details = (("found", fault.found), ("wanted", fault.wanted), ("fix", fault.fix))
            lines += [f"    {label}: {text}" for label, text in details if text]
        return lines


def summarise(units: Sequence[CompileUnit], forbidden: Sequence[str]) -> tuple[Language, ...]:
    """One :class:`Language` for each that occurs, by name."""
    found = []
    for name in sorted({unit.language for unit in units}):
        mine = [unit for unit in units if unit.language == name]
        targets = Counter(",".join(unit.unit.targets) or "none" for unit in mine)
        found.append(
            Language(
                name=name,
                units=len(mine),
                levels=_sorted(unit.level for unit in mine),
                targets=dict(sorted(targets.items())) if name == "HIP" else {},
                standards=_sorted(unit.standard or "none given" for unit in mine),
                compilers=_sorted(unit.compiler for unit in mine),
                flags=_sorted(flag for flag in forbidden for unit in mine if holds(unit, flag)),
            )
        )
    return tuple(found)


def holds(unit: CompileUnit, flag: str) -> bool:
    """Is the flag in force, or on the line with a later one that overrides it?"""
    return unit.unit.uses(flag) or flag in unit.unit.options or flag in unit.given_levels


def _sorted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _counts(values: Mapping[str, int]) -> str:
    if len(values) == 1:
        return next(iter(values))
    return ", ".join(f"{value} ({count})" for value, count in values.items())
