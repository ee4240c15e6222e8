"""Builds that go wrong on purpose: one message, an exit code of its own, and a channel that stays whole."""
# ruff: noqa: F811 (fixtures of another module)

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.broken_builds import (
    ARCHS,
    NO_CHECK,
    base,  # noqa: F401
    change_script,
    is_one_clear_message,
    project,  # noqa: F401
)
from tests.integration.helpers import ROOT, host_build, rocm_channel

ONE = ("--arch", "gfx942", "--rocm", "7.2")


def canaries(project: Path) -> list[str]:
    """Canary packages that the channel's index lists or its folder holds."""
    index = json.loads((project / "channel" / "linux-64" / "repodata.json").read_text())
    listed = [name for name in index["packages.conda"] if name.startswith("rocm-canary")]
    return sorted({*listed, *(p.name for p in (project / "channel").rglob("*canary*.conda"))})


@pytest.mark.parametrize(
    ("archs", "found"),
    [("gfx90a", "gfx90a"), ("gfx942;gfx90a", "gfx90a"), (None, "gfx906")],
    ids=["wrong arch", "two archs", "no arch, so CMake's own choice"],
)
def test_a_package_with_other_code_goes_to_quarantine(
    project: Path, sdk_root: Path, archs: str | None, found: str
) -> None:
    """With the guard in the build script switched off, reading the binary still catches it."""
    if archs is None:
        change = ARCHS + "HIP_CMAKE_ARGS[i]=-DROCM_CANARY_ALLOW_DEFAULT_ARCH=ON ;; esac; done\n"
    else:
        change = ARCHS + f'HIP_CMAKE_ARGS[i]="-DCMAKE_HIP_ARCHITECTURES={archs}" ;; esac; done\n'
    change_script(project, "hip_cmake_args", NO_CHECK + change)
    done = host_build(project, sdk_root, *ONE, "--no-test")
    assert done.returncode == 30, done.stderr
    assert is_one_clear_message(done.stderr)
    assert "quarantine" in done.stderr and found in done.stderr
    assert canaries(project) == []
    kept = list((project / "quarantine").glob("rocm-canary-*.conda"))
    assert len(kept) == 1
    report = json.loads((project / "quarantine" / f"{kept[0].name}.verify.json").read_text())
    assert report["verdict"] == "fail"
    assert found in {target for file in report["files"] for target in file["targets"]}


@pytest.mark.parametrize(
    ("after", "change", "code", "words"),
    [
        ("guard_network", "unset rocm_arch\n", 61, "rocm_arch is not set"),
        ("guard_network", "rocm_arch='gfx942;gfx90a'\n", 61, "more than one target"),
        ("guard_network", "rocm_arch=gfx942:xnack-\n", 61, "features"),
        ("guard_network", "export CXX=/usr/bin/g++-12\n", 63, "g++-12"),
        ("guard_network", "export CC=/usr/bin/gcc-12 CXX=/usr/bin/g++-12\n", 63, "12"),
        ("guard_network", "export ROCM_PATH=/nonexistent\n", 62, "/nonexistent"),
        ("guard_network", "hip_sdk=rocm\n", 62, "SDK of Debian packages"),
        ("guard_network", "memory_per_job_mib=\n", 64, "memory_per_job_mib"),
        ("guard_network", 'mkdir -p "$SRC_DIR/build"\n', 65, "build"),
        (
            "hip_cmake_args",
            ARCHS + "HIP_CMAKE_ARGS[i]=-DCMAKE_HIP_ARCHITECTURES=gfx90a ;; esac; done\n",
            66,
            "gfx90a",
        ),
    ],
)
def test_a_guard_stops_the_build_with_its_own_exit_code(
    project: Path, sdk_root: Path, after: str, change: str, code: int, words: str
) -> None:
    change_script(project, after, change)
    done = host_build(project, sdk_root, *ONE)
    assert done.returncode == code, done.stderr
    assert is_one_clear_message(done.stderr)
    line = next(line for line in done.stderr.splitlines() if "guard " in line)
    assert words in line and "; wanted: " in line and "; fix: " in line
    assert canaries(project) == []


def test_a_missing_rocm_root_is_told_before_anything_is_built(project: Path, tmp_path: Path) -> None:
    done = host_build(project, tmp_path / "none", *ONE)
    assert done.returncode == 13
    assert is_one_clear_message(done.stderr) and f"{tmp_path}/none" in done.stderr


def test_no_rocm_root_at_all_names_the_way_to_an_sdk(project: Path, tmp_path: Path) -> None:
    if Path("/opt/rocm").is_dir():
        pytest.skip("this host has a ROCm of its own")
    shutil.copytree(ROOT / ".cache" / "host-tools", tmp_path / "cache" / "host-tools")
    done = rocm_channel(
        *("build", "rocm-canary", *ONE, "--channel", project / "channel"),
        ROCM_CHANNEL_ROOT=str(project),
        ROCM_CHANNEL_CACHE=str(tmp_path / "cache"),
    )
    assert done.returncode == 13
    assert is_one_clear_message(done.stderr) and "rocm_sdk.sh" in done.stderr


