"""Which GPU is which: HIP's numbers, PCI addresses, and what the environment lets a program see.

HIP numbers the GPUs in the order of the kernel's topology. amd-smi and rocm-smi number them by PCI address,
which on some hosts is another order: readings are told apart by address, and shown under HIP's number.

``ROCR_VISIBLE_DEVICES`` is applied first, then ``HIP_VISIBLE_DEVICES`` (or ``CUDA_VISIBLE_DEVICES``, which
HIP reads where the other is unset or empty) counts among what is left. Each holds numbers or
``GPU-<unique id>``; the list ends at the first entry that names no GPU, as one with a blank does for HIP, not
for ROCr. An empty one hides every GPU from ROCr, and is passed over by HIP. Source: ``Device::init`` in
rocdevice.cpp of ROCm/clr, amd_filter_device.cpp of ROCR-Runtime.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from channel_tools.diagnose.doctor.gpus import gpu_nodes, is_handed_in, render_minors, target_name
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
    """The GPUs of the kernel's topology that programs see, in its order; none where it is not there.

    Source of the properties: ``kfd_topology.c`` of the Linux kernel; ``location_id`` is bus, device and
    function, the same for every partition of a GPU.
    """
    found: list[Device] = []
    there = render_minors(host)
    for _, values in gpu_nodes(host):
        if not is_handed_in(values.get("drm_render_minor", 0), there):
            continue
        place, unique = values.get("location_id"), values.get("unique_id")
        found.append(
            Device(
                index=len(found),
                target=target_name(values["gfx_target_version"]),
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
    rocr, hip, cuda = MASKS
    if rocr in environ:
        left = _masked(left, entries(rocr, environ[rocr]))
    name = hip if environ.get(hip) else cuda
    return _masked(left, entries(name, environ[name])) if environ.get(name) else left


def entries(name: str, value: str) -> list[str]:
    """What a variable of ``MASKS`` lists, as the library that reads it takes it apart."""
    parts = value.removesuffix(",").split(",")
    return [part.strip().upper() for part in parts] if name == MASKS[0] else parts


def matched(devices: Sequence[Device], readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """The readings under the numbers of the devices; those of other GPUs are left out.

    Partitions of one GPU have one address: each gets its own reading where every one has one that tells
    something, else all get the first that does. Where the source gives no addresses, both are counted by
    address, as the tools do.
    """
    given = [one for one in readings if one.address]
    found: list[Reading] = []
    if given:
        for address in dict.fromkeys(device.address for device in devices):
            here = [device for device in devices if device.address == address]
            told = [one for one in given if one.address == address]
            telling = [one for one in told if one.says_anything] or told
            if len(telling) != len(here):
                telling = telling[:1] * len(here)
            for device, reading in zip(here, telling, strict=False):
                found.append(replace(reading, number=device.index))
    elif len(devices) == len(readings):
        order = sorted(devices, key=lambda device: (device.address or "", device.index))
        for device, reading in zip(order, sorted(readings, key=_number), strict=True):
            found.append(replace(reading, number=device.index))
    return tuple(sorted(found, key=_number))


def _number(reading: Reading) -> int:
    return reading.number


def _masked(devices: tuple[Device, ...], listed: Sequence[str]) -> tuple[Device, ...]:
    seen: list[Device] = []
    for entry in listed:
        if re.fullmatch(r"0|[1-9][0-9]{0,5}", entry) and int(entry) < len(devices):
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
