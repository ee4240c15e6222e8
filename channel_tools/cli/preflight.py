"""``rocm-channel preflight``: what would this build compile, before it compiles anything?"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from channel_tools.cli import given, options
from channel_tools.model.errors import ChannelToolsError
from channel_tools.model.project import Project

if TYPE_CHECKING:
    from channel_tools.preflight.report import Report
    from channel_tools.preflight.request import Request


def preflight(
    recipe: Annotated[str, typer.Argument(help="Recipe whose source is configured, as vllm-rocm.")],
    archs: options.Archs = None,
    releases: options.Releases = None,
    build_type: Annotated[
        str, typer.Option("--build-type", help="Release (what conda's compilers ask for) or RelWithDebInfo.")
    ] = "Release",
    source: Annotated[
        Path | None,
        typer.Option(
            "--source", parser=given.path, help="Folder with the source, in place of the recipe's own."
        ),
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option(
            "--python",
            parser=given.path,
            help="Python of the build environment; a PyTorch for ROCm in it is used.",
        ),
    ] = None,
    rocm_path: options.RocmPath = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", help="NAME=VALUE that the build script gets; NAME alone takes it away."),
    ] = None,
    force_env: Annotated[
        list[str] | None,
        typer.Option("--force-env", help="The same for CMake, after the build script and its guards."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep", parser=given.path, help="New folder for the configuration, which is left there."
        ),
    ] = None,
    json_: options.Json = False,
) -> None:
    """Configure the real source as its build script does, and judge what each unit would be compiled with.

    Exit code 0: pass; 22: other levels, archs or flags than wanted, a download, or no configuration;
    60 to 79: a guard of the build script stopped.
    """
    from channel_tools.build.toolchain import choose, require_rocm
    from channel_tools.preflight.request import requests

    project = Project.find()
    matrix = options.selected_matrix(project, archs, releases, None)
    rocm = require_rocm(choose(project, (), "host", rocm_path), project)
    todo = requests(
        project,
        recipe,
        matrix,
        build_type,
        rocm,
        (python or Path(sys.executable)).absolute(),
        source=source,
        engine=_changes(env, "--env"),
        forced=_changes(force_env, "--force-env"),
        cancel=threading.Event(),
        keep=keep,
    )
    if keep is not None and len(todo) != 1:
        raise typer.BadParameter(
            f"takes one configuration, and there are {len(todo)}: choose with --arch and --rocm",
            param_hint="--keep",
        )
    reports, error = _run_all(todo, quiet=json_)
    if json_:
        data: dict[str, Any] = {"version": 1, "reports": [report.to_json() for report in reports]}
        options.print_json({**data, "error": options.error_json(error) if error else None})
    if error:
        raise error


def _changes(words: list[str] | None, option: str) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not name.isidentifier():
            raise typer.BadParameter(f"{word!r} is not NAME=VALUE", param_hint=option)
        changes[name] = value if equals else None
    return changes


def _run_all(todo: list[Request], *, quiet: bool) -> tuple[list[Report], ChannelToolsError | None]:
    """Run as many at once as there are processors; print in order. The first error is part of the result."""
    from channel_tools.preflight.run import run_preflight

    reports: list[Report] = []
    error: ChannelToolsError | None = None
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool, _cancelled(todo):
        for running in [pool.submit(run_preflight, request) for request in todo]:
            try:
                report = running.result()
            except ChannelToolsError as stopped:
                error = error or stopped
                continue
            reports.append(report)
            if not quiet:
                typer.echo("\n".join(report.lines()))
    return reports, error or _verdict(reports)


class _cancelled:  # noqa: N801 - used as a statement
    """Ends what runs when the block is left by an exception, as by Ctrl-C."""

    def __init__(self, todo: list[Request]) -> None:
        self._events = [request.cancel for request in todo if request.cancel]

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            for event in self._events:
                event.set()


def _verdict(reports: list[Report]) -> ChannelToolsError | None:
    from channel_tools.model.errors import PreflightError

    failed = [report for report in reports if report.faults]
    if not failed:
        return None
    first = failed[0].faults[0]
    return PreflightError(
        f"{len(failed)} of {len(reports)} configurations must not be built; the first: {first.what}",
        where=failed[0].title,
        found=first.found,
        wanted=first.wanted,
        fix=first.fix,
    )
