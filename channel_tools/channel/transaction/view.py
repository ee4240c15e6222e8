"""A channel as one moment shows it: every small file is read once, and others can be laid over it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO

from channel_tools.channel.stores.read_only import ReadOnly
from channel_tools.channel.stores.store import Stat, Store
from channel_tools.channel.transaction.journal import digest


class View(ReadOnly):
    """Reads ``store``; what was read once stays as it was.

    :param over: content by key that stands in the place of what the store has
    """

    def __init__(self, store: Store, over: Mapping[str, bytes] | None = None) -> None:
        self.store = store
        self.over = dict(over or {})
        self._seen: dict[str, tuple[bytes, str] | None] = {}

    @property
    def address(self) -> str:
        return self.store.address

    def now(self) -> float:
        return self.store.now()

    def stat(self, key: str) -> Stat | None:
        if key in self.over:
            return Stat(key, len(self.over[key]), digest(self.over[key]), self.now())
        return self.store.stat(key)

    def read(self, key: str) -> bytes | None:
        found = self.read_with_etag(key)
        return None if found is None else found[0]

    def read_with_etag(self, key: str) -> tuple[bytes, str] | None:
        if key in self.over:
            return self.over[key], digest(self.over[key])
        if key not in self._seen:
            self._seen[key] = self.store.read_with_etag(key)
        return self._seen[key]

    def open(self, key: str) -> IO[bytes]:
        return self.store.open(key)

    def list(self, prefix: str = "") -> Iterator[Stat]:
        found = {stat.key: stat for stat in self.store.list(prefix)}
        for key in self.over:
            if key.startswith(prefix) and (stat := self.stat(key)) is not None:
                found[key] = stat
        return iter([found[key] for key in sorted(found)])
