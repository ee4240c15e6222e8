"""The index writer: what it keeps, changes and refuses; against a model, and with broken files."""

from __future__ import annotations

import bz2
import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from channel_tools.channel.index.encoding import (
    SubdirIndex,
    changed,
    encode,
    obsolete_shards,
    read_all,
    read_index,
)
from channel_tools.channel.index.rebuild import read_packages, rebuild
from channel_tools.channel.index.records import name_of, record_of
from channel_tools.channel.index.shards import OURS, read_shard, read_shards_index, shard_key
from channel_tools.channel.transaction.change import Record, SubdirChange
from channel_tools.model.errors import ChannelError, DamagedFileError
from tests.integration.tiny_packages import tiny_package
from tests.unit.memory_store import CountingStore, MemoryStore, switch

KEY = "linux-64"
SOUND = b'{"name": "a", "version": "1", "build": "0", "build_number": 0}'


def record(name: str, version: str = "1", build: str = "0", **more: Any) -> Record:
    digest = hashlib.sha256(f"{name}-{version}-{build}".encode()).hexdigest()
    return {
        "name": name,
        "version": version,
        "build": build,
        "build_number": 0,
        "depends": [],
        "subdir": KEY,
        "sha256": digest,
        "md5": digest[:32],
        "size": 10,
        "indexed_timestamp": 1,
        **more,
    }


def records(*names: str, **more: Any) -> dict[str, Record]:
    return {f"{name}-1-0.conda": record(name, **more) for name in names}


def apply(store: MemoryStore, change: SubdirChange, key: str = KEY) -> SubdirIndex:
    """One change, put into the store."""
    old = read_index(store, key)
    new = changed(old, change)
    encoded = encode(store, old, new)
    switch(store, encoded.shards, encoded.files)
    return new


def in_shards(store: MemoryStore, key: str = KEY) -> tuple[dict[str, Record], set[str]]:
    """What the shards say, all of them read."""
    index = read_shards_index(store, key)
    assert index is not None
    found: dict[str, Record] = {}
    removed: set[str] = set()
    for name, digest in index.shards.items():
        part, gone = read_shard(store, key, digest)
        assert {entry["name"] for entry in part.values()} <= {name}
        found |= part
        removed |= gone
    return found, removed


def in_json(store: MemoryStore, name: str, key: str = KEY) -> Any:
    return json.loads(store.files[f"{key}/{name}"])


# --- records


def test_record_of_a_package(tmp_path: Path) -> None:
    path = tiny_package(
        tmp_path, "demo", "1.2", "h0_3", depends=["a >=1"], run_exports={"weak": ["demo 1.*"], "strong": []}
    )
    made = record_of(path)
    content = path.read_bytes()
    assert made["sha256"] == hashlib.sha256(content).hexdigest()
    assert made["md5"] == hashlib.md5(content).hexdigest()
    assert (made["size"], made["build_number"], made["depends"]) == (len(content), 3, ["a >=1"])
    assert made["run_exports"] == {"weak": ["demo 1.*"]}
    assert made["indexed_timestamp"] > 1_600_000_000_000
    other = record_of(tiny_package(tmp_path, "other", subdir="noarch"))
    assert not {"run_exports", "arch", "platform"} & other.keys()


