"""vLLM's real source distributions against recipe, patches and build script.

Nothing is compiled. CMake configures the whole of vLLM with a stand-in for PyTorch, and its compile commands
say how each unit would be compiled. The rest is real: the archive, the patches, setup.py, the HIP compiler.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import rattler_build as engine

from channel_tools.model.matrix import read_matrix
from channel_tools.model.tar import tarfile
from channel_tools.sources.fetch import Fetcher
from channel_tools.sources.needed import Source
from channel_tools.sources.store import Store

pytestmark = pytest.mark.network

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "recipes" / "vllm-rocm"
MATRIX = read_matrix(ROOT / "variants" / "conda_build_config.yaml")
STORE = Store(ROOT / ".cache" / "sources")
PLATFORM = engine.PlatformConfig(target_platform="linux-64")


@dataclass(frozen=True)
class Release:
    """One vLLM of the matrix with its recipe as rendered; the archive is named as on the index."""

    row: dict[str, str]
    recipe: dict[str, Any]

    @property
    def version(self) -> str:
        return self.row["vllm_version"]

    @property
    def archive_name(self) -> str:
        return f"vllm-{self.version}.tar.gz"

    @property
    def archive(self) -> Path:
        return STORE.path(self.row["vllm_sha256"])

    @property
    def patches(self) -> list[Path]:
        return [RECIPE / name for name in self.recipe["source"][0]["patches"]]

    def unpack(self, folder: Path) -> Path:
        with tarfile.open(self.archive) as archive:
            archive.extractall(folder, filter="data")
        return folder / f"vllm-{self.version}"


def releases() -> list[Release]:
    """One row of the matrix for each vLLM, each with another GPU arch."""
    config = engine.VariantConfig(
        {key: list(values) for key, values in MATRIX.values.items()},
        zip_keys=[list(group) for group in MATRIX.zip_groups],
    )
    rendered = engine.Stage0Recipe.from_file(RECIPE / "recipe.yaml").render(
        config, engine.RenderConfig(platform=PLATFORM)
    )
    archs = MATRIX.values["rocm_arch"]
    found = []
    for index, version in enumerate(MATRIX.values["vllm_version"]):
        wanted = {"vllm_version": version, "rocm_arch": archs[index % len(archs)], "selection": "declared"}
        row = next(row for row in MATRIX.rows() if wanted.items() <= row.items())
        output = next(one for one in rendered if all(row.get(k, v) == str(v) for k, v in one.variant.items()))
        found.append(Release(row, output.recipe.to_dict()))
    return found


@pytest.fixture(scope="module", params=releases(), ids=lambda release: release.version)
def release(request: pytest.FixtureRequest) -> Release:
    """A release whose archive is in the checkout's store, checked against the matrix."""
    release: Release = request.param
    source = release.recipe["source"][0]
    (fetched,) = Fetcher(STORE).run([Source(release.archive_name, source["sha256"], tuple(source["url"]))])
    assert fetched.error is None, fetched.notes
    return release


def apply(source: Path, patch: Path) -> str:
    """Apply as conda-build and rattler-build do, but with no fuzz; what patch says about it."""
    command = ["patch", "-p1", "--fuzz=0", "--batch", "--input", patch]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{patch.name}: {done.stdout}"
    return done.stdout


def test_archive_is_the_one_of_the_matrix(release: Release) -> None:
    assert hashlib.sha256(release.archive.read_bytes()).hexdigest() == release.row["vllm_sha256"]


def test_patches_apply_at_their_lines(release: Release, tmp_path: Path) -> None:
    source = release.unpack(tmp_path)
    before = (source / "CMakeLists.txt").read_text()
    for patch in release.patches:
        said = apply(source, patch)
        assert "offset" not in said and "fuzz" not in said, said
    added = (source / "CMakeLists.txt").read_text().replace(before.split("\n", 1)[1], "")
    assert "cmake_language(DEFER CALL vllm_cap_optimisation)" in added
    assert not list(source.glob("**/*.rej")) and not list(source.glob("**/*.orig"))


