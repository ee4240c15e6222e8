"""The build guards (``build_scripts/lib``), run by bash with real compilers, CMake and SDK root.

Nothing here runs on a GPU: objects are compiled and looked at.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parents[2] / "build_scripts"
LIB = SCRIPTS / "lib"
VENV_BIN = Path(sys.executable).parent
CLANG = shutil.which("clang++-19")
# Debian 13 has GCC 11 in a folder of its own.
GXX_BIN = Path(shutil.which("g++-11") or "/usr/bin/g++-11").parent
GCC_FOLDERS = GXX_BIN.parent / "lib/gcc/x86_64-linux-gnu"
GCCS = [n for n in range(11, 20) if shutil.which(f"gcc-{n}") and shutil.which(f"g++-{n}")]

pytestmark = [
    pytest.mark.skipif(CLANG is None, reason="needs clang++-19"),
    pytest.mark.skipif(len(GCCS) < 2, reason="needs two GCCs, as gcc-11 g++-11 gcc-12 g++-12"),
]

OURS, OTHER = (GCCS[0], GCCS[-1]) if len(GCCS) > 1 else (0, 0)
CHECKED = "guard_arch; guard_rocm; guard_compilers"
KERNEL = """\
#include <hip/hip_runtime.h>
#include <vector>
__global__ void twice(float* x) { x[threadIdx.x] *= 2; }
std::vector<float> run(float* x) { twice<<<1, 64>>>(x); return {*x}; }
"""


@dataclass(frozen=True, slots=True)
class Build:
    """A build script's surroundings: the folders and variables that an engine gives it."""

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> Path:
        return self.folder / "work"

    @property
    def prefix(self) -> Path:
        return self.folder / "host_env"

    def run(self, script: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
        """Run ``script`` after the guards are sourced; ``None`` takes a variable away."""
        env = {name: value for name, value in {**self.env, **changes}.items() if value is not None}
        text = f"set -euo pipefail; IFS=$'\\n\\t'; . '{LIB}/guards.sh'; {script}"
        return subprocess.run(
            ["bash", "-c", text],
            env=env,
            cwd=self.source,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=120,
            check=False,
        )

    def values(self, script: str, *names: str, **changes: str | None) -> dict[str, str]:
        """What a child process of the script sees in the variables ``names``."""
        done = self.run(f"{script} >&2; env -0", **changes)
        assert done.returncode == 0, done.stderr
        seen = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)
        return {name: seen[name] for name in names}

    def cmake_args(self, **changes: str | None) -> list[str]:
        done = self.run(
            f"{CHECKED} >&2; hip_cmake_args; printf '%s\\0' \"${{HIP_CMAKE_ARGS[@]}}\"", **changes
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\0")[:-1]


def stops(done: subprocess.CompletedProcess[str], code: int, name: str, *words: str) -> str:
    """The one line of a guard that stopped; its form, code and words are checked."""
    assert done.returncode == code, done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith(f"guard {name}: "), lines[0]
    parts = lines[0].split("; ")
    assert [part.split(": ")[0] for part in parts[-3:]] == ["found", "wanted", "fix"], lines[0]
    for word in words:
        assert word in lines[0]
    return lines[0]


@pytest.fixture
def build(tmp_path: Path, sdk_root: Path) -> Build:
    made = Build(
        tmp_path,
        {
            "PATH": os.pathsep.join([str(VENV_BIN), str(GXX_BIN), "/usr/local/bin", "/usr/bin", "/bin"]),
            "HOME": str(tmp_path / "work"),
            "LANG": "C.UTF-8",
            "CONDA_BUILD": "1",
            "PKG_NAME": "rocm-canary",
            "PKG_VERSION": "0.1",
            "PREFIX": str(tmp_path / "host_env"),
            "SRC_DIR": str(tmp_path / "work"),
            "ROCM_PATH": str(sdk_root),
            "CC": f"gcc-{OURS}",
            "CXX": f"g++-{OURS}",
            "CPU_COUNT": "4",
            "rocm_arch": "gfx942",
            "rocm_isa": "9.4.2",
            "rocm_version": "7.2",
            "cxx_compiler_version": str(OURS),
            "toolchain": "host",
            "hip_sdk": "debian",
            "memory_per_job_mib": "1500",
            # As recipes pass them when the caller set nothing.
            "MAX_JOBS": "",
            "build_cpus": "",
            "build_memory_mib": "",
        },
    )
    made.source.mkdir()
    made.prefix.mkdir()
    return made


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)
    return path


def executable(name: str) -> str:
    found = shutil.which(name)
    assert found
    return found


# --- all of them ----------------------------------------------------------------------------------