def test_record_of_a_large_file_and_of_bz2(tmp_path: Path) -> None:
    noise = hashlib.shake_256(b"x").digest(9_000_000)
    for suffix in (".conda", ".tar.bz2"):
        path = tiny_package(tmp_path, "large", files={"a": noise}, suffix=suffix, run_exports={"weak": ["x"]})
        made = record_of(path)
        assert made["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert made["md5"] == hashlib.md5(path.read_bytes()).hexdigest()
        assert made["size"] == path.stat().st_size > 8 << 20
        assert made["run_exports"] == {"weak": ["x"]}


@pytest.mark.parametrize("suffix", [".conda", ".tar.bz2"])
def test_every_cut_of_a_package_is_damage(tmp_path: Path, suffix: str) -> None:
    path = tiny_package(tmp_path, "demo", suffix=suffix)
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 37), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(DamagedFileError):
            record_of(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "other"}, "not the package that its file name says"),
        ({"name": "Demo"}, "no client can ask for"),
        ({"version": 3}, "no version"),
        ({"build": ""}, "no build"),
        ({"build_number": "0"}, "no build number"),
        ({"build_number": True}, "no build number"),
        ({"subdir": None}, "no subdir"),
        ({"depends": "python"}, "no list of specs"),
        ({"constrains": [1]}, "no list of specs"),
    ],
)
def test_metadata_that_contradicts(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    index = {"name": "demo", "version": "1", "build": "0", "build_number": 0, "subdir": KEY, **change}
    path = conda_with(tmp_path, {"info/index.json": json.dumps(index).encode()})
    with pytest.raises(DamagedFileError, match=says):
        record_of(path)


def test_metadata_twice_or_in_a_link_or_too_large(tmp_path: Path) -> None:
    index = b'{"name":"demo","version":"1","build":"0","build_number":0,"subdir":"linux-64"}'
    twice = [("info/index.json", index), ("info/index.json", index.replace(b"[]", b"[ ]"))]
    with pytest.raises(DamagedFileError, match="twice"):
        record_of(conda_with(tmp_path, twice))
    with pytest.raises(DamagedFileError, match="16 MiB"):
        record_of(conda_with(tmp_path, {"info/index.json": index + b" " * (17 << 20)}))
    with pytest.raises(DamagedFileError, match=r"no info/index\.json"):
        record_of(conda_with(tmp_path, {"info/about.json": b"{}"}))
    with pytest.raises(DamagedFileError, match="mapping of lists"):
        record_of(conda_with(tmp_path, {"info/index.json": index, "info/run_exports.json": b'["a"]'}))
    with pytest.raises(DamagedFileError, match="by its name"):
        record_of(conda_with(tmp_path, {"info/index.json": index}).rename(tmp_path / "demo-1-0.zip"))
    with pytest.raises(DamagedFileError, match="cannot be read"):
        record_of(tmp_path / "demo-1-9.conda")


def conda_with(folder: Path, members: Mapping[str, bytes] | list[tuple[str, bytes]]) -> Path:
    """``demo-1-0.conda`` whose metadata is exactly that."""
    import io
    import tarfile

    pairs = list(members.items()) if isinstance(members, Mapping) else members
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in pairs:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    path = folder / "demo-1-0.conda"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", '{"conda_pkg_format_version": 2}')
        archive.writestr("info-demo-1-0.tar.zst", zstandard.compress(buffer.getvalue()))
        archive.writestr("pkg-demo-1-0.tar.zst", zstandard.compress(b"\0" * 1024))
    return path


# --- writing


def test_all_forms_say_the_same() -> None:
    store = MemoryStore()
    apply(store, SubdirChange(add=records("a", "b")))
    bz2_record = {"c-1-0.tar.bz2": record("c")}
    index = apply(store, SubdirChange(add=bz2_record, yank=frozenset({"a-1-0.conda"})))
    data = in_json(store, "repodata.json")
    assert list(data["packages"]) == ["c-1-0.tar.bz2"]
    assert list(data["packages.conda"]) == ["b-1-0.conda"]
    assert data["removed"] == ["a-1-0.conda"]
    assert (data["repodata_version"], data["info"]) == (1, {"subdir": KEY})
    packed = store.files[f"{KEY}/repodata.json.zst"]
    assert zstandard.decompress(packed) == store.files[f"{KEY}/repodata.json"]
    assert in_shards(store) == (dict(index.records), set(index.removed))
    assert in_json(store, "patch_instructions.json")["remove"] == ["a-1-0.conda"]
    assert read_index(store, KEY) == index


def test_digests_are_bytes_in_shards() -> None:
    store = MemoryStore()
    digests = {
        "md5": "1" * 32,
        "sha256": "2" * 64,
        "attestations_sha256": "3" * 64,
        "legacy_bz2_md5": "4" * 32,
    }
    apply(store, SubdirChange(add=records("a", **digests)))
    shard = next(content for key, content in store.files.items() if "/shards/" in key)
    packed = msgpack.unpackb(zstandard.decompress(shard))["packages.conda"]["a-1-0.conda"]
    assert {name: packed[name] for name in digests} == {
        name: bytes.fromhex(digest) for name, digest in digests.items()
    }


def test_switch_order_and_no_needless_patch_file() -> None:
    store = MemoryStore()
    old = read_index(store, KEY)
    encoded = encode(store, old, changed(old, SubdirChange(add=records("a"))))
    assert [key.rpartition("/")[2] for key in encoded.files] == [
        "repodata_shards.msgpack.zst",
        "repodata.json.zst",
        "repodata.json",
        "run_exports.json",
    ]


def test_same_change_same_bytes() -> None:
    one, two = MemoryStore(), MemoryStore()
    names = ["a", "b", "c"]
    apply(one, SubdirChange(add=records(*names)))
    for name in reversed(names):
        backwards = dict(reversed(record(name).items()))
        apply(two, SubdirChange(add={f"{name}-1-0.conda": backwards}))
    for key in one.files:
        if "repodata_shards" not in key:
            assert one.files[key] == two.files[key], key
    shards_one, shards_two = read_shards_index(one, KEY), read_shards_index(two, KEY)
    assert shards_one and shards_two and shards_one.shards == shards_two.shards


def test_work_is_the_index_files_and_the_touched_names() -> None:
    store = MemoryStore()
    apply(store, SubdirChange(add=records(*(f"p{n}" for n in range(300)))))
    counting = CountingStore(store)
    old = read_index(counting, KEY)
    new = changed(
        old, SubdirChange(add={"p7-2-0.conda": record("p7", "2")}, drop=frozenset({"p9-1-0.conda"}))
    )
    encoded = encode(counting, old, new)
    assert len(encoded.shards) == 1
    assert counting.counted() == {"read": 4, "stat": 2}
    switch(store, encoded.shards, encoded.files)
    assert in_shards(store) == (dict(new.records), set())


def test_run_exports_file_is_never_patched() -> None:
    store = MemoryStore()
    exports = {"weak": ["a 1.*"]}
    apply(store, SubdirChange(add=records("a", run_exports=exports) | records("b")))
    apply(store, SubdirChange(yank=frozenset({"a-1-0.conda"})))
    data = in_json(store, "run_exports.json")
    assert data["packages.conda"] == {
        "a-1-0.conda": {"run_exports": exports},
        "b-1-0.conda": {"run_exports": {}},
    }
    assert data["info"] == {"subdir": KEY, "version": 1}
    apply(store, SubdirChange(drop=frozenset({"a-1-0.conda"})))
    assert list(in_json(store, "run_exports.json")["packages.conda"]) == ["b-1-0.conda"]
    assert in_json(store, "repodata.json")["removed"] == []
    assert in_json(store, "patch_instructions.json")["remove"] == []


def test_a_patched_record_does_not_change_what_the_package_exports() -> None:
    store = MemoryStore()
    exports = {"weak": ["a 1.*"]}
    apply(store, SubdirChange(add=records("a", run_exports=exports)))
    data = in_json(store, "repodata.json")
    data["packages.conda"]["a-1-0.conda"]["run_exports"] = {"weak": ["patched"]}
    store.files[f"{KEY}/repodata.json"] = json.dumps(data).encode()
    apply(store, SubdirChange(add=records("b")))
    assert in_json(store, "run_exports.json")["packages.conda"]["a-1-0.conda"] == {"run_exports": exports}


def test_a_yanked_package_that_is_dropped_leaves_its_shard() -> None:
    store = MemoryStore()
    apply(store, SubdirChange(add=records("a") | {"a-2-0.conda": record("a", "2")}))
    apply(store, SubdirChange(yank=frozenset({"a-1-0.conda"})))
    index = apply(store, SubdirChange(drop=frozenset({"a-1-0.conda"})))
    assert in_shards(store) == (dict(index.records), set())


def test_a_package_both_there_and_removed_is_there() -> None:
    store = MemoryStore()
    text = {"packages.conda": records("a"), "removed": ["a-1-0.conda", "b-1-0.conda"]}
    store.files[f"{KEY}/repodata.json"] = json.dumps(text).encode()
    assert read_index(store, KEY).removed == {"b-1-0.conda"}


def test_what_other_tools_wrote_stays() -> None:
    store = MemoryStore()
    theirs: dict[str, Any] = {
        "info": {"subdir": KEY, "base_url": "https://files.test/"},
        "packages": {},
        "packages.conda": records("old", odd={"x": [1]}, license="\u00e9\U0001f600", legacy_bz2_md5="0" * 32),
        "repodata_version": 2,
        "v3": {"conda": {}},
        "signatures": {"a": 1},
    }
    del theirs["packages.conda"]["old-1-0.conda"]["indexed_timestamp"]
    store.files[f"{KEY}/repodata.json"] = json.dumps(theirs, indent=2).encode()
    patches = {
        "patch_instructions_version": 1,
        "packages": {"x": {"depends": []}},
        "remove": ["gone-1-0.conda"],
    }
    store.files[f"{KEY}/patch_instructions.json"] = json.dumps(patches).encode()
    apply(store, SubdirChange(add=records("new")))
    data = in_json(store, "repodata.json")
    assert data.pop("packages.conda") == theirs.pop("packages.conda") | records("new")
    assert data == theirs | {"removed": []}
    assert store.files[f"{KEY}/patch_instructions.json"] == json.dumps(patches).encode()
    # Nobody has looked at the run exports of the old package, so nothing is said about them.
    assert list(in_json(store, "run_exports.json")["packages.conda"]) == ["new-1-0.conda"]
    found, _ = in_shards(store)
    assert found["old-1-0.conda"]["odd"] == {"x": [1]}
    apply(store, SubdirChange(yank=frozenset({"new-1-0.conda"})))
    now = in_json(store, "patch_instructions.json")
    assert now["remove"] == ["gone-1-0.conda", "new-1-0.conda"]
    assert now["packages"] == {"x": {"depends": []}}


def test_shards_that_lie_elsewhere_are_written_again() -> None:
    store = MemoryStore()
    apply(store, SubdirChange(add=records("a", "b")))
    index = msgpack.unpackb(zstandard.decompress(store.files[f"{KEY}/repodata_shards.msgpack.zst"]))
    index["info"]["shards_base_url"] = ""
    index["info"]["base_url"] = "https://files.test/"
    store.files[f"{KEY}/repodata_shards.msgpack.zst"] = zstandard.compress(msgpack.packb(index))
    old = read_index(store, KEY)
    assert len(encode(store, old, old).shards) == 2
    apply(store, SubdirChange(add=records("c")))
    now = read_shards_index(store, KEY)
    assert now and (now.info["shards_base_url"], now.info["base_url"]) == (OURS, "https://files.test/")


def test_forms_that_older_clients_read_are_kept_right() -> None:
    store = MemoryStore()
    apply(store, SubdirChange(add=records("a")))
    assert not [key for key in store.files if "current" in key or "bz2" in key]
    for name in ("current_repodata.json", "repodata.json.bz2"):
        store.files[f"{KEY}/{name}"] = b"stale"
    apply(store, SubdirChange(add=records("b"), yank=frozenset({"a-1-0.conda"})))
    text = store.files[f"{KEY}/repodata.json"]
    assert store.files[f"{KEY}/current_repodata.json"] == text
    assert zstandard.decompress(store.files[f"{KEY}/current_repodata.json.zst"]) == text
    assert bz2.decompress(store.files[f"{KEY}/repodata.json.bz2"]) == text


def test_shards_of_names_in_capitals_are_found_by_clients() -> None:
    store = MemoryStore()
    for change in (
        SubdirChange(add={"PyYAML-1-0.conda": record("PyYAML"), **records("pyyaml")}),
        SubdirChange(yank=frozenset({"PyYAML-1-0.conda"})),
    ):
        index = apply(store, change)
        shards = read_shards_index(store, KEY)
        assert shards and list(shards.shards) == ["pyyaml"]
        assert read_shard(store, KEY, shards.shards["pyyaml"]) == (dict(index.records), index.removed)


def test_only_json_is_there_gives_all_shards_and_zst_alone_is_read() -> None:
    store = MemoryStore()
    apply(store, SubdirChange(add=records("a", "b")))
    for name in ("repodata_shards.msgpack.zst", "repodata.json.zst", "run_exports.json"):
        del store.files[f"{KEY}/{name}"]
    old = read_index(store, KEY)
    assert len(encode(store, old, old).shards) == 2
    apply(store, SubdirChange())
    del store.files[f"{KEY}/repodata.json"]
    assert read_index(store, KEY) == old
    del store.files[f"{KEY}/repodata.json.zst"]
    with pytest.raises(ChannelError, match=r"no repodata\.json beside it"):
        read_index(store, KEY)


def test_read_all_finds_the_labels() -> None:
    store = MemoryStore()
    for key in ("linux-64", "label/gfx942/linux-64", "label/gfx942/noarch"):
        apply(store, SubdirChange(add=records("a")), key)
    store.files["label/gfx942/osx-64/repodata.json"] = b"{}"
    assert sorted(read_all(store)) == ["label/gfx942/linux-64", "label/gfx942/noarch", "linux-64"]
    assert read_all(MemoryStore()) == {}


def test_obsolete_shards_wait_for_clients_with_an_old_index() -> None:
    store = MemoryStore()
    apply(store, SubdirChange(add=records("a", "b")))
    before = {key for key in store.files if "/shards/" in key}
    apply(store, SubdirChange(add={"a-2-0.conda": record("a", "2")}))
    gone = obsolete_shards(store, KEY, keep_s=0)
    assert len(gone) == 1 and set(gone) < before
    assert obsolete_shards(store, KEY) == []
    assert obsolete_shards(store, "noarch") == []


def test_yanked_and_unknown_files_are_refused() -> None:
    index = changed(SubdirIndex(KEY), SubdirChange(add=records("a")))
    index = changed(index, SubdirChange(yank=frozenset({"a-1-0.conda"})))
    assert changed(index, SubdirChange(yank=frozenset({"a-1-0.conda"}))) == index
    with pytest.raises(ChannelError, match="was yanked") as refused:
        changed(index, SubdirChange(add=records("a")))
    assert "unyank" in str(refused.value)
    with pytest.raises(ChannelError, match="not in the index"):
        changed(index, SubdirChange(yank=frozenset({"b-1-0.conda"})))


# --- broken files


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"packages": []}',
        b'{"packages.conda": {"a-1-0.conda": 1}}',
        b'{"packages.conda": {"a-1-0.conda": {}}}',
        b'{"packages.conda": {"a-1-0.conda": {"name": "a", "version": "1", "build": "0"}}}',
        b'{"packages.conda": {"../a-1-0.conda": %b}}' % SOUND,
        b'{"packages.conda": {"a-1-0.tar.bz2": %b}}' % SOUND,
        b'{"packages": {"a-1-0.conda": %b}}' % SOUND,
        b'{"removed": "a"}',
        b'{"removed": ["../../a.conda"]}',
        b'{"x": NaN}',
        b'{"x": "\\ud800"}',
        b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"x": ' + b"9" * 5000 + b"}",
    ],
)
def test_index_that_cannot_be_used(content: bytes) -> None:
    store = MemoryStore()
    store.files[f"{KEY}/repodata.json"] = content
    with pytest.raises(ChannelError) as refused:
        read_index(store, KEY)
    assert "memory/linux-64/repodata.json" in str(refused.value)
    assert "rocm-channel channel repair" in str(refused.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no zstd",
        zstandard.compress(b""),
        zstandard.compress(b"\xc1"),
        zstandard.compress(msgpack.packb([1])),
        zstandard.compress(msgpack.packb({"shards": {}})),
        zstandard.compress(msgpack.packb({"info": {}, "shards": {"a": b"short"}})),
        zstandard.compress(msgpack.packb({"info": {}, "shards": {}}))[:-3],
        zstandard.compress(b"\x91" * 3000),
    ],
)
def test_shards_index_that_cannot_be_used(content: bytes) -> None:
    store = MemoryStore()
    apply(store, SubdirChange(add=records("a")))
    store.files[f"{KEY}/repodata_shards.msgpack.zst"] = content
    old = read_index(store, KEY)
    with pytest.raises(ChannelError, match="is damaged") as refused:
        encode(store, old, old)
    assert "rocm-channel channel repair" in str(refused.value)
    # A repair takes nothing from it.
    assert encode(store, SubdirIndex(KEY), old).files


