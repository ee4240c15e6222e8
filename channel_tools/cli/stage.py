"""``rocm-channel stage``: a recipe's real sources, unpacked and patched as for a build."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options
from channel_tools.cli.progress import ByteBars
from channel_tools.model.project import Project

if TYPE_CHECKING:
    from channel_tools.sources.stage import Staged, StagedSource


def stage(
    recipe: Annotated[str, typer.Argument(help="Package whose sources are staged.")],
    archs: options.Archs = None,
    releases: options.Releases = None,
    pythons: options.Pythons = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into", parser=given.path, help="Folder for the tree (default: work/stage/<file stem>)."
        ),
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Leave out sources that cannot be had.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use no network: folders only.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a tree that was staged before.")] = False,
    json_: options.Json = False,
) -> None:
    """Fetch, check, unpack and patch the sources of a package, and leave the tree for inspection.

    One tree for each set of sources in the selected part of the matrix. Exit code 14: a source could not be
    had; 15: a patch does not fit without fuzz.
    """
    from channel_tools.sources.fetch import Fetcher
    from channel_tools.sources.needed import outputs_for
    from channel_tools.sources.stage import distinct
    from channel_tools.sources.stage import stage as stage_output
    from channel_tools.sources.store import Store

    project = Project.find()
    matrix = options.selected_matrix(project, archs, releases, pythons)
    outputs = distinct(o for o in outputs_for(project, matrix, [recipe]) if o.package == recipe)
    if into is not None and len(outputs) != 1:
        raise typer.BadParameter(
            f"takes one tree, and {recipe} has {len(outputs)}: choose with --rocm", param_hint="--into"
        )
    with ByteBars(quiet=json_) as bars:
        fetcher = Fetcher(
            Store.of(project),
            offline,
            listen=bars.update,
            ended=lambda fetched: bars.ended(fetched.source.name),
        )
        staged = [
            stage_output(
                output,
                into or project.work / "stage" / output.stem,
                fetcher,
                partial=partial,
                force=force,
                listen=bars.say,
            )
            for output in outputs
        ]
    if json_:
        options.print_json({"version": 1, "staged": [tree.to_json() for tree in staged]})
        return
    for tree in staged:
        _print(tree)


def _print(tree: Staged) -> None:
    typer.echo(f"{tree.output.stem}: {tree.folder}")
    for source in tree.sources:
        typer.echo(f"  {source.name} -> {source.entry.target_directory or '.'}{_content(source)}")
        for report in source.patches:
            count, off = len(report.hunks), sum(hunk.offset != 0 for hunk in report.hunks)
            hunks = "1 hunk" if count == 1 else f"{count} hunks"
            how = f"{off} with an offset, no fuzz" if off else "no offset, no fuzz"
            typer.echo(f"    {report.patch.name}: {hunks}, {how}")
    for warning in tree.warnings:
        typer.echo(f"  warning: {warning}", err=True)
    for missing in tree.missing:
        notes = "; ".join(missing.notes)
        typer.echo(f"  warning: left out, since no place gives it: {missing.source.name} ({notes})", err=True)


def _content(source: StagedSource) -> str:
    if source.unpacked is None:
        return ""
    return f" ({source.unpacked.files} files, {source.unpacked.links} links, none leads out)"
