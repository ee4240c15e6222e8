"""``rocm-channel recipes``: write the generated ``meta.yaml`` files, or check them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from channel_tools.cli import given
from channel_tools.cli.options import Json, error_json, print_json
from channel_tools.model.project import project_root

app = typer.Typer(help="Write each meta.yaml from its recipe.yaml, or check it.", no_args_is_help=True)

RecipesDir = Annotated[
    Path | None,
    typer.Option(
        "--recipes-dir", parser=given.path, help="Folder of recipes (default: recipes/ of the project)."
    ),
]


@app.command("sync")
def sync_command(
    recipes_dir: RecipesDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show changes; write nothing.")] = False,
    json_: Json = False,
) -> None:
    """Write every meta.yaml that differs from what its recipe.yaml gives."""
    from channel_tools.recipe_v0.sync import changes, sync

    folder = recipes_dir or project_root() / "recipes"
    found = [change for change in changes(folder) if change.new is not None]
    if not dry_run:
        sync(folder)
    if json_:
        files = [{"path": str(change.path), "diff": change.diff()} for change in found]
        print_json({"version": 1, "dry_run": dry_run, "changed": files})
        return
    for change in found:
        typer.echo(change.diff() if dry_run else f"wrote {change.path}", nl=not dry_run)
    if not found:
        typer.echo("every meta.yaml is up to date")


@app.command("check")
def check_command(recipes_dir: RecipesDir = None, json_: Json = False) -> None:
    """Fail with exit code 12 if a meta.yaml differs from what its recipe.yaml gives."""
    from channel_tools.recipe_v0.sync import changes

    errors = [change.error() for change in changes(recipes_dir or project_root() / "recipes")]
    if json_:
        print_json({"version": 1, "in_sync": not errors, "differences": [error_json(e) for e in errors]})
    else:
        for error in errors[:-1]:
            typer.echo(f"error: {error}", err=True)
        if not errors:
            typer.echo("every meta.yaml is up to date")
    if errors:
        raise errors[-1]
