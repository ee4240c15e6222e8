"""Finding the lines of a log that expressions match, in one pass over its bytes with bounded memory.

Anchors (plain texts) are searched for in the raw bytes, all at once; a line is decoded and its expressions
are tried only where an anchor was found. What is found does not depend on where the blocks end.

A line ends at a line feed for the count of lines, and also at a carriage return for the expressions: progress
bars write many states into one line. Of a longer line, :data:`WINDOW` bytes before and behind an anchor are
looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

from ahocorasick_rs import BytesAhoCorasick, Implementation

WINDOW: Final = 4096
"""Bytes."""

_LOOK_AHEAD: Final = 2 * WINDOW
_LONGEST_ESCAPE: Final = 2100
_SHORT: Final = 128
_ESCAPE: Final = re.compile(
    rb"\x1b(?:\[[0-9;:?<=>]{0,40}[ -/]{0,2}[@-~]"
    rb"|\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)"
    rb"|[()][A-Za-z0-9]|[=>78M])"
)
_OPEN_ESCAPE: Final = re.compile(
    rb"\x1b(?:\[[0-9;:?<=>]{0,40}[ -/]{0,2}|\][^\x07\x1b\n]{0,2000}\x1b?|[()]?)\Z"
)
_QUOTES: Final = str.maketrans("\u2018\u2019\u201c\u201d\t\0", "''\"\"  ")
_MARGIN: Final = re.compile(r"^[\s│|╰├└─]+")


@dataclass(frozen=True)
class Hit:
    """A place that an expression matched.

    :ivar line: number of the line, from 1
    :ivar text: the line, or what lies around the match in a very long one
    """

    line: int
    text: str
    match: re.Match[str]


@dataclass
class Probe:
    """An expression to look for.

    :ivar span: lines that it may match over, joined by one space
    :ivar take: called with each hit, at most one a line, in the order of lines
    :ivar limit: hits after which it is no longer looked for
    :ivar tries: what is left of short lines with an anchor that it is tried on; a long one counts more
    """

    regex: str
    anchors: Sequence[str]
    take: Callable[[Hit], None]
    span: int = 1
    limit: int = 1000
    tries: int = 100_000
    hits: int = 0
    last_line: int = 0
    last_tried: int = 0

    @property
    def done(self) -> bool:
        return self.hits >= self.limit or self.tries <= 0

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.regex)


@lru_cache(maxsize=1)
def _automaton(texts: tuple[str, ...]) -> BytesAhoCorasick:
    """All rules' anchors take some 25 ms to build: more than explaining a short text.

    No second one is kept: while its memory is held, reading a long log is slower by a fifth.
    """
    return BytesAhoCorasick([text.encode() for text in texts], implementation=Implementation.DFA)


@dataclass
class Scanner:
    """Feeds a log to probes.

    :ivar lines: in the log, once it was read
    :ivar size: bytes of the log so far
    """

    probes: Sequence[Probe]
    lines: int = 0
    size: int = 0
    _buffer: bytes = b""
    _raw: bytes = b""
    _base_line: int = 1
    _done: int = 0
    _by_anchor: list[list[Probe]] = field(default_factory=list)
    _automaton: BytesAhoCorasick | None = None
    _stale: bool = True

    def scan(self, blocks: Iterable[bytes]) -> None:
        """Take the whole log."""
        for block in blocks:
            self._feed(block, final=False)
        self._feed(b"", final=True)

    def _feed(self, block: bytes, *, final: bool) -> None:
        self.size += len(block)
        self._buffer += self._without_escapes(block, final=final)
        end = len(self._buffer) - (0 if final else _LOOK_AHEAD)
        if end > self._done:
            self._search(end)
            self._drop(end)
        if final:
            rest = self._buffer
            self.lines = self._base_line - 1 + rest.count(b"\n") + (rest[-1:] not in (b"", b"\n"))

    def _without_escapes(self, block: bytes, *, final: bool) -> bytes:
        """The block without colours and hyperlinks; one that the block cuts in two waits for the rest."""
        if self._raw:
            block, self._raw = self._raw + block, b""
        if b"\x1b" not in block:
            return block
        if not final:
            cut = _OPEN_ESCAPE.search(block, max(0, len(block) - _LONGEST_ESCAPE))
            if cut:
                block, self._raw = block[: cut.start()], block[cut.start() :]
        return _ESCAPE.sub(b"", block)

    def _drop(self, end: int) -> None:
        """Forget what no later hit can need."""
        keep = max(0, end - _LOOK_AHEAD)
        self._base_line += self._buffer.count(b"\n", 0, keep)
        self._buffer = self._buffer[keep:]
        self._done = end - keep

    def _build(self) -> None:
        by_text: dict[str, list[Probe]] = {}
        for probe in self.probes:
            if not probe.done:
                for anchor in probe.anchors:
                    by_text.setdefault(anchor, []).append(probe)
        self._by_anchor = list(by_text.values())
        self._automaton = _automaton(tuple(by_text)) if by_text else None
        self._stale = False

    def _search(self, end: int) -> None:
        """Handle all anchors that end behind ``_done`` and not behind ``end``."""
        if self._stale:
            self._build()
        if self._automaton is None:
            return
        data = self._buffer
        counted, line = 0, self._base_line
        segment = (0, 0, False)
        waiting: dict[int, Probe] = {}
        for anchor, start, stop in self._automaton.find_matches_as_indexes(data, overlapping=True):
            if not self._done < stop <= end:
                continue
            if not (segment[0] <= start and stop <= segment[1] and segment[2]):
                self._try(waiting, segment, line)
                segment = _segment(data, start, stop)
                if segment[0] >= counted:
                    line += data.count(b"\n", counted, segment[0])
                    counted = segment[0]
            for probe in self._by_anchor[anchor]:
                waiting[id(probe)] = probe
        self._try(waiting, segment, line)

    def _try(self, waiting: dict[int, Probe], segment: tuple[int, int, bool], line: int) -> None:
        if not waiting:
            return
        start, stop, whole = segment
        text = self._buffer[start:stop].decode(errors="replace").translate(_QUOTES)
        joined = ""
        for probe in waiting.values():
            again = whole and probe.last_tried == line
            if probe.last_line == line or (probe.done and not again):
                continue
            if not again:
                probe.last_tried = line
                probe.tries -= 1 + (len(text) // _SHORT) ** 2
                self._stale |= probe.done
            subject = text
            if probe.span > 1:
                joined = joined or self._following(stop)
                subject = " ".join([text.strip(), *joined.split("\n")[: probe.span - 1]])
            match = probe.compiled.search(subject)
            if match:
                probe.hits += 1
                probe.last_line = line
                self._stale |= probe.done
                probe.take(Hit(line, text.strip(), match))
        waiting.clear()

    def _following(self, stop: int) -> str:
        """The lines behind a line, each without its margin."""
        after = self._buffer[stop : stop + WINDOW].decode(errors="replace").translate(_QUOTES)
        lines = after.replace("\r\n", "\n").replace("\r", "\n").split("\n")[1:]
        return "\n".join(_MARGIN.sub("", text) for text in lines)


def _segment(data: bytes, start: int, stop: int) -> tuple[int, int, bool]:
    """Start and end of the line, or of the part of it that is looked at; whether that is all of it."""
    low, high = max(0, start - WINDOW), min(len(data), stop + WINDOW)
    before = max(data.rfind(b"\n", low, start), data.rfind(b"\r", low, start))
    behind = [place for mark in (b"\n", b"\r") if (place := data.find(mark, stop, high)) >= 0]
    whole = (before >= 0 or start < WINDOW) and bool(behind)
    return (before + 1 if before >= 0 else low), (min(behind) if behind else high), whole
