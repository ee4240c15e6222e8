"""``rocm-channel promote``: a release from a staging channel to the one that consumers use."""

from __future__ import annotations

from typing import Annotated

import typer

from channel_tools.cli import options
from channel_tools.cli.attesting import attester
from channel_tools.cli.care import tell_solves


def promote(
    staging: Annotated[str, typer.Argument(help="Channel that has the release: folder or s3://.")],
    target: Annotated[str, typer.Argument(help="Channel that gets it: folder or s3://.")],
    release: Annotated[str, typer.Option("--release", help="Id of the release.")],
    allow_missing: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-missing", help="A part of the matrix that may be missing, beside the release's own."
        ),
    ] = None,
    attest: Annotated[
        bool | None,
        typer.Option(
            "--attest/--no-attest",
            help="Sign each package for the target (default: where it requires attestations).",
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read, hash and verify every package of the release again.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and plan; write nothing.")] = False,
    json_: options.Json = False,
) -> None:
    """Copy a release, index it, and read the target back as a consumer; nothing is built or changed."""
    from channel_tools.channel.publishing.promote import Promotion, rehearse
    from channel_tools.channel.publishing.promote import promote as apply_promotion
    from channel_tools.channel.publishing.readback import read_back
    from channel_tools.channel.stores.opening import open_store
    from channel_tools.channel.who import publisher
    from channel_tools.cli.progress import Steps
    from channel_tools.model.project import Project

    store = open_store(target)
    promotion = Promotion(
        open_store(staging),
        release,
        publisher(),
        options.load_matrix(Project.find()),
        tuple(allow_missing or ()),
        None if dry_run else attester(store, attest),
        read_back,
        verify=verify,
        rehearsal=dry_run,
    )
    with Steps() as steps:
        planned, applied = (
            rehearse(store, promotion) if dry_run else apply_promotion(store, promotion, say=steps.say)
        )
    stored = [addition.key for addition in applied.change.additions]
    if json_:
        options.print_json(
            {
                "version": 1,
                "channel": store.address,
                "dry_run": dry_run,
                "changed": applied.changed,
                "stored": stored,
                "repaired": list(applied.repaired),
                "solves": list(applied.solves),
                "release": planned.release.model_dump(mode="json"),
            }
        )
        return
    if not applied.changed:
        typer.echo(f"nothing to do: {store.address} has release {release} already")
        return
    for key in stored:
        typer.echo(f"  new    {key}")
    tell_solves(applied.solves)
    if dry_run:
        typer.echo(f"would be promoted to {store.address}; nothing was written")
    else:
        typer.echo(f"promoted {release} to {store.address}")
