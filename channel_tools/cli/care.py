"""Arguments and messages that the commands which look after a channel share."""

from __future__ import annotations

from typing import Annotated

import typer

Address = Annotated[str, typer.Argument(help="Folder, file:///folder or s3://bucket/prefix.")]


def tell(line: str) -> None:
    """Say something on the way, beside the result."""
    typer.echo(line, err=True)