def test_shellcheck_has_nothing_to_say() -> None:
    scripts = sorted(SCRIPTS.rglob("*.sh"))
    assert LIB / "guards.sh" in scripts
    # SC2154: lower-case names are variant keys, which the engine sets.
    done = subprocess.run(
        [VENV_BIN / "shellcheck", "-x", "-P", "SCRIPTDIR", "-e", "SC2154", *scripts],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_scripts_have_the_layout_of_shfmt() -> None:
    done = subprocess.run(
        [VENV_BIN / "shfmt", "-i", "2", "-d", *SCRIPTS.rglob("*.sh")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_exit_codes_differ_from_guard_to_guard(build: Build) -> None:
    nothing = dict.fromkeys(name for name in build.env if name not in ("PATH", "HOME"))
    codes = {
        guard: build.run(guard, **nothing).returncode
        for guard in (
            "guard_arch",
            "guard_rocm",
            "guard_compilers",
            "guard_jobs",
            "guard_stale",
            "check_baked_arch",
            "record_evidence",
        )
    }
    assert list(codes.values()) == [61, 62, 63, 64, 65, 66, 67]


@pytest.mark.parametrize(
    "guard",
    [
        "guard_arch",
        "guard_rocm",
        "guard_compilers",
        "guard_jobs",
        "guard_stale",
        "check_baked_arch",
        "record_evidence",
        "hip_cmake_args",
    ],
)
def test_an_empty_environment_gives_one_line_and_no_bash_error(build: Build, guard: str) -> None:
    nothing = dict.fromkeys(name for name in build.env if name not in ("PATH", "HOME"))
    done = build.run(guard, **nothing)
    assert 61 <= done.returncode <= 67
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("guard ")
    assert "bash" not in done.stderr
    assert "unbound" not in done.stderr


def test_guards_can_be_sourced_twice(build: Build) -> None:
    assert build.run(f". '{LIB}/guards.sh'; guard_arch").returncode == 0


def test_all_guards_in_a_row(build: Build) -> None:
    done = build.run(f"{CHECKED}; guard_jobs; guard_stale; guard_find_root; guard_network; hip_cmake_args")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 2


# --- arch -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "isa", "words"),
    [
        (None, "9.4.2", ["rocm_arch is not set"]),
        ("", "9.4.2", ["rocm_arch is not set"]),
        ("gfx942;gfx90a", "9.4.2", ["more than one target", "found: gfx942;gfx90a"]),
        ("gfx942,gfx90a", "9.4.2", ["more than one target"]),
        ("gfx942 gfx90a", "9.4.2", ["more than one target"]),
        ("gfx942\ngfx90a", "9.4.2", ["more than one target"]),
        ("gfx90a:xnack-", "9.0.10", ["features", "name the target alone: gfx90a"]),
        ("gfx90A", "9.0.10", ["no GPU target"]),
        ("mi300x", "9.4.2", ["no GPU target"]),
        ("gfx", "9.4.2", ["no GPU target"]),
        ("gfx42", "4.2", ["no GPU target"]),
        ("gfx9-4-generic", "9.4.2", ["no GPU target"]),
        ("gfx94200", "9.4.2", ["no GPU target"]),
        ("$(touch${IFS}owned)", "9.4.2", ["no GPU target"]),
        ("gfx942", None, ["rocm_isa is not set", "wanted: 9.4.2 (of gfx942)"]),
        ("gfx942", "9.0.10", ["ISA version of gfx942", "found: 9.0.10", "wanted: 9.4.2"]),
        ("gfx90a", "9.0.a", ["found: 9.0.a", "wanted: 9.0.10"]),
        ("gfx90a", "9.0.1", ["wanted: 9.0.10"]),
    ],
)
def test_arch_stops(build: Build, arch: str | None, isa: str | None, words: list[str]) -> None:
    done = build.run("guard_arch", rocm_arch=arch, rocm_isa=isa)
    if arch and ";" in arch:
        assert done.returncode == 61
        assert all(word in done.stderr for word in words)
    else:
        stops(done, 61, "arch", *words)
    assert not (build.source / "owned").exists()


@pytest.mark.parametrize(
    ("arch", "isa"),
    [
        ("gfx90a", "9.0.10"),
        ("gfx90c", "9.0.12"),
        ("gfx942", "9.4.2"),
        ("gfx950", "9.5.0"),
        ("gfx1100", "11.0.0"),
        ("gfx1201", "12.0.1"),
        ("gfx1250", "12.5.0"),
    ],
)
def test_arch_goes_out_under_every_name(build: Build, arch: str, isa: str) -> None:
    names = [
        "PYTORCH_ROCM_ARCH",
        "GPU_TARGETS",
        "AMDGPU_TARGETS",
        "GPU_ARCHS",
        "CMAKE_HIP_ARCHITECTURES",
        "HIP_ARCHITECTURES",
        "AOTRITON_TARGET_ARCH",
        "SUPPORTED_TARGETS",
        "HCC_AMDGPU_TARGET",
    ]
    seen = build.values(
        "guard_arch", *names, rocm_arch=arch, rocm_isa=isa, PYTORCH_ROCM_ARCH="gfx906;gfx1030"
    )
    assert seen == dict.fromkeys(names, arch)


# --- rocm -----------------------------------------------------------------------------------------


@pytest.fixture
def rocm(build: Build) -> Path:
    """A root with the files of ROCm 7.2.3 that the guard reads, and a real clang."""
    root = build.folder / "rocm-7.2.3"
    (root / "include/hip").mkdir(parents=True)
    (root / "include/hip/hip_version.h").write_text(
        "#define HIP_VERSION_MAJOR 7\n#define HIP_VERSION_MINOR 2\n"
    )
    (root / ".info").mkdir()
    (root / ".info/version").write_text("7.2.3-123\n")
    (root / "lib/llvm/bin").mkdir(parents=True)
    (root / "lib/llvm/bin/clang++").symlink_to(executable("clang++-19"))
    return root


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("7.2.3-123\n", "7.2"),
        ("7.2.3", "7.2"),
        ("7.2\n", "7.2"),
        ("7.2.3\r\n", "7.2"),
        ("7.2.3\nbuild 5\n", "7.2"),
        ("7.0.0\n", "7.0"),
        ("7.14.0\n", "7.14"),
        ("10.0.0~rc1\n", "10.0"),
    ],
)
def test_rocm_release_is_read(build: Build, rocm: Path, text: str, version: str) -> None:
    (rocm / ".info/version").write_text(text)
    seen = build.values(
        "guard_rocm",
        "ROCM_PATH",
        "ROCM_HOME",
        "HIP_CLANG",
        "HIP_CLANG_PATH",
        ROCM_PATH=f"{rocm}//",
        rocm_version=version,
        hip_sdk="rocm",
    )
    assert seen == {
        "ROCM_PATH": str(rocm),
        "ROCM_HOME": str(rocm),
        "HIP_CLANG": f"{rocm}/lib/llvm/bin/clang++",
        "HIP_CLANG_PATH": f"{rocm}/lib/llvm/bin",
    }


@pytest.mark.parametrize(
    ("text", "version", "words"),
    [
        ("7.0.0\n", "7.2", ["another release", "found: 7.0.0", "wanted: 7.2"]),
        ("7.14.0\n", "7.1", ["found: 7.14.0", "wanted: 7.1"]),
        ("7.1.0\n", "7.14", ["found: 7.1.0"]),
        ("", "7.2", ["cannot be read", "found: nothing"]),
        ("seven\n", "7.2", ["cannot be read", "found: seven"]),
        ("7\n", "7.2", ["cannot be read"]),
        ("7.2.3\n", "", ["rocm_version is no ROCm release"]),
        ("7.2.3\n", "7.2.3", ["rocm_version is no ROCm release", "wanted: X.Y"]),
    ],
)
def test_rocm_release_stops(build: Build, rocm: Path, text: str, version: str, words: list[str]) -> None:
    (rocm / ".info/version").write_text(text)
    done = build.run("guard_rocm", ROCM_PATH=str(rocm), rocm_version=version, hip_sdk="rocm")
    stops(done, 62, "rocm", *words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, ["ROCM_PATH is not set"]),
        ("", ["ROCM_PATH is not set"]),
        ("opt/rocm", ["not absolute"]),
        ("/opt/my rocm", ["compiler flags cannot carry", "found: /opt/my rocm"]),
        ("/opt/rocm$HOME", ["compiler flags cannot carry"]),
        ("/no/such/rocm", ["not a folder"]),
        ("/usr/share", ["no ROCm root", "no include/hip/hip_version.h in /usr/share"]),
    ],
)
def test_rocm_path_stops(build: Build, given: str | None, words: list[str]) -> None:
    stops(build.run("guard_rocm", ROCM_PATH=given), 62, "rocm", *words)


def test_no_other_file_is_taken_for_the_release(build: Build, rocm: Path) -> None:
    (rocm / ".info/version").rename(rocm / ".info/version-rocm")
    done = build.run("guard_rocm", ROCM_PATH=str(rocm), hip_sdk="rocm")
    stops(done, 62, "rocm", "release of ROCM_PATH is unknown", f"no file {rocm}/.info/version")


def test_debian_sdk_is_named_in_one_plain_line(build: Build, sdk_root: Path) -> None:
    done = build.run("guard_rocm")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        f"guard rocm: {sdk_root} is an SDK of Debian packages (HIP 5.7.1, trixie), not ROCm 7.2\n"
    )


