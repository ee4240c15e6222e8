"""A publisher killed at any step: its consumers never see anything but the old state or the new one.

`tests/nightly/kill_publish.py` does the same at every step, and at more than 300 moments in all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.faults import Stage, make_stage
from tests.integration.kill_runs import FolderBench, S3Bench, run_all
from tests.integration.s3 import S3Server, s3_server  # noqa: F401


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return make_stage(tmp_path_factory.mktemp("packages"))


def test_killed_on_a_folder(stage: Stage, tmp_path: Path) -> None:
    seen = run_all(FolderBench(stage, tmp_path), count=22, seed=1)
    assert seen["old"] and seen["new"], seen


def test_killed_on_s3(stage: Stage, tmp_path: Path, s3_server: S3Server) -> None:  # noqa: F811
    seen = run_all(S3Bench(stage, tmp_path, s3_server), count=8, seed=2)
    assert seen["old"] and seen["new"], seen
