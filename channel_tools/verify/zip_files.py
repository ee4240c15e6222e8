"""Zip archives, with a bound on what their directory takes."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final, cast

from channel_tools.verify.source import DamageError, Source, SourceFile
from channel_tools.verify.streams import library_errors

ZIP_MAGICS: Final = (b"PK\x03\x04", b"PK\x05\x06")

MAX_DIRECTORY: Final = 16 << 20
"""Bytes of a zip archive's directory: about 100,000 entries."""

_CHUNK: Final = 1 << 20
_END_MAGIC: Final = b"PK\x05\x06"
_END_SIZE: Final = 22
_MAX_COMMENT: Final = 0xFFFF
_LARGE: Final = 0xFFFFFFFF
_LARGE_LOCATOR: Final = struct.Struct("<4s4xQ4x")
_LARGE_LOCATOR_MAGIC: Final = b"PK\x06\x07"
_SIZE_AT: Final = 12
_LARGE_SIZE_AT: Final = 40
_BOUNDED_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_SMALL_READ: Final = 4096


@contextmanager
def open_zip(name: str, source: Source) -> Iterator[zipfile.ZipFile]:
    """A zip archive, its directory read.

    :raises DamageError: no sound archive, or a directory that is too large
    """
    size = _directory_size(source)
    if size > MAX_DIRECTORY:
        raise DamageError(
            "directory of a zip archive",
            where=name,
            found=f"{size} bytes",
            wanted=f"at most {MAX_DIRECTORY} bytes",
        )
    file = cast("IO[bytes]", io.BufferedReader(SourceFile(source), _CHUNK))
    with library_errors(name, "zip archive"), zipfile.ZipFile(file) as archive:
        yield archive


def _directory_size(source: Source) -> int:
    """As the end record says; 0 where there is none, which the library will report."""
    start = max(0, source.size - _END_SIZE - _MAX_COMMENT)
    tail = source.peek(start, source.size - start)
    place = tail.rfind(_END_MAGIC)
    if place < 0 or place + _END_SIZE > len(tail):
        return 0
    size = int.from_bytes(tail[place + _SIZE_AT : place + _SIZE_AT + 4], "little")
    locator_at = place - _LARGE_LOCATOR.size
    if size == _LARGE and locator_at >= 0:
        magic, record = _LARGE_LOCATOR.unpack_from(tail, locator_at)
        if magic == _LARGE_LOCATOR_MAGIC:
            size = int.from_bytes(source.peek(record + _LARGE_SIZE_AT, 8), "little")
    return size


def open_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    """An entry as a file of which a read never makes much more than it is asked for."""
    if info.compress_type == zipfile.ZIP_LZMA:
        raise DamageError(
            "an entry is compressed in a way that this reader does not take",
            where=info.filename,
            found="LZMA, whose decoder takes whatever memory the entry asks for",
            wanted="stored or deflated, as in wheels and conda packages",
        )
    entry = archive.open(info)
    if info.compress_type in _BOUNDED_METHODS:
        return entry
    return cast("IO[bytes]", io.BufferedReader(_Careful(entry), _SMALL_READ))


class _Careful(io.RawIOBase):
    """Reads little at a time: the library unpacks all that it reads, however much that makes."""

    def __init__(self, entry: IO[bytes]) -> None:
        self._entry = entry

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._entry.read(min(len(buffer), _SMALL_READ))
        buffer[: len(data)] = data
        return len(data)
