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
_CODE: Final = (b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB", b"\x10\xff\x10\xad")
_CODE_SIZE: Final = 24
_MAX_LONG_NAMES: Final = 16 << 20
_MAX_NAME: Final = 4096


def archive_members(source: Source) -> Iterator[tuple[str, Source]]:
    """Name and content of each member; symbol indexes and the table of long names are left out.

    Both come before the first member and hold no code: what does is a member, whatever its name is.

    :raises DamageError: a header that is none, or a member that leaves the file
    """
    for name, body, _ in _members(source, thin=False):
        yield name, body


def thin_members(source: Source) -> Iterator[tuple[str, int]]:
    """Path and size of each member of a thin archive, which lie in files of their own.

    The paths start at the archive's folder.

    :raises DamageError: as :func:`archive_members`
    """
    for name, _, size in _members(source, thin=True):
        yield name, size


def _members(source: Source, *, thin: bool) -> Iterator[tuple[str, Source, int]]:
    position = len(MAGIC)
    long_names = b""
    first = True
    while position < source.size:
        header = source.read(position, _HEADER_SIZE, "archive member header")
        if header[58:] != b"`\n":
            raise source.damage(
                "archive member header", position + 58, found=header[58:].hex(" "), wanted="60 0a"
            )
        size = _decimal(source, position + 48, header[48:58])
        name = printable(header[:16].rstrip(b" "))
        elsewhere = thin and name not in (*_INDEXES, _LONG_NAMES)
        held = 0 if elsewhere else size
        body = source.window(position + _HEADER_SIZE, held, "archive member")
        if first and name == _LONG_NAMES and not _holds_code(body):
            long_names = _read_long_names(source, position, body)
        else:
            if name not in _INDEXES:
                name, body = _long_name(source, position, name, body, long_names)
            if not first or name not in _INDEXES or _holds_code(body):
                first = False
                yield name, body, size
        position += _HEADER_SIZE + held + held % 2


def _holds_code(body: Source) -> bool:
    return body.peek(0, _CODE_SIZE).startswith(_CODE)


def _read_long_names(source: Source, position: int, body: Source) -> bytes:
    if body.size > _MAX_LONG_NAMES:
        raise source.damage(
            "table of long names",
            position,
            found=f"{body.size} bytes",
            wanted=f"at most {_MAX_LONG_NAMES} bytes",
        )
    return body.read(0, body.size, "table of long names")


def _decimal(source: Source, offset: int, field: bytes) -> int:
    text = field.rstrip(b" ")
    if not text.isdigit():
        raise source.damage("size of an archive member", offset, found=repr(field), wanted="a decimal number")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _long_name(
    source: Source, position: int, name: str, body: Source, long_names: bytes
) -> tuple[str, Source]:
    if name.startswith("#1/") and _is_number(name[3:]):
        length = int(name[3:])
        inner = body.window(length, max(body.size - length, 0), "archive member name")
        if length > _MAX_NAME or _holds_code(body):
            raise source.damage(
                "name of an archive member",
                position,
                found=f"{name}, and code where the name should be" if _holds_code(body) else name,
                wanted=f"a name of at most {_MAX_NAME} bytes",
            )
        raw = body.read(0, length, "archive member name")
        return printable(raw.rstrip(b"\0")), inner
    if name.startswith("/") and _is_number(name[1:]):
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