@pytest.mark.parametrize(
    "shard", [[], {"packages": 1}, {"packages.conda": {"a": 1}}, {"removed": 1}, {"removed": [1]}]
)
def test_shard_that_cannot_be_used(shard: Any) -> None:
    store = MemoryStore()
    content = zstandard.compress(msgpack.packb(shard))
    digest = hashlib.sha256(content).digest()
    with pytest.raises(ChannelError, match="no such file"):
        read_shard(store, KEY, digest)
    store.files[shard_key(KEY, digest)] = content
    with pytest.raises(ChannelError, match="is damaged"):
        read_shard(store, KEY, digest)
    store.files[shard_key(KEY, digest)] = content + b"x"
    with pytest.raises(ChannelError, match="is damaged"):
        read_shard(store, KEY, digest)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run_exports.json", b"x"),
        ("run_exports.json", b'{"packages": 1}'),
        ("patch_instructions.json", b"[]"),
        ("patch_instructions.json", b'{"remove": 1}'),
    ],
)
def test_other_files_that_cannot_be_used(name: str, content: bytes) -> None:
    store = MemoryStore()
    apply(store, SubdirChange(add=records("a")))
    store.files[f"{KEY}/{name}"] = content
    old = read_index(store, KEY)
    with pytest.raises(ChannelError) as refused:
        encode(store, old, old)
    assert name in str(refused.value) and "fix" in str(refused.value)


