"""Publishers at the same time: all releases get in, none is lost, and a dead one holds nobody up for long."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

from channel_tools.channel.init import init_channel
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.lease import held, holder
from channel_tools.channel.stores.s3_store import S3Store
from tests.integration.faults import Faults, make_stage, publisher, run_and_die, whole_state
from tests.integration.many import check_all_in, make_releases, publish_all, waited
from tests.integration.s3 import S3Server, s3_server  # noqa: F401


def test_eight_on_a_folder(tmp_path: Path) -> None:
    releases = make_releases(tmp_path / "packages", 8)
    store = FolderStore(tmp_path / "channel")
    init_channel(store, {}, who="test")
    publisher(store).publish(releases[0])
    publish_all(lambda: FolderStore(tmp_path / "channel"), releases[1:], tmp_path / "said")
    check_all_in(store, releases)
    assert waited(tmp_path / "said") >= 4


def test_three_on_s3(tmp_path: Path, s3_server: S3Server) -> None:  # noqa: F811
    releases = make_releases(tmp_path / "packages", 3)
    store = s3_server.store()
    init_channel(store, {}, who="test")
    publisher(store).publish(releases[0])
    publish_all(lambda: S3Store(store.bucket, store.prefix), releases[1:], tmp_path / "said")
    check_all_in(store, releases)


def test_a_dead_publishers_lease_runs_out(tmp_path: Path) -> None:
    """Killed in the middle of its work; the next one waits for the lease, repairs, and publishes."""
    stage = make_stage(tmp_path / "packages")
    store = FolderStore(tmp_path / "channel")
    init_channel(store, {}, who="test")
    stage.publish_first(store)
    said: list[str] = []
    assert run_and_die(lambda: FolderStore(store.path), stage, Faults(dies=30), ttl=1.5) == -9
    assert holder(store) is not None
    start = time.monotonic()
    made = publisher(store, "late", wait=20, say=said.append).publish(stage.second)
    assert time.monotonic() - start > 1.0
    assert made.changed and made.repaired and "undid the publish that test began at" in made.repaired[0]
    assert any("ran out" in line for line in said), said
    whole_state(store)


def test_one_that_is_alive_keeps_its_lease(tmp_path: Path) -> None:
    """It renews it, so that another one waits for much longer than the lease lasts."""
    store = FolderStore(tmp_path / "channel")
    init_channel(store, {}, who="test")
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_hold, args=(store.path, 4.0))
    process.start()
    while holder(store) is None:
        time.sleep(0.02)
    start = time.monotonic()
    init_channel(store, {"name": "x"}, who="late", change=True)
    assert time.monotonic() - start > 2.0
    process.join()
    assert process.exitcode == 0


def _hold(path: Path, seconds: float) -> None:
    with held(FolderStore(path), "early", ttl=1.0, say=print) as lease:
        time.sleep(seconds)
        lease.check()
    os._exit(0)