def test_the_server_starts_without_the_sagemaker_package(release: Release, tmp_path: Path) -> None:
    source = release.unpack(tmp_path)
    for patch in release.patches:
        apply(source, patch)
    importing = re.compile(r"^\s*(?:import|from) model_hosting_container_standards", re.MULTILINE)
    asked = [path for path in (source / "vllm").rglob("*.py") if importing.search(path.read_text())]
    (hooks,) = asked
    assert importlib.util.find_spec("model_hosting_container_standards") is None
    spec = importlib.util.spec_from_file_location("sagemaker_standards", hooks)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    used = {
        name
        for path in (source / "vllm").rglob("api_router.py")
        for name in re.findall(r"sagemaker_standards\.(\w+)", path.read_text())
    }
    endpoint = object()
    assert len(used) == 7
    for name in used:
        hook = getattr(module, name)
        direct = name in ("bootstrap", "register_ping_handler", "register_invocation_handler")
        assert (hook(endpoint) if direct else hook(adapter_path="model")(endpoint)) is endpoint


# What vLLM's setup.py and CMakeLists.txt ask of torch, setuptools_scm and setuptools_rust.
STAND_INS = {
    "torch/__init__.py": "__version__ = '2.99'\nfrom . import utils, version\n",
    "torch/version.py": "hip = '7.0.0'\ncuda = None\nxpu = None\n",
    "torch/utils/__init__.py": """
from pathlib import Path
from . import cpp_extension
cmake_prefix_path = str(Path(__file__).parents[1] / "share" / "cmake")
""",
    "torch/utils/cpp_extension.py": """
import os
CUDA_HOME, ROCM_HOME = None, os.environ.get("ROCM_HOME")
COMMON_HIP_FLAGS, COMMON_HIPCC_FLAGS, COMMON_NVCC_FLAGS = ["-fPIC", "-DUSE_ROCM=1"], ["-DCUDA_HAS_FP16=1"], []
""",
    "torch/share/cmake/Torch/TorchConfig.cmake": """
set(TORCH_FOUND TRUE)
set(HIP_FOUND TRUE)
set(ROCM_VERSION_DEV_MAJOR 7)
add_library(torch INTERFACE IMPORTED)
set(TORCH_LIBRARIES torch)
""",
    "torch/share/cmake/Torch/TorchConfigVersion.cmake": """
set(PACKAGE_VERSION 2.99)
set(PACKAGE_VERSION_COMPATIBLE TRUE)
""",
    "setuptools_scm.py": """
import os
def get_version(**words):
    return os.environ["SETUPTOOLS_SCM_PRETEND_VERSION"]
""",
    "setuptools_rust/__init__.py": """
from enum import Enum
from types import SimpleNamespace
Binding = Enum("Binding", "Exec PyO3")
def RustExtension(target, **words):
    return SimpleNamespace(target={"": target}, **words)
""",
    "setuptools_rust/build.py": "from setuptools import Command as build_rust\n",
}
# The environment's Python: `-m pip install .` is vLLM's own setup.py as far as CMake's configuration. Without
# its pyproject.toml, which older setuptools do not read.
PYTHON = """#!/bin/sh
export PYTHONPATH={stand_ins}
case "$*" in
"-m pip install ."*) rm pyproject.toml && exec {python} setup.py build_ext ;;
*) exec {python} "$@" ;;
esac
"""
# CMake that configures, copies triton_kernels, and neither builds nor installs anything else.
CMAKE = """#!/bin/sh
case "$*" in
*"--component triton_kernels") exec {cmake} "$@" ;;
--build* | --install*) exit 0 ;;
*) exec {cmake} "$@" ;;
esac
"""


