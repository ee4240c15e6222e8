"""Random publishes, promotions, yanks and prunes on two channels; after each, an audit must find nothing.

    python -m tests.nightly.random_care [STEPS] [SEED]

Ends with status 1 at the first difference, and says with which seed it came.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from channel_tools.channel.care.audit import audit
from channel_tools.channel.care.prune import prune
from channel_tools.channel.care.upkeep import read_state
from channel_tools.channel.care.yank import unyank, yank
from channel_tools.channel.care.yanked import read_yanked
from channel_tools.channel.init import init_channel
from channel_tools.channel.publishing.promote import Promotion, promote
from channel_tools.channel.publishing.publish import Publisher
from channel_tools.channel.release import read_releases
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.model.errors import ChannelError, ReleaseRefusedError
from channel_tools.model.matrix import read_matrix
from tests.integration.tiny_packages import release, tiny_package

MATRIX = read_matrix(Path(__file__).resolve().parents[2] / "variants" / "conda_build_config.yaml")
WHO = "nightly@host"
DAY = 86_400.0


class ShiftedStore(FolderStore):
    """A folder whose clock can be put forward."""

    shift = 0.0

    def now(self) -> float:
        return super().now() + self.shift


class Walk:
    """Two channels and what was done to them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.staging = ShiftedStore(folder / "staging")
        self.target = ShiftedStore(folder / "target")
        self.version = 0
        self.done: dict[str, int] = {}
        for store in (self.staging, self.target):
            init_channel(store, {"url": f"https://conda.example.com/{store.path.name}"}, who=WHO)
        self.publish()

    def publish(self) -> None:
        """A new version, or a higher build number, of one of two packages."""
        self.version += 1
        name = self.random.choice(["hip-demo", "hip-tool"])
        packages = release(
            self.folder / "made",
            name,
            f"0.{self.version // 2}",
            self.version % 2,
            selection=self.version == 1 or self.random.random() < 0.3,
        )
        if self.random.random() < 0.3:
            packages.append(tiny_package(self.folder / "made", "plain", str(self.version), subdir="noarch"))
        Publisher(self.staging, MATRIX, WHO).publish(packages)

    def promote(self) -> None:
        found = self.random.choice(list(read_releases(self.staging)))
        promote(self.target, Promotion(self.staging, found.id, WHO, MATRIX))

    def yank(self) -> None:
        store = self._store()
        selects = self.random.random() < 0.05  # without what selects, hardly anything can be published
        there = [
            f"{key}/{file}"
            for key, index in read_state(store).indexes.items()
            for file in index.records
            if file.startswith(("amdgpu-arch", "rocm-userspace")) == selects
        ]
        if there:
            yank(store, self.random.choice(there), "by chance", WHO)

    def unyank(self) -> None:
        store = self._store()
        there = list(read_yanked(store).entries)
        if there:
            unyank(store, self.random.choice(there), WHO)

    def orphan(self) -> None:
        """A package that no index lists, as an upload by hand leaves it; deleted by the prune after it."""
        store = self._store()
        tiny_package(store.path, "stray", str(self.random.randrange(1000)))
        self._later(store)

    def forget(self) -> None:
        """A release manifest that an operator deleted, so that prune may take what only it named."""
        store = self._store()
        keys = [stat.key for stat in store.list("releases/")]
        if len(keys) > 2:
            store.delete(self.random.choice(keys))

    def prune(self) -> None:
        self._later(self._store())

    def _later(self, store: ShiftedStore) -> None:
        store.shift = self.random.choice([30, 400]) * DAY
        prune(store, WHO, old_too=self.random.random() < 0.5)
        store.shift = 0.0

    def _store(self) -> ShiftedStore:
        return self.random.choice([self.staging, self.target])

    def step(self) -> str:
        action = self.random.choices(
            [self.publish, self.promote, self.yank, self.unyank, self.orphan, self.forget, self.prune],
            [2, 3, 4, 3, 1, 1, 2],
        )[0]
        name = action.__name__
        try:
            action()
        except (ReleaseRefusedError, ChannelError) as error:
            name = f"{name} refused"
            self.last: Any = error
        self.done[name] = self.done.get(name, 0) + 1
        return name

    def faults(self) -> list[str]:
        """Differences, but for labels whose declared build was yanked: that is what an operator asked for."""
        return [
            f"{store.path.name}: {line}"
            for store in (self.staging, self.target)
            for finding in audit(store).findings
            if not (finding.subject == "label" and finding.what.startswith("lacks the declared build"))
            for line in finding.lines()
        ]


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    with tempfile.TemporaryDirectory(prefix="rocm-channel-care-") as folder:
        walk = Walk(Path(folder), seed)
        for number in range(1, steps + 1):
            name = walk.step()
            faults = walk.faults()
            if faults:
                print(f"seed {seed}, step {number}: {name} left", *faults, sep="\n")
                sys.exit(1)
    print(f"seed {seed}: {steps} steps and nothing to find: {dict(sorted(walk.done.items()))}")


if __name__ == "__main__":
    main()
