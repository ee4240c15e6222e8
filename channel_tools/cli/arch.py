"""``rocm-channel arch``: what this host is, what a channel offers, and what to type."""

from __future__ import annotations

from typing import Annotated

import typer

from channel_tools.cli import given, options


def arch(
    channel: Annotated[
        str | None,
        typer.Option("--channel", parser=given.text, help="Folder, address, or a name of .condarc."),
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option("--client", help="conda, mamba, micromamba, pixi or rocm-channel (default: all)."),
    ] = None,
    package: Annotated[str | None, typer.Option("--package", help="What to install.")] = None,
    json_: options.Json = False,
) -> None:
    """Show GPUs and ROCm of this host, what the channel has for them, and the command to type."""
    from channel_tools.client.arch_report import CLIENTS, report
    from channel_tools.client.host import detect_host
    from channel_tools.client.reader import open_reader, printable

    unknown = [one for one in client or () if one not in CLIENTS]
    if unknown:
        raise typer.BadParameter(f"is one of {', '.join(CLIENTS)}", param_hint="--client")
    reader = open_reader(channel) if channel else None
    if reader:
        reader.refuse_label()
    look = reader.look("all") if reader else None
    found = report(detect_host(), reader, look, client or CLIENTS, package)
    if json_:
        options.print_json(found.to_json())
        return
    for line in found.lines:
        typer.echo("\n".join(printable(part) for part in line.split("\n")))
