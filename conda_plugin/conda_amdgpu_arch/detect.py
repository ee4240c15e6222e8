"""What this machine has, from files of the kernel and of ROCm. Nothing here raises for what it cannot read.

GPU: the KFD topology, ``/sys/class/kfd/kfd/topology/nodes/*/properties``, with ``name value`` on each line.
The kernel makes one node for a processor socket and one for a GPU, or for each part of a partitioned GPU.
``gfx_target_version`` is the ISA version, ``major * 10000 + minor * 100 + stepping``, and 0 for a processor;
compute units are ``simd_count / simd_per_cu``. A container may be kept from some GPUs: reading their files
then fails.

Where KFD shows no GPU, one that the amdgpu driver runs as a display is still one, of unknown ISA.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Optional

ROOT = Path("/")
KFD_NODES = Path("sys/class/kfd/kfd/topology/nodes")
DRM = Path("sys/class/drm")
AMD = "0x1002"
DIGITS = 21  # more than any number of the kernel has
RELEASE = re.compile(r"^(\d+\.\d+)(?:[.\-+].*)?$")


class Gpu(NamedTuple):
    """One GPU that KFD shows: ISA version, and how many compute units if that is known."""

    isa: tuple[int, int, int]
    compute_units: Optional[int]  # noqa: UP045 - evaluated by Python 3.9


class Host(NamedTuple):
    """``present``: there is an AMD GPU; ``isa``: as ``9.0.10``; ``rocm``: a release as ``7.2``."""

    present: bool
    isa: str | None
    rocm: str | None


def find_host(root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> Host:
    """The machine whose files are below ``root``."""
    gpus = kfd_gpus(root)
    chosen = max(gpus, key=_rank, default=None)
    return Host(
        present=bool(gpus) or has_display_gpu(root),
        isa=None if chosen is None else ".".join(map(str, chosen.isa)),
        rocm=find_rocm(root, environ),
    )


def _rank(gpu: Gpu) -> tuple[int, tuple[int, int, int]]:
    """Most compute units first, of equals the highest version; an unknown number is less than any."""
    return (-1 if gpu.compute_units is None else gpu.compute_units, gpu.isa)


def kfd_gpus(root: Path = ROOT) -> list[Gpu]:
    """All GPUs of the KFD topology that may be read, in no order."""
    found = (_gpu(_text(node / "properties")) for node in _entries(root / KFD_NODES))
    return [gpu for gpu in found if gpu is not None]


def _gpu(properties: str) -> Gpu | None:
    values = {}
    for words in map(str.split, properties.splitlines()):
        if len(words) == 2 and len(words[1]) < DIGITS and words[1].isascii() and words[1].isdigit():
            values[words[0]] = int(words[1])
    version = values.get("gfx_target_version", 0)
    if version == 0:
        return None
    simds, per_cu = values.get("simd_count"), values.get("simd_per_cu", 0)
    return Gpu(
        (version // 10000 % 100, version // 100 % 100, version % 100),
        simds // per_cu if simds is not None and per_cu else None,
    )


def has_display_gpu(root: Path = ROOT) -> bool:
    """Whether the amdgpu driver runs one of the cards of the DRM subsystem."""
    for card in _entries(root / DRM):
        if re.fullmatch(r"card[0-9]+", card.name) and _text(card / "device/vendor").strip().lower() == AMD:
            try:
                driver = (card / "device/driver").readlink()
            except OSError:
                continue
            if driver.name == "amdgpu":
                return True
    return False


def find_rocm(root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> str | None:
    """Release (X.Y) of ``ROCM_PATH``, ``/opt/rocm`` or the newest ``/opt/rocm-X.Y*`` that names one."""
    numbered = (entry for entry in _entries(root / "opt") if re.match(r"rocm-[0-9]", entry.name))
    roots = [root / "opt/rocm", *sorted(numbered, key=_numbers, reverse=True)]
    if environ.get("ROCM_PATH"):
        roots.insert(0, Path(os.path.expanduser(environ["ROCM_PATH"])))  # noqa: PTH111 - raises without HOME
    releases = (_release(_text(path / ".info/version")) for path in roots)
    return next((release for release in releases if release is not None), None)


def _release(text: str) -> str | None:
    """``7.2`` of ``7.2.3-123``."""
    words = text.split()
    match = RELEASE.match(words[0]) if words else None
    return match[1] if match else None


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]+", path.name)]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    """A file's text, empty if it cannot be read: also by a read that fails after the file was opened."""
    try:
        return path.read_bytes().decode("ascii", "replace")
    except (OSError, ValueError):
        return ""
