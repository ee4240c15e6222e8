"""Runs the scripts that make a folder from Debian packages, also in surroundings where they refuse."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

BUILD_SCRIPTS = Path(__file__).resolve().parents[2] / "build_scripts"


def run_script(name: str, *arguments: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run ``build_scripts/<name>`` to its end."""
    return subprocess.run(
        ["bash", BUILD_SCRIPTS / name, *arguments],
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def refuses(done: subprocess.CompletedProcess[str], name: str, code: int, *words: str) -> None:
    """Script ``name`` ended with ``code`` and one line on stderr that has ``words`` and a way out."""
    assert done.returncode == code, done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith(f"{name}: error: ")
    for word in (*words, "; fix: "):
        assert word in lines[0]


def marker(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


def in_mount_namespace(script: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run bash in a mount namespace of its own; skips where that is not allowed."""
    probe = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    if os.geteuid() != 0 or probe.returncode != 0:
        pytest.skip("needs root and mount namespaces")
    return subprocess.run(
        ["unshare", "-m", "bash", "-euc", script],
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def path_without(folder: Path, *patterns: str) -> str:
    """A PATH that has this machine's programs but for those that match ``patterns``."""
    folder.mkdir()
    for name in os.environ["PATH"].split(":"):
        for tool in Path(name).iterdir() if Path(name).is_dir() else ():
            link = folder / tool.name
            if not any(tool.match(pattern) for pattern in patterns) and not link.is_symlink():
                link.symlink_to(tool)
    return str(folder)
