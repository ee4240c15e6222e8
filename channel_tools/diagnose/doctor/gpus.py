"""The AMD GPUs that the kernel's KFD topology names, read below any root.

rocm-bootstrap reads the same files and cannot be given another root; names of targets come from its registry.
Source of the properties: drivers/gpu/drm/amd/amdkfd/kfd_topology.c of the Linux kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from channel_tools.diagnose.doctor.host_root import HostRoot

NODES: Final = "/sys/class/kfd/kfd/topology/nodes"
DRI: Final = "/dev/dri"
_DRM: Final = "/sys/class/drm"
_AMD: Final = "0x1002"


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
    for node, values in gpu_nodes(host):
        target = target_name(values["gfx_target_version"])
        units = values["simd_count"] // max(values.get("simd_per_cu", 0), 1)
        found.append(Gpu(node, target, units, target in integrated, values.get("drm_render_minor", 0)))
    return tuple(found)


def gpu_nodes(host: HostRoot) -> Iterator[tuple[int, dict[str, int]]]:
    """Number and properties of each node of the topology that is a GPU, in the kernel's order."""
    for name in sorted((name for name in host.names(NODES) if name.isdecimal()), key=int):
        values = _properties(host, name)
        if values.get("gfx_target_version") and values.get("simd_count"):
            yield int(name), values


def render_minors(host: HostRoot) -> frozenset[int]:
    """Numbers of the render nodes in ``/dev/dri``, whoever may open them."""
    return frozenset(int(path.rpartition("D")[2]) for path in host.glob(DRI, r"renderD[0-9]{1,9}"))


def is_handed_in(render: int, nodes: Collection[int]) -> bool:
    """Does a program see this GPU? ROCm passes over one whose render node is not there, as in containers.

    Source: ``topology_sysfs_check_node_supported`` in libhsakmt's topology.c.

    :param render: number of its render node; 0 where the kernel does not tell
    :param nodes: the numbers that are there; none where nobody recorded them
    """
    return not nodes or not render or render in nodes


def amd_cards(host: HostRoot) -> list[str]:
    """The folders of AMD's cards in ``/sys/class/drm``, whichever driver shows them."""
    return [path for path in host.glob(_DRM, r"card\d+") if host.line(f"{path}/device/vendor") == _AMD]


def target_name(version: int) -> str:
    """The target of a ``gfx_target_version``: ``gfx90a`` of 90010."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _properties(host: HostRoot, node: str) -> dict[str, int]:
    """The numbers that the kernel tells of a node of the topology."""
    rows = (line.split() for line in (host.text(f"{NODES}/{node}/properties") or "").splitlines())
    return {
        row[0]: int(row[1])
        for row in rows
        if len(row) == 2 and row[1].isascii() and row[1].isdigit() and len(row[1]) < 21
    }
