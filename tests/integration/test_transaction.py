"""The transaction at each of its steps: crashes, failures, interrupts, and publishers that come too late.

The store is in memory, so that every step can be tried; real processes and stores die in
``test_kill_publish.py``.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from channel_tools.channel.index.encoding import read_all, read_index
from channel_tools.channel.index.records import record_of
from channel_tools.channel.index.shards import read_shards_index, shard_key
from channel_tools.channel.layout import JOURNAL_KEY, LEASE_KEY, is_package
from channel_tools.channel.release import Release
from channel_tools.channel.stores import lease as lease_module
from channel_tools.channel.stores.store import NO_CACHE, Store
from channel_tools.channel.transaction.apply import Applied, apply
from channel_tools.channel.transaction.change import Addition, Change, Record, Replacement, SubdirChange
from channel_tools.channel.transaction.journal import read_journal
from channel_tools.channel.transaction.reindex import repair_all
from channel_tools.channel.transaction.repair import repair
from channel_tools.model.clock import elapsed
from channel_tools.model.errors import ChannelError, ConflictError, StorageError
from tests.integration.tiny_packages import tiny_package
from tests.unit.memory_store import MemoryStore

Hook = Callable[[str, str], None]
MANIFEST = "releases/second.json"


class Crash(BaseException):
    """The end of a process: nothing that it does afterwards reaches the store."""


class HookedStore(MemoryStore):
    """Calls ``before`` and ``after`` of each write with what it does and the key."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Hook = lambda what, key: None
        self.after: Hook = lambda what, key: None
        self.dead = False

    def put_new(self, key: str, *args: Any, **more: Any) -> bool:
        return bool(self._hooked("put", key, lambda: super(HookedStore, self).put_new(key, *args, **more)))

    def replace(self, key: str, *args: Any, **more: Any) -> str:
        return str(self._hooked("replace", key, lambda: super(HookedStore, self).replace(key, *args, **more)))

    def delete(self, key: str, **more: Any) -> None:
        self._hooked("delete", key, lambda: super(HookedStore, self).delete(key, **more))

    def copy_from(self, source: Store, source_key: str, key: str, **more: Any) -> bool:
        def write() -> bool:
            return super(HookedStore, self).copy_from(source, source_key, key, **more)

        return bool(self._hooked("put", key, write))

    def read_with_etag(self, key: str) -> tuple[bytes, str] | None:
        if self.dead:
            raise Crash
        return super().read_with_etag(key)

    def _hooked(self, what: str, key: str, write: Callable[[], Any]) -> Any:
        if self.dead:
            raise Crash
        self.before(what, key)
        result = write()
        self.after(what, key)
        return result

    def channel(self) -> dict[str, bytes]:
        """All files but the lease."""
        return {key: content for key, content in self.files.items() if key != LEASE_KEY}


class Scene:
    """A channel with one release, and the change that brings the second one."""

    def __init__(self, folder: Path) -> None:
        self.paths = {
            "linux-64": [tiny_package(folder, "a", "1"), tiny_package(folder, "b", "1")],
            "noarch": [tiny_package(folder, "n", "1", subdir="noarch")],
        }
        more = [
            tiny_package(folder, "a", "2", depends=["n ==2"]),
            tiny_package(folder, "n", "2", subdir="noarch"),
        ]
        declared = tiny_package(folder, "amdgpu-arch", "9.4.2", "gfx942_declared_0")
        self.first = self._change("first", self.paths, b"page 1", None)
        self.second = self._change(
            "publish",
            {"linux-64": more[:1], "noarch": more[1:], "label/gfx942/linux-64": [declared]},
            b"page 2",
            (MANIFEST, _manifest()),
        )
        self.files = self._made()

    def store(self) -> HookedStore:
        store = HookedStore()
        store.files = dict(self.files)
        return store

    def _made(self) -> dict[str, bytes]:
        store = MemoryStore()
        apply(store, self.first, who="first")
        return store.files

    def _change(
        self, action: str, paths: dict[str, list[Path]], page: bytes, manifest: tuple[str, bytes] | None
    ) -> Change:
        records: dict[str, dict[str, Record]] = {
            subdir: {path.name: record_of(path) for path in found} for subdir, found in paths.items()
        }
        return Change(
            action,
            tuple(
                Addition(
                    f"{subdir}/{path.name}", path, records[subdir][path.name]["sha256"], path.stat().st_size
                )
                for subdir, found in paths.items()
                for path in found
            ),
            {subdir: SubdirChange(add=found) for subdir, found in records.items()},
            {"index.html": Replacement(page, NO_CACHE)},
            manifest,
        )


