"""``rocm-channel configure``: a channel made known to conda, mamba or pixi."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options

if TYPE_CHECKING:
    from channel_tools.client.configuring.configure import Plan


def configure(
    channel: Annotated[
        str | None, typer.Option("--channel", parser=given.text, help="Address of the channel.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="What to call it (default: the end of the address).")
    ] = None,
    client: Annotated[str, typer.Option("--client", help="conda, mamba, pixi or environment.")] = "conda",
    arch: Annotated[str | None, typer.Option("--arch", help="GPU target to declare.")] = None,
    rocm: Annotated[str | None, typer.Option("--rocm", help="ROCm release to declare.")] = None,
    dependencies: Annotated[
        list[str] | None,
        typer.Option("--dependency-channel", help="Channel after it (default: conda-forge); repeatable."),
    ] = None,
    check_host: Annotated[
        bool, typer.Option("--check-host", help="pixi 0.82: refuse hosts without the GPU of --arch.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", parser=given.path, help="Configuration file (default: the client's usual one)."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change; write nothing.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take back the last change of the file.")] = False,
    json_: options.Json = False,
) -> None:
    """Write the channel into a client's configuration, in the right order and with strict priority."""
    from channel_tools.client.configuring import backup as config_backup
    from channel_tools.client.configuring.configure import DEFAULT_FILES, plan, wanted_of
    from channel_tools.client.reader import open_reader

    if client not in DEFAULT_FILES:
        raise typer.BadParameter(f"is one of {', '.join(DEFAULT_FILES)}", param_hint="--client")
    if undo:
        target = file or DEFAULT_FILES[client]
        made = config_backup.plan_undo(target) if dry_run else config_backup.undo(target)
        _print(made, dry_run, json_, "would be as before" if dry_run else "is as before")
        return
    if channel is None:
        raise typer.BadParameter("is needed", param_hint="--channel")
    url = channel if "://" in channel else open_reader(channel).url
    wanted = wanted_of(
        url,
        client,
        name=name,
        arch=arch,
        rocm=rocm,
        dependencies=dependencies or ("conda-forge",),
        check_host=check_host,
    )
    made = plan(wanted, file)
    if made.changes and not dry_run:
        config_backup.apply(made)
    said = "would be changed" if dry_run else "changed; --undo takes it back"
    _print(made, dry_run, json_, said if made.changes else "has all of it already")


def _print(made: Plan, dry_run: bool, json_: bool, said: str) -> None:
    if json_:
        options.print_json(
            {
                "version": 1,
                "file": str(made.file),
                "changed": made.changes,
                "dry_run": dry_run,
                "diff": made.diff,
                "notes": list(made.notes),
            }
        )
        return
    typer.echo(made.diff, nl=False)
    for note in made.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"{made.file}: {said}")
