"""Runs of :mod:`tests.integration.faults`: kill, look as a consumer, repair, publish again."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from channel_tools.channel.init import init_channel
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.s3_store import S3Store
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.reindex import repair_all
from tests.integration.faults import (
    Faults,
    MakeStore,
    Stage,
    consumers_view,
    copy_folder,
    copy_indexes,
    count_writes,
    fingerprint,
    free_lease,
    is_old_or_new,
    moments,
    run_and_die,
    whole_state,
)
from tests.integration.s3 import S3Server, put_tree

RANDOM_SHARE = 0.25
"""Part of the runs that are killed at a random time, not at a step."""


class FolderBench:
    """Fresh copies of a folder channel with the first release in it."""

    ways: tuple[str, ...] = ("before", "within", "after")

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage = stage
        self.folder = folder
        self.first = folder / "first"
        store = FolderStore(self.first)
        init_channel(store, {}, who="test")
        stage.publish_first(store)

    def fresh(self, name: str) -> MakeStore:
        path = self.folder / "channels" / name
        copy_folder(self.first, path)
        return lambda: FolderStore(path)

    def here(self, name: str) -> Store:
        """The channel of that name, for this process."""
        return FolderStore(self.folder / "channels" / name)


class S3Bench(FolderBench):
    """The same below a prefix of a bucket. What was made as a folder is uploaded as it is."""

    ways = ("before", "after")

    def __init__(self, stage: Stage, folder: Path, server: S3Server) -> None:
        super().__init__(stage, folder)
        self.bucket = server.bucket()
        self.client = server.store().client

    def fresh(self, name: str) -> MakeStore:
        put_tree(S3Store(self.bucket, name, client=self.client), self.first)
        return lambda: S3Store(self.bucket, name)  # another process needs connections of its own

    def here(self, name: str) -> Store:
        return S3Store(self.bucket, name, client=self.client)


def run_all(bench: FolderBench, count: int, seed: int, say: Callable[[str], None] = print) -> Counter[str]:
    """Kill ``count`` publishers. Returns what was seen, and how repair ended, as counts.

    :raises AssertionError: at the first run that breaks a promise
    """
    stage, folder = bench.stage, bench.folder
    writes, duration, old, new = _measured(bench)
    timed = int(count * RANDOM_SHARE)
    faults: list[Faults | float] = list(moments(writes, count - timed, seed, bench.ways))
    chance = random.Random(seed)
    faults += [chance.uniform(0, duration) for _ in range(timed)]
    say(f"{writes} writes, {duration:.2f} s a publish, {count} runs")
    seen: Counter[str] = Counter()
    views: dict[str, Path] = {}
    ended: dict[str, str] = {}
    for number, fault in enumerate(faults):
        if number and number % 100 == 0:
            say(f"{number} runs, no promise broken so far")
        name = f"run-{number}"
        make = bench.fresh(name)
        where = f"{name}: {fault}"
        at_step = replace(fault) if isinstance(fault, Faults) else Faults()
        code = run_and_die(make, stage, at_step, None if isinstance(fault, Faults) else fault)
        assert code in (-9, 0, 41), f"{where}: exit code {code}"
        seen["killed" if code == -9 else "ended before it could be killed"] += 1
        store = bench.here(name)
        views[name] = copy_indexes(store, folder / "views" / name)
        try:
            ended[name] = _repaired(store, number, old, new, seen)
            stage.publish_second(store)
            assert is_old_or_new(whole_state(store), old, new) == "new"
        except BaseException as error:
            raise AssertionError(f"{where}: {error}") from error
    _check_views(views, ended, seen, folder)
    return seen


def _measured(bench: FolderBench) -> tuple[int, float, dict[str, Any], dict[str, Any]]:
    """Writes and seconds of a publish, and the states before and after it."""
    bench.fresh("reference")
    store = bench.here("reference")
    old = whole_state(store)
    copy_indexes(store, bench.folder / "views" / "old")
    start = time.monotonic()
    writes = count_writes(store, bench.stage)
    duration = time.monotonic() - start
    copy_indexes(store, bench.folder / "views" / "new")
    return writes, duration, old, whole_state(store)


def _repaired(store: Store, number: int, old: dict[str, Any], new: dict[str, Any], seen: Counter[str]) -> str:
    """Repair in a command of its own, or, every third time, leave it to the next publisher."""
    free_lease(store)
    if number % 3 == 2:
        seen["left to the next publish"] += 1
        return "either"
    done = repair_all(store, who="repairer")
    for line in done:
        seen[" ".join(line.split()[:2])] += 1
    if not done:
        seen["nothing to repair"] += 1
    assert repair_all(store, who="repairer") == []
    return is_old_or_new(whole_state(store), old, new)


def _check_views(views: dict[str, Path], ended: dict[str, str], seen: Counter[str], folder: Path) -> None:
    alike: dict[str, str] = {}
    first = {name: alike.setdefault(fingerprint(path), name) for name, path in views.items()}
    asked = {name: views[name] for name in alike.values()}
    answers = consumers_view({**asked, "old": folder / "views" / "old", "new": folder / "views" / "new"})
    assert answers["old"] != answers["new"]
    for name in views:
        states = set()
        for case, answer in answers[first[name]].items():
            allowed = {answers["old"][case]: "old", answers["new"][case]: "new"}
            assert answer in allowed, f"{name}: {case} gets {answer}"
            if answers["old"][case] != answers["new"][case]:
                states.add(allowed[answer])
        if ended[name] == "old":
            assert states == {"old"}, f"{name}: was seen as new and then undone"
        for state in states:
            seen[state] += 1
        if len(states) > 1:
            seen["differs between hosts or forms"] += 1
