"""Arguments and messages that the commands which look after a channel share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

Address = Annotated[str, typer.Argument(help="Folder, file:///folder or s3://bucket/prefix.")]


def tell(line: str) -> None:
    """Say something on the way, beside the result."""
    typer.echo(line, err=True)


def tell_solves(solves: Sequence[Mapping[str, Any]]) -> None:
    """Say how the new state was read back, and what had to be assumed."""
    solved = sum(not solve["refused"] for solve in solves)
    refused = len(solves) - solved
    typer.echo(f"read back: {solved} environments as the release says, {refused} unknown GPUs refused")
    assumed = sorted({name for solve in solves for name in solve["assumed"]})
    if assumed:
        typer.echo(f"assumed of other channels, which were not read: {', '.join(assumed)}")
