"""What is read of a GPU at one moment, and how the many spellings of a number become one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

MIB: Final = 1 << 20

# More than any GPU reports. What is above is a filler of the driver's tables: 0xFFFF, 0xFFFFFFFF and so on.
_MOST_WATTS: Final = 5_000.0
_MOST_CELSIUS: Final = 200.0
_MOST_MHZ: Final = 20_000.0
_MOST_BYTES: Final = float(1 << 50)
_MOST: Final = 1e30

_NUMBER = re.compile(r"\(?\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z%°]*)")
# The tools write MB and mean MiB.
_BYTES: Final = {
    "": MIB,
    "B": 1,
    "KB": 1 << 10,
    "MB": MIB,
    "GB": 1 << 30,
    "KIB": 1 << 10,
    "MIB": MIB,
    "GIB": 1 << 30,
}


@dataclass(frozen=True)
class Reading:
    """One GPU at one moment; None is what the source does not tell.

    :param number: the source's own number of the GPU
    :param address: PCI address, ``0000:c1:00.0``; None where the source does not tell
    :param power_watts: of the whole package, where two GPUs share one
    :param temperature_celsius: of the hottest spot, else of the edge
    :param clock_mhz: of the shader engines
    :param busy_percent: share of the last moment in which the shader engines worked
    """

    number: int
    address: str | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    clock_mhz: float | None = None
    busy_percent: float | None = None
    vram_used_bytes: int | None = None
    vram_total_bytes: int | None = None

    @property
    def says_anything(self) -> bool:
        """Is there one reading that tells whether the GPU works?"""
        return any(one is not None for one in (self.power_watts, self.busy_percent, self.vram_used_bytes))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, data: dict[str, Any]) -> Reading:
        """A reading out of ``samples.jsonl``; keys of later versions are left out."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in data.items() if key in known})


@dataclass(frozen=True)
class Sample:
    """All GPUs at one moment.

    :param seconds: since sampling began
    :param phase: what went on: ``baseline``, the name of a step, or nothing
    """

    seconds: float
    readings: tuple[Reading, ...]
    phase: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 3),
            "phase": self.phase,
            "readings": [one.to_json() for one in self.readings],
        }


def number(value: Any) -> tuple[float, str] | None:
    """The number and its unit in any of the forms that the tools print; None for what is no number.

    ``{"value": 40, "unit": "W"}``, ``40``, ``"40 W"``, ``"40.0"``, ``"(1700Mhz)"``; and as none:
    ``"N/A"``, ``"N/A (Secondary die)"``, ``{"value": "N/A", "unit": "W"}``, texts of errors.
    """
    if isinstance(value, dict):
        inner = number(value.get("value"))
        unit = value.get("unit")
        return None if inner is None else (inner[0], unit if isinstance(unit, str) and unit else inner[1])
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return (float(value), "") if abs(value) < _MOST else None
    if isinstance(value, str) and (match := _NUMBER.match(value.strip())):
        found = float(match[1])
        return (found, match[2]) if abs(found) < _MOST else None
    return None


def watts(*values: Any) -> float | None:
    """Power in watts; zero is no reading.

    No GPU that answers draws nothing: zero is what the second die of a package reports (MI250X).
    """
    scaled = _scaled(values, {"mW": 1e-3, "uW": 1e-6})
    return next((found for found in scaled if 0 < found < _MOST_WATTS), None)


def celsius(*values: Any) -> float | None:
    """Temperature in degrees Celsius; zero is no reading, and some releases give thousandths."""
    scaled = (found / 1000 if found > 1000 else found for found in _scaled(values, {}))
    return next((found for found in scaled if 0 < found < _MOST_CELSIUS), None)


def megahertz(*values: Any) -> float | None:
    """A clock in MHz; zero is a clock that is off."""
    scaled = _scaled(values, {"Hz": 1e-6, "kHz": 1e-3, "GHz": 1e3})
    return next((found for found in scaled if 0 <= found < _MOST_MHZ), None)


def percent(*values: Any) -> float | None:
    """A share in percent."""
    return next((found for found in _scaled(values, {}) if 0 <= found <= 100), None)


def size(*values: Any, unit: str = "MB") -> int | None:
    """Memory in bytes.

    :param unit: of a number that names none; MB means MiB
    """
    scaled = (found * _BYTES.get((named or unit).upper(), MIB) for found, named in _numbers(values))
    return next((int(found) for found in scaled if 0 <= found < _MOST_BYTES), None)


def _scaled(values: Iterable[Any], factors: dict[str, float]) -> Iterator[float]:
    return (found * factors.get(unit, 1.0) for found, unit in _numbers(values))


def _numbers(values: Iterable[Any]) -> Iterator[tuple[float, str]]:
    """Every value that is a number: the first may be a filler, and a later one right."""
    return (found for value in values if (found := number(value)) is not None)
