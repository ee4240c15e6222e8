"""Running conda-index, also where conda is not installed.

conda-index takes two names out of conda, which pip does not have: a list of platforms, and the order of
versions, which it needs for ``channeldata.json`` only. Where there is no conda, ``tests/data/conda_stand_in``
gives it the first, and the options leave out what would ask for the second.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

STAND_IN = Path(__file__).resolve().parents[1] / "data" / "conda_stand_in"
MINIMAL = ("--no-channeldata", "--no-current-repodata", "--no-rss")
"""Options without which conda-index needs more of conda."""


def conda_index(channel: Path, *options: str) -> None:
    """Index all subdirs of a channel folder in a process of its own."""
    environ = dict(os.environ)
    if find_spec("conda") is None:
        environ["PYTHONPATH"] = str(STAND_IN)
    done = subprocess.run(
        [sys.executable, "-m", "conda_index", str(channel), *MINIMAL, *options],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
