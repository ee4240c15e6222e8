"""The results, as the JSON objects of ``rocm-canary info --json`` and ``run --json`` give them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Info:
    """What this build is.

    ``targets`` are the GPU targets read from the library file (empty where it is ``compressed``),
    ``declared_targets`` those that the build was configured with.
    """

    release: str
    library: Path
    targets: tuple[str, ...]
    compressed: bool
    declared_targets: tuple[str, ...]
    rocm_version: str
    hip_sdk: str
    hip_header_version: str
    toolchain: str
    cxx_compiler: str
    hip_compiler: str
    cxx_flags: str
    hip_flags: str

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Info:
        return cls(
            release=data["release"],
            library=Path(data["library"]),
            targets=tuple(data["targets"]),
            compressed=data["compressed"],
            declared_targets=tuple(data["declared_targets"]),
            rocm_version=data["rocm_version"],
            hip_sdk=data["hip_sdk"],
            hip_header_version=data["hip_header_version"],
            toolchain=data["toolchain"],
            cxx_compiler=data["cxx_compiler"],
            hip_compiler=data["hip_compiler"],
            cxx_flags=data["cxx_flags"],
            hip_flags=data["hip_flags"],
        )


@dataclass(frozen=True)
class Device:
    """A GPU as HIP describes it; ``arch`` carries features (``gfx90a:sramecc+:xnack-``)."""

    number: int
    name: str
    arch: str
    wavefront_size: int
    compute_units: int
    memory_bytes: int


@dataclass(frozen=True)
class KernelResult:
    """One computation that agreed with the CPU: mean ``seconds`` of a launch, ``rate`` in ``unit``."""

    name: str
    work: str
    seconds: float
    rate: float
    unit: str
    matrix_cores: bool


@dataclass(frozen=True)
class Run:
    """A run in which every computation agreed with the CPU."""

    hip_runtime_version: str
    device: Device
    target: str
    kernels: tuple[KernelResult, ...]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Run:
        kernels = (
            KernelResult(
                name=kernel["name"],
                work=kernel["work"],
                seconds=kernel["seconds"],
                rate=kernel["rate"],
                unit=kernel["unit"],
                matrix_cores=kernel["matrix_cores"],
            )
            for kernel in data["kernels"]
        )
        return cls(
            hip_runtime_version=data["hip_runtime_version"],
            device=Device(**data["device"]),
            target=data["target"],
            kernels=tuple(kernels),
        )
