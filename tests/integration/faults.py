"""A publisher that dies or fails at a chosen moment, and what the channel must be like afterwards."""

from __future__ import annotations

import functools
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

from channel_tools.channel.index.encoding import read_all
from channel_tools.channel.index.shards import read_shards_index, shard_key
from channel_tools.channel.layout import LEASE_KEY, is_package
from channel_tools.channel.publishing.publish import Published, Publisher
from channel_tools.channel.stores import folder_store
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.lease import holder
from channel_tools.channel.stores.store import IMMUTABLE, Stat, Store
from channel_tools.model import files
from channel_tools.model.errors import StorageError
from channel_tools.model.matrix import Matrix, read_matrix
from tests.integration.tiny_packages import release, tiny_package

ROOT = Path(__file__).resolve().parents[2]
FORMS = {
    "json": {"zstd_enabled": False, "sharded_enabled": False},
    "zst": {"zstd_enabled": True, "sharded_enabled": False},
    "shards": {"zstd_enabled": True, "sharded_enabled": True},
}
MakeStore = Callable[[], Store]


@functools.cache
def matrix() -> Matrix:
    return read_matrix(ROOT / "variants" / "conda_build_config.yaml")


@dataclass
class Faults:
    """When to end: at the write of that number, counted from 1; ``at`` is before, after or within it.

    ``fails`` is the write that raises an error first, so that what follows is the undoing.
    """

    dies: int | None = None
    at: str = "before"
    fails: int | None = None
    writes: int = 0

    def begin(self) -> None:
        self.writes += 1
        if self.writes == self.dies and self.at == "before":
            _die()
        if self.writes == self.fails:
            raise StorageError("cannot be written: the test wants it so")

    def end(self) -> None:
        if self.writes == self.dies and self.at == "after":
            _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class FaultyStore:
    """A store whose writes are counted, and end as :class:`Faults` says."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self.store = store
        self.faults = faults

    @property
    def address(self) -> str:
        return self.store.address

    def now(self) -> float:
        return self.store.now()

    def stat(self, key: str) -> Stat | None:
        return self.store.stat(key)

    def read(self, key: str) -> bytes | None:
        return self.store.read(key)

    def read_with_etag(self, key: str) -> tuple[bytes, str] | None:
        return self.store.read_with_etag(key)

    def open(self, key: str) -> IO[bytes]:
        return self.store.open(key)

    def list(self, prefix: str = "") -> Iterator[Stat]:
        return self.store.list(prefix)

    def put_new(self, key: str, content: bytes | Path, *, sha256: str, cache: str = IMMUTABLE) -> bool:
        return bool(self._counted(lambda: self.store.put_new(key, content, sha256=sha256, cache=cache)))

    def replace(self, key: str, content: bytes, *, expect: str | None, cache: str) -> str:
        return str(self._counted(lambda: self.store.replace(key, content, expect=expect, cache=cache)))

    def delete(self, key: str, *, expect: str | None = None) -> None:
        self._counted(lambda: self.store.delete(key, expect=expect))

    def copy_from(self, source: Store, source_key: str, key: str, *, sha256: str) -> bool:
        return bool(self._counted(lambda: self.store.copy_from(source, source_key, key, sha256=sha256)))

    def _counted(self, write: Callable[[], Any]) -> Any:
        self.faults.begin()
        result = write()
        self.faults.end()
        return result


@dataclass(frozen=True)
class Stage:
    """Two releases: the first one is in the channel, the second is what publishers die with.

    The second brings new versions, a ``noarch`` package that they are tied to, and a second GPU arch with
    its labels.
    """

    first: tuple[Path, ...]
    second: tuple[Path, ...]

    def publish_first(self, store: Store) -> Published:
        return publisher(store, allow_missing=("gfx942",)).publish(self.first)

    def publish_second(self, store: Store) -> Published:
        return publisher(store).publish(self.second)


def make_stage(folder: Path) -> Stage:
    def packages(folder: Path, version: str, **more: Any) -> tuple[Path, ...]:
        common = tiny_package(folder, "hip-common", version, subdir="noarch")
        return (*release(folder, version=version, depends=[f"hip-common =={version}"], **more), common)

    return Stage(packages(folder / "1", "0.1.0", archs=["gfx90a"]), packages(folder / "2", "0.2.0"))


def publisher(store: Store, who: str = "test", **more: Any) -> Publisher:
    return Publisher(store, matrix(), who, **{"ttl": 60, "wait": 60, **more})


def run_and_die(
    make: MakeStore, stage: Stage, faults: Faults, after_s: float | None = None, ttl: float = 60
) -> int:
    """Publish the second release in a process of its own; returns its exit code, -9 where it was killed."""
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_publish, args=(make, stage, faults, ttl))
    process.start()
    if after_s is not None:
        time.sleep(after_s)
        process.kill()
    process.join(120)
    assert process.exitcode is not None, "a deadlock"
    return process.exitcode


def _publish(make: MakeStore, stage: Stage, faults: Faults, ttl: float) -> None:
    os.setpgid(0, 0)
    if faults.at == "within" and faults.fails is None:
        _die_within(faults)
        store: Store = make()
    else:
        store = FaultyStore(make(), faults)
    try:
        publisher(store, ttl=ttl).publish(stage.second)
    except StorageError:
        os._exit(41)
    os._exit(0)


def _die_within(faults: Faults) -> None:
    """Kill this process between the writing of a temporary file and the giving of its name."""
    count = 0
    locked = files.locked

    @contextmanager
    def dying(lock: Path) -> Iterator[None]:
        nonlocal count
        count += 1
        if count == faults.dies:
            _die()
        with locked(lock):
            yield

    folder_store.locked = dying  # type: ignore[attr-defined]


def count_writes(store: Store, stage: Stage) -> int:
    """Publish the second release; returns how many writes that took."""
    faults = Faults()
    stage.publish_second(FaultyStore(store, faults))
    return faults.writes


def whole_state(store: Store) -> dict[str, Any]:
    """What a channel holds, after making sure that index and files agree in both directions."""
    indexes = read_all(store)
    named: dict[str, str] = {}
    shards: set[str] = set()
    for key, index in indexes.items():
        named |= {f"{key}/{name}": record["sha256"] for name, record in index.records.items()}
        found = read_shards_index(store, key)
        assert found is not None and set(found.shards) == {r["name"] for r in index.records.values()}
        shards |= {shard_key(key, digest) for digest in found.shards.values()}
    keys = {stat.key for stat in store.list()}
    packages = {key for key in keys if is_package(key)}
    assert packages == set(named), f"orphans or missing files: {sorted(packages ^ set(named))}"
    for key, digest in named.items():
        with store.open(key) as stream:
            assert _digest(stream) == digest, f"{key} is damaged"
    assert shards <= keys, f"missing shards: {sorted(shards - keys)}"
    control = {stat.key for stat in store.list(".channel/")} - {LEASE_KEY, ".channel/conditions"}
    assert not control, f"left behind: {sorted(control)}"
    return {
        "packages": named,
        "shards": {key for key in keys if "/shards/" in key},
        "releases": {key for key in keys if key.startswith("releases/")},
        "other": {key for key in keys if "/shards/" not in key and not key.startswith("releases/")},
    }


def _digest(stream: IO[bytes]) -> str:
    return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]


def is_old_or_new(state: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """``old`` or ``new``; fails for anything else. Identifiers of releases differ from run to run."""
    for name, wanted in (("old", old), ("new", new)):
        if state["packages"] == wanted["packages"]:
            assert state["other"] == wanted["other"], sorted(state["other"] ^ wanted["other"])
            assert len(state["releases"]) == len(wanted["releases"])
            extra = state["shards"] - (old["shards"] | new["shards"])
            assert not extra or name == "new", f"shards left behind: {sorted(extra)}"
            return name
    raise AssertionError("neither the old state nor the new one")


def free_lease(store: Store) -> None:
    """What waiting for a dead publisher's lease to run out comes to."""
    if holder(store) is not None:
        store.delete(LEASE_KEY)


