"""``rocm-channel mirror``: the exact files of locks, for sites without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options

if TYPE_CHECKING:
    from channel_tools.client.mirroring.mirror import Mirrored


def mirror(
    locks: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOCKS",
            parser=given.path,
            help="Explicit lists, pixi.lock, conda-lock.yml; a pinned environment.yml beside them.",
        ),
    ],
    to: Annotated[
        str, typer.Option("--to", parser=given.text, help="Folder, file:///folder or s3://bucket/prefix.")
    ],
    url: Annotated[
        str | None, typer.Option("--url", help="Where the mirror will be read (default: there).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be fetched.")] = False,
    json_: options.Json = False,
) -> None:
    """Fetch the files of locks into channels of their own, checked, with the locks rewritten beside them.

    Nothing is fetched twice: run it again after a failure, or with more locks.
    """
    from channel_tools.cli.progress import ByteBars
    from channel_tools.client.addresses import credentials
    from channel_tools.client.locks.lock_files import read_lock_file
    from channel_tools.client.mirroring.mirror import mirror as run

    if url is not None and ("://" not in url or credentials(url)):
        raise typer.BadParameter("is an address without credentials", param_hint="--url")
    read = [read_lock_file(path) for path in locks]
    with ByteBars(quiet=json_) as bars:
        done = run(read, to, url=url, dry_run=dry_run, progress=bars.update, say=bars.say)
    if json_:
        options.print_json({"version": 1, "dry_run": dry_run, **done.to_json()})
    else:
        _print(done, to.rstrip("/"), dry_run)


def _print(done: Mirrored, to: str, dry_run: bool) -> None:
    for note in done.notes:
        typer.echo(f"note: {note}", err=True)
    for source in done.plan.sources:
        typer.echo(f"{source.url} -> {done.address}/{source.folder}: {len(source.wanted)} files")
    for one in done.missing:
        typer.echo(f"would be fetched: {one.place.url}")
    some = done.missing if dry_run else done.fetched
    size = sum(one.size or 0 for one in some) / 1e6
    word = "would be fetched" if dry_run else "fetched"
    typer.echo(f"{len(some)} files {word}, {size:.1f} MB; {len(done.present)} were there")
    for name in done.locks:
        typer.echo(f"{'would be written' if dry_run else 'written'}: {to}/{name}")
