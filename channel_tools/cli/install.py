"""``rocm-channel install``: the packages that fit this host, into a prefix."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from channel_tools.channel.folder import FolderChannel
from channel_tools.cli import options


def install(
    specs: Annotated[list[str], typer.Argument(help="What to install, as conda match specs.")],
    prefix: Annotated[Path | None, typer.Option("--prefix", "-p", help="Folder of the environment.")] = None,
    channel: options.Channel = options.DEFAULT_CHANNEL,
    arch: Annotated[
        str | None, typer.Option("--arch", help="GPU target it is for, when that is not this host's GPU.")
    ] = None,
    rocm: Annotated[
        str | None, typer.Option("--rocm", help="ROCm release it is for, when that is not this host's.")
    ] = None,
    more_channels: Annotated[
        list[str] | None, typer.Option("-c", help="Further channel, as conda-forge; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Solve only.")] = False,
    json_: options.Json = False,
) -> None:
    """Install the builds that are made for this host's GPU and ROCm, or refuse with the reason."""
    from channel_tools.client.host import detect_host
    from channel_tools.client.install import install as install_into
    from channel_tools.client.install import read_offer, select
    from channel_tools.model.files import check_writable

    if prefix is None and not dry_run:
        raise typer.BadParameter("is needed, except with --dry-run", param_hint="--prefix")
    source = FolderChannel(_folder(channel))
    selection = select(read_offer(source), detect_host(), str(channel), arch, rocm)
    if not json_:
        for note in selection.notes:
            typer.echo(note, err=True)
    if prefix is not None and not dry_run:
        check_writable(prefix)
    records = install_into(
        source, prefix, specs, selection, options.channel_urls(more_channels), dry_run=dry_run
    )
    if json_:
        options.print_json({"version": 1, "prefix": str(prefix) if prefix else None, "packages": records})
        return
    for record in records:
        typer.echo(f"  {record['name']:<20} {record['version']:<12} {record['build']}")
    typer.echo(f"{'would be' if dry_run else 'is'} in {prefix}" if prefix else "solved")


def _folder(channel: Path) -> Path:
    text = str(channel)
    return Path(text.removeprefix("file:")) if text.startswith("file:") else channel.absolute()