def test_debian_sdk_is_no_rocm(build: Build) -> None:
    stops(build.run("guard_rocm", hip_sdk="rocm"), 62, "rocm", "an SDK of Debian packages", "hip_sdk=debian")
    stops(build.run("guard_rocm", hip_sdk=None), 62, "rocm", "an SDK of Debian packages")


def test_rocm_is_no_debian_sdk(build: Build, rocm: Path) -> None:
    stops(build.run("guard_rocm", ROCM_PATH=str(rocm)), 62, "rocm", "no .rocm-channel-sdk in", "rocm_sdk.sh")
    stops(build.run("guard_rocm", hip_sdk="ubuntu"), 62, "rocm", "hip_sdk has no such value", "found: ubuntu")


def test_hip_compiler_is_looked_for_in_order(build: Build, rocm: Path) -> None:
    given = {"ROCM_PATH": str(rocm), "hip_sdk": "rocm"}
    (rocm / "llvm/bin").mkdir(parents=True)
    (rocm / "lib/llvm/bin/clang++").rename(rocm / "llvm/bin/clang++")
    assert build.values("guard_rocm", "HIP_CLANG", **given) == {"HIP_CLANG": f"{rocm}/llvm/bin/clang++"}
    own = build.folder / "clang"
    own.mkdir()
    (own / "clang++").symlink_to(executable("clang++-19"))
    seen = build.values("guard_rocm", "HIP_CLANG", HIP_CLANG_PATH=f"{own}/", **given)
    assert seen == {"HIP_CLANG": f"{own}/clang++"}


def test_hip_compiler_stops(build: Build, rocm: Path) -> None:
    given = {"ROCM_PATH": str(rocm), "hip_sdk": "rocm"}
    compiler = rocm / "lib/llvm/bin/clang++"
    stops(build.run("guard_rocm", HIP_CLANG_PATH="/usr/share", **given), 62, "rocm", "no /usr/share/clang++")
    compiler.unlink()
    stops(build.run("guard_rocm", **given), 62, "rocm", "no HIP compiler", "neither lib/llvm/bin/clang++")
    compiler.symlink_to("/usr/bin/clang++-that-was-removed")
    stops(build.run("guard_rocm", **given), 62, "rocm", "no HIP compiler")
    compiler.unlink()
    compiler.symlink_to(executable(f"g++-{OURS}"))
    stops(build.run("guard_rocm", **given), 62, "rocm", "does not run", str(compiler))
    compiler.unlink()
    program(compiler, "exit 126")
    stops(build.run("guard_rocm", **given), 62, "rocm", "does not run")
    program(compiler, f'[ "$1" != -print-targets ] || exit 0; exec {CLANG} "$@"')
    stops(build.run("guard_rocm", **given), 62, "rocm", "makes no AMD GPU code")


# --- compilers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"CC": None}, ["CC is not set"]),
        ({"CXX": "  "}, ["CXX is not set"]),
        ({"CXX": "no-such-g++"}, ["CXX names no program", "no-such-g++"]),
        ({"CXX": "ccache g++", "PATH": f"{GXX_BIN}:/usr/bin:/bin"}, ["CXX", "ccache"]),
        ({"CXX": "clang++-19"}, ["CXX is not GCC", "clang version"]),
        ({"CC": "clang-19"}, ["CC is not GCC"]),
        ({"CXX": "ls"}, ["CXX is not GCC"]),
        (
            {"CC": f"gcc-{OTHER}"},
            ["not the same GCC", f"CC=gcc-{OTHER} is {OTHER}.", f"CXX=g++-{OURS} is {OURS}."],
        ),
        ({"CC": f"gcc-{OTHER}", "CXX": f"g++-{OTHER}"}, ["not the GCC of this variant", f"wanted: {OURS}"]),
        ({"cxx_compiler_version": str(OTHER)}, ["not the GCC of this variant", f"wanted: {OTHER}"]),
        ({"cxx_compiler_version": None}, ["cxx_compiler_version is no version"]),
        ({"CXX": f"gcc-{OURS}"}, ["CXX does not link C++", "set CXX to the g++"]),
        ({"CXX": f"g++-{OURS} --no-such-option"}, ["CXX is not GCC", "--no-such-option"]),
        ({"CONDA_BUILD_SYSROOT": "/no/such/sysroot"}, ["sysroot of CXX is not there", "/no/such/sysroot"]),
    ],
)
def test_compilers_stop(build: Build, changes: dict[str, str | None], words: list[str]) -> None:
    done = build.run("guard_rocm >/dev/null; guard_compilers", **changes)
    stops(done, 63, "compilers", *words)


def test_compilers_want_guard_rocm_first(build: Build) -> None:
    stops(build.run("guard_compilers"), 63, "compilers", "call guard_rocm before")


@pytest.mark.skipif(OURS != 11, reason="the floor is a minor version of GCC 11")
def test_gcc_below_the_floor_stops(build: Build) -> None:
    older = "-U__GNUC_MINOR__ -D__GNUC_MINOR__=2"
    done = build.run("guard_rocm >/dev/null; guard_compilers", CC=f"gcc-11 {older}", CXX=f"g++-11 {older}")
    stops(done, 63, "compilers", "GCC is too old", "found: 11.2.0", "wanted: 11.3 or newer")


def test_hip_compiler_that_keeps_another_gcc_stops(build: Build) -> None:
    own = build.folder / "clang"
    program(
        own / "clang++",
        'for a; do shift; case $a in --gcc-install-dir=*) ;; *) set -- "$@" "$a" ;; esac; done\n'
        f'exec {CLANG} "$@"',
    )
    changes = {"HIP_CLANG_PATH": str(own), "CC": f"gcc-{OURS}", "CXX": f"g++-{OURS}"}
    done = build.run("guard_rocm >/dev/null; guard_compilers", **changes)
    stops(done, 63, "compilers", "selects another GCC than CXX", f"wanted: {GCC_FOLDERS}/{OURS}")
    program(own / "clang++", f'case " $* " in *install-dir*) set -- "$@" --no-such;; esac; exec {CLANG} "$@"')
    done = build.run("guard_rocm >/dev/null; guard_compilers", **changes)
    stops(done, 63, "compilers", "refuses the GCC of CXX", "--no-such")


# What Debian's clang++-15 (15.0.6) and clang++-16 (16.0.6) print; they need not be installed.
OLD_CLANG = """\
case $* in
--version) echo 'Debian clang version {version}' ;;
-print-targets) echo '    amdgcn      - AMD GCN GPUs' ;;
*-print-supported-cpus*)
  printf '%s\\n' 'Available CPUs for this target:' '' $'\\tgfx908' $'\\tgfx90a' $'\\tgfx940' ;;
*) echo "clang: error: invalid target ID 'gfx942'" >&2; exit 1 ;;
esac"""


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("15.0.6", ["Clang 15 and older know no gfx942", "found: Clang 15 (", "HIP_CLANG_PATH"]),
        ("14.0.0-1ubuntu1", ["Clang 15 and older know no gfx942", "found: Clang 14 ("]),
        ("16.0.6 (15~deb12u1)", ["does not know gfx942", "Clang 16", "knows gfx908 gfx90a gfx940"]),
    ],
)
def test_clang_that_knows_no_gfx942_stops(build: Build, version: str, words: list[str]) -> None:
    own = build.folder / "clang"
    program(own / "clang++", OLD_CLANG.format(version=version))
    done = build.run("guard_rocm >/dev/null; guard_compilers", HIP_CLANG_PATH=str(own))
    stops(done, 63, "compilers", *words)