def test_a_missing_compiler_names_its_package(project: Path, sdk_root: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("env", "sh", "bash", "git", "make", "patch", "pkg-config", "ld", "strip"):
        found = shutil.which(name)
        assert found
        (programs / name).symlink_to(found)
    cache = tmp_path / "cache"
    done = host_build(project, sdk_root, *ONE, PATH=str(programs), ROCM_CHANNEL_CACHE=str(cache))
    assert done.returncode == 13
    assert is_one_clear_message(done.stderr) and "g++-11" in done.stderr
    assert not cache.exists() or not list(cache.iterdir())


def test_an_unsolvable_build_environment_says_what_is_missing(project: Path, sdk_root: Path) -> None:
    recipe = project / "recipes" / "rocm-canary" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("    - ninja\n", "    - ninja\n    - no-such-tool >=3\n"))
    done = host_build(project, sdk_root, *ONE)
    assert done.returncode == 21, done.stderr
    assert is_one_clear_message(done.stderr) and "no-such-tool" in done.stderr


def test_a_failing_package_test_keeps_the_package_out(project: Path, sdk_root: Path) -> None:
    recipe = project / "recipes" / "rocm-userspace" / "recipe.yaml"
    text = recipe.read_text().replace("  number: 0", "  number: 1")
    recipe.write_text(text.replace('test -L "$PREFIX/lib/rocm-host"', "test -L /no/such/link"))
    words = ("rocm-userspace", "--rocm", "7.2", "--toolchain", "host", "--rocm-path", sdk_root)
    done = rocm_channel(
        *("build", *words, "--channel", project / "channel", "--keep-going"), ROCM_CHANNEL_ROOT=str(project)
    )
    assert done.returncode == 20, done.stderr
    assert is_one_clear_message(done.stderr) and "its test failed" in done.stderr and ".log" in done.stderr
    names = {path.name for path in (project / "channel").rglob("rocm-userspace-7.2-*_1.conda")}
    assert names == {"rocm-userspace-7.2-system_detected_1.conda"}, "which has no test on a build host"


def test_keep_going_builds_what_a_failure_does_not_touch(project: Path, sdk_root: Path) -> None:
    change_script(
        project, "guard_network", "[[ $rocm_arch != gfx90a ]] || { echo broken on purpose; exit 1; }\n"
    )
    done = host_build(project, sdk_root, "--rocm", "7.2", "--jobs", "1", "--keep-going", "--json")
    assert done.returncode == 20
    status = {p["package"].split("-")[-1][:13]: p["status"] for p in json.loads(done.stdout)["packages"]}
    assert status["rocm72_gfx90a"] == "failed" and status["rocm72_gfx942"] == "built"
    assert "broken on purpose" in done.stderr and ".log" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
@pytest.mark.parametrize("what", ["channel", "work", "logs"])
def test_a_read_only_folder_is_told_before_anything_is_built(
    project: Path, sdk_root: Path, what: str
) -> None:
    folder = project / what
    script = f'mkdir -p {folder}; mount -t tmpfs -o ro tmpfs {folder}; exec "$@"'
    done = in_namespace(script, build_command(project, sdk_root), project)
    assert done.returncode == 41, done.stderr
    assert is_one_clear_message(done.stderr) and "read-only" in done.stderr and str(folder) in done.stderr
    assert canaries(project) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
@pytest.mark.parametrize("size", ["100k", "700k"])
def test_a_full_disk_ends_the_build_with_one_message(project: Path, sdk_root: Path, size: str) -> None:
    """The work folder is a small tmpfs: full while the environment is made, or while it is compiled."""
    script = f'mkdir -p {project}/work; mount -t tmpfs -o size={size} tmpfs {project}/work; "$@"; s=$?; '
    script += f"ls -A {project}/work; exit $s"
    done = in_namespace(script, build_command(project, sdk_root), project)
    assert done.returncode == 41, done.stdout + done.stderr
    assert is_one_clear_message(done.stderr) and "full" in done.stderr
    assert "rocm-canary" not in done.stdout.splitlines(), "nothing is left in the work folder"
    assert canaries(project) == []


def build_command(project: Path, sdk_root: Path) -> list[str]:
    words = ["build", "rocm-canary", *ONE, "--toolchain", "host", "--rocm-path", str(sdk_root)]
    return [sys.executable, "-m", "channel_tools", *words, "--channel", str(project / "channel")]


def in_namespace(script: str, command: list[str], project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["unshare", "--mount", "bash", "-c", script, "_", *command],
        env={**os.environ, "ROCM_CHANNEL_ROOT": str(project), "ROCM_CHANNEL_CACHE": str(ROOT / ".cache")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_compilers_and_leaves_nothing_half_done(
    project: Path, sdk_root: Path, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        build_command(project, sdk_root),
        env={**os.environ, "ROCM_CHANNEL_ROOT": str(project), "ROCM_CHANNEL_CACHE": str(ROOT / ".cache")},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not any("clang" in name for name in processes_below(project / "work")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.count("interrupted") == 1 and "Traceback" not in err
    assert processes_below(project / "work") == []
    assert list((project / "work").iterdir()) == []
    assert canaries(project) == []
    assert not [p for p in (project / "channel").rglob("*") if p.name.endswith((".part", ".before"))]


def processes_below(folder: Path) -> list[str]:
    """Names of running processes whose current folder lies below ``folder``."""
    names = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(folder):
                names.append((entry / "comm").read_text().strip())
        except OSError:
            continue
    return names
