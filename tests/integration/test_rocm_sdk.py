"""The SDK root that ``build_scripts/rocm_sdk.sh`` makes from Debian packages: made, used, moved, and refused.

HIP code is compiled and linked for two targets; nothing runs on a GPU.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.integration import debian_scripts
from tests.integration.debian_scripts import BUILD_SCRIPTS, in_mount_namespace, path_without

SCRIPT = BUILD_SCRIPTS / "rocm_sdk.sh"
VENV_BIN = Path(sys.executable).parent
TOOLS = ("apt-get", "dpkg-deb", "clang-19", "clang-offload-bundler-19", "ld.lld-19", "llvm-readelf-19")

pytestmark = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in TOOLS), reason=f"needs {' '.join(TOOLS)}"
)

PROGRAM = """\
#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void twice(float* x) { x[threadIdx.x] *= 2; }
int main() {
  float* x = nullptr;
  hipError_t error = hipMalloc(&x, 64 * sizeof(float));
  twice<<<1, 64>>>(x);
  std::printf("%d %d %s\\n", error, hipGetLastError(), hipGetErrorString(error));
}
"""
PROJECT = """\
cmake_minimum_required(VERSION 3.21)
project(consumer LANGUAGES CXX HIP)
find_package(hip REQUIRED CONFIG)
find_package(AMDDeviceLibs REQUIRED CONFIG)
add_executable(consumer main.hip)
target_link_libraries(consumer PRIVATE hip::host)
get_target_property(library hip::amdhip64 IMPORTED_LOCATION_RELEASE)
get_target_property(bitcode ocml IMPORTED_LOCATION)
foreach(path IN ITEMS "${library}" "${bitcode}" "${HIP_CLANG_ROOT}/bin/clang++" "${hip_INCLUDE_DIR}")
  if(NOT EXISTS "${path}")
    message(FATAL_ERROR "not there: ${path}")
  endif()
  message(STATUS "found=${path}")
endforeach()
"""


def run(*arguments: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
    return debian_scripts.run_script("rocm_sdk.sh", *arguments, **changes)


def refuses(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    debian_scripts.refuses(done, "rocm_sdk", code, *words)


def marker(sdk: Path) -> dict[str, str]:
    return debian_scripts.marker(sdk / ".rocm-channel-sdk")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SDK root made for this module, below folders that did not exist."""
    sdk = tmp_path_factory.mktemp("sdk") / "not" / "there" / "sdk"
    done = run(sdk)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert [line.split("]")[0] for line in done.stdout.splitlines()[:-1]] == [
        f"rocm_sdk: [{step}/5" for step in range(1, 6)
    ]
    assert done.stdout.splitlines()[-1] == f"rocm_sdk: {sdk} is ready (HIP 5.7.1 of Debian trixie)"
    assert all(len(line) < 160 for line in done.stdout.splitlines())
    return sdk


# --- made ------------------------------------------------------------------------------------


@pytest.mark.network
def test_root_has_the_layout_of_rocm(fresh: Path) -> None:
    for name in (
        "include/hip/hip_runtime.h",
        "lib/libamdhip64.so.5",
        "lib/cmake/hip/hip-config.cmake",
        "amdgcn/bitcode/oclc_isa_version_90a.bc",
        "amdgcn/bitcode/oclc_isa_version_942.bc",
        "bin",
    ):
        assert (fresh / name).exists(), name
    clang = Path(shutil.which("clang++-19") or "").resolve()
    assert (fresh / "lib/llvm/bin/clang++").resolve() == clang
    assert (fresh / "llvm/bin/clang++").resolve() == clang
    assert [path.name for path in fresh.parent.iterdir()] == ["sdk"]


@pytest.mark.network
def test_marker_says_what_it_is(fresh: Path) -> None:
    given = marker(fresh)
    assert (given["kind"], given["hip"], given["suite"]) == ("debian", "5.7.1", "trixie")
    packages = given["packages"].split()
    assert len(packages) == 8
    assert any(name.startswith("libamdhip64-dev_5.7.1-") for name in packages)


@pytest.mark.network
def test_no_path_of_this_machine_is_in_it(fresh: Path) -> None:
    for path in fresh.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            assert str(fresh.parent).encode() not in content, path
            if path.suffix == ".cmake":
                assert b'"/usr' not in content, path


@pytest.mark.network
def test_second_run_does_nothing_and_is_fast(fresh: Path) -> None:
    before = (fresh / ".rocm-channel-sdk").stat().st_mtime_ns
    start = time.monotonic()
    done = run(fresh)
    assert time.monotonic() - start < 0.5
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"rocm_sdk: {fresh} is complete (HIP 5.7.1 of Debian trixie), nothing to do\n"
    assert (fresh / ".rocm-channel-sdk").stat().st_mtime_ns == before