def test_records_that_no_shard_can_hold() -> None:
    for bad in ({"sha256": "xyz"}, {"sha256": "00"}, {"size": 1 << 70}, {"md5": 5}):
        with pytest.raises(ChannelError, match="cannot be written as a shard"):
            apply(MemoryStore(), SubdirChange(add=records("a", **bad)))


def test_a_zst_that_grows_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("channel_tools.channel.index.shards._LIMIT", 1 << 20)
    store = MemoryStore()
    store.files[f"{KEY}/repodata.json.zst"] = zstandard.compress(b" " * (64 << 20))
    with pytest.raises(ChannelError, match="1 GiB"):
        read_index(store, KEY)


# --- from the packages


def test_rebuild_gives_the_index_that_was(tmp_path: Path) -> None:
    paths = [tiny_package(tmp_path, name, run_exports={"weak": [name]}) for name in ("a", "b")]
    paths.append(tiny_package(tmp_path, "c", suffix=".tar.bz2"))
    store = MemoryStore(tmp_path)
    add = {path.name: record_of(path) for path in paths}
    apply(store, SubdirChange(add=add))
    index = apply(store, SubdirChange(yank=frozenset({"b-1-0.conda"})))
    rebuilt = rebuild(store, KEY, {"b-1-0.conda", "no-such-1-0.conda"})
    assert without_times(rebuilt.records) == without_times(index.records)
    assert rebuilt.removed == index.removed
    old_exports = in_json(store, "run_exports.json")
    for name in ("repodata.json", "run_exports.json", "repodata_shards.msgpack.zst"):
        store.files[f"{KEY}/{name}"] = b"broken"
    encoded = encode(store, SubdirIndex(KEY), rebuilt)
    switch(store, encoded.shards, encoded.files)
    assert without_times(read_index(store, KEY).records) == without_times(index.records)
    assert in_json(store, "run_exports.json") == old_exports


