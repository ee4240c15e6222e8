"""Applying patches as strictly as ``patch -p1 --fuzz=0``, with the numbers of every hunk.

A hunk must find all its lines, context included. It may find them at another line than its header names
(offset), which is reported. What fits only with context left out (fuzz) is an error: it may be the wrong
place. A whole patch is applied or nothing of it. Unified diffs as GNU diff and git write them are read;
renames, copies and binary patches are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from channel_tools.model.errors import PatchError
from channel_tools.model.files import written_whole

MOST_FUZZ = 2
HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
UNREAD = (b"GIT binary patch", b"Binary files ", b"rename from ", b"copy from ", b"old mode ")
DEV_NULL = "/dev/null"


@dataclass(frozen=True)
class Hunk:
    """Lines with their ends. ``begin`` is the header's line in the file, from 1; ``line`` is the patch's own.

    ``prefix`` and ``suffix`` count the lines of context before the first change and after the last one.
    """

    line: int
    begin: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    prefix: int
    suffix: int


@dataclass(frozen=True)
class FilePatch:
    """What a patch does to one file: ``change``, ``create`` or ``delete``. ``mode`` is of git's header."""

    path: str
    kind: str
    hunks: tuple[Hunk, ...]
    mode: int | None = None


@dataclass(frozen=True)
class Applied:
    """Where a hunk went in: ``line`` is where the header wants it, ``offset`` how many lines off it was."""

    file: str
    hunk: int
    line: int
    offset: int

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file, "hunk": self.hunk, "line": self.line, "offset": self.offset}


@dataclass(frozen=True)
class PatchReport:
    """A patch that fits, hunk by hunk."""

    patch: Path
    hunks: tuple[Applied, ...]

    @property
    def warnings(self) -> list[str]:
        """One line for each hunk that is not at its own line."""
        return [
            f"{self.patch.name}: hunk {h.hunk} of {h.file} fits at line {h.line + h.offset}, "
            f"{abs(h.offset)} lines {'below' if h.offset > 0 else 'above'} line {h.line}"
            for h in self.hunks
            if h.offset
        ]

    def to_json(self) -> dict[str, Any]:
        return {"patch": self.patch.name, "hunks": [hunk.to_json() for hunk in self.hunks]}


def apply_patch(root: Path, patch: Path, *, dry_run: bool = False) -> PatchReport:
    """Apply a patch to the tree below ``root``; with ``dry_run``, only see whether it fits.

    :raises PatchError: it is no unified diff, names a path outside ``root``, or does not fit without fuzz
    """
    applied: list[Applied] = []
    contents: dict[Path, tuple[bytes | None, int | None]] = {}
    for change in read_patch(patch):
        path = _below(root, change.path, patch)
        before = contents[path][0] if path in contents else _content(path, change, patch)
        if change.kind == "create" and before is not None:
            raise PatchError("creates a file that is there already", where=patch, found=change.path)
        if change.kind != "create" and before is None:
            raise PatchError("changes a file that it deleted", where=patch, found=change.path)
        lines = _lines(before or b"")
        result = _apply(lines, change, patch, applied)
        if change.kind == "delete" and result:
            raise PatchError(
                "deletes a file that holds more than it says",
                where=patch,
                found=f"{change.path}: {len(result)} lines are left, as {_show(result[0])}",
            )
        contents[path] = (None if change.kind == "delete" else b"".join(result), change.mode)
    if not dry_run:
        for path, (content, mode) in contents.items():
            _write(path, content, mode)
    return PatchReport(patch, tuple(applied))


def read_patch(patch: Path) -> list[FilePatch]:
    """Read a unified diff. Text before, between and after the files is left out.

    :raises PatchError: with file and line
    """
    try:
        lines = _lines(patch.read_bytes())
    except OSError as error:
        raise PatchError(f"cannot be read: {error.strerror or error}", where=patch) from error
    return list(_Reader(patch, lines).files()) or _fail(patch, 1, "holds no unified diff", "")


