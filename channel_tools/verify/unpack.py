"""Decompression with bounds: a stream may not grow past what its header says, nor end before its end."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable
from typing import Final, Protocol

from channel_tools.verify.source import Source

ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
MAX_RAW: Final = 4 << 30
"""Bytes that one compressed bundle may unpack to."""
MAX_GROWTH: Final = 2000
"""Times that one compressed bundle may grow. Bundles of kernels grow about 5 to 50 times."""

_STEP: Final = 4096  # zstd may turn 4 KiB into 128 MiB at once, and cannot be told to stop before


class Decoder(Protocol):
    """One stream. A call gives what ``data`` unpacks to, of which ``room`` bytes are wanted."""

    def __call__(self, data: bytes, room: int) -> bytes: ...

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...


class _Zstd:
    def __init__(self) -> None:
        import zstandard

        self._decoder = zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj()

    def __call__(self, data: bytes, room: int) -> bytes:
        return self._decoder.decompress(data)

    @property
    def eof(self) -> bool:
        return bool(self._decoder.eof)

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data


class _Zlib:
    def __init__(self) -> None:
        self._decoder = zlib.decompressobj()

    def __call__(self, data: bytes, room: int) -> bytes:
        return self._decoder.decompress(self._decoder.unconsumed_tail + data, room + 1)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data


class _Xz:
    def __init__(self) -> None:
        self._decoder = lzma.LZMADecompressor(format=lzma.FORMAT_XZ)

    def __call__(self, data: bytes, room: int) -> bytes:
        return self._decoder.decompress(data, room + 1)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data


def zstd(source: Source, expected: int, what: str) -> tuple[bytearray, int]:
    """Unpack the zstd frame at the start of ``source``.

    :param expected: bytes that it must unpack to
    :return: the bytes, and how many bytes of ``source`` the frame takes
    :raises DamageError: no frame, a cut frame, or another size than expected
    """
    import zstandard

    try:
        frame = zstandard.get_frame_parameters(source.peek(0, 64))
    except zstandard.ZstdError as error:
        raise source.damage(f"{what} is no zstd frame", 0, found=str(error), wanted="a zstd frame") from error
    known = frame.content_size < 2**62
    if known and frame.content_size != expected:
        raise source.damage(
            f"{what} unpacks to another size",
            0,
            found=f"{frame.content_size} bytes",
            wanted=f"{expected} bytes",
        )
    return _run(_Zstd, zstandard.ZstdError, source, expected, what)


def zlib_stream(source: Source, expected: int, what: str) -> tuple[bytearray, int]:
    """Unpack the zlib stream at the start of ``source``; as :func:`zstd`."""
    return _run(_Zlib, zlib.error, source, expected, what)


def xz(source: Source, expected: int, what: str) -> tuple[bytearray, int]:
    """Unpack the xz stream at the start of ``source``; as :func:`zstd`."""
    return _run(_Xz, lzma.LZMAError, source, expected, what)


def _run(
    make: Callable[[], Decoder],
    error_type: type[Exception],
    source: Source,
    expected: int,
    what: str,
) -> tuple[bytearray, int]:
    if expected > MAX_RAW or expected > MAX_GROWTH * max(source.size, 64):
        raise source.damage(
            f"{what} claims to unpack to more than this reader takes",
            0,
            found=f"{expected} bytes out of {source.size}",
            wanted=f"at most {MAX_RAW} bytes and {MAX_GROWTH} times its size",
        )
    decoder = make()
    raw = bytearray()
    position = 0
    try:
        while not decoder.eof and len(raw) <= expected:
            data = source.peek(position, _STEP)
            grown = decoder(data, expected - len(raw))
            if not data and not grown:
                break
            position += len(data)
            raw += grown
    except (error_type, MemoryError) as error:
        raise source.damage(
            f"{what} cannot be unpacked", position, found=str(error), wanted="sound compressed data"
        ) from error
    if len(raw) != expected or not decoder.eof:
        more = "more than " if len(raw) > expected else ""
        raise source.damage(
            f"{what} unpacks to another size",
            position,
            found=f"{more}{min(len(raw), expected)} bytes{'' if decoder.eof else ', without an end mark'}",
            wanted=f"{expected} bytes",
        )
    return raw, position - len(decoder.unused_data)
