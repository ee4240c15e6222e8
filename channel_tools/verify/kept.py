"""Which places of a file are known, and what lay there: for files that pass once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from channel_tools.verify.source import Backing


class Ranges:
    """A set of places, as few (start, end) pairs as will do."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        if start >= end:
            return
        first = bisect_right(self._starts, start)
        if first and self._ends[first - 1] >= start:
            first -= 1
            start = self._starts[first]
        last = bisect_right(self._starts, end)
        if last > first:
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def end_from(self, place: int) -> int:
        """Up to where everything from ``place`` on is in the set; ``place`` itself where nothing is."""
        index = bisect_right(self._starts, place) - 1
        return max(place, self._ends[index]) if index >= 0 else place

    def within(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The pairs between two places, cut off there."""
        index = max(0, bisect_right(self._starts, start) - 1)
        while index < len(self._starts) and self._starts[index] < end:
            if self._ends[index] > start:
                yield max(start, self._starts[index]), min(end, self._ends[index])
            index += 1


class Pieces:
    """Bytes by the place that they had in a file. Pieces that touch become one."""

    def __init__(self) -> None:
        self.size = 0
        self._starts: list[int] = []
        self._pieces: list[bytearray] = []

    def add(self, start: int, data: bytes) -> None:
        """Keep ``data``, as far as its places are not kept already."""
        while data:
            index = bisect_right(self._starts, start) - 1
            if index >= 0:
                end = self._starts[index] + len(self._pieces[index])
                if end > start:
                    data = data[end - start :]
                    start = end
                    continue
            room = self._starts[index + 1] - start if index + 1 < len(self._starts) else len(data)
            part, data = data[:room], data[room:]
            if index >= 0 and end == start:
                self._pieces[index] += part
            else:
                self._starts.insert(index + 1, start)
                self._pieces.insert(index + 1, bytearray(part))
            self.size += len(part)
            start += len(part)

    def get(self, start: int, limit: int) -> bytes:
        """Up to ``limit`` bytes from ``start`` on; none where that place is not kept."""
        index = bisect_right(self._starts, start) - 1
        if index < 0:
            return b""
        inside = start - self._starts[index]
        return bytes(memoryview(self._pieces[index])[inside : inside + limit])


class Chunks:
    """Bytes by the place that they had in a file, as they came: without a copy."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._chunks: list[bytes] = []

    def add(self, start: int, chunk: bytes) -> None:
        index = bisect_right(self._starts, start)
        self._starts.insert(index, start)
        self._chunks.insert(index, chunk)

    def get(self, start: int, limit: int) -> bytes:
        """As :meth:`Pieces.get`; a whole chunk is given out as it is."""
        index = bisect_right(self._starts, start) - 1
        if index < 0:
            return b""
        inside = start - self._starts[index]
        return self._chunks[index][inside : inside + limit]

    def drop_before(self, place: int) -> None:
        """Drop the chunks that end there or before."""
        while self._starts and self._starts[0] + len(self._chunks[0]) <= place:
            del self._starts[0], self._chunks[0]


class Ring:
    """The last bytes that passed, at least ``size`` of them once there were as many.

    :param end: bytes that passed already and were not kept
    """

    def __init__(self, size: int, end: int = 0) -> None:
        self.end = end
        self._size = size
        self._chunks = Chunks()

    def add(self, chunk: bytes) -> None:
        self._chunks.add(self.end, chunk)
        self.end += len(chunk)
        self._chunks.drop_before(self.end - self._size)

    def get(self, start: int, limit: int) -> bytes:
        """As :meth:`Chunks.get`."""
        return self._chunks.get(start, limit) if start < self.end else b""


class InPieces(Backing):
    """Bytes in memory, as the pieces that they came in."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.size = 0
        self._chunks = Chunks()
        for piece in pieces:
            self._chunks.add(self.size, piece)
            self.size += len(piece)

    def read(self, offset: int, size: int) -> bytes:
        first = self._chunks.get(offset, size)
        if len(first) == size or not first:
            return first
        return b"".join(self.chunks(offset, size))

    def chunks(self, offset: int, size: int) -> Iterator[bytes]:
        while size > 0 and (part := self._chunks.get(offset, size)):
            yield part
            offset += len(part)
            size -= len(part)
