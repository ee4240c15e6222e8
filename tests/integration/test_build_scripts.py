"""The build scripts of the heavy packages, run whole with programs that note how they were called.

The guards are real, and so are the compilers that they ask; what a script would configure, build and install
with is recorded instead. Each script runs without a network, on a file system that is read-only but for its
work folder, where this machine allows that.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from channel_tools.model.matrix import read_matrix
from channel_tools.model.project import Project
from channel_tools.preflight.source import staged_source
from channel_tools.preflight.torch_files import torch_files
from channel_tools.sources.needed import recipe_outputs

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "build_scripts"
MATRIX = read_matrix(ROOT / "variants" / "conda_build_config.yaml")
VENV_BIN = Path(sys.executable).parent
GCC_11 = shutil.which("gcc-11")
CONFINED = ("unshare", "--map-root-user", "--mount", "--net")

pytestmark = pytest.mark.skipif(GCC_11 is None, reason="needs gcc-11 and g++-11")

VARIANTS = MATRIX.restricted({"selection": ["declared"], "python": MATRIX.values["python"][:1]}).rows()
STACKS = [row for row in VARIANTS if row["rocm_arch"] == MATRIX.values["rocm_arch"][0]]


def variant_name(row: Mapping[str, str]) -> str:
    return f"{row['rocm_version']}-{row['rocm_arch']}"


# One program under every name. It notes name, words, folder and environment, and leaves behind what the
# script looks at afterwards. @CALLS@ and @SETTINGS@ are put in.
PROGRAM = """#!@PYTHON@ -I
import json, os, pathlib, sys

settings = json.loads(pathlib.Path("@SETTINGS@").read_text())
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
calls = pathlib.Path("@CALLS@")
call = {"name": name, "words": words, "cwd": os.getcwd(), "env": dict(os.environ)}
(calls / f"{len(list(calls.iterdir())):03}.json").write_text(json.dumps(call))
prefix = pathlib.Path(os.environ["PREFIX"])
site = prefix / "lib/python3.12/site-packages"
arch, level = settings["baked"], settings["level"]


def compile_commands(folder):
    folder.mkdir(parents=True)
    hip = f"clang++ {level} --offload-arch={arch} -x hip -c a.hip"
    units = [{"directory": str(folder), "command": text, "file": file}
             for text, file in ((hip, "a.hip"), (f"g++ {level} -c b.cpp", "b.cpp"))]
    (folder / "compile_commands.json").write_text(json.dumps(units, indent=1))


def torch_configuration():
    folder = pathlib.Path("build")
    folder.mkdir(exist_ok=True)
    options = ("USE_FLASH_ATTENTION", "USE_MEM_EFF_ATTENTION")
    cache = [f"{option}:BOOL={settings['options'].get(option, os.environ[option])}" for option in options]
    (folder / "CMakeCache.txt").write_text("\\n".join(cache) + "\\n")
    (folder / "a.hip.o.cmake").write_text(f"set(HIP_CLANG_FLAGS --offload-arch={arch})\\n")
    if settings["aotriton"]:
        (folder / "aotriton").mkdir()


if name == "cmake" and "-S" in words and "-B" in words:
    folder = pathlib.Path(words[words.index("-B") + 1])
    if (pathlib.Path(words[words.index("-S") + 1]) / "vllm").is_dir():
        compile_commands(folder)
if name == "cmake" and "--install" in words:
    (prefix / "lib/triton-llvm").mkdir(parents=True)
if name == "python" and words[:1] == ["-c"]:
    print(site / "pybind11/include" if "pybind11" in words[1] else site)
if name == "python" and words[:1] == ["setup.py"] and settings["configures"]:
    torch_configuration()
if name == "python" and words[:3] == ["-m", "pip", "install"]:
    package = os.environ["PKG_NAME"]
    if package == "vllm-rocm":
        compile_commands(pathlib.Path("build/temp.linux-x86_64-cpython-312"))
    if package == "triton-rocm":
        (site / "triton/_C").mkdir(parents=True)
        (site / "triton/_C/libtriton.so").touch()
