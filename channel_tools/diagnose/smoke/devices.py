"""Which GPU is which: HIP's numbers, PCI addresses, and what the environment lets a program see.

HIP numbers the GPUs in the order of the kernel's topology. amd-smi and rocm-smi number them by PCI address,
which on some hosts is another order: readings are told apart by address, and shown under HIP's number.

``ROCR_VISIBLE_DEVICES`` is applied first, then ``HIP_VISIBLE_DEVICES`` (or ``CUDA_VISIBLE_DEVICES``, which
HIP reads where the other is unset) counts among what is left. Each holds numbers or ``GPU-<unique id>``; the
list ends at the first entry that names no GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from channel_tools.diagnose.doctor.gpus import NODES, properties, target_name
from channel_tools.diagnose.doctor.host_root import HostRoot
from channel_tools.diagnose.smoke.sampler_readings import Reading

MASKS: Final = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Device:
    """One GPU.

    :param index: HIP's number where nothing is hidden
    :param target: ``gfx90a``; None where the kernel does not tell
    :param address: PCI address, ``0000:c1:00.0``; None where nobody tells
    :param uuid: as the visibility variables take it: ``GPU-`` and 16 hexadecimal digits
    """

    index: int
    target: str | None = None
    address: str | None = None
    uuid: str | None = None

    @property
    def title(self) -> str:
        return " ".join(part for part in (f"GPU {self.index}", self.target, self.address) if part)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_devices(host: HostRoot) -> tuple[Device, ...]:
    """The GPUs of the kernel's topology, in its order; none where it is not there.

    Source of the properties: ``kfd_topology.c`` of the Linux kernel; ``location_id`` is bus, device and
    function.
    """
    found: list[Device] = []
    for name in sorted((name for name in host.names(NODES) if name.isdecimal()), key=int):
        values = properties(host, name)
        version = values.get("gfx_target_version", 0)
        if not version or not values.get("simd_count"):
            continue
        place, unique = values.get("location_id"), values.get("unique_id")
        found.append(
            Device(
                index=len(found),
                target=target_name(version),
                address=None if place is None else _address(values.get("domain", 0), place),
                uuid=f"GPU-{unique:016x}" if unique else None,
            )
        )
    return tuple(found)


def devices_of(readings: Sequence[Reading]) -> tuple[Device, ...]:
    """GPUs as a source of readings lists them, for hosts that hide the topology."""
    return tuple(Device(index, address=one.address) for index, one in enumerate(readings))


def visible(devices: Sequence[Device], environ: Mapping[str, str]) -> tuple[Device, ...]:
    """The GPUs that a HIP program sees, in its order."""
    left = tuple(devices)
    chosen = [MASKS[0], MASKS[1] if MASKS[1] in environ else MASKS[2]]
    for name in chosen:
        if name in environ:
            left = _masked(left, environ[name])
    return left


def matched(devices: Sequence[Device], readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """The readings under the numbers of the devices; those of other GPUs are left out.

    Where the source gives no addresses, both are counted by address, as the tools do.
    """
    by_address = {one.address: one for one in readings if one.address}
    found: list[Reading] = []
    if by_address:
        for device in devices:
            if device.address in by_address:
                found.append(replace(by_address[device.address], number=device.index))
    elif len(devices) == len(readings):
        order = sorted(devices, key=lambda device: (device.address or "", device.index))
        for device, reading in zip(order, sorted(readings, key=_number), strict=True):
            found.append(replace(reading, number=device.index))
    return tuple(sorted(found, key=_number))


def _number(reading: Reading) -> int:
    return reading.number


def _masked(devices: tuple[Device, ...], mask: str) -> tuple[Device, ...]:
    seen: list[Device] = []
    for entry in (part.strip() for part in mask.split(",")):
        if entry.isascii() and entry.isdigit() and int(entry) < len(devices):
            found = devices[int(entry)]
        else:
            named = [one for one in devices if one.uuid and one.uuid.lower() == entry.lower()]
            if not named:
                break
            found = named[0]
        if found not in seen:
            seen.append(found)
    return tuple(seen)


def _address(domain: int, place: int) -> str:
    return f"{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7:x}"
