"""The build record that a package carries in ``share/rocm-channel/<package>``.

``build_scripts/lib/evidence.sh`` writes it: ``build.json`` says what the package was built with,
``compile_commands.json`` is CMake's list of compiler calls, with words for the folders of the build
(https://clang.llvm.org/docs/JSONCompilationDatabase.html).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from channel_tools.verify.command_lines import Unit, read_command, split_command
from channel_tools.verify.source import printable

BUILD_RECORD: Final = "build.json"
COMPILE_COMMANDS: Final = "compile_commands.json"
FORMAT_VERSION: Final = 1
"""Of build.json."""

MAX_NAME: Final = 200
"""Signs of a name out of a record that a message shows."""
_NAMES_SHOWN: Final = 3


class UnreadableRecordError(ValueError):
    """A file of the record is not what it should be; ``wanted`` says what that is."""

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__(found)
        self.found = found
        self.wanted = wanted


@dataclass(frozen=True)
class BuildRecord:
    """``build.json``: what is not there is None."""

    package: str | None
    rocm_arch: str | None
    gcc_version: str | None
    hip_version: str | None


def read_build_record(raw: bytes) -> BuildRecord:
    """Read ``build.json``.

    :raises UnreadableRecordError: no JSON, no object, or another version of the format
    """
    wanted = f"an object of version {FORMAT_VERSION}"
    record = _read_json(raw, wanted)
    if not isinstance(record, dict):
        raise UnreadableRecordError(type(record).__name__, wanted)
    if record.get("version") != FORMAT_VERSION:
        raise UnreadableRecordError(printable(f"version {record.get('version')!r}")[:MAX_NAME], wanted)
    values = {key: value for key, value in record.items() if isinstance(value, str) and value}
    return BuildRecord(*(values.get(key) for key in ("package", "rocm_arch", "gcc_version", "hip_version")))


def read_compile_commands(raw: bytes) -> list[Unit]:
    """Read ``compile_commands.json``.

    :raises UnreadableRecordError: no JSON, no list, or entries that are no compiler calls
    """
    wanted = "a list of objects with a file, and a command or arguments"
    entries = _read_json(raw, wanted)
    if not isinstance(entries, list):
        raise UnreadableRecordError(type(entries).__name__, wanted)
    units = []
    bad = []
    for number, entry in enumerate(entries):
        try:
            units.append(_read_entry(entry))
        except ValueError as error:
            bad.append(f"entry {number}: {error}")
    if bad:
        raise UnreadableRecordError(printable(shorten(bad)), wanted)
    return units


def _read_entry(entry: object) -> Unit:
    if not isinstance(entry, dict) or not isinstance(entry.get("file"), str):
        raise ValueError("no object with a file")
    arguments, command = entry.get("arguments"), entry.get("command")
    if isinstance(arguments, list) and all(isinstance(word, str) for word in arguments):
        words = arguments
    elif isinstance(command, str):
        words = split_command(command)
    else:
        raise ValueError("neither a command nor arguments")
    return read_command(words, entry["file"])


def _read_json(raw: bytes, wanted: str) -> object:
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UnreadableRecordError(printable(str(error))[:MAX_NAME], wanted) from error
    return value


def shorten(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(dict.fromkeys(names[:_NAMES_SHOWN]))
    return f"{shown} and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else shown