"""
RECORDED = ("cmake", "ctest", "curl", "git", "make", "ninja", "pip", "python", "strip", "wget")


@dataclass(frozen=True)
class Call:
    """One call of a recorded program."""

    name: str
    words: list[str]
    cwd: Path
    env: dict[str, str]

    @property
    def line(self) -> list[str]:
        return [self.name, *self.words]


@dataclass
class Work:
    """A build script's surroundings in a folder of their own, as a conda engine makes them."""

    folder: Path
    script: str
    row: Mapping[str, str]
    version: str
    settings: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, str | None] = field(default_factory=dict)

    @property
    def source(self) -> Path:
        return self.folder / "work"

    @property
    def prefix(self) -> Path:
        return self.folder / "host_env"

    @property
    def build_prefix(self) -> Path:
        return self.folder / "build_env"

    @property
    def rocm(self) -> Path:
        return self.folder / "rocm"

    @property
    def given(self) -> dict[str, str]:
        """The environment that the script starts with: all of it."""
        row, prefix = self.row, self.prefix
        env = {
            "PATH": f"{self.folder}/bin:{Path(str(GCC_11)).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.source),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "CONDA_BUILD": "1",
            "PKG_NAME": self.script,
            "PKG_VERSION": self.version,
            "PREFIX": str(prefix),
            "BUILD_PREFIX": str(self.build_prefix),
            "SRC_DIR": str(self.source),
            "RECIPE_DIR": str(ROOT / "recipes" / self.script),
            "PYTHON": str(self.folder / "bin" / "python"),
            "STRIP": "strip",
            "CPU_COUNT": "64",
            "CC": "gcc-11",
            "CXX": "g++-11",
            # What the compilers' activation sets.
            "CFLAGS": "-O2 -pipe",
            "CXXFLAGS": "-fvisibility-inlines-hidden -O2 -pipe",
            "LDFLAGS": "-Wl,-O2 -Wl,--as-needed -Wl,-z,now -Wl,--disable-new-dtags"
            f" -Wl,-rpath,{prefix}/lib -L{prefix}/lib",
            "CMAKE_ARGS": "-DCMAKE_BUILD_TYPE=Release -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY"
            " -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY",
            "CMAKE_GENERATOR": "Unix Makefiles",
            "LD_RUN_PATH": f"{prefix}/lib",
            # As the recipes pass them.
            "ROCM_PATH": str(self.rocm),
            "MAX_JOBS": "",
            "build_cpus": "8",
            "build_memory_mib": "20000",
            "memory_per_job_mib": "4000",
            "toolchain": "conda",
            "hip_sdk": "rocm",
            **{key: row[key] for key in ("rocm_arch", "rocm_isa", "rocm_version", "cxx_compiler_version")},
            **{key: row[key] for key in ("triton_version", "triton_llvm_version")},
            # Of the host, and wrong here.
            "PYTORCH_ROCM_ARCH": "gfx906",
            "PIP_INDEX_URL": "https://index.invalid/simple",
            "no_proxy": "*",
        }
        merged = {**env, **self.changes}
        return {name: value for name, value in merged.items() if value is not None}

    def run(self, *, confined: bool = True) -> subprocess.CompletedProcess[str]:
        calls = self.folder / "calls"
        for folder in (self.folder / "bin", calls, self.folder / "tmp", self.prefix, self.build_prefix):
            folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "baked": self.row["rocm_arch"],
            "level": "-O2",
            "options": {},
            "aotriton": False,
            "configures": True,
            **self.settings,
        }
        (self.folder / "settings.json").write_text(json.dumps(settings))
        words = {
            "@PYTHON@": sys.executable,
            "@CALLS@": str(calls),
            "@SETTINGS@": str(self.folder / "settings.json"),
        }
        text = PROGRAM
        for word, value in words.items():
            text = text.replace(word, value)
        for name in RECORDED:
            program = self.folder / "bin" / name
            program.write_text(text)
            program.chmod(0o755)
        command = ["bash", str(SCRIPTS / f"{self.script}.sh")]
        if confined and CAN_CONFINE:
            command = confine(command, self.folder)
        return subprocess.run(
            command,
            env=self.given,
            cwd=self.source,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def calls(self) -> list[Call]:
        found = [json.loads(path.read_text()) for path in sorted((self.folder / "calls").iterdir())]
        return [Call(one["name"], one["words"], Path(one["cwd"]), one["env"]) for one in found]

    def changed(self, call: Call) -> dict[str, str | None]:
        """What the script made of its environment by that call; None: taken away. Bash's own are left out."""
        own = {"PWD", "OLDPWD", "SHLVL", "_"}
        names = (call.env.keys() | self.given.keys()) - own
        given = self.given
        return {name: call.env.get(name) for name in names if call.env.get(name) != given.get(name)}


def confine(command: list[str], folder: Path) -> list[str]:
    """The command without a network, and with one folder that it can write."""
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro / && cd "$PWD" && exec "$@"'
    return [*CONFINED, "sh", "-c", script, str(folder), *command]


def can_confine() -> bool:
    if not shutil.which("unshare"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        return (
            subprocess.run(confine(["true"], Path(folder)), capture_output=True, check=False).returncode == 0
        )


CAN_CONFINE = can_confine()

Maker = Callable[..., Work]


@pytest.fixture
def make(tmp_path: Path, sdk_root: Path) -> Maker:
    """Makes the surroundings of a script, with a root that says it is the ROCm of the variant."""

    def make_work(script: str, row: Mapping[str, str], **settings: Any) -> Work:
        key = {"triton-llvm": "triton_llvm_version", "amdsmi": "rocm_version"}.get(
            script, f"{script.removesuffix('-rocm')}_version"
        )
        work = Work(tmp_path / "build", script, row, row[key], settings)
        work.source.mkdir(parents=True)
        rocm_root(work.rocm, sdk_root, row["rocm_version"])
        SOURCES[script](work)
        return work

    return make_work


def rocm_root(root: Path, sdk: Path, release: str) -> None:
    """The SDK's files below a root with ROCm's release file and AMD SMI, and without the SDK's marker."""
    (root / ".info").mkdir(parents=True)
    (root / ".info" / "version").write_text(f"{release}.2-77\n")
    for path in sdk.iterdir():
        if path.name not in (".rocm-channel-sdk", "share"):
            (root / path.name).symlink_to(path)
    package = root / "share" / "amd_smi" / "amdsmi"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "libamd_smi.so").write_bytes(b"library")
    (package.parent / "LICENSE").write_text("licence\n")
    (package.parent / "setup.py").touch()


def vllm_source(work: Work) -> None:
    (work.source / "vllm").mkdir()
    kernels = work.source / "triton-kernels/python/triton_kernels/triton_kernels"
    kernels.mkdir(parents=True)
    (kernels / "matmul_ogs.py").touch()


def torch_source(work: Work) -> None:
    (work.source / ".gitmodules").touch()


def triton_source(work: Work) -> None:
    (work.source / "cmake").mkdir()
    (work.source / "setup.py").touch()
    (work.source / "cmake" / "llvm-hash.txt").write_text(work.row["triton_llvm_commit"] + "\n")
    licence = work.prefix / "lib" / "triton-llvm" / "LICENSE.TXT"
    licence.parent.mkdir(parents=True)
    licence.write_text("licence\n")


def llvm_source(work: Work) -> None:
    (work.source / "llvm").mkdir()
    (work.source / "llvm" / "LICENSE.TXT").write_text("licence\n")


SOURCES: dict[str, Callable[[Work], None]] = {
    "vllm-rocm": vllm_source,
    "pytorch-rocm": torch_source,
    "triton-rocm": triton_source,
    "triton-llvm": llvm_source,
    "amdsmi": lambda work: None,
}


def succeeds(work: Work) -> list[Call]:
    done = work.run()
    assert done.returncode == 0, done.stdout + done.stderr
    return work.calls()


def stops(work: Work, code: int, guard: str) -> str:
    done = work.run()
    assert done.returncode == code, done.stdout + done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"guard {guard}: "), line
    return line


