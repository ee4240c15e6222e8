"""Compressed files as streams that cannot end early unnoticed, nor grow without bound."""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from bz2 import BZ2File
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Final, cast

from channel_tools.verify import parallel, zstd_frames
from channel_tools.verify.source import DamageError
from channel_tools.verify.zstd_frames import Readable, ZstdPieces

STREAM_MAGICS: Final = (zstd_frames.MAGIC, b"BZh", b"\x1f\x8b", b"\xfd7zXZ\x00")
"""First bytes of zstd, bzip2, gzip and xz files."""

MAX_XZ_MEMORY: Final = 192 << 20
"""Bytes that an xz decoder may take: ``xz -9`` needs 65 MiB to unpack."""

_PIECE: Final = 1 << 18
_MAGIC_SIZE: Final = 8
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


@dataclass(frozen=True)
class Limits:
    """How far a container may unpack before it counts as a bomb.

    ``growth`` times its own size, of which the first ``free`` bytes do not count. What has to be unpacked
    anew, since it could not be read in one go, is counted apart and may be ``again`` times as much.
    """

    members: int = 500_000
    unpacked: int = 64 << 30
    growth: int = 400
    free: int = 256 << 20
    again: int = 4


class Budget:
    """Counts what comes out of one container, the containers inside it included."""

    def __init__(self, name: str, packed: int, limits: Limits) -> None:
        self._name = name
        self._members = limits.members
        self._allowed = min(limits.unpacked, max(limits.free, limits.growth * packed))
        self._limits = limits
        self._packed = packed
        self._unpacked = 0
        self._again = 0

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

    def add_again(self, count: int) -> None:
        """:raises DamageError: too many"""
        self._again += count
        allowed = self._limits.again * max(self._unpacked, self._limits.free)
        if self._again > allowed:
            raise DamageError(
                "its files are laid out so that it would have to be unpacked again and again",
                where=self._name,
                found=f"more than {allowed} bytes unpacked anew",
                wanted=f"at most {self._limits.again} times what it holds",
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


class Stream:
    """Bytes that come once, from front to back. After an error it gives that error again, and no bytes.

    ``position`` is how many were given out. ``count`` is told of all bytes that come.
    """

    def __init__(
        self,
        name: str,
        pieces: Iterator[bytes],
        count: Callable[[int], None] | None = None,
        what: str = "compressed stream",
    ) -> None:
        self.position = 0
        self._name = name
        self._pieces = pieces
        self._count = count
        self._what = what
        self._piece = b""
        self._at = 0
        self._error: DamageError | None = None

    def piece(self, limit: int) -> bytes:
        """The next bytes, at most ``limit``; none at the end.

        :raises DamageError: data that is cut off, unsound or more than the budget allows
        """
        if self._at == len(self._piece):
            self._fill()
        start, self._at = self._at, min(self._at + limit, len(self._piece))
        self.position += self._at - start
        return self._piece[start : self._at]

    def _fill(self) -> None:
        if self._error:
            raise self._error
        try:
            with library_errors(self._name, self._what):
                self._piece = next(self._pieces, b"")
            if self._count:
                self._count(len(self._piece))
        except DamageError as error:
            self._error = error
            self._piece = b""
            raise
        finally:
            self._at = 0

    def read(self, size: int, /) -> bytes:
        """``size`` bytes, or fewer at the end; raises as :meth:`piece`."""
        first = self.piece(size)
        if len(first) == size or not first:
            return first
        parts = [first]
        size -= len(first)
        while size and (part := self.piece(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Pass over ``size`` bytes, or fewer at the end; raises as :meth:`piece`."""
        while size > 0 and (part := self.piece(size)):
            size -= len(part)

    def close(self) -> None:
        """End what makes the bytes; it is needed only where a stream is not read to its end."""
        close = getattr(self._pieces, "close", None)
        if close:
            close()


def open_stream(
    name: str,
    raw: IO[bytes],
    count: Callable[[int], None] | None,
    *,
    ahead: bool = False,
    packed: bool = True,
) -> Stream:
    """Unpack ``raw`` by its first bytes; a file of no known compression comes through as it is.

    :param ahead: unpack in a thread; ``raw`` must not be used by another then
    :param packed: false: let it through, whatever its first bytes are
    :raises DamageError: on reading, data that is cut off or unsound
    """
    pieces = _pieces(raw, packed)
    return Stream(name, parallel.ahead(pieces) if ahead else pieces, count)


def _pieces(raw: IO[bytes], packed: bool) -> Iterator[bytes]:
    with raw:
        head = raw.read(_MAGIC_SIZE) if packed else b""
        whole = cast("IO[bytes]", _Joined(head, raw)) if head else raw
        if head.startswith(zstd_frames.MAGIC):
            yield from ZstdPieces(whole)
            return
        unpacked: Readable = whole
        if head.startswith(b"BZh"):
            unpacked = BZ2File(whole)
        elif head.startswith(b"\x1f\x8b"):
            unpacked = gzip.GzipFile(fileobj=whole)
        elif head.startswith(b"\xfd7zXZ\x00"):
            yield from _xz_pieces(whole)
            return
        while piece := unpacked.read(_PIECE):
            yield piece


def _xz_pieces(raw: Readable) -> Iterator[bytes]:
    """The library's own file class takes whatever memory the data asks for."""
    data = raw.read(_PIECE)
    while data:
        decoder = lzma.LZMADecompressor(memlimit=MAX_XZ_MEMORY)
        while not decoder.eof:
            piece = decoder.decompress(data, _PIECE)
            if piece:
                yield piece
            data = b""
            if decoder.needs_input and not decoder.eof:
                data = raw.read(_PIECE)
                if not data:
                    raise EOFError("the xz data is cut off")
        data = (decoder.unused_data or raw.read(_PIECE)).lstrip(b"\0")
        while not data and (data := raw.read(_PIECE)):
            data = data.lstrip(b"\0")


class _Joined(io.RawIOBase):
    """Bytes that were looked at already, and the file that they came from."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        head, self._head = self._head[:size], self._head[size:]
        return head or self._rest.read(size)
