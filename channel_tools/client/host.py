"""What this host has: AMD GPUs and a ROCm release."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from channel_tools.diagnose.doctor.gpus import Gpu, read_gpus
from channel_tools.diagnose.doctor.host_root import HostRoot
from channel_tools.diagnose.doctor.hosts import LiveHost
from channel_tools.model import environment
from channel_tools.model.arch import Arch, lookup
from channel_tools.model.errors import ArchRefusedError

RELEASE = re.compile(r"^(\d+\.\d+)(?:[.\-+].*)?$")


@dataclass(frozen=True)
class Host:
    """``archs`` are the distinct GPU targets found, in KFD order; ``rocm`` is the release as X.Y.

    ``gpus`` has every device that the kernel shows; it is empty where the targets were forced.
    """

    archs: tuple[Arch, ...]
    rocm: str | None
    rocm_root: Path | None
    gpus: tuple[Gpu, ...] = ()


def detect_host(root: HostRoot | None = None) -> Host:
    """Look at the kernel's KFD topology and at ROCm's ``.info/version``.

    A GPU that is newer than every registry has its target by the number that the kernel gives.

    :param root: whose topology to read; this machine's when None
    :raises ArchRefusedError: a forced target is no AMD GPU target
    """
    release, rocm_root = detect_rocm()
    gpus = () if _told() else read_gpus(root or LiveHost(), ())
    return Host(_archs(gpus), release, rocm_root, gpus)


def isa_of(target: str) -> str:
    """ISA version of a target's name, as ``__amdgpu_arch`` spells it: ``9.0.10`` of ``gfx90a``.

    The last two characters are minor version and stepping in hexadecimal (LLVM's AMDGPU processor names).
    """
    return f"{target[3:-2]}.{int(target[-2], 16)}.{int(target[-1], 16)}"


def _told() -> bool:
    """Were targets named instead of looked for?"""
    return bool(
        environment.read("ROCM_BOOTSTRAP_FORCE_GFX_ARCH")
        or environment.read("ROCM_BOOTSTRAP_DISABLE_DETECTION") == "1"
    )


def _archs(gpus: Sequence[Gpu]) -> tuple[Arch, ...]:
    if not _told():
        return tuple(dict.fromkeys(Arch(gpu.target, isa_of(gpu.target)) for gpu in gpus))
    if environment.read("ROCM_BOOTSTRAP_DISABLE_DETECTION") == "1":
        return ()
    names = [name.strip() for name in (environment.read("ROCM_BOOTSTRAP_FORCE_GFX_ARCH") or "").split(",")]
    found = {name: lookup(name) for name in names if name}
    unknown = [name for name, arch in found.items() if arch is None]
    if unknown:
        raise ArchRefusedError(
            f"{unknown[0]} is no AMD GPU target",
            where="ROCM_BOOTSTRAP_FORCE_GFX_ARCH",
            found=", ".join(names),
            wanted="targets such as gfx942",
            fix="correct the variable, or unset it to look at this host's GPUs",
        )
    return tuple(dict.fromkeys(arch for arch in found.values() if arch is not None))


def detect_rocm() -> tuple[str | None, Path | None]:
    """Release (X.Y) and root of the ROCm that programs of this host will load.

    ``ROCM_PATH``, then ``/opt/rocm``, then the newest ``/opt/rocm-X.Y*``. A root without
    ``.info/version`` has no release.
    """
    try:
        named = environment.read_path("ROCM_PATH")
    except RuntimeError:  # ~somebody that nobody is
        named = None
    numbered = sorted(Path("/opt").glob("rocm-[0-9]*"), key=_numbers, reverse=True)
    for root in ([named] if named else []) + [Path("/opt/rocm"), *numbered]:
        release = read_release(root)
        if release is not None:
            return release, root
    return None, None


def read_release(root: Path) -> str | None:
    """Release (X.Y) that a ROCm root's ``.info/version`` names: ``7.2`` of ``7.2.3-123``."""
    try:
        text = (root / ".info" / "version").read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return None
    match = RELEASE.match(text[0]) if text else None
    return match[1] if match else None


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.name)]
