"""Host ELF files with GPU code: the sections that the HIP drivers of clang fill.

===============================  ====================================================================
section                          holds
===============================  ====================================================================
``.hip_fatbin``                  offload bundles one after another: one for each translation unit, or
                                 one for all that were linked with ``-fgpu-rdc``
``.hipFatBinSegment``            a 24-byte wrapper for each translation unit: u32 magic ``FPIH`` (or
                                 ``HIPK``: its code lies in a ``.kpack``), u32 version 1, two pointers
``.hip_gpubin_handle``           only in what was linked with ``-fgpu-rdc``
``__CLANG_OFFLOAD_BUNDLE__<id>``  ``-fgpu-rdc`` objects: the device's bitcode, the id in the name
``.llvm.offloading``             the same of the new offload driver: offload binaries
===============================  ====================================================================

Source: clang/lib/CodeGen/CGCUDANV.cpp and clang/lib/Driver of https://github.com/llvm/llvm-project.
"""

from __future__ import annotations

import struct
from typing import Final

from channel_tools.verify import bundles
from channel_tools.verify.elf import ET_REL, Elf, Section
from channel_tools.verify.embedded import read_embedded
from channel_tools.verify.findings import Fault, Findings
from channel_tools.verify.images import read_image
from channel_tools.verify.offload_binary import read_offload_binaries
from channel_tools.verify.source import Source
from channel_tools.verify.targets import bundle_id_target

_FATBIN: Final = ".hip_fatbin"
_WRAPPERS: Final = ".hipFatBinSegment"
_RDC_HANDLE: Final = ".hip_gpubin_handle"
_RDC_BUNDLE: Final = bundles.MAGIC.decode()
_OFFLOADING: Final = ".llvm.offloading"
_DEVICE_SECTIONS: Final = (_FATBIN, _WRAPPERS, _RDC_BUNDLE, _OFFLOADING)
_WRAPPER = struct.Struct("<4sIQQ")
_INLINE: Final = b"FPIH"
_KPACK: Final = b"KPIH"


def read_host(elf: Elf, source: Source, findings: Findings) -> None:
    """Read the GPU code of a host library, program or object file."""
    known: list[tuple[int, int]] = []
    left = source.size
    bundle_count = inline = elsewhere = 0
    for section in sorted(elf.sections, key=lambda section: section.offset):
        if not section.name.startswith(_DEVICE_SECTIONS):
            continue
        if not section.in_file:
            _check_absent(section, source, findings)
            continue
        left -= section.size
        if left < 0:
            raise source.damage(
                "sections with GPU code overlap",
                section.offset,
                found=section.name,
                wanted="sections side by side",
            )
        window = source.window(section.offset, section.size, f"section {section.name}")
        if section.name == _FATBIN or section.name.startswith(_FATBIN + "."):
            bundle_count += bundles.read_bundles(window, findings)
        elif section.name == _WRAPPERS:
            counts = _count_wrappers(window, findings)
            inline, elsewhere = inline + counts[0], elsewhere + counts[1]
        elif section.name.startswith(_RDC_BUNDLE):
            with findings.keep_damage():
                _read_rdc_section(section, window, findings)
        elif section.name == _OFFLOADING:
            read_offload_binaries(window, findings)
        else:
            continue
        known.append((section.offset, section.offset + section.size))
    _compare_counts(elf, bundle_count, inline, elsewhere, findings)
    read_embedded(source, known, findings)


def _check_absent(section: Section, source: Source, findings: Findings) -> None:
    """Only what ROCm keeps in a ``.kpack`` may be a section without bytes."""
    if section.size and section.name.startswith((_RDC_BUNDLE, _OFFLOADING)):
        findings.add_damage(
            source.damage(
                f"section {section.name} has no bytes in the file",
                None,
                found=f"{section.size} bytes that are none",
                wanted="device code",
            )
        )


def _count_wrappers(window: Source, findings: Findings) -> tuple[int, int]:
    """Number of wrappers with code in this file, and with code in a ``.kpack``."""
    counts = {_INLINE: 0, _KPACK: 0}
    with findings.keep_damage():
        for offset in range(0, window.size, _WRAPPER.size):
            raw = window.read(offset, _WRAPPER.size, "fat binary wrapper")
            magic, version, _, _ = _WRAPPER.unpack(raw)
            if magic not in counts or version != 1:
                raise window.damage(
                    "fat binary wrapper",
                    offset,
                    found=f"magic {magic.hex(' ')}, version {version}",
                    wanted=f"magic {_INLINE.hex(' ')}, version 1",
                )
            counts[magic] += 1
    return counts[_INLINE], counts[_KPACK]


def _read_rdc_section(section: Section, window: Source, findings: Findings) -> None:
    bundle_id = section.name.removeprefix(_RDC_BUNDLE)
    try:
        target = bundle_id_target(bundle_id)
    except ValueError as error:
        raise window.damage(
            "section name", None, found=str(error), wanted=f"{_RDC_BUNDLE}hip-amdgcn-amd-amdhsa--<target>"
        ) from error
    if target is not None:
        read_image(window, target, findings)


def _compare_counts(elf: Elf, bundle_count: int, inline: int, elsewhere: int, findings: Findings) -> None:
    """Each wrapper must have its bundle: a bundle too few is code that the program will not find."""
    names = {section.name for section in elf.sections}
    unlinked = elf.type == ET_REL
    rdc_object = unlinked and any(name.startswith((_RDC_BUNDLE, _OFFLOADING)) for name in names)
    if rdc_object or (unlinked and not inline):
        return
    if _RDC_HANDLE in names:
        good = bundle_count <= inline and (bundle_count > 0) == (inline > 0)
        wanted = f"1 to {inline}, for {inline} wrappers linked with -fgpu-rdc"
    else:
        good = bundle_count == inline
        wanted = f"{inline}, one for each wrapper in {_WRAPPERS}"
    if not good:
        kpack = f" ({elsewhere} more wrappers have their code in a .kpack)" if elsewhere else ""
        findings.faults.append(
            Fault(
                f"number of bundles in {_FATBIN}{kpack}",
                found=str(bundle_count),
                wanted=wanted,
                fix="link it anew; a tool that strips or rewrites sections may have cut it",
                damage=True,
            )
        )