def run_build_script(release: Release, source: Path, sdk: Path) -> subprocess.CompletedProcess[str]:
    """Run build_scripts/vllm-rocm.sh as a conda engine does: the environment below is the whole of it."""
    work = source.parent
    for name, text in STAND_INS.items():
        (work / "stand-ins" / name).parent.mkdir(parents=True, exist_ok=True)
        (work / "stand-ins" / name).write_text(text)
    kernels = source / "triton-kernels" / "python" / "triton_kernels" / "triton_kernels"
    kernels.mkdir(parents=True)
    for name in ("__init__.py", "matmul_ogs.py"):
        (kernels / name).touch()
    tools = Path(sys.executable).parent
    gxx = Path(shutil.which("g++-11") or "/usr/bin/g++-11")
    programs = {
        "python": PYTHON.format(stand_ins=work / "stand-ins", python=sys.executable),
        "cmake": CMAKE.format(cmake=tools / "cmake"),
    }
    (work / "bin").mkdir()
    for name, text in programs.items():
        (work / "bin" / name).write_text(text)
        (work / "bin" / name).chmod(0o755)
    prefix = work / "prefix"
    prefix.mkdir()
    environment = {
        **{
            key: release.row[key] for key in ("rocm_arch", "rocm_isa", "rocm_version", "cxx_compiler_version")
        },
        **{"toolchain": "host", "hip_sdk": "debian", "ROCM_PATH": str(sdk), "memory_per_job_mib": "100"},
        **{"PREFIX": str(prefix), "SRC_DIR": str(source), "RECIPE_DIR": str(RECIPE), "HOME": str(work)},
        **{"PKG_NAME": "vllm-rocm", "PKG_VERSION": release.version, "PYTHON": str(work / "bin" / "python")},
        "PATH": os.pathsep.join([str(work / "bin"), str(tools), str(gxx.parent), "/usr/bin", "/bin"]),
        "CC": "gcc-11",
        # What the compiler packages of a conda build put into the environment.
        "CXX": "g++-11",
        "CXXFLAGS": "-O2 -fvisibility-inlines-hidden",
        "LDFLAGS": f"-Wl,-O2 -Wl,--disable-new-dtags -Wl,-rpath,{prefix}/lib -L{prefix}/lib",
        "CMAKE_GENERATOR": "Unix Makefiles",
        "CMAKE_ARGS": "-DCMAKE_BUILD_TYPE=Release -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY"
        " -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY",
    }
    script = ROOT / "build_scripts" / "vllm-rocm.sh"
    return subprocess.run(
        ["bash", script],
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_every_unit_is_compiled_at_o2_for_the_arch_of_the_variant(
    release: Release, tmp_path: Path, sdk_root: Path
) -> None:
    source = release.unpack(tmp_path)
    for patch in release.patches:
        apply(source, patch)
    done = run_build_script(release, source, sdk_root)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    evidence = tmp_path / "prefix" / "share" / "rocm-channel" / "vllm-rocm" / "compile_commands.json"
    commands = [unit["command"] for unit in json.loads(evidence.read_text())]
    hip = [command for command in commands if " -x hip " in command]
    assert len(hip) > 25 and len(commands) > len(hip), "HIP and C++ units of the whole of vLLM"
    for command in commands:
        assert re.findall(r" -O(\S+)", command)[-1] == "2", "the last level on the line is the one that holds"
        assert " -O3" not in command
    for command in hip:
        assert re.findall(r"--offload-arch=(\S+)", command) == [release.row["rocm_arch"]]
        assert "--gcc-install-dir=" in command, "host code of HIP units with the GCC of CXX"

    modules = {name for command in commands for name in re.findall(r"-DTORCH_EXTENSION_NAME=(\S+)", command)}
    imports = next(test["python"]["imports"] for test in release.recipe["tests"] if "python" in test)
    assert {f"vllm.{module}" for module in modules} == set(imports) - {"vllm"}, (
        "the package test imports each"
    )

    (ninja,) = source.glob("build/temp*/build.ninja")
    run_paths = set(re.findall(r'-rpath,"([^"]*)"', ninja.read_text()))
    assert run_paths == {r"\$$ORIGIN/../torch/lib:\$$ORIGIN/../../..:\$$ORIGIN/../../../rocm-host"}
    assert "--disable-new-dtags" not in ninja.read_text() and "--enable-new-dtags" in ninja.read_text()
