"""Compressed files as streams that cannot end early unnoticed, nor grow without bound."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Final, Protocol

from channel_tools.verify.source import DamageError
from channel_tools.verify.unpack import ZSTD_MAGIC

STREAM_MAGICS: Final = (ZSTD_MAGIC, b"BZh", b"\x1f\x8b", b"\xfd7zXZ\x00")
"""First bytes of zstd, bzip2, gzip and xz files."""

_STEP: Final = 4096  # as in unpack: bounds what one call of the zstd decoder may give
_LIBRARY_ERRORS: Final = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


class Readable(Protocol):
    """Anything with ``read``."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class Limits:
    """How far a container may unpack before it counts as a bomb.

    ``growth`` times its own size, of which the first ``free`` bytes do not count.
    """

    members: int = 1_000_000
    unpacked: int = 64 << 30
    growth: int = 400
    free: int = 256 << 20


class Budget:
    """Counts what comes out of one container, the containers inside it included."""

    def __init__(self, name: str, packed: int, limits: Limits) -> None:
        self._name = name
        self._members = limits.members
        self._allowed = min(limits.unpacked, max(limits.free, limits.growth * packed))
        self._limits = limits
        self._packed = packed
        self._unpacked = 0

    def add_member(self) -> None:
        """:raises DamageError: too many"""
        self._members -= 1
        if self._members < 0:
            raise DamageError(
                "too many entries for a package",
                where=self._name,
                found=f"more than {self._limits.members}",
                wanted=f"at most {self._limits.members}",
            )

    def add_bytes(self, count: int) -> None:
        """:raises DamageError: too many"""
        self._unpacked += count
        if self._unpacked > self._allowed:
            raise DamageError(
                "unpacks to far more than a package would (an archive bomb?)",
                where=self._name,
                found=f"more than {self._allowed} bytes out of {self._packed}",
                wanted=f"at most {self._limits.growth} times its size and {self._limits.unpacked} bytes",
            )


@contextmanager
def library_errors(name: str, what: str) -> Iterator[None]:
    """Turn whatever a decompressor or archive reader raises on bad bytes into :class:`DamageError`."""
    import zstandard

    try:
        yield
    except DamageError:
        raise
    except (*_LIBRARY_ERRORS, zstandard.ZstdError) as error:
        text = str(error) or type(error).__name__
        raise DamageError(
            f"{what} cannot be read", where=name, found=text, wanted=f"a sound {what}"
        ) from error


class ZstdStream:
    """A zstd file of any number of frames. Unlike the library's own readers it notices a cut last frame."""

    def __init__(self, raw: Readable) -> None:
        import zstandard

        self._raw = raw
        self._zstd = zstandard.ZstdDecompressor(max_window_size=2**31)
        self._frame = self._zstd.decompressobj()
        self._started = False
        self._buffer = bytearray()

    def read(self, size: int, /) -> bytes:
        while len(self._buffer) < size:
            data = self._frame.unused_data if self._frame.eof else b""
            data = data or self._raw.read(_STEP)
            if not data:
                if self._started and not self._frame.eof:
                    raise EOFError("the last zstd frame is cut off")
                break
            if self._frame.eof:
                self._frame = self._zstd.decompressobj()
            self._started = True
            self._buffer += self._frame.decompress(data)
        result = bytes(self._buffer[:size])
        del self._buffer[:size]
        return result


class CountedStream:
    """The unpacked bytes of ``raw``, counted against the budget.

    ``total`` is how many came so far, ``content_end`` the place after the last one that is not zero.
    """

    def __init__(self, name: str, raw: Readable, budget: Budget | None) -> None:
        self.total = 0
        self.content_end = 0
        self._name = name
        self._raw = raw
        self._budget = budget

    def read(self, size: int = -1, /) -> bytes:
        with library_errors(self._name, "compressed stream"):
            data = self._raw.read(size)
        if self._budget:
            self._budget.add_bytes(len(data))
        content = len(data.rstrip(b"\0"))
        if content:
            self.content_end = self.total + content
        self.total += len(data)
        return data

    def drain(self) -> None:
        """Read to the end, so that every check of the format runs."""
        while self.read(1 << 20):
            pass


def open_stream(name: str, raw: IO[bytes], head: bytes, budget: Budget | None) -> CountedStream:
    """Unpack ``raw`` by its first bytes; a file of no known compression comes through as it is.

    :raises DamageError: on opening or reading, data that is cut off or unsound
    """
    unpacked: Readable = raw
    if head.startswith(ZSTD_MAGIC):
        unpacked = ZstdStream(raw)
    elif head.startswith(b"BZh"):
        unpacked = bz2.BZ2File(raw)
    elif head.startswith(b"\x1f\x8b"):
        unpacked = gzip.GzipFile(fileobj=raw)
    elif head.startswith(b"\xfd7zXZ\x00"):
        unpacked = lzma.LZMAFile(raw)  # noqa: SIM115
    return CountedStream(name, unpacked, budget)
