"""Telling from a build's log what kind of failure it was.

rattler-build's exceptions say little ("Script failed to execute"), so the log decides. All matching on
engines' texts is in this module.
"""

from __future__ import annotations

import re
import shutil
from collections import deque
from pathlib import Path

from channel_tools import rattler_process
from channel_tools.model.errors import (
    BuildFailedError,
    ChannelToolsError,
    DependencyError,
    GuardError,
    StorageError,
)

GUARD = re.compile(r"guard [a-z-]+: .*; found: .*; wanted: .*; fix: .*")
STATUS = re.compile(r"[Ss]cript failed with status (\d+)|exit status:? (\d+)|exited with code (\d+)")
NO_SPACE = re.compile(r"No space left on device|os error 28|Disk quota exceeded|os error 122")
READ_ONLY = re.compile(r"Read-only file system|os error 30|Permission denied \(os error 13\)")
GUARD_CODES = range(60, 80)
TAIL = 15
FULL_BYTES = 1 << 20


def classify(log: Path, said: str, channels: list[str], work: Path) -> ChannelToolsError:
    """The error of a failed build.

    :param log: its log, which may be missing
    :param said: what the engine's exception said
    :param channels: the channels it had, to find out why a solve failed
    :param work: its work folder, to see whether the disk is full: some tools lose a write without a word
    """
    lines = _tail(log, 400)
    text = "\n".join([*lines, said])
    guard = next((m[0] for line in reversed(lines) if (m := GUARD.search(line))), None)
    if guard:
        codes = [int(next(filter(None, m))) for m in STATUS.findall(text)]
        code = next((code for code in codes if code in GUARD_CODES), 60)
        return GuardError(guard, code=code, where=log)
    if NO_SPACE.search(text) or _is_full(work):
        return StorageError("the disk is full", where=work, fix="free some space, or build on another disk")
    if READ_ONLY.search(said):
        return StorageError(f"cannot be written: {said}", where=log, fix="choose folders that can be written")
    if "Failed to resolve dependencies" in text:
        return DependencyError(
            "the build environment cannot be solved",
            where=log,
            found=_why_unsolvable(log, channels) or said,
            fix="give a channel that has it with -c, or build it first",
        )
    if "Test failed" in said or "Package tests failed" in text:
        return BuildFailedError("the package was built and its test failed", where=log, found=_last(lines))
    return BuildFailedError(f"the build failed: {said}", where=log, found=_last(lines))


def explained(log: Path) -> list[str]:
    """What ``explain`` makes of a failed build's log, as lines; none where it finds nothing."""
    from channel_tools.diagnose import report
    from channel_tools.diagnose.explain import explain_file

    try:
        explanation = explain_file(log)
    except ChannelToolsError:
        return []
    return list(report.text(explanation)) if explanation.verdict != "clean" else []


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < FULL_BYTES
    except OSError:
        return False


def _tail(log: Path, count: int) -> list[str]:
    try:
        with log.open(encoding="utf-8", errors="replace") as stream:
            return [line.rstrip("\n") for line in deque(stream, maxlen=count)]
    except OSError:
        return []


def _last(lines: list[str]) -> str | None:
    kept = [line for line in lines if line.strip()][-TAIL:]
    return "the last lines:\n    " + "\n    ".join(kept) if kept else None


def _why_unsolvable(log: Path, channels: list[str]) -> str | None:
    """Solve the last environment that the log names once more with py-rattler, which gives reasons."""
    specs: list[str] = []
    inside = False
    for line in _tail(log, 400):
        stripped = line.strip()
        if stripped == "Specs:":
            specs, inside = [], True
        elif inside and stripped.startswith("- "):
            specs.append(stripped[2:])
        elif inside and stripped:
            inside = False
    if not specs:
        return None
    try:
        virtual = rattler_process.call("virtual", {})
        rattler_process.call("solve", {"channels": channels, "specs": specs, "virtual": virtual})
    except rattler_process.RattlerCallError as error:
        return str(error).strip()
    return None