def test_clang_15_is_refused_for_every_arch(build: Build) -> None:
    own = build.folder / "clang"
    program(own / "clang++", OLD_CLANG.format(version="15.0.6"))
    changes = {"HIP_CLANG_PATH": str(own), "rocm_arch": "gfx90a", "rocm_isa": "9.0.10"}
    stops(build.run(CHECKED + " >/dev/null", **changes), 63, "compilers", "cannot be tied to the GCC of CXX")


@pytest.mark.skipif(not shutil.which("clang++-15"), reason="needs clang++-15")
def test_the_real_clang_15_stops(build: Build) -> None:
    own = build.folder / "clang"
    own.mkdir()
    (own / "clang++").symlink_to(executable("clang++-15"))
    done = build.run("guard_rocm >/dev/null; guard_compilers", HIP_CLANG_PATH=str(own))
    stops(done, 63, "compilers", "Clang 15 and older know no gfx942")


def test_hip_compiler_without_the_arch_stops(build: Build) -> None:
    changes = {"rocm_arch": "gfx1310", "rocm_isa": "13.1.0"}
    done = build.run("guard_rocm >/dev/null; guard_compilers", **changes)
    stops(done, 63, "compilers", "does not know gfx1310", "gfx942")


def test_host_flags_make_clang_read_the_headers_of_cxx(build: Build) -> None:
    names = ["HIP_HOST_FLAGS", "HIPFLAGS", "HIPCC_COMPILE_FLAGS_APPEND", "HIPCC_LINK_FLAGS_APPEND"]
    seen = build.values(CHECKED, *names, HIPFLAGS="-O2")
    flags = seen["HIP_HOST_FLAGS"]
    assert flags == f"--gcc-install-dir={GCC_FOLDERS}/{OURS}"
    assert seen["HIPFLAGS"] == f"-O2 {flags}"
    assert seen["HIPCC_COMPILE_FLAGS_APPEND"] == seen["HIPCC_LINK_FLAGS_APPEND"] == flags

    def searched(*options: str) -> str:
        assert CLANG
        command = [CLANG, *options, "-v", "-E", "-x", "c++", "/dev/null", "-o", "/dev/null"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr

    assert f"/include/c++/{OTHER}\n" in searched()
    ours = searched(flags)
    assert f"/include/c++/{OURS}\n" in ours
    assert f"/include/c++/{OTHER}\n" not in ours


def test_hip_object_depends_on_the_headers_of_cxx(build: Build, sdk_root: Path) -> None:
    (build.source / "k.hip").write_text(KERNEL)
    done = build.run(
        f"{CHECKED}; IFS=' '; $HIP_CLANG $HIPFLAGS --rocm-path=$ROCM_PATH --offload-arch=$rocm_arch"
        " -c k.hip -o k.o -MD -MF k.d"
    )
    assert done.returncode == 0, done.stderr
    dependencies = (build.source / "k.d").read_text()
    assert f"/{OURS}/vector" in dependencies
    assert f"c++/{OTHER}" not in dependencies
    assert str(sdk_root / "include/hip/hip_runtime.h") in dependencies


def test_cxx_with_launcher_and_options_is_taken_apart(build: Build) -> None:
    tools = build.folder / "tools"
    program(tools / "ccache", 'exec "$@"')
    changes = {
        "PATH": f"{tools}:{build.env['PATH']}",
        "CC": f"ccache  gcc-{OURS} -m64",
        "CXX": f"{tools}/ccache g++-{OURS} -m64 -pthread",
        "CXXFLAGS": "-O2",
    }
    args = build.cmake_args(**changes)
    assert f"-DCMAKE_CXX_COMPILER={GXX_BIN}/g++-{OURS}" in args
    assert f"-DCMAKE_C_COMPILER={GXX_BIN}/gcc-{OURS}" in args
    assert f"-DCMAKE_CXX_COMPILER_LAUNCHER={tools}/ccache" in args
    assert "-DCMAKE_C_COMPILER_LAUNCHER=ccache" in args
    assert any(arg.startswith("-DCMAKE_CXX_FLAGS=-m64 -pthread -O2 ") for arg in args)


def conda_gcc(build_prefix: Path, *, headers_in_gcc: bool) -> Path:
    """Debian's GCC in the folders of conda's compiler packages; returns the folder of the programs."""
    triple = "x86_64-conda-linux-gnu"
    debian = GCC_FOLDERS / str(OURS)
    command = [f"g++-{OURS}", "-dumpfullversion"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    gcc = build_prefix / "lib/gcc" / triple / version
    gcc.mkdir(parents=True)
    for path in debian.iterdir():
        if path.name != "include":
            (gcc / path.name).symlink_to(path)
    (gcc / "include").mkdir()
    for path in (debian / "include").iterdir():
        (gcc / "include" / path.name).symlink_to(path)
    headers = gcc / "include/c++" if headers_in_gcc else build_prefix / triple / "include/c++" / version
    headers.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-rs", GXX_BIN.parent / f"include/c++/{OURS}", headers], check=True)
    (headers / triple).symlink_to(GXX_BIN.parent / f"include/x86_64-linux-gnu/c++/{OURS}")
    sysroot = build_prefix / triple / "sysroot"
    (sysroot / "usr").mkdir(parents=True)
    for name in ("usr/include", "usr/lib", "lib", "lib64"):
        (sysroot / name).symlink_to(f"/{name}")
    programs = build_prefix / "bin"
    for ours, real in (("cc", f"gcc-{OURS}"), ("c++", f"g++-{OURS}")):
        program(
            programs / f"{triple}-{ours}",
            "case $* in\n"
            f"-print-libgcc-file-name) echo {programs}/../lib/gcc/{triple}/{version}/libgcc.a ;;\n"
            f"-print-sysroot) echo {programs}/../{triple}/sysroot ;;\n"
            f'*) exec {real} "$@" ;;\nesac',
        )
    return programs


@pytest.mark.parametrize("headers_in_gcc", [False, True], ids=["headers of old gxx", "headers of new gxx"])
def test_conda_gcc_below_the_build_prefix(build: Build, headers_in_gcc: bool) -> None:
    build_prefix = build.folder / "build_env"
    programs = conda_gcc(build_prefix, headers_in_gcc=headers_in_gcc)
    changes = {
        "PATH": f"{programs}:{build.env['PATH']}",
        "BUILD_PREFIX": str(build_prefix),
        "CC": "x86_64-conda-linux-gnu-cc",
        "CXX": f"{programs}/x86_64-conda-linux-gnu-c++",
    }
    flags = build.values(CHECKED, "HIP_HOST_FLAGS", **changes)["HIP_HOST_FLAGS"].split()
    (gcc,) = (build_prefix / "lib/gcc/x86_64-conda-linux-gnu").iterdir()
    assert flags == [f"--gcc-install-dir={gcc}", f"--sysroot={build_prefix}/x86_64-conda-linux-gnu/sysroot"]
    (build.source / "k.hip").write_text(KERNEL)
    assert CLANG
    compile_it = [CLANG, *flags, f"--rocm-path={build.env['ROCM_PATH']}", "--offload-arch=gfx942"]
    subprocess.run([*compile_it, "-fsyntax-only", "-M", "k.hip", "-MF", "k.d"], cwd=build.source, check=True)
    vector = next(word for word in (build.source / "k.d").read_text().split() if word.endswith("/vector"))
    assert vector.startswith(str(build_prefix))
    shutil.rmtree(
        gcc / "include/c++" if headers_in_gcc else build_prefix / "x86_64-conda-linux-gnu/include/c++"
    )
    done = build.run(CHECKED + " >/dev/null", **changes)
    stops(done, 63, "compilers", "the HIP compiler does not find the headers of libstdc++", "cstddef")


# --- jobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpus", "memory", "per_job", "max_jobs", "jobs"),
    [
        ("8", "16000", "2000", "", "8"),
        ("8", "15999", "2000", "", "7"),
        ("64", "6000", "1500", "", "4"),
        ("2", "600000", "1500", "", "2"),
        ("08", "012000", "1500", "", "8"),
        ("16", "32000", "1500", "3", "3"),
        ("16", "32000", "1500", "003", "3"),
        ("1", "1500", "1500", "", "1"),
    ],
)
def test_jobs(build: Build, cpus: str, memory: str, per_job: str, max_jobs: str, jobs: str) -> None:
    given = {
        "build_cpus": cpus,
        "build_memory_mib": memory,
        "memory_per_job_mib": per_job,
        "MAX_JOBS": max_jobs,
    }
    done = build.run("guard_jobs; printenv MAX_JOBS CMAKE_BUILD_PARALLEL_LEVEL", **given)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.splitlines()[1:] == [jobs, jobs]


def test_jobs_take_cpus_from_the_engine_then_from_the_machine(build: Build) -> None:
    plenty = {"build_memory_mib": "9000000", "memory_per_job_mib": "1"}
    assert build.values("guard_jobs", "MAX_JOBS", **plenty) == {"MAX_JOBS": "4"}
    here = str(len(os.sched_getaffinity(0)))
    assert build.values("guard_jobs", "MAX_JOBS", CPU_COUNT=None, **plenty) == {"MAX_JOBS": here}


def test_jobs_warn_in_one_line(build: Build) -> None:
    done = build.run("guard_jobs", build_cpus="4", build_memory_mib="6000", MAX_JOBS="9")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "guard jobs: warning: MAX_JOBS=9 is more than this machine bears"
        " (4: 4 CPUs, 6000 MiB, 1500 MiB a job)"
    ]
    done = build.run("guard_jobs; printenv MAX_JOBS", build_memory_mib="1000")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "1"
    assert "1000 MiB are free" in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory_per_job_mib", None),
        ("memory_per_job_mib", ""),
        ("memory_per_job_mib", "0"),
        ("memory_per_job_mib", "1.5"),
        ("memory_per_job_mib", "1500MiB"),
        ("MAX_JOBS", "0"),
        ("MAX_JOBS", "abc"),
        ("MAX_JOBS", "-2"),
        ("MAX_JOBS", "4 4"),
        ("build_cpus", "a[$(touch owned)]"),
        ("build_cpus", "0"),
        ("CPU_COUNT", "many"),
        ("build_memory_mib", "16G"),
        ("build_memory_mib", "99999999999999999999"),
    ],
)
def test_jobs_stop(build: Build, name: str, value: str | None) -> None:
    stops(build.run("guard_jobs", **{name: value}), 64, "jobs", name)
    assert not (build.source / "owned").exists()


