"""``build_scripts/host_packages.sh``: what it asks for on hosts of several kinds. Nothing is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.debian_scripts import (
    BUILD_SCRIPTS,
    in_mount_namespace,
    path_without,
    refuses,
    run_script,
)

TOOLS = ("apt-get", "clang++-19", "ld.lld-19", "g++-11", "make", "patch", "pkg-config")

pytestmark = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in TOOLS), reason=f"needs {' '.join(TOOLS)}"
)

DEBIAN = 'ID=debian\nVERSION_ID="{}"\n'


def on_release(
    os_release: str, folder: Path, script: str = "host_packages.sh", **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run as on a host of that release, whose apt knows no package."""
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "apt.conf").write_text(
        f'Dir::State::lists "{folder}/lists";\nDir::State::status "/dev/null";\n'
        f'Dir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "/dev/null";\n'
        f'Dir::Cache "{folder}/apt-cache";\n'
    )
    (folder / "os-release").write_text(os_release)
    return in_mount_namespace(
        f"mount --bind {folder}/os-release $(realpath /etc/os-release); bash {BUILD_SCRIPTS}/{script}",
        APT_CONFIG=f"{folder}/apt.conf",
        DEBIAN_MIRROR="file:/no/such/mirror",
        **{"ROCM_CHANNEL_CACHE": f"{folder}/cache", **changes},
    )


def test_one_line_names_what_is_missing_where_nothing_can_be_installed(tmp_path: Path) -> None:
    done = run_script(
        "host_packages.sh", PATH=path_without(tmp_path / "bin", "clang*-19", "patch", "apt-get")
    )
    assert done.returncode == 13
    assert done.stdout == ""
    command = "apt-get install --no-install-recommends clang-19 clang-tools-19 patch"
    assert done.stderr == f"missing packages: as root, run: {command}\n"


def test_debian_12_has_a_package(tmp_path: Path) -> None:
    path = path_without(tmp_path / "bin", "g++-11", "apt-get")
    done = on_release(DEBIAN.format(12), tmp_path, PATH=path)
    assert done.returncode == 13
    assert done.stderr.endswith(" gcc-11 g++-11\n")


@pytest.mark.parametrize("os_release", [DEBIAN.format(13), "ID=debian\n"], ids=["Debian 13", "unstable"])
def test_newer_debian_gets_the_gcc_of_debian_12(tmp_path: Path, os_release: str) -> None:
    done = on_release(os_release, tmp_path, PATH=path_without(tmp_path / "bin", "g++-11"))
    refuses(done, "gcc11", 14, "package list of Debian bookworm")
    assert not (tmp_path / "cache").exists()


def test_private_gcc_is_enough(tmp_path: Path) -> None:
    program = tmp_path / "cache" / "gcc-11" / "usr" / "bin" / "g++-11"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = path_without(tmp_path / "bin", "g++-11", "apt-get")
    done = run_script("host_packages.sh", PATH=path, ROCM_CHANNEL_CACHE=f"{tmp_path}/cache")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
