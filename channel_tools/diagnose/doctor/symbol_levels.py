"""Which symbol versions of libstdc++ a library needs, and which a libstdc++ defines."""

from __future__ import annotations

import os
import re

from channel_tools.diagnose.doctor.host_root import HostRoot
from channel_tools.model.errors import ChannelToolsError
from channel_tools.verify.elf_dynamic import read_dynamic, read_segments
from channel_tools.verify.elf_versions import read_needs
from channel_tools.verify.source import OpenFile, Source

Level = tuple[int, ...]

_FILE = re.compile(r"libstdc\+\+\.so\.6\.0\.(\d{1,4})")
_VERSION = re.compile(rb"GLIBCXX_(\d{1,4}(?:\.\d{1,4})*)\0")
_NEEDED = re.compile(r"GLIBCXX_(\d{1,4}(?:\.\d{1,4})*)")
_LIMIT = 64 << 20


def glibcxx_needed(host: HostRoot, path: str) -> Level | None:
    """The newest GLIBCXX version that a library needs; None where it needs none or cannot be read."""
    found = host.local(path)
    if found is None or not found.is_file():
        return None
    try:
        with found.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            source = Source(found.name, OpenFile(stream.fileno()), size)
            dynamic = read_dynamic(source, read_segments(source))
            needs = read_needs(dynamic) if dynamic else {}
    except (OSError, ChannelToolsError):
        return None
    levels = [
        _level(match[1]) for names in needs.values() for name in names if (match := _NEEDED.fullmatch(name))
    ]
    return max(levels, default=None)


def glibcxx_of(host: HostRoot, path: str) -> Level | None:
    """The newest GLIBCXX version that a libstdc++ defines.

    Its file name tells (6.0.30 defines up to 3.4.30: "ABI Policy and Guidelines" of the libstdc++ manual),
    else the names in the file do.
    """
    real = host.real(path)
    if real is None:
        return None
    match = _FILE.search(real)
    if match:
        return (3, 4, int(match[1]))
    data = host.data(path, _LIMIT) or b""
    return max((_level(found.decode()) for found in _VERSION.findall(data)), default=None)


def _level(text: str) -> Level:
    return tuple(int(number) for number in text.split("."))
