"""rocm-canary's sources, built with the real compilers and run on this machine, which needs no GPU.

Where kernels run, they run on the CPU: ``recipes/rocm-canary/tests/emulated_hip.cpp`` is a libamdhip64 that
emulates them lane by lane. That tests their arithmetic and the way from grid to report, not a GPU.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

RECIPE = Path(__file__).parents[2] / "recipes" / "rocm-canary"
SOURCE = RECIPE / "src"
CXX = os.environ.get("CXX") or shutil.which("g++-11") or shutil.which("g++") or ""

# EF_AMDGPU_MACH, the low byte of e_flags (LLVM's AMDGPU usage guide, "EF_AMDGPU_MACH Values").
MACHINE = {"gfx908": 0x30, "gfx90a": 0x3F, "gfx942": 0x4C, "gfx1100": 0x41}


def run(*command: str | Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command with exactly the environment ``env`` (none where not given)."""
    words = [str(word) for word in command]
    return subprocess.run(words, env=dict(env or {}), capture_output=True, text=True, check=False)


def build_environment() -> dict[str, str]:
    """The caller's environment without what would change a build."""
    unwanted = ["CC", "CXX", "CXXFLAGS", "HIPCXX", "HIPFLAGS", "LDFLAGS", "CMAKE_ARGS"]
    tools = Path(sys.executable).parent
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    return {name: value for name, value in os.environ.items() if name not in unwanted} | {"PATH": path}


