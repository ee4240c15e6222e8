"""Where a build's compilers and ROCm come from, and which part of the matrix that decides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from channel_tools.build.host_tools import HostTools, make_host_tools
from channel_tools.model import environment
from channel_tools.model.errors import ToolMissingError
from channel_tools.model.matrix import Matrix
from channel_tools.model.project import Project

SDK_MARKER = ".rocm-channel-sdk"


@dataclass(frozen=True)
class Toolchain:
    """``kind`` is ``conda`` or ``host``; ``channels`` have the build tools; ``rocm_path`` is ROCm's root."""

    kind: str
    channels: tuple[str, ...]
    rocm_path: Path | None

    @property
    def hip_sdk(self) -> str:
        """``rocm``, or ``debian`` for the SDK root made from Debian packages."""
        if self.kind == "conda" or (self.rocm_path and not (self.rocm_path / SDK_MARKER).is_file()):
            return "rocm"
        return "debian"

    def overrides(self) -> Mapping[str, str]:
        """Matrix keys that this toolchain decides."""
        if self.kind == "conda":
            return {}
        glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 0").split()[-1]
        return {"toolchain": "host", "hip_sdk": self.hip_sdk, "c_stdlib_version": glibc}

    def describe(self) -> str:
        """One line for people."""
        rocm = self.rocm_path or "no ROCm root found"
        if self.kind == "conda":
            return f"toolchain: conda, from {', '.join(self.channels)}; ROCm: {rocm}"
        sdk = " (SDK from Debian packages, HIP 5.7.1, not ROCm 7)" if self.hip_sdk == "debian" else ""
        return f"toolchain: this host's own tools; ROCm: {rocm}{sdk}"


def choose(
    project: Project, channels: tuple[str, ...] = (), kind: str | None = None, rocm_path: Path | None = None
) -> Toolchain:
    """Conda's tools where a channel for them is given, else the host's own."""
    kind = kind or ("conda" if channels else "host")
    if kind == "conda" and not channels:
        channels = ("conda-forge",)
    root = rocm_path or environment.read_path("ROCM_PATH")
    if root is None:
        candidates = [Path("/opt/rocm"), *([project.sdk] if kind == "host" else [])]
        root = next((path for path in candidates if path.is_dir()), None)
    return Toolchain(kind, channels, root)


def prepare_host_tools(project: Project, matrix: Matrix) -> HostTools:
    """Make the channel of bridges for the compilers and Pythons of the matrix.

    :raises ToolMissingError: a tool is not on this host
    """
    gcc_major = matrix.values["cxx_compiler_version"][0]
    private_gcc = project.cache / f"gcc-{gcc_major}"
    return make_host_tools(project.host_tools, gcc_major, matrix.values["python"], private_gcc)


def require_rocm(toolchain: Toolchain, project: Project) -> Path:
    """The ROCm root, or a clear error before any build starts.

    :raises ToolMissingError: there is none
    """
    if toolchain.rocm_path is not None and toolchain.rocm_path.is_dir():
        return toolchain.rocm_path.resolve()
    if toolchain.rocm_path is not None:
        raise ToolMissingError(
            "the ROCm root is not there", where=toolchain.rocm_path, fix="correct ROCM_PATH"
        )
    raise ToolMissingError(
        "no ROCm root: ROCM_PATH is not set and /opt/rocm does not exist",
        fix=f"set ROCM_PATH, or make an SDK root: bash build_scripts/rocm_sdk.sh {project.sdk}",
    )
