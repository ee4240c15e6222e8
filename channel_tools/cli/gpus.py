"""What ``smoke`` and ``watch`` share: options, and the files that they keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from channel_tools.cli import given

if TYPE_CHECKING:
    from channel_tools.diagnose.smoke.devices import Device
    from channel_tools.diagnose.smoke.recording import Recording

SourceNames = Annotated[
    list[str] | None,
    typer.Option("--source", help="amdsmi, amd-smi, rocm-smi or sysfs, in this order; may be repeated."),
]
Prefix = Annotated[
    Path | None,
    typer.Option("--prefix", parser=given.path, help="Environment whose Python is used (default: this one)."),
]
Output = Annotated[
    Path | None, typer.Option("--output", parser=given.path, help="Folder for samples, report and plot.")
]


def source_names(given: list[str] | None) -> list[str]:
    """The sources that were chosen, all of them without a choice, in the order in which they are tried."""
    from channel_tools.diagnose.smoke.sampler import SOURCES

    for name in given or ():
        if name not in SOURCES:
            raise typer.BadParameter(f"is one of {', '.join(SOURCES)}", param_hint="--source")
    return [name for name in SOURCES if not given or name in given]


def keep(
    output: Path,
    recording: Recording,
    report: dict[str, Any],
    head: tuple[str, str],
    asked: Device | None = None,
) -> None:
    """Write samples, report and plot, under two lines of title, into a folder.

    :param asked: the GPU that stands out in the plot
    :raises StorageError: the folder cannot be written
    """
    from channel_tools.diagnose.smoke import plot
    from channel_tools.diagnose.smoke.recording import PLOT, REPORT
    from channel_tools.model.files import write_text_whole

    recording.write_samples(output)
    write_text_whole(output / REPORT, json.dumps(report, indent=1) + "\n")
    try:
        plot.draw(recording, output / PLOT, title=head[0], subtitle=head[1], asked=asked)
    except ImportError:
        typer.echo("no plot.png: matplotlib is not installed (pip install matplotlib)", err=True)
