"""The AMD GPUs that the kernel's KFD topology names, read below any root.

rocm-bootstrap reads the same files and cannot be given another root; names of targets come from its registry.
Source of the properties: drivers/gpu/drm/amd/amdkfd/kfd_topology.c of the Linux kernel.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from channel_tools.diagnose.doctor.host_root import HostRoot

NODES: Final = "/sys/class/kfd/kfd/topology/nodes"


@dataclass(frozen=True)
class Gpu:
    """One GPU: its number in the topology, its target, its size, and the number of its render node."""

    node: int
    target: str
    compute_units: int
    integrated: bool
    render: int


def read_gpus(host: HostRoot, integrated: Collection[str]) -> tuple[Gpu, ...]:
    """Every GPU in the kernel's order, which is also the order of ``ROCR_VISIBLE_DEVICES``.

    :param integrated: targets of GPUs that are part of a processor
    """
    found = []
    for name in sorted((name for name in host.names(NODES) if name.isdecimal()), key=int):
        values = properties(host, name)
        version = values.get("gfx_target_version", 0)
        simds = values.get("simd_count", 0)
        if not simds or not version:
            continue
        target = target_name(version)
        units = simds // max(values.get("simd_per_cu", 0), 1)
        found.append(Gpu(int(name), target, units, target in integrated, values.get("drm_render_minor", 0)))
    return tuple(found)


def target_name(version: int) -> str:
    """The target of a ``gfx_target_version``: ``gfx90a`` of 90010."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def properties(host: HostRoot, node: str) -> dict[str, int]:
    """The numbers that the kernel tells of a node of the topology."""
    rows = (line.split() for line in (host.text(f"{NODES}/{node}/properties") or "").splitlines())
    return {
        row[0]: int(row[1])
        for row in rows
        if len(row) == 2 and row[1].isascii() and row[1].isdigit() and len(row[1]) < 21
    }
