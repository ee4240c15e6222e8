"""Static archives (``ar``): the members, without unpacking them.

Format: ``ar(5)``; long names as GNU (``/123``) and BSD (``#1/12``) write them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from channel_tools.verify.source import Source, printable

MAGIC: Final = b"!<arch>\n"
THIN_MAGIC: Final = b"!<thin>\n"

_HEADER_SIZE: Final = 60
_INDEXES: Final = ("/", "/SYM64/", "__.SYMDEF", "__.SYMDEF SORTED")
_LONG_NAMES: Final = "//"


def archive_members(source: Source) -> Iterator[tuple[str, Source]]:
    """Name and content of each member; symbol indexes and the table of long names are left out.

    :raises DamageError: a header that is none, or a member that leaves the file
    """
    position = len(MAGIC)
    long_names = b""
    while position < source.size:
        header = source.read(position, _HEADER_SIZE, "archive member header")
        if header[58:] != b"`\n":
            raise source.damage(
                "archive member header", position + 58, found=header[58:].hex(" "), wanted="60 0a"
            )
        size = _decimal(source, position + 48, header[48:58])
        body = source.window(position + _HEADER_SIZE, size, "archive member")
        name = printable(header[:16].rstrip(b" "))
        if name == _LONG_NAMES:
            long_names = body.read(0, size, "table of long names")
        elif name not in _INDEXES:
            name, body = _long_name(source, position, name, body, long_names)
            if name not in _INDEXES:
                yield name, body
        position += _HEADER_SIZE + size + size % 2


def _decimal(source: Source, offset: int, field: bytes) -> int:
    text = field.rstrip(b" ")
    if not text.isdigit():
        raise source.damage("size of an archive member", offset, found=repr(field), wanted="a decimal number")
    return int(text)


def _long_name(
    source: Source, position: int, name: str, body: Source, long_names: bytes
) -> tuple[str, Source]:
    if name.startswith("#1/") and name[3:].isdigit():
        length = int(name[3:])
        inner = body.window(length, max(body.size - length, 0), "archive member name")
        raw = body.read(0, length, "archive member name")
        return printable(raw.rstrip(b"\0")), inner
    if name.startswith("/") and name[1:].isdigit():
        start = int(name[1:])
        end = long_names.find(b"\n", start)
        if start >= len(long_names) or end < 0:
            raise source.damage(
                "name of an archive member",
                position,
                found=name,
                wanted="an offset in the table of long names",
            )
        name = printable(long_names[start:end])
    return name.removesuffix("/"), body