# --- what the guards make of the environment ------------------------------------------------------

NOWHERE = "http://127.0.0.1:9"
NETWORK = {
    **{
        name: NOWHERE
        for lower in ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")
        for name in (lower, lower.upper())
    },
    "no_proxy": None,
    "PIP_INDEX_URL": None,
    "PIP_CONFIG_FILE": "/dev/null",
    "PIP_NO_INDEX": "1",
    "PIP_NO_DEPS": "1",
    "PIP_NO_BUILD_ISOLATION": "0",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_RETRIES": "0",
    "UV_OFFLINE": "1",
    "UV_NO_CACHE": "1",
    "CARGO_NET_OFFLINE": "true",
    "CARGO_NET_RETRY": "0",
    "GOPROXY": "off",
    "GIT_ALLOW_PROTOCOL": "file",
    "GIT_TERMINAL_PROMPT": "0",
    "HF_HUB_OFFLINE": "1",
}
# 20000 MiB for compilers of 4000 MiB, on 8 processors.
JOBS = {"MAX_JOBS": "5", "CMAKE_BUILD_PARALLEL_LEVEL": "5"}
ARCH_VARIABLES = (
    "PYTORCH_ROCM_ARCH",
    "GPU_TARGETS",
    "AMDGPU_TARGETS",
    "GPU_ARCHS",
    "CMAKE_HIP_ARCHITECTURES",
    "HIP_ARCHITECTURES",
    "HCC_AMDGPU_TARGET",
    "SUPPORTED_TARGETS",
    "AOTRITON_TARGET_ARCH",
    "AITER_ROCM_ARCH",
    "MORI_GPU_ARCHS",
    "CONDA_FORGE_DEFAULT_ROCM_GPU_TARGETS",
)


def gcc_folder() -> str:
    done = subprocess.run(["g++-11", "-print-libgcc-file-name"], capture_output=True, text=True, check=True)
    return str(Path(done.stdout.strip()).resolve().parent)


def hip_environment(work: Work) -> dict[str, str | None]:
    """guard_arch, guard_rocm and guard_compilers."""
    host = f"--gcc-install-dir={gcc_folder()}"
    compiler = work.rocm / "lib/llvm/bin/clang++"
    return {
        **dict.fromkeys(ARCH_VARIABLES, work.row["rocm_arch"]),
        "ROCM_HOME": str(work.rocm),
        "HIP_CLANG": str(compiler),
        "HIP_CLANG_PATH": str(compiler.parent),
        "HIP_HOST_FLAGS": host,
        "HIPFLAGS": host,
        "HIPCC_COMPILE_FLAGS_APPEND": host,
        "HIPCC_LINK_FLAGS_APPEND": host,
        "LD_RUN_PATH": None,
    }


