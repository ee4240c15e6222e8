"""The dynamic symbols that an ELF file exports.

Their number stands in no header: it follows from the hash table that the loader uses. Layouts: gABI, "Symbol
Table" and "Hash Table"; the GNU hash table as in glibc's ``elf/dl-lookup.c``.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from itertools import count as count_from
from typing import Final

from channel_tools.verify.elf_dynamic import DT_GNU_HASH, DT_HASH, DT_SYMENT, DT_SYMTAB, MAX_NAME, Dynamic

MAX_SYMBOLS: Final = 1 << 19
MAX_STRINGS: Final = 48 << 20
"""Bytes of the string table. In larger ones symbols are counted and names are not read, so that memory stays
below 200 MiB."""

_SYMBOL = struct.Struct("<IBBHQQ")
_HASH = struct.Struct("<II")
_GNU_HASH = struct.Struct("<IIII")
_WORD = struct.Struct("<I")
_CHUNK: Final = 1 << 14
_MAX_BUCKETS: Final = 1 << 22
_UNDEFINED = 0
_BINDINGS = frozenset({1, 2, 10})  # global, weak, GNU unique
_VISIBLE = frozenset({0, 3})  # default, protected
# Names overlap in a string table only where one ends another; far more than its size is no table of a linker.
_OVERLAP: Final = 2


def read_exports(dynamic: Dynamic) -> tuple[int, str]:
    """Number of exported names, and the SHA-256 of them, sorted and each ended by a line feed.

    ``(0, "")`` where no symbol can be looked up; the size of the symbol table and ``""`` where there are more
    than :data:`MAX_SYMBOLS` symbols or :data:`MAX_STRINGS` bytes of names.

    :raises DamageError: tables that are cut off or out of range
    """
    count = _count_symbols(dynamic)
    if not count or count > MAX_SYMBOLS or dynamic.strings.source.size > MAX_STRINGS:
        return count, ""
    names = _read_names(dynamic, count)
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(name + b"\n")
    return len(names), digest.hexdigest()


def _read_names(dynamic: Dynamic, count: int) -> set[bytes]:
    table = dynamic.strings.source
    strings = table.read(0, table.size, "dynamic string table")
    left = _OVERLAP * len(strings) + MAX_NAME
    names = set()
    for start in _exported(dynamic, count):
        end = strings.find(b"\0", start, start + MAX_NAME)
        if end < 0 or left < 0:
            raise table.damage(
                "name of a dynamic symbol",
                start,
                found="no end" if end < 0 else "names that overlap",
                wanted="names side by side, each ended by a zero byte",
            )
        left -= end - start
        names.add(strings[start:end])
    return names


def _exported(dynamic: Dynamic, count: int) -> Iterator[int]:
    """String offset of the name of each symbol that other files can use."""
    address, size = dynamic.last(DT_SYMTAB), dynamic.last(DT_SYMENT)
    if address is None or size != _SYMBOL.size:
        raise dynamic.damage(
            "dynamic symbol table",
            found=f"DT_SYMTAB {address}, DT_SYMENT {size}",
            wanted=f"both, with a size of {_SYMBOL.size}",
        )
    table = dynamic.memory.window(address, count * _SYMBOL.size, f"table of {count} dynamic symbols")
    for first in range(0, count, _CHUNK):
        part = min(_CHUNK, count - first) * _SYMBOL.size
        raw = table.read(first * _SYMBOL.size, part, "dynamic symbol table")
        for name, info, other, section, _, _ in _SYMBOL.iter_unpack(raw):
            if section != _UNDEFINED and info >> 4 in _BINDINGS and other & 3 in _VISIBLE:
                yield name


def _count_symbols(dynamic: Dynamic) -> int:
    """Entries of the symbol table, by the hash table; 0 where nothing can be looked up."""
    address = dynamic.last(DT_GNU_HASH)
    if address is not None:
        return _count_gnu_hash(dynamic, address)
    address = dynamic.last(DT_HASH)
    if address is None:
        return 0
    table = dynamic.memory.window(address, _HASH.size, "hash table of symbols")
    return table.unpack(_HASH, 0, "hash table of symbols")[1]


def _count_gnu_hash(dynamic: Dynamic, address: int) -> int:
    """Symbols up to the end of the chain that begins last."""
    table = dynamic.memory.rest(address, "GNU hash table")
    buckets, first_hashed, bloom, _ = table.unpack(_GNU_HASH, 0, "GNU hash table")
    if buckets > _MAX_BUCKETS or bloom > _MAX_BUCKETS:
        raise table.damage(
            "GNU hash table",
            0,
            found=f"{buckets} buckets, {bloom} filter words",
            wanted=f"at most {_MAX_BUCKETS} of each",
        )
    start = _GNU_HASH.size + 8 * bloom
    raw = table.read(start, 4 * buckets, "buckets of the GNU hash table")
    last = max((word for (word,) in _WORD.iter_unpack(raw)), default=0)
    if last == 0:
        return 0  # all buckets are empty
    if last < first_hashed:
        raise table.damage(
            "GNU hash table", start, found=f"symbol {last} in a bucket", wanted=f"{first_hashed} or more"
        )
    chains = start + 4 * buckets
    for symbol in count_from(last, _CHUNK):
        words = table.peek(chains + 4 * (symbol - first_hashed), 4 * _CHUNK)
        whole = words[: len(words) & ~3]
        end = next((index for index, (word,) in enumerate(_WORD.iter_unpack(whole)) if word & 1), None)
        if end is not None:
            return symbol + end + 1
        if len(words) < 4 * _CHUNK:
            break
    raise table.damage(
        "GNU hash table",
        chains,
        found=f"a chain without an end, from symbol {last} on",
        wanted="a chain that ends",
    )
