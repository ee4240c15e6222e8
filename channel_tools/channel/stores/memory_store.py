"""Files in memory as a store to copy from: what a change adds without a file on disk."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from typing import IO

from channel_tools.channel.stores.read_only import ReadOnly
from channel_tools.channel.stores.store import Stat
from channel_tools.model.errors import StorageError


class MemoryStore(ReadOnly):
    """A store that can only be read. See :class:`channel_tools.channel.stores.store.Store`."""

    def __init__(self, files: Mapping[str, bytes], address: str = "memory") -> None:
        self._files = dict(files)
        self._address = address

    @property
    def address(self) -> str:
        return self._address

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
