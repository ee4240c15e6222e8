"""A channel in a folder.

Every file is written beside its place under a name that starts with a dot, brought to the disk, and then
renamed or linked there. Comparing and replacing happen under a lock file, ``.channel/.lock``, that the
writers of all hosts share, so the file system must pass locks between hosts (NFS 4 does).
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from channel_tools.channel.layout import CONTROL, is_package
from channel_tools.channel.stores.content import (
    changed_meanwhile,
    check_key,
    checked,
    chunks,
    is_listed,
    other_content,
    reading_errors,
    stored_chunks,
    stream_sha256,
)
from channel_tools.channel.stores.store import IMMUTABLE, Stat, Store
from channel_tools.model.errors import StorageError
from channel_tools.model.files import locked, storage_errors

LOCK_NAME = ".lock"
PART_SUFFIX = ".part"
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class FolderStore:
    """Files below one folder, as :class:`channel_tools.channel.stores.store.Store`. Reading creates nothing.

    The etag of a package or shard is its inode, size and time, as its content is too much to hash each
    time; that of any other file is the sha256 of its content.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"FolderStore({str(self.path)!r})"

    @property
    def address(self) -> str:
        return str(self.path)

    def now(self) -> float:
        """Time that the file system gives: on a network share, its server's, the same for all hosts."""
        lock = self.path / CONTROL / LOCK_NAME
        try:
            os.utime(lock)
            return max(lock.stat().st_mtime, 0.0)
        except OSError:
            return time.time()

    def stat(self, key: str) -> Stat | None:
        path = self._path(key)
        with reading_errors(path):
            return self._stat(key, path)

    def read(self, key: str) -> bytes | None:
        found = self.read_with_etag(key)
        return None if found is None else found[0]

    def read_with_etag(self, key: str) -> tuple[bytes, str] | None:
        path = self._path(key)
        with reading_errors(path):
            try:
                stream = path.open("rb")
            except (FileNotFoundError, NotADirectoryError):
                return None
            with stream:
                content = stream.read()
                return content, _etag(key, os.fstat(stream.fileno()), lambda: content)

    def open(self, key: str) -> IO[bytes]:
        path = self._path(key)
        with reading_errors(path):
            return path.open("rb")

    def list(self, prefix: str = "") -> Iterator[Stat]:
        start = self.path / prefix[: prefix.rfind("/") + 1]
        with reading_errors(start):
            found = sorted(key for key in self._walk(start) if is_listed(key, prefix))
        for key in found:
            if (stat := self.stat(key)) is not None:
                yield stat

    def put_new(self, key: str, content: bytes | Path, *, sha256: str, cache: str = IMMUTABLE) -> bool:
        return self._put_new(key, chunks(content), sha256, content if isinstance(content, Path) else key)

    def copy_from(self, source: Store, source_key: str, key: str, *, sha256: str) -> bool:
        pieces = stored_chunks(source, source_key)
        return self._put_new(key, pieces, sha256, f"{source.address}/{source_key}")

    def replace(self, key: str, content: bytes, *, expect: str | None, cache: str) -> str:
        path = self._path(key)
        with self._written_beside(path, iter([content])) as temporary, self._locked():
            self._check(key, path, expect)
            with storage_errors(path):
                temporary.replace(path)
                return _etag(key, path.stat(), lambda: content)

    def delete(self, key: str, *, expect: str | None = None) -> None:
        path = self._path(key)
        with reading_errors(path):
            if not path.exists():
                return
        with self._locked():
            if expect is not None and self.stat(key) is not None:
                self._check(key, path, expect)
            with storage_errors(path):
                path.unlink(missing_ok=True)
                self._remove_empty(path.parent)

    def stray(self, older: float = 3600.0) -> Sequence[str]:
        """Keys of half files that writers left behind which ended ``older`` seconds ago or before."""
        limit = time.time() - older
        found = []
        with reading_errors(self.path):
            for folder, _, names in os.walk(self.path, onerror=_unless_gone):
                for name in names:
                    path = Path(folder, name)
                    if name.startswith(".") and name.endswith(PART_SUFFIX) and _modified(path) <= limit:
                        found.append(path.relative_to(self.path).as_posix())
        return sorted(found)

    def clear_stray(self, older: float = 3600.0) -> Sequence[str]:
        """Remove what :meth:`stray` finds.

        :returns: what was removed
        """
        found = self.stray(older)
        for key in found:
            with storage_errors(self.path / key):
                (self.path / key).unlink(missing_ok=True)
        return found

    def _path(self, key: str) -> Path:
        check_key(key, self.address)
        return self.path / key

    def _walk(self, start: Path) -> Iterator[str]:
        for folder, _, names in os.walk(start, onerror=_unless_gone):
            for name in names:
                yield Path(folder, name).relative_to(self.path).as_posix()

    def _stat(self, key: str, path: Path) -> Stat | None:
        try:
            with path.open("rb") as stream:
                found = os.fstat(stream.fileno())
                etag = _etag(key, found, stream.read)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        return Stat(key, found.st_size, etag, found.st_mtime)

    def _check(self, key: str, path: Path, expect: str | None) -> None:
        found = self.stat(key)
        if (None if found is None else found.etag) != expect:
            raise changed_meanwhile(str(path))

    def _put_new(self, key: str, pieces: Iterator[bytes], sha256: str, origin: str | Path) -> bool:
        path = self._path(key)
        with reading_errors(path):
            there = path.exists()
        if there:
            return self._same(path, sha256)
        with (
            self._written_beside(path, checked(pieces, sha256, origin)) as temporary,
            self._locked(),
            storage_errors(path),
        ):
            return True if _linked(temporary, path) else self._same(path, sha256)

    def _same(self, path: Path, sha256: str) -> bool:
        """False when the file has that content; an error when it has another."""
        with _reading(path) as stream:
            if stream_sha256(stream) == sha256:
                return False
        raise other_content(str(path))

    @contextmanager
    def _written_beside(self, path: Path, pieces: Iterator[bytes]) -> Iterator[Path]:
        """A file with that content, on the disk and under a passing name, which goes away afterwards."""
        with storage_errors(path):
            handle, name = self._temporary(path)
            temporary = Path(name)
            try:
                with os.fdopen(handle, "wb") as stream:
                    for piece in pieces:
                        stream.write(piece)
                    stream.flush()
                    os.fchmod(stream.fileno(), 0o644)
                    os.fsync(stream.fileno())
                yield temporary
            finally:
                temporary.unlink(missing_ok=True)

    def _temporary(self, path: Path) -> tuple[int, str]:
        """An open new file beside ``path``; another writer may be removing the empty folder just now."""
        for attempt in range(5):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=PART_SUFFIX, dir=path.parent)
            except FileNotFoundError:
                if attempt == 4:
                    raise
        raise StorageError("cannot be written: its folder goes away again and again", where=path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with locked(self.path / CONTROL / LOCK_NAME):
            yield

    def _remove_empty(self, folder: Path) -> None:
        control = self.path / CONTROL
        while control in folder.parents:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent


def _linked(temporary: Path, path: Path) -> bool:
    """Give the file its name, unless that is taken; the caller has the lock."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if path.exists():
            return False
        temporary.replace(path)
    return True


def _etag(key: str, stat: os.stat_result, content: Callable[[], bytes]) -> str:
    if is_package(key) or "/shards/" in key:
        return f"{stat.st_ino:x}-{stat.st_size:x}-{stat.st_mtime_ns:x}"
    return hashlib.sha256(content()).hexdigest()


def _unless_gone(error: OSError) -> None:
    """A folder that cannot be read must not look like an empty one."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


@contextmanager
def _reading(path: Path) -> Iterator[IO[bytes]]:
    with reading_errors(path), path.open("rb") as stream:
        yield stream
