"""Values of options as a user means them.

An empty one is that of a variable that is not set, and would mean this folder, or a default. In
``--prefix=~/x`` bash leaves the ``~`` as it is, and a folder of that name would be made.
"""

from __future__ import annotations

import os
from pathlib import Path

import typer


def text(value: str) -> str:
    """
    :raises typer.BadParameter: empty
    """
    if not value.strip():
        raise typer.BadParameter("is empty")
    return value


def path(value: str) -> Path:
    """
    :raises typer.BadParameter: empty, or below the home folder of nobody
    """
    try:
        return Path(text(value)).expanduser()
    except RuntimeError as error:
        raise typer.BadParameter(f"{value}: no home folder of that name is known") from error


def existing(value: str) -> Path:
    """
    :raises typer.BadParameter: as :func:`path`; nothing is there
    """
    found = path(value)
    if not os.path.exists(found):  # noqa: PTH110 - Path.exists() raises where nobody may look
        raise typer.BadParameter(f"{value} does not exist")
    return found


def file(value: str) -> Path:
    """
    :raises typer.BadParameter: as :func:`existing`; a folder
    """
    found = existing(value)
    if os.path.isdir(found):  # noqa: PTH112
        raise typer.BadParameter(f"{value} is a folder, no file")
    return found


def folder(value: str) -> Path:
    """
    :raises typer.BadParameter: as :func:`existing`; no folder
    """
    found = existing(value)
    if not os.path.isdir(found):  # noqa: PTH112
        raise typer.BadParameter(f"{value} is no folder")
    return found
