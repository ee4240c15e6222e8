"""``rocm-channel yank`` and ``unyank``: taking builds back, and bringing them back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options
from channel_tools.cli.care import Address, tell

if TYPE_CHECKING:
    from channel_tools.channel.care.yank import Plan

Spec = Annotated[str, typer.Argument(help="File name, key, or match spec such as 'vllm-rocm ==0.26.0'.")]
Every = Annotated[
    bool, typer.Option("--all", help="Every version and build number that fits, not one alone.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen; write nothing.")]


def yank(
    channel: Address,
    spec: Spec,
    reason: Annotated[str, typer.Option("--reason", help="Why; users read it on the page and at install.")],
    locks: Annotated[
        list[Path] | None,
        typer.Option(
            "--lock", parser=given.path, help="Lock file; told when it names what is yanked. May be repeated."
        ),
    ] = None,
    every: Every = False,
    dry_run: DryRun = False,
    json_: options.Json = False,
) -> None:
    """Take builds out of the index. Their files stay, so that locks that name them still install."""
    from channel_tools.channel.care.yank import plan_yank
    from channel_tools.channel.care.yank import yank as apply_yank
    from channel_tools.channel.stores.opening import open_store
    from channel_tools.channel.who import publisher

    store, who = open_store(channel), publisher()
    if dry_run:
        made = plan_yank(store, spec, reason, who, locks=locks or (), every=every)
    else:
        made, _ = apply_yank(store, spec, reason, who, locks=locks or (), every=every, say=tell)
    _print(made, "yanked", dry_run, json_)


def unyank(
    channel: Address, spec: Spec, every: Every = False, dry_run: DryRun = False, json_: options.Json = False
) -> None:
    """Bring yanked builds back into the index."""
    from channel_tools.channel.care.yank import plan_unyank
    from channel_tools.channel.care.yank import unyank as apply_unyank
    from channel_tools.channel.stores.opening import open_store
    from channel_tools.channel.who import publisher

    store = open_store(channel)
    if dry_run:
        made = plan_unyank(store, spec, every=every)
    else:
        made, _ = apply_unyank(store, spec, publisher(), every=every, say=tell)
    _print(made, "back", dry_run, json_)


def _print(made: Plan, word: str, dry_run: bool, json_: bool) -> None:
    if json_:
        options.print_json({"version": 1, "dry_run": dry_run, **made.to_json()})
        return
    for key in made.keys:
        typer.echo(f"{'would be ' if dry_run else ''}{word}: {key}")
    for note in made.notes:
        typer.echo(f"note: {note}")
