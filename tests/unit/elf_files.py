"""ELF libraries for the tests of linkage, laid out byte by byte.

Everything lies in one segment whose address is not its offset, so that a reader that mixes them up fails. The
layouts are known here a second time, so that a mistake in the reader cannot hide.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ADDRESS = 0x10000
EXECUTABLE, READ_WRITE = 7, 6

_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551


@dataclass
class Library:
    """What the library says. ``stack`` None leaves the header out; ``hash``: ``gnu``, ``sysv`` or ``""``."""

    needed: Sequence[str] = ()
    soname: str | None = None
    rpath: str | None = None
    runpath: str | None = None
    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    weak: Sequence[str] = ()
    exports: Sequence[str] = ()
    imports: Sequence[str] = ("printf",)
    hash: str = "gnu"
    stack: int | None = READ_WRITE
    entries: Sequence[tuple[int, int]] = ()
    comment: Sequence[str] = ()
    command_lines: Sequence[str] = ()
    section_table: bool = True
    dynamic: bool = True
    machine: int = 62
    kind: int = 3


def sysv_hash(name: bytes) -> int:
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        if high:
            value ^= high >> 24
        value &= 0x0FFFFFFF
    return value


def gnu_hash(name: bytes) -> int:
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


class _Strings:
    def __init__(self) -> None:
        self.data = bytearray(b"\0")

    def add(self, text: str) -> int:
        place = len(self.data)
        self.data += text.encode() + b"\0"
        return place


def build(library: Library) -> bytes:
    """The file."""
    return build_with_places(library)[0]


def build_with_places(library: Library) -> tuple[bytes, dict[str, int]]:
    """The file, and the offset of each table in it."""
    strings = _Strings()
    needed = [(1, strings.add(name)) for name in library.needed]
    texts = ((14, library.soname), (15, library.rpath), (29, library.runpath))
    needed += [(tag, strings.add(text)) for tag, text in texts if text is not None]
    verneed = _verneed(library, strings)
    symbols = bytearray(24)
    for name in library.imports:
        symbols += struct.pack("<IBBHQQ", strings.add(name), 0x12, 0, 0, 0, 0)
    for name in library.exports:
        symbols += struct.pack("<IBBHQQ", strings.add(name), 0x12, 0, 1, ADDRESS, 8)

    segments = 1 + library.dynamic + (library.stack is not None)
    image = bytearray(64 + 56 * segments)
    places: dict[str, int] = {}

    def place(name: str, data: bytes) -> int:
        image.extend(b"\0" * (-len(image) % 8))
        places[name] = len(image)
        image.extend(data)
        return ADDRESS + places[name]

    entries = list(needed)
    if library.dynamic:
        entries += [(5, place("strings", strings.data)), (10, len(strings.data))]
        entries += [(6, place("symbols", symbols)), (11, 24)]
        count = len(symbols) // 24
        if library.hash == "gnu":
            entries.append((0x6FFFFEF5, place("hash", _gnu_table(library))))
        elif library.hash == "sysv":
            entries.append((4, place("hash", struct.pack("<III", 1, count, 0) + b"\0" * 4 * count)))
        if library.needs:
            entries += [(0x6FFFFFFE, place("verneed", verneed)), (0x6FFFFFFF, len(library.needs))]
        entries += [*library.entries, (0, 0)]
        place("dynamic", b"".join(struct.pack("<QQ", *entry) for entry in entries))
    sections = [
        (".comment", place("comment", b"".join(line.encode() + b"\0" for line in library.comment))),
        (
            ".GCC.command.line",
            place("lines", b"".join(b"\0" + one.encode() for one in library.command_lines)),
        ),
    ]
    sizes = {
        ".comment": sum(len(line.encode()) + 1 for line in library.comment),
        ".GCC.command.line": sum(len(line.encode()) + 1 for line in library.command_lines),
    }
    loaded = len(image)
    headers = [struct.pack("<IIQQQQQQ", _PT_LOAD, 5, 0, ADDRESS, ADDRESS, loaded, loaded, 0x1000)]
    if library.dynamic:
        start, size = places["dynamic"], 16 * len(entries)
        headers.append(
            struct.pack("<IIQQQQQQ", _PT_DYNAMIC, 6, start, ADDRESS + start, ADDRESS + start, size, size, 8)
        )
    if library.stack is not None:
        headers.append(struct.pack("<IIQQQQQQ", _PT_GNU_STACK, library.stack, 0, 0, 0, 0, 0, 16))
    image[64 : 64 + 56 * segments] = b"".join(headers)

    table, count = 0, 0
    if library.section_table:
        names = _Strings()
        rows = [b"\0" * 64]
        for name, address in sections:
            if sizes[name]:
                rows.append(_section(names.add(name), 1, address - ADDRESS, sizes[name]))
        own = names.add(".shstrtab")
        start = len(image)
        image.extend(names.data)
        rows.append(_section(own, 3, start, len(names.data)))
        image.extend(b"\0" * (-len(image) % 8))
        table, count = len(image), len(rows)
        image.extend(b"".join(rows))
    ident = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    last = max(count - 1, 0)
    fields = (
        library.kind,
        library.machine,
        1,
        0,
        64,
        table,
        0,
        64,
        56,
        segments,
        64 if count else 0,
        count,
        last,
    )
    image[:64] = ident + struct.pack("<HHIQQQIHHHHHH", *fields)
    return bytes(image), places


def _section(name: int, kind: int, offset: int, size: int) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, 0, 0, 1, 0)


def _verneed(library: Library, strings: _Strings) -> bytes:
    data = b""
    for index, (name, versions) in enumerate(library.needs.items()):
        size = 16 + 16 * len(versions)
        following = 0 if index == len(library.needs) - 1 else size
        data += struct.pack("<HHIII", 1, len(versions), strings.add(name), 16, following)
        for number, version in enumerate(versions):
            flags = 2 if version in library.weak else 0
            after = 0 if number == len(versions) - 1 else 16
            hashed = sysv_hash(version.encode())
            data += struct.pack("<IHHII", hashed, flags, 2, strings.add(version), after)
    return data


def _gnu_table(library: Library) -> bytes:
    first = 1 + len(library.imports)
    data = struct.pack("<IIII", 1, first, 1, 6) + b"\xff" * 8
    data += struct.pack("<I", first if library.exports else 0)
    hashes = [gnu_hash(name.encode()) & ~1 for name in library.exports]
    if hashes:
        hashes[-1] |= 1
    return data + b"".join(struct.pack("<I", one) for one in hashes)