@pytest.mark.network
def test_stub_has_name_exports_and_versions_of_the_library(fresh: Path) -> None:
    def readelf(*options: str) -> str:
        command = ["llvm-readelf-19", *options, str(fresh / "lib/libamdhip64.so")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "soname: [libamdhip64.so.5]" in readelf("-d")
    assert "NEEDED" not in readelf("-d")
    exported = {line.split()[-1] for line in readelf("--dyn-syms", "-W").splitlines() if "@@" in line}
    assert len(exported) == 459
    assert {"hipMalloc@@hip_4.2", "__hipRegisterFatBinary@@hip_4.2", "hipLaunchKernel@@hip_4.2"} <= exported
    assert {name.split("@@")[1] for name in exported} >= {"hip_4.2", "hip_4.5", "hip_5.3", "hip_5.6"}


# --- used ------------------------------------------------------------------------------------


@pytest.mark.network
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_both_targets_compile_and_link(fresh: Path, tmp_path: Path, arch: str) -> None:
    (tmp_path / "main.hip").write_text(PROGRAM)
    options = ["-x", "hip", f"--rocm-path={fresh}", f"--offload-arch={arch}"]
    compiler = str(fresh / "lib/llvm/bin/clang++")
    subprocess.run([compiler, *options, "main.hip", "-o", "program"], cwd=tmp_path, check=True)
    targets = {
        word for word in (tmp_path / "program").read_bytes().split(b"\0") if word.startswith(b"hipv4-amdgcn")
    }
    assert len(targets) == 1
    assert targets.pop().startswith(f"hipv4-amdgcn-amd-amdhsa--{arch}".encode())
    # The stub answers hipErrorNoDevice (100), so that nothing made here can seem to have used a GPU.
    done = subprocess.run(
        [tmp_path / "program"],
        env={"LD_LIBRARY_PATH": str(fresh / "lib")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "100 100 no GPU: this library is a stub for linking\n"


def consume(folder: Path, rocm: Path) -> list[str]:
    """A command line that builds the CMake project in ``folder`` against ``rocm``."""
    folder.mkdir(exist_ok=True)
    (folder / "main.hip").write_text(PROGRAM)
    (folder / "CMakeLists.txt").write_text(PROJECT)
    options = {
        "CMAKE_HIP_COMPILER": f"{rocm}/lib/llvm/bin/clang++",
        "CMAKE_HIP_COMPILER_ROCM_ROOT": str(rocm),
        "CMAKE_HIP_ARCHITECTURES": "gfx90a;gfx942",
        "CMAKE_HIP_FLAGS": f"--rocm-path={rocm}",
        "CMAKE_PREFIX_PATH": str(rocm),
    }
    configure = ["cmake", "-G", "Ninja", "-S", str(folder), "-B", f"{folder}/_b"]
    configure += [f"-D{name}={value}" for name, value in options.items()]
    return ["bash", "-ec", f"{shlex.join(configure)} && cmake --build {shlex.quote(str(folder))}/_b"]


def found_below(rocm: Path, output: str) -> bool:
    found = [line.split("found=")[1] for line in output.splitlines() if "found=" in line]
    return len(found) == 4 and all(path.startswith(f"{rocm}/") for path in found)


def with_venv() -> Mapping[str, str]:
    return {**os.environ, "PATH": f"{VENV_BIN}:{os.environ['PATH']}"}


@pytest.mark.network
def test_moved_root_still_works(fresh: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved root"
    shutil.copytree(fresh, moved, symlinks=True)
    hidden = fresh.with_name("hidden")
    fresh.rename(hidden)
    try:
        project = consume(tmp_path / "project", tmp_path / "rocm")
        moved.rename(tmp_path / "rocm")
        done = subprocess.run(project, env=with_venv(), capture_output=True, text=True, check=False)
    finally:
        hidden.rename(fresh)
    assert done.returncode == 0, done.stdout + done.stderr
    assert found_below(tmp_path / "rocm", done.stdout)


@pytest.mark.network
def test_root_mounted_at_opt_rocm_works(fresh: Path, tmp_path: Path) -> None:
    project = shlex.join(consume(tmp_path / "project", Path("/opt/rocm")))
    done = in_mount_namespace(
        "mount -t tmpfs tmpfs /opt; mkdir /opt/rocm;"
        f"mount --bind {shlex.quote(str(fresh))} /opt/rocm; {project}",
        PATH=f"{VENV_BIN}:{os.environ['PATH']}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert found_below(Path("/opt/rocm"), done.stdout)


# --- made again ------------------------------------------------------------------------------


@pytest.mark.network
def test_damaged_root_is_made_again_once_by_two_runs(fresh: Path, tmp_path: Path) -> None:
    sdk = tmp_path / "sdk"
    shutil.copytree(fresh, sdk, symlinks=True)
    (sdk / "amdgcn/bitcode/ocml.bc").unlink()
    (tmp_path / "sdk.partial.1" / "left").mkdir(parents=True)
    runs = [
        subprocess.Popen(["bash", SCRIPT, sdk], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = sorted(process.communicate(timeout=300) for process in runs)
    assert [process.returncode for process in runs] == [0, 0], outputs
    last = sorted(output.splitlines()[-1].split(" is ")[1].split(" (")[0] for output, _ in outputs)
    assert last == ["complete", "ready"]
    assert (sdk / "amdgcn/bitcode/ocml.bc").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["sdk"]


@pytest.mark.network
def test_force_makes_a_complete_root_again(fresh: Path, tmp_path: Path) -> None:
    sdk = tmp_path / "sdk"
    shutil.copytree(fresh, sdk, symlinks=True)
    (sdk / "extra").touch()
    done = run("--force", sdk)
    assert done.returncode == 0, done.stderr
    assert not (sdk / "extra").exists()
    assert marker(sdk) == marker(fresh)


# --- stopped ---------------------------------------------------------------------------------


@pytest.mark.network
@pytest.mark.parametrize(
    ("stop", "to_group", "code", "step"),
    [
        (signal.SIGINT, True, 130, "[1/5]"),
        (signal.SIGINT, True, 130, "[3/5]"),
        (signal.SIGTERM, False, 143, "[1/5]"),
        (signal.SIGHUP, True, 129, "[2/5]"),
    ],
    ids=["Ctrl-C in the list", "Ctrl-C while unpacking", "kill of the script alone", "closed terminal"],
)
def test_stopped_run_leaves_nothing(
    tmp_path: Path, stop: signal.Signals, to_group: bool, code: int, step: str
) -> None:
    process = subprocess.Popen(
        ["bash", SCRIPT, tmp_path / "made" / "sdk"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    while step not in process.stdout.readline():
        assert process.poll() is None
    if to_group:
        os.killpg(process.pid, stop)
    else:
        os.kill(process.pid, stop)
    stopped = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - stopped < 5
    assert process.returncode == code
    assert errors == ""
    assert list(tmp_path.iterdir()) == []
    assert ends_soon(process.pid)


def ends_soon(group: int) -> bool:
    """Whether no process of the group is left after a moment."""
    for _ in range(50):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_full_disk_stops_with_one_line(tmp_path: Path) -> None:
    done = in_mount_namespace(
        f"mount -t tmpfs -o size=8m tmpfs {tmp_path}; code=0; bash {SCRIPT} {tmp_path}/made/sdk || code=$?;"
        f"ls -A {tmp_path}; exit $code"
    )
    refuses(done, 41, f"not enough room in {tmp_path}/made", "8 MiB free", "160 MiB")
    assert done.stdout == ""


@pytest.mark.network
def test_disk_that_fills_up_meanwhile_stops_with_one_line(tmp_path: Path) -> None:
    done = in_mount_namespace(
        f"set -o pipefail; mount -t tmpfs -o size=170m tmpfs {tmp_path}; cd {tmp_path}; code=0;"
        f"bash {SCRIPT} {tmp_path}/made/sdk | while read -r line; do case $line in"
        " *1/5*) head -c 140M /dev/zero >filler ;; esac; done || code=$?;"
        "rm filler; ls -A; exit $code"
    )
    refuses(done, 41, f"no space left in {tmp_path}/made")
    assert done.stdout == ""


# --- refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patterns", "named", "packages"),
    [
        (
            ["clang*-19", "ld.lld-19", "llvm-*-19"],
            "clang++-19",
            "clang-19 clang-tools-19 lld-19 llvm-19",
        ),
        (["ld.lld-19"], "ld.lld-19", "lld-19"),
        (["llvm-readelf-19"], "llvm-readelf-19", "llvm-19"),
        (["clang-offload-bundler-19"], "clang-offload-bundler-19", "clang-tools-19"),
        (["apt-get", "dpkg-deb"], "apt-get, dpkg-deb", "apt dpkg"),
    ],
)
def test_missing_programs_are_named_with_their_packages(
    tmp_path: Path, patterns: list[str], named: str, packages: str
) -> None:
    done = run(tmp_path / "sdk", PATH=path_without(tmp_path / "bin", *patterns))
    refuses(done, 13, named, f"fix: apt-get install -y --no-install-recommends {packages}\n".rstrip())
    assert done.stderr.endswith(f" {packages}\n")
    assert not (tmp_path / "sdk").exists()


def apt_config(folder: Path, sources: Mapping[str, str]) -> str:
    """A configuration of apt with ``sources``, and no list that was ever fetched."""
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "parts").mkdir()
    for name, text in sources.items():
        (folder / "parts" / name).write_text(text)
    (folder / "apt.conf").write_text(
        f'Dir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "{folder}/parts";\n'
        f'Dir::State::lists "{folder}/lists";\n'
    )
    return str(folder / "apt.conf")


def os_release(key: str) -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line).get(key, "").strip('"')


NOT_DEBIAN = {
    "more.list": "deb http://tools.invalid/apt {0}-tools main\ndeb http://tools.invalid/ce {0} stable\n",
}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("debian.list", "deb file:/no/mirror/debian {0} main contrib\n"),
        ("debian.list", "deb [arch=amd64] file:/no/mirror/debian/ {0} contrib main\n"),
        (
            "debian.sources",
            "Types: deb deb-src\nURIs: file:/no/mirror/debian\nSuites: {0} {0}-updates\nComponents: main\n",
        ),
        ("debian.list", "deb file:/no/mirror/debian stable main\n"),
    ],
    ids=["one line", "one line with options", "deb822", "named stable"],
)
def test_mirror_is_the_one_of_the_apt_sources(tmp_path: Path, name: str, text: str) -> None:
    if os_release("ID") != "debian":
        pytest.skip("needs Debian")
    sources = {key: value.format(os_release("VERSION_CODENAME")) for key, value in NOT_DEBIAN.items()}
    sources[f"z-{name}"] = text.format(os_release("VERSION_CODENAME"))
    done = run(tmp_path / "sdk", APT_CONFIG=apt_config(tmp_path / "apt", sources), DEBIAN_MIRROR="")
    assert "fetch the package list of Debian trixie from file:/no/mirror/debian" in done.stdout
    refuses(done, 14, "cannot fetch the package list", "/no/mirror/debian", "found: E: ", "DEBIAN_MIRROR")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["apt"]


def test_no_mirror_asks_for_one(tmp_path: Path) -> None:
    sources = {key: value.format("bookworm") for key, value in NOT_DEBIAN.items()}
    done = run(tmp_path / "sdk", APT_CONFIG=apt_config(tmp_path / "apt", sources), DEBIAN_MIRROR="")
    refuses(done, 14, "name no Debian mirror", "set DEBIAN_MIRROR")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["apt"]


def test_ubuntu_has_no_debian_mirror(tmp_path: Path) -> None:
    release = tmp_path / "os-release"
    release.write_text('NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n')
    source = "Types: deb\nURIs: http://archive.invalid/ubuntu\nSuites: noble stable\nComponents: main\n"
    done = in_mount_namespace(
        f"mount --bind {release} $(realpath /etc/os-release); bash {SCRIPT} {tmp_path}/sdk",
        APT_CONFIG=apt_config(tmp_path / "apt", {"ubuntu.sources": source}),
        DEBIAN_MIRROR="",
    )
    refuses(done, 14, "name no Debian mirror", "set DEBIAN_MIRROR")


@pytest.mark.parametrize(
    ("mirror", "words"),
    [
        ("http://127.0.0.1:9/debian", ["cannot fetch the package list", "http://127.0.0.1:9/debian"]),
        ("file:/no/such/mirror", ["cannot fetch the package list", "/no/such/mirror"]),
        ("not an address", ["DEBIAN_MIRROR is no address", "found: not an address"]),
        ("http://a.invalid/x\nTrusted: yes", ["DEBIAN_MIRROR is no address"]),
    ],
)
def test_mirror_without_debian_is_refused(tmp_path: Path, mirror: str, words: list[str]) -> None:
    done = run(tmp_path / "made" / "sdk", DEBIAN_MIRROR=mirror)
    refuses(done, 14, *words)
    assert list(tmp_path.iterdir()) == []


def test_folder_of_others_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    refuses(run("--force", tmp_path), 41, "holds files that this script did not make")
    (tmp_path / "include").rmdir()
    (tmp_path / ".hidden").touch()
    refuses(run(tmp_path), 41, "holds files that this script did not make")
    refuses(run(tmp_path / ".hidden"), 41, "is not a folder")
    refuses(run(tmp_path / ".hidden" / "sdk"), 41, "cannot make the folder")
    assert [path.name for path in tmp_path.iterdir()] == [".hidden"]


@pytest.mark.parametrize("arguments", [[], [""], ["a", "b"], ["--fast", "a"], ["/"]])
def test_wrong_usage(arguments: list[str]) -> None:
    refuses(run(*arguments), 2, "rocm_sdk.sh [--force] DEST")
