"""Readings out of sysfs, which needs no ROCm at all.

Source of the files: Documentation/gpu/amdgpu/thermal.rst and amdgpu_pm.c of the Linux kernel. Power is in
microwatts, temperature in thousandths of a degree, clocks in hertz, memory in bytes. ``power1_average`` is
missing where only the present power is known (``power1_input``, MI300X), temperature 1 is the edge, which
MI300X does not have; labels tell the junction.
"""

from __future__ import annotations

import re
from typing import Final

from channel_tools.diagnose.doctor.gpus import amd_cards
from channel_tools.diagnose.doctor.host_root import HostRoot
from channel_tools.diagnose.smoke.sampler_readings import Reading, celsius, megahertz, percent, size, watts

_ADDRESS = re.compile(r"^PCI_SLOT_NAME=(\S+)$", re.MULTILINE)
_TEMPERATURES: Final = ("junction", "edge")


class SysfsSource:
    """The ``amdgpu`` cards below a root.

    :param host: whose files
    """

    name = "sysfs"

    def __init__(self, host: HostRoot) -> None:
        self._host = host
        self._cards = sorted(amd_cards(host), key=lambda path: int(path.rpartition("card")[2]))

    def read(self) -> list[Reading]:
        return [self._card(card) for card in self._cards]

    def close(self) -> None: ...

    def _card(self, card: str) -> Reading:
        device = f"{card}/device"
        monitors = self._host.glob(f"{device}/hwmon", r"hwmon\d+")
        monitor = monitors[0] if monitors else f"{device}/hwmon/none"
        address = _ADDRESS.search(self._host.text(f"{device}/uevent") or "")
        power = self._line(f"{monitor}/power1_average") or self._line(f"{monitor}/power1_input")
        return Reading(
            number=int(card.rpartition("card")[2]),
            address=address[1].lower() if address else None,
            power_watts=watts(f"{power} uW") if power else None,
            temperature_celsius=celsius(*self._temperatures(monitor)),
            clock_mhz=megahertz(_unit(self._line(f"{monitor}/freq1_input"), "Hz")),
            busy_percent=percent(self._line(f"{device}/gpu_busy_percent")),
            vram_used_bytes=size(self._line(f"{device}/mem_info_vram_used"), unit="B"),
            vram_total_bytes=size(self._line(f"{device}/mem_info_vram_total"), unit="B"),
        )

    def _temperatures(self, monitor: str) -> list[str | None]:
        """The junction's, then the edge's, then the first one, in thousandths."""
        found = {}
        for channel in ("1", "2", "3"):
            label = self._line(f"{monitor}/temp{channel}_label") or channel
            found[label] = self._line(f"{monitor}/temp{channel}_input")
        return [found.get(name) for name in (*_TEMPERATURES, "1")]

    def _line(self, path: str) -> str | None:
        return self._host.line(path) or None


def _unit(text: str | None, unit: str) -> str | None:
    return f"{text} {unit}" if text else None
