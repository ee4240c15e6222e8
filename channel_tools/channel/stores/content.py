"""What every store does with bytes: read them with clear errors, check their sha256, refuse other content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from channel_tools.channel.layout import CONTROL
from channel_tools.channel.stores.store import Store
from channel_tools.model.errors import ChannelError, ConflictError, DamagedFileError, StorageError
from channel_tools.model.files import storage_errors

CHUNK = 1 << 20


@contextmanager
def reading_errors(where: str | Path) -> Iterator[None]:
    """Turn an ``OSError`` of the block into a :class:`StorageError` that says what cannot be read."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot be read: {error.strerror or error}", where=where) from error


def chunks(content: bytes | Path) -> Iterator[bytes]:
    """The bytes of ``content`` in pieces of at most :data:`CHUNK` bytes.

    :raises StorageError: a file that cannot be read
    """
    if isinstance(content, bytes):
        yield content
        return
    with reading_errors(content), content.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def stored_chunks(source: Store, key: str) -> Iterator[bytes]:
    """The bytes of a file of a store, in pieces of at most :data:`CHUNK` bytes.

    :raises StorageError: it cannot be read
    """
    with reading_errors(f"{source.address}/{key}"), source.open(key) as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def write_chunks(pieces: Iterator[bytes], path: Path) -> None:
    """Write a file anew; what goes wrong where the pieces come from is told as their own error.

    :raises StorageError: the file cannot be written
    """
    with storage_errors(path), path.open("wb") as stream:
        for piece in pieces:
            stream.write(piece)


def checked(pieces: Iterator[bytes], sha256: str, where: str | Path) -> Iterator[bytes]:
    """Pass the pieces on, and fail after the last one when they are not what ``sha256`` names.

    :raises DamagedFileError: another sha256
    """
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
        yield piece
    check_sha256(digest.hexdigest(), sha256, where)


def check_sha256(found: str, wanted: str, where: str | Path) -> None:
    """:raises DamagedFileError: another sha256"""
    if found != wanted:
        raise DamagedFileError(
            "has another sha256 than it should",
            where=where,
            found=found,
            wanted=wanted,
            fix="it changed meanwhile or is damaged: build or fetch it again",
        )


def stream_sha256(stream: IO[bytes]) -> str:
    """SHA-256 of what a stream still holds, as hexadecimal digits."""
    digest = hashlib.sha256()
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


class OtherContentError(ChannelError):
    """A second file under a name that is taken."""


def other_content(where: str) -> OtherContentError:
    """The error of a package under a name that is taken."""
    return OtherContentError(
        "a file of this name with other content is in the channel already",
        where=where,
        fix="raise the build number in recipe.yaml: published files never change",
    )


def changed_meanwhile(where: str) -> ConflictError:
    """The error of a file that is not what its writer last read."""
    return ConflictError(
        "was changed by somebody else meanwhile",
        where=where,
        fix="run the command again: it starts from the channel's present state",
    )


def check_key(key: str, address: str) -> None:
    """:raises ChannelError: a key that could lead out of the channel"""
    path = PurePosixPath(key)
    if not key or path.is_absolute() or ".." in path.parts or "\\" in key or "\0" in key or str(path) != key:
        raise ChannelError("is no name for a file of a channel", where=address, found=repr(key))


def is_listed(key: str, prefix: str) -> bool:
    """Does :meth:`Store.list` give this key? Names with a leading dot are no part of a channel.

    Control files are, for who asks for them.
    """
    if not key.startswith(prefix):
        return False
    rest = key.removeprefix(CONTROL) if prefix.startswith(CONTROL) else key
    return not any(part.startswith(".") for part in rest.split("/"))
