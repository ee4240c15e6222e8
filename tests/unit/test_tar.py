"""Extraction filters are there on a Python that lacks them, as Debian 12's 3.11.2."""

from __future__ import annotations

import subprocess
import sys

import pytest

OLD_PYTHON = """
import tarfile
for name in ("data_filter", "tar_filter", "FilterError", "AbsolutePathError", "OutsideDestinationError"):
    delattr(tarfile, name)

from channel_tools.model.tar import tarfile as used
assert used.__name__ == "backports.tarfile", used
import channel_tools.sources.unpack as unpack
assert unpack.tarfile is used
used.data_filter(used.TarInfo("a/b"), "/tmp/x")
try:
    used.data_filter(used.TarInfo("../b"), "/tmp/x")
except used.FilterError:
    print("refused")
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="every Python from 3.12 on has the filters")
def test_the_backport_steps_in() -> None:
    done = subprocess.run([sys.executable, "-c", OLD_PYTHON], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["refused"]
