"""``rocm-channel bump``: prepare the update of a recipe to a new upstream release."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options
from channel_tools.cli.progress import ByteBars
from channel_tools.model.project import Project

if TYPE_CHECKING:
    from channel_tools.requirements.bump import Bump


def bump(
    package: Annotated[str, typer.Argument(help="Upstream project, as vllm.")],
    version: Annotated[str, typer.Argument(help="Its new release.")],
    release: Annotated[
        str | None,
        typer.Option(
            "--rocm", help="ROCm release whose stack changes (default: that with its newest version)."
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--source",
            metavar="SDIST|DIR",
            parser=given.path,
            help="Its source distribution (default: fetched).",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; write nothing.")
    ] = False,
    json_: options.Json = False,
) -> None:
    """Compare a new release with the recipe, and put its version and sha256 into variants/.

    The report says what else it changes: patches, torch and Triton, extension modules, downloads,
    requirements, compilers, Python. What is left to a person comes last.
    """
    from channel_tools.requirements.bump import prepare, write
    from channel_tools.requirements.obtain import listed_sha256, obtain

    project = Project.find()
    matrix = options.load_matrix(project)

    with ByteBars(quiet=json_) as bars:
        fetch = partial(obtain, project, listen=bars.update)

        def archive(current: str) -> Path:
            if source is not None:
                return source
            name = f"{current.rsplit('-', 1)[0]}-{version}.tar.gz"
            return fetch(name, listed_sha256(name))

        found = prepare(project, matrix, package, release, archive, fetch)
    _check_version(found, version, source)
    if not dry_run:
        write(found, project.matrix_file)
    if json_:
        options.print_json({"version": 1, "dry_run": dry_run, **found.to_json()})
    else:
        _print(found, dry_run=dry_run)


def _check_version(found: Bump, version: str, source: Path | None) -> None:
    from channel_tools.model.errors import RequirementsError

    if found.after.version != version:
        raise RequirementsError(
            "is another release",
            where=source,
            found=found.after.version,
            wanted=version,
            fix="correct --source",
        )


def _print(found: Bump, *, dry_run: bool) -> None:
    from channel_tools.requirements.bump_text import lines

    for line in lines(found, dry_run=dry_run):
        typer.echo(line)
