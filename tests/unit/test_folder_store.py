"""A channel in a folder: what all stores must do, and what only a file system can do wrong."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.opening import open_store
from channel_tools.channel.stores.store import SHORT
from channel_tools.model.errors import ChannelError, StorageError
from tests.unit.store_contract import KEY, StoreContract, digest, put

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")


class TestContract(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FolderStore:
        return FolderStore(tmp_path / "channel")

    @pytest.fixture
    def other(self, tmp_path: Path) -> FolderStore:
        return FolderStore(tmp_path / "other")


def test_reading_creates_nothing(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "channel")
    assert store.read("channel.json") is None and not list(store.list()) and not store.stray()
    store.now()
    store.delete("channel.json")
    assert not (tmp_path / "channel").exists()


def test_files_are_readable_by_all_and_alone(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        put(FolderStore(tmp_path), KEY, b"x")
        FolderStore(tmp_path).replace("linux-64/repodata.json", b"{}", expect=None, cache=SHORT)
    finally:
        os.umask(before)
    names = sorted(p.name for p in (tmp_path / "linux-64").iterdir())
    assert names == ["repodata.json", "x-1-0.conda"]
    for name in names:
        mode = (tmp_path / "linux-64" / name).stat()
        assert stat.S_IMODE(mode.st_mode) == 0o644
        assert mode.st_nlink == 1


def test_a_copy_does_not_share_its_bytes(tmp_path: Path) -> None:
    staging, prod = FolderStore(tmp_path / "staging"), FolderStore(tmp_path / "prod")
    put(staging, KEY, b"x")
    prod.copy_from(staging, KEY, KEY, sha256=digest(b"x"))
    (tmp_path / "staging" / KEY).write_bytes(b"y")
    assert prod.read(KEY) == b"x"


def test_empty_control_folders_go_away(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    put(store, ".channel/before/7/linux-64/repodata.json", b"x")
    store.delete(".channel/before/7/linux-64/repodata.json")
    assert [p.name for p in (tmp_path / ".channel").iterdir()] == [".lock"]


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    store = FolderStore(tmp_path)
    assert put(store, KEY, b"x") and not put(store, KEY, b"x")
    with pytest.raises(ChannelError, match="other content"):
        put(store, KEY, b"y")
    assert not store.stray(0)


def test_a_folder_in_the_place_of_a_file(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    (tmp_path / KEY).mkdir(parents=True)
    for action in (lambda: put(store, KEY, b"x"), lambda: store.read(KEY), lambda: store.delete(KEY)):
        with pytest.raises(StorageError):
            action()


WRITE = """
import sys, hashlib
from pathlib import Path
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.model.errors import ChannelToolsError
content = bytes(int(sys.argv[2]))
store = FolderStore(sys.argv[1])
for action in sys.argv[3:]:
    try:
        if action == "put":
            store.put_new("linux-64/big.conda", content, sha256=hashlib.sha256(content).hexdigest())
        elif action == "replace":
            found = store.read_with_etag("linux-64/repodata.json")
            store.replace("linux-64/repodata.json", content, expect=found and found[1], cache="")
        elif action == "delete":
            store.delete("linux-64/repodata.json")
        elif action == "read":
            print(store.read("linux-64/repodata.json"))
        print(action, "done")
    except ChannelToolsError as error:
        print(action, error.exit_code, error)
"""


def in_namespace(script: str) -> str:
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-ec", script],
        env={**os.environ, "WRITE": WRITE, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stdout + done.stderr
    return done.stdout


@ROOT_ONLY
def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tmp_path: Path) -> None:
    put(FolderStore(tmp_path / "old"), "linux-64/repodata.json", b"old")
    out = in_namespace(f"""
        mkdir {tmp_path}/m; mount -t tmpfs -o size=1m tmpfs {tmp_path}/m
        cp -a {tmp_path}/old/. {tmp_path}/m
        $PYTHON -c "$WRITE" {tmp_path}/m 3000000 put replace
        find {tmp_path}/m -type f | sort; cat {tmp_path}/m/linux-64/repodata.json
    """)
    assert out.count(" 41 ") == 2 and out.count("the disk is full") == 2, out
    files = [Path(line).name for line in out.splitlines() if line.startswith(str(tmp_path))]
    assert files == [".lock", "repodata.json"], "nothing half-written"
    assert out.endswith("old")


@ROOT_ONLY
def test_a_read_only_folder_can_be_read_and_nothing_else(tmp_path: Path) -> None:
    put(FolderStore(tmp_path / "old"), "linux-64/repodata.json", b"old")
    out = in_namespace(f"""
        mkdir {tmp_path}/m; mount --bind {tmp_path}/old {tmp_path}/m; mount -o remount,ro,bind {tmp_path}/m
        $PYTHON -c "$WRITE" {tmp_path}/m 3 read put replace delete
    """)
    assert "b'old'" in out
    assert out.count(" 41 ") == 3 and out.count("read-only") == 3, out


def test_a_killed_writer_leaves_a_stray_part_that_repair_finds(tmp_path: Path) -> None:
    script = """
import sys, time
from channel_tools.channel.stores.folder_store import FolderStore
def pieces():
    yield b"x" * 100
    print("writing", flush=True)
    time.sleep(60)
store = FolderStore(sys.argv[1])
store._put_new("linux-64/x.conda", pieces(), "0" * 64, "x")
"""
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None and writer.stdout.readline() == "writing\n"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    store = FolderStore(tmp_path)
    assert not list(store.list())
    assert not store.stray()
    (left,) = store.stray(0)
    assert left.startswith("linux-64/.x.conda.")
    os.utime(tmp_path / left, (time.time() - 7200,) * 2)
    assert store.clear_stray() == [left]
    assert not (tmp_path / left).exists()


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("ch", "ch"),
        ("/a/b", "/a/b"),
        ("file:///a%20b", "/a b"),
        ("file://localhost/a", "/a"),
        ("./c:d", "c:d"),
        ("c:d", "c:d"),
        ("./file:d", "file:d"),
        ("file:/a", "/a"),
        ("FILE:///a%23b%3F", "/a#b?"),
        ("/a#b?c", "/a#b?c"),
    ],
)
def test_addresses_of_folders(address: str, path: str) -> None:
    assert open_store(address).address == path


@pytest.mark.parametrize(
    "address",
    [
        "",
        "https://user:hunter2@host/channel",
        " ",
        "file://other/a",
        "file:a",
        "file:",
        "file://",
        "file:///a#b",
        "file:///a?b",
        "s3:bucket/x",
        "S3:/bucket",
        "s3://Bad_Bucket!/x",
        "s3://key:hunter2@bucket/x",
        "gs://bucket/x",
    ],
)
def test_addresses_that_no_store_has(address: str) -> None:
    with pytest.raises(ChannelError) as caught:
        open_store(address)
    assert "hunter2" not in str(caught.value)
    assert "wanted" in str(caught.value)
