"""``rocm-channel deps``: the requirements of an upstream release against its recipe."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options
from channel_tools.cli.progress import ByteBars
from channel_tools.model.project import Project

if TYPE_CHECKING:
    from channel_tools.requirements.deps import DepsReport, OutputReport

Source = Annotated[
    Path | None,
    typer.Option(
        "--source",
        metavar="SDIST|DIR",
        parser=given.path,
        help="Source distribution, packed or not, in place of the one that the recipe names.",
    ),
]


def deps(
    recipe: Annotated[str, typer.Argument(help="Recipe with a requirements.toml, as vllm-rocm.")],
    releases: options.Releases = None,
    source: Source = None,
    all_: Annotated[
        bool, typer.Option("--all", help="List every requirement, not only differences.")
    ] = False,
    json_: options.Json = False,
) -> None:
    """Compare every requirement of a release with recipe.yaml and requirements.toml.

    Each must be in the recipe with the same range, or be left out with a reason. Exit code 16: something is
    new, dropped, or has another range.
    """
    from channel_tools.requirements.deps import check_recipe
    from channel_tools.requirements.obtain import obtain

    project = Project.find()
    matrix = options.selected_matrix(project, None, releases, None)
    with ByteBars(quiet=json_) as bars:
        fetch = partial(obtain, project, listen=bars.update)
        report = check_recipe(project, matrix, recipe, fetch, source)
    if json_:
        options.print_json(report.to_json())
    else:
        _print(report, every=all_)
    if report.differences:
        raise report.error()


def _print(report: DepsReport, *, every: bool) -> None:
    for output in report.outputs:
        _print_output(output, every=every)


def _print_output(output: OutputReport, *, every: bool) -> None:
    from channel_tools.requirements.check import DIFFERS, LEFT_OUT, MAPPED

    typer.echo(
        f"{output.title}: {output.count(MAPPED)} requirements in the recipe, "
        f"{output.count(LEFT_OUT)} left out, {output.count(DIFFERS)} that differ"
    )
    if every:
        for row in output.checked.rows:
            extras = f"[{','.join(row.asked.extras)}]" if row.asked.extras else ""
            asks = f"{row.asked.name}{extras} {row.asked.range}".strip()
            takes = f"{row.section}: {row.conda} {row.takes}".strip() if row.conda else row.verdict
            typer.echo(f"  {row.role:5}  {asks}  ->  {takes}" + (f"  ({row.reason})" if row.reason else ""))
    for difference in output.checked.differences:
        typer.echo(f"  {difference.kind}: {difference.name} {difference.what}")
        typer.echo(f"      at {difference.where}; found: {difference.found}; wanted: {difference.wanted}")
