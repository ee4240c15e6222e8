"""The symbol versions that an ELF file needs of other libraries (``GLIBC_2.34`` of ``libc.so.6``).

Layout from the "Symbol Versioning" chapter of the Linux Standard Base Core Specification.
"""

from __future__ import annotations

import struct
from typing import Final

from channel_tools.verify.elf_dynamic import DT_VERNEED, DT_VERNEEDNUM, Dynamic
from channel_tools.verify.source import Source

_LIBRARY = struct.Struct("<HHIII")
_VERSION = struct.Struct("<IHHII")
_WEAK = 2
_MAX_LIBRARIES: Final = 4096
_MAX_VERSIONS: Final = 1 << 16


def read_needs(dynamic: Dynamic) -> dict[str, tuple[str, ...]]:
    """Version names by the library that must define them, both sorted.

    Versions that are marked weak are left out: the loader goes on without them.

    :raises DamageError: tables that are cut off, out of range or contradict themselves
    """
    address, count = dynamic.last(DT_VERNEED), dynamic.last(DT_VERNEEDNUM)
    if address is None and not count:
        return {}
    if address is None or not count or count > _MAX_LIBRARIES:
        raise dynamic.damage(
            "table of needed versions",
            found=f"DT_VERNEED {address}, DT_VERNEEDNUM {count}",
            wanted=f"both, for 1 to {_MAX_LIBRARIES} libraries",
        )
    table = dynamic.memory.rest(address, "table of needed versions")
    needs: dict[str, set[str]] = {}
    offset = total = 0
    for index in range(count):
        version, versions, name, first, following = table.unpack(_LIBRARY, offset, "needed versions")
        total += versions
        if version != 1 or total > _MAX_VERSIONS:
            raise table.damage(
                "table of needed versions",
                offset,
                found=f"format {version}, {total} versions so far",
                wanted=f"format 1, at most {_MAX_VERSIONS} versions",
            )
        library = dynamic.strings.text(name, "library of needed versions")
        needs.setdefault(library, set()).update(_read_names(dynamic, table, offset + first, versions))
        offset = _step(table, offset, following, last=index == count - 1)
    return {library: tuple(sorted(names)) for library, names in sorted(needs.items()) if names}


def _read_names(dynamic: Dynamic, table: Source, offset: int, count: int) -> set[str]:
    names = set()
    for index in range(count):
        hashed, flags, _, start, following = table.unpack(_VERSION, offset, "needed version")
        name = dynamic.strings.raw(start, "needed version")
        if elf_hash(name) != hashed:
            raise table.damage(
                "a needed version and its hash differ: the loader would not find it",
                offset,
                found=f"{hashed:#x}",
                wanted=f"{elf_hash(name):#x}, for {dynamic.strings.text(start, 'needed version')}",
            )
        if not flags & _WEAK:
            names.add(dynamic.strings.text(start, "needed version"))
        offset = _step(table, offset, following, last=index == count - 1)
    return names


def _step(table: Source, offset: int, following: int, *, last: bool) -> int:
    if (following == 0) != last:
        raise table.damage(
            "table of needed versions",
            offset,
            found="its last entry" if following == 0 else "one more entry",
            wanted="as many entries as it counts",
        )
    return offset + following


def elf_hash(name: bytes) -> int:
    """The hash of the gABI, "Hash Table"."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value