def require_success(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, f"{result.args}\n{result.stdout}\n{result.stderr}"


def require_one_line(result: subprocess.CompletedProcess[str], status: int) -> str:
    """The one line on stderr of a command that ended with ``status`` and said nothing else."""
    assert result.returncode == status, f"{result.stdout}\n{result.stderr}"
    assert result.stdout == ""
    assert result.stderr.startswith("rocm-canary: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def hip_compiler(sdk_root: Path) -> str:
    for compiler in (sdk_root / "lib/llvm/bin/clang++", sdk_root / "llvm/bin/clang++"):
        if compiler.exists():
            return str(compiler)
    return shutil.which("clang++-19") or pytest.skip("there is no HIP compiler")


def cmake_arguments(sdk_root: Path, targets: str) -> list[str]:
    return [
        *([f"-DCMAKE_HIP_ARCHITECTURES={targets}"] if targets else []),
        f"-DCMAKE_CXX_COMPILER={CXX}",
        f"-DCMAKE_HIP_COMPILER={hip_compiler(sdk_root)}",
        f"-DCMAKE_HIP_COMPILER_ROCM_ROOT={sdk_root}",
        f"-DCMAKE_HIP_FLAGS=--rocm-path={sdk_root}",
        f"-DCMAKE_SHARED_LINKER_FLAGS=-Wl,-rpath-link,{sdk_root}/lib",
        "-DROCM_CANARY_ROCM_VERSION=7.2",
        "-DROCM_CANARY_HIP_SDK=debian",
        "-DROCM_CANARY_TOOLCHAIN=host",
    ]


def configure(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run("cmake", "-S", SOURCE, "-B", folder, "-G", "Ninja", *arguments, env=build_environment())


@dataclass(frozen=True)
class Build:
    """An installed build, and the folder that it was made in."""

    prefix: Path
    folder: Path

    @property
    def program(self) -> Path:
        return self.prefix / "bin" / "rocm-canary"

    @property
    def library(self) -> Path:
        return self.prefix / "lib" / "librocm_canary.so"


@pytest.fixture(scope="session")
def two_archs(tmp_path_factory: pytest.TempPathFactory, sdk_root: Path) -> Build:
    """gfx90a and gfx942 in one build."""
    place = tmp_path_factory.mktemp("canary")
    build = Build(prefix=place / "prefix", folder=place / "build")
    arguments = [
        *cmake_arguments(sdk_root, "gfx90a;gfx942"),
        f"-DCMAKE_INSTALL_PREFIX={build.prefix}",
        "-DCMAKE_INSTALL_LIBDIR=lib",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
    ]
    require_success(configure(build.folder, *arguments))
    require_success(run("cmake", "--build", build.folder, "--target", "install", env=build_environment()))
    return build


@pytest.fixture
def copied(two_archs: Build, tmp_path: Path) -> Build:
    """A copy of the installed build that a test may change."""
    shutil.copytree(two_archs.prefix, tmp_path / "copy")
    return Build(prefix=tmp_path / "copy", folder=two_archs.folder)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, sdk_root: Path) -> Path:
    """The wheel for gfx908 and gfx1100."""
    pytest.importorskip("scikit_build_core")
    folder = tmp_path_factory.mktemp("wheel")
    arguments = cmake_arguments(sdk_root, "gfx908;gfx1100")
    env = build_environment() | {"CMAKE_ARGS": " ".join(arguments)}
    pip = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index"]
    require_success(run(*pip, "--wheel-dir", folder, SOURCE, env=env))
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """A folder that the wheel is installed in."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
    require_success(run(*pip, "--target", folder, wheel, env=build_environment()))
    return folder


def needed_hip_library(library: Path) -> str:
    listing = run("readelf", "-d", library, env=build_environment()).stdout
    (name,) = re.findall(r"Shared library: \[(libamdhip64\.so\.\d+)\]", listing)
    return str(name)


@pytest.fixture(scope="session")
def emulators(tmp_path_factory: pytest.TempPathFactory, two_archs: Build, sdk_root: Path) -> dict[str, str]:
    """For each arch the folder with a libamdhip64 that emulates it, for LD_LIBRARY_PATH."""
    name = needed_hip_library(two_archs.library)
    listing = run("readelf", "-W", "-V", two_archs.library, env=build_environment()).stdout
    (version,) = set(re.findall(r"Name: (hip_[\d.]+)", listing))
    folders: dict[str, str] = {}
    for arch, description, lanes in (
        ("gfx90a", "gfx90a:sramecc+:xnack-", 64),
        ("gfx942", "gfx942:sramecc+:xnack-", 64),
        ("gfx1100", "gfx1100", 32),
    ):
        folder = tmp_path_factory.mktemp(f"emulated-{arch}")
        exports = folder / "exports"
        exports.write_text(f"{version} {{ global: hip*; __hip*; local: *; }};\n")
        command = [CXX, "-std=c++17", "-O1", "-fPIC", "-shared", str(RECIPE / "tests" / "emulated_hip.cpp")]
        command += [f"-I{SOURCE / 'library'}", f"-I{sdk_root / 'include'}", f"-D__{arch}__"]
        command += [f'-DEMULATED_ARCH="{description}"', f"-DEMULATED_WAVE={lanes}"]
        command += [f"-Wl,-soname,{name}", f"-Wl,--version-script={exports}", "-o", str(folder / name)]
        require_success(run(*command, env=build_environment()))
        folders[arch] = str(folder)
    return folders


@pytest.fixture
def kfd(tmp_path: Path) -> Any:
    """Writes a KFD topology: a CPU node and one node for each gfx_target_version given."""

    def write(*versions: int) -> dict[str, str]:
        for node, version in enumerate((0, *versions)):
            folder = tmp_path / "topology" / "nodes" / str(node)
            folder.mkdir(parents=True, exist_ok=True)
            text = f"cpu_cores_count 8\nvendor_id 4098\ngfx_target_version {version}\nlocation_id 1\n"
            (folder / "properties").write_text(text)
        return {"ROCM_CANARY_KFD_TOPOLOGY": str(tmp_path / "topology")}

    return write


def code_objects(library: Path) -> Iterator[tuple[str, bytes]]:
    """(target, ELF) of every code object in the plain offload bundles of a file."""
    content = library.read_bytes()
    for match in re.finditer(b"__CLANG_OFFLOAD_BUNDLE__", content):
        position = match.end()
        (entries,) = struct.unpack_from("<Q", content, position)
        position += 8
        for _ in range(entries):
            offset, size, length = struct.unpack_from("<QQQ", content, position)
            identity = content[position + 24 : position + 24 + length].decode()
            position += 24 + length
            if not identity.startswith("host-"):
                start = match.start() + offset
                yield identity.partition("--")[2], content[start : start + size]


# --- info ---------------------------------------------------------------------------------------------------


def test_two_archs_of_one_build_are_both_listed(two_archs: Build) -> None:
    result = run(two_archs.program, "info", "--targets")
    require_success(result)
    assert result.stdout == "gfx90a\ngfx942\n"


def test_info_needs_no_environment_no_gpu_and_no_rocm(two_archs: Build) -> None:
    result = run("env", "-i", two_archs.program, "info")
    require_success(result)
    assert "gfx90a gfx942 (in each of 3 offload bundles" in result.stdout
    assert re.search(r"7\.2 \(declared; compiled with HIP [\d.]+ from Debian packages", result.stdout)


def test_info_as_json(two_archs: Build) -> None:
    info = json.loads(run(two_archs.program, "info", "--json").stdout)
    assert info["version"] == 1
    assert info["targets"] == info["declared_targets"] == ["gfx90a", "gfx942"]
    assert info["compressed"] is False
    assert (info["rocm_version"], info["hip_sdk"], info["toolchain"]) == ("7.2", "debian", "host")
    assert info["hip_compiler"].startswith("Clang ")
    assert info["cxx_compiler"].startswith("GNU ")
    assert "-O2" in info["cxx_flags"] and "-O2" in info["hip_flags"]
    assert "/" not in info["cxx_flags"] + info["hip_flags"]


def test_the_listed_targets_are_those_of_the_code_objects(two_archs: Build) -> None:
    found = list(code_objects(two_archs.library))
    assert all(elf.startswith(b"\x7fELF") for _, elf in found)
    assert (
        sorted((target, elf[48]) for target, elf in found)
        == [("gfx90a", MACHINE["gfx90a"])] * 3 + [("gfx942", MACHINE["gfx942"])] * 3
    )


def test_version_is_that_of_the_recipe(two_archs: Build) -> None:
    recipe = (RECIPE / "recipe.yaml").read_text()
    (version,) = re.findall(r'^  version: "([\d.]+)"$', recipe, flags=re.MULTILINE)
    assert run(two_archs.program, "--version").stdout == f"rocm-canary {version}\n"


def test_help_names_every_exit_code(two_archs: Build) -> None:
    text = run(two_archs.program, "--help").stdout
    header = (SOURCE / "include" / "rocm_canary.h").read_text()
    codes = re.findall(r"ROCM_CANARY_\w+ = (\d)", header)
    assert len(codes) == 8
    for code in codes:
        assert re.search(rf"^  {code}  \w", text, flags=re.MULTILINE)


def test_a_compressed_library_is_called_compressed(copied: Build, sdk_root: Path, kfd: Any) -> None:
    unit = SOURCE / "library" / "vector_add.hip"
    command = [
        hip_compiler(sdk_root),
        "-x",
        "hip",
        "-std=c++17",
        "-fPIC",
        "-shared",
        f"--rocm-path={sdk_root}",
    ]
    command += ["--offload-compress", "--offload-arch=gfx90a", "--offload-arch=gfx942"]
    command += [f"-I{SOURCE / 'include'}", f"-I{SOURCE / 'library'}"]
    require_success(run(*command, unit, "-o", copied.library, env=build_environment()))

    assert run(copied.program, "info", "--targets").stdout == "compressed\n"
    info = json.loads(run(copied.program, "info", "--json").stdout)
    assert (info["compressed"], info["targets"]) == (True, [])
    assert "not decoded" in run(copied.program, "info").stdout
    line = require_one_line(run(copied.program, "run", env=kfd(110000)), 4)
    assert "gfx90a gfx942" in line


# --- how it is compiled and linked --------------------------------------------------------------------------


def test_every_unit_is_compiled_with_o2(two_archs: Build) -> None:
    commands = json.loads((two_archs.folder / "compile_commands.json").read_text())
    assert len([entry for entry in commands if entry["file"].endswith(".hip")]) == 4
    for entry in commands:
        assert set(re.findall(r" (-O\w+)", entry["command"])) == {"-O2"}


def test_run_paths_and_needed_libraries(two_archs: Build) -> None:
    env = build_environment()
    library = run("readelf", "-d", two_archs.library, env=env).stdout
    program = run("readelf", "-d", two_archs.program, env=env).stdout
    assert re.findall(r"\((RU?N?PATH)\).*\[(.*)\]", library) == [("RUNPATH", "$ORIGIN/:$ORIGIN/rocm-host")]
    assert re.findall(r"\((RU?N?PATH)\).*\[(.*)\]", program) == [("RUNPATH", "$ORIGIN/../lib")]
    assert "libamdhip64" in library
    assert "libamdhip64" not in program


def test_matrix_cores_are_used_where_the_gpu_has_them(two_archs: Build, site: Path, tmp_path: Path) -> None:
    objdump = shutil.which("llvm-objdump-19") or shutil.which("llvm-objdump")
    if objdump is None:
        pytest.skip("there is no llvm-objdump")
    uses_mfma: dict[str, bool] = {}
    for library in (two_archs.library, site / "rocm_canary" / "lib" / "librocm_canary.so"):
        for target, elf in code_objects(library):
            (tmp_path / "code").write_bytes(elf)
            listing = run(objdump, "-d", tmp_path / "code", env=build_environment()).stdout
            assert "s_endpgm" in listing
            uses_mfma[target] = uses_mfma.get(target, False) or "v_mfma_f32_16x16x4" in listing
    assert uses_mfma == {"gfx908": True, "gfx90a": True, "gfx942": True, "gfx1100": False}


def test_a_cmake_project_can_link_the_library(two_archs: Build, sdk_root: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        textwrap.dedent(
            """
            cmake_minimum_required(VERSION 3.21)
            project(Consumer LANGUAGES CXX)
            find_package(RocmCanary 0.1 REQUIRED)
            message(STATUS "built for ${RocmCanary_HIP_ARCHITECTURES}")
            add_executable(consumer consumer.cpp)
            target_link_libraries(consumer PRIVATE RocmCanary::rocm_canary)
            """
        )
    )
    (tmp_path / "consumer.cpp").write_text(
        textwrap.dedent(
            """
            #include <rocm_canary.h>
            int main() {
              const float values[] = {1, 2, 39};
              double sum = 0;
              rocm_canary_reference_reduce(values, 3, &sum);
              return static_cast<int>(sum);
            }
            """
        )
    )
    arguments = [f"-DCMAKE_CXX_COMPILER={CXX}", f"-DCMAKE_PREFIX_PATH={two_archs.prefix}"]
    arguments += [f"-DCMAKE_EXE_LINKER_FLAGS=-Wl,-rpath-link,{sdk_root}/lib"]
    env = build_environment()
    configured = run("cmake", "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja", *arguments, env=env)
    require_success(configured)
    assert "built for gfx90a;gfx942" in configured.stdout
    require_success(run("cmake", "--build", tmp_path / "b", env=env))
    assert run(tmp_path / "b" / "consumer", env={"LD_LIBRARY_PATH": f"{sdk_root}/lib"}).returncode == 42


def test_configuring_without_an_arch_is_refused(tmp_path: Path, sdk_root: Path) -> None:
    result = configure(tmp_path, *cmake_arguments(sdk_root, ""))
    assert result.returncode != 0
    message = " ".join(result.stderr.split())
    assert "no GPU arch is given" in message
    assert "fix: pass -DCMAKE_HIP_ARCHITECTURES=gfx942" in message


def test_configuring_with_a_misspelt_arch_list_is_refused(tmp_path: Path, sdk_root: Path) -> None:
    result = configure(tmp_path, *cmake_arguments(sdk_root, "gfx90a,gfx942"))
    assert result.returncode != 0
    assert "found: gfx90a,gfx942" in " ".join(result.stderr.split())


@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="CMake would take the arch of this host's GPU")
def test_cmake_left_alone_would_choose_gfx906(tmp_path: Path, sdk_root: Path) -> None:
    """The trap that the refusal is for."""
    arguments = [*cmake_arguments(sdk_root, ""), "-DROCM_CANARY_ALLOW_DEFAULT_ARCH=ON"]
    require_success(configure(tmp_path, *arguments))
    assert "CMAKE_HIP_ARCHITECTURES:STRING=gfx906" in (tmp_path / "CMakeCache.txt").read_text()


# --- run ----------------------------------------------------------------------------------------------------


def test_no_gpu(two_archs: Build, kfd: Any, tmp_path: Path) -> None:
    line = require_one_line(run(two_archs.program, "run", env=kfd()), 3)
    assert "no AMD GPU among the nodes" in line
    nothing = {"ROCM_CANARY_KFD_TOPOLOGY": str(tmp_path / "nothing")}
    line = require_one_line(run(two_archs.program, "run", env=nothing), 3)
    assert "nothing/nodes does not exist" in line


def test_a_failed_run_as_json(two_archs: Build, kfd: Any) -> None:
    result = run(two_archs.program, "run", "--json", env=kfd())
    report = json.loads(result.stdout)
    assert result.returncode == report["status"] == 3
    assert f"rocm-canary: {report['error']}; {report['advice']}\n" == result.stderr


@pytest.mark.parametrize(
    ("version", "arch"), [(110000, "gfx1100"), (90500, "gfx950"), (90008, "gfx908"), (120001, "gfx1201")]
)
def test_a_gpu_of_another_arch_is_refused(two_archs: Build, kfd: Any, version: int, arch: str) -> None:
    line = require_one_line(run(two_archs.program, "run", env=kfd(version)), 4)
    assert f"the GPU is {arch}, and this rocm-canary is built for gfx90a gfx942" in line


def test_no_hip_runtime(two_archs: Build, kfd: Any) -> None:
    line = require_one_line(run(two_archs.program, "run", env=kfd(90402)), 5)
    assert "libamdhip64.so" in line
    assert "cannot open shared object file" in line
    assert "install ROCm 7.2" in line


def test_a_runtime_that_is_a_stub_is_named_as_one(copied: Build, kfd: Any, sdk_root: Path) -> None:
    """The link lib/rocm-host alone leads the loader to it."""
    (copied.prefix / "lib" / "rocm-host").symlink_to(sdk_root / "lib")
    line = require_one_line(run(copied.program, "run", env=kfd(90402)), 6)
    assert "stub made for linking" in line


@pytest.mark.parametrize(("arch", "version"), [("gfx90a", 90010), ("gfx942", 90402)])
def test_emulated_run(two_archs: Build, kfd: Any, emulators: dict[str, str], arch: str, version: int) -> None:
    env = kfd(version) | {"LD_LIBRARY_PATH": emulators[arch]}
    result = run(two_archs.program, "run", "--json", env=env)
    require_success(result)
    report = json.loads(result.stdout)
    assert report["status"] == 0
    assert report["target"] == arch
    assert report["device"]["arch"] == f"{arch}:sramecc+:xnack-"
    assert report["device"]["wavefront_size"] == 64
    assert [(kernel["name"], kernel["matrix_cores"]) for kernel in report["kernels"]] == [
        ("vector_add", False),
        ("reduce", False),
        ("matmul", True),
    ]


def test_emulated_run_as_text(two_archs: Build, kfd: Any, emulators: dict[str, str]) -> None:
    env = kfd(110000, 90010) | {"LD_LIBRARY_PATH": emulators["gfx90a"]}
    result = run(two_archs.program, "run", env=env)
    require_success(result)
    assert result.stdout.count("equal to the CPU") == 3
    assert "GB/s" in result.stdout and "TFLOP/s" in result.stdout


@pytest.mark.parametrize(
    ("fault", "status", "text"),
    [
        ("wrong", 7, "vector_add: 1 of 1048576 values differ from the CPU, the first at index 7"),
        ("memory", 6, "hipMalloc failed: hipErrorOutOfMemory (2)"),
        ("no-device", 6, "hipGetDeviceCount failed: hipErrorNoDevice (100)"),
        ("other-arch", 4, "the GPU is gfx1030, and this rocm-canary is built for gfx90a gfx942"),
    ],
)
def test_emulated_faults(
    two_archs: Build, kfd: Any, emulators: dict[str, str], fault: str, status: int, text: str
) -> None:
    env = kfd(90010) | {"LD_LIBRARY_PATH": emulators["gfx90a"], "EMULATED_FAULT": fault}
    assert text in require_one_line(run(two_archs.program, "run", env=env), status)


def test_a_device_that_hip_does_not_have(two_archs: Build, kfd: Any, emulators: dict[str, str]) -> None:
    env = kfd(90010) | {"LD_LIBRARY_PATH": emulators["gfx90a"]}
    line = require_one_line(run(two_archs.program, "run", "--device", "3", env=env), 2)
    assert "HIP sees 1 GPU" in line


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_sizes_that_fill_no_tile(two_archs: Build, emulators: dict[str, str], arch: str) -> None:
    """Through the C API, with lengths that are no multiple of a wave, a block or a tile."""
    script = textwrap.dedent(
        """
        import ctypes, random, sys
        lib = ctypes.CDLL(sys.argv[1])
        def floats(count):
            return (ctypes.c_float * count)(*[random.randint(-8, 8) for _ in range(count)])
        for rows, columns, depth in ((1, 1, 1), (70, 33, 19), (64, 130, 16), (65, 1, 40)):
            a, b = floats(rows * depth), floats(depth * columns)
            gpu, cpu = floats(rows * columns), floats(rows * columns)
            assert lib.rocm_canary_matmul(0, a, b, gpu, rows, columns, depth, None, None) == 0
            lib.rocm_canary_reference_matmul(a, b, cpu, rows, columns, depth)
            assert list(gpu) == list(cpu), (rows, columns, depth)
        for count in (1, 31, 65, 257, 4099):
            values, gpu, cpu = floats(count), ctypes.c_double(), ctypes.c_double()
            assert lib.rocm_canary_reduce(0, values, ctypes.c_size_t(count), ctypes.byref(gpu), None) == 0
            lib.rocm_canary_reference_reduce(values, ctypes.c_size_t(count), ctypes.byref(cpu))
            assert gpu.value == cpu.value == sum(values), count
        assert lib.rocm_canary_matmul(0, None, None, None, 0, 1, 1, None, None) == 2
        lib.rocm_canary_last_error.restype = ctypes.c_char_p
        assert b"rows is 0" in lib.rocm_canary_last_error()
        """
    )
    env = {"LD_LIBRARY_PATH": emulators[arch]}
    require_success(run(sys.executable, "-c", script, two_archs.library, env=env))


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["walk"],
        ["info", "--csv"],
        ["info", "--json", "--targets"],
        ["run", "--device"],
        ["run", "--device", "-1"],
        ["run", "--device", "one"],
        ["run", "--size", "huge"],
    ],
)
def test_wrong_usage(two_archs: Build, arguments: list[str]) -> None:
    assert "rocm-canary --help" in require_one_line(run(two_archs.program, *arguments), 2)


def test_output_that_cannot_be_written(two_archs: Build) -> None:
    with Path("/dev/full").open("w") as full:
        command = [str(two_archs.program), "info"]
        result = subprocess.run(command, env={}, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("rocm-canary: the output cannot be written")


# --- a broken installation ----------------------------------------------------------------------------------


def test_missing_library(copied: Build) -> None:
    copied.library.unlink()
    for command in ("info", "run"):
        line = require_one_line(run(copied.program, command), 8)
        assert "librocm_canary.so is missing" in line
        assert str(copied.prefix / "lib") in line


def test_truncated_library(copied: Build) -> None:
    content = copied.library.read_bytes()
    for length in (0, 3, 16, 63, 64, 4096, *range(5000, len(content), len(content) // 20), len(content) - 1):
        copied.library.write_bytes(content[:length])
        for command in (["info", "--targets"], ["run"]):
            line = require_one_line(run(copied.program, *command), 8)
            assert str(copied.library) in line


def test_a_library_without_gpu_code(copied: Build) -> None:
    shutil.copy(copied.program, copied.library)
    assert "holds no GPU code" in require_one_line(run(copied.program, "info"), 8)
    copied.library.write_text("not a library\n")
    assert "is no ELF file" in require_one_line(run(copied.program, "info"), 8)


def test_units_built_for_different_gpus(copied: Build) -> None:
    content = copied.library.read_bytes()
    entry = b"hipv4-amdgcn-amd-amdhsa--gfx942"
    assert content.count(entry) == 3
    copied.library.write_bytes(content.replace(entry, entry.replace(b"gfx942", b"gfx950"), 1))
    line = require_one_line(run(copied.program, "info", "--targets"), 8)
    assert "different GPUs (gfx90a gfx950 and gfx90a gfx942)" in line


def test_damaged_bytes_never_crash_info(copied: Build) -> None:
    content = copied.library.read_bytes()
    chance = random.Random(20261201)
    end = len(content)
    bundles = [match.start() for match in re.finditer(b"__CLANG_OFFLOAD_BUNDLE__", content)]
    places = [range(64), range(end - 4096, end), *(range(start, start + 300) for start in bundles)]
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.choice(chance.choice(places))] = chance.randrange(256)
        copied.library.write_bytes(damaged)
        result = run(copied.program, "info", "--targets")
        assert result.returncode in (0, 8), result
        assert (result.stdout == "") == (result.returncode == 8)


# --- the wheel ----------------------------------------------------------------------------------------------


def test_wheel_name_and_content(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-linux_x86_64.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("rocm_canary/")}
    assert {name for name in names if not name.endswith(".py")} == {
        "rocm_canary/bin/rocm-canary",
        "rocm_canary/lib/librocm_canary.so",
        "rocm_canary/lib/librocm_canary_probe.so",
        "rocm_canary/py.typed",
    }


def python(site: Path, script: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-c", textwrap.dedent(script), env={"PYTHONPATH": str(site), **env})


def test_wheel_tells_its_targets_without_rocm(site: Path) -> None:
    result = python(
        site,
        """
        import rocm_canary
        assert rocm_canary.targets() == ("gfx1100", "gfx908"), rocm_canary.targets()
        info = rocm_canary.info()
        assert info.targets == rocm_canary.targets()
        assert (info.rocm_version, info.hip_sdk) == ("7.2", "debian")
        assert info.library.name == "librocm_canary.so"
        """,
    )
    require_success(result)


def test_wheel_errors_mirror_the_exit_codes(site: Path, kfd: Any) -> None:
    script = """
        import rocm_canary
        try:
            rocm_canary.run()
        except rocm_canary.RocmCanaryError as error:
            print(type(error).__name__, error.status, error)
        """
    for versions, start in (
        ((), "NoGpuError 3 no AMD GPU"),
        ((90402,), "ArchMismatchError 4 the GPU is gfx942, and"),
        ((90402, 110000), "RuntimeNotFoundError 5 the HIP runtime"),
    ):
        assert python(site, script, **kfd(*versions)).stdout.startswith(start)


def test_wheel_runs_emulated_waves_of_32_lanes(site: Path, kfd: Any, emulators: dict[str, str]) -> None:
    script = """
        import rocm_canary
        result = rocm_canary.run()
        assert result.target == result.device.arch == "gfx1100"
        assert result.device.wavefront_size == 32
        assert [kernel.name for kernel in result.kernels] == ["vector_add", "reduce", "matmul"]
        assert not any(kernel.matrix_cores for kernel in result.kernels)
        """
    require_success(python(site, script, LD_LIBRARY_PATH=emulators["gfx1100"], **kfd(110000)))


def test_wheel_command(site: Path) -> None:
    env = {"PYTHONPATH": str(site)}
    result = run(sys.executable, site / "bin" / "rocm-canary", "info", "--targets", env=env)
    require_success(result)
    assert result.stdout == "gfx1100\ngfx908\n"
    assert run(sys.executable, "-m", "rocm_canary", "run", "--size", "huge", env=env).returncode == 2


def test_wheel_without_its_library(site: Path, tmp_path: Path) -> None:
    broken = tmp_path / "site"
    shutil.copytree(site, broken)
    script = """
        import rocm_canary
        try:
            rocm_canary.info()
        except rocm_canary.BrokenInstallError as error:
            print(error)
        """
    (broken / "rocm_canary" / "lib" / "librocm_canary.so").unlink()
    assert "librocm_canary.so is missing" in python(broken, script).stdout
    (broken / "rocm_canary" / "lib" / "librocm_canary_probe.so").unlink()
    assert "librocm_canary_probe.so" in python(broken, script).stdout
