"""The entries of a tar file that is read from front to back."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from typing import IO, Final, cast

from channel_tools.verify.source import DamageError
from channel_tools.verify.streams import Stream, library_errors

_BLOCK: Final = 512
_MAX_HEADER: Final = 4 << 20
_PIECE: Final = 1 << 20


def tar_entries(name: str, stream: Stream) -> Iterator[tarfile.TarInfo]:
    """Each entry; the stream stands at its first byte of data, which may be read or left.

    :param name: of the archive, for messages
    :raises DamageError: a header that is none, or an archive without its end mark
    """
    file = _ForwardFile(name, stream)
    with library_errors(name, "tar archive"):
        tar = tarfile.TarFile(fileobj=cast("IO[bytes]", file), mode="r")
        while (info := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]  # else it keeps every header
            yield info
        place = tar.offset
    _check_end(name, stream, file.last, place)


def entry_data(info: tarfile.TarInfo, stream: Stream, count: Callable[[int], None]) -> Iterator[bytes]:
    """The data of an entry, out of the archive's ``stream``; the holes of a sparse one are filled.

    :param count: told of the bytes that fill them
    """
    stream.skip(info.offset_data - stream.position)
    place = 0
    # A list of pairs, whatever the type stubs say.
    parts: list[tuple[int, int]] = info.sparse or [(0, info.size)]  # type: ignore[assignment]
    for start, size in parts:
        if start < place:
            raise DamageError("map of a sparse entry", where=info.name, found=f"{start:#x} after {place:#x}")
        yield from _zeros(start - place, count)
        left = size
        while left > 0 and (piece := stream.piece(left)):
            yield piece
            left -= len(piece)
        if left > 0:
            return
        place = start + size
    yield from _zeros(info.size - place, count)


def _zeros(size: int, count: Callable[[int], None]) -> Iterator[bytes]:
    while size > 0:
        piece = bytes(min(size, _PIECE))
        count(len(piece))
        yield piece
        size -= len(piece)


class _ForwardFile:
    """What ``tarfile`` asks of a file, on a stream. Headers are read through it, data is not."""

    def __init__(self, name: str, stream: Stream) -> None:
        self._name = name
        self._stream = stream
        self.last = b""
        """What was read last."""

    def tell(self) -> int:
        return self._stream.position

    def seek(self, place: int) -> None:
        if place < self._stream.position:
            raise OSError("parts of an entry that do not follow each other")
        self._stream.skip(place - self._stream.position)

    def read(self, size: int) -> bytes:
        if size > _MAX_HEADER:
            raise DamageError(
                "tar header",
                where=self._name,
                offset=self._stream.position,
                found=f"{size} bytes of names",
                wanted=f"at most {_MAX_HEADER}",
            )
        self.last = self._stream.read(size)
        return self.last


def _check_end(name: str, stream: Stream, last: bytes, place: int) -> None:
    """After the last entry there is at least one block, and there are zeros only."""
    end = stream.position
    content_end = end - len(last) + len(last.rstrip(b"\0")) if end > place else place
    while piece := stream.piece(_PIECE):
        content = len(piece.rstrip(b"\0"))
        if content:
            content_end = end + content
        end = stream.position
    more = content_end - place
    if more > 0 or end < place + _BLOCK:
        raise DamageError(
            "a tar archive without its end mark",
            where=name,
            offset=place,
            found=f"{more} bytes that are no member header" if more > 0 else "the end",
            wanted="a member header, or zeros to the end",
        )
