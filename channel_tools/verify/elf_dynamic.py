"""The dynamic section of a 64-bit ELF file, found as the loader finds it: by the program headers alone.

Section headers are for linkers and debuggers; a file that was stripped of them still loads. Layouts and tags
are those of the gABI, chapter 5 ("Program Loading and Dynamic Linking"), and of glibc's ``elf/elf.h``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from channel_tools.verify.source import DamageError, Source, printable

PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PT_GNU_STACK: Final = 0x6474E551
PF_X: Final = 1

DT_NEEDED: Final = 1
DT_HASH: Final = 4
DT_STRTAB: Final = 5
DT_SYMTAB: Final = 6
DT_STRSZ: Final = 10
DT_SYMENT: Final = 11
DT_SONAME: Final = 14
DT_RPATH: Final = 15
DT_TEXTREL: Final = 22
DT_RUNPATH: Final = 29
DT_FLAGS: Final = 30
DT_GNU_HASH: Final = 0x6FFFFEF5
DT_VERNEED: Final = 0x6FFFFFFE
DT_VERNEEDNUM: Final = 0x6FFFFFFF

MAX_NAME: Final = 1 << 20
"""Bytes of a name."""

_DT_NULL = 0
_HEADER_FIELDS = struct.Struct("<Q14xHH")
_HEADER_FIELDS_AT = 32
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<QQ")
_MAX_ENTRIES: Final = 1 << 16
_NAME_PART: Final = 512


@dataclass(frozen=True)
class Segment:
    """One program header; ``size`` in bytes of the file."""

    type: int
    flags: int
    offset: int
    address: int
    size: int


def read_segments(source: Source) -> tuple[Segment, ...]:
    """The program headers of the file, which may have none.

    :raises DamageError: a table that is cut off or of another layout
    """
    start, entry_size, count = source.unpack(_HEADER_FIELDS, _HEADER_FIELDS_AT, "ELF header")
    if count == 0:
        return ()
    if entry_size != _SEGMENT.size or count == 0xFFFF:
        raise source.damage(
            "program header table",
            0x36,
            found=f"entry size {entry_size}, {count} entries",
            wanted=f"entry size {_SEGMENT.size}, fewer than 65535 entries",
        )
    table = source.window(start, count * entry_size, f"table of {count} program headers")
    raw = table.read(0, table.size, "program header table")
    return tuple(
        Segment(kind, flags, offset, address, size)
        for kind, flags, offset, address, _, size, _, _ in _SEGMENT.iter_unpack(raw)
    )


class Memory:
    """The bytes of a file by the addresses at which the loader puts them."""

    def __init__(self, source: Source, segments: Sequence[Segment]) -> None:
        self.source = source
        self._loads = [segment for segment in segments if segment.type == PT_LOAD and segment.size]

    def window(self, address: int, size: int, what: str) -> Source:
        """``size`` bytes from ``address`` on.

        :raises DamageError: they are not all in one segment of the file
        """
        found = self.rest(address, what)
        if size > found.size:
            raise self.source.damage(
                f"{what} leaves its segment",
                None,
                found=f"address {address:#x}, size {size:#x}",
                wanted=f"at most {found.size:#x} bytes",
            )
        return found.window(0, size, what)

    def rest(self, address: int, what: str) -> Source:
        """All bytes from ``address`` to the end of its segment.

        :raises DamageError: no segment of the file holds the address
        """
        for load in self._loads:
            inside = address - load.address
            if 0 <= inside < load.size:
                return self.source.window(load.offset + inside, load.size - inside, what)
        raise self.source.damage(
            f"{what} lies nowhere", None, found=f"address {address:#x}", wanted="an address in a segment"
        )


class Strings:
    """The string table of a dynamic section."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def raw(self, offset: int, what: str) -> bytes:
        """The string at an offset.

        :raises DamageError: it is not in the table, not ended, or longer than :data:`MAX_NAME`
        """
        found = b""
        while len(found) < MAX_NAME:
            part = self.source.peek(offset + len(found), _NAME_PART)
            text, zero, _ = part.partition(b"\0")
            found += text
            if zero:
                return found
            if len(part) < _NAME_PART:
                break
        raise self.source.damage(
            f"{what} has no name",
            None,
            found=f"string offset {offset:#x}",
            wanted=f"less than {self.source.size:#x}, and a zero byte at its end",
        )

    def text(self, offset: int, what: str) -> str:
        """As :meth:`raw`, fit for a terminal."""
        return printable(self.raw(offset, what))


@dataclass(frozen=True)
class Dynamic:
    """The entries of a dynamic section: the values of each tag, in their order."""

    memory: Memory
    values: Mapping[int, tuple[int, ...]]
    strings: Strings

    def last(self, tag: int) -> int | None:
        """The value that counts where a tag should stand once: the loader keeps the last."""
        found = self.values.get(tag)
        return found[-1] if found else None

    def damage(self, what: str, *, found: str, wanted: str) -> DamageError:
        """Damage to something that the dynamic section tells of, at no single place."""
        return self.memory.source.damage(what, None, found=found, wanted=wanted)

    def texts(self, tag: int, what: str) -> tuple[str, ...]:
        """The strings that the values of a tag point to.

        :raises DamageError: one of them is not in the string table
        """
        return tuple(self.strings.text(value, what) for value in self.values.get(tag, ()))


def read_dynamic(source: Source, segments: Sequence[Segment]) -> Dynamic | None:
    """The dynamic section; None for a file that has none (an object, a static program).

    :raises DamageError: it or its string table is missing, cut off or out of range
    """
    found = [segment for segment in segments if segment.type == PT_DYNAMIC]
    if not found:
        return None
    if len(found) > 1:
        raise source.damage("dynamic section", None, found=f"{len(found)} of them", wanted="one")
    segment = found[0]
    memory = Memory(source, segments)
    table = memory.window(segment.address, segment.size, "dynamic section")
    if table.place(0) != source.place(segment.offset):
        raise source.damage(
            "the program headers contradict each other about the dynamic section",
            segment.offset,
            found=f"offset {segment.offset:#x}",
            wanted=f"{table.place(0) - source.place(0):#x}, where its address lies",
        )
    values = _read_entries(table)
    start, size = values.get(DT_STRTAB), values.get(DT_STRSZ)
    if not start or not size:
        raise table.damage(
            "dynamic section", 0, found="no string table", wanted="entries DT_STRTAB and DT_STRSZ"
        )
    return Dynamic(memory, values, Strings(memory.window(start[-1], size[-1], "dynamic string table")))


def _read_entries(table: Source) -> dict[int, tuple[int, ...]]:
    count = min(table.size // _ENTRY.size, _MAX_ENTRIES)
    values: dict[int, list[int]] = {}
    for tag, value in _ENTRY.iter_unpack(table.read(0, count * _ENTRY.size, "dynamic section")):
        if tag == _DT_NULL:
            return {tag: tuple(found) for tag, found in values.items()}
        values.setdefault(tag, []).append(value)
    raise table.damage(
        "dynamic section has no end", 0, found=f"{count} entries", wanted="an entry DT_NULL at the end"
    )