def _manifest() -> bytes:
    release = Release(id="second", action="publish", created="2026-12-01T00:00:00Z", who="x", files=())
    return release.to_bytes()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"))


def publish(scene: Scene, store: Store, **more: Any) -> Applied:
    return apply(store, scene.second, who="second", **{"wait": 0.0, **more})


def writes_of(scene: Scene) -> list[tuple[str, str]]:
    """Every write of an undisturbed publish."""
    store, found = scene.store(), []
    store.before = lambda what, key: found.append((what, key))
    publish(scene, store)
    return found


def names(store: Store) -> dict[str, set[str]]:
    return {key: set(index.records) for key, index in read_all(store).items()}


OLD = {"linux-64": {"a-1-0.conda", "b-1-0.conda"}, "noarch": {"n-1-0.conda"}}
NEW = {
    "label/gfx942/linux-64": {"amdgpu-arch-9.4.2-gfx942_declared_0.conda"},
    "label/gfx942/noarch": set(),
    "linux-64": {"a-1-0.conda", "a-2-0.conda", "b-1-0.conda"},
    "noarch": {"n-1-0.conda", "n-2-0.conda"},
}


def check_for_consumers(store: HookedStore) -> None:
    """Each form of each index is the old one or the new one, and what it names is there."""
    files = store.files
    for subdir in NEW:
        forms = {}
        if f"{subdir}/repodata.json" in files:
            forms["json"] = json.loads(files[f"{subdir}/repodata.json"])["packages.conda"]
        if f"{subdir}/repodata.json.zst" in files:
            text = zstandard.ZstdDecompressor().decompress(files[f"{subdir}/repodata.json.zst"])
            forms["zst"] = json.loads(text)["packages.conda"]
        for form, records in forms.items():
            assert set(records) in (OLD.get(subdir, set()), NEW[subdir]), f"{subdir} {form}"
            assert all(f"{subdir}/{name}" in files for name in records)
        shards = read_shards_index(MemoryView(files), subdir)
        for digest in shards.shards.values() if shards else ():
            assert shard_key(subdir, digest) in files
    linux, noarch = (
        set(json.loads(files[f"{s}/repodata.json"])["packages.conda"]) for s in ("linux-64", "noarch")
    )
    assert "a-2-0.conda" not in linux or "n-2-0.conda" in noarch, "a dependency comes after what needs it"
    if MANIFEST in files:
        assert linux == NEW["linux-64"]


