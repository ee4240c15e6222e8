"""``rocm-channel sources``: what the recipes need from elsewhere, and the store of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options
from channel_tools.cli.progress import ByteBars
from channel_tools.model.project import Project

if TYPE_CHECKING:
    from channel_tools.sources.fetch import Fetched
    from channel_tools.sources.needed import Source
    from channel_tools.sources.store import Store

app = typer.Typer(help="What the recipes need from elsewhere, and the store of it.", no_args_is_help=True)

Recipes = Annotated[
    list[str] | None, typer.Argument(help="Only the sources of these packages and of what they need.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done.")]


@app.command("list")
def list_command(
    recipes: Recipes = None,
    archs: options.Archs = None,
    releases: options.Releases = None,
    pythons: options.Pythons = None,
    json_: options.Json = False,
) -> None:
    """Show each source with its sha256, its addresses, who needs it, and whether it is in the store."""
    from channel_tools.sources import text

    store, sources = _selected(recipes, archs, releases, pythons)
    if json_:
        data = [text.source_json(store, source) for source in sources]
        options.print_json({"version": 1, "store": str(store.root), "sources": data})
        return
    from rich.table import Table

    from channel_tools.cli.progress import print_table

    table = Table(box=None, pad_edge=False)
    for title in ("file", "in the store", "size", "sha256", "needed by"):
        table.add_column(title, overflow="fold")
    for source in sources:
        state, size = store.state(source)
        users = "\n".join(text.users(source.uses))
        table.add_row(source.name, state, text.mib(size), f"{source.sha256[:12]}...", users)
    print_table(table)
    for source in sources:
        for url in source.urls:
            typer.echo(f"  {url}")
    typer.echo(f"store: {store.root}")


@app.command("fetch")
def fetch_command(
    recipes: Recipes = None,
    archs: options.Archs = None,
    releases: options.Releases = None,
    pythons: options.Pythons = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=16, help="Files at once.")] = 4,
    offline: Annotated[bool, typer.Option("--offline", help="Use no network: folders only.")] = False,
    dry_run: DryRun = False,
    json_: options.Json = False,
) -> None:
    """Bring sources into the store: from its folder, SOURCE_MIRROR, the Python index, the public address.

    A download that was interrupted goes on where it ended. Every file is checked; one with another sha256 is
    kept aside. Exit code 14 if a source could not be had; the others are fetched all the same.
    """
    from channel_tools.sources import text
    from channel_tools.sources.fetch import Fetcher

    store, sources = _selected(recipes, archs, releases, pythons)
    if dry_run:
        wanted = [source for source in sources if store.state(source)[0] != "present"]
        if json_:
            data = [text.source_json(store, source) for source in wanted]
            options.print_json({"version": 1, "dry_run": True, "store": str(store.root), "sources": data})
        for source in wanted if not json_ else ():
            typer.echo(text.wanted_line(store, source))
        return
    with ByteBars(quiet=json_) as bars:

        def ended(fetched: Fetched) -> None:
            bars.ended(fetched.source.name)
            bars.say(text.fetched_line(fetched))
            for note in fetched.notes if fetched.error is None else ():
                bars.say(f"          before that, {note}")

        results = Fetcher(store, offline, jobs, listen=bars.update, ended=ended).run(sources)
    errors = [result.error for result in results if result.error is not None]
    if json_:
        files = [
            {**text.fetched_json(store, r), "error": options.error_json(r.error) if r.error else None}
            for r in results
        ]
        options.print_json({"version": 1, "store": str(store.root), "sources": files})
    else:
        for error in errors[:-1]:
            typer.echo(f"error: {error}", err=True)
        counts = {s: sum(r.status == s for r in results) for s in ("fetched", "kept", "failed")}
        summary = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        typer.echo(f"{summary or 'no sources'}: {store.root}")
    if errors:
        raise errors[-1]


@app.command("verify")
def verify_command(
    recipes: Recipes = None,
    archs: options.Archs = None,
    releases: options.Releases = None,
    pythons: options.Pythons = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Leave damaged files where they are.")] = False,
    json_: options.Json = False,
) -> None:
    """Hash every file of the store again; name what is missing, damaged, or needed by no recipe.

    Damaged files are set aside, where no build takes them. Exit code 31 if a file is damaged, 14 if one is
    missing.
    """
    from channel_tools.sources import text
    from channel_tools.sources.needed import needed_sources

    store, sources = _selected(recipes, archs, releases, pythons)
    project = Project.find()
    every = needed_sources(project, options.load_matrix(project))
    with ByteBars(quiet=json_) as bars:
        total = sum(path.stat().st_size for path in store.objects())
        findings = store.verify(sources, every, dry_run=dry_run, listen=_adding(bars, "hashing", total))
    if json_:
        data = [text.finding_json(finding) for finding in findings]
        options.print_json({"version": 1, "store": str(store.root), "files": data})
    else:
        for finding in findings:
            typer.echo(text.finding_line(finding))
        typer.echo(f"store: {store.root}")
    error = text.verify_error(store, findings)
    if error is not None:
        raise error


@app.command("mirror")
def mirror_command(
    folder: Annotated[
        Path, typer.Argument(parser=given.path, help="Folder to write, for SOURCE_MIRROR on another host.")
    ],
    recipes: Recipes = None,
    archs: options.Archs = None,
    releases: options.Releases = None,
    pythons: options.Pythons = None,
    dry_run: DryRun = False,
    json_: options.Json = False,
) -> None:
    """Copy sources out of the store into a flat folder, check each copy, and write SHA256SUMS.

    Exit code 14 if the store lacks some of them; the others are copied.
    """
    from channel_tools.sources import text
    from channel_tools.sources.export import export

    store, sources = _selected(recipes, archs, releases, pythons)
    with ByteBars(quiet=json_) as bars:
        total = sum(size or 0 for state, size in map(store.state, sources) if state == "present")
        exported = export(store, sources, folder, dry_run=dry_run, listen=_adding(bars, "copying", total))
    groups = {"copied": exported.copied, "there": exported.there, "missing": exported.missing}
    url = folder.absolute().as_uri()
    if json_:
        names = {word: [source.name for source in group] for word, group in groups.items()}
        options.print_json({"version": 1, "dry_run": dry_run, "source_mirror": url, **names})
    else:
        for word, group in groups.items():
            for source in group:
                typer.echo(f"{'would copy' if dry_run and word == 'copied' else word:<10} {source.name}")
        typer.echo(f"for the other host: export SOURCE_MIRROR={url}")
    if exported.missing:
        raise text.missing_error(store, [source.name for source in exported.missing])


def _selected(
    recipes: Sequence[str] | None,
    archs: Sequence[str] | None,
    releases: Sequence[str] | None,
    pythons: Sequence[str] | None,
) -> tuple[Store, tuple[Source, ...]]:
    from channel_tools.sources.needed import needed_sources
    from channel_tools.sources.store import Store

    project = Project.find()
    matrix = options.selected_matrix(project, archs, releases, pythons)
    return Store.of(project), needed_sources(project, matrix, list(recipes or ()))


def _adding(bars: ByteBars, name: str, total: int) -> Callable[[int], None]:
    """A listener for pieces, which the bars want as a running sum."""
    done = 0

    def listen(count: int) -> None:
        nonlocal done
        done += count
        bars.update(name, done, total)

    return listen
