"""``rocm-channel watch``: power, temperature, clock, load and memory of each GPU, again and again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import options

if TYPE_CHECKING:
    from channel_tools.diagnose.recording import Recording

Interval = Annotated[
    float, typer.Option("--interval", min=0.05, max=3600, help="Seconds from one reading to the next.")
]
SourceNames = Annotated[
    list[str] | None,
    typer.Option("--source", help="amdsmi, amd-smi, rocm-smi or sysfs, in this order; may be repeated."),
]
Prefix = Annotated[
    Path | None, typer.Option("--prefix", help="Environment whose Python is used (default: this one).")
]
Output = Annotated[Path | None, typer.Option("--output", help="Folder for samples, report and plot.")]


def watch(
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0, help="How long (default: until Ctrl-C).")
    ] = None,
    interval: Interval = 1.0,
    source: SourceNames = None,
    prefix: Prefix = None,
    root: Annotated[Path | None, typer.Option("--root", help="Look at a recorded host.")] = None,
    output: Output = None,
    json_: options.Json = False,
) -> None:
    """Read power, temperature, clock, load and memory of each GPU; Ctrl-C ends it with the summary.

    Readings come from the library amdsmi, else amd-smi, else rocm-smi, else sysfs.
    """
    from channel_tools.cli.gpu_display import GpuDisplay
    from channel_tools.diagnose.doctor.hosts import open_host
    from channel_tools.diagnose.smoke import watch as watching
    from channel_tools.diagnose.smoke.sampler import SOURCES, open_source
    from channel_tools.diagnose.smoke.smoke import interpreter
    from channel_tools.model.files import check_writable

    if output is not None:
        check_writable(output)
    names = source_names(source, SOURCES)
    opened = open_source(open_host(root), interpreter(prefix, Path(sys.executable)), names)
    title = f"readings by {opened.source.name}, Ctrl-C ends" if opened.source else ""
    with GpuDisplay(opened.devices, title, quiet=json_) as display:
        recording = watching.watch(opened, interval, seconds, display.sampled)
    if output is not None:
        from channel_tools.cli import smoke

        head = "GPU readings", f"{len(recording.samples)} samples by {recording.source}"
        smoke.keep(output, recording, watching.report(recording, samples=False), head, None)
    if json_:
        options.print_json(watching.report(recording))
    else:
        _print(recording, output)


def source_names(given: list[str] | None, known: tuple[str, ...]) -> list[str]:
    for name in given or ():
        if name not in known:
            raise typer.BadParameter(f"is one of {', '.join(known)}", param_hint="--source")
    return [name for name in known if not given or name in given]


def _print(recording: Recording, output: Path | None) -> None:
    from rich.console import Console

    from channel_tools.cli.gpu_display import summary_table
    from channel_tools.diagnose.smoke.plot import text_plot

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    console.print(summary_table(recording))
    for line in text_plot(recording, max(20, min(console.width - 50, 100))):
        typer.echo(line)
    gaps = f", {recording.failures} reads failed ({recording.last_failure})" if recording.failures else ""
    typer.echo(f"{len(recording.samples)} samples by {recording.source}{gaps}")
    if output is not None:
        typer.echo(f"kept in {output}")
