"""compile_commands.json, unit by unit.

Format: https://clang.llvm.org/docs/JSONCompilationDatabase.html. Which level and targets take effect is
:mod:`channel_tools.verify.command_lines`' to say, here as in a finished package.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from channel_tools.model.errors import PreflightError
from channel_tools.verify.command_lines import Unit, optimisation_level, read_command, split_command

HIP, CXX, C = "HIP", "C++", "C"
_SUFFIXES = {".c": C, ".cc": CXX, ".cpp": CXX, ".cxx": CXX, ".C": CXX, ".hip": HIP}


@dataclass(frozen=True)
class CompileUnit:
    """One command of CMake's.

    ``unit`` says what takes effect; ``compiler`` is the program as called, without launchers, ``standard``
    the last ``-std=``, ``given_levels`` every optimisation level on the line, in its order.
    """

    unit: Unit
    language: str
    compiler: str
    standard: str | None
    given_levels: tuple[str, ...]

    @property
    def level(self) -> str:
        """The level in effect; ``-O2/-O3`` where host and device side differ."""
        return "/".join(self.unit.levels)


def read_compile_commands(path: Path) -> list[CompileUnit]:
    """All units of a ``compile_commands.json``.

    :raises PreflightError: the file is not there, or is none
    """
    try:
        entries = json.loads(path.read_bytes())
        if not isinstance(entries, list):
            raise TypeError("no list")
        return [_read_entry(entry) for entry in entries]
    except OSError as error:
        raise PreflightError(
            f"no compile commands: {error.strerror}",
            where=path,
            fix="configure with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise PreflightError(
            f"no compile commands of CMake: {error}", where=path, wanted="a list of command and file"
        ) from error


def _read_entry(entry: dict[str, str]) -> CompileUnit:
    words = split_command(entry["command"])
    unit = read_command(words, entry["file"])
    return CompileUnit(
        unit=unit,
        language=HIP if unit.is_hip else _SUFFIXES.get(Path(unit.name).suffix, "other"),
        compiler=_compiler(words),
        standard=_last([word for word in unit.options if word.startswith("-std=")]),
        given_levels=tuple(level for level in map(optimisation_level, unit.options) if level),
    )


def _compiler(words: Sequence[str]) -> str:
    leading = []
    for word in words:
        if word.startswith("-"):
            break
        leading.append(word)
    return leading[-1] if leading else ""


def _last(words: Sequence[str]) -> str | None:
    return words[-1] if words else None
