"""``rocm-channel wheels``: a pip index per ROCm release and GPU arch, of wheels that were verified."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options
from channel_tools.cli.care import tell

if TYPE_CHECKING:
    from channel_tools.channel.wheels.check import Candidate


def wheels(
    to: Annotated[str, typer.Option("--to", help="Folder, file:///folder or s3://bucket/prefix.")],
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="WHEELS", parser=given.existing, help="Built wheels, or folders with them."),
    ] = None,
    rocm: Annotated[
        str | None, typer.Option("--rocm", help="ROCm release of wheels that do not name it, X.Y.")
    ] = None,
    arch: Annotated[
        str | None, typer.Option("--arch", help="GPU target that the wheels must be for.")
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", help="Where consumers read, for the commands on the page.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", parser=given.file, help="Policy of verify that each wheel must keep."),
    ] = None,
    yank: Annotated[
        str | None, typer.Option("--yank", help="File name of a wheel that pip shall not choose any more.")
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Why it is yanked; pip shows it.")] = None,
    unyank: Annotated[str | None, typer.Option("--unyank", help="File name of a yanked wheel.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check all, write nothing.")] = False,
    json_: options.Json = False,
) -> None:
    """Verify wheels and put each into the index of its GPU arch and ROCm release.

    Each gets both into its version, as 0.1.0+rocm72.gfx942. Files never change; adding again does nothing.
    """
    from channel_tools.channel.stores.opening import open_store
    from channel_tools.channel.wheels.index import WheelIndex
    from channel_tools.channel.who import publisher

    if sum(bool(one) for one in (paths, yank, unyank)) != 1:
        raise typer.BadParameter("one of WHEELS, --yank and --unyank is needed", param_hint="WHEELS")
    if yank and not reason:
        raise typer.BadParameter("is needed with --yank", param_hint="--reason")
    store = open_store(to)
    index = WheelIndex(store, publisher(), tell)
    candidates = _checked(paths or [], arch, rocm, policy)
    if paths:
        changes = index.add(candidates, url=url, dry_run=dry_run)
    else:
        changes = index.yank(str(yank or unyank), reason if yank else None, dry_run=dry_run)
    notes = [note for one in candidates for note in one.notes]
    if json_:
        options.print_json(
            {"version": 1, "to": store.address, "dry_run": dry_run, **changes.to_json(), "notes": notes}
        )
        return
    if (yank or unyank) and changes.pages and not dry_run:
        typer.echo(f"yanked: {yank}" if yank else f"back: {unyank}")
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    for key in changes.there:
        typer.echo(f"  there  {key}")
    for key in changes.stored:
        typer.echo(f"  new    {key}")
    if not changes.stored and not changes.pages:
        typer.echo("nothing to do")
    else:
        typer.echo(
            f"{'would change' if dry_run else 'changed'} {len(changes.pages)} pages of {store.address}"
        )


def _checked(paths: list[Path], arch: str | None, rocm: str | None, policy: Path | None) -> list[Candidate]:
    """Every wheel, verified; all reasons against them are told before the last one ends the command."""
    from channel_tools.channel.wheels.check import check_wheel
    from channel_tools.model.errors import ChannelToolsError

    files = [file for path in paths for file in (sorted(path.rglob("*.whl")) if path.is_dir() else [path])]
    if paths and not files:
        raise typer.BadParameter("no wheel in these folders", param_hint="WHEELS")
    good: list[Candidate] = []
    errors: list[ChannelToolsError] = []
    for file in files:
        try:
            good.append(check_wheel(file, arch=arch, rocm=rocm, policy=policy))
        except ChannelToolsError as error:
            errors.append(error)
    for earlier in errors[:-1]:
        typer.echo(f"error: {earlier}", err=True)
    if errors:
        raise errors[-1]
    return good
