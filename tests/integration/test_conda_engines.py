"""The conda engines: the exact command lines, and what happens to the package that they leave.

conda is not on the Python index, so a program stands in for it that leaves the package a real build would
have left.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.integration.helpers import make_project, rocm_channel
from tests.integration.test_folder_channel import make_package

RECORDER = """#!/bin/sh
case "$*" in *detected.yaml*) made=$LEAVE/detected ;; *) made=$LEAVE/declared ;; esac
while [ $# -gt 1 ]; do [ "$1" = --output-folder ] && out=$2; shift; done
mkdir -p "$out/linux-64"
cp "$made"/out/linux-64/*.conda "$out/linux-64/"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project folder of its own with the real recipes."""
    return make_project(tmp_path / "project")


@pytest.mark.parametrize(("engine", "verb"), [("conda-build", "build"), ("mambabuild", "mambabuild")])
def test_dry_run_shows_what_a_person_would_type(root: Path, engine: str, verb: str) -> None:
    done = rocm_channel(
        *("build", "vllm-rocm", "--arch", "gfx942", "--rocm", "7.2", "--engine", engine, "--dry-run"),
        *("-c", "conda-forge", "--channel", root / "channel"),
        ROCM_CHANNEL_ROOT=str(root),
    )
    assert done.returncode == 0, done.stderr
    lines = [shlex.split(line) for line in done.stdout.splitlines()]
    words = next(line for line in lines if line[2].endswith("recipes/vllm-rocm"))
    assert words[:2] == ["conda", verb]
    files = [Path(words[i + 1]).name for i, word in enumerate(words) if word == "-m"]
    assert files == ["gfx942.yaml", "rocm-7.2.yaml"]
    channels = [words[i + 1] for i, word in enumerate(words) if word == "-c"]
    assert channels[-1] == "conda-forge"
    assert ("--override-channels" in words) == (engine == "conda-build"), "boa does not know it"
    assert "--no-test" not in words
    assert not (root / "work").exists() and not (root / "channel").exists()
    detected = next(
        line for line in lines if line[2].endswith("amdgpu-arch") and "detected.yaml" in " ".join(line)
    )
    assert "--no-test" in detected, "no build host satisfies a detected build's virtual package"


def test_a_missing_conda_is_a_clear_error(root: Path, tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    done = rocm_channel(
        *(
            "build",
            "amdgpu-arch",
            "--engine",
            "mambabuild",
            "-c",
            "conda-forge",
            "--channel",
            root / "channel",
        ),
        ROCM_CHANNEL_ROOT=str(root),
        PATH=str(empty),
    )
    assert done.returncode == 13
    assert "needs conda, which is not on PATH" in done.stderr and "environment-build.yml" in done.stderr


def test_a_package_with_another_hash_counts_as_built(root: Path, tmp_path: Path) -> None:
    """conda-build's hash may differ from rattler-build's; the record says which variant it is."""
    extra = {"rocm_arch": "gfx942"}
    make_package(tmp_path / "declared", "amdgpu-arch", "9.4.2", "gfx942_declared_0", extra)
    make_package(tmp_path / "detected", "amdgpu-arch", "9.4.2", "gfx942_detected_h1234567_0", extra)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "conda").write_text(RECORDER)
    (programs / "conda").chmod(0o755)

    def build() -> dict[str, str]:
        done = rocm_channel(
            *("build", "amdgpu-arch", "--arch", "gfx942", "--rocm", "7.2"),
            *("--engine", "conda-build", "-c", "conda-forge", "--channel", root / "channel", "--json"),
            ROCM_CHANNEL_ROOT=str(root),
            PATH=f"{programs}:{os.environ['PATH']}",
            LEAVE=str(tmp_path),
        )
        assert done.returncode == 0, done.stderr
        return {p["package"]: p["status"] for p in json.loads(done.stdout)["packages"]}

    stems = ["amdgpu-arch-9.4.2-gfx942_declared_0", "amdgpu-arch-9.4.2-gfx942_detected_0"]
    assert build() == dict.fromkeys(stems, "built")
    assert build() == dict.fromkeys(stems, "kept")
    assert [file.name for file in (root / "channel" / "linux-64").glob("*.conda")] == [
        "amdgpu-arch-9.4.2-gfx942_detected_h1234567_0.conda"
    ]
    log = (root / "logs" / f"{stems[0]}.log").read_text()
    assert log.startswith(f"+ conda build {root}/recipes/amdgpu-arch -m ")
