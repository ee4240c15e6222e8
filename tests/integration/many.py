"""Many publishers at once, each a process of its own with a release of its own."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from channel_tools.channel.index.encoding import read_all
from channel_tools.channel.release import read_releases
from channel_tools.channel.stores.store import Store
from channel_tools.model.errors import ChannelToolsError
from tests.integration.faults import MakeStore, publisher, whole_state
from tests.integration.tiny_packages import release


def make_releases(folder: Path, count: int) -> list[list[Path]]:
    """The first one has what all of them depend on; each has another package."""
    made = [release(folder / "0", "demo-0")]
    made += [release(folder / str(n), f"demo-{n}", selection=False) for n in range(1, count + 1)]
    return made


def publish_all(make: MakeStore, releases: Sequence[list[Path]], folder: Path, timeout: float = 300) -> float:
    """All at once; returns the seconds until the last one was done.

    :raises AssertionError: one of them failed, or is still waiting after ``timeout`` seconds
    """
    context = multiprocessing.get_context("fork")
    folder.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    processes = [
        context.Process(target=_publish, args=(make, packages, folder / f"{number}.json"))
        for number, packages in enumerate(releases)
    ]
    for process in processes:
        process.start()
    for number, process in enumerate(processes):
        process.join(max(1.0, start + timeout - time.monotonic()))
        if process.exitcode is None:
            process.kill()
            raise AssertionError(f"publisher {number} waits for ever")
    seconds = time.monotonic() - start
    for number, process in enumerate(processes):
        said = json.loads((folder / f"{number}.json").read_text())
        assert process.exitcode == 0, f"publisher {number}: {said}"
    return seconds


def _publish(make: MakeStore, packages: list[Path], answer: Path) -> None:
    said: list[str] = []
    try:
        made = publisher(make(), f"publisher-{os.getpid()}", say=said.append, wait=280, ttl=30).publish(
            packages
        )
        answer.write_text(json.dumps({"said": said, "release": made.release.id}))
    except ChannelToolsError as error:
        answer.write_text(json.dumps({"said": said, "error": str(error)}))
        os._exit(error.exit_code)
    os._exit(0)


def waited(folder: Path) -> int:
    """How many publishers were told to wait."""
    texts = [json.loads(path.read_text())["said"] for path in folder.glob("*.json")]
    return sum(any(line.startswith("waiting:") for line in said) for said in texts)


def check_all_in(store: Store, releases: Sequence[list[Path]]) -> dict[str, Any]:
    """Every release has its manifest, and every package one record."""
    state = whole_state(store)
    wanted = {path.name for packages in releases for path in packages}
    indexed = Counter(
        name
        for key, index in read_all(store).items()
        if not key.startswith("label/")
        for name in index.records
    )
    assert set(indexed) == {name for name in wanted if "declared" not in name}
    assert set(indexed.values()) == {1}
    assert {name for key in state["packages"] for name in [key.rpartition("/")[2]]} == wanted
    manifests = list(read_releases(store))
    assert len(manifests) == len(releases)
    assert {f.key.rpartition("/")[2] for made in manifests for f in made.files} == wanted
    return state
