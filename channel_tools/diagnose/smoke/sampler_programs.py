"""Readings out of what ``amd-smi`` and ``rocm-smi`` print as JSON.

Source of the layouts: ``amdsmi_cli`` of ROCm/amdsmi and ROCm/rocm-systems (``monitor``, ``metric``, ``list``)
and ``rocm_smi.py`` of ROCm/rocm_smi_lib. Keys changed with the releases, and are all known here:

* ``monitor``: ``gfx_util`` and ``gfx_clock`` became ``gfx`` and ``gfx_clk``; without options it gives memory
  in GB with one decimal, therefore it is called with them.
* ``metric``: a list, from 7.0 on in ``gpu_data``; plain numbers, from 6.1 on objects with a unit; memory in
  ``fb_usage``, ``vram_usage``, ``mem_usage``; power as ``average_socket_power``, ``current_power``,
  ``socket_power``.
* ``rocm-smi`` (until ROCm 7): texts in ``card0``..., ``Average`` or ``Current Socket Graphics Package
  Power``; the second die of a package says ``N/A (Secondary die)``.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from channel_tools.diagnose.smoke.sampler_readings import (
    Reading,
    celsius,
    megahertz,
    number,
    percent,
    size,
    watts,
)

MONITOR: Final = ("amd-smi", "monitor", "-p", "-t", "-u", "-m", "-v", "--json")
METRIC: Final = ("amd-smi", "metric", "-p", "-t", "-c", "-u", "-m", "--json")
LIST: Final = ("amd-smi", "list", "--json")
ROCM_SMI: Final = (
    *("rocm-smi", "--showpower", "--showtemp", "--showclocks", "--showuse"),
    *("--showmeminfo", "vram", "--showbus", "--json"),
)

Run = Callable[[Sequence[str]], str]
"""Runs a program and gives what it printed, or raises :class:`SourceError`."""

_STARTS: Final = 50
"""Lines with a bracket at the start that are tried as the beginning of the JSON."""

_CARD = re.compile(r"card(\d+)")


class SourceError(Exception):
    """A source that gives nothing: the reason, in a sentence."""


class AmdSmiSource:
    """The program ``amd-smi``: its ``monitor``, or its ``metric`` where that gives nothing.

    :param run: runs programs
    :raises SourceError: neither works
    """

    name = "amd-smi"

    def __init__(self, run: Run) -> None:
        self._run = run
        self._addresses = _addresses(run)
        self._command = MONITOR
        self._parse = parse_monitor
        try:
            if any(one.says_anything for one in self.read()):
                return
        except SourceError:
            pass
        self._command, self._parse = METRIC, parse_metric
        self.read()

    def read(self) -> list[Reading]:
        return [
            _with_address(one, self._addresses.get(one.number))
            for one in self._parse(self._run(self._command))
        ]

    def close(self) -> None: ...


class RocmSmiSource:
    """The program ``rocm-smi``, which ROCm 10 no longer has.

    :param run: runs programs
    :raises SourceError: it does not work
    """

    name = "rocm-smi"

    def __init__(self, run: Run) -> None:
        self._run = run
        self.read()

    def read(self) -> list[Reading]:
        return parse_rocm_smi(self._run(ROCM_SMI))

    def close(self) -> None: ...


def parse_monitor(text: str) -> list[Reading]:
    """What ``amd-smi monitor --json`` says.

    :raises SourceError: it is no JSON, or of another form
    """
    return [
        Reading(
            number=row["gpu"],
            power_watts=watts(row.get("power_usage")),
            temperature_celsius=celsius(row.get("hotspot_temperature"), row.get("memory_temperature")),
            clock_mhz=megahertz(row.get("gfx_clk"), row.get("gfx_clock")),
            busy_percent=percent(row.get("gfx"), row.get("gfx_util")),
            vram_used_bytes=size(row.get("vram_used")),
            vram_total_bytes=size(row.get("vram_total")),
        )
        for row in _gpus(text)
    ]


def parse_metric(text: str) -> list[Reading]:
    """What ``amd-smi metric --json`` says.

    :raises SourceError: it is no JSON, or of another form
    """
    found = []
    for row in _gpus(text):
        power, heat, clock, usage = (_part(row, key) for key in ("power", "temperature", "clock", "usage"))
        clocks = [_part(clock, key) for key in ("gfx_0", "gfx")]
        memory = _part(row, "mem_usage") or _part(row, "vram_usage") or _part(row, "fb_usage")
        found.append(
            Reading(
                number=row["gpu"],
                power_watts=watts(
                    *(power.get(f"{key}_power") for key in ("socket", "current_socket", "current")),
                    *(power.get(f"{key}_power") for key in ("average_socket", "average")),
                ),
                temperature_celsius=celsius(
                    *(heat.get(key) for key in ("hotspot", "hotspot_temperature", "edge", "edge_temperature"))
                ),
                clock_mhz=megahertz(*(one.get(key) for one in clocks for key in ("clk", "cur_clk"))),
                busy_percent=percent(usage.get("gfx_activity"), usage.get("gfx_usage")),
                vram_used_bytes=size(*(memory.get(key) for key in ("used_vram", "vram_used", "fb_used"))),
                vram_total_bytes=size(*(memory.get(key) for key in ("total_vram", "vram_total", "fb_total"))),
            )
        )
    return found


def parse_rocm_smi(text: str) -> list[Reading]:
    """What ``rocm-smi --json`` says.

    :raises SourceError: it is no JSON, or of another form
    """
    data = _json(text)
    if not isinstance(data, dict):
        raise SourceError("rocm-smi printed JSON of a form that is not known here")
    found = []
    for name, card in data.items():
        match = _CARD.fullmatch(name)
        if match is None or not isinstance(card, dict):
            continue
        row = {key.strip().rstrip(":").lower(): value for key, value in card.items()}
        heat = [row.get(f"temperature (sensor {sensor}) (c)") for sensor in ("junction", "edge")]
        clocks = [row.get("sclk clock speed"), _in_brackets(row.get("sclk clock level"))]
        power = [row.get(f"{kind} graphics package power (w)") for kind in ("current socket", "average")]
        address = row.get("pci bus")
        found.append(
            Reading(
                number=int(match[1]),
                address=address.lower() if isinstance(address, str) and ":" in address else None,
                power_watts=watts(*power),
                temperature_celsius=celsius(*heat),
                clock_mhz=megahertz(*clocks),
                busy_percent=percent(row.get("gpu use (%)")),
                vram_used_bytes=size(row.get("vram total used memory (b)"), unit="B"),
                vram_total_bytes=size(row.get("vram total memory (b)"), unit="B"),
            )
        )
    if not found:
        raise SourceError("rocm-smi names no GPU")
    return sorted(found, key=lambda one: one.number)


def _addresses(run: Run) -> dict[int, str]:
    """PCI addresses by amd-smi's numbers; none where it cannot list them."""
    try:
        rows = _gpus(run(LIST))
    except SourceError:
        return {}
    return {
        row["gpu"]: row["bdf"].lower()
        for row in rows
        if isinstance(row.get("bdf"), str) and ":" in row["bdf"]
    }


