"""Which PyTorch the configuration sees: the build environment's own, or the stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from channel_tools.model.errors import PreflightError
from channel_tools.preflight import stand_in
from channel_tools.preflight.torch_files import torch_files

_ASK = (
    "import json, torch, torch.utils; print(json.dumps([str(torch.__version__), torch.version.hip,"
    " torch.utils.cmake_prefix_path]))"
)


@dataclass(frozen=True)
class Torch:
    """``cmake`` is its folder of CMake files; ``python_path`` is what PYTHONPATH needs to import it."""

    version: str
    hip: str
    cmake: Path
    python_path: tuple[Path, ...] = ()

    @property
    def stands_in(self) -> bool:
        return bool(self.python_path)

    def describe(self) -> str:
        """One line for people."""
        if self.stands_in:
            return f"PyTorch {self.version}, a stand-in with PyTorch's own build files"
        return f"PyTorch {self.version} for HIP {self.hip}, of this Python"


def find_torch(python: Path) -> Torch | None:
    """The PyTorch that this Python imports, if it is one for ROCm.

    vLLM's CMake files resolve links of the interpreter first, so that a virtual environment does not count;
    here it is asked in the same way.
    """
    command = [str(python.resolve()), "-c", _ASK]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=python.resolve().parent)
    if done.returncode:
        return None
    version, hip, cmake = json.loads(done.stdout.splitlines()[-1])
    return Torch(version, hip, Path(cmake)) if hip else None


def check_version(torch: Torch, wanted: str) -> None:
    """:raises PreflightError: it is another release than the variant's"""
    if torch.version.split("+")[0] != wanted:
        raise PreflightError(
            "this PyTorch is another release than the variant's",
            where=torch.cmake,
            found=torch.version,
            wanted=wanted,
            fix="install pytorch-rocm of the variant, or give --python another one",
        )


def make_stand_in(version: str, sources: Path, folder: Path, rocm_version: str) -> Torch:
    """:raises PreflightError: PyTorch's build files cannot be had"""
    stand_in.make_torch(torch_files(version, sources), folder, rocm_version)
    # cpp_extension.py imports setuptools, packaging and typing_extensions.
    libraries = Path(sysconfig.get_path("purelib"))
    cmake = folder / "torch" / "share" / "cmake"
    return Torch(version, rocm_version, cmake, (folder, libraries))


def python_path(torch: Torch) -> str:
    return os.pathsep.join(map(str, torch.python_path))
