"""What every store must do, as one class of tests; a subclass gives the fixture ``store``."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from channel_tools.channel.stores.store import IMMUTABLE, NO_CACHE, SHORT, Store
from channel_tools.model.errors import ChannelError, ConflictError, DamagedFileError, StorageError

KEY = "linux-64/x-1-0.conda"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def put(store: Store, key: str, content: bytes) -> bool:
    return store.put_new(key, content, sha256=digest(content))


class StoreContract:
    """Each test gets a store that holds nothing; ``other`` is a second one of the same kind."""

    def test_reading_what_is_not_there(self, store: Store) -> None:
        assert store.read(KEY) is None
        assert store.read_with_etag(KEY) is None
        assert store.stat(KEY) is None
        assert list(store.list()) == []
        assert list(store.list("linux-64/")) == []
        store.delete(KEY)
        with pytest.raises(StorageError):
            store.open(KEY).read()

    def test_put_new_then_read(self, store: Store) -> None:
        content = os.urandom(3_000_000)
        assert put(store, KEY, content)
        assert store.read(KEY) == content
        with store.open(KEY) as stream:
            assert stream.read(10) == content[:10]
            assert stream.read() == content[10:]
        stat = store.stat(KEY)
        assert stat is not None and stat.size == len(content) and stat.key == KEY
        assert abs(stat.modified - store.now()) < 60

    def test_same_content_again_is_no_op(self, store: Store, tmp_path: Path) -> None:
        assert put(store, KEY, b"one")
        before = store.stat(KEY)
        assert not put(store, KEY, b"one")
        file = tmp_path / "one"
        file.write_bytes(b"one")
        assert not store.put_new(KEY, file, sha256=digest(b"one"))
        assert store.stat(KEY) == before

    @pytest.mark.parametrize("content", [b"two", b"", b"twoo"])
    def test_other_content_is_refused(self, store: Store, content: bytes, tmp_path: Path) -> None:
        put(store, KEY, b"one")
        file = tmp_path / "two"
        file.write_bytes(content)
        for given in (content, file):
            with pytest.raises(ChannelError, match="other content") as caught:
                store.put_new(KEY, given, sha256=digest(content))
            assert KEY in str(caught.value)
            assert not isinstance(caught.value, ConflictError)
        assert store.read(KEY) == b"one"

    def test_a_wrong_sha256_stores_nothing(self, store: Store, tmp_path: Path) -> None:
        file = tmp_path / "damaged"
        file.write_bytes(b"damaged" * 300_000)
        for given in (file.read_bytes(), file):
            with pytest.raises(DamagedFileError) as caught:
                store.put_new(KEY, given, sha256=digest(b"whole"))
            assert digest(b"whole") in str(caught.value)
        assert list(store.list()) == []

    def test_a_missing_source_file(self, store: Store, tmp_path: Path) -> None:
        with pytest.raises(StorageError) as caught:
            store.put_new(KEY, tmp_path / "absent", sha256=digest(b""))
        assert "absent" in str(caught.value)
        assert list(store.list()) == []

    def test_empty_and_unusual_names(self, store: Store) -> None:
        key = "noarch/_x-1!2.0+cpu.g1-0.conda"
        assert put(store, key, b"")
        assert store.read(key) == b""
        assert [stat.key for stat in store.list()] == [key]

    def test_keys_that_lead_elsewhere_are_refused(self, store: Store) -> None:
        for key in ("", "/etc/x", "../x", "linux-64/../../x", "a//b", "a/", "a\0b", "./a"):
            for action in (
                lambda key: put(store, key, b"x"),
                store.read,
                store.stat,
                store.open,
                store.delete,
            ):
                with pytest.raises(ChannelError):
                    action(key)

    def test_list_is_sorted_and_has_no_hidden_names(self, store: Store) -> None:
        keys = ["a-b/x", "a/y", "a/x", "index.html", "label/gfx942/linux-64/z", "linux-64/shards/1.zst"]
        for key in [*keys, ".channel/journal.json", ".channel/before/7/a/x", "a/.hidden", ".git/config"]:
            put(store, key, b"x")
        assert [stat.key for stat in store.list()] == sorted(keys)
        assert [stat.key for stat in store.list("a/")] == ["a/x", "a/y"]
        assert [stat.key for stat in store.list("label/g")] == ["label/gfx942/linux-64/z"]
        assert [stat.key for stat in store.list("a")] == ["a-b/x", "a/x", "a/y"]
        assert ".channel/journal.json" in [stat.key for stat in store.list(".channel/")]
        assert [stat.key for stat in store.list(".channel/before/7/")] == [".channel/before/7/a/x"]
        for stat in store.list():
            assert stat == store.stat(stat.key)

    def test_replace_compares_and_swaps(self, store: Store) -> None:
        key = "linux-64/repodata.json"
        with pytest.raises(ConflictError):
            store.replace(key, b"0", expect="no etag of this store", cache=SHORT)
        one = store.replace(key, b"1", expect=None, cache=SHORT)
        assert store.read_with_etag(key) == (b"1", one)
        with pytest.raises(ConflictError) as caught:
            store.replace(key, b"2", expect=None, cache=SHORT)
        assert key in str(caught.value)
        two = store.replace(key, b"2", expect=one, cache=SHORT)
        with pytest.raises(ConflictError):
            store.replace(key, b"3", expect=one, cache=SHORT)
        stat = store.stat(key)
        assert stat is not None and stat.etag == two != one
        assert store.read(key) == b"2"

    def test_a_package_can_be_replaced_too(self, store: Store) -> None:
        put(store, KEY, b"1")
        stat = store.stat(KEY)
        assert stat is not None
        store.replace(KEY, b"2", expect=stat.etag, cache=IMMUTABLE)
        with pytest.raises(ConflictError):
            store.replace(KEY, b"3", expect=stat.etag, cache=IMMUTABLE)
        assert store.read(KEY) == b"2"

    def test_delete(self, store: Store) -> None:
        etag = store.replace("yanked.json", b"1", expect=None, cache=NO_CACHE)
        two = store.replace("yanked.json", b"2", expect=etag, cache=NO_CACHE)
        with pytest.raises(ConflictError):
            store.delete("yanked.json", expect=etag)
        assert store.read("yanked.json") == b"2"
        store.delete("yanked.json", expect=two)
        assert store.stat("yanked.json") is None
        store.delete("yanked.json", expect=two)
        put(store, KEY, b"1")
        store.delete(KEY)
        assert list(store.list()) == []

    def test_copy_from_the_same_kind(self, store: Store, other: Store) -> None:
        self._copies(other, store)

    def test_copy_from_a_folder(self, store: Store, tmp_path: Path) -> None:
        from channel_tools.channel.stores.folder_store import FolderStore

        self._copies(FolderStore(tmp_path / "source"), store)

    def _copies(self, source: Store, store: Store) -> None:
        content = os.urandom(200_000)
        put(source, "linux-64/a.conda", content)
        put(source, "linux-64/empty.conda", b"")
        assert store.copy_from(source, "linux-64/a.conda", KEY, sha256=digest(content))
        assert store.read(KEY) == content
        assert not store.copy_from(source, "linux-64/a.conda", KEY, sha256=digest(content))
        assert store.copy_from(source, "linux-64/empty.conda", "noarch/e.conda", sha256=digest(b""))
        with pytest.raises(ChannelError, match="other content"):
            store.copy_from(source, "linux-64/empty.conda", KEY, sha256=digest(b""))
        with pytest.raises(DamagedFileError):
            store.copy_from(source, "linux-64/a.conda", "noarch/b.conda", sha256=digest(b"b"))
        with pytest.raises(StorageError):
            store.copy_from(source, "linux-64/absent.conda", "noarch/b.conda", sha256=digest(b"b"))
        assert [stat.key for stat in store.list()] == [KEY, "noarch/e.conda"]

    def test_of_many_writers_one_wins(self, store: Store) -> None:
        """Eight threads replace from one state, eight put under one name: one of each gets through."""
        first = store.replace("channel.json", b"0", expect=None, cache=NO_CACHE)
        won: list[Any] = []
        start = threading.Barrier(8)

        def write(number: int) -> None:
            content = str(number).encode()
            start.wait()
            for name, action in (
                ("replace", lambda: store.replace("channel.json", content, expect=first, cache=NO_CACHE)),
                ("put", lambda: put(store, KEY, content)),
            ):
                try:
                    action()
                    won.append((name, content))
                except ChannelError as error:
                    assert isinstance(error, ConflictError) == (name == "replace"), error

        threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(name for name, _ in won) == ["put", "replace"]
        assert store.read("channel.json") == dict(won)["replace"]
        assert store.read(KEY) == dict(won)["put"]

    def test_nothing_stray_is_left(self, store: Any) -> None:
        put(store, KEY, b"1")
        store.replace("channel.json", b"0", expect=None, cache=NO_CACHE)
        assert list(store.stray(0)) == []
        assert list(store.clear_stray(0)) == []