def _with_address(reading: Reading, address: str | None) -> Reading:
    return Reading(**{**reading.to_json(), "address": address}) if address else reading


def _gpus(text: str) -> list[dict[str, Any]]:
    """The rows of amd-smi's JSON, one a GPU; of partitions of one GPU the first."""
    data = _json(text)
    if isinstance(data, dict):
        data = data.get("gpu_data", [data])
    rows: dict[int, dict[str, Any]] = {}
    for row in data if isinstance(data, list) else []:
        found = number(row.get("gpu", row.get("GPU"))) if isinstance(row, dict) else None
        if found is not None:
            rows.setdefault(int(found[0]), {**row, "gpu": int(found[0])})
    if not rows:
        raise SourceError("amd-smi names no GPU")
    return [rows[key] for key in sorted(rows)]


def _json(text: str) -> Any:
    """The first JSON document in a text: warnings may stand before it, and did."""
    decoder = json.JSONDecoder()
    starts = re.finditer(r"^[ \t]*(?=[\[{])", text, re.MULTILINE)
    for match in itertools.islice(starts, _STARTS):
        try:
            data, _ = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict) or (isinstance(data, list) and data and isinstance(data[0], dict)):
            return data
    head = " ".join(text.split())[:120]
    raise SourceError(f"it printed no JSON: {head}" if head else "it printed nothing")


def _part(row: dict[str, Any], key: str) -> dict[str, Any]:
    """A part of a row; empty where the tool put a text in its place."""
    found = row.get(key)
    return found if isinstance(found, dict) else {}


def _in_brackets(value: Any) -> str | None:
    """``(1700Mhz)`` of ``1 (1700Mhz)``."""
    match = re.search(r"\([^)]*\)", value) if isinstance(value, str) else None
    return match[0] if match else None
