"""One file: what it is by its first bytes, and the reader for it."""

from __future__ import annotations

from typing import Final, Literal

from channel_tools.verify import archives, bundles, kernel_packs, offload_binary
from channel_tools.verify.elf import EM_AMDGPU, ET_REL, MAGIC, is_code_object, read_elf
from channel_tools.verify.findings import Fault, Findings
from channel_tools.verify.host import read_host
from channel_tools.verify.images import read_bare
from channel_tools.verify.source import Source
from channel_tools.verify.sweep import sweep

HEAD_SIZE: Final = 512
"""Bytes of a file that :func:`kind_of` wants to see."""

_IN_MEMORY: Final = 32 << 20
_KINDS: Final = (
    (MAGIC, "elf"),
    (bundles.MAGIC, "bundle"),
    (bundles.COMPRESSED_MAGIC, "compressed bundle"),
    (archives.MAGIC, "static archive"),
    (archives.THIN_MAGIC, "thin archive"),
    (offload_binary.MAGIC, "offload binary"),
    (kernel_packs.AKS2_MAGIC, "aks2"),
    (kernel_packs.KPACK_MAGIC, "kpack"),
)
# Names that promise GPU code: their content must be of a kind that is known.
_CODE_SUFFIXES: Final = (".hsaco", ".co", ".hipfb")
_PACK_SUFFIXES: Final = (".aks2", ".kpack")
# Libraries and objects of other systems: Mach-O, COFF (x86-64, i386, arm64, big), WebAssembly, bitcode, AIX.
_FOREIGN: Final = (
    *(b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"),
    *(b"\x64\x86", b"\x4c\x01", b"\x64\xaa", b"\0\0\xff\xff"),
    *(b"\0asm", b"BC\xc0\xde", b"\xde\xc0\x17\x0b", b"<bigaf>"),
)
# (class, byte order) and where the header holds its own size, which tells a flipped byte from another class.
_OTHER_CLASSES: Final[dict[tuple[int, int], tuple[int, Literal["little", "big"], int]]] = {
    (1, 1): (40, "little", 52),
    (1, 2): (40, "big", 52),
    (2, 2): (52, "big", 64),
}


def kind_of(name: str, head: bytes) -> str | None:
    """Kind of a file that may hold GPU code, by its first :data:`HEAD_SIZE` bytes; None for all others.

    A name that promises code makes a file ``broken`` when its content is nothing known.
    """
    for magic, kind in _KINDS:
        if head.startswith(magic):
            return kind
    file_name = name.rpartition("/")[2]
    if file_name.endswith((*_CODE_SUFFIXES, *_PACK_SUFFIXES)):
        return "broken"
    if file_name.endswith((".so", ".o", ".a")) or ".so." in file_name:
        binary = not head or b"\0" in head
        return "broken" if binary and not head.startswith(_FOREIGN) else None
    return None


def read_file(source: Source, kind: str, findings: Findings) -> str:
    """Read a file of a kind that :func:`kind_of` gave; return the kind with more detail."""
    with findings.keep_damage():
        kind = _read_kind(source, kind, findings)
        if source.name.endswith(_CODE_SUFFIXES) and not findings.objects and not findings.faults:
            raise source.damage(
                "no GPU code in a file that is named for it",
                None,
                found=f"{kind} without code",
                wanted="a code object or a bundle",
            )
    return kind


def _read_kind(source: Source, kind: str, findings: Findings) -> str:
    if kind == "elf":
        return _read_elf_file(source, findings)
    if kind in ("bundle", "compressed bundle"):
        bundles.read_bundles(source, findings)
    elif kind == "static archive":
        _read_archive(source, findings)
    elif kind == "thin archive":
        _read_thin_archive(source, findings)
    elif kind == "offload binary":
        offload_binary.read_offload_binaries(source, findings)
    elif kind == "aks2":
        kernel_packs.read_aks2(source, findings)
    elif kind == "kpack":
        kernel_packs.read_kpack(source, findings)
    else:
        raise source.damage(
            "not what its name says",
            0,
            found=source.peek(0, 8).hex(" ") or "an empty file",
            wanted="an ELF file, an offload bundle or a pack of kernels",
        )
    return kind


def _read_elf_file(source: Source, findings: Findings) -> str:
    if _is_other_class(source.peek(0, 64)):
        return "elf of another class"
    if not is_code_object(source.peek(0, 64)):
        sweep(source)
    elf = read_elf(source)
    if elf.machine == EM_AMDGPU:
        read_bare(source, findings)
        return "code object"
    read_host(elf, source, findings)
    return "host object" if elf.type == ET_REL else "host binary"


def _is_other_class(head: bytes) -> bool:
    """Is this a 32-bit or big-endian ELF file? Such a file holds no code for an AMD GPU."""
    place = _OTHER_CLASSES.get((head[4], head[5])) if len(head) > 5 else None
    if place is None:
        return False
    offset, order, size = place
    return int.from_bytes(head[offset : offset + 2], order) == size


def _read_archive(source: Source, findings: Findings) -> None:
    for name, part in archives.archive_members(source):
        _read_member(name, part.pinned(_IN_MEMORY), findings)
        source.forget_notes()


def _read_member(name: str, member: Source, findings: Findings) -> None:
    kind = kind_of(name, member.peek(0, HEAD_SIZE))
    if kind:
        before = len(findings.faults)
        read_file(member, kind, findings)
        for index in range(before, len(findings.faults)):
            findings.faults[index] = findings.faults[index].within(name)


def _read_thin_archive(source: Source, findings: Findings) -> None:
    if source.beside is None:
        findings.faults.append(
            Fault(
                "a thin archive cannot be read alone: it holds names, its members are other files",
                found="!<thin>",
                wanted="an archive that holds its members",
                fix="make it with `ar rcs` without `--thin`",
            )
        )
        return
    for name, size in archives.thin_members(source):
        member = source.beside(name)
        if member is None or member.size != size:
            found = "no such file below the archive's folder" if member is None else f"{member.size} bytes"
            raise source.damage(
                f"{name}, a member of a thin archive", None, found=found, wanted=f"{size} bytes"
            )
        _read_member(name, member, findings)