def copy_indexes(store: Store, folder: Path) -> Path:
    """What clients can read of a channel at this moment, but for the packages."""
    for stat in store.list():
        if not is_package(stat.key) and not stat.key.startswith("releases/"):
            content = store.read(stat.key)
            if content is not None:
                (folder / stat.key).parent.mkdir(parents=True, exist_ok=True)
                (folder / stat.key).write_bytes(content)
    return folder


HOSTS: dict[str, tuple[tuple[str, ...], tuple[tuple[str, str], ...]]] = {
    "gfx90a detected": (("",), (("__amdgpu", "0"), ("__amdgpu_arch", "9.0.10"), ("__rocm_userspace", "7.2"))),
    "gfx942 detected": (("",), (("__amdgpu", "0"), ("__amdgpu_arch", "9.4.2"), ("__rocm_userspace", "7.0"))),
    "gfx90a declared": (("label/gfx90a-rocm7.0/", ""), ()),
    "gfx942 declared": (("label/gfx942-rocm7.2/", ""), ()),
    "unknown GPU": (("",), (("__amdgpu", "0"), ("__amdgpu_arch", "11.0.0"), ("__rocm_userspace", "7.2"))),
}


def consumers_view(folders: Mapping[str, Path]) -> dict[str, dict[str, tuple[str, ...]]]:
    """What each kind of host gets from each of these channels, over HTTP, in each form of the index.

    The answer has file names, or ``refused``, by channel and then by host and form.
    """
    root = Path(os.path.commonpath([str(folder) for folder in folders.values()]))
    answers: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in folders}
    with _served(root) as address:
        asked = [(name, host) for name in folders for host in HOSTS]
        solves = [
            {
                "channels": [
                    f"{address}/{folders[name].relative_to(root)}/{prefix}" for prefix in HOSTS[host][0]
                ],
                "specs": ["hip-demo"],
                "virtual": [[package, version, "0"] for package, version in HOSTS[host][1]],
            }
            for name, host in asked
        ]
        results = _many_solves({"forms": FORMS, "solves": solves})
    for form, found in results.items():
        for (name, host), result in zip(asked, found, strict=True):
            answers[name][f"{host}, {form}"] = _answer(result)
    return answers


