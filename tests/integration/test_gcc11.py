"""Debian 12's GCC 11 that ``build_scripts/gcc11.sh`` puts into a folder: made, used by every build, refused.

Programs are found through a PATH without this machine's own GCC, so that only the private one can answer.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from channel_tools.build.host_tools import find_bridges
from channel_tools.model.errors import ToolMissingError
from tests.integration import debian_scripts
from tests.integration.debian_scripts import BUILD_SCRIPTS, in_mount_namespace, path_without, run_script
from tests.integration.helpers import answer, rocm_channel

VENV_BIN = Path(sys.executable).parent
GCC = "usr/lib/gcc/x86_64-linux-gnu/11"
TOOLS = ("apt-get", "dpkg-deb", "ld", "readelf", "clang++-19")
NO_GCC = ("gcc*", "g++*", "cpp*", "c++*", "cc", "x86_64-linux-gnu-g*", "x86_64-linux-gnu-cpp*")

pytestmark = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in TOOLS), reason=f"needs {' '.join(TOOLS)}"
)

PROGRAM = """\
#include <iostream>
#include <string>
#include <thread>
#include <vector>
int main() {
  std::vector<std::string> words{"threads", "and", "strings"};
  std::thread([&] { words.push_back("of"); }).join();
#pragma omp parallel
  { (void)words.size(); }
  std::cout << words.size() << " " << _GLIBCXX_RELEASE << " " << __VERSION__ << "\\n";
}
"""


def refuses(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    debian_scripts.refuses(done, "gcc11", code, *words)


def run(*arguments: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
    return run_script("gcc11.sh", *arguments, **changes)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private GCC made for this module."""
    gcc = tmp_path_factory.mktemp("cache") / "gcc-11"
    packages = Path("/var/lib/dpkg/status")
    before = packages.stat().st_mtime_ns
    done = run(gcc)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert [line.split("]")[0] for line in done.stdout.splitlines()[:-1]] == [
        f"gcc11: [{step}/4" for step in range(1, 5)
    ]
    assert done.stdout.splitlines()[-1] == f"gcc11: {gcc} is ready (GCC 11.3.0 of Debian bookworm)"
    assert [path.name for path in gcc.parent.iterdir()] == ["gcc-11"]
    assert packages.stat().st_mtime_ns == before
    return gcc


