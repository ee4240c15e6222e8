"""``rocm-channel doctor``: is this host fit to build, or to use, packages for its GPU?"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options

if TYPE_CHECKING:
    from channel_tools.diagnose.doctor.doctor import Result

_COLOURS = {"error": "red", "warning": "yellow", "info": "blue", "ok": "green", "skipped": "bright_black"}
_WIDTH = 110
_INDENT = 19


def doctor(
    scope: Annotated[
        str | None, typer.Argument(metavar="[build|use]", help="Only the checks of build hosts, or of users.")
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            "--root",
            help="Look at the host below this folder, or at a recorded one.",
            parser=given.folder,
        ),
    ] = None,
    prefix: Annotated[
        Path | None,
        typer.Option("--prefix", parser=given.path, help="Environment to judge (default: the active one)."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail, too.")] = False,
    json_: options.Json = False,
) -> None:
    """Check this host: what was found, what is wanted, why it matters, and how to mend it.

    Needs no root and changes nothing. Exit code 0: no error; 80: errors; 81: warnings, with --strict.
    """
    from channel_tools.diagnose.doctor import doctor as checks
    from channel_tools.diagnose.doctor.hosts import open_host

    if scope not in (None, *checks.SCOPES):
        raise typer.BadParameter("is build or use", param_hint="[build|use]")
    host = open_host(root)
    judged = None
    if prefix is not None:
        judged = str(prefix.absolute() if host.live else Path("/") / prefix)
        if not host.is_dir(judged):
            raise typer.BadParameter(f"{prefix}: no such folder on that host", param_hint="--prefix")
    results = checks.examine(host, [scope] if scope else checks.SCOPES, judged)
    if json_:
        options.print_json(checks.to_json(results))
    else:
        _print(results)
    failed = checks.failure(results, strict=strict)
    if failed and json_:
        raise SystemExit(failed.exit_code)
    if failed:
        raise failed


def _print(results: Sequence[Result]) -> None:
    for scope in dict.fromkeys(result.scope for result in results):
        typer.secho({"build": "To build", "use": "To use"}[scope], bold=True)
        for result in (one for one in results if one.scope == scope):
            typer.echo(f"  {_word(result.status.word)} {result.check.about.title}: {result.outcome.found}")
            if result.status.word in ("error", "warning"):
                _detail("wanted", result.wanted)
                _detail("why", result.check.about.why)
            if result.outcome.fix:
                _detail("fix", result.outcome.fix)


def _word(word: str) -> str:
    return typer.style(f"{word:<8}", fg=_COLOURS[word])


def _detail(label: str, text: str) -> None:
    columns = shutil.get_terminal_size((_WIDTH + _INDENT, 24)).columns
    width = max(20, min(_WIDTH, columns - _INDENT))
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    typer.echo(f"           {label + ':':<8}" + f"\n{' ' * _INDENT}".join(lines))
