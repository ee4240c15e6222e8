"""What this build of rocm-canary holds, and a check of the GPU.

The package loads ``librocm_canary_probe.so`` with ctypes, which needs neither GPU nor ROCm. Only :func:`run`
loads the HIP runtime, and only after it has found a GPU that this build holds code for.
"""

from __future__ import annotations

from ._model import Device, Info, KernelResult, Run
from ._probe import (
    ArchMismatchError,
    BrokenInstallError,
    HipCallError,
    NoGpuError,
    RocmCanaryError,
    RuntimeNotFoundError,
    UsageError,
    WrongResultError,
    info,
    run,
    targets,
)

__all__ = [
    "ArchMismatchError",
    "BrokenInstallError",
    "Device",
    "HipCallError",
    "Info",
    "KernelResult",
    "NoGpuError",
    "RocmCanaryError",
    "Run",
    "RuntimeNotFoundError",
    "UsageError",
    "WrongResultError",
    "info",
    "run",
    "targets",
]
