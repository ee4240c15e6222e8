"""Hosts with GPUs for the tests: folders as sysfs has them, and sources that play a part."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from channel_tools.diagnose.smoke.devices import Device
from channel_tools.diagnose.smoke.sampler_readings import MIB, Reading, Sample

SMI = Path(__file__).resolve().parents[1] / "data" / "smi"
MI250X = ("0000:29:00.0", "0000:2c:00.0", "0000:2f:00.0", "0000:32:00.0")
MI300X = ("0000:0c:00.0", "0000:22:00.0", "0000:38:00.0", "0000:5c:00.0")
LAPTOP = ("0000:c4:00.0",)
VERSIONS = {MI250X: 90010, MI300X: 90402, LAPTOP: 110003}


def devices(addresses: Sequence[str], target: str) -> tuple[Device, ...]:
    return tuple(Device(index, target, address, None) for index, address in enumerate(addresses))


@dataclass(frozen=True)
class Card:
    """What sysfs says of one card: watts, degrees, percent, MiB."""

    power: float
    busy: int
    used: int
    total: int = 65520
    power_file: str = "power1_average"
    edge: bool = True


def write_sysfs(folder: Path, addresses: Sequence[str], cards: Sequence[Card], order: Sequence[int]) -> Path:
    """A root with a topology and the driver's files.

    :param order: the cards in the order of the topology, which is HIP's
    """
    nodes = folder / "sys/class/kfd/kfd/topology/nodes"
    put(nodes / "0/properties", "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\nlocation_id 0\n")
    for place, number in enumerate(order, 1):
        bus = int(addresses[number][5:7], 16)
        put(
            nodes / f"{place}/properties",
            f"simd_count 440\nsimd_per_cu 4\ngfx_target_version {VERSIONS[tuple(addresses)]}\n"
            f"location_id {bus << 8}\ndomain 0\nunique_id {1000 + number}\ndrm_render_minor {128 + number}\n",
        )
    put(folder / "sys/class/drm/card9/device/vendor", "0x1a03\n")  # the board's own screen
    put(folder / "sys/class/drm/card1-DP-1/status", "disconnected\n")
    for number, (address, card) in enumerate(zip(addresses, cards, strict=True)):
        device = folder / f"sys/class/drm/card{number + 1}/device"
        monitor = device / f"hwmon/hwmon{number + 3}"
        put(device / "vendor", "0x1002\n")
        put(device / "uevent", f"DRIVER=amdgpu\nPCI_ID=1002:740C\nPCI_SLOT_NAME={address}\n")
        put(device / "gpu_busy_percent", f"{card.busy}\n")
        put(device / "mem_info_vram_used", f"{card.used * MIB}\n")
        put(device / "mem_info_vram_total", f"{card.total * MIB}\n")
        put(monitor / card.power_file, f"{card.power * 1e6:.0f}\n")
        put(monitor / "freq1_input", "1700000000\n")
        if card.edge:
            put(monitor / "temp1_label", "edge\n")
            put(monitor / "temp1_input", "41000\n")
        put(monitor / "temp2_label", "junction\n")
        put(monitor / "temp2_input", "46000\n")
    return folder


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def recorded_host(folder: Path, programs: dict[str, str]) -> Path:
    """A recorded host on which programs print what was recorded, with no files."""
    put(
        folder / "host.json",
        json.dumps({"programs": {name: {"text": text} for name, text in programs.items()}}),
    )
    (folder / "root").mkdir(exist_ok=True)
    return folder


class PlayedSource:
    """Plays readings that a function gives for the number of the read.

    :param play: readings of each read
    """

    name = "played"

    def __init__(self, play: Callable[[int], list[Reading]]) -> None:
        self._play = play
        self.reads = 0
        self.closed = False

    def read(self) -> list[Reading]:
        self.reads += 1
        return self._play(self.reads - 1)

    def close(self) -> None:
        self.closed = True


Play = Callable[[str, int], Reading]


def samples(count: int, play: Play, gpus: int, step: float = 0.5) -> tuple[Sample, ...]:
    """Samples of a baseline of ten and of ``count`` during the step ``torch``, one reading a GPU."""
    phases = ["baseline"] * 10 + ["torch"] * count
    return tuple(
        Sample(place * step, tuple(play(phase, gpu) for gpu in range(gpus)), phase)
        for place, phase in enumerate(phases)
    )
