"""24 new packages into the index of a channel that holds 5,000, against conda-index and py-rattler's indexer.

Each runs as a program of its own, with the new packages in the folder and an index of the others there; for
conda-index its cache, too. conda-index leaves out what it can, and writes no shards. Ours brings its files to
the disk, which the others do not. The floor is what no indexer in Python can leave out: parse and write the
JSON, pack it at zstd level 9, hash the new packages. One row more is the whole transaction, from a folder
with the packages into a channel that does not have them, but for the solves of its read-back.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

from benchmarks.index_step import SUBDIR, take_in
from benchmarks.measure import Goal, Settings, print_goals, print_table, ratio, settings, workspace
from channel_tools.channel.index.records import record_of
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.apply import apply
from channel_tools.channel.transaction.change import Addition, Change, SubdirChange
from tests.integration.conda_index_program import conda_index
from tests.integration.tiny_packages import tiny_package
from tests.unit.memory_store import CountingStore

NEW = 24
PER_NAME = 10
_RATTLER = """
import asyncio, os, sys
from rattler.index import index_fs
asyncio.run(index_fs(sys.argv[1]))
os._exit(0)
"""


@dataclass(frozen=True)
class Channel:
    """A channel folder with new packages in it, and its index files from before they came."""

    path: Path
    before: Path
    source: Path

    def new(self) -> list[Path]:
        return sorted((self.source / SUBDIR).glob("new-*.conda"))

    def restore(self, *, with_new: bool = True) -> None:
        """Make the index what it was before the new packages, and put them there, or not."""
        for path in self.path.glob("*/*"):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.suffix != ".conda" or path.name.startswith("new-"):
                path.unlink()
        shutil.copytree(self.before, self.path, dirs_exist_ok=True)
        if with_new:
            for new in self.new():
                os.link(new, self.path / SUBDIR / new.name)


def make(folder: Path, count: int) -> Path:
    """``count`` tiny packages, ten of each name, and the new ones."""
    for at in range(count):
        name, version = f"pkg{at // PER_NAME:04}", f"1.{at % PER_NAME}"
        tiny_package(folder, name, version, depends=[f"pkg{at // PER_NAME // 2:04} >=1", "__glibc >=2.28"])
    for at in range(NEW):
        tiny_package(folder, "new-" + "abcd"[at % 4], f"1.{at // 4}", depends=["pkg0000 >=1"])
    (folder / "noarch").mkdir(exist_ok=True)
    return folder


def prepare(source: Path, folder: Path, index: Callable[[Path], object]) -> Channel:
    """A copy of ``source`` (hard links), without the new packages, indexed by ``index``."""
    path = folder / "channel"
    shutil.copytree(source, path, copy_function=os.link, ignore=shutil.ignore_patterns("new-*"))
    index(path)
    before = shutil.copytree(path, folder / "before", ignore=shutil.ignore_patterns("*.conda"))
    return Channel(path, before, source)


def run_ours(path: Path) -> None:
    subprocess.run([sys.executable, "-m", "benchmarks.index_step", str(path)], check=True)


def run_rattler(path: Path) -> None:
    subprocess.run([sys.executable, "-c", _RATTLER, str(path)], check=True, capture_output=True)


def run_conda_index(path: Path) -> None:
    conda_index(path, "--zst")


def take_all_in(path: Path) -> None:
    take_in(FolderStore(path), sorted((path / SUBDIR).glob("*.conda")))


def publish(store: Store, packages: Sequence[Path]) -> None:
    """The whole transaction."""
    records = {path: record_of(path) for path in packages}
    change = Change(
        "publish",
        additions=tuple(
            Addition(f"{SUBDIR}/{path.name}", path, record["sha256"], record["size"])
            for path, record in records.items()
        ),
        subdirs={SUBDIR: SubdirChange(add={path.name: record for path, record in records.items()})},
    )
    assert apply(store, change, who="benchmark").changed


def floor(channel: Channel) -> None:
    data = json.loads((channel.path / SUBDIR / "repodata.json").read_bytes())
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
    zstandard.ZstdCompressor(level=9).compress(text)
    for path in channel.new():
        content = path.read_bytes()
        hashlib.sha256(content).digest()
        hashlib.md5(content, usedforsecurity=False).digest()


def run(how: Settings) -> list[Goal]:
    sizes = (60, 300) if how.small else (1000, 5000)
    with workspace() as folder:
        channels = {size: make(folder / f"packages-{size}", size) for size in sizes}
        goals = [counts(channels, folder), *times(channels[sizes[-1]], folder, how, sizes[-1])]
    print_goals(goals)
    return goals


def counts(channels: dict[int, Path], folder: Path) -> Goal:
    """What the whole transaction asks of the store, and reads, with a small and a large channel."""
    print(f"\n{NEW} new packages: what is asked of the store")
    asked: list[Counter[str]] = []
    for size, source in channels.items():
        channel = prepare(source, folder / f"counted-{size}", take_all_in)
        store = CountingStore(FolderStore(channel.path))
        publish(store, channel.new())
        hashed = sum(path.stat().st_size for path in channel.new())
        calls = ", ".join(f"{number} {name}" for name, number in sorted(store.counted().items()))
        print(
            f"  of {size:5}: {store.read_bytes / 1e3:.0f} kB of index and control files read; "
            f"{NEW} packages of {hashed / 1e3:.0f} kB hashed\n    {len(store.calls)} requests: {calls}"
        )
        others = [call for call in store.calls if call[1].endswith(".conda") and "/new-" not in call[1]]
        listed = {prefix for method, prefix in store.calls if method == "list"}
        assert not others, others[:3]
        assert all(prefix.startswith((".channel/", "label/")) for prefix in listed), listed
        asked.append(store.counted())
    more = asked[1].total() / asked[0].total()
    return Goal("requests, large / small channel", more, "exactly 1", asked[0] == asked[1])


def times(source: Path, folder: Path, how: Settings, size: int) -> list[Goal]:
    ours = prepare(source, folder / "ours", take_all_in)
    inside = prepare(source, folder / "inside", take_all_in)
    whole = prepare(source, folder / "whole", take_all_in)
    rattler = prepare(source, folder / "rattler", run_rattler)
    conda = prepare(source, folder / "conda-index", run_conda_index)
    things: dict[str, tuple[Channel, Callable[[], object]]] = {
        "ours": (ours, lambda: run_ours(ours.path)),
        "conda-index --zst": (conda, lambda: run_conda_index(conda.path)),
        "index_fs": (rattler, lambda: run_rattler(rattler.path)),
        "ours, without starting Python": (inside, lambda: take_in(FolderStore(inside.path), inside.new())),
        "whole transaction, likewise": (whole, lambda: publish(FolderStore(whole.path), whole.new())),
        "floor": (rattler, lambda: floor(rattler)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in things}
    for turn in range(how.runs + 1):
        for name, (channel, thing) in things.items():
            if name != "floor":
                channel.restore(with_new=channel is not whole)
            started = time.perf_counter()
            thing()
            if turn:
                seconds[name].append(time.perf_counter() - started)
    print_table(f"{NEW} packages into an index of {size}", seconds)
    check((ours, inside, whole, rattler, conda), size)
    goals = []
    for other in ("conda-index --zst", "index_fs"):
        faster = ratio(seconds, other, "ours")
        goals.append(Goal(f"{other} / ours", faster, "at least 4", faster >= 4))
    above = ratio(seconds, "ours, without starting Python", "floor")
    print(f"  ours is {above:.1f} times its floor of {statistics.median(seconds['floor']):.3f} s")
    return goals


def check(channels: Sequence[Channel], size: int) -> None:
    """All of them did the work."""
    for channel in channels:
        index = json.loads((channel.path / SUBDIR / "repodata.json").read_bytes())
        assert len(index["packages.conda"]) == size + NEW, channel.path


def main(arguments: Sequence[str] | None = None) -> None:
    run(settings(__doc__, arguments))


if __name__ == "__main__":
    main()