MEMINFO = "MemTotal: 64000000 kB\nMemFree: 1 kB\nMemAvailable: 33554432 kB\nBuffers: 7 kB\n"


@pytest.mark.parametrize(
    ("groups", "limits", "mib"),
    [
        pytest.param("0::/\n", {}, 32768, id="no limit file"),
        pytest.param("0::/\n", {"sys/fs/cgroup/memory.max": "8589934592"}, 8192, id="v2 container"),
        pytest.param("0::/\n", {"sys/fs/cgroup/memory.max": "max"}, 32768, id="v2 max"),
        pytest.param(
            "0::/a.slice/job\n",
            {"sys/fs/cgroup/a.slice/job/memory.max": "max", "sys/fs/cgroup/a.slice/memory.max": "4294967296"},
            4096,
            id="v2 limit above",
        ),
        pytest.param(
            "0::/on/the/host\n", {"sys/fs/cgroup/memory.max": "2147483648"}, 2048, id="v2 path of the host"
        ),
        pytest.param(
            "9:cpu:/x\n4:memory:/job\n0::/\n",
            {"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1073741824"},
            1024,
            id="v1",
        ),
        pytest.param(
            "4:cpuset,memory:/job\n",
            {"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712"},
            32768,
            id="v1 no limit",
        ),
        pytest.param(
            "4:memory:/docker/0123\n",
            {"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912"},
            512,
            id="v1 path of the host",
        ),
        pytest.param(
            "0::/\n", {"sys/fs/cgroup/memory.max": "999999999999999"}, 32768, id="limit above memory"
        ),
    ],
)
def test_memory_within_cgroups(build: Build, groups: str, limits: dict[str, str], mib: int) -> None:
    root = build.folder / "machine"
    for name, text in {"proc/meminfo": MEMINFO, "proc/self/cgroup": groups, **limits}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n" if name in limits else text)
    done = build.run(f"available_memory_mib '{root}'; echo $REPLY")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{mib}\n", "")


def test_memory_of_this_machine(build: Build) -> None:
    done = build.run("available_memory_mib ''; echo $REPLY")
    available = next(
        line for line in Path("/proc/meminfo").read_text().splitlines() if "MemAvailable" in line
    )
    assert 0 < int(done.stdout) <= int(available.split()[1]) / 1024 * 1.2


# --- stale ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["build/lib/a.so", "dist/a.whl", "vllm.egg-info/SOURCES.txt", "python/triton.egg-info/PKG-INFO"]
)
def test_leftovers_stop(build: Build, name: str) -> None:
    leftover = build.source / name
    leftover.parent.mkdir(parents=True)
    leftover.write_text("old")
    stops(build.run("guard_stale"), 65, "stale", str(build.source))
    stops(build.run(f"guard_stale '{build.source}'", SRC_DIR=None), 65, "stale")


def test_clean_sources_pass(build: Build) -> None:
    (build.source / "csrc/build").mkdir(parents=True)
    (build.source / "building.md").touch()
    (build.source / "csrc/CMakeLists.txt").touch()
    assert build.run("guard_stale").returncode == 0


