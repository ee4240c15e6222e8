"""What several integration tests do: run the command line, and set up projects of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def rocm_channel(*words: object, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``rocm-channel`` as a user does; variables that would reach into this host are dropped first."""
    dropped = ("ROCM_PATH", "ROCM_CHANNEL_ROOT", "MAX_JOBS", "ROCM_BOOTSTRAP_FORCE_GFX_ARCH")
    clean = {key: value for key, value in os.environ.items() if key not in dropped}
    return subprocess.run(
        [sys.executable, "-m", "channel_tools", *map(str, words)],
        env={**clean, "ROCM_CHANNEL_CACHE": str(ROOT / ".cache"), **environ},
        cwd=cwd or ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    """The JSON of a command that ended well."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


def make_project(folder: Path) -> Path:
    """A project folder with copies of the checkout's recipes, variants and scripts, to change at will."""
    for name in ("recipes", "variants", "build_scripts"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True)
    return folder


def host_build(project: Path, sdk: Path, *words: object, **environ: str) -> subprocess.CompletedProcess[str]:
    """``rocm-channel build`` of the canary with this host's tools into the project's own channel."""
    return rocm_channel(
        *("build", "rocm-canary", "--toolchain", "host", "--rocm-path", sdk),
        *("--channel", project / "channel", *words),
        ROCM_CHANNEL_ROOT=str(project),
        **environ,
    )


def rocm_like(folder: Path, release: str) -> Path:
    """A folder that says it is ROCm of that release."""
    (folder / ".info").mkdir(parents=True)
    (folder / ".info" / "version").write_text(f"{release}\n")
    return folder
