"""``rocm-channel prune``: deleting what nothing names any more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from channel_tools.channel.care.prune import DAYS
from channel_tools.cli import given, options
from channel_tools.cli.care import Address, tell


def prune(
    channel: Address,
    locks: Annotated[
        list[Path] | None,
        typer.Option("--lock", parser=given.path, help="Lock file; what it names stays. May be repeated."),
    ] = None,
    days: Annotated[float, typer.Option("--days", min=0, help="Yanked builds stay this long.")] = DAYS,
    superseded: Annotated[
        bool,
        typer.Option(
            "--superseded", help="Also builds that no release has and a newer one of the variant replaces."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without, it is only said.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go; the default.")] = False,
    json_: options.Json = False,
) -> None:
    """Delete packages that no index has, builds yanked long ago, and left-over shards and attestations.

    What a release manifest or a given lock file names is never deleted. Nothing is deleted without --yes.
    """
    from channel_tools.channel.care.prune import plan_prune
    from channel_tools.channel.care.prune import prune as apply_prune
    from channel_tools.channel.stores.opening import open_store
    from channel_tools.channel.who import publisher

    if yes and dry_run:
        raise typer.BadParameter("contradict each other", param_hint="--yes, --dry-run")
    store, files = open_store(channel), locks or ()
    if yes:
        made, _ = apply_prune(store, publisher(), locks=files, days=days, old_too=superseded, say=tell)
    else:
        made = plan_prune(store, locks=files, days=days, old_too=superseded)
    if json_:
        options.print_json({"version": 1, "dry_run": not yes, **made.to_json()})
        return
    for file in made.gone:
        typer.echo(f"{'deleted' if yes else 'would go'}: {file.key} ({file.why})")
    for key in made.stray:
        typer.echo(f"{'dropped' if yes else 'would go'}: {key} (an unfinished upload)")
    for file in made.kept:
        typer.echo(f"stays: {file.key} ({file.why}, but {file.kept})")
    count = len(made.gone) + len(made.stray)
    mib = made.size / 2**20
    if not count:
        typer.echo("nothing to delete")
    elif yes:
        typer.echo(f"{count} files deleted, {mib:.1f} MiB")
    else:
        typer.echo(f"{count} files, {mib:.1f} MiB; give --yes to delete them")