def test_egg_info_of_a_source_release_passes(build: Build) -> None:
    (build.source / "vllm.egg-info").mkdir()
    (build.source / "PKG-INFO").write_text("Name: vllm\nVersion: 0.26.0\n")
    shutil.copy(build.source / "PKG-INFO", build.source / "vllm.egg-info/PKG-INFO")
    assert build.run("guard_stale").returncode == 0
    (build.source / "vllm.egg-info/PKG-INFO").write_text("Name: vllm\nVersion: 0.26.0+rocm720\n")
    stops(build.run("guard_stale"), 65, "stale", "vllm.egg-info")


@pytest.mark.parametrize(
    ("line", "passes"),
    [
        ("CMAKE_HIP_ARCHITECTURES:UNINITIALIZED=gfx90a", False),
        ("GPU_TARGETS:STRING=gfx942;gfx90a", False),
        ("AMDGPU_TARGETS:STRING=gfx906", False),
        ("CMAKE_HIP_ARCHITECTURES:STRING=gfx942", True),
        ("GPU_TARGETS:STRING=", True),
        ("CMAKE_CXX_FLAGS:STRING=-O2", True),
    ],
)
def test_cmake_caches_of_another_arch_stop(build: Build, line: str, passes: bool) -> None:
    cache = build.source / "deep er/down/CMakeCache.txt"
    cache.parent.mkdir(parents=True)
    cache.write_text(f"# a comment\n\n{line}\n")
    done = build.run("guard_stale")
    if passes:
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode == 65
        assert "another arch" in done.stderr
        assert str(cache) in done.stderr


def test_stale_wants_a_folder(build: Build) -> None:
    stops(build.run("guard_stale", SRC_DIR=None), 65, "stale", "SRC_DIR is not set")
    stops(build.run("guard_stale /no/such/folder"), 65, "stale", "not there")


# --- cmake ----------------------------------------------------------------------------------------

CONDA_CMAKE_ARGS = (
    "-DCMAKE_BUILD_TYPE=Release -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER"
    " -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY"
)


def test_find_root_lets_cmake_see_rocm(build: Build) -> None:
    (build.source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(find NONE)\n"
        "find_library(LIBRARY amdhip64 PATHS $ENV{ROCM_PATH}/lib)\n"
        "find_path(INCLUDE hip/hip_version.h PATHS $ENV{ROCM_PATH}/include)\n"
        'message(STATUS "library=${LIBRARY} include=${INCLUDE}")\n'
    )
    given = f"{CONDA_CMAKE_ARGS} -DCMAKE_FIND_ROOT_PATH={build.prefix};/usr/x86_64-conda-linux-gnu/sysroot"
    cmake = "(IFS=' '; cmake -G Ninja -S . -B \"$PWD/_$1\" $CMAKE_ARGS)"
    done = build.run(f"set -- trapped; {cmake}; guard_find_root; set -- freed; {cmake}", CMAKE_ARGS=given)
    assert done.returncode == 0, done.stderr
    trapped, freed = (line for line in done.stdout.splitlines() if "library=" in line)
    assert trapped.endswith("library=LIBRARY-NOTFOUND include=INCLUDE-NOTFOUND")
    rocm = build.env["ROCM_PATH"]
    assert freed.endswith(f"library={rocm}/lib/libamdhip64.so include={rocm}/include")


def test_find_root_changes_nothing_else(build: Build) -> None:
    def after(given: str | None) -> str:
        return build.values("guard_find_root; guard_find_root", "CMAKE_ARGS", CMAKE_ARGS=given)["CMAKE_ARGS"]

    both = "-DCMAKE_FIND_ROOT_PATH_MODE_{0}=BOTH"
    assert after(None) == ""
    assert after("-DA=b") == "-DA=b"
    assert after(both.format("LIBRARY")) == both.format("LIBRARY")
    assert after(CONDA_CMAKE_ARGS) == f"{CONDA_CMAKE_ARGS} {both.format('LIBRARY')} {both.format('INCLUDE')}"
    again = f"{both.format('LIBRARY')} -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY"
    assert after(again) == f"{again} {both.format('LIBRARY')}"
    typed = "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE:STRING=ONLY"
    assert after(typed) == f"{typed} {both.format('INCLUDE')}"


def test_hip_cmake_args(build: Build) -> None:
    args = build.cmake_args(
        LDFLAGS="-Wl,-O2 -Wl,--disable-new-dtags -Wl,-rpath,/host_env/lib -Wl,-rpath-link,/host_env/lib",
        BUILD_PREFIX="/build/build_env",
        CXXFLAGS="-march=nocona",
    )
    given = dict(arg[2:].split("=", 1) for arg in args if arg.startswith("-D"))
    rocm = build.env["ROCM_PATH"]
    maps = (
        f"-ffile-prefix-map={build.source}=/usr/src/rocm-canary"
        f" -ffile-prefix-map={build.prefix}=/usr/src/prefix"
        f" -ffile-prefix-map=/build/build_env=/usr/src/build_prefix -ffile-prefix-map={rocm}=/opt/rocm"
    )
    host_flags = f"--gcc-install-dir={GCC_FOLDERS}/{OURS}"
    assert given == {
        "CMAKE_C_COMPILER": f"{GXX_BIN}/gcc-{OURS}",
        "CMAKE_CXX_COMPILER": f"{GXX_BIN}/g++-{OURS}",
        "CMAKE_HIP_COMPILER": f"{rocm}/lib/llvm/bin/clang++",
        "CMAKE_HIP_COMPILER_ROCM_ROOT": rocm,
        "CMAKE_HIP_COMPILER_LAUNCHER": str(LIB / "hip_cuid.sh"),
        "CMAKE_HIP_ARCHITECTURES": "gfx942",
        "GPU_TARGETS": "gfx942",
        "AMDGPU_TARGETS": "gfx942",
        "CMAKE_C_FLAGS": f"  {maps}",
        "CMAKE_CXX_FLAGS": f" -march=nocona {maps}",
        "CMAKE_HIP_FLAGS": f"--rocm-path={rocm} {host_flags} {maps}",
        **dict.fromkeys(
            ("CMAKE_EXE_LINKER_FLAGS", "CMAKE_SHARED_LINKER_FLAGS", "CMAKE_MODULE_LINKER_FLAGS"),
            f"-Wl,-O2 -Wl,-rpath-link,/host_env/lib -Wl,--enable-new-dtags -Wl,-rpath-link,{rocm}/lib",
        ),
        "CMAKE_PREFIX_PATH": f"{build.prefix};{rocm}",
        "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
        "CMAKE_BUILD_WITH_INSTALL_RPATH": "ON",
    }


def test_hip_cmake_args_want_the_guards_of_this_shell(build: Build) -> None:
    inherited = {"HIP_HOST_FLAGS": "-x", "CMAKE_HIP_ARCHITECTURES": "gfx942", "HIP_CLANG": str(CLANG)}
    stops(build.run("hip_cmake_args", **inherited), 63, "compilers", "call guard_arch, guard_rocm and")


