"""What a vLLM release says of its own build for ROCm, read from its source distribution."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from channel_tools.requirements.cmake_walk import CMakeWalk, Download, Gate
from channel_tools.requirements.data_file import DataFile, Role
from channel_tools.requirements.deps import requirements_of
from channel_tools.requirements.lists import Asked
from channel_tools.requirements.sdist import Sdist
from channel_tools.requirements.setup_modules import Module, extension_modules

# A configure of vLLM for ROCm with GCC on linux x86_64 (CMakeLists.txt, setup.py of 0.16.0 to 0.27.0).
_CMAKE = {
    "APPLE": "FALSE",
    "CMAKE_CXX_COMPILER_ID": "GNU",
    "CMAKE_SYSTEM_NAME": "Linux",
    "CMAKE_SYSTEM_PROCESSOR": "x86_64",
    "CUDA_FOUND": "FALSE",
    "HIP_FOUND": "TRUE",
    "PYTORCH_FOUND_HIP": "TRUE",
    "UNIX": "TRUE",
    "VLLM_TARGET_DEVICE": "rocm",
    "WIN32": "FALSE",
}
_SETUP: Mapping[str, Any] = {
    "CUDA_HOME": None,
    "VLLM_TARGET_DEVICE": "rocm",
    "envs.VLLM_USE_PRECOMPILED": False,
    "torch.version.cuda": None,
    "torch.version.hip": "7.0",
    "torch.version.xpu": None,
}
_STABLE_ABI = re.compile(r"TORCH_TARGET_VERSION=0x([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})[0-9A-Fa-f]*")
_LEAST_GCC = re.compile(r'COMPILER_VERSION VERSION_LESS "?(\d+(?:\.\d+)*)')
_KERNELS = "triton_kernels"


@dataclass(frozen=True)
class Said:
    """One place of a release that names a version: ``where`` is file and line, or a variable of CMake."""

    value: str
    where: str

    def to_json(self) -> dict[str, str]:
        return dict(vars(self))


@dataclass(frozen=True)
class Release:
    """Facts of one release, for a build for ROCm.

    ``torch`` and ``triton``: every place that names a version. ``stable_abi``: the PyTorch release whose
    stable interface it is compiled against. ``downloads``: what a configure would fetch, ``left``: what of
    that is fetched although the build script sets what it sets. ``kernels``: where triton_kernels is from.
    """

    version: str
    requires_python: str
    modules: tuple[Module, ...]
    torch: tuple[Said, ...]
    triton: tuple[Said, ...]
    stable_abi: str
    cxx_standard: str
    archs: tuple[str, ...]
    downloads: tuple[Download, ...]
    left: tuple[Download, ...]
    gates: tuple[Gate, ...]
    asked: Mapping[Role, tuple[Asked, ...]]

    @property
    def kernels(self) -> Download | None:
        return next((found for found in self.downloads if found.name == _KERNELS), None)

    @property
    def least_gcc(self) -> str:
        """The oldest GCC that CMakeLists.txt lets through; empty if it does not say."""
        found = [match[1] for gate in self.gates for match in _LEAST_GCC.finditer(gate.condition)]
        return max(found, key=lambda text: [int(part) for part in text.split(".")], default="")


def read_release(sdist: Sdist, data: DataFile, python: str, exported: frozenset[str]) -> Release:
    """Facts of a release for one Python.

    :param exported: environment variables that the build script sets
    :raises RequirementsError: a list of requirements cannot be read
    """
    major, minor = (int(part) for part in python.split(".")[:2])
    bare, ours = _walk(sdist, python, frozenset()), _walk(sdist, python, exported)
    asked = requirements_of(sdist, data, python)
    variables = bare.variables
    stable = {f"{int(m[1], 16)}.{int(m[2], 16)}" for text in bare.texts for m in _STABLE_ABI.finditer(text)}
    supported = variables.get("TORCH_SUPPORTED_VERSION_ROCM", "")
    cmake = (Said(supported, "CMakeLists.txt, TORCH_SUPPORTED_VERSION_ROCM"),) if supported else ()
    return Release(
        version=sdist.version,
        requires_python=_requires_python(sdist),
        modules=extension_modules(
            sdist.files.get("setup.py", ""), {**_SETUP, "sys.version_info": (major, minor, 0)}
        ),
        torch=(*cmake, *_named(sdist, asked, "torch")),
        triton=_named(sdist, asked, "triton"),
        stable_abi=max(stable, key=lambda text: [int(part) for part in text.split(".")], default=""),
        cxx_standard=variables.get("CMAKE_CXX_STANDARD", ""),
        archs=tuple(filter(None, variables.get("HIP_SUPPORTED_ARCHS", "").split(";"))),
        downloads=tuple(bare.downloads),
        left=tuple(ours.downloads),
        gates=tuple(bare.gates),
        asked=asked,
    )


def _walk(sdist: Sdist, python: str, environment: frozenset[str]) -> CMakeWalk:
    walk = CMakeWalk(sdist.files, {**_CMAKE, "Python_VERSION": python}, environment)
    walk.run()
    return walk


def _requires_python(sdist: Sdist) -> str:
    try:
        project = tomllib.loads(sdist.files.get("pyproject.toml", "")).get("project", {})
    except tomllib.TOMLDecodeError:
        return ""
    return str(project.get("requires-python", ""))


def _named(sdist: Sdist, asked: Mapping[Role, tuple[Asked, ...]], name: str) -> tuple[Said, ...]:
    """The line of each list that names a version of this project."""
    places = [where for one in asked["build"] if one.name == name for where in one.where]
    said = []
    for where in places:
        file, _, line = where.rpartition(":")
        text = sdist.files[file].splitlines()[int(line) - 1]
        version = re.search(r"==\s*([^\s\"',;]+)", text)
        said.append(Said(version[1] if version else text.strip(), where))
    return tuple(said)