def test_rebuild_tells_each_damaged_package(tmp_path: Path) -> None:
    good = tiny_package(tmp_path, "good")
    bad = tiny_package(tmp_path, "bad")
    bad.write_bytes(bad.read_bytes()[:-40])
    wrong = tiny_package(tmp_path, "wrong", subdir="noarch")
    wrong.rename(tmp_path / KEY / wrong.name)
    (tmp_path / KEY / f"{good.name}.sigs").write_bytes(b"[]")
    found = {stat.key: record for stat, record in read_packages(MemoryStore(tmp_path), KEY)}
    assert isinstance(found["linux-64/bad-1-0.conda"], DamagedFileError)
    assert "wrong subdir" in str(found["linux-64/wrong-1-0.conda"])
    sound = found["linux-64/good-1-0.conda"]
    assert isinstance(sound, dict)
    assert sound["attestations_sha256"] == hashlib.sha256(b"[]").hexdigest()
    left_out: dict[str, str] = {}
    index = rebuild(MemoryStore(tmp_path), KEY, (bad.name,), None, left_out)
    assert set(index.records) == {good.name} and set(left_out) == found.keys() - {f"{KEY}/{good.name}"}
    assert index.removed == {bad.name}, "a yanked one stays yanked"


def without_times(given_records: Mapping[str, Record]) -> dict[str, Record]:
    return {
        file: {name: value for name, value in entry.items() if name != "indexed_timestamp"}
        for file, entry in given_records.items()
    }