@dataclass
class _Reader:
    """Reads a patch line by line; ``at`` is the index of the next line."""

    patch: Path
    lines: Sequence[bytes]
    at: int = 0
    mode: int | None = field(default=None)

    def files(self) -> Iterator[FilePatch]:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.startswith(UNREAD):
                _fail(self.patch, self.at + 1, "holds what is not read here", _show(line))
            if line.startswith(b"diff --git "):
                self.mode = None
            elif line.startswith(b"new file mode "):
                self.mode = int(line.split()[-1], 8) & 0o777
            elif line.startswith(b"--- ") and self._next().startswith(b"+++ "):
                yield self._file()
                continue
            self.at += 1

    def _next(self) -> bytes:
        return self.lines[self.at + 1] if self.at + 1 < len(self.lines) else b""

    def _file(self) -> FilePatch:
        start = self.at + 1
        old, new = self._name(self.lines[self.at]), self._name(self._next())
        self.at += 2
        if old != new and DEV_NULL not in (old, new):
            _fail(self.patch, start, "names two files for one change", f"{old} and {new}")
        kind = "create" if old == DEV_NULL else "delete" if new == DEV_NULL else "change"
        hunks = []
        while self.at < len(self.lines) and (match := HUNK.match(self.lines[self.at])):
            hunks.append(self._hunk(match))
        if not hunks:
            _fail(self.patch, start, "names a file and changes nothing in it", new)
        path = old if kind == "delete" else new
        return FilePatch(path, kind, tuple(hunks), self.mode if kind == "create" else None)

    def _name(self, line: bytes) -> str:
        """The path of a ``---`` or ``+++`` line without its first folder."""
        name = line[4:].rstrip(b"\r\n").split(b"\t")[0].decode(errors="surrogateescape")
        if name == DEV_NULL:
            return name
        parts = PurePosixPath(name).parts
        if name.startswith(('"', "/")) or len(parts) < 2 or ".." in parts:
            _fail(self.patch, self.at + 1, "names no path as a/FILE and b/FILE", name)
        return str(PurePosixPath(*parts[1:]))

    def _hunk(self, match: re.Match[bytes]) -> Hunk:
        start = self.at + 1
        begin, before = int(match[1]), int(match[2] or 1)
        after = int(match[4] or 1)
        old: list[bytes] = []
        new: list[bytes] = []
        marks = ""
        self.at += 1
        while len(old) < before or len(new) < after:
            line = self.lines[self.at] if self.at < len(self.lines) else b""
            mark, text = line[:1], line[1:]
            if line in (b"\n", b"\r\n"):  # an empty line of context whose space an editor cut off
                mark, text = b" ", line
            if mark not in (b" ", b"-", b"+") or not line:
                _fail(self.patch, self.at + 1, f"ends in the hunk of line {start}", _show(line))
            if mark != b"+":
                old.append(text)
            if mark != b"-":
                new.append(text)
            marks += mark.decode()
            self.at += 1
            if self.at < len(self.lines) and self.lines[self.at].startswith(b"\\"):
                for side, sign in ((old, b"+"), (new, b"-")):
                    if mark != sign:
                        side[-1] = side[-1].removesuffix(b"\n")
                self.at += 1
        if len(old) != before or len(new) != after:
            _fail(self.patch, start, "has a hunk of another length than its header says", f"{before},{after}")
        # An empty side is counted from the line before it.
        begin += 0 if before else 1
        prefix, suffix = (len(marks) - len(bare) for bare in (marks.lstrip(" "), marks.rstrip(" ")))
        return Hunk(start, begin, tuple(old), tuple(new), prefix, suffix)


def _apply(lines: list[bytes], change: FilePatch, patch: Path, applied: list[Applied]) -> list[bytes]:
    """The file's lines after all hunks."""
    result: list[bytes] = []
    done, offset = 0, 0
    for number, hunk in enumerate(change.hunks, start=1):
        place = _find(lines, hunk, hunk.begin - 1 + offset, done)
        if place is None:
            raise _rejected(lines, hunk, number, change.path, patch, offset, done)
        offset = place - (hunk.begin - 1)
        applied.append(Applied(change.path, number, hunk.begin, offset))
        result += [*lines[done:place], *hunk.new]
        done = place + len(hunk.old)
    return [*result, *lines[done:]]


def _find(lines: Sequence[bytes], hunk: Hunk, guess: int, floor: int, fuzz: int = 0) -> int | None:
    """Index where the hunk's old lines stand, the nearest to ``guess`` and not above ``floor``.

    As in GNU patch, a hunk with less context before than after belongs to the file's beginning, and one with
    less after than before to its end. ``fuzz`` lines of context may be left out at either end.
    """
    context = max(hunk.prefix, hunk.suffix)
    cut_front = max(0, fuzz - (context - hunk.prefix))
    cut_back = max(0, fuzz - (context - hunk.suffix))
    old = hunk.old[cut_front : len(hunk.old) - cut_back]
    last = len(lines) - len(old)

    def fits(at: int) -> bool:
        return floor <= at <= last and tuple(lines[at : at + len(old)]) == old

    guess += cut_front
    if hunk.prefix - context + fuzz < 0 and hunk.begin <= 1:
        return 0 if fits(0) else None
    if hunk.suffix - context + fuzz < 0:
        return last - cut_front if fits(last) else None
    for distance in range(max(abs(guess - floor), abs(last - guess)) + 1):
        for at in (guess + distance, guess - distance):
            if fits(at):
                return at - cut_front
    return None


