"""zstd data in pieces of bounded size, and where its frames end.

Format: RFC 8878. The library neither says how many bytes a frame took nor notices that the last one is cut
off, so the headers of frames and blocks are followed beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

MAGIC: Final = b"\x28\xb5\x2f\xfd"
MAX_WINDOW: Final = 1 << 27
"""Bytes that a decoder may look back. zstd's own command takes no more, and no compressor that clang or a
conda tool uses asks for more."""

_READ: Final = 1 << 20
_PIECE: Final = 1 << 20
_SKIPPABLE: Final = b"\x2a\x4d\x18"
_MAX_HEADER: Final = 18
_BLOCK_HEADER: Final = 3
_RLE: Final = 1
_CHECKSUM: Final = 4


class Readable(Protocol):
    """Anything with ``read``."""

    def read(self, size: int, /) -> bytes: ...


class ZstdPieces:
    """The unpacked bytes of ``raw``, piece by piece.

    :param one_frame: stop after the first frame, whatever follows

    Iterating raises ``zstandard.ZstdError``, or ``EOFError`` where a frame is cut off.
    """

    def __init__(self, raw: Readable, *, one_frame: bool = False) -> None:
        self._raw = raw
        self._one_frame = one_frame
        self._frames = _Frames(one_frame)

    @property
    def used(self) -> int:
        """Bytes of ``raw`` that the frames took, once all were read."""
        return self._frames.end

    def read(self, size: int, /) -> bytes:
        """For the decoder, which would go on into what follows the frame."""
        if self._one_frame and self._frames.whole:
            return b""
        data = self._raw.read(size)
        return data[: len(data) - self._frames.follow(data)]

    def __iter__(self) -> Iterator[bytes]:
        import zstandard

        decoder = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
        # It wants a file, and takes anything that has read().
        pieces = decoder.stream_reader(
            self,  # type: ignore[arg-type]
            read_size=_READ,
            read_across_frames=not self._one_frame,
        )
        while piece := pieces.read(_PIECE):
            yield piece
        if not self._frames.whole:
            raise EOFError("the last zstd frame is cut off")


class _Frames:
    """Follows the headers of frames and blocks. It judges nothing: the decoder beside it does."""

    def __init__(self, one_frame: bool) -> None:
        self.end = 0
        """Place after the last frame or block of which the header was seen."""
        self._one_frame = one_frame
        self._seen = 0
        self._in_frame = False
        self._frames = 0
        self._checksum = 0
        self._rest = b""  # the start of a header that the next bytes complete

    @property
    def whole(self) -> bool:
        """Did the bytes so far end where a frame ends?"""
        enough = self._frames > 0 or not self._one_frame
        return enough and not self._in_frame and self.end <= self._seen and not self._rest

    def follow(self, data: bytes) -> int:
        """Take the next bytes; return how many of them lie behind the one frame that is wanted."""
        fresh = len(data)
        data = self._rest + data
        start = self._seen - len(self._rest)
        self._seen = start + len(data)
        self._rest = b""
        while self.end < self._seen and not (self._one_frame and self.whole):
            place = self.end - start
            step = self._block(data, place) if self._in_frame else self._frame(data, place)
            if step == 0:
                self._rest = data[place:]
                return 0
            self.end += step
        return min(max(0, self._seen - self.end), fresh)

    def _frame(self, data: bytes, place: int) -> int:
        """Bytes to the next header; 0 where this one is not whole yet."""
        header = data[place : place + _MAX_HEADER]
        if header[1:4] == _SKIPPABLE:
            return 8 + int.from_bytes(header[4:8], "little") if len(header) >= 8 else 0
        if len(header) < 5:
            return 0
        flags = header[4]
        single = flags >> 5 & 1
        content = (single, 2, 4, 8)[flags >> 6]
        self._in_frame = True
        self._frames += 1
        self._checksum = _CHECKSUM if flags & 4 else 0
        return 5 + (1 - single) + (0, 1, 2, 4)[flags & 3] + content

    def _block(self, data: bytes, place: int) -> int:
        header = data[place : place + _BLOCK_HEADER]
        if len(header) < _BLOCK_HEADER:
            return 0
        fields = int.from_bytes(header, "little")
        size = _BLOCK_HEADER + (1 if fields >> 1 & 3 == _RLE else fields >> 3)
        if fields & 1:
            self._in_frame = False
            size += self._checksum
        return size
