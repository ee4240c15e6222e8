"""The half of a store that only lets itself be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import NoReturn

from channel_tools.channel.stores.store import IMMUTABLE, Store
from channel_tools.model.errors import StorageError


class ReadOnly(ABC):
    """Every writing method of :class:`channel_tools.channel.stores.store.Store`, refused."""

    @property
    @abstractmethod
    def address(self) -> str: ...

    def put_new(self, key: str, content: bytes | Path, *, sha256: str, cache: str = IMMUTABLE) -> bool:
        self._refuse(key)

    def replace(self, key: str, content: bytes, *, expect: str | None, cache: str) -> str:
        self._refuse(key)

    def delete(self, key: str, *, expect: str | None = None) -> None:
        self._refuse(key)

    def copy_from(self, source: Store, source_key: str, key: str, *, sha256: str) -> bool:
        self._refuse(key)

    def _refuse(self, key: str) -> NoReturn:
        raise StorageError("is only read, and cannot be written", where=f"{self.address}/{key}")
