"""Code objects that lie anywhere in a host file: in plain data, or where the section table is gone.

Some libraries carry kernels as byte arrays, outside every section that has a meaning of its own. They are
found by their first bytes alone, so each hit must also look like the real thing in the fields that follow:
compilers and debuggers hold the same first bytes as text.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from channel_tools.verify import bundles, offload_binary, unpack
from channel_tools.verify.elf import EM_AMDGPU, MAGIC, OSABI_AMDGPU_HSA
from channel_tools.verify.findings import Findings
from channel_tools.verify.images import read_bare
from channel_tools.verify.source import DamageError, Source

_CHUNK: Final = 4 << 20
_HEAD: Final = 96
_MAX_DAMAGED: Final = 20
_CODE_OBJECT: Final = MAGIC + bytes((2, 1, 1, OSABI_AMDGPU_HSA))
_PATTERNS: Final = (_CODE_OBJECT, bundles.MAGIC, bundles.COMPRESSED_MAGIC, offload_binary.MAGIC)
_ELF_FIELDS = struct.Struct("<18xHI28xH")
_BUNDLE_FIELDS = struct.Struct("<24xQQQQ")
_OFFLOAD_FIELDS = struct.Struct("<4xIQQ")


def read_embedded(source: Source, known: list[tuple[int, int]], findings: Findings) -> None:
    """Record every code object and bundle of ``source`` outside ``known``.

    :param known: (start, end) of the parts that were read already
    """
    damaged = 0
    for start, end in _gaps(source.size, known):
        position = start
        for hit in _hits(source, start, end):
            if hit < position:
                continue
            try:
                position = _read_hit(source, hit, end, findings)
            except DamageError as damage:
                findings.add_damage(damage)
                damaged += 1
                if damaged == _MAX_DAMAGED:
                    return


def _gaps(size: int, known: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    position = 0
    for start, end in [*sorted(known), (size, size)]:
        if start > position:
            yield position, start
        position = max(position, end)


def _hits(source: Source, start: int, end: int) -> Iterator[int]:
    overlap = max(map(len, _PATTERNS)) - 1
    position = start
    while position < end:
        chunk = source.peek(position, min(_CHUNK + overlap, end - position))
        hits = {found for pattern in _PATTERNS for found in _find_all(chunk, pattern) if found < _CHUNK}
        yield from (position + found for found in sorted(hits))
        position += _CHUNK


def _find_all(chunk: bytes, pattern: bytes) -> Iterator[int]:
    found = chunk.find(pattern)
    while found >= 0:
        yield found
        found = chunk.find(pattern, found + 1)


def _read_hit(source: Source, hit: int, end: int, findings: Findings) -> int:
    """Read what starts at ``hit`` if it is real; return the offset from which to look on.

    :raises DamageError: it looked real, and is not sound
    """
    head = source.peek(hit, min(_HEAD, end - hit))
    part = source.window(hit, end - hit, "embedded code")
    if _looks_like_code_object(head):
        return hit + read_bare(part, findings)
    if _looks_like_bundle(head) or _looks_compressed(head, part.size):
        return hit + bundles.read_bundle(part, 0, findings)
    if _looks_like_offload_binary(head, part.size):
        return hit + offload_binary.read_offload_binary(part, 0, findings)
    return hit + 1


def _looks_like_code_object(head: bytes) -> bool:
    if not head.startswith(_CODE_OBJECT) or len(head) < _ELF_FIELDS.size:
        return False
    machine, version, header_size = _ELF_FIELDS.unpack_from(head)
    return bool(machine == EM_AMDGPU and version == 1 and header_size == 64)


def _looks_like_bundle(head: bytes) -> bool:
    if not head.startswith(bundles.MAGIC) or len(head) <= _BUNDLE_FIELDS.size:
        return False
    count, _, _, id_size = _BUNDLE_FIELDS.unpack_from(head)
    return bool(0 < count < 1024 and 0 < id_size < 1024) and head[56:].startswith(
        (b"host-", b"hip", b"openmp-")
    )


def _looks_compressed(head: bytes, room: int) -> bool:
    if not head.startswith(bundles.COMPRESSED_MAGIC) or len(head) < 36:
        return False
    version, method = struct.unpack_from("<HH", head, 4)
    if version not in (1, 2, 3) or method not in (0, 1):
        return False
    total = {1: 20, 2: struct.unpack_from("<I", head, 8)[0], 3: struct.unpack_from("<Q", head, 8)[0]}[version]
    payload = head[{1: 20, 2: 24, 3: 32}[version] :]
    return total <= room and payload.startswith(unpack.ZSTD_MAGIC if method else b"\x78")


def _looks_like_offload_binary(head: bytes, room: int) -> bool:
    if not head.startswith(offload_binary.MAGIC) or len(head) < _OFFLOAD_FIELDS.size:
        return False
    version, size, entries = _OFFLOAD_FIELDS.unpack_from(head)
    return bool(version in (1, 2, 3) and size <= room and entries in (32, 40))
