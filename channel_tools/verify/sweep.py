"""A first pass over a host ELF file that passes once.

Where its sections lie is known at its end only. So it is searched for what looks like code while it passes,
and that is read: what was read is kept, and the readers that come after this find it there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from channel_tools.verify.embedded import read_embedded
from channel_tools.verify.findings import Findings
from channel_tools.verify.source import Source

KEPT_START: Final = 64 << 20
"""Bytes of its start that are kept, up to the first code for a GPU: symbols, versions and strings of the
dynamic linker lie there."""

KEPT_DATA_END: Final = 2 << 20
"""Bytes behind its last segment that are kept: ``.comment`` and the like lie there."""

_HEADERS: Final = 4096
_MAX_DYNAMIC: Final = 4 << 20
_MAX_SEGMENTS: Final = 512
_PT_LOAD, _PT_DYNAMIC = 1, 2
_SEGMENT_PLACES = struct.Struct("<QQ")
_SEGMENT_COUNT = struct.Struct("<HH")
_SEGMENT = struct.Struct("<II Q 16x Q 16x")


def sweep(source: Source) -> None:
    """Let ``source`` pass, if it passes but once.

    :raises DamageError: the stream that it comes out of is cut off or unsound
    """
    if source.shared:
        return
    source.keep(0, _HEADERS)
    if source.place(0) == 0:  # a file of its own, not a member of a static archive
        source.keep_start(KEPT_START)
        for start, end in _ranges(source):
            source.keep(start, end)
    unjudged = Findings(source.name)
    with unjudged.keep_damage():
        read_embedded(source, [], unjudged, begin=True)
    source.pass_on()


def _ranges(source: Source) -> Iterator[tuple[int, int]]:
    """What else the dynamic linker or a look at the compiler needs, by the program headers."""
    header = source.peek(0, 64)
    if len(header) < 64:
        return
    offset, _ = _SEGMENT_PLACES.unpack_from(header, 0x20)
    size, count = _SEGMENT_COUNT.unpack_from(header, 0x36)
    if size != _SEGMENT.size or count > _MAX_SEGMENTS or offset > KEPT_START:
        return
    table = source.peek(offset, count * size)
    end = 0
    for kind, _, start, file_size in _SEGMENT.iter_unpack(table[: len(table) // size * size]):
        if kind == _PT_DYNAMIC:
            yield start, start + min(file_size, _MAX_DYNAMIC)
        elif kind == _PT_LOAD:
            end = max(end, start + file_size)
    if end:
        yield end, end + KEPT_DATA_END
