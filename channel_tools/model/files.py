"""Writing files whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from channel_tools.model.errors import StorageError

_REASONS = {
    errno.ENOSPC: ("the disk is full", "free some space, or choose a folder on another disk"),
    errno.EDQUOT: ("the disk quota is used up", "free some space, or choose a folder on another disk"),
    errno.EROFS: ("the file system is read-only", "choose a folder that can be written"),
    errno.EACCES: ("permission denied", "choose a folder that you can write, or change its owner"),
    errno.EPERM: ("permission denied", "choose a folder that you can write, or change its owner"),
    errno.ENOTDIR: ("a part of the path is a file", "choose another folder"),
    errno.EEXIST: ("it is a file", "choose another folder"),
}


def reason(error: Exception) -> str:
    """What was wrong, in words: of an ``OSError`` without number and path, which a message has already."""
    return getattr(error, "strerror", None) or str(error)


def storage_error(error: OSError, path: Path) -> StorageError:
    """The error that a user sees when a folder cannot be written."""
    what, fix = _REASONS.get(error.errno or 0, (error.strerror or str(error), "choose another folder"))
    return StorageError(f"cannot be written: {what}", where=path, fix=fix)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` of the block into a :class:`StorageError` that names ``path``."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; rename it there when the block ends well, else remove it."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def locked(lock: Path) -> Iterator[None]:
    """Hold a lock file for the length of the block; other processes wait.

    :raises StorageError: the lock file cannot be made
    """
    with storage_errors(lock.parent):
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = lock.open("w")
    with handle:
        with storage_errors(lock):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file so that ``target`` is either absent or complete."""
    with written_whole(target) as temporary:
        shutil.copyfile(source, temporary)


def write_text_whole(path: Path, text: str) -> None:
    """Write a text file so that it is either the old one or the new one."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_writable(folder: Path) -> None:
    """Make sure now, not after an hour's build, that files can be made in ``folder``.

    :raises StorageError: they cannot
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=".writable.", dir=folder) as probe:
            probe.write(b"\0" * 4096)
            probe.flush()