def hip_unit(options: str, name: str = "a.hip") -> dict[str, str]:
    return {"directory": "/b", "command": f"clang++ {options} -x hip -c /s/{name}", "file": f"/s/{name}"}


CXX_UNIT = {"directory": "/b", "command": "g++ -march=nocona -c /s/m.cpp", "file": "/s/m.cpp"}


@pytest.mark.parametrize(
    ("units", "words"),
    [
        ([CXX_UNIT], ["no unit is compiled for a GPU"]),
        ([hip_unit("--offload-arch=gfx90a")], ["other targets", "found: gfx90a", "wanted: gfx942"]),
        ([hip_unit("--offload-arch=gfx942 --offload-arch=gfx90a")], ["found: gfx90a, gfx942"]),
        ([hip_unit('"--offload-arch=gfx942,gfx90a"')], ["found: gfx942,gfx90a"]),
        ([hip_unit("--offload-arch=gfx942:xnack-")], ["found: gfx942:xnack-"]),
        ([hip_unit("--offload-arch=gfx942"), hip_unit("--cuda-gpu-arch=gfx90a")], ["found: gfx90a, gfx942"]),
        (
            [hip_unit("--offload-arch=gfx942"), hip_unit("-march=x86-64", "b.hip")],
            ["name no target", "found: 1 in"],
        ),
    ],
)
def test_baked_arch_stops(build: Build, units: list[dict[str, str]], words: list[str]) -> None:
    (build.source / "compile_commands.json").write_text(json.dumps(units, indent=2))
    stops(build.run("check_baked_arch ."), 66, "baked-arch", *words)


def test_baked_arch_wants_compile_commands(build: Build) -> None:
    stops(
        build.run("check_baked_arch /no/such/build"),
        66,
        "baked-arch",
        "no /no/such/build/compile_commands.json",
    )


def test_a_real_project_from_guard_to_evidence(build: Build, sdk_root: Path) -> None:
    project = build.source / "project"
    project.mkdir()
    (project / "a.hip").write_text(KERNEL)
    (project / "b.hip").write_text(KERNEL.replace("twice", "again").replace("run(", "rerun("))
    (project / "m.cpp").write_text(
        "#include <cstdio>\n#include <hip/hip_runtime_api.h>\n"
        "int main() { int n; std::puts(hipGetErrorString(hipGetDeviceCount(&n))); }\n"
    )
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(p LANGUAGES CXX HIP)\n"
        "find_package(hip REQUIRED CONFIG)\n"
        "add_library(k SHARED a.hip b.hip)\nadd_executable(m m.cpp)\n"
        "target_link_libraries(k PRIVATE hip::host)\ntarget_link_libraries(m PRIVATE k hip::host)\n"
        'set_target_properties(k m PROPERTIES INSTALL_RPATH "$ORIGIN/")\n'
    )
    done = build.run(
        f"{CHECKED}; guard_jobs; guard_find_root; guard_network; hip_cmake_args;"
        "(IFS=' '; cmake -S project -B _b -G Ninja \"${HIP_CMAKE_ARGS[@]}\" $CMAKE_ARGS); cmake --build _b;"
        "check_baked_arch _b; record_evidence _b",
        CMAKE_ARGS=CONDA_CMAKE_ARGS,
        LD_RUN_PATH=str(build.prefix / "lib"),
        LDFLAGS=f"-Wl,--disable-new-dtags -Wl,-rpath,{build.prefix}/lib",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Could not use" not in done.stdout + done.stderr

    library = build.source / "_b/libk.so"
    dynamic = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True).stdout
    assert "Library runpath: [$ORIGIN/]" in dynamic
    assert "rpath:" not in dynamic
    content = library.read_bytes()
    assert str(build.folder).encode() not in content
    assert str(sdk_root).encode() not in content

    evidence = build.prefix / "share/rocm-channel/rocm-canary"
    record = json.loads((evidence / "build.json").read_text())
    assert {
        name: record[name] for name in ("version", "rocm_arch", "rocm_version", "toolchain", "hip_sdk")
    } == {
        "version": 1,
        "rocm_arch": "gfx942",
        "rocm_version": "7.2",
        "toolchain": "host",
        "hip_sdk": "debian",
    }
    assert (record["rocm_kind"], record["rocm_release"]) == ("debian", "5.7.1")
    assert record["hip_version"].startswith("5.7.")
    assert record["gcc_version"].startswith(f"{OURS}.")
    assert record["gcc_version"] in record["cxx_compiler"]
    assert "clang version 19." in record["hip_compiler"]
    assert "$PREFIX/lib" in record["flags"]["LDFLAGS"]
    commands = json.loads((evidence / "compile_commands.json").read_text())
    assert sorted(Path(unit["file"]).name for unit in commands) == ["a.hip", "b.hip", "m.cpp"]
    assert all(unit["file"].startswith("$SRC_DIR/project/") for unit in commands)
    assert all("$ROCM_PATH" in unit["command"] for unit in commands)
    for path in evidence.iterdir():
        assert str(build.folder) not in path.read_text()
        assert str(sdk_root) not in path.read_text()


# --- reproducible device code ---------------------------------------------------------------------


BARE_KERNEL = """\
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*);
extern "C" int __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, void*);
__attribute__((global)) void k(float* x) { *x *= 2; }
"""


def device_code(folder: Path, launcher: list[str], package: str = "rocm-canary") -> str:
    """sha256 of the device code of one kernel, compiled in ``folder`` as Ninja would."""
    (folder / "_b/CMakeFiles/k.dir").mkdir(parents=True, exist_ok=True)
    (folder / "k.hip").write_text(BARE_KERNEL)
    assert CLANG
    flags = ["-nogpuinc", "-nogpulib", "--offload-arch=gfx942", "-O2", "-fPIC"]
    subprocess.run(
        [*launcher, CLANG, *flags, "-o", "CMakeFiles/k.dir/k.hip.o", "-x", "hip", "-c", f"{folder}/k.hip"],
        cwd=folder / "_b",
        env={"PATH": os.environ["PATH"], "PKG_NAME": package, "SRC_DIR": str(folder)},
        check=True,
    )
    code = folder / "fatbin"
    subprocess.run(
        [
            *("objcopy", "-O", "binary", "--only-section=.hip_fatbin"),
            *("--set-section-flags", ".hip_fatbin=alloc"),
            *(folder / "_b/CMakeFiles/k.dir/k.hip.o", code),
        ],
        check=True,
    )
    assert code.stat().st_size > 1000
    return hashlib.sha256(code.read_bytes()).hexdigest()


def test_launcher_makes_device_code_the_same_in_two_folders(build: Build) -> None:
    first, second = build.folder / "first", build.folder / "second folder"
    launcher = [str(LIB / "hip_cuid.sh")]
    assert device_code(first, []) != device_code(second, [])
    assert device_code(first, launcher) == device_code(second, launcher)
    assert device_code(first, launcher) != device_code(first, launcher, "another-package")


