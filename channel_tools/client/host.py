"""What this host has: AMD GPUs and a ROCm release."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from channel_tools.model import environment
from channel_tools.model.arch import Arch

RELEASE = re.compile(r"^(\d+\.\d+)(?:[.\-+].*)?$")


@dataclass(frozen=True)
class Host:
    """``archs`` are the distinct GPU targets found, in KFD order; ``rocm`` is the release as X.Y."""

    archs: tuple[Arch, ...]
    rocm: str | None
    rocm_root: Path | None


def detect_host() -> Host:
    """Look at the kernel's KFD topology (by rocm-bootstrap) and at ROCm's ``.info/version``."""
    release, root = detect_rocm()
    return Host(detect_archs(), release, root)


def detect_archs() -> tuple[Arch, ...]:
    """The distinct GPU targets of this host; empty when it has no AMD GPU."""
    from rocm_bootstrap import detect_gfx_targets

    return tuple(Arch(t.name, f"{t.major}.{t.minor}.{t.stepping}") for t in detect_gfx_targets())


def detect_rocm() -> tuple[str | None, Path | None]:
    """Release (X.Y) and root of the ROCm that programs of this host will load.

    ``ROCM_PATH``, then ``/opt/rocm``, then the newest ``/opt/rocm-X.Y*``. A root without
    ``.info/version`` has no release.
    """
    named = environment.read_path("ROCM_PATH")
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
    except OSError:
        return None
    match = RELEASE.match(text[0]) if text else None
    return match[1] if match else None


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.name)]
