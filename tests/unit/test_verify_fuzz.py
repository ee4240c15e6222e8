"""Damaged files and packages: whatever they hold, they are read to an end, and nothing raises.

``tests/nightly/fuzz_verify.py`` does the same with many more files, compiled and hostile ones among them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from channel_tools.verify import Report, verify_path
from tests.nightly import mutations
from tests.nightly.seeds import Seed, container_seeds, written_seeds
from tests.nightly.two_ways import difference, spread_library

CASES = 2400
BATCHES = 8
SECONDS = 10.0


@pytest.fixture(scope="module")
def seeds() -> Sequence[Seed]:
    files = written_seeds()
    return [*files, *container_seeds(files)]


@pytest.fixture(scope="module")
def sound(seeds: Sequence[Seed], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    folder = tmp_path_factory.mktemp("sound")
    reports = {}
    for seed in seeds:
        (folder / seed.name).write_bytes(seed.data)
        reports[seed.name] = verify_path(folder / seed.name)
    return reports


def test_seeds_are_sound(sound: dict[str, Report]) -> None:
    for report in sound.values():
        assert report.all_faults() == []
        assert report.targets()


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_input_never_raises(
    seeds: Sequence[Seed], sound: dict[str, Report], tmp_path: Path, batch: int
) -> None:
    dice = random.Random(batch)
    others = [seed.data for seed in seeds]
    found = silent = 0
    for _ in range(CASES // BATCHES):
        seed = dice.choice(seeds)
        made = mutations.mutate(seed.name, seed.data, others, dice)
        path = tmp_path / made.name
        path.write_bytes(made.data)
        started = time.monotonic()
        report = verify_path(path, scan=dice.random() < 0.2)
        assert time.monotonic() - started < SECONDS, made.steps
        assert all(line.isprintable() for line in report.all_faults()), made.steps
        assert all(fault.what and fault.wanted for _, fault in report.located_faults()), made.steps
        found += report.damaged
        lost = set(sound[seed.name].targets()) - set(report.targets())
        if lost and report.verdict == "pass":
            silent += 1
            assert verify_path(path, frozenset(sound[seed.name].targets())).verdict == "fail"
        path.unlink()
    assert found > CASES // BATCHES // 2
    assert silent <= CASES // BATCHES // 25


def test_a_file_reads_the_same_from_the_disk_and_out_of_an_archive(
    seeds: Sequence[Seed], tmp_path: Path
) -> None:
    others = [seed.data for seed in seeds]
    files = [seed for seed in seeds if not seed.container]
    for case in range(200):
        dice = random.Random(case)
        seed = dice.choice([*files, Seed("spread.so", spread_library(dice))])
        made = mutations.mutate(seed.name, seed.data, others, dice)
        folder = tmp_path / str(case)
        folder.mkdir()
        assert difference(seed.name, made.data, folder) is None, made.steps