# --- against a model

NAMES = st.sampled_from([f"{name}-{version}-0{s}" for name in ("a", "b-c", "d") for version in "12"
                         for s in (".conda", ".tar.bz2")])  # fmt: skip
FILES = st.frozensets(NAMES, max_size=4)


def model_record(file_name: str, size: int) -> Record:
    version, build = file_name.rsplit("-", 2)[1:]
    return record(
        name_of(file_name), version, build.split(".")[0], size=size, run_exports={"weak": [str(size)]}
    )


class Sequences(RuleBasedStateMachine):
    """Changes at random, against two plain sets; the store's files must say the same after each."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.here: dict[str, Record] = {}
        self.yanked: dict[str, Record] = {}
        self.exports: dict[str, Any] = {}
        self.ever = False

    @rule(files=FILES, size=st.integers(0, 9))
    def add(self, files: frozenset[str], size: int) -> None:
        add = {file: model_record(file, size) for file in files}
        if files & self.yanked.keys():
            with pytest.raises(ChannelError):
                self.change(SubdirChange(add=add))
            return
        self.change(SubdirChange(add=add))
        self.here |= add
        self.exports |= {file: {"run_exports": entry["run_exports"]} for file, entry in add.items()}

    @rule(files=FILES)
    def yank(self, files: frozenset[str]) -> None:
        if files - self.here.keys() - self.yanked.keys():
            with pytest.raises(ChannelError):
                self.change(SubdirChange(yank=files))
            return
        self.change(SubdirChange(yank=files))
        for file in files & self.here.keys():
            self.yanked[file] = self.here.pop(file)

    @rule(files=FILES)
    def yank_what_is_there(self, files: frozenset[str]) -> None:
        self.yank(files & (self.here.keys() | self.yanked.keys()))

    @rule(files=FILES)
    def unyank(self, files: frozenset[str]) -> None:
        back = {file: self.yanked.pop(file) for file in files & self.yanked.keys()}
        self.change(SubdirChange(unyank=back))
        self.here |= back

    @rule(files=FILES)
    def drop(self, files: frozenset[str]) -> None:
        self.change(SubdirChange(drop=files))
        for file in files:
            for part in (self.here, self.yanked, self.exports):
                part.pop(file, None)

    def change(self, change: SubdirChange) -> None:
        apply(self.store, change)
        self.ever = True

    @invariant()
    def same(self) -> None:
        index = read_index(self.store, KEY)
        assert index.records == self.here and index.exists == self.ever
        assert index.removed == self.yanked.keys()
        if self.ever:
            assert in_shards(self.store) == (self.here, set(self.yanked))
            data = in_json(self.store, "run_exports.json")
            assert data["packages"] | data["packages.conda"] == self.exports
            remove = (
                in_json(self.store, "patch_instructions.json")["remove"]
                if f"{KEY}/patch_instructions.json" in self.store.files
                else []
            )
            assert remove == sorted(self.yanked)


TestSequences = Sequences.TestCase
TestSequences.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(content=st.binary(max_size=60), place=st.integers(0, 300), packed=st.booleans())
def test_flipped_index_bytes_never_give_a_traceback(content: bytes, place: int, packed: bool) -> None:
    store = MemoryStore()
    apply(store, SubdirChange(add=records("a", "b")))
    name = "repodata_shards.msgpack.zst" if packed else "repodata.json"
    whole = store.files[f"{KEY}/{name}"]
    store.files[f"{KEY}/{name}"] = whole[:place] + content + whole[place + len(content) :]
    try:
        old = read_index(store, KEY)
        encode(store, old, changed(old, SubdirChange(add=records("c"))))
    except ChannelError:
        pass
