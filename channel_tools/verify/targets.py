"""GPU targets: their names, and how code objects and bundle ids spell them.

Sources: "AMDGPU Target ID", "Processors" and the ``e_flags`` tables of https://llvm.org/docs/AMDGPUUsage.html;
bundle entry ids from https://clang.llvm.org/docs/ClangOffloadBundler.html.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MACH_MASK: Final = 0xFF

# EF_AMDGPU_MACH_AMDGCN_*: the low byte of e_flags names the processor.
PROCESSOR_OF_MACH: Final[dict[int, str]] = {
    0x20: "gfx600",
    0x21: "gfx601",
    0x22: "gfx700",
    0x23: "gfx701",
    0x24: "gfx702",
    0x25: "gfx703",
    0x26: "gfx704",
    0x28: "gfx801",
    0x29: "gfx802",
    0x2A: "gfx803",
    0x2B: "gfx810",
    0x2C: "gfx900",
    0x2D: "gfx902",
    0x2E: "gfx904",
    0x2F: "gfx906",
    0x30: "gfx908",
    0x31: "gfx909",
    0x32: "gfx90c",
    0x33: "gfx1010",
    0x34: "gfx1011",
    0x35: "gfx1012",
    0x36: "gfx1030",
    0x37: "gfx1031",
    0x38: "gfx1032",
    0x39: "gfx1033",
    0x3A: "gfx602",
    0x3B: "gfx705",
    0x3C: "gfx805",
    0x3D: "gfx1035",
    0x3E: "gfx1034",
    0x3F: "gfx90a",
    0x40: "gfx940",
    0x41: "gfx1100",
    0x42: "gfx1013",
    0x43: "gfx1150",
    0x44: "gfx1103",
    0x45: "gfx1036",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x48: "gfx1200",
    0x49: "gfx1250",
    0x4A: "gfx1151",
    0x4B: "gfx941",
    0x4C: "gfx942",
    0x4E: "gfx1201",
    0x4F: "gfx950",
    0x50: "gfx1310",
    0x51: "gfx9-generic",
    0x52: "gfx10-1-generic",
    0x53: "gfx10-3-generic",
    0x54: "gfx11-generic",
    0x55: "gfx1152",
    0x57: "gfx1154",
    0x58: "gfx1153",
    0x59: "gfx12-generic",
    0x5A: "gfx1251",
    0x5B: "gfx12-5-generic",
    0x5C: "gfx1172",
    0x5D: "gfx1170",
    0x5E: "gfx1171",
    0x5F: "gfx9-4-generic",
    0x62: "gfx11-7-generic",
    0x63: "gfx13-generic",
}

# XNACK cannot be switched off on these, so target ids never mention it although e_flags say "on".
_XNACK_ALWAYS_ON: Final = frozenset({"gfx1250", "gfx1251", "gfx12-5-generic"})

# EI_ABIVERSION of an amdhsa ELF: 1 is code object v3, 2 to 4 are v4 to v6.
ABI_V2: Final = 0
ABI_V3: Final = 1
ABI_NEWEST: Final = 4

NAMELESS: Final = "unknown"
"""Processor of a code object of version 1, as old libraries still carry them; it equals no real target."""

_TWO_BIT_SETTING: Final[dict[int, bool | None]] = {0: None, 1: None, 2: False, 3: True}
_KNOWN_PROCESSORS: Final = frozenset(PROCESSOR_OF_MACH.values())
_OTHER_TARGETS = re.compile(r"amdgcnspirv|generic|spirv[0-9a-z-]*|sm_[0-9]+[a-z]?")
_PROCESSOR = re.compile(r"gfx[0-9][0-9a-z]*(?:-[0-9a-z]+)*|amdgcnspirv")
_BUNDLE_ID = re.compile(
    r"(?P<kind>host|hip|hipv4|openmp|sycl)-(?P<arch>[^-]+)-(?P<vendor>[^-]*)-(?P<os>[^-]*)"
    r"(?:-(?P<env>[^-]*))?(?:-(?P<target>.*))?"
)
_SYCL_ID = re.compile(r"sycl-(spir|spirv|native_cpu|nvptx|x86)[\w-]*")


@dataclass(frozen=True)
class Target:
    """One GPU target. A feature is True (``+``), False (``-``) or None: any setting, or not supported."""

    processor: str
    sramecc: bool | None = None
    xnack: bool | None = None

    def __str__(self) -> str:
        return self.processor + _spell("sramecc", self.sramecc) + _spell("xnack", self.xnack)

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read a target id such as ``gfx942`` or ``gfx942:sramecc+:xnack-``.

        :raises ValueError: text that is no target id
        """
        processor, *features = text.split(":")
        if not _PROCESSOR.fullmatch(processor):
            raise ValueError(f"{text!r} is no GPU target: wanted gfx<number>, such as gfx942")
        settings: dict[str, bool] = {}
        for feature in features:
            name, sign = feature[:-1], feature[-1:]
            if name not in ("sramecc", "xnack") or sign not in ("+", "-") or name in settings:
                raise ValueError(f"{text!r} is no GPU target: {feature!r} is not sramecc+|-, xnack+|-")
            settings[name] = sign == "+"
        return cls(processor, settings.get("sramecc"), settings.get("xnack"))

    @classmethod
    def from_flags(cls, flags: int, abi_version: int) -> Target:
        """Read ``e_flags`` of a code object whose EI_ABIVERSION is ``abi_version``.

        Since v4 two bits a feature: 0x300 XNACK, 0xc00 SRAMECC (0 unsupported, 1 any, 2 off, 3 on). v3 has
        one bit a feature: 0x100 and 0x200. v2 has none, and v1 names no processor (:data:`NAMELESS`).

        :raises ValueError: a processor number that LLVM has not given out
        """
        if abi_version == ABI_V2 and not flags & MACH_MASK:
            return cls(NAMELESS)
        processor = PROCESSOR_OF_MACH.get(flags & MACH_MASK)
        if processor is None:
            raise ValueError(f"processor number {flags & MACH_MASK:#x} in e_flags {flags:#x} is unknown")
        if abi_version == ABI_V2:
            return cls(processor)
        if abi_version == ABI_V3:
            return cls(processor, True if flags & 0x200 else None, True if flags & 0x100 else None)
        xnack = _TWO_BIT_SETTING[flags >> 8 & 3]
        if processor in _XNACK_ALWAYS_ON:
            xnack = None
        return cls(processor, _TWO_BIT_SETTING[flags >> 10 & 3], xnack)