def _many_solves(payload: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.many_solves"],
        input=json.dumps(payload),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    return found


def _answer(result: Mapping[str, Any]) -> tuple[str, ...]:
    if "records" in result:
        return tuple(result["records"])
    if "refused" in result:
        return ("refused",)
    missing = "404" in result["unreachable"] or "could not find subdir" in result["unreachable"]
    return ("refused",) if missing else ("error", result["unreachable"])


class _Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away early is none of our business."""


@contextmanager
def _served(root: Path) -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), partial(_Quiet, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def fingerprint(folder: Path) -> str:
    """Names and contents of all files, as one digest."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(
            f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
        )
    return digest.hexdigest()


def copy_folder(source: Path, target: Path) -> FolderStore:
    shutil.copytree(source, target)
    return FolderStore(target)


def moments(writes: int, count: int, seed: int, ways: tuple[str, ...]) -> list[Faults]:
    """``count`` faults: each step and each way at least once when there is room, random ones beyond that."""
    every = [Faults(dies=step, at=way) for step in range(1, writes + 1) for way in ways]
    chance = random.Random(seed)
    if count <= len(every):
        stride = len(every) / count
        return [every[int(number * stride)] for number in range(count)]
    more: list[Faults] = []
    while len(every) + len(more) < count:
        fails = chance.randint(2, writes)
        more.append(
            Faults(dies=fails + chance.randint(1, 30), at=chance.choice(("before", "after")), fails=fails)
        )
    return every + more
