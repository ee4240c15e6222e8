"""One device image: a code object, LLVM bitcode or SPIR-V, and whether it is what its label says."""

from __future__ import annotations

from typing import Final

from channel_tools.verify.elf import EM_AMDGPU, MAGIC, OSABI_AMDGPU_HSA, Elf, read_elf
from channel_tools.verify.findings import CodeObject, Fault, Findings
from channel_tools.verify.source import Source
from channel_tools.verify.targets import ABI_NEWEST, Target, is_known_target, same_target

# Bitcode and SPIR-V have no e_flags: the label alone names their target.
_UNFLAGGED: Final = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b", b"\x03\x02\x23\x07")


def code_object_target(elf: Elf, source: Source) -> Target:
    """Target of an AMDGPU ELF by its ``e_flags``.

    :raises DamageError: no amdhsa code object, or a processor that LLVM does not know
    """
    if elf.machine != EM_AMDGPU or elf.osabi != OSABI_AMDGPU_HSA or elf.abi_version > ABI_NEWEST:
        raise source.damage(
            "not a code object that this reader knows",
            7,
            found=f"machine {elf.machine}, OS ABI {elf.osabi}, ABI version {elf.abi_version}",
            wanted=f"machine {EM_AMDGPU} (AMDGPU), OS ABI {OSABI_AMDGPU_HSA} (amdhsa), "
            f"ABI version 0 to {ABI_NEWEST} (code object v2 to v6)",
        )
    try:
        return Target.from_flags(elf.flags, elf.abi_version)
    except ValueError as error:
        raise source.damage(
            str(error), 0x30, found=f"{elf.flags:#x}", wanted="a processor of LLVM's EF_AMDGPU_MACH list"
        ) from error


def read_image(source: Source, label: str, findings: Findings) -> None:
    """Read one image whose container calls it code for ``label``.

    The object is recorded under its label even where its content is damaged or says otherwise (which is a
    fault), since the label is what the loader looks for.
    """
    record(source, label, findings)
    head = source.peek(0, 4)
    if head in _UNFLAGGED:
        return
    if head != MAGIC:
        findings.add_damage(
            source.damage(
                f"code for {label} is no code object",
                0,
                found=f"{source.size} bytes that start with {head.hex(' ') or 'nothing'}",
                wanted="an AMDGPU ELF file, LLVM bitcode or SPIR-V",
            )
        )
        return
    with findings.keep_damage():
        actual = code_object_target(read_elf(source), source)
        if not same_target(label, actual):
            findings.faults.append(
                Fault(
                    f"code labelled {label} is built for {actual}",
                    source.place(0x30),
                    found=f"{actual} in e_flags",
                    wanted=label,
                    fix="build it anew: whatever bundled it mixed up two targets",
                )
            )


def record(source: Source, label: str, findings: Findings) -> None:
    """Note code for ``label`` without a look into it; a label that no compiler writes is damage."""
    findings.add_object(CodeObject(label, source.place(0), source.size))
    if not is_known_target(label):
        findings.add_damage(
            source.damage("code for an unknown target", 0, found=label, wanted="a processor that LLVM knows")
        )


def read_bare(source: Source, findings: Findings) -> int:
    """Read a code object that no container labels: its ``e_flags`` name the target.

    :return: the offset after it
    :raises DamageError: no sound code object
    """
    elf = read_elf(source)
    target = code_object_target(elf, source)
    findings.add_object(CodeObject(str(target), source.place(0), elf.end))
    return elf.end
