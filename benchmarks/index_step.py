"""Take the packages that an index does not know yet into it: ``python -m benchmarks.index_step CHANNEL``."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

from channel_tools.channel.index.encoding import changed, encode, read_index
from channel_tools.channel.index.records import record_of
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.store import IMMUTABLE, SHORT, Store
from channel_tools.channel.transaction.change import SubdirChange

SUBDIR = "linux-64"


def take_in(store: Store, packages: Iterable[Path]) -> None:
    """Read the new packages and the old index, and put the new index into the store, every file whole."""
    old = read_index(store, SUBDIR)
    new = changed(old, SubdirChange(add={path.name: record_of(path) for path in packages}))
    encoded = encode(store, old, new)
    for key, content in encoded.shards.items():
        store.put_new(key, content, sha256=hashlib.sha256(content).hexdigest(), cache=IMMUTABLE)
    for key, content in encoded.files.items():
        found = store.read_with_etag(key)
        store.replace(key, content, expect=found[1] if found else None, cache=SHORT)


if __name__ == "__main__":
    take_in(FolderStore(sys.argv[1]), sorted(Path(sys.argv[1], SUBDIR).glob("new-*.conda")))
