"""Files that pass once, for the tests of channel_tools.verify: with pieces and rings of any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from channel_tools.verify.files import HEAD_SIZE, kind_of, read_file
from channel_tools.verify.findings import Findings
from channel_tools.verify.passing import Passing
from channel_tools.verify.source import Source
from channel_tools.verify.streams import Stream
from tests.unit.test_verify_support import read


@dataclass
class Passes:
    """Streams of ``data`` in pieces of ``piece`` bytes; counts how often it was opened."""

    data: bytes
    piece: int
    opened: int = 0
    taken: list[int] = field(default_factory=list)

    def open(self) -> Stream:
        self.opened += 1
        return Stream("x", self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        for start in range(0, len(self.data), self.piece):
            yield self.data[start : start + self.piece]


def passing_source(
    name: str, data: bytes, *, piece: int = 1 << 18, ring: int = 16 << 20, notes: int = 64 << 20
) -> tuple[Source, Passes]:
    passes = Passes(data, piece)
    backing = Passing(name, len(data), passes.open(), passes.open, ring=ring, notes=notes)
    return Source(name, backing, len(data)), passes


def read_passing(
    name: str, data: bytes, *, piece: int = 1 << 18, ring: int = 16 << 20, notes: int = 64 << 20
) -> tuple[str | None, list[str], Findings, int]:
    """As :func:`tests.unit.test_verify_support.read`, and how many passes it took."""
    findings = Findings(name)
    kind = kind_of(name, data[:HEAD_SIZE])
    passes = 0
    if kind is not None:
        source, opened = passing_source(name, data, piece=piece, ring=ring, notes=notes)
        kind = read_file(source, kind, findings)
        passes = opened.opened
    return kind, sorted(found.target for found in findings.objects), findings, passes


def check_same(name: str, data: bytes, **how: int) -> int:
    """Read from disk and in passing; return how many passes it took."""
    kind, targets, findings = read(name, data)
    passing_kind, passing_targets, passing_findings, passes = read_passing(name, data, **how)
    assert (passing_kind, passing_targets) == (kind, targets)
    assert passing_findings == findings
    return passes