class MemoryView(MemoryStore):
    """The files of another store, with no hooks."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__()
        self.files = files


def check_whole(store: Store, scene: Scene) -> str:
    """``old`` or ``new``, with nothing left over and nothing missing."""
    keys = {stat.key for stat in store.list()} - {LEASE_KEY}
    found = names(store)
    assert found in (OLD, NEW)
    state = "old" if found == OLD else "new"
    if state == "old":
        assert {key: store.read(key) for key in keys} == {
            k: v for k, v in scene.files.items() if k != LEASE_KEY
        }
    else:
        packages = {f"{subdir}/{name}" for subdir, there in NEW.items() for name in there}
        assert {key for key in keys if is_package(key)} == packages
        assert store.read("index.html") == b"page 2" and MANIFEST in keys
    assert not [key for key in keys if key.startswith(".channel/")]
    return state


def crash_at(store: HookedStore, number: int, when: str, counted: list[str] | None = None) -> None:
    """Let the process end before or after its write of that number."""
    count = 0

    def crash(_what: str, _key: str) -> None:
        nonlocal count
        count += 1
        if count == number:
            store.dead = True
            raise Crash

    def look(what: str, key: str) -> None:
        check_for_consumers(store)

    if when == "before":
        store.before, store.after = crash, look
    else:
        store.after = crash


def revive(store: HookedStore) -> HookedStore:
    store.dead = False
    store.before = store.after = lambda what, key: None
    store.files.pop(LEASE_KEY, None)
    return store


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_step_is_repaired(scene: Scene, when: str) -> None:
    ended = set()
    for number in range(1, len(writes_of(scene)) + 1):
        store = scene.store()
        crash_at(store, number, when)
        with pytest.raises(Crash):
            publish(scene, store)
        check_for_consumers(revive(store))
        lines = repair(store, who="repairer")
        ended.add((check_whole(store, scene), lines[0].split()[1] if lines else "nothing"))
        assert repair(store, who="repairer") == []
        publish(scene, store)
        assert check_whole(store, scene) == "new"
    expected = {("old", "nothing"), ("old", "undid"), ("new", "completed"), ("new", "nothing")}
    assert expected <= ended <= {*expected, ("new", "removed")}


def test_a_crash_of_the_repair_is_repaired(scene: Scene) -> None:
    ended = set()
    for number in range(1, len(writes_of(scene)) + 1, 3):
        for second in range(2, 40, 3):
            store = scene.store()
            crash_at(store, number, "after")
            with pytest.raises(Crash):
                publish(scene, store)
            crash_at(revive(store), second, "after")
            with contextlib.suppress(Crash):
                repair(store, who="repairer")
            check_for_consumers(revive(store))
            repair(store, who="repairer")
            ended.add(check_whole(store, scene))
    assert ended == {"old", "new"}


@pytest.mark.parametrize("error", [StorageError("the disk is full"), KeyboardInterrupt()])
def test_a_failure_at_any_step_changes_nothing(scene: Scene, error: BaseException) -> None:
    writes = writes_of(scene)
    done = next(i for i, (_, key) in enumerate(writes) if key == MANIFEST) + 1
    for number in range(2, done + 1):
        store = scene.store()
        fail_at(store, number, error)
        with pytest.raises(type(error)):
            publish(scene, store)
        assert check_whole(store, scene) == "old", f"write {number}: {writes[number - 1]}"


def fail_at(store: HookedStore, number: int, error: BaseException, crash: int | None = None) -> None:
    """Fail once, at that write; then, where asked, end the process some writes later."""
    count = 0

    def fail(_what: str, _key: str) -> None:
        nonlocal count
        count += 1
        if count == number:
            raise error
        if crash is not None and count == number + crash:
            store.dead = True
            raise Crash

    store.before = fail
    store.after = lambda what, key: check_for_consumers(store)


def test_a_crash_while_undoing_is_repaired(scene: Scene) -> None:
    writes = writes_of(scene)
    done = next(i for i, (_, key) in enumerate(writes) if key == MANIFEST) + 1
    ended = []
    for number in range(3, done + 1, 4):
        for crash in range(1, 60, 3):
            store = scene.store()
            fail_at(store, number, StorageError("x"), crash)
            with pytest.raises((StorageError, Crash)):
                publish(scene, store)
            check_for_consumers(revive(store))
            repair(store, who="repairer")
            ended.append(check_whole(store, scene))
    assert ended.count("old") > len(ended) * 0.8, "what failed is seldom completed"


def test_a_failure_after_the_manifest_is_no_failure(scene: Scene) -> None:
    store = scene.store()
    said: list[str] = []
    fail_at(store, [key for _, key in writes_of(scene)].index(MANIFEST) + 2, StorageError("x"))
    assert publish(scene, store, say=said.append).changed
    assert "tidying up" in said[-1]
    assert repair(store, who="repairer")
    assert check_whole(store, scene) == "new"


def test_a_refused_new_state_is_never_seen(scene: Scene) -> None:
    store = scene.store()
    seen: list[dict[str, set[str]]] = []

    def refuse(view: Store) -> list[dict[str, Any]]:
        seen.append(names(view))
        assert view.read("index.html") == b"page 2"
        raise ChannelError("not as the release says")

    switched: list[str] = []
    store.before = lambda what, key: switched.append(key) if what == "replace" else None
    with pytest.raises(ChannelError, match="not as the release says"):
        publish(scene, store, check=refuse)
    assert seen == [NEW]
    assert set(switched) == {LEASE_KEY, JOURNAL_KEY}, "no index was touched"
    assert check_whole(store, scene) == "old"


def test_what_is_read_back_wrong_is_undone(scene: Scene) -> None:
    class Garbling(HookedStore):
        def replace(self, key: str, content: bytes, **more: Any) -> str:
            garbled = content[:-9] if key == "linux-64/repodata.json" and b"a-2" in content else content
            return super().replace(key, garbled, **more)

    store = Garbling()
    store.files = dict(scene.files)
    with pytest.raises(ChannelError, match="is not what was just written there"):
        publish(scene, store)
    assert check_whole(store, scene) == "old"


def test_somebody_who_writes_past_the_lease_is_noticed_and_left_alone(scene: Scene) -> None:
    store = scene.store()
    said: list[str] = []

    def meddle(what: str, key: str) -> None:
        if key == "linux-64/repodata.json.zst":
            store.files["linux-64/repodata.json"] = b'{"packages.conda": {}}'

    store.before = meddle
    with pytest.raises(ConflictError, match="changed by somebody else meanwhile"):
        publish(scene, store, say=said.append)
    store.before = lambda what, key: None
    assert store.files["linux-64/repodata.json"] == b'{"packages.conda": {}}'
    assert "left as it is" in said[-1]
    assert set(read_index(store, "noarch").records) == OLD["noarch"]
    assert read_journal(store) is None


def test_a_publisher_that_stood_still_touches_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each write it stands still until its lease is stale and another has published; then it goes on."""
    writes = writes_of(scene)
    commit = [key for _, key in writes].index(MANIFEST) + 1
    for number in range(2, len(writes) + 1):
        if writes[number - 1][1] == LEASE_KEY:
            continue
        store = scene.store()
        late = [0.0]
        monkeypatch.setattr(lease_module, "elapsed", lambda late=late: elapsed() + late[0])
        store.before = stands_still(scene, store, number, late)
        if number >= commit:  # the other one has completed it, so it is no failure
            publish(scene, store)
        else:
            with pytest.raises((ConflictError, ChannelError)):
                publish(scene, store)
        monkeypatch.undo()
        repair(store, who="repairer")
        assert check_whole(store, scene) == "new", f"write {number}: {writes[number - 1]}"


