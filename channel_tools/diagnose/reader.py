"""Reading a log of any size, encoding and compression as blocks of bytes."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

import zstandard

from channel_tools.model.errors import ChannelToolsError

BLOCK: Final = 1 << 20

_OPENERS: Final[dict[bytes, Callable[[IO[bytes]], IO[bytes]]]] = {
    b"\x1f\x8b": lambda raw: cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="rb")),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda raw: cast(
        IO[bytes],
        zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw, read_across_frames=True),
    ),
}
_BROKEN: Final = (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


class Log:
    """A log that is open for reading.

    :ivar truncated: why reading ended before the end of the log, once it did
    """

    def __init__(self, raw: IO[bytes]) -> None:
        self.truncated: str | None = None
        self._head = raw.read(4096)
        self._stream = _rejoined(self._head, raw)
        for magic, opener in _OPENERS.items():
            if self._head.startswith(magic):
                self._stream = opener(self._stream)
                self._head = self._safely(4096)
                self._stream = _rejoined(self._head, self._stream)
                break

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """The log as UTF-8, or whatever single-byte text it holds, in blocks of about ``size`` bytes."""
        encoding = _wide_encoding(self._head)
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace") if encoding else None
        while block := self._safely(size):
            yield decoder.decode(block).encode(errors="replace") if decoder else block

    def _safely(self, size: int) -> bytes:
        if self.truncated:  # some decompressors raise other errors when they are asked again
            return b""
        try:
            return self._stream.read(size)
        except _BROKEN as error:
            self.truncated = str(error) or "it ends early"
            return b""


class _Rejoined(io.RawIOBase):
    """A stream with its first bytes put back, for streams that cannot be wound back."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def _rejoined(head: bytes, rest: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(_Rejoined(head, rest), BLOCK)


def _wide_encoding(head: bytes) -> str | None:
    """UTF-16, as some shells write it, by its mark or by the zeros between its letters."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    pairs = len(head) // 2
    if pairs >= 8:
        for encoding, letters, zeros in (
            ("utf-16-le", head[::2], head[1::2]),
            ("utf-16-be", head[1::2], head[::2]),
        ):
            if zeros.count(0) > 0.8 * pairs and letters.count(0) < 0.05 * pairs:
                return encoding
    return None


@contextmanager
def open_log(path: Path) -> Iterator[Log]:
    """:raises ChannelToolsError: the file cannot be opened"""
    try:
        with path.open("rb") as raw:
            yield Log(raw)
    except (IsADirectoryError, PermissionError, FileNotFoundError) as error:
        raise ChannelToolsError(
            "the log cannot be read", where=path, found=error.strerror, wanted="a file with a log"
        ) from error
