"""Decompression with bounds: a stream may not grow past what its header says, nor end before its end.

What is unpacked passes once (:mod:`channel_tools.verify.passing`): it is read while it is unpacked, and never
lies in memory as a whole.
"""

from __future__ import annotations

import hashlib
import lzma
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from channel_tools.verify import parallel, zstd_frames
from channel_tools.verify.source import DamageError, Source

if TYPE_CHECKING:
    from channel_tools.verify.passing import Passing

ZSTD_MAGIC: Final = zstd_frames.MAGIC
MAX_RAW: Final = 4 << 30
"""Bytes that one compressed bundle may unpack to."""
MAX_GROWTH: Final = 2000
"""Times that one compressed bundle may grow. Bundles of kernels grow about 5 to 50 times."""
MAX_LOOK_BACK: Final = 160 << 20
"""Bytes that all decoders of this module together may take to look back."""

_PIECE: Final = 1 << 18
_RING: Final = 4 << 20
_NOTES: Final = 2 << 20
_XZ_MEMORY: Final = 128 << 20
_WORTH_A_THREAD: Final = 8 << 20
_look_back = parallel.Room(MAX_LOOK_BACK)


class Packed(ABC):
    """One compressed stream: the bytes of ``source`` from its start on."""

    memory = 1 << 20
    """Bytes, about, that the decoder takes."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.used = 0
        """Bytes of ``source`` that were taken; those of the stream alone, once all were unpacked."""

    @abstractmethod
    def pieces(self) -> Iterator[bytes]:
        """What it unpacks to, from its start.

        :raises EOFError: it has no end
        """

    @property
    @abstractmethod
    def errors(self) -> type[Exception]:
        """What the library raises on unsound data."""


class Zstd(Packed):
    """A zstd frame.

    :raises DamageError: none, one that says to hold another number of bytes than ``expected``, or one for
        which the decoder would need too much memory
    """

    def __init__(self, source: Source, expected: int, what: str) -> None:
        import zstandard

        super().__init__(source)
        try:
            frame = zstandard.get_frame_parameters(source.peek(0, 64))
        except zstandard.ZstdError as error:
            raise source.damage(
                f"{what} is no zstd frame", 0, found=str(error), wanted="a zstd frame"
            ) from error
        known = frame.content_size < 2**62
        if known and frame.content_size != expected:
            raise source.damage(
                f"{what} unpacks to another size",
                0,
                found=f"{frame.content_size} bytes",
                wanted=f"{expected} bytes",
            )
        if frame.window_size > zstd_frames.MAX_WINDOW:
            raise source.damage(
                f"{what} takes more memory to unpack than this reader gives",
                0,
                found=f"a window of {frame.window_size} bytes",
                wanted=f"at most {zstd_frames.MAX_WINDOW}, as zstd's own command",
            )
        self.memory = frame.window_size
        self._chunks: Iterator[bytes] = iter(())
        self._chunk = b""
        self._at = 0

    def pieces(self) -> Iterator[bytes]:
        frame = zstd_frames.ZstdPieces(self, one_frame=True)
        self._chunks = self.source.chunks()
        yield from frame
        self.used = frame.used

    def read(self, size: int, /) -> bytes:
        """For the decoder."""
        if self._at == len(self._chunk):
            self._chunk, self._at = next(self._chunks, b""), 0
        data = self._chunk[self._at : self._at + size]
        self._at += len(data)
        self.used += len(data)
        return data

    @property
    def errors(self) -> type[Exception]:
        import zstandard

        return zstandard.ZstdError


class Zlib(Packed):
    """A zlib stream."""

    errors = zlib.error

    def pieces(self) -> Iterator[bytes]:
        decoder = zlib.decompressobj()
        for data in self.source.chunks():
            self.used += len(data)
            while data and not decoder.eof:
                piece = decoder.decompress(data, _PIECE)
                if piece:
                    yield piece
                data = decoder.unconsumed_tail
            if decoder.eof:
                self.used -= len(decoder.unused_data)
                return
        if rest := decoder.flush():
            yield rest
        if not decoder.eof:
            raise EOFError


class Xz(Packed):
    """An xz stream."""

    errors = lzma.LZMAError
    memory = _XZ_MEMORY

    def pieces(self) -> Iterator[bytes]:
        decoder = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        for data in self.source.chunks():
            self.used += len(data)
            while not decoder.eof:
                piece = decoder.decompress(data, _PIECE)
                if piece:
                    yield piece
                data = b""
                if decoder.needs_input:
                    break
            if decoder.eof:
                self.used -= len(decoder.unused_data)
                return
        raise EOFError


class Unpacked:
    """What a compressed stream holds.

    ``source`` has ``expected`` bytes. Whether there are as many, and whether they are sound, is known after
    :meth:`finish` only; what was found in them must not count if it raises.

    :param name: of ``source``, for messages
    :param what: of the stream, for messages
    :param before: bytes that ``source`` starts with; they are among the expected ones
    """

    def __init__(self, packed: Packed, expected: int, what: str, name: str, before: bytes) -> None:
        from channel_tools.verify.passing import Passing
        from channel_tools.verify.streams import Stream

        size = packed.source.size
        if expected > MAX_RAW or expected > MAX_GROWTH * max(size, 64):
            raise packed.source.damage(
                f"{what} claims to unpack to more than this reader takes",
                0,
                found=f"{expected} bytes out of {size}",
                wanted=f"at most {MAX_RAW} bytes and {MAX_GROWTH} times its size",
            )
        self._packed = packed
        self._expected = expected
        self._what = what
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._used: int | None = None
        self._error: DamageError | None = None
        pieces = self._checked(before)
        if expected >= _WORTH_A_THREAD and not parallel.in_crew():
            pieces = parallel.ahead(pieces)
        self._live = Stream(name, self._hashed(pieces), what=what)
        self._backing: Passing = Passing(
            name,
            expected,
            self._live,
            lambda: Stream(name, self._checked(before), what=what),
            ring=_RING,
            notes=_NOTES,
        )
        self.source = Source(name, self._backing, expected)

    @property
    def digest(self) -> bytes:
        """MD5 of the unpacked bytes, once :meth:`finish` was called."""
        return self._md5.digest()

    def finish(self) -> int:
        """Unpack to the end; return how many bytes the stream took.

        :raises DamageError: unsound data, or another number of bytes than expected
        """
        if self._error:
            raise self._error
        if self._used is None:
            try:
                self._backing.pass_on()
                self._live.piece(1)  # none: what comes after the last byte is the check
                self._used = self._packed.used
            except DamageError as error:
                self._error = error
                raise
            finally:
                self._live.close()
                self._backing.forget()
        return self._used

    def _hashed(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._md5.update(piece)
            yield piece

    def _checked(self, before: bytes) -> Iterator[bytes]:
        source = self._packed.source
        total = len(before)
        whole = True
        with _look_back.take(self._packed.memory + _RING):
            if before:
                yield before
            try:
                for piece in self._packed.pieces():
                    total += len(piece)
                    if total > self._expected:
                        break
                    yield piece
            except EOFError:
                whole = False
            except (self._packed.errors, MemoryError) as error:
                raise source.damage(
                    f"{self._what} cannot be unpacked",
                    0,
                    found=str(error) or "not enough memory",
                    wanted="sound compressed data",
                ) from error
        if total != self._expected or not whole:
            more = "more than " if total > self._expected else ""
            end = "" if whole else ", without an end mark"
            raise source.damage(
                f"{self._what} unpacks to another size",
                0,
                found=f"{more}{min(total, self._expected)} bytes{end}",
                wanted=f"{self._expected} bytes",
            )


def zstd(source: Source, expected: int, what: str, name: str, before: bytes = b"") -> Unpacked:
    """The zstd frame at the start of ``source``; see :class:`Unpacked`.

    :raises DamageError: no such frame, or one that claims to unpack to more than this reader takes
    """
    return Unpacked(Zstd(source, expected - len(before), what), expected, what, name, before)


def zlib_stream(source: Source, expected: int, what: str, name: str, before: bytes = b"") -> Unpacked:
    """The zlib stream at the start of ``source``; as :func:`zstd`."""
    return Unpacked(Zlib(source), expected, what, name, before)


def xz(source: Source, expected: int, what: str, name: str) -> Unpacked:
    """The xz stream at the start of ``source``; as :func:`zstd`."""
    return Unpacked(Xz(source), expected, what, name, b"")
