"""Power and memory over time: a picture, and lines of blocks for a terminal."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from channel_tools.diagnose.smoke.devices import Device
from channel_tools.diagnose.smoke.recording import Recording
from channel_tools.diagnose.smoke.verdict import BASELINE
from channel_tools.model.files import written_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GIB: Final = 1 << 30
BLOCKS: Final = "▁▂▃▄▅▆▇█"
GAP: Final = "·"
_PLAIN_BLOCKS: Final = "_.-=+*#@"
_PLAIN_GAP: Final = " "

# Okabe and Ito's palette, told apart by colour-blind readers too; the asked GPU takes the first.
COLOURS: Final = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")

_PANELS: Final = (
    ("power_watts", "power (W)", 1.0),
    ("busy_percent", "load (%)", 1.0),
    ("vram_used_bytes", "memory used (GiB)", float(GIB)),
)

_TEXTS: Final = (("power_watts", "power", "W", 1.0), ("vram_used_bytes", "memory", "GiB", float(GIB)))

_TITLE_WIDTH: Final = 130

# Of the panel's width, roughly; a name that would touch the one before goes a line up.
_LETTER: Final = 0.009


def text_plot(recording: Recording, width: int = 60, *, plain: bool = False) -> list[str]:
    """Two lines a GPU, power and memory, from zero to the most of all GPUs; nothing where nothing was read.

    Beside each line stand the GPU's own least and most.

    :param width: characters of a line of blocks
    :param plain: for terminals that have ASCII only
    """
    if not recording.samples:
        return []
    start, end = recording.samples[0].seconds, recording.samples[-1].seconds
    rows: list[tuple[str, str, str]] = []
    tops = {name: _top(recording, name) for name, *_ in _TEXTS}
    for device in recording.devices:
        for name, title, unit, scale in _TEXTS:
            series = [(at, value / scale) for at, value in recording.series(device, name)]
            if not series:
                continue
            low, high = min(value for _, value in series), max(value for _, value in series)
            digits = 0 if unit == "W" else 1
            blocks = _blocks(series, (start, end), tops[name] / scale, width)
            if plain:
                blocks = blocks.translate(str.maketrans(BLOCKS + GAP, _PLAIN_BLOCKS + _PLAIN_GAP))
            rows.append(
                (f"GPU {device.index} {title}", blocks, f"{low:.{digits}f} to {high:.{digits}f} {unit}")
            )
    if not rows:
        return []
    left = max(len(row[0]) for row in rows)
    lines = [f"{row[0]:<{left}} |{row[1]}| {row[2]}" for row in rows]
    axis = _time_axis(recording, start, end, width)
    axis[0] += f"  {end - start:.0f} s"
    return [*lines, *(f"{'':<{left}}  {line}" for line in axis)]


def draw(
    recording: Recording, path: Path, *, title: str, subtitle: str = "", asked: Device | None = None
) -> None:
    """Write a PNG with power, load and memory of each GPU over time.

    :param title: one line above it
    :param subtitle: one line below that
    :param asked: the GPU whose line stands out
    :raises ImportError: matplotlib is not installed
    :raises StorageError: the file cannot be written
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = [panel for panel in _PANELS if any(recording.series(one, panel[0]) for one in recording.devices)]
    figure = Figure(figsize=(11, 1.6 + 2.3 * max(len(panels), 1)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=12, x=0.01, ha="left", weight="bold")
    axes: Sequence[Axes] = figure.subplots(max(len(panels), 1), 1, sharex=True, squeeze=False)[:, 0].tolist()
    devices = [
        *([asked] if asked in recording.devices else []),
        *(d for d in recording.devices if d != asked),
    ]
    for axis, (name, label, scale) in zip(axes, panels, strict=False):
        for place, device in enumerate(d for d in devices if d is not None):
            _line(axis, recording, device, name, scale, place, stands_out=device == asked)
        axis.set_ylabel(label)
        axis.margins(x=0.01, y=0.12)
        axis.set_ylim(0, 105 if name == "busy_percent" else None)
        axis.grid(axis="y", color="#DDDDDD", linewidth=0.8)
        axis.spines[["top", "right"]].set_visible(False)
    _phases(axes, recording)
    axes[0].set_title(textwrap.fill(subtitle, _TITLE_WIDTH), loc="left", fontsize=10, pad=32)
    axes[-1].set_xlabel("seconds")
    figure.align_ylabels()
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower left", ncols=4, frameon=False, fontsize=9)
    data = io.BytesIO()
    figure.savefig(data, format="png")
    with written_whole(path) as part:
        part.write_bytes(data.getvalue())


def _line(
    axis: Any, recording: Recording, device: Device, name: str, scale: float, place: int, *, stands_out: bool
) -> None:
    series = recording.series(device, name)
    axis.plot(
        [at for at, _ in series],
        [value / scale for _, value in series],
        color=COLOURS[place % len(COLOURS)],
        linewidth=2.4 if stands_out else 1.3,
        linestyle="-" if place < len(COLOURS) else "--",
        marker="." if len(series) < 3 else None,
        zorder=3 if stands_out else 2,
        label=device.title + (" (asked for)" if stands_out else ""),
    )


def _phases(axes: Sequence[Any], recording: Recording) -> None:
    """Shade every other phase, and name each where it begins, above the first panel."""
    spans = _joined(recording)
    length = spans[-1][2] - spans[0][1] if spans else 0.0
    free, raised = 0.0, False
    for place, (name, start, end) in enumerate(spans):
        if place % 2 == 0:
            for axis in axes:
                axis.axvspan(start, end, color="#F2F2F2", zorder=0, linewidth=0)
        begin = (start - spans[0][1]) / (length or 1.0)
        raised = begin < free and not raised
        free = begin + (len(name) + 1) * _LETTER
        axes[0].text(
            *(start, 1.10 if raised else 1.02),
            name,
            transform=axes[0].get_xaxis_transform(),
            ha="left",
            va="bottom",
            fontsize=9,
            color="#666666" if name == BASELINE else "#000000",
        )


def _joined(recording: Recording) -> list[tuple[str, float, float]]:
    """The phases, each drawn up to where the next one begins."""
    spans = recording.spans()
    ends = [start for _, start, _ in spans[1:]] + [spans[-1][2]] if spans else []
    return [(name, start, end) for (name, start, _), end in zip(spans, ends, strict=True)]


def _blocks(series: Sequence[tuple[float, float]], span: tuple[float, float], top: float, width: int) -> str:
    """The highest value of each slice of time, between zero and ``top``."""
    start, end = span
    slices: list[float | None] = [None] * width
    for at, value in series:
        place = min(int((at - start) / (end - start or 1.0) * width), width - 1)
        before = slices[place]
        slices[place] = value if before is None else max(value, before)
    # A slice between two samples shows the one before it; a gap that is longer than that is shown as one.
    longest = 2 * max(1, -(-width // max(len(series), 1)))
    text, since = "", 0
    last: float | None = None
    for found in slices:
        since = 0 if found is not None else since + 1
        last = found if found is not None else last
        if last is None or since > longest:
            text += GAP
        else:
            text += BLOCKS[round(last / (top or 1.0) * (len(BLOCKS) - 1))]
    return text


def _time_axis(recording: Recording, start: float, end: float, width: int) -> list[str]:
    """Names of the phases where they begin, on as many lines as it takes that none covers another."""
    lines: list[str] = [""]
    for name, begin, _ in recording.spans():
        place = min(int((begin - start) / (end - start or 1.0) * width), width - 1)
        number = next((at for at, line in enumerate(lines) if len(line) < place or not line), len(lines))
        if number == len(lines):
            lines.append("")
        lines[number] = f"{lines[number]:<{place}}^{name}"
    return [f"{line:<{width}}" if at == 0 else line for at, line in enumerate(lines)]


def _top(recording: Recording, name: str) -> float:
    """The highest value of a field of all GPUs."""
    return max((value for one in recording.devices for _, value in recording.series(one, name)), default=0.0)
