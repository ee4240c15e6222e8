"""A store in memory, and one that counts what another is asked for."""

from __future__ import annotations

import hashlib
import io
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from channel_tools.channel.stores.content import chunks, other_content
from channel_tools.channel.stores.store import IMMUTABLE, Stat, Store
from channel_tools.model.errors import ConflictError, DamagedFileError, StorageError


class MemoryStore:
    """Keeps every file in ``files``; its streams cannot be wound back, as those of a network cannot."""

    address = "memory"

    def __init__(self, folder: Path | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.modified: dict[str, float] = {}
        if folder is not None:
            for path in folder.rglob("*"):
                if path.is_file():
                    self.files[path.relative_to(folder).as_posix()] = path.read_bytes()

    def now(self) -> float:
        return time.time()

    def stat(self, key: str) -> Stat | None:
        content = self.files.get(key)
        if content is None:
            return None
        etag = hashlib.sha256(content).hexdigest()
        return Stat(key, len(content), etag, self.modified.get(key, 0.0))

    def read(self, key: str) -> bytes | None:
        return self.files.get(key)

    def read_with_etag(self, key: str) -> tuple[bytes, str] | None:
        stat = self.stat(key)
        return None if stat is None else (self.files[key], stat.etag)

    def open(self, key: str) -> IO[bytes]:
        if key not in self.files:
            raise StorageError("cannot be read: there is no such file", where=key)
        return io.BufferedReader(_OneWay(self.files[key]))

    def list(self, prefix: str = "") -> Iterator[Stat]:
        for key in sorted(self.files):
            stat = self.stat(key) if key.startswith(prefix) else None
            if stat is not None:
                yield stat

    def put_new(self, key: str, content: bytes | Path, *, sha256: str, cache: str = IMMUTABLE) -> bool:
        whole = b"".join(chunks(content))
        found = hashlib.sha256(whole).hexdigest()
        if found != sha256:
            raise DamagedFileError("has another sha256 than it should", where=key, found=found, wanted=sha256)
        if key in self.files:
            if self.files[key] == whole:
                return False
            raise other_content(key)
        self._set(key, whole)
        return True

    def replace(self, key: str, content: bytes, *, expect: str | None, cache: str) -> str:
        self._check(key, expect)
        self._set(key, content)
        return hashlib.sha256(content).hexdigest()

    def delete(self, key: str, *, expect: str | None = None) -> None:
        if key in self.files:
            if expect is not None:
                self._check(key, expect)
            del self.files[key]

    def copy_from(self, source: Store, source_key: str, key: str, *, sha256: str) -> bool:
        with source.open(source_key) as stream:
            return self.put_new(key, stream.read(), sha256=sha256)

    def _set(self, key: str, content: bytes) -> None:
        self.files[key] = content
        self.modified[key] = time.time()

    def _check(self, key: str, expect: str | None) -> None:
        stat = self.stat(key)
        if (stat.etag if stat else None) != expect:
            raise ConflictError("was changed by somebody else meanwhile", where=key)


class _OneWay(io.RawIOBase):
    def __init__(self, content: bytes) -> None:
        self._left = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        return self._left.readinto(buffer)


class CountingStore:
    """Passes everything on to ``inner``; ``calls`` has (method, key), ``read_bytes`` what was read."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.calls: list[tuple[str, str]] = []
        self.read_bytes = 0

    @property
    def address(self) -> str:
        return self.inner.address

    def counted(self) -> Counter[str]:
        return Counter(method for method, _ in self.calls)

    def now(self) -> float:
        self.calls.append(("now", ""))
        return self.inner.now()

    def stat(self, key: str) -> Stat | None:
        self.calls.append(("stat", key))
        return self.inner.stat(key)

    def read(self, key: str) -> bytes | None:
        self.calls.append(("read", key))
        content = self.inner.read(key)
        self.read_bytes += len(content or b"")
        return content

    def read_with_etag(self, key: str) -> tuple[bytes, str] | None:
        self.calls.append(("read", key))
        found = self.inner.read_with_etag(key)
        self.read_bytes += len(found[0]) if found else 0
        return found

    def open(self, key: str) -> IO[bytes]:
        self.calls.append(("open", key))
        return self.inner.open(key)

    def list(self, prefix: str = "") -> Iterator[Stat]:
        self.calls.append(("list", prefix))
        return self.inner.list(prefix)

    def put_new(self, key: str, content: bytes | Path, *, sha256: str, cache: str = IMMUTABLE) -> bool:
        self.calls.append(("put_new", key))
        return self.inner.put_new(key, content, sha256=sha256, cache=cache)

    def replace(self, key: str, content: bytes, *, expect: str | None, cache: str) -> str:
        self.calls.append(("replace", key))
        return self.inner.replace(key, content, expect=expect, cache=cache)

    def delete(self, key: str, *, expect: str | None = None) -> None:
        self.calls.append(("delete", key))
        self.inner.delete(key, expect=expect)

    def copy_from(self, source: Store, source_key: str, key: str, *, sha256: str) -> bool:
        self.calls.append(("copy_from", key))
        return self.inner.copy_from(source, source_key, key, sha256=sha256)


def switch(store: Store, shards: dict[str, bytes], files: dict[str, bytes]) -> None:
    """Put new index files into a store, as a transaction does, but without its care."""
    for key, content in shards.items():
        store.put_new(key, content, sha256=hashlib.sha256(content).hexdigest())
    for key, content in files.items():
        stat = store.stat(key)
        store.replace(key, content, expect=stat.etag if stat else None, cache="no-cache")
