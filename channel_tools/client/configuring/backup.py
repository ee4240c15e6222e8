"""Writing a configuration file so that the change can be taken back.

Beside the file lies ``<file>.rocm-channel-undo``, readable to its owner alone, since configuration files may
hold credentials: a JSON object with ``version`` 1 and ``changes``, each with ``before`` (text, null: the file
was not there) and ``after`` (sha256 of what was written), the newest last.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from channel_tools.client.configuring.configure import Plan, read_text
from channel_tools.model.errors import ChannelToolsError
from channel_tools.model.files import storage_errors

SUFFIX = ".rocm-channel-undo"


def apply(plan: Plan) -> Path:
    """Write what was planned, and keep what was there. Returns the file that ``--undo`` reads.

    :raises ChannelToolsError: the file was changed since it was planned
    :raises StorageError: it cannot be written
    """
    if read_text(plan.file) != plan.before:
        raise ChannelToolsError("was changed meanwhile", where=plan.file, fix="run the command again")
    notes = _undo_file(plan.file)
    changes = [*_made(_changes(notes), plan.before), {"before": plan.before, "after": _digest(plan.after)}]
    _write(notes, json.dumps({"version": 1, "changes": changes}) + "\n", 0o600)
    _write(plan.file, plan.after, _mode(plan.file))
    return notes


def plan_undo(file: Path) -> Plan:
    """What taking back the last change would do.

    :raises ChannelToolsError: nothing is to be taken back, or the file was edited since
    """
    path = file.expanduser()
    path = path.resolve() if path.is_symlink() else path.absolute()
    here = read_text(path)
    changes = _made(_changes(_undo_file(path)), here)
    if not changes:
        raise ChannelToolsError("nothing of rocm-channel's is to be taken back", where=path)
    if here is None or _digest(here) != changes[-1]["after"]:
        raise ChannelToolsError(
            "was edited since rocm-channel wrote it, so that is not taken back",
            where=path,
            fix=f"edit it by hand; {_undo_file(path)} has what was there before",
        )
    return Plan(path, here, changes[-1]["before"] or "", ())


def undo(file: Path) -> Plan:
    """Take back the last change; a file that rocm-channel made goes away.

    :raises ChannelToolsError: as :func:`plan_undo`
    :raises StorageError: it cannot be written
    """
    made = plan_undo(file)
    notes = _undo_file(made.file)
    changes = _made(_changes(notes), made.before)
    if changes[-1]["before"] is None:
        with storage_errors(made.file):
            made.file.unlink()
    else:
        _write(made.file, made.after, _mode(made.file))
    if len(changes) > 1:
        _write(notes, json.dumps({"version": 1, "changes": changes[:-1]}) + "\n", 0o600)
    else:
        with storage_errors(notes):
            notes.unlink()
    return made


def _undo_file(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def _changes(notes: Path) -> list[dict[str, Any]]:
    text = read_text(notes)
    if text is None:
        return []
    try:
        data = json.loads(text)
        changes = list(data["changes"])
        if data["version"] != 1 or not all({"before", "after"} <= set(change) for change in changes):
            raise ValueError("another version")
    except (ValueError, KeyError, TypeError) as error:
        raise ChannelToolsError("is no undo file of rocm-channel", where=notes, found=str(error)) from error
    return changes


def _made(changes: list[dict[str, Any]], here: str | None) -> list[dict[str, Any]]:
    """The changes that reached the file: the last one was only noted where what was before it is there."""
    while (
        changes and changes[-1]["before"] == here and (here is None or _digest(here) != changes[-1]["after"])
    ):
        changes = changes[:-1]
    return changes


def _mode(path: Path) -> int:
    """Permission bits that the file has and keeps; those of a new file are for its owner to widen."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return 0o644


def _write(path: Path, text: str, mode: int) -> None:
    """Write whole or not at all; nobody who may not read the file can read it meanwhile."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                os.fchmod(stream.fileno(), mode)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
