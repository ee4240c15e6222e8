"""What an ELF file says of how it was made and what it needs to load.

Only headers and small tables are read: program headers, the dynamic section and the tables that it points to,
and the sections ``.comment`` (each compiler and linker adds a line about itself) and ``.GCC.command.line``
(the options of each unit, where ``-frecord-gcc-switches`` or ``-frecord-command-line`` asked for it).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from channel_tools.verify.elf import SHT_NOBITS, Elf
from channel_tools.verify.elf_dynamic import (
    DT_FLAGS,
    DT_NEEDED,
    DT_RPATH,
    DT_RUNPATH,
    DT_SONAME,
    DT_TEXTREL,
    PF_X,
    PT_GNU_STACK,
    Dynamic,
    Segment,
    read_dynamic,
    read_segments,
)
from channel_tools.verify.elf_symbols import read_exports
from channel_tools.verify.elf_versions import read_needs
from channel_tools.verify.source import Source, printable

_COMPILERS: Final = ".comment"
_COMMAND_LINES: Final = ".GCC.command.line"
_DYNAMIC: Final = ".dynamic"
_MAX_COMPILERS: Final = 4 << 20
_MAX_COMMAND_LINES: Final = 64 << 20
_DF_TEXTREL = 4
_ET_EXEC, _ET_DYN = 2, 3
# Where the header is missing, glibc's loader takes the stack of these machines for executable
# (DEFAULT_STACK_PERMS in sysdeps/*/stackinfo.h).
_EXECUTABLE_BY_DEFAULT: Final = frozenset({3, 62})  # i386, x86-64


@dataclass(frozen=True)
class Linkage:
    """Facts of one ELF file.

    ``needed`` are DT_NEEDED entries in their order, ``rpath`` and ``runpath`` the folders of DT_RPATH and
    DT_RUNPATH as written. ``needs`` has the version names wanted of each library. ``compilers`` are the
    distinct lines of ``.comment``, ``flags`` the recorded command lines. ``symbols`` is the number of
    distinct names exported, ``symbol_digest`` the SHA-256 (hex) of them, sorted and each ended by a line
    feed; empty where there are none, or too many to read.
    """

    needed: tuple[str, ...] = ()
    soname: str | None = None
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    needs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    compilers: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    text_relocations: bool = False
    executable_stack: bool = False
    symbols: int = 0
    symbol_digest: str = ""

    @property
    def versions(self) -> dict[str, tuple[str, ...]]:
        """Versions by their family, oldest first: ``{"GLIBC": ("2.2.5", "2.34"), "GCC": ("3.0",)}``."""
        found: dict[str, set[str]] = {}
        for name in {name for names in self.needs.values() for name in names}:
            family, _, version = name.partition("_")
            found.setdefault(family, set()).add(version)
        return {
            family: tuple(sorted(versions, key=version_key)) for family, versions in sorted(found.items())
        }

    def to_json(self) -> dict[str, Any]:
        """All fields, and ``versions``; the shape that :meth:`from_json` reads."""
        mappings = ("needs", "versions")
        data = {one.name: getattr(self, one.name) for one in fields(self)} | {"versions": self.versions}
        return {
            key: {name: list(items) for name, items in value.items()}
            if key in mappings
            else (list(value) if isinstance(value, tuple) else value)
            for key, value in data.items()
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Linkage:
        """Read what :meth:`to_json` gave."""
        known = {one.name for one in fields(cls)}
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in data.items()
            if key in known
        }
        values["needs"] = {library: tuple(names) for library, names in data["needs"].items()}
        return cls(**values)


def version_key(version: str) -> tuple[tuple[int, str], ...]:
    """Sort key by which 2.4 comes before 2.34, and words after numbers."""
    return tuple(
        (int(part), "") if part.isdigit() else (1 << 62, part) for part in re.split(r"[._]", version)
    )


def read_linkage(source: Source, elf: Elf) -> Linkage:
    """Read the linkage of a host object, library or program.

    :raises DamageError: a table that is cut off, out of range or contradicts another
    """
    compilers = tuple(dict.fromkeys(_read_lines(source, elf, _COMPILERS, _MAX_COMPILERS)))
    flags = _read_lines(source, elf, _COMMAND_LINES, _MAX_COMMAND_LINES)
    segments = read_segments(source) if elf.type in (_ET_EXEC, _ET_DYN) else ()
    stack = _has_executable_stack(elf, segments)
    dynamic = None if _is_split_debug(elf) else read_dynamic(source, segments)
    if dynamic is None:
        return Linkage(compilers=compilers, flags=flags, executable_stack=stack)
    symbols, digest = read_exports(dynamic)
    return Linkage(
        needed=dynamic.texts(DT_NEEDED, "needed library"),
        soname=next(iter(dynamic.texts(DT_SONAME, "name of the library")), None),
        rpath=_read_folders(dynamic, DT_RPATH),
        runpath=_read_folders(dynamic, DT_RUNPATH),
        needs=read_needs(dynamic),
        compilers=compilers,
        flags=flags,
        text_relocations=bool(dynamic.values.get(DT_TEXTREL) or (dynamic.last(DT_FLAGS) or 0) & _DF_TEXTREL),
        executable_stack=stack,
        symbols=symbols,
        symbol_digest=digest,
    )


def _read_lines(source: Source, elf: Elf, name: str, limit: int) -> tuple[str, ...]:
    """The texts of all sections of that name, which end each of them with a zero byte."""
    raw = b""
    for section in elf.sections:
        if section.name == name and section.in_file:
            if len(raw) + section.size > limit:
                raise source.damage(
                    f"section {name}",
                    section.offset,
                    found=f"{section.size} bytes",
                    wanted=f"at most {limit}",
                )
            raw += source.read(section.offset, section.size, f"section {name}") + b"\0"
    return tuple(printable(line) for line in raw.split(b"\0") if line)


def _has_executable_stack(elf: Elf, segments: tuple[Segment, ...]) -> bool:
    if not segments:
        return False
    flags = [segment.flags for segment in segments if segment.type == PT_GNU_STACK]
    if not flags:
        return elf.machine in _EXECUTABLE_BY_DEFAULT
    return any(flag & PF_X for flag in flags)


def _is_split_debug(elf: Elf) -> bool:
    """Is this the debug information of another file? It keeps that file's headers without the content."""
    return any(section.name == _DYNAMIC and section.type == SHT_NOBITS for section in elf.sections)


def _read_folders(dynamic: Dynamic, tag: int) -> tuple[str, ...]:
    texts = dynamic.texts(tag, "run path")
    return tuple(texts[-1].split(":")) if texts else ()
