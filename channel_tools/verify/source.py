"""Bounds-checked reading of bytes, from memory or from a file.

Every reader of this package takes its bytes through a :class:`Source`, so an offset or a length that leaves
the file ends in :class:`DamageError` with the place and what was expected, whatever the file claims.
"""

from __future__ import annotations

import io
import os
import struct
from typing import Final, Protocol

from channel_tools.model.errors import DamagedFileError

_CHUNK: Final = 1 << 20


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


class Backing(Protocol):
    """Where the bytes lie. ``read`` may return fewer bytes than asked for at the end."""

    def read(self, offset: int, size: int) -> bytes: ...


class Memory:
    """Bytes in memory."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._view = memoryview(data)

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self._view[offset : offset + size])


class OpenFile:
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


class Source:
    """``size`` bytes of a file, from ``start`` on; offsets count from ``start``.

    :param name: the file's name, for messages
    """

    def __init__(self, name: str, backing: Backing, size: int, start: int = 0) -> None:
        self.name = name
        self.size = size
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
        while offset < self.size:
            chunk = self.peek(offset, _CHUNK)
            rest = chunk.lstrip(b"\0")
            if rest or not chunk:
                return offset + len(chunk) - len(rest)
            offset += len(chunk)
        return self.size


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
