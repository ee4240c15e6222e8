"""``rocm-channel publish``: one release into a channel, all of it or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options
from channel_tools.cli.attesting import attester
from channel_tools.cli.care import tell_solves

if TYPE_CHECKING:
    from channel_tools.channel.publishing.publish import Published


def publish(
    packages: Annotated[
        list[Path],
        typer.Argument(parser=given.existing, help="Packages of one release, or folders with them."),
    ],
    channel: Annotated[str, typer.Option("--channel", help="Folder, file:///folder or s3://bucket/prefix.")],
    allow_missing: Annotated[
        list[str] | None,
        typer.Option("--allow-missing", help="A part of the matrix that may be missing; may be repeated."),
    ] = None,
    attest: Annotated[
        bool | None,
        typer.Option(
            "--attest/--no-attest",
            help="Sign each package (default: where the channel requires attestations).",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do all but write.")] = False,
    json_: options.Json = False,
) -> None:
    """Verify and publish a release; it counts as published once the channel was read back as a consumer."""
    from channel_tools.channel.publishing.publish import Publisher
    from channel_tools.channel.stores.opening import open_store
    from channel_tools.channel.who import publisher
    from channel_tools.cli.progress import Steps
    from channel_tools.model.project import Project

    store = open_store(channel)
    with Steps() as steps:
        made = Publisher(
            store,
            options.load_matrix(Project.find()),
            publisher(),
            tuple(allow_missing or ()),
            None if dry_run else attester(store, attest),
            steps.say,
        ).publish(packages, dry_run=dry_run)
    if json_:
        options.print_json(
            {
                "version": 1,
                "channel": store.address,
                "dry_run": dry_run,
                "changed": made.changed,
                "stored": list(made.stored),
                "repaired": list(made.repaired),
                "solves": list(made.solves),
                "release": made.release.model_dump(mode="json"),
            }
        )
        return
    _show(made, store.address, dry_run)


def _show(made: Published, address: str, dry_run: bool) -> None:
    release = made.release
    if not made.changed:
        typer.echo(f"nothing to do: release {release.id} of {release.created} has all of it already")
        return
    for file in release.files:
        typer.echo(f"  {'new  ' if file.key in made.stored else 'there'}  {file.key}")
    tell_solves(made.solves)
    if dry_run:
        typer.echo(f"would be published to {address}; nothing was written")
    else:
        typer.echo(f"published {release.id} to {address}")