@pytest.fixture(scope="module")
def no_gcc(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH without any GCC."""
    path = path_without(tmp_path_factory.mktemp("path") / "bin", *NO_GCC)
    assert shutil.which("clang++-19", path=path) and shutil.which("ld", path=path)
    assert not any(shutil.which(name, path=path) for name in ("gcc", "g++", "gcc-11", "g++-11", "g++-12"))
    return path


def build(folder: Path, compiler: Path | str, *options: str, path: str) -> Path:
    """``PROGRAM`` compiled and linked."""
    (folder / "program.cpp").write_text(PROGRAM)
    command = [compiler, *options, "program.cpp", "-o", "program", "-MD", "-MF", "headers"]
    done = subprocess.run(
        command, cwd=folder, env={"PATH": path}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder / "program"


def says(program: Path) -> str:
    return subprocess.run([program], env={}, capture_output=True, text=True, check=True).stdout


def needed(program: Path) -> set[str]:
    listed = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"NEEDED.*\[(.*)\]", listed))


# --- made ------------------------------------------------------------------------------------


@pytest.mark.network
def test_marker_says_what_it_is(fresh: Path) -> None:
    given = debian_scripts.marker(fresh / ".rocm-channel-gcc")
    assert (given["kind"], given["gcc"], given["suite"]) == ("debian", "11.3.0", "bookworm")
    assert len(given["packages"].split()) == 10


@pytest.mark.network
def test_second_run_does_nothing_and_is_fast(fresh: Path) -> None:
    before = (fresh / ".rocm-channel-gcc").stat().st_mtime_ns
    start = time.monotonic()
    done = run(fresh)
    assert time.monotonic() - start < 0.5
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"gcc11: {fresh} is complete (GCC 11.3.0 of Debian bookworm), nothing to do\n"
    assert (fresh / ".rocm-channel-gcc").stat().st_mtime_ns == before


@pytest.mark.network
def test_no_path_of_this_machine_is_in_it(fresh: Path) -> None:
    wrappers = [fresh / GCC / name for name in ("cc1", "cc1plus", "lto1")]
    assert all(str(fresh.parent) not in wrapper.read_text() for wrapper in wrappers)
    links = [path for path in fresh.rglob("*") if path.is_symlink()]
    assert links and not any(str(path.readlink()).startswith(str(fresh)) for path in links)


@pytest.mark.network
def test_a_library_that_the_host_lacks_is_not_linked_from_an_archive(fresh: Path) -> None:
    links = [path for path in (fresh / GCC).glob("lib*.so") if path.is_symlink()]
    assert {"libgomp.so", "libstdc++.so", "libasan.so"} <= {link.name for link in links}
    for link in links:
        assert link.readlink().parent == Path("/usr/lib/x86_64-linux-gnu")
        assert link.name == "libstdc++.so" or not link.with_suffix(".a").exists()


# --- used ------------------------------------------------------------------------------------


@pytest.mark.network
@pytest.mark.parametrize("options", [["-O2"], ["-O2", "-flto"], ["-fopenmp"]], ids=["plain", "LTO", "OpenMP"])
def test_gxx_compiles_and_links_with_its_own_headers(
    fresh: Path, no_gcc: str, tmp_path: Path, options: list[str]
) -> None:
    program = build(tmp_path, fresh / "usr/bin/g++-11", *options, path=no_gcc)
    assert says(program) == "4 11 11.3.0\n"
    assert "libstdc++.so.6" in needed(program)
    assert ("libgomp.so.1" in needed(program)) == ("-fopenmp" in options)
    headers = (tmp_path / "headers").read_text().replace("\\\n", " ").split()[2:]
    versioned = [Path(os.path.normpath(name)) for name in headers if "/gcc/" in name or "/c++/" in name]
    assert len(versioned) > 50
    assert all(name.is_relative_to(fresh) for name in versioned)


@pytest.mark.network
def test_clang_selects_it(fresh: Path, no_gcc: str, tmp_path: Path) -> None:
    program = build(tmp_path, "clang++-19", f"--gcc-install-dir={fresh / GCC}", path=no_gcc)
    assert says(program).startswith("4 11 Debian Clang 19.")
    assert "libstdc++.so.6" in needed(program)


@pytest.mark.network
def test_moved_gcc_works(fresh: Path, no_gcc: str, tmp_path: Path) -> None:
    moved = tmp_path / "moved here" / "gcc"
    shutil.copytree(fresh, moved, symlinks=True)
    hidden = fresh.with_name("hidden")
    fresh.rename(hidden)
    try:
        program = build(tmp_path, moved / "usr/bin/g++-11", path=no_gcc)
    finally:
        hidden.rename(fresh)
    assert says(program) == "4 11 11.3.0\n"


@pytest.mark.network
def test_libraries_of_the_compiler_come_with_it(fresh: Path, tmp_path: Path) -> None:
    (tmp_path / "one.cpp").write_text("int one() { return 1; }\n")
    done = in_mount_namespace(
        "for library in /usr/lib/x86_64-linux-gnu/lib{gmp,isl,mpc,mpfr}.so.*; do"
        ' [[ ! -e $library ]] || mount --bind /dev/null "$library"; done;'
        f"{fresh}/usr/bin/g++-11 -O2 -c {tmp_path}/one.cpp -o {tmp_path}/one.o"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "one.o").stat().st_size


@pytest.mark.network
def test_guards_of_the_builds_accept_it(fresh: Path, no_gcc: str, sdk_root: Path) -> None:
    script = (
        f". {BUILD_SCRIPTS}/lib/guards.sh; guard_rocm; guard_compilers; printf '%s' \"$HIP_HOST_FLAGS\" >&2"
    )
    done = subprocess.run(
        ["bash", "-euc", f". {BUILD_SCRIPTS}/lib/guards.sh; {script}"],
        env={
            "PATH": no_gcc,
            "ROCM_PATH": str(sdk_root),
            "CC": str(fresh / "usr/bin/gcc-11"),
            "CXX": str(fresh / "usr/bin/g++-11"),
            "rocm_version": "7.2",
            "hip_sdk": "debian",
            "cxx_compiler_version": "11",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, f"--gcc-install-dir={fresh / GCC}")


@pytest.mark.network
def test_bridges_take_all_of_gcc_from_it_or_nothing(
    fresh: Path, no_gcc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "gcc-11"
    other.write_text("#!/bin/sh\necho 11.9.9\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{no_gcc}")
    bridges = {bridge.name: bridge for bridge in find_bridges("11", "2.36", private_gcc=fresh)}
    assert bridges["gxx_linux-64"].version == "11.3.0"
    activation = bridges["gcc_linux-64"].files["etc/conda/activate.d/activate-gcc_linux-64.sh"]
    exported = dict(line.removeprefix("export ").split("=", 1) for line in activation.splitlines())
    for name, program in (("CC", "gcc-11"), ("AR", "gcc-ar-11"), ("NM", "gcc-nm-11")):
        assert exported[name] == str(fresh / "usr/bin" / program)
    assert exported["LD"] == shutil.which("ld", path=no_gcc)


def test_bridges_name_the_way_to_it(no_gcc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", no_gcc)
    with pytest.raises(ToolMissingError) as missing:
        find_bridges("11", "2.36", private_gcc=tmp_path)
    release = Path("/etc/os-release").read_text()
    debian_13 = "ID=debian\n" in release and 'VERSION_ID="13"' in release
    assert missing.value.what == "gcc-11 is not on PATH"
    assert missing.value.fix
    assert (f"gcc11.sh {tmp_path}" if debian_13 else "apt-get install g++-11") in missing.value.fix


@pytest.mark.slow
@pytest.mark.network
def test_canary_is_built_with_it(fresh: Path, no_gcc: str, sdk_root: Path, tmp_path: Path) -> None:
    """``rocm-channel build`` and the wheel find it in the cache by themselves."""
    environ = {"ROCM_CHANNEL_CACHE": str(fresh.parent), "PATH": f"{VENV_BIN}:{no_gcc}", "CC": "", "CXX": ""}
    words = ("--rocm", "7.2", "--arch", "gfx942", "--channel", tmp_path / "channel", "--json")
    host = ("--toolchain", "host", "--rocm-path", sdk_root)
    built = answer(rocm_channel("build", "rocm-canary", *host, *words, **environ))
    assert {package["status"] for package in built["packages"]} == {"built"}
    installed = rocm_channel(
        *("install", "--channel", tmp_path / "channel", "-c", fresh.parent / "host-tools"),
        *("--arch", "gfx942", "--rocm", "7.2", "--prefix", tmp_path / "prefix", "rocm-canary"),
        **environ,
    )
    assert installed.returncode == 0, installed.stderr
    record = tmp_path / "prefix/share/rocm-channel/rocm-canary/build.json"
    assert f"{fresh}/{GCC}" in record.read_text()

    wheel = run_script("rocm-canary-wheel.sh", "gfx942", sdk_root, tmp_path / "wheels", **environ)
    assert wheel.returncode == 0, wheel.stderr
    verified = rocm_channel("verify", "--json", "--want", "gfx942", *(tmp_path / "wheels").glob("*.whl"))
    assert json.loads(verified.stdout) and verified.returncode == 0


# --- made again, stopped -------------------------------------------------------------------------


@pytest.mark.network
def test_damaged_gcc_is_made_again(fresh: Path, tmp_path: Path) -> None:
    gcc = tmp_path / "gcc"
    shutil.copytree(fresh, gcc, symlinks=True)
    (gcc / GCC / "cc1plus").unlink()
    done = run(gcc)
    assert done.returncode == 0, done.stderr
    assert (gcc / GCC / "cc1plus").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["gcc"]


@pytest.mark.network
def test_stopped_run_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        ["bash", BUILD_SCRIPTS / "gcc11.sh", tmp_path / "made" / "gcc"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    while "[2/4]" not in process.stdout.readline():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    assert list(tmp_path.iterdir()) == []


# --- refused ---------------------------------------------------------------------------------


def test_mirror_without_debian_12_names_an_archive(tmp_path: Path) -> None:
    done = run(tmp_path / "made" / "gcc", DEBIAN_MIRROR="file:/no/such/mirror")
    refuses(done, 14, "package list of Debian bookworm", "/no/such/mirror", "DEBIAN_MIRROR to an archive")
    assert list(tmp_path.iterdir()) == []


def test_missing_binutils_are_named(tmp_path: Path) -> None:
    done = run(tmp_path / "gcc", PATH=path_without(tmp_path / "bin", "as", "ld"))
    refuses(done, 13, "not on this machine: as, ld;", "apt-get install -y --no-install-recommends binutils")
    assert not (tmp_path / "gcc").exists()


def test_folder_of_others_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    refuses(run("--force", tmp_path), 41, "holds files that this script did not make")
    assert [path.name for path in tmp_path.iterdir()] == ["usr"]


@pytest.mark.parametrize("arguments", [[], [""], ["a", "b"], ["--fast", "a"], ["/"]])
def test_wrong_usage(arguments: list[str]) -> None:
    refuses(run(*arguments), 2, "gcc11.sh [--force] DEST")


def test_help_is_of_this_script() -> None:
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Puts Debian 12's gcc-11 and g++-11 at DEST")
    assert "lib=" not in done.stdout
