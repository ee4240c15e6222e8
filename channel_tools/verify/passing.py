"""Files that pass once: members of compressed archives, and what compressed bundles hold.

Nothing of them is written to disk, and little is kept: the last bytes that passed (a ring), the end of the
file, parts that were asked for beforehand, and whatever was read. Reading from front to back, with looks back
no further than the ring, takes one pass. Any other read is answered as well, by unpacking anew from the
start, as often as :data:`MAX_AGAIN` allows.

So a reader may go over a file twice: first as it passes, to find out what it will need (it is kept, since it
was read), then for good, when all of it is known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final

from channel_tools.verify.kept import Chunks, Pieces, Ranges, Ring
from channel_tools.verify.search import HEAD, Marks, signs
from channel_tools.verify.source import CHUNK, Backing, DamageError, Finder, Made
from channel_tools.verify.streams import Stream

RING: Final = 4 << 20
"""Bytes that a reader may look back."""

MAX_NOTES: Final = 64 << 20
"""Bytes that are kept of what was read."""

MAX_AGAIN: Final = 8
"""Times its own size that a file may be unpacked anew."""

_FREE_AGAIN: Final = 64 << 20
_MAX_NOTE: Final = 1 << 20
_MAX_SIGNS: Final = 250_000
_STEP: Final = 256
_REMEMBERED: Final = 4096  # bytes, about, that an object of this module takes


class Passing(Backing):
    """A file of ``size`` bytes that comes out of a stream.

    :param live: the stream, where the file's bytes come next; nothing else reads it until the file is done
    :param again: opens the stream anew, at the file's start
    :param first: bytes of the file that were taken from ``live`` already
    :param ring: bytes that can be looked back; several times what the stream gives in one piece
    :param notes: bytes that are kept of what was read
    """

    shared = False

    def __init__(
        self,
        name: str,
        size: int,
        live: Stream,
        again: Callable[[], Stream],
        *,
        first: bytes = b"",
        ring: int = RING,
        notes: int = MAX_NOTES,
    ) -> None:
        self._max_notes = notes
        self._name = name
        self._size = size
        self._stream = live
        self._open_again = again
        self._opened: Stream | None = None
        self._again = 0
        self._ring_size = ring
        self._ring = Ring(ring)
        self._ring.add(first)
        self._last: Ring | None = None
        self._marks = Marks(name)
        self.forget_notes()

    def forget_notes(self) -> None:
        """Start anew with what is kept, but for the ring."""
        self._notes_left = self._max_notes
        self._kept = Chunks()
        self._pieces = Pieces()
        self._wanted = Ranges()
        self._start_end = 0
        self._zeros = Ranges()
        self._searched = Ranges()
        self._signs: list[int] = []
        self._remembered: dict[Hashable, Any] = {}

    def keep_start(self, end: int) -> None:
        """Keep what lies before the first code that is found, up to ``end``."""
        self.keep(0, min(end, self._ring.end))
        self._start_end = end

    def keep(self, start: int, end: int) -> None:
        """Keep these bytes when they pass, or now as far as the ring has them still."""
        end = min(end, self._size)
        self._wanted.add(start, end)
        while start < min(end, self._ring.end) and (part := self._ring.get(start, end - start)):
            self._kept.add(start, part)
            start += len(part)

    def pass_on(self, end: int | None = None) -> None:
        """Let everything up to ``end`` pass."""
        end = self._size if end is None else end
        while self._ring.end < end:
            self._pull()

    def forget(self) -> None:
        """Keep no more than the notes. What else is read after this is unpacked anew."""
        self._ring = Ring(self._ring_size, self._size)
        self._last = None
        self._end_own_stream()

    def close(self) -> None:
        """Keep nothing."""
        self.forget()
        self.forget_notes()

    def _end_own_stream(self) -> None:
        if self._opened:
            self._opened.close()
            self._opened = None

    def read(self, offset: int, size: int) -> bytes:
        parts = list(self.chunks(offset, size))
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if len(data) <= min(_MAX_NOTE, self._notes_left):
            before = self._pieces.size
            self._pieces.add(offset, data)
            self._notes_left -= self._pieces.size - before
        return data

    def chunks(self, offset: int, size: int) -> Iterator[bytes]:
        end = min(offset + size, self._size)
        while offset < end:
            part = self._some(offset, min(end - offset, CHUNK))
            yield part
            offset += len(part)

    def _some(self, offset: int, limit: int) -> bytes:
        """At least one byte and at most ``limit``, without a note of it."""
        while True:
            data = (
                self._ring.get(offset, limit)
                or self._kept.get(offset, limit)
                or self._pieces.get(offset, limit)
            )
            if not data and self._last:
                data = self._last.get(offset, limit)
            if data:
                return data
            if offset < self._ring.end:
                self._start_again()
            while self._ring.end <= offset:
                self._pull()

    def _pull(self) -> None:
        start = self._ring.end
        piece = self._stream.piece(min(self._size - start, CHUNK))
        if not piece:
            raise DamageError(
                "archive entry cannot be read",
                where=self._name,
                found=f"it ends after {start} of {self._size} bytes",
                wanted="a sound archive entry",
            )
        self._ring.add(piece)
        if self._opened:
            self._count_again(len(piece))
            return
        if start < self._start_end:
            self._kept.add(start, piece)
            return
        for first, last in self._wanted.within(start, start + len(piece)):
            self._kept.add(first, piece[first - start : last - start])

    def _count_again(self, count: int) -> None:
        self._again += count
        if self._again > MAX_AGAIN * self._size + _FREE_AGAIN:
            raise DamageError(
                "its parts are laid out so that it would have to be unpacked again and again",
                where=self._name,
                found=f"more than {MAX_AGAIN} times",
                wanted="parts that refer to what lies near or behind them",
            )

    def _start_again(self) -> None:
        if self._last is None and self._ring.end == self._size:
            self._last = self._ring
        self._end_own_stream()
        self._stream = self._opened = self._open_again()
        self._ring = Ring(self._ring_size)

    def skip_zeros(self, offset: int, end: int) -> int:
        step = _STEP
        while offset < end:
            known = self._zeros.end_from(offset)
            if known > offset:
                offset = min(known, end)
                continue
            part = self._some(offset, min(step, end - offset))
            rest = len(part.lstrip(b"\0"))
            passed = offset + len(part) - rest
            self._zeros.add(offset, passed)
            self._searched.add(offset, passed)
            offset = passed
            if rest:
                self.read(offset, min(HEAD, end - offset))  # who asks is about to look at it
                return offset
            step = min(step * 16, CHUNK)
        return end

    def finder(self, name: str, start: int, end: int) -> Finder:
        def find(offset: int) -> int | None:
            return self._find(max(offset, start), end)

        return find

    def _find(self, place: int, end: int) -> int | None:
        while place < end:
            known = min(self._searched.end_from(place), end)
            if known == place:
                self._search(place)
                continue
            index = bisect_left(self._signs, place)
            if index < len(self._signs) and self._signs[index] < known:
                return self._signs[index]
            place = known
        return None

    def _search(self, place: int) -> None:
        """Search from ``place`` to the end of the chunk there."""
        chunk = self._some(place, CHUNK)
        room = self._size - place
        inner = max(0, len(chunk) - HEAD)
        found, wrong = signs(chunk, inner, room) if inner else ([], 0)
        seam = chunk[inner:] + b"".join(self.chunks(place + len(chunk), HEAD))
        more, false = signs(seam, len(chunk) - inner, room - inner)
        self._marks.add(wrong + false, place)
        new = [place + offset for offset in found] + [place + inner + offset for offset in more]
        if new:
            self._start_end = min(self._start_end, new[0])
        if new and self._signs and new[0] <= self._signs[-1]:
            self._signs = sorted({*self._signs, *new})
        else:
            self._signs += new
        if len(self._signs) > _MAX_SIGNS:
            raise DamageError(
                "more code objects than one file may hold",
                where=self._name,
                found=f"more than {_MAX_SIGNS}",
                wanted=f"at most {_MAX_SIGNS}",
            )
        self._searched.add(place, place + len(chunk))

    def remember(self, key: Hashable, make: Callable[[], Made]) -> Made:
        if key not in self._remembered:
            made = make()
            if self._notes_left <= 0:
                return made
            self._notes_left -= _REMEMBERED
            self._remembered[key] = made
        made = self._remembered[key]
        return made
