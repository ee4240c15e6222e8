"""Six faults of real builds, provoked: the terminal ends with what explain found in the log."""
# ruff: noqa: F811 (fixtures of another module)

from __future__ import annotations

import shutil
import subprocess
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
from tests.integration.helpers import ROOT, answer, host_build, rocm_channel

ONE = ("--arch", "gfx942", "--rocm", "7.2", "--no-test")
OTHER_ARCH = ARCHS + 'HIP_CMAKE_ARGS[i]="-DCMAKE_HIP_ARCHITECTURES=gfx9999" ;; esac; done\n'
CONFIGURED = '  -DROCM_CANARY_TOOLCHAIN="${toolchain:?}"'


def change_source(project: Path, name: str, before: str, after: str) -> None:
    source = project / "recipes" / "rocm-canary" / "src" / "library" / name
    source.write_text(before + source.read_text() + after)


def root_without(sdk: Path, folder: Path, name: str) -> Path:
    """The SDK by links, but for one of its entries."""
    folder.mkdir()
    for entry in sdk.iterdir():
        if entry.name != name:
            (folder / entry.name).symlink_to(entry)
    return folder


def explained(done: subprocess.CompletedProcess[str], code: int) -> list[str]:
    """The lines of explain's answer; one error and no traceback stand before it."""
    assert done.returncode == code, done.stdout + done.stderr
    assert is_one_clear_message(done.stderr)
    assert "\nexplain " in done.stderr, done.stderr
    return done.stderr.split("\nexplain ", 1)[1].splitlines()


def rule_of(lines: list[str]) -> str:
    """The rule of the first finding."""
    return next(line for line in lines if line.startswith("  rule ")).split()[1].rstrip(";")


def test_another_gcc(project: Path, sdk_root: Path) -> None:
    if not shutil.which("g++-12"):
        pytest.skip("this host has no GCC but the pinned one")
    change_script(project, "guard_network", "export CC=/usr/bin/gcc-12 CXX=/usr/bin/g++-12\n")
    lines = explained(host_build(project, sdk_root, *ONE), 63)
    assert rule_of(lines) == "guard-compilers"
    assert "compiler/ABI; sure" in lines[1]
    assert any("g++-12" in line for line in lines)


def test_a_rocm_without_device_libraries(project: Path, sdk_root: Path, tmp_path: Path) -> None:
    broken = root_without(sdk_root, tmp_path / "rocm", "amdgcn")
    lines = explained(host_build(project, broken, *ONE), 20)
    assert rule_of(lines) == "device-library-not-found"
    assert "missing ROCm path; sure" in lines[1]


def test_an_arch_that_the_compiler_does_not_know(project: Path, sdk_root: Path) -> None:
    change_script(project, "hip_cmake_args", NO_CHECK + OTHER_ARCH)
    lines = explained(host_build(project, sdk_root, *ONE), 20)
    assert rule_of(lines) == "compiler-does-not-know-arch"
    assert "wrong or missing arch; sure" in lines[1]
    assert any("gfx9999" in line for line in lines)


def test_too_little_memory(project: Path, sdk_root: Path) -> None:
    change_script(project, CONFIGURED, "ulimit -v 280000  # KiB\n")
    lines = explained(host_build(project, sdk_root, *ONE), 20)
    assert rule_of(lines) == "compiler-out-of-memory"
    assert "memory/OOM in compile" in lines[1]
    assert any("MAX_JOBS=2" in line for line in lines)


def test_an_undefined_symbol(project: Path, sdk_root: Path) -> None:
    before = "extern int rocm_canary_piece_that_is_not_there();\n"
    after = "int rocm_canary_user() { return rocm_canary_piece_that_is_not_there(); }\n"
    change_source(project, "error.cpp", before, after)
    lines = explained(host_build(project, sdk_root, *ONE), 20)
    assert rule_of(lines) == "symbol-of-a-missing-library"
    assert any("rocm_canary_piece_that_is_not_there" in line for line in lines)


def test_a_missing_header(project: Path, sdk_root: Path) -> None:
    change_source(project, "vector_add.hip", "#include <rocprim/rocprim.hpp>\n", "")
    lines = explained(host_build(project, sdk_root, *ONE), 20)
    assert rule_of(lines) == "rocm-library-headers-not-found"
    assert "missing lib; sure" in lines[1]
    assert any("rocprim/rocprim.hpp" in line for line in lines)

    log = next((project / "logs").glob("rocm-canary-*.log"))
    found = answer(rocm_channel("explain", "--json", log, cwd=ROOT))
    assert found["version"] == 1 and found["verdict"] == "explained"
    first = found["findings"][0]
    assert (first["rule"], first["category"]) == ("rocm-library-headers-not-found", "missing lib")
    assert first["lines"][0]["text"] in log.read_text().splitlines()[first["lines"][0]["number"] - 1]
