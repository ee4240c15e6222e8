"""The work of a publish does not grow with the channel: what it asks of the store, counted."""

from __future__ import annotations

from pathlib import Path

from benchmarks.channel_index import publish
from channel_tools.channel.index.encoding import changed, encode, read_index
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.transaction.change import SubdirChange
from tests.integration.tiny_packages import tiny_package
from tests.unit.memory_store import CountingStore, switch
from tests.unit.test_channel_index import record


def channel_of(folder: Path, count: int) -> FolderStore:
    """A channel whose index has that many packages; their files are not there, as nobody may look at them."""
    store = FolderStore(folder)
    add = {f"p{n // 10}-{n % 10}-0.conda": record(f"p{n // 10}", str(n % 10)) for n in range(count)}
    empty = read_index(store, "linux-64")
    encoded = encode(store, empty, changed(empty, SubdirChange(add=add)))
    switch(store, encoded.shards, encoded.files)
    return store


def test_requests_of_a_publish_do_not_grow_with_the_channel(tmp_path: Path) -> None:
    new = [tiny_package(tmp_path / "new", f"new{n % 4}", str(n)) for n in range(24)]
    counted = []
    for size in (40, 2000):
        store = CountingStore(channel_of(tmp_path / str(size), size))
        publish(store, new)
        assert len(read_index(store, "linux-64").records) == size + 24
        listed = {key for method, key in store.calls if method == "list"}
        assert all(prefix.startswith((".channel/", "label/")) for prefix in listed), listed
        counted.append(store.counted())
    assert counted[0] == counted[1]
    assert counted[0].total() < 6 * len(new)