def _rejected(
    lines: Sequence[bytes], hunk: Hunk, number: int, file: str, patch: Path, offset: int, floor: int
) -> PatchError:
    """The error of a hunk that does not fit, with what stands where it belongs."""
    guess = hunk.begin - 1 + offset
    for fuzz in range(1, min(MOST_FUZZ, max(hunk.prefix, hunk.suffix)) + 1):
        place = _find(lines, hunk, guess, floor, fuzz)
        if place is not None:
            what = f"hunk {number} of {file} fits only with fuzz {fuzz}, at line {place + 1}"
            fix = "compare the lines, and make the patch anew for this source"
            break
    else:
        reverse = Hunk(hunk.line, hunk.begin, hunk.new, hunk.old, hunk.prefix, hunk.suffix)
        there = _find(lines, reverse, guess, floor) if hunk.new else None
        if there is not None:
            place, what = there, f"hunk {number} of {file} is in the source already, at line {there + 1}"
            fix = "leave the patch out for this version"
        else:
            place = _nearest(lines, hunk, guess)
            what = f"hunk {number} of {file} is rejected"
            fix = "make the patch anew for this source"
    end = min(len(lines), place + len(hunk.old))
    found = lines[max(0, place) : end]
    head = f"{file}, lines {max(0, place) + 1} to {end} (- is not there, + is there instead):"
    return PatchError(
        what,
        where=f"{patch}:{hunk.line}",
        found="\n    ".join([head, *_compare(hunk.old, found)]),
        wanted=f"at line {hunk.begin}, all lines without + above",
        fix=fix,
    )


def _nearest(lines: Sequence[bytes], hunk: Hunk, guess: int) -> int:
    """Where the most of the hunk's lines stand; the nearest to ``guess`` among equals."""
    counts: dict[int, int] = {}
    where: dict[bytes, list[int]] = {}
    for index, line in enumerate(lines):
        where.setdefault(line, []).append(index)
    for position, line in enumerate(hunk.old):
        weight = 1 + 8 * bool(line.strip())
        for index in where.get(line, ()):
            counts[index - position] = counts.get(index - position, 0) + weight
    fallback = max(0, min(guess, len(lines) - len(hunk.old)))
    return max(counts, key=lambda at: (counts[at], -abs(at - guess)), default=fallback)


def _compare(wanted: Sequence[bytes], found: Sequence[bytes]) -> list[str]:
    shown = []
    for tag, a, b, c, d in SequenceMatcher(None, wanted, found, autojunk=False).get_opcodes():
        if tag == "equal":
            shown += [f"  {_show(line)}" for line in wanted[a:b]]
        else:
            shown += [f"- {_show(line)}" for line in wanted[a:b]]
            shown += [f"+ {_show(line)}" for line in found[c:d]]
    return shown


def _lines(content: bytes) -> list[bytes]:
    """Lines with their ends, split at line feeds alone."""
    lines = content.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _show(line: bytes) -> str:
    text = line.decode(errors="replace").removesuffix("\n")
    return (text + ("" if line.endswith(b"\n") else " (no end of line)")).replace("\r", "\\r")


def _below(root: Path, name: str, patch: Path) -> Path:
    """The file of that name in the tree; no link on the way leads out of it."""
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise PatchError("names a file outside the source", where=patch, found=name)
    return path


def _content(path: Path, change: FilePatch, patch: Path) -> bytes | None:
    if path.is_file():
        return path.read_bytes()
    if change.kind == "create":
        return None
    raise PatchError("changes a file that the source does not have", where=patch, found=change.path)


def _write(path: Path, content: bytes | None, mode: int | None) -> None:
    if content is None:
        path.unlink()
        return
    old = path.stat().st_mode & 0o7777 if path.exists() else 0o644
    with written_whole(path) as temporary:
        temporary.write_bytes(content)
    path.chmod(old if mode is None else mode)


def _fail(patch: Path, line: int, what: str, found: str) -> NoReturn:
    raise PatchError(what, where=f"{patch}:{line}", found=found or None)
