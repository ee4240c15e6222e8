"""``rocm-channel explain``: what went wrong in this log, why, and what helps."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from channel_tools.cli import given, options


def explain(
    log: Annotated[
        str,
        typer.Argument(
            parser=given.text, help="A log of any size, also compressed; - or nothing: standard input."
        ),
    ] = "-",
    every: Annotated[bool, typer.Option("--all", help="Show every finding whole.")] = False,
    require: Annotated[
        bool, typer.Option("--require", help="End with 82 if no known cause is found.")
    ] = False,
    json_: options.Json = False,
) -> None:
    """Find known causes in a build log, a traceback, a solver's message or a kernel log.

    The first real error comes first; what only follows from it, and what is harmless, is named as such.
    """
    from channel_tools.diagnose import report
    from channel_tools.diagnose.explain import explain_file, explain_stream
    from channel_tools.model.errors import UnexplainedError

    if log == "-":
        if sys.stdin.isatty():
            typer.echo("reading standard input; end it with Ctrl-D", err=True)
        explanation = explain_stream(sys.stdin.buffer)
    else:
        explanation = explain_file(Path(log))
    if json_:
        options.print_json(report.to_json(explanation))
    else:
        for line in report.text(explanation, every=every):
            typer.echo(line)
    if require and explanation.verdict != "explained":
        raise UnexplainedError(
            "no known cause was found",
            where=log,
            found=f"{len(explanation.errors)} lines that look like errors",
        )