@pytest.mark.parametrize(
    ("arguments", "source", "named_as"),
    [
        (["-c", "a.hip", "-o", "d/a.o"], "{here}", "p/d/a.o"),
        (["-c", "a.hip", "-o", "d/a.o"], "", "p/d/a.o"),
        (["-c", "a.hip", "-o", "d/a.o"], "{above}", "p/_b/d/a.o"),
        (["-c", "a.hip", "-o", "{here}/d/a.o"], "/elsewhere", "p/d/a.o"),
        (["-c", "a.hip", "-od/a.o"], "{here}", "p/d/a.o"),
        (["-o", "lib k.so", "a.o"], "{here}", None),
        (["-c", "a.hip"], "{here}", None),
        (["-c", "a.hip", "-o", "a.o", "-cuid=7"], "{here}", None),
    ],
)
def test_launcher_names_objects_by_their_path(
    build: Build, arguments: list[str], source: str, named_as: str | None
) -> None:
    here = build.source / "_b"
    here.mkdir()
    given = [word.format(here=here) for word in arguments]
    done = subprocess.run(
        [LIB / "hip_cuid.sh", "printf", "%s\\n", *given],
        cwd=here,
        env={
            "PATH": os.environ["PATH"],
            "PKG_NAME": "p",
            "SRC_DIR": source.format(here=here, above=build.source),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    added = [] if named_as is None else [f"-cuid={hashlib.sha256(named_as.encode()).hexdigest()[:16]}"]
    assert done.stdout.splitlines() == [*given, *added]


def test_launcher_passes_the_exit_status_on() -> None:
    done = subprocess.run([LIB / "hip_cuid.sh", "bash", "-c", "exit 7"], check=False)
    assert done.returncode == 7


# --- network --------------------------------------------------------------------------------------

LEAKED = {
    "HTTP_PROXY": "http://proxy.invalid:3128",
    "https_proxy": "http://proxy.invalid:3128",
    "NO_PROXY": "*",
    "PIP_INDEX_URL": "https://index.invalid/simple",
    "PIP_FIND_LINKS": "https://index.invalid/wheels",
}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["git", "clone", "https://github.com/ROCm/TheRock", "t"], "transport 'https' not allowed"),
        (["git", "clone", "git@github.com:ROCm/TheRock", "t"], "transport 'ssh' not allowed"),
        (["curl", "-sS", "https://github.com"], "127.0.0.1 port 9"),
        (["curl", "-sS", "http://github.com"], "127.0.0.1 port 9"),
        (
            [sys.executable, "-m", "pip", "download", "--no-deps", "six"],
            "No matching distribution found for six",
        ),
        (
            [sys.executable, "-c", "import urllib.request as u; u.urlopen('https://github.com', timeout=60)"],
            "Connection refused",
        ),
    ],
)
def test_downloads_fail_at_once(build: Build, command: list[str], words: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    if "pip" in command:
        pytest.importorskip("pip")
    start = time.monotonic()
    done = build.run(f"guard_network; {shlex.join(command)}", **LEAKED)
    assert time.monotonic() - start < 10
    assert done.returncode != 0
    assert words in done.stderr


def test_cmake_fetches_nothing(build: Build) -> None:
    (build.source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(fetch NONE)\ninclude(FetchContent)\n"
        "FetchContent_Declare(kernels GIT_REPOSITORY https://github.com/triton-lang/triton GIT_TAG v3.5.0)\n"
        "FetchContent_MakeAvailable(kernels)\n"
    )
    start = time.monotonic()
    done = build.run("guard_network; IFS=' '; cmake -G Ninja -S . -B _b $CMAKE_ARGS", **LEAKED)
    assert time.monotonic() - start < 10
    assert not list(build.source.glob("_b/_deps/kernels-src/*"))
    assert "Cloning" not in done.stdout + done.stderr


def test_network_guard_keeps_the_given_cmake_args(build: Build) -> None:
    seen = build.values("guard_network; guard_network", "CMAKE_ARGS", CMAKE_ARGS="-DA=b")
    assert seen == {"CMAKE_ARGS": "-DA=b -DFETCHCONTENT_FULLY_DISCONNECTED=ON"}


# --- evidence -------------------------------------------------------------------------------------

HOSTILE = [
    "",
    'say "hello"',
    "back\\slash \\n \\u0041 \\",
    "two\nlines\r\n\n",
    "\t\b\f\x1b[31m\x7f\x01",
    "$HOME `id` $(id) & && ;|",
    "grün 漢字 🚀 e\u0301",
    "/a/b=/c",
    "&&\\1\\0",
]


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", None])
def test_evidence_is_json_for_any_content(build: Build, locale: str | None) -> None:
    for text in HOSTILE:
        done = build.run(
            "guard_rocm >/dev/null; record_evidence",
            CXXFLAGS=text,
            toolchain=text,
            PKG_VERSION=text,
            LC_ALL=locale,
        )
        assert done.returncode == 0, done.stderr
        record = json.loads((build.prefix / "share/rocm-channel/rocm-canary/build.json").read_bytes())
        assert record["flags"]["CXXFLAGS"] == record["toolchain"] == record["package_version"] == text


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\0", b"\1")), min_size=1, max_size=30)
    | st.lists(
        st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=30
    ).map(lambda texts: [text.encode() for text in texts])
)
def test_json_string_takes_all_bytes(texts: list[bytes]) -> None:
    script = f". '{LIB}/json.sh'; for text; do json_string \"$text\"; printf '%s\\n' \"$REPLY\"; done"
    done = subprocess.run(
        [b"bash", b"-c", script.encode(), b"bash", *texts],
        capture_output=True,
        env={"LC_ALL": "C.UTF-8"},
        check=True,
    )
    lines = done.stdout.split(b"\n")[:-1]
    assert len(lines) == len(texts)
    for line, text in zip(lines, texts, strict=True):
        decoded = json.loads(line.decode())
        try:
            assert decoded == text.decode()
        except UnicodeDecodeError:
            assert len(decoded) == len(text)
            assert "\ufffd" in decoded


def test_evidence_has_words_for_folders(build: Build) -> None:
    source = build.folder / 'wo"rk [1].*'
    source.mkdir()
    nested = source / "nested prefix"
    (nested / "share").mkdir(parents=True)
    flags = f"-I{source}/include -L{nested}/lib {source} {source}s -x={nested}"
    done = build.run(
        "guard_rocm >/dev/null; record_evidence", SRC_DIR=str(source), PREFIX=str(nested), CXXFLAGS=flags
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((nested / "share/rocm-channel/rocm-canary/build.json").read_text())
    assert record["flags"]["CXXFLAGS"] == f"-I$SRC_DIR/include -L$PREFIX/lib $SRC_DIR {source}s -x=$PREFIX"


def test_evidence_stops(build: Build) -> None:
    stops(build.run("record_evidence"), 67, "evidence", "call guard_rocm before")
    ready = "guard_rocm >/dev/null; record_evidence"
    stops(build.run(ready, PREFIX=None), 67, "evidence", "PREFIX or PKG_NAME is not set")
    stops(build.run(f"{ready} /no/such/build"), 67, "evidence", "no /no/such/build/compile_commands.json")
    stops(build.run(ready, PREFIX="/dev/null"), 67, "evidence", "cannot be made")