def stands_still(scene: Scene, store: HookedStore, number: int, late: list[float]) -> Hook:
    """Before the write of that number time passes, the lease runs out, and another one publishes the same."""
    count = 0

    def hook(_what: str, _key: str) -> None:
        nonlocal count
        count += 1
        if count == number:
            store.before = lambda what, key: None
            entry = json.loads(store.files[LEASE_KEY])
            store.files[LEASE_KEY] = json.dumps({**entry, "until": 1.0}).encode()
            publish(scene, store)
            late[0] = 1000.0

    return hook


def test_nothing_to_do_writes_nothing(scene: Scene) -> None:
    store = scene.store()
    written: list[str] = []
    store.before = lambda what, key: written.append(key) if what != "put" else None
    applied = apply(store, scene.first, who="again")
    assert not applied.changed and set(written) == {LEASE_KEY}
    assert store.channel() == MemoryView({k: v for k, v in scene.files.items() if k != LEASE_KEY}).files


def test_other_content_under_the_same_name_is_refused(scene: Scene, tmp_path: Path) -> None:
    store = scene.store()
    other = tiny_package(tmp_path, "a", "1", files={"x": b"y"})
    record = record_of(other)
    change = Change(
        "publish",
        (Addition("linux-64/a-1-0.conda", other, record["sha256"], record["size"]),),
        {"linux-64": SubdirChange(add={"a-1-0.conda": record})},
    )
    with pytest.raises(ChannelError, match="other content"):
        apply(store, change, who="x")
    assert check_whole(store, scene) == "old"


def test_deletions_come_last_and_are_taken_up_again(scene: Scene) -> None:
    change = Change(
        "prune",
        subdirs={"linux-64": SubdirChange(drop=frozenset({"b-1-0.conda"}))},
        deletions=("linux-64/b-1-0.conda",),
    )
    for number in range(1, 40):
        store = scene.store()
        crash_at(store, number, "after")
        with contextlib.suppress(Crash):
            apply(store, change, who="x")
        revive(store)
        repair(store, who="y")
        there = "linux-64/b-1-0.conda" in store.files
        assert there == ("b-1-0.conda" in read_index(store, "linux-64").records)


def test_solves_go_into_the_manifest(scene: Scene) -> None:
    store = scene.store()
    publish(scene, store, check=lambda view: [{"name": "a", "packages": []}])
    assert json.loads(store.files[MANIFEST])["solves"] == [{"name": "a", "packages": []}]


def test_a_damaged_index_is_written_anew_from_the_packages(scene: Scene) -> None:
    for damaged in ("repodata.json", "repodata_shards.msgpack.zst", "run_exports.json"):
        store = scene.store()
        publish(scene, store)
        store.files[f"linux-64/{damaged}"] = b"nonsense"
        with pytest.raises(ChannelError, match="repair"):
            apply(store, scene.first, who="x") if damaged == "repodata.json" else read_or_fail(store)
        assert repair_all(store, who="x") == ["wrote the index of linux-64 anew from 3 packages"]
        assert check_whole(store, scene) == "new"
        assert repair_all(store, who="x") == []


def read_or_fail(store: Store) -> None:
    from channel_tools.channel.index.run_exports import read_run_exports

    read_shards_index(store, "linux-64")
    read_run_exports(store, "linux-64")


def test_a_damaged_journal_says_what_to_do(scene: Scene) -> None:
    store = scene.store()
    store.files[JOURNAL_KEY] = b"{"
    with pytest.raises(ChannelError, match="no journal of this format"):
        publish(scene, store)
    assert "gave up" in repair_all(store, who="x", reindex=True)[0]
    publish(scene, store)
    assert check_whole(store, scene) == "new"
