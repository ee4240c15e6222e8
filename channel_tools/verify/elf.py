"""ELF64 little-endian headers: as much as finding GPU code needs, every offset checked.

Layouts from the ELF-64 object file format (gABI, chapters 4 and 5).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from channel_tools.verify.source import Source, printable

MAGIC: Final = b"\x7fELF"
EM_AMDGPU: Final = 224
ET_REL: Final = 1
SHT_NOBITS: Final = 8
OSABI_AMDGPU_HSA: Final = 64

_CLASS64, _LITTLE_ENDIAN, _CURRENT = 2, 1, 1
_SHT_NULL = 0
_SHT_STRTAB = 3
_SHN_XINDEX = 0xFFFF
_PN_XNUM = 0xFFFF
_MAX_SECTIONS = 1 << 18
_MAX_NAMES = 64 << 20
_USUAL = 64
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")


@dataclass(frozen=True, slots=True)
class Section:
    """One section header; ``offset`` and ``size`` in bytes of the file (NOBITS sections hold none of it)."""

    name: str
    type: int
    offset: int
    size: int

    @property
    def in_file(self) -> bool:
        return self.type not in (_SHT_NULL, SHT_NOBITS) and self.size > 0


@dataclass(frozen=True)
class Elf:
    """The header fields and the section table of an ELF file."""

    machine: int
    type: int
    osabi: int
    abi_version: int
    flags: int
    sections: tuple[Section, ...]
    end: int
    """Offset after the last header, section and segment."""


def is_elf64(head: bytes) -> bool:
    """Is this the start of a 64-bit little-endian ELF file?"""
    return head[:4] == MAGIC and head[4:6] == bytes((_CLASS64, _LITTLE_ENDIAN))


def is_code_object(head: bytes) -> bool:
    """Is this the start of an ELF file for AMD GPUs?"""
    return is_elf64(head) and head[18:20] == EM_AMDGPU.to_bytes(2, "little")


def read_elf(source: Source) -> Elf:
    """Read header and section table, and check that every table, section and segment lies in the file.

    Segments are checked only where there is no section table or the file is a GPU code object: a file of
    split-off debug information keeps segments that it does not hold.

    :raises DamageError: a field or table that is cut off, out of range, or not ELF64 little-endian
    """
    ident = source.read(0, 16, "ELF identification")
    if not is_elf64(ident) or ident[6] != _CURRENT:
        raise source.damage(
            "not an ELF file that can hold GPU code",
            0,
            found=ident[:7].hex(" "),
            wanted="7f 45 4c 46 02 01 01 (64-bit, little-endian, version 1)",
        )
    fields = source.unpack(_HEADER, 0, "ELF header")
    (kind, machine, version, _entry, phoff, shoff, flags) = fields[:7]
    (ehsize, phentsize, phnum, shentsize, shnum, shstrndx) = fields[7:]
    if version != _CURRENT or ehsize != 64:
        raise source.damage(
            "the ELF header contradicts itself",
            0x14,
            found=f"version {version}, header size {ehsize}",
            wanted="version 1, header size 64",
        )
    segments = source.peek(phoff, phnum * _SEGMENT.size) if phnum < _PN_XNUM else b""
    sections = _read_sections(source, shoff, shentsize, shnum, shstrndx)
    end = max(
        [
            64,
            shoff + len(sections) * _SECTION.size,
            *(part.offset + part.size for part in sections if part.in_file),
        ]
    )
    if phnum and (not sections or machine == EM_AMDGPU):
        end = max(end, _check_segments(source, phoff, phentsize, phnum, segments))
    return Elf(machine, kind, ident[7], ident[8], flags, sections, end)


def _read_sections(source: Source, shoff: int, entsize: int, count: int, names: int) -> tuple[Section, ...]:
    if shoff == 0:
        if count:
            raise source.damage("section table without an offset", 0x28, found="0", wanted="an offset")
        return ()
    if entsize != _SECTION.size:
        raise source.damage("section header size", 0x3A, found=str(entsize), wanted=str(_SECTION.size))
    first = source.unpack(_SECTION, shoff, "section table")
    if count == 0:
        count = first[5]  # more than 0xff00 sections: section 0 holds their number
    if names == _SHN_XINDEX:
        names = first[6]
    if count > _MAX_SECTIONS:
        raise source.damage("number of sections", 0x3C, found=str(count), wanted=f"at most {_MAX_SECTIONS}")
    table = source.window(shoff, count * _SECTION.size, f"table of {count} sections")
    raw = table.read(0, table.size, "section table")
    for index, (_, kind, _, _, offset, size, *_) in enumerate(_SECTION.iter_unpack(raw)):
        if size > source.size - offset and kind not in (_SHT_NULL, SHT_NOBITS) and size:
            source.window(offset, size, f"section {index}")  # raises
    strings = _read_names(source, raw, names, count)
    sections = tuple(
        Section(_name(source, strings, fields[0], index), fields[1], fields[4], fields[5])
        for index, fields in enumerate(_SECTION.iter_unpack(raw))
    )
    for index, section in enumerate(sections[1:], 1):
        if section.type == _SHT_NULL or not section.name:
            raise source.damage(
                f"section {index} is blank",
                shoff + index * _SECTION.size,
                found=f"type {section.type}, name {section.name!r}",
                wanted="a type and a name, as every section but the first has",
            )
    return sections


def _read_names(source: Source, table: bytes, names: int, count: int) -> bytes:
    kind = offset = size = 0
    if names < count:
        _, kind, _, _, offset, size, *_ = _SECTION.unpack_from(table, names * _SECTION.size)
    if kind != _SHT_STRTAB or size > _MAX_NAMES:
        raise source.damage(
            "section names",
            0x3E,
            found=f"section {names} of {count}, {size} bytes",
            wanted=f"a string table section of at most {_MAX_NAMES} bytes",
        )
    return source.read(offset, size, "section names")


def _name(source: Source, strings: bytes, start: int, index: int) -> str:
    end = strings.find(b"\0", start)
    if start >= len(strings) or end < 0:
        raise source.damage(
            f"name of section {index}",
            None,
            found=f"string offset {start:#x}",
            wanted=f"less than {len(strings):#x}, ended by a zero byte",
        )
    raw = strings[start:end]
    return _usual_name(raw) if len(raw) < _USUAL else printable(raw)


@lru_cache(1024)
def _usual_name(raw: bytes) -> str:
    return printable(raw)


def _check_segments(source: Source, phoff: int, entsize: int, count: int, raw: bytes) -> int:
    """Check that every segment lies in the file; return where the last one ends.

    :param raw: the table, which was read beforehand: a file may pass but once
    """
    if entsize != _SEGMENT.size or count == _PN_XNUM:
        raise source.damage(
            "program header table",
            0x36,
            found=f"entry size {entsize}, {count} entries",
            wanted=f"entry size {_SEGMENT.size}",
        )
    table = source.window(phoff, count * _SEGMENT.size, f"table of {count} program headers")
    end = phoff + table.size
    for index, (_, _, offset, _, _, filesz, _, _) in enumerate(_SEGMENT.iter_unpack(raw)):
        source.window(offset, filesz, f"segment {index}")
        end = max(end, offset + filesz)
    return end
