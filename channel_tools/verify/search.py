"""Where code may start, in bytes of any kind.

Some libraries carry kernels as byte arrays, outside every section that has a meaning of its own. They are
found by their first bytes alone, so each hit must also look like the real thing in the fields that follow:
compilers and debuggers hold the same first bytes as text.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from functools import cache
from typing import TYPE_CHECKING, Final

from channel_tools.verify import bundles, offload_binary, parallel, unpack
from channel_tools.verify.elf import EM_AMDGPU, MAGIC, OSABI_AMDGPU_HSA
from channel_tools.verify.source import Backing, DamageError, Finder

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

HEAD: Final = 96
"""Bytes that tell whether code starts there."""

WRAPPER_MAGICS: Final = (b"FPIH", b"KPIH")
"""Fat binary wrappers, as they lie in ``.hipFatBinSegment``."""

_PIECE: Final = 1 << 19  # fits the cache that each core has for itself
_BLOCK: Final = 4 << 20
_MAX_MARKS: Final = 1_000_000
_CODE_OBJECT: Final = MAGIC + bytes((2, 1, 1, OSABI_AMDGPU_HSA))
_WRAPPER_VERSION: Final = b"\x01\0\0\0"
# No mark may end as another or itself begins: of two that overlap, one search finds but the first.
_MARKS: Final = (
    _CODE_OBJECT,
    bundles.MAGIC.removesuffix(b"__"),
    *(bundles.COMPRESSED_MAGIC + bytes((version, 0)) for version in (1, 2, 3)),
    offload_binary.MAGIC,
    *(magic + _WRAPPER_VERSION for magic in WRAPPER_MAGICS),
)
_ELF_FIELDS = struct.Struct("<18xHI28xH")
_BUNDLE_FIELDS = struct.Struct("<24xQQQQ")
_OFFLOAD_FIELDS = struct.Struct("<4xIQQ")


def looks_like_code_object(head: bytes) -> bool:
    if not head.startswith(_CODE_OBJECT) or len(head) < _ELF_FIELDS.size:
        return False
    machine, version, header_size = _ELF_FIELDS.unpack_from(head)
    return bool(machine == EM_AMDGPU and version == 1 and header_size == 64)


def looks_like_bundle(head: bytes) -> bool:
    if not head.startswith(bundles.MAGIC) or len(head) <= _BUNDLE_FIELDS.size:
        return False
    count, _, _, id_size = _BUNDLE_FIELDS.unpack_from(head)
    return bool(0 < count < 1024 and 0 < id_size < 1024) and head[56:].startswith(
        (b"host-", b"hip", b"openmp-")
    )


def looks_compressed(head: bytes, room: int) -> bool:
    """:param room: bytes from there to the end"""
    if not head.startswith(bundles.COMPRESSED_MAGIC) or len(head) < 36:
        return False
    version, method = struct.unpack_from("<HH", head, 4)
    if version not in (1, 2, 3) or method not in (0, 1):
        return False
    total = {1: 20, 2: struct.unpack_from("<I", head, 8)[0], 3: struct.unpack_from("<Q", head, 8)[0]}[version]
    payload = head[{1: 20, 2: 24, 3: 32}[version] :]
    return total <= room and payload.startswith(unpack.ZSTD_MAGIC if method else b"\x78")


def looks_like_offload_binary(head: bytes, room: int) -> bool:
    """:param room: bytes from there to the end"""
    if not head.startswith(offload_binary.MAGIC) or len(head) < _OFFLOAD_FIELDS.size:
        return False
    version, size, entries = _OFFLOAD_FIELDS.unpack_from(head)
    return bool(version in (1, 2, 3) and size <= room and entries in (32, 40))


def looks_like_wrapper(head: bytes) -> bool:
    return head.startswith(WRAPPER_MAGICS) and head[4:8] == _WRAPPER_VERSION


def signs(data: bytes, limit: int, room: int) -> tuple[list[int], int]:
    """Offsets below ``limit`` where code looks to start, and how many first bytes of it were none.

    :param data: up to :data:`HEAD` bytes more than ``limit``, for a look at what follows
    :param room: bytes from the start of ``data`` to the end
    """
    real = []
    false = 0
    for _, place, _ in _automaton().find_matches_as_indexes(data):
        if place >= limit:
            break
        head = data[place : place + HEAD]
        if (
            looks_like_code_object(head)
            or looks_like_bundle(head)
            or looks_compressed(head, room - place)
            or looks_like_offload_binary(head, room - place)
            or looks_like_wrapper(head)
        ):
            real.append(place)
        else:
            false += 1
    return real, false


@cache
def _automaton() -> BytesAhoCorasick:
    from ahocorasick_rs import BytesAhoCorasick, MatchKind

    # Of its kinds of search only leftmost-first looks at 32 and more bytes at a time.
    return BytesAhoCorasick(_MARKS, matchkind=MatchKind.LeftmostFirst)


class Marks:
    """Counts first bytes of code that was none: a file full of them is there to waste time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = _MAX_MARKS

    def add(self, count: int, place: int) -> None:
        """:raises DamageError: too many"""
        self._left -= count
        if self._left < 0:
            raise DamageError(
                "full of the first bytes of GPU code, with none behind them",
                where=self._name,
                offset=place,
                found=f"more than {_MAX_MARKS} times",
                wanted="a file that was not made to keep its readers busy",
            )


def find_in_parallel(backing: Backing, name: str, start: int, end: int) -> Finder:
    """Search ``backing`` from ``start`` on with all cores, some blocks ahead of what is asked for.

    :param name: of the file, for messages
    """
    return _ParallelFinder(backing, name, start, end)


class _ParallelFinder:
    def __init__(self, backing: Backing, name: str, start: int, end: int) -> None:
        self._backing = backing
        self._end = end
        self._next = start
        self._ahead: deque[tuple[int, Future[tuple[list[int], int]]]] = deque()
        self._found: list[int] = []
        self._known = start
        self._marks = Marks(name)

    def __call__(self, offset: int) -> int | None:
        while True:
            index = bisect_left(self._found, offset)
            if index < len(self._found):
                return self._found[index]
            if self._known >= self._end:
                return None
            self._take_block(max(offset, self._known))

    def _take_block(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            self._ahead.popleft()
        if not self._ahead:
            self._next = max(self._next, offset)
        while len(self._ahead) < 2 * parallel.cores() and self._next < self._end:
            start, stop = self._next, min(self._next + _BLOCK, self._end)
            self._ahead.append((stop, self._search(start, stop)))
            self._next = stop
        if not self._ahead:
            self._known = self._end
            return
        self._known, future = self._ahead.popleft()
        self._found, false = future.result()
        self._marks.add(false, self._known)

    def _search(self, start: int, stop: int) -> Future[tuple[list[int], int]]:
        def work() -> tuple[list[int], int]:
            real: list[int] = []
            false = 0
            for place, data, limit in self._pieces(start, stop):
                found, wrong = signs(data, limit, self._end - place)
                real += (place + offset for offset in found)
                false += wrong
            return real, false

        if self._end - start <= _BLOCK and not self._ahead:
            done: Future[tuple[list[int], int]] = Future()
            done.set_result(work())
            return done
        return parallel.submit(work)

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, bytes, int]]:
        for place in range(start, stop, _PIECE):
            limit = min(_PIECE, stop - place)
            yield place, self._backing.read(place, min(limit + HEAD, self._end - place)), limit
