"""A project whose canary can be built, to break in tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.integration.helpers import answer, make_project, rocm_channel

NO_CHECK = "check_baked_arch() { :; }\n"
ARCHS = 'for i in "${!HIP_CMAKE_ARGS[@]}"; do case ${HIP_CMAKE_ARGS[i]} in -DCMAKE_HIP_ARCHITECTURES=*) '
"""Begins a change of the arch that CMake is given; ``HIP_CMAKE_ARGS[i]=... ;; esac; done`` follows."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, sdk_root: Path) -> Path:
    """A project whose channel has all that the canary needs, but no canary."""
    project = make_project(tmp_path_factory.mktemp("failures") / "base")
    words = ("--toolchain", "host", "--rocm-path", sdk_root, "--channel", project / "channel", "--json")
    answer(rocm_channel("build", "amdgpu-arch", "rocm-userspace", *words, ROCM_CHANNEL_ROOT=str(project)))
    return project


@pytest.fixture
def project(base: Path, tmp_path: Path) -> Path:
    """A copy of the base project, to break."""
    shutil.copytree(base, tmp_path / "project", symlinks=True)
    return tmp_path / "project"


def change_script(project: Path, after: str, inserted: str) -> None:
    """Insert lines into the canary's build script behind the line ``after``."""
    script = project / "build_scripts" / "rocm-canary.sh"
    text = script.read_text()
    assert f"\n{after}\n" in text
    script.write_text(text.replace(f"\n{after}\n", f"\n{after}\n{inserted}", 1))


def is_one_clear_message(stderr: str) -> bool:
    """Exactly one message that starts with ``error:``, and no traceback."""
    lines = stderr.splitlines()
    return "Traceback" not in stderr and sum(line.startswith("error: ") for line in lines) == 1
