"""``rocm-channel watch``: power, temperature, clock, load and memory of each GPU, again and again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options
from channel_tools.cli.gpus import Output, Prefix, SourceNames, keep, source_names

if TYPE_CHECKING:
    from channel_tools.diagnose.smoke.recording import Recording

LONGEST = 365 * 24 * 3600.0


def watch(
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0, max=LONGEST, help="How long (default: until Ctrl-C)."),
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", min=0.05, max=3600, help="Seconds from one reading to the next.")
    ] = 1.0,
    source: SourceNames = None,
    prefix: Prefix = None,
    root: Annotated[
        Path | None,
        typer.Option("--root", parser=given.folder, help="Look at a recorded host."),
    ] = None,
    output: Output = None,
    json_: options.Json = False,
) -> None:
    """Read power, temperature, clock, load and memory of each GPU; Ctrl-C ends it with the summary.

    Readings come from the library amdsmi, else amd-smi, else rocm-smi, else sysfs.
    """
    from channel_tools.cli.gpu_display import GpuDisplay
    from channel_tools.diagnose.doctor.hosts import open_host
    from channel_tools.diagnose.smoke import watch as watching
    from channel_tools.diagnose.smoke.sampler import open_source
    from channel_tools.diagnose.smoke.smoke import interpreter
    from channel_tools.model.files import check_writable

    if output is not None:
        check_writable(output)
    names = source_names(source)
    opened = open_source(open_host(root), interpreter(prefix, Path(sys.executable)), names)
    title = f"readings by {opened.source.name}, Ctrl-C ends" if opened.source else ""
    with GpuDisplay(opened.devices, title, quiet=json_) as display:
        recording = watching.watch(opened, interval, seconds, display.sampled)
    if output is not None:
        head = "GPU readings", f"{len(recording.samples)} samples by {recording.source}"
        keep(output, recording, watching.report(recording, samples=False), head)
    if json_:
        options.print_json(watching.report(recording))
    else:
        _print(recording, output)


def _print(recording: Recording, output: Path | None) -> None:
    from channel_tools.cli.gpu_display import print_recording, printed, summary_table

    print_recording(summary_table(recording), recording)
    gaps = f", {recording.failures} reads failed ({recording.last_failure})" if recording.failures else ""
    typer.echo(printed(f"{len(recording.samples)} samples by {recording.source}{gaps}"))
    if output is not None:
        typer.echo(printed(f"kept in {output}"))
