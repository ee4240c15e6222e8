"""Files in memory as a store to copy from: what a change adds without a file on disk."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, NoReturn

from channel_tools.channel.stores.store import IMMUTABLE, Stat, Store
from channel_tools.model.errors import StorageError


class MemoryStore:
    """A store that can only be read. See :class:`channel_tools.channel.stores.store.Store`."""

    address = "memory"

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = dict(files)

    def now(self) -> float:
        return 0.0

    def stat(self, key: str) -> Stat | None:
        content = self._files.get(key)
        return None if content is None else Stat(key, len(content), hashlib.sha256(content).hexdigest(), 0.0)

    def read(self, key: str) -> bytes | None:
        return self._files.get(key)

    def read_with_etag(self, key: str) -> tuple[bytes, str] | None:
        stat = self.stat(key)
        return None if stat is None else (self._files[key], stat.etag)

    def open(self, key: str) -> IO[bytes]:
        content = self._files.get(key)
        if content is None:
            raise StorageError("is not there", where=f"{self.address}/{key}")
        return io.BytesIO(content)

    def list(self, prefix: str = "") -> Iterator[Stat]:
        stats = (self.stat(key) for key in sorted(self._files) if key.startswith(prefix))
        return (stat for stat in stats if stat is not None)

    def put_new(self, key: str, content: bytes | Path, *, sha256: str, cache: str = IMMUTABLE) -> bool:
        self._refuse(key)

    def replace(self, key: str, content: bytes, *, expect: str | None, cache: str) -> str:
        self._refuse(key)

    def delete(self, key: str, *, expect: str | None = None) -> None:
        self._refuse(key)

    def copy_from(self, source: Store, source_key: str, key: str, *, sha256: str) -> bool:
        self._refuse(key)

    def _refuse(self, key: str) -> NoReturn:
        raise StorageError("cannot be written", where=f"{self.address}/{key}")
