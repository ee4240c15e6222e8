"""ctypes binding of ``librocm_canary_probe.so``."""

from __future__ import annotations

import ctypes
import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ._model import Info, Run

_PROBE = Path(__file__).parent / "lib" / "librocm_canary_probe.so"


class RocmCanaryError(Exception):
    """Base of the errors; ``status`` is the exit code that ``rocm-canary`` ends with in the same case."""

    status = 1


class UsageError(RocmCanaryError):
    """An argument that makes no sense."""

    status = 2


class NoGpuError(RocmCanaryError):
    """This host shows no AMD GPU."""

    status = 3


class ArchMismatchError(RocmCanaryError):
    """This build holds no code for the GPU."""

    status = 4


class RuntimeNotFoundError(RocmCanaryError):
    """The HIP runtime cannot be loaded."""

    status = 5


class HipCallError(RocmCanaryError):
    """A HIP call returned an error."""

    status = 6


class WrongResultError(RocmCanaryError):
    """GPU and CPU disagree."""

    status = 7


class BrokenInstallError(RocmCanaryError):
    """A library of this package is missing or damaged."""

    status = 8


_ERRORS: dict[int, type[RocmCanaryError]] = {
    error.status: error
    for error in (
        UsageError,
        NoGpuError,
        ArchMismatchError,
        RuntimeNotFoundError,
        HipCallError,
        WrongResultError,
        BrokenInstallError,
    )
}


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(_PROBE))
    except OSError as error:
        raise BrokenInstallError(f"{error}; install the package again") from error
    text = ctypes.POINTER(ctypes.c_char_p)
    library.rocm_canary_probe_info.argtypes = (text, text)
    library.rocm_canary_probe_run.argtypes = (ctypes.c_int, ctypes.c_int, text, text)
    return library


def _ask(function: str, *arguments: int) -> dict[str, Any]:
    output, error = ctypes.c_char_p(), ctypes.c_char_p()
    status = getattr(_library(), function)(*arguments, ctypes.byref(output), ctypes.byref(error))
    if status != 0:
        raise _ERRORS.get(status, RocmCanaryError)((error.value or b"").decode(errors="replace"))
    answer: dict[str, Any] = json.loads((output.value or b"{}").decode(errors="replace"))
    return answer


def info() -> Info:
    """What this build is, read without GPU and ROCm.

    :raises BrokenInstallError: a library is missing or damaged
    """
    return Info.from_json(_ask("rocm_canary_probe_info"))


def targets() -> tuple[str, ...]:
    """The GPU targets in the library, sorted (``("gfx942",)``); empty where it is compressed."""
    return info().targets


def run(device: int | None = None, size: Literal["small", "large"] = "small") -> Run:
    """Computes on a GPU and compares with the CPU.

    :param device: HIP's number of the GPU; without it the first one that this build holds code for
    :raises RocmCanaryError: the subclass says which step failed
    """
    if size not in ("small", "large"):
        raise UsageError(f"size is 'small' or 'large', not {size!r}")
    if device is not None and device < 0:
        raise UsageError(f"device is a number from 0 on, not {device}")
    number = -1 if device is None else device
    return Run.from_json(_ask("rocm_canary_probe_run", number, int(size == "large")))
