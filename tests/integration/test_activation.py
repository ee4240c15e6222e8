"""rocm-userspace's activation scripts in the shells that conda supports, with ROCm roots made up in /opt.

Each test runs in a mount namespace of its own in which /opt is an empty tmpfs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system over /opt")

POSIX = ("sh", "bash", "dash", "zsh")
SHELLS = (*POSIX, "fish", "tcsh")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> Path:
    """What the package for ROCm 7.2 installs, made by its real build script."""
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(
        ["bash", repo_root / "build_scripts" / "rocm-userspace.sh"],
        env={
            "PATH": os.environ["PATH"],
            "PREFIX": str(prefix),
            "RECIPE_DIR": str(repo_root / "recipes" / "rocm-userspace"),
            "rocm_version": "7.2",
        },
        check=True,
    )
    return prefix


def in_shell(
    prefix: Path, shell: str, roots: dict[str, str], lines: list[str], **environ: str
) -> tuple[list[str], str]:
    """Run ``lines`` in ``shell`` with ROCm roots of these releases below /opt; ``@on``/``@off`` source.

    :returns: lines of standard output, text of standard error
    """
    assert shutil.which(shell), f"{shell} is missing: build_scripts/host_packages.sh --with-tests installs it"
    suffix = {"fish": "fish", "tcsh": "csh"}.get(shell, "sh")
    command = "source" if suffix != "sh" else "."
    scripts = {
        "@on": f"{command} {prefix}/etc/conda/activate.d/rocm-userspace.{suffix}",
        "@off": f"{command} {prefix}/etc/conda/deactivate.d/rocm-userspace.{suffix}",
    }
    body = "\n".join(scripts.get(line, line) for line in lines)
    setup = "mount -t tmpfs tmpfs /opt\n" + "".join(
        f"mkdir -p '/opt/{name}/.info'\n"
        + (f"echo '{release}' > '/opt/{name}/.info/version'\n" if release else "")
        for name, release in roots.items()
    )
    flags = {"tcsh": ["-f"], "zsh": ["-f"], "fish": ["--no-config"]}.get(shell, [])
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-ec", f'{setup}exec "$@"', "_", shell, *flags, "-c", body],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1], done.stderr


SHOW = "env | grep '^ROCM_PATH=' || echo unset"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("roots", "expected", "warns"),
    [
        ({"rocm": "7.2.3-123"}, "ROCM_PATH=/opt/rocm", False),
        ({"rocm-7.2.3": "7.2.3-1"}, "ROCM_PATH=/opt/rocm-7.2.3", False),
        (
            {"rocm": "7.0.1", "rocm-7.2.0": "7.2.0", "rocm-7.20.0": "7.20.0"},
            "ROCM_PATH=/opt/rocm-7.2.0",
            False,
        ),
        ({"rocm": "7.0.1"}, "ROCM_PATH=/opt/rocm", True),
        ({"rocm": ""}, "ROCM_PATH=/opt/rocm", False),
        ({}, "unset", False),
    ],
)
def test_rocm_path_is_found(
    prefix: Path, shell: str, roots: dict[str, str], expected: str, warns: bool
) -> None:
    out, err = in_shell(prefix, shell, roots, ["@on", SHOW, "@off", SHOW])
    assert out == [expected, "unset"]
    assert ("built for ROCm 7.2" in err) == warns
    if not warns:
        assert err == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_a_given_rocm_path_stays_and_a_wrong_one_is_told_once(prefix: Path, shell: str) -> None:
    lines = ["@on", SHOW, "@on", "@off", SHOW]
    out, err = in_shell(prefix, shell, {"mine": "6.4.0"}, lines, ROCM_PATH="/opt/mine")
    assert out == ["ROCM_PATH=/opt/mine"] * 2
    assert err.count("is ROCm 6.4, and this environment is built for ROCm 7.2") == 1


@pytest.mark.parametrize("shell", POSIX)
@pytest.mark.parametrize("roots", [{}, {"rocm": "7.0"}, {"rocm": "garbage"}, {"rocm-7.2.1": "7.2.1"}])
def test_activation_never_fails_in_a_strict_shell(prefix: Path, shell: str, roots: dict[str, str]) -> None:
    out, _ = in_shell(prefix, shell, roots, ["set -eu", "@on", "@off", "echo alive"])
    assert out[-1] == "alive"


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_but_the_variables_is_left_behind(prefix: Path, shell: str) -> None:
    listing = {"fish": "functions -a; set -n", "tcsh": "set"}.get(shell, "set")
    out, _ = in_shell(prefix, shell, {"rocm": "7.2"}, ["@on", "@off", listing])
    assert not [line for line in out if "rocm_userspace" in line]
