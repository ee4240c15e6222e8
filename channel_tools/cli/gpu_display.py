"""What a terminal shows of GPUs: a live table of readings, and the lines at the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from channel_tools.cli.live import LiveDisplay
from channel_tools.cli.progress import print_table
from channel_tools.diagnose.smoke.devices import Device
from channel_tools.diagnose.smoke.plot import BLOCKS, GAP, text_plot
from channel_tools.diagnose.smoke.recording import Recording
from channel_tools.diagnose.smoke.sampler_readings import MIB, Reading, Sample
from channel_tools.diagnose.smoke.verdict import Numbers, Verdict
from channel_tools.verify.source import printable

GIB = 1 << 30
DEGREES = "°C"

_LOG_COLUMNS = 138
# Beside the blocks of a plot: the name of the line, its range, and what parts them.
_BESIDE = 38


class GpuDisplay(LiveDisplay):
    """A table that follows the samples where there is a terminal; nothing where there is none.

    :param title: a line above the table
    """

    def __init__(self, devices: Sequence[Device], title: str, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._devices = devices
        self._title = title
        self._sample: Sample | None = None

    def sampled(self, sample: Sample) -> None:
        """Take a sample; called from any thread."""
        with self._lock:
            self._sample = sample

    def titled(self, title: str) -> None:
        """Change the line above the table."""
        with self._lock:
            self._title = title

    def line(self, text: Text | str) -> None:
        """Print a line that stays."""
        self._console.print(text, soft_wrap=True)

    def _render(self) -> RenderableType:
        with self._lock:
            title, sample = self._title, self._sample
        return Group(Text(title, style="bold"), readings_table(self._devices, sample))


def print_recording(table: Table, recording: Recording) -> None:
    """Print a table, and the plot in text as wide as there is room."""
    console = Console()
    columns = console.width if console.is_terminal else _LOG_COLUMNS
    print_table(table)
    for line in text_plot(recording, max(8, min(columns - _BESIDE, 100)), plain=not _can_print(BLOCKS + GAP)):
        typer.echo(line)


def printed(text: str) -> str:
    """A text of another program, fit for this terminal and its character set."""
    text = printable(text)
    return text if _can_print(text) else text.encode("ascii", "backslashreplace").decode()


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _degrees() -> str:
    return DEGREES if _can_print(DEGREES) else "C"


def readings_table(devices: Sequence[Device], sample: Sample | None) -> Table:
    """One row a GPU with its readings; a dash for what is not told."""
    table = Table(box=None, pad_edge=False)
    table.add_column("GPU")
    for title in ("power", "temperature", "clock", "load", "memory"):
        table.add_column(title, justify="right")
    found = {one.number: one for one in sample.readings} if sample else {}
    for device in devices:
        table.add_row(device.title, *_cells(found.get(device.index, Reading(device.index))))
    return table


def _cells(reading: Reading) -> list[str]:
    used, total = reading.vram_used_bytes, reading.vram_total_bytes
    memory = "-" if used is None else f"{used / GIB:.1f}"
    return [
        _cell(reading.power_watts, "W"),
        _cell(reading.temperature_celsius, _degrees()),
        _cell(reading.clock_mhz, "MHz"),
        _cell(reading.busy_percent, "%"),
        f"{memory} / {total / GIB:.1f} GiB" if total else f"{memory} GiB" if used is not None else "-",
    ]


def _cell(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f} {unit}"


def summary_table(recording: Recording) -> Table:
    """One row a GPU: the mean of each reading, and its most."""
    table = Table(box=None, pad_edge=False)
    table.add_column("GPU")
    for title in ("power", "temperature", "clock", "load", "memory"):
        table.add_column(f"{title}: mean, most", justify="right")
    for device, row in zip(recording.devices, recording.summary(), strict=True):
        table.add_row(
            device.title,
            _spans(row["power_watts"], "W"),
            _spans(row["temperature_celsius"], _degrees()),
            _spans(row["clock_mhz"], "MHz"),
            _spans(row["busy_percent"], "%"),
            _spans(row["vram_used_bytes"], "GiB", GIB, 1),
        )
    return table


def verdict_table(verdict: Verdict) -> Table:
    """One row a GPU: the word, and the numbers behind it."""
    table = Table(box=None, pad_edge=False)
    table.add_column("GPU")
    table.add_column("verdict")
    for title in ("power before", "at most", "load at most", "memory at most", "more than before"):
        table.add_column(title, justify="right")
    for one in verdict.gpus:
        table.add_row(one.device.title, one.word, *_number_cells(one.numbers))
    return table


def _number_cells(numbers: Numbers) -> list[str]:
    peak, rise = numbers.peak_memory_bytes, numbers.rise_memory_bytes
    both = " of several" if numbers.shares_power else ""
    return [
        _cell(numbers.baseline_watts, "W"),
        _cell(numbers.peak_watts, f"W{both}"),
        _cell(numbers.peak_busy_percent, "%"),
        "-" if peak is None else f"{peak / GIB:.1f} GiB",
        "-" if rise is None else f"{rise / MIB:+.0f} MiB",
    ]


def _spans(span: dict[str, float] | None, unit: str, scale: float = 1.0, digits: int = 0) -> str:
    if span is None:
        return "-"
    return f"{span['mean'] / scale:.{digits}f}, {span['most'] / scale:.{digits}f} {unit}"
