"""Bounds-checked reading of bytes, from memory or from a file.

Every reader of this package takes its bytes through a :class:`Source`, so an offset or a length that leaves
the file ends in :class:`DamageError` with the place and what was expected, whatever the file claims.
"""

from __future__ import annotations

import io
import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Protocol, TypeVar

from channel_tools.model.errors import DamagedFileError

CHUNK: Final = 1 << 20
"""Bytes that are looked at in one go."""

_FIRST_STEP: Final = 256

Made = TypeVar("Made")


class DamageError(DamagedFileError):
    """Bytes that are missing or contradict each other. ``offset`` counts from the start of the file."""

    def __init__(
        self,
        what: str,
        *,
        where: str,
        offset: int | None = None,
        found: str | None = None,
        wanted: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(what, where=where, found=found, wanted=wanted, fix=fix)
        self.offset = offset

    def __str__(self) -> str:
        place = "" if self.offset is None else f" (at {self.offset:#x})"
        return super().__str__().replace(self.what, self.what + place, 1)


def printable(name: str | bytes) -> str:
    """A name out of a file, fit for a terminal: bytes and signs that cannot be printed are escaped."""
    raw = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    text = raw.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


class Finder(Protocol):
    """Where code may start, from a place on."""

    def __call__(self, offset: int) -> int | None:
        """The first such place at or after ``offset``."""


class Backing(ABC):
    """Where the bytes lie."""

    shared = True
    """May it be read at any place, at any time and by several threads?"""

    @abstractmethod
    def read(self, offset: int, size: int) -> bytes:
        """May return fewer bytes than asked for at the end."""

    def chunks(self, offset: int, size: int) -> Iterator[bytes]:
        """The same bytes in pieces, for those who look at each once."""
        while size > 0:
            data = self.read(offset, min(size, CHUNK))
            if not data:
                return
            yield data
            offset += len(data)
            size -= len(data)

    def skip_zeros(self, offset: int, end: int) -> int:
        """Place of the first byte that is not zero; ``end`` where there is none before."""
        step = _FIRST_STEP
        while offset < end:
            chunk = self.read(offset, min(step, end - offset))
            rest = len(chunk.lstrip(b"\0"))
            offset += len(chunk) - rest
            if rest or not chunk:
                return offset
            step = min(step * 16, CHUNK)
        return end

    def finder(self, name: str, start: int, end: int) -> Finder:
        """See :mod:`channel_tools.verify.search`."""
        from channel_tools.verify.search import find_in_parallel

        return find_in_parallel(self, name, start, end)

    def remember(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What ``make`` gives, or gave before for this key if that was kept."""
        return make()

    def keep(self, start: int, end: int) -> None:
        """See :class:`channel_tools.verify.passing.Passing`, as for the next ones."""
        return

    def keep_start(self, end: int) -> None:
        return

    def pass_on(self, end: int) -> None:
        return

    def forget_notes(self) -> None:
        return

    def close(self) -> None:
        return


class Memory(Backing):
    """Bytes in memory. ``start`` is the place of the first one."""

    def __init__(self, data: bytes | bytearray, start: int = 0) -> None:
        self._view = memoryview(data)
        self._first = start

    def read(self, offset: int, size: int) -> bytes:
        offset -= self._first
        return bytes(self._view[offset : offset + size])


class OpenFile(Backing):
    """A file by its descriptor, which stays the caller's to close."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, offset: int, size: int) -> bytes:
        parts = []
        while size > 0:
            part = os.pread(self._descriptor, min(size, 1 << 30), offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class OwnFile(OpenFile):
    """A file by a descriptor that is closed when nothing reads it any more."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._close = os.close  # at the end of the process the module may be gone first

    def __del__(self) -> None:
        self._close(self._descriptor)

    def status(self) -> os.stat_result:
        return os.fstat(self._descriptor)


class Source:
    """``size`` bytes of a file, from ``start`` on; offsets count from ``start``.

    :param name: the file's name, for messages
    """

    def __init__(self, name: str, backing: Backing, size: int, start: int = 0) -> None:
        self.name = name
        self.size = size
        self.beside: Callable[[str], Source | None] | None = None
        """Opens a file by its path from this one's folder; None where there is no such folder."""
        self._backing = backing
        self._start = start

    @classmethod
    def of_bytes(cls, name: str, data: bytes | bytearray) -> Source:
        return cls(name, Memory(data), len(data))

    def place(self, offset: int) -> int:
        """Offset in the file."""
        return self._start + offset

    def damage(
        self, what: str, offset: int | None, *, found: str | None = None, wanted: str | None = None
    ) -> DamageError:
        place = None if offset is None else self.place(offset)
        return DamageError(what, where=self.name, offset=place, found=found, wanted=wanted)

    def peek(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes: fewer where the source ends."""
        size = min(size, self.size - offset)
        return self._backing.read(self._start + offset, size) if size > 0 else b""

    def read(self, offset: int, size: int, what: str) -> bytes:
        """Exactly ``size`` bytes.

        :raises DamageError: the source ends before
        """
        data = self.peek(offset, size)
        if len(data) != size:
            raise self.damage(
                f"{what} is cut off",
                offset,
                found=f"{len(data)} bytes to the end of the file or section",
                wanted=f"{size} bytes",
            )
        return data

    def unpack(self, layout: struct.Struct, offset: int, what: str) -> tuple[int, ...]:
        """Fixed-size integer fields.

        :raises DamageError: the source ends before
        """
        return layout.unpack(self.read(offset, layout.size, what))

    def window(self, offset: int, size: int, what: str) -> Source:
        """A part as a source of its own.

        :raises DamageError: the part leaves this source
        """
        if offset < 0 or size < 0 or size > self.size - offset:
            raise self.damage(
                f"{what} leaves the file",
                min(max(offset, 0), self.size),
                found=f"offset {offset:#x}, size {size:#x}",
                wanted=f"an end at or before {self.place(self.size):#x}",
            )
        return Source(self.name, self._backing, size, self._start + offset)

    def skip_zeros(self, offset: int) -> int:
        """Offset of the next byte that is not zero, or ``size``."""
        if offset >= self.size:
            return self.size
        return self._backing.skip_zeros(self._start + offset, self._start + self.size) - self._start

    @property
    def shared(self) -> bool:
        """May it be read at any time and by several threads? Not so a file that passes once."""
        return self._backing.shared

    def keep(self, start: int, end: int) -> None:
        """Keep these bytes of a file that passes once: they will be read when it is through."""
        self._backing.keep(self._start + start, self._start + min(end, self.size))

    def keep_start(self, end: int) -> None:
        """Keep what lies before ``end`` and before the first code that is found."""
        self._backing.keep_start(self._start + end)

    def pass_on(self) -> None:
        """Let a file that passes once pass up to its end."""
        self._backing.pass_on(self._start + self.size)

    def forget_notes(self) -> None:
        """Give back what is kept of a file that passes once: nothing before this place is read again."""
        self._backing.forget_notes()

    def close(self) -> None:
        """Give back what a file that passes once has taken."""
        self._backing.close()

    def chunks(self, offset: int = 0) -> Iterator[bytes]:
        """The bytes from ``offset`` on, in pieces. Nothing of a file that passes once is kept for it."""
        return self._backing.chunks(self._start + offset, self.size - offset)

    def finder(self, start: int, end: int) -> Finder:
        """Finds where code may start between two offsets, asked from the lower ones to the higher."""
        find = self._backing.finder(self.name, self._start + start, self._start + end)

        def find_here(offset: int) -> int | None:
            place = find(self._start + offset)
            return None if place is None else place - self._start

        return find_here

    def remember(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What ``make`` makes of this source; a file that passes once may know it from when it passed."""
        return self._backing.remember((self._start, key), make)

    def pinned(self, limit: int) -> Source:
        """This source in memory where it would pass once and has ``limit`` bytes at most, else itself."""
        if self.shared or self.size > limit:
            return self
        data = b"".join(self.chunks())
        return Source(self.name, Memory(data, self._start), len(data), self._start)


class SourceFile(io.RawIOBase):
    """A source as a seekable binary file, for library readers."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._source.size}[whence]
        if base + offset < 0:
            raise OSError(f"seek to {base + offset}")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._source.peek(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
