"""Changing values of ``variants/conda_build_config.yaml`` in place: every other character stays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from channel_tools.model.errors import MatrixError
from channel_tools.model.files import written_whole
from channel_tools.model.matrix import read_matrix

_ITEM = re.compile(r"""(\s*-\s*)(["'])(.*?)\2(\s*(?:#.*)?)""")


def set_values(path: Path, column: int, values: Mapping[str, str]) -> None:
    """Put one value for each key into a column (from 0) of a matrix file.

    The new file is written beside the old one, read as a matrix, and renamed.

    :raises MatrixError: the file has no such key or column, or is no matrix afterwards
    :raises StorageError: it cannot be written
    """
    path = path.resolve()  # a recipe's file is a link
    lines = path.read_text(encoding="utf-8").split("\n")
    for key, value in values.items():
        number = _line_of(lines, key, column)
        if number is None:
            raise MatrixError(f"{key} has no value number {column + 1}", where=path)
        item = _ITEM.fullmatch(lines[number])
        if item is None:
            raise MatrixError(
                "a value is not written as this command can change it",
                where=f"{path}:{number + 1}",
                found=lines[number].strip(),
                wanted='- "value"',
            )
        lines[number] = f"{item[1]}{item[2]}{value}{item[2]}{item[4]}"
    with written_whole(path) as temporary:
        temporary.write_text("\n".join(lines), encoding="utf-8")
        matrix = read_matrix(temporary)
        wrong = [key for key, value in values.items() if matrix.values[key][column] != value]
        if wrong:
            raise MatrixError(f"{wrong[0]} was not changed as wanted", where=path)


def _line_of(lines: list[str], key: str, column: int) -> int | None:
    """Index of the line with the value in that column."""
    inside, seen = False, -1
    for number, line in enumerate(lines):
        if re.match(r"\S", line) and not line.startswith("#"):
            inside = line.split("#")[0].strip() == f"{key}:"
        elif inside and line.lstrip().startswith("-"):
            seen += 1
            if seen == column:
                return number
    return None