def _spell(name: str, setting: bool | None) -> str:
    return "" if setting is None else f":{name}{'+' if setting else '-'}"


def bundle_id_target(bundle_id: str) -> str | None:
    """Target text of a bundle entry id: ``hipv4-amdgcn-amd-amdhsa--gfx942`` gives ``gfx942``, a host id None.

    The text is handed on as the id spells it, features in the id's order. Code of Intel's SYCL
    (``sycl-spir64_gen``) is for none of our GPUs, and gives None.

    :raises ValueError: an id that is not ``<kind>-<triple>[-<target>]``, or a device id without a target
    """
    if _SYCL_ID.fullmatch(bundle_id):
        return None
    match = _BUNDLE_ID.fullmatch(bundle_id)
    if match is None:
        raise ValueError(f"{bundle_id!r} is not <kind>-<arch>-<vendor>-<os>-<env>[-<target>]")
    if match["kind"] == "host":
        return None
    target: str | None = match["target"]
    if not target and match["env"] and _PROCESSOR.match(match["env"]):
        target = match["env"]  # ids of LLVM 11 and older have a triple of three parts
    if not target:
        raise ValueError(f"{bundle_id!r} names no target")
    return target


def is_known_target(target: str) -> bool:
    """Is this target text one that a compiler can write: a processor of LLVM's list, SPIR-V or NVIDIA's?"""
    if _OTHER_TARGETS.fullmatch(target):
        return True
    try:
        return Target.parse(target).processor in _KNOWN_PROCESSORS
    except ValueError:
        return False


def same_target(left: str, right: Target) -> bool:
    """Does target text mean this target? False for text that is no AMD target id."""
    try:
        return Target.parse(left) == right
    except ValueError:
        return False


def base_of(target: str) -> str:
    """``gfx942:xnack-`` gives ``gfx942``."""
    return target.partition(":")[0]