def prefix_maps(work: Work) -> str:
    folders = {
        work.source: f"/usr/src/{work.script}",
        work.prefix: "/usr/src/prefix",
        work.build_prefix: "/usr/src/build_prefix",
        work.rocm: "/opt/rocm",
    }
    return " ".join(f"-ffile-prefix-map={old}={new}" for old, new in folders.items())


def link_flags(work: Work) -> str:
    """LDFLAGS without conda's run path, and with ROCm's libraries for the linker to look through."""
    return (
        f"-Wl,-O2 -Wl,--as-needed -Wl,-z,now -L{work.prefix}/lib"
        f" -Wl,--enable-new-dtags -Wl,-rpath-link,{work.rocm}/lib"
    )


FIND_ROOT = (
    "-DCMAKE_BUILD_TYPE=Release"
    " -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY"
    " -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=BOTH -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=BOTH"
)
DISCONNECTED = "-DFETCHCONTENT_FULLY_DISCONNECTED=ON"
PIP_INSTALL = ["-m", "pip", "install"]
PIP_OPTIONS = ["--no-build-isolation", "--no-deps", "--no-cache-dir", "-vv"]


@pytest.mark.skipif(not CAN_CONFINE, reason="this machine gives no namespaces to tests")
def test_confined_means_no_network_and_no_write_elsewhere(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    for command, works in (
        (f"touch {inside}/a", True),
        (f"touch {tmp_path}/b", False),
        ("touch /tmp/rocm-channel-write-test", False),
        ("grep -q -v -e lo: -e face -e Inter /proc/net/dev", False),
    ):
        done = subprocess.run(confine(["sh", "-c", command], inside), capture_output=True, check=False)
        assert (done.returncode == 0) is works, command


# --- vLLM -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", VARIANTS, ids=variant_name)
def test_vllm(make: Maker, row: Mapping[str, str]) -> None:
    work = make("vllm-rocm", row)
    configure, install = succeeds(work)
    source, rocm, arch = work.source, work.rocm, row["rocm_arch"]
    maps = prefix_maps(work)
    clang = f"{rocm}/lib/llvm/bin/clang++"
    gxx, gcc = shutil.which("g++-11"), GCC_11
    cmake_args = (
        f"{FIND_ROOT} {DISCONNECTED} --no-warn-unused-cli -DCMAKE_C_COMPILER={gcc} -DCMAKE_CXX_COMPILER={gxx}"
        f" -DCMAKE_HIP_COMPILER={clang} -DCMAKE_HIP_COMPILER_ROCM_ROOT={rocm}"
        f" -DCMAKE_HIP_COMPILER_LAUNCHER={SCRIPTS}/lib/hip_cuid.sh -DCMAKE_HIP_ARCHITECTURES={arch}"
        f" -DGPU_TARGETS={arch} -DAMDGPU_TARGETS={arch} -DCMAKE_PREFIX_PATH={work.prefix};{rocm}"
        " -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON"
        " -DCMAKE_INSTALL_RPATH=$ORIGIN/../torch/lib;$ORIGIN/../../..;$ORIGIN/../../../rocm-host"
    )
    folder = source / "_configured"
    assert configure.line == [
        *("cmake", "-S", ".", "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"),
        *("-DVLLM_TARGET_DEVICE=rocm", f"-DVLLM_PYTHON_EXECUTABLE={work.folder}/bin/python"),
        *(f"-DROCM_PATH={rocm}", f"-DFETCHCONTENT_BASE_DIR={folder}/deps", *cmake_args.split(" ")),
    ]
    assert install.line == ["python", *PIP_INSTALL, ".", *PIP_OPTIONS]
    assert configure.cwd == install.cwd == source
    host = f"--gcc-install-dir={gcc_folder()}"
    expected = {
        **hip_environment(work),
        **NETWORK,
        **JOBS,
        "CMAKE_ARGS": cmake_args,
        "CFLAGS": f" -O2 -pipe {maps}",
        "CXXFLAGS": f" -fvisibility-inlines-hidden -O2 -pipe {maps}",
        "HIPFLAGS": f"--rocm-path={rocm} {host} {maps}",
        "LDFLAGS": f"{link_flags(work)} -Wl,--allow-shlib-undefined -Wl,-rpath-link,{work.prefix}/lib",
        "VLLM_TARGET_DEVICE": "rocm",
        "VLLM_VERSION_OVERRIDE": row["vllm_version"],
        "VLLM_DISABLE_SCCACHE": "1",
        "CMAKE_BUILD_TYPE": "Release",
        "TRITON_KERNELS_SRC_DIR": f"{source}/triton-kernels/python/triton_kernels/triton_kernels",
        "CARGO": "no-cargo-in-this-build",
    }
    assert work.changed(configure) == work.changed(install) == expected
    assert not folder.exists()
    record = json.loads((work.prefix / "share/rocm-channel/vllm-rocm/build.json").read_text())
    assert (record["rocm_arch"], record["rocm_release"]) == (arch, f"{row['rocm_version']}.2-77")
    kept = json.loads((work.prefix / "share/rocm-channel/vllm-rocm/compile_commands.json").read_text())
    assert [unit["file"] for unit in kept] == ["a.hip", "b.cpp"]


@pytest.mark.parametrize(
    ("settings", "code", "guard", "words"),
    [
        ({"level": "-O3"}, 70, "optimisation", "units are compiled above -O2; found: 2  -O3"),
        ({"level": "-O2 -O3"}, 70, "optimisation", "units are compiled above -O2"),
        ({"level": "-O3 -O2"}, 70, "optimisation", "units are compiled above -O2"),
        ({"level": "-O2 -Ofast"}, 70, "optimisation", "-Ofast"),
        ({"level": "-O2 -Oz"}, 70, "optimisation", "units are not compiled at -O2; found: 2 at -Oz"),
        ({"level": ""}, 70, "optimisation", "found: 2 at none"),
        ({"baked": "gfx906"}, 66, "baked-arch", "found: gfx906"),
    ],
)
def test_vllm_stops_before_it_compiles(
    make: Maker, settings: dict[str, str], code: int, guard: str, words: str
) -> None:
    work = make("vllm-rocm", VARIANTS[0], **settings)
    line = re.sub(r" +", " ", stops(work, code, guard))
    assert re.sub(r" +", " ", words) in line
    assert [call.name for call in work.calls()] == ["cmake"], "nothing but the configuration was run"


def test_vllm_wants_the_second_source(make: Maker) -> None:
    work = make("vllm-rocm", VARIANTS[0])
    shutil.rmtree(work.source / "triton-kernels")
    assert "matmul_ogs.py" in stops(work, 72, "triton-kernels")
    assert work.calls() == []


def test_vllm_wants_no_space_in_what_setup_py_splits(make: Maker) -> None:
    work = make("vllm-rocm", VARIANTS[0])
    work.changes["PREFIX"] = str(work.folder / "host env")
    assert "splits CMAKE_ARGS at spaces" in stops(work, 71, "cmake-args")


def test_preflight_gets_the_command_that_the_build_runs(make: Maker, tmp_path: Path) -> None:
    built = make("vllm-rocm", VARIANTS[0])
    configure, _ = succeeds(built)
    shutil.rmtree(built.prefix)
    shutil.rmtree(built.source / "build")
    shutil.rmtree(built.folder / "calls")
    folder = built.folder / "preflight"
    folder.mkdir()
    built.changes["preflight_folder"] = str(folder)
    assert succeeds(built) == [], "nothing is run"
    command = (folder / "command").read_text().split("\0")[:-1]
    assert command == configure.line
    pairs = (folder / "environment").read_text().split("\0")[:-1]
    environment = dict(pair.split("=", 1) for pair in pairs)
    own = {"preflight_folder", "SHLVL", "_"}
    assert {key: value for key, value in environment.items() if key not in own} == {
        key: value for key, value in configure.env.items() if key not in own
    }


# --- PyTorch --------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", VARIANTS, ids=variant_name)
def test_pytorch(make: Maker, row: Mapping[str, str]) -> None:
    work = make("pytorch-rocm", row)
    calls = succeeds(work)
    assert [call.line for call in calls] == [
        ["python", "tools/amd_build/build_amd.py"],
        ["python", "setup.py", "build", "--cmake-only"],
        ["python", *PIP_INSTALL, ".", *PIP_OPTIONS],
    ]
    maps = prefix_maps(work)
    prefix = work.prefix
    switched_off = (
        *("USE_CUDA", "USE_XPU", "BUILD_TEST", "INSTALL_TEST", "USE_MPI", "USE_NUMA", "USE_ITT"),
        *("USE_MAGMA", "USE_NNPACK", "USE_FBGEMM_GENAI", "USE_ROCM_CK_GEMM", "USE_ROCM_CK_SDPA"),
        *("USE_FLASH_ATTENTION", "USE_MEM_EFF_ATTENTION", "PYTORCH_BUILD_NUMBER"),
    )
    expected = {
        **hip_environment(work),
        **NETWORK,
        **JOBS,
        **dict.fromkeys(switched_off, "0"),
        "CMAKE_ARGS": None,
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_PREFIX_PATH": str(prefix),
        "PYTORCH_BUILD_VERSION": row["pytorch_version"],
        "PYTORCH_EXTRA_INSTALL_REQUIREMENTS": f"triton=={row['triton_version']}",
        "USE_ROCM": "1",
        "BLAS": "OpenBLAS",
        "OpenBLAS_HOME": str(prefix),
        "CFLAGS": f"-O2 -pipe {maps}",
        "CXXFLAGS": f"-O2 -pipe {maps}",
        "LDFLAGS": f"-Wl,-O2  -Wl,-z,lazy -L{prefix}/lib -Wl,--enable-new-dtags"
        f" -Wl,-rpath-link,{work.rocm}/lib"
        f" -Wl,--allow-shlib-undefined -Wl,-rpath-link,{prefix}/lib"
        r" -Wl,-rpath,'$ORIGIN/../../../..' -Wl,-rpath,'$ORIGIN/../../../../rocm-host'",
        "LDSHARED": "gcc-11 -shared",
        "LDCXXSHARED": "g++-11 -shared",
    }
    for call in calls:
        assert work.changed(call) == expected
        assert call.cwd == work.source
    assert not (work.source / ".gitmodules").exists()
    record = json.loads((prefix / "share/rocm-channel/pytorch-rocm/build.json").read_text())
    assert record["rocm_arch"] == row["rocm_arch"]


@pytest.mark.parametrize(
    ("settings", "code", "guard", "words"),
    [
        ({"baked": "gfx1100"}, 66, "baked-arch", "found: --offload-arch=gfx1100"),
        ({"configures": False}, 66, "baked-arch", "no build/CMakeCache.txt"),
        ({"options": {"USE_FLASH_ATTENTION": "ON"}}, 69, "aotriton", "USE_FLASH_ATTENTION was turned on"),
        ({"options": {"USE_MEM_EFF_ATTENTION": "1"}}, 69, "aotriton", "USE_MEM_EFF_ATTENTION was turned on"),
        ({"aotriton": True}, 69, "aotriton", "AOTriton was fetched or built"),
    ],
)
def test_pytorch_stops_before_it_compiles(
    make: Maker, settings: dict[str, Any], code: int, guard: str, words: str
) -> None:
    work = make("pytorch-rocm", VARIANTS[0], **settings)
    assert words in stops(work, code, guard)
    assert [call.words[0] for call in work.calls()] == ["tools/amd_build/build_amd.py", "setup.py"]


# --- Triton and its LLVM --------------------------------------------------------------------------


@pytest.mark.parametrize("row", STACKS, ids=lambda row: row["triton_version"])
def test_triton(make: Maker, row: Mapping[str, str]) -> None:
    work = make("triton-rocm", row)
    pybind11, install, site, strip = succeeds(work)
    assert install.line == ["python", *PIP_INSTALL, ".", *PIP_OPTIONS]
    assert "pybind11.get_include()" in pybind11.words[1] and "platlib" in site.words[1]
    packages = work.prefix / "lib/python3.12/site-packages"
    assert strip.line == ["strip", "--strip-debug", f"{packages}/triton/_C/libtriton.so"]
    source_map = f"-ffile-prefix-map={work.source}=/usr/src/triton-rocm -w"
    expected = {
        **NETWORK,
        **JOBS,
        "LD_RUN_PATH": None,
        "CMAKE_ARGS": f"{work.given['CMAKE_ARGS']} {DISCONNECTED}",
        "TRITON_OFFLINE_BUILD": "1",
        "TRITON_BUILD_PROTON": "OFF",
        "TRITON_HOME": f"{work.source}/_home",
        "LLVM_SYSPATH": f"{work.prefix}/lib/triton-llvm",
        "JSON_SYSPATH": str(work.prefix),
        "PYBIND11_SYSPATH": f"{packages}/pybind11",
        "TRITON_APPEND_CMAKE_ARGS": "-DTRITON_BUILD_UT=OFF -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON"
        " '-DCMAKE_INSTALL_RPATH=$ORIGIN/../../../..'",
        "CFLAGS": f"-O2 -pipe {source_map}",
        "CXXFLAGS": f"-fvisibility-inlines-hidden -O2 -pipe {source_map}",
        "LDFLAGS": f"-Wl,--enable-new-dtags -Wl,-O2 -Wl,--as-needed -Wl,-z,now -L{work.prefix}/lib",
    }
    assert work.changed(install) == expected
    assert not {"ROCM_HOME", "HIP_CLANG"} & install.env.keys(), "no ROCm takes part"
    assert (work.source / "LLVM-LICENSE.TXT").is_file()


def test_triton_wants_the_llvm_that_it_pins(make: Maker) -> None:
    work = make("triton-rocm", STACKS[0])
    (work.source / "cmake/llvm-hash.txt").write_text("0123456789abcdef\n")
    assert "0.g01234567 (cmake/llvm-hash.txt)" in stops(work, 68, "llvm-pin")
    assert work.calls() == []


def test_triton_goes_into_the_folder_of_older_releases(make: Maker) -> None:
    work = make("triton-rocm", STACKS[0])
    (work.source / "setup.py").unlink()
    (work.source / "python").mkdir()
    assert [call.cwd for call in succeeds(work) if "pip" in call.words] == [work.source / "python"]


@pytest.mark.parametrize("row", STACKS, ids=lambda row: row["triton_llvm_version"])
def test_llvm(make: Maker, row: Mapping[str, str]) -> None:
    work = make("triton-llvm", row)
    configure, build, install = succeeds(work)
    source, folder = work.source, work.source / "build"
    assert configure.words[:6] == ["-S", f"{source}/llvm", "-B", str(folder), "-G", "Ninja"]
    options = dict(word[2:].split("=", 1) for word in configure.words[6:])
    assert options == {
        "CMAKE_FIND_ROOT_PATH_MODE_LIBRARY": "ONLY",
        "CMAKE_FIND_ROOT_PATH_MODE_INCLUDE": "ONLY",
        "FETCHCONTENT_FULLY_DISCONNECTED": "ON",
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_INSTALL_PREFIX": f"{work.prefix}/lib/triton-llvm",
        "CMAKE_INSTALL_LIBDIR": "lib",
        "LLVM_ENABLE_PROJECTS": "mlir;lld",
        "LLVM_TARGETS_TO_BUILD": "host;AMDGPU;NVPTX",
        **dict.fromkeys(("LLVM_ENABLE_ASSERTIONS", "LLVM_BUILD_UTILS", "LLVM_INSTALL_UTILS"), "ON"),
        **dict.fromkeys(
            (
                *("LLVM_ENABLE_ZLIB", "LLVM_ENABLE_ZSTD", "LLVM_ENABLE_LIBXML2", "LLVM_ENABLE_LIBEDIT"),
                *("LLVM_ENABLE_LIBPFM", "LLVM_ENABLE_TERMINFO", "LLVM_BUILD_TOOLS", "LLD_BUILD_TOOLS"),
                *("LLVM_INCLUDE_TESTS", "MLIR_INCLUDE_TESTS", "LLVM_INCLUDE_BENCHMARKS"),
                *("LLVM_INCLUDE_EXAMPLES", "LLVM_INCLUDE_DOCS", "LLVM_BUILD_TELEMETRY"),
                "LLVM_APPEND_VC_REV",
            ),
            "OFF",
        ),
    }
    assert build.line == ["cmake", "--build", str(folder), "--parallel", JOBS["MAX_JOBS"]]
    assert install.line == ["cmake", "--install", str(folder)]
    source_map = f"-ffile-prefix-map={source}=/usr/src/triton-llvm"
    expected = {
        **NETWORK,
        **JOBS,
        "CMAKE_ARGS": f"{work.given['CMAKE_ARGS']} {DISCONNECTED}",
        "CFLAGS": f"-O2 -pipe {source_map}",
        "CXXFLAGS": f"-fvisibility-inlines-hidden -O2 -pipe {source_map}",
    }
    for call in (configure, build, install):
        assert work.changed(call) == expected
    assert (work.prefix / "lib/triton-llvm/LICENSE.TXT").is_file()


@pytest.mark.parametrize("script", ["triton-rocm", "triton-llvm"])
def test_another_gcc_than_the_variant_s_stops(make: Maker, script: str) -> None:
    work = make(script, STACKS[0])
    work.changes["cxx_compiler_version"] = "13"
    assert "found: 11." in stops(work, 63, "compilers")
    assert work.calls() == []


# --- AMD SMI --------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", STACKS, ids=lambda row: row["rocm_version"])
def test_amdsmi(make: Maker, row: Mapping[str, str]) -> None:
    work = make("amdsmi", row)
    (install,) = succeeds(work)
    assert install.line == ["python", *PIP_INSTALL, "./interface", *PIP_OPTIONS]
    compiler = work.rocm / "lib/llvm/bin/clang++"
    assert work.changed(install) == {
        **NETWORK,
        "CMAKE_ARGS": f"{work.given['CMAKE_ARGS']} {DISCONNECTED}",
        "ROCM_HOME": str(work.rocm),
        "HIP_CLANG": str(compiler),
        "HIP_CLANG_PATH": str(compiler.parent),
    }
    copied = {path.name for path in (work.source / "interface").rglob("*")}
    assert copied == {"LICENSE", "amdsmi", "setup.py", "__init__.py"}, "without the library"
    assert (work.source / "LICENSE").read_text() == "licence\n"


@pytest.mark.parametrize(
    ("lost", "words"),
    [("share/amd_smi/amdsmi", "no Python interface of AMD SMI"), ("share/amd_smi/LICENSE", "no licence")],
)
def test_amdsmi_stops(make: Maker, lost: str, words: str) -> None:
    work = make("amdsmi", STACKS[0])
    path = work.rocm / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert words in stops(work, 73, "amdsmi")


# --- every guard of every script ------------------------------------------------------------------

GUARDS = {
    "arch": ({"rocm_arch": "gfx90a;gfx942"}, 61),
    "rocm": ({"rocm_version": "6.4"}, 62),
    "compilers": ({"CXX": "clang++-19"}, 63),
    "jobs": ({"memory_per_job_mib": None}, 64),
    "stale": ({}, 65),
}
USED = {
    "vllm-rocm": ("arch", "rocm", "compilers", "jobs", "stale"),
    "pytorch-rocm": ("arch", "rocm", "compilers", "jobs", "stale"),
    "triton-rocm": ("compilers", "jobs", "stale"),
    "triton-llvm": ("compilers", "jobs", "stale"),
    "amdsmi": ("rocm", "stale"),
}


@pytest.mark.parametrize(("script", "guard"), [(s, g) for s, guards in USED.items() for g in guards])
def test_a_guard_stops_before_anything_is_run(make: Maker, script: str, guard: str) -> None:
    work = make(script, VARIANTS[0])
    changes, code = GUARDS[guard]
    work.changes |= changes
    if guard == "stale":
        (work.source / "dist").mkdir()
    stops(work, code, guard)
    assert work.calls() == []
    assert not (work.prefix / "share").exists()


def test_each_script_has_all_the_guards_that_it_should() -> None:
    for script, guards in USED.items():
        text = (SCRIPTS / f"{script}.sh").read_text()
        called = set(re.findall(r"^guard_(arch|rocm|compilers|jobs|stale)\b", text, re.MULTILINE))
        # read_compiler is the part of guard_compilers that needs no HIP compiler.
        called |= {"compilers"} if "read_compiler CXX" in text else set()
        assert called == set(guards)
        assert re.search(r"^guard_network$", text, re.MULTILINE)


@pytest.mark.parametrize("script", USED)
def test_nothing_that_downloads_is_called(make: Maker, script: str) -> None:
    work = make(script, VARIANTS[0])
    succeeds(work)
    assert {call.name for call in work.calls()} <= {"python", "cmake", "strip"}


# --- every exported variable is read by somebody --------------------------------------------------

with (ROOT / "tests" / "data" / "build_scripts" / "variables.toml").open("rb") as _file:
    READERS: dict[str, dict[str, Any]] = tomllib.load(_file)


@pytest.mark.parametrize("script", USED)
def test_every_exported_variable_has_a_reader(make: Maker, script: str) -> None:
    work = make(script, VARIANTS[0])
    exported = {
        name for call in succeeds(work) for name, value in work.changed(call).items() if value is not None
    }
    assert exported <= READERS.keys(), "a variable that nothing is known to read"


def test_every_reader_is_of_a_variable_that_is_still_exported() -> None:
    text = "\n".join(path.read_text() for path in SCRIPTS.rglob("*.sh"))
    assert {name for name in READERS if not re.search(rf"\b{name}\b", text)} == set()
    for name, entry in READERS.items():
        assert entry.keys() <= {"read_by", "seen", "other"} and entry, name


def reads(text: str, name: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", text) is not None


def readers_of(kind: str) -> list[tuple[str, str]]:
    return [
        (name, reader.partition(":")[2])
        for name, entry in READERS.items()
        for reader in entry.get("read_by", [])
        if reader.partition(":")[0] == kind
    ]


def package(name: str) -> Path:
    """The folder of an installed Python package."""
    found = importlib.util.find_spec(name)
    assert found and found.origin
    return Path(found.origin).parent


def text_of(path: Path) -> str:
    """Text of a file, or of all Python files of a folder: releases move functions about in it."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return "\n".join(file.read_text() for file in files)


def test_readers_on_this_machine(sdk_root: Path) -> None:
    modules = next((package("cmake") / "data" / "share").glob("cmake-*")) / "Modules"
    program = (package("cmake") / "data" / "bin" / "cmake").read_bytes()
    options = (package("pip") / "_internal" / "cli" / "cmdoptions.py").read_text()
    configuration = (package("pip") / "_internal" / "configuration.py").read_text()
    places = {
        "cmake": modules,
        "hip": sdk_root / "lib" / "cmake" / "hip",
        "setuptools": package("setuptools"),
        "ours": SCRIPTS,
    }
    for kind, folder in places.items():
        for name, file in readers_of(kind):
            assert reads(text_of(folder / file), name), f"{name} in {file}"
    for name, _ in readers_of("cmake-program"):
        assert name.encode() in program, name
    for name, option in readers_of("pip"):
        assert f'"{option}"' in options if option else name in configuration, name


@pytest.mark.network
@pytest.mark.parametrize("row", STACKS, ids=lambda row: row["vllm_version"])
def test_readers_in_the_real_sources(row: Mapping[str, str]) -> None:
    project = Project(ROOT)
    outputs = recipe_outputs(project.recipes / "vllm-rocm", MATRIX)
    output = next(one for one in outputs if one.version == row["vllm_version"])
    vllm = staged_source(output, project)
    for name, file in readers_of("vllm"):
        assert reads((vllm / file).read_text(), name), f"{name} in {file} of vLLM {row['vllm_version']}"
    torch = torch_files(row["pytorch_version"], project.cache / "sources")
    for name, file in readers_of("torch"):
        assert reads((torch / file).read_text(), name), (
            f"{name} in {file} of PyTorch {row['pytorch_version']}"
        )
    # ROCM_PATH is not exported anew: it is there when the script starts.
    load_hip = (torch / "torch/share/cmake/Caffe2/public/LoadHIP.cmake").read_text()
    assert "ENV{ROCM_PATH}" in load_hip and "HIP_PATH" not in load_hip
    assert "TRITON_BUILD_UT" not in READERS
