"""What was recorded of a host's GPUs: kept as files, and summed up."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from channel_tools.diagnose.smoke.devices import Device
from channel_tools.diagnose.smoke.sampler_readings import Reading, Sample
from channel_tools.model.files import write_text_whole

SAMPLES: Final = "samples.jsonl"
REPORT: Final = "report.json"
PLOT: Final = "plot.png"


@dataclass(frozen=True)
class Recording:
    """Samples of the GPUs, with what they were read from.

    :param source: name of the source; empty where none worked
    :param refused: sources that were tried and their reasons
    :param failures: reads that gave nothing, each of which left a gap
    """

    devices: tuple[Device, ...]
    source: str
    refused: tuple[tuple[str, str], ...]
    samples: tuple[Sample, ...]
    failures: int = 0
    last_failure: str = ""

    def series(self, device: Device, name: str) -> list[tuple[float, float]]:
        """Moments in seconds and values of one field of one GPU; gaps are left out."""
        found = []
        for sample in self.samples:
            for reading in sample.readings:
                value = getattr(reading, name) if reading.number == device.index else None
                if value is not None:
                    found.append((sample.seconds, float(value)))
        return found

    def spans(self) -> list[tuple[str, float, float]]:
        """The phases in their order, each with its first and last moment in seconds."""
        found: list[tuple[str, float, float]] = []
        for sample in self.samples:
            if found and found[-1][0] == sample.phase:
                found[-1] = (sample.phase, found[-1][1], sample.seconds)
            else:
                found.append((sample.phase, sample.seconds, sample.seconds))
        return [span for span in found if span[0]]

    def summary(self) -> list[dict[str, Any]]:
        """Of each GPU: least, mean and most of what was read, in watts, degrees, MHz, percent and bytes."""
        names = ("power_watts", "temperature_celsius", "clock_mhz", "busy_percent", "vram_used_bytes")
        return [
            {
                "gpu": device.to_json(),
                **{name: _span([value for _, value in self.series(device, name)]) for name in names},
            }
            for device in self.devices
        ]

    def head(self) -> dict[str, Any]:
        """The part of every report that says where the readings are from."""
        seconds = self.samples[-1].seconds - self.samples[0].seconds if self.samples else 0.0
        return {
            "source": self.source or None,
            "refused": [{"source": name, "reason": reason} for name, reason in self.refused],
            "gpus": [device.to_json() for device in self.devices],
            "samples": len(self.samples),
            "seconds": round(seconds, 3),
            "failed_reads": self.failures,
            "last_failure": self.last_failure or None,
        }

    def write_samples(self, folder: Path) -> None:
        """``samples.jsonl``: one JSON object a line, one line a moment.

        :raises StorageError: the folder cannot be written
        """
        lines = [json.dumps(sample.to_json()) + "\n" for sample in self.samples]
        write_text_whole(folder / SAMPLES, "".join(lines))


def read_samples(lines: Sequence[str]) -> tuple[Sample, ...]:
    """The samples of a ``samples.jsonl``."""
    found = []
    for line in lines:
        data = json.loads(line)
        readings = tuple(Reading.of_json(one) for one in data["readings"])
        found.append(Sample(float(data["seconds"]), readings, str(data.get("phase", ""))))
    return tuple(found)


def _span(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {"least": min(values), "mean": round(statistics.fmean(values), 3), "most": max(values)}
