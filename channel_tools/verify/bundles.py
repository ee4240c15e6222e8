"""Clang offload bundles, plain and compressed, one after another at any alignment.

Formats: https://clang.llvm.org/docs/ClangOffloadBundler.html, "Bundled Code Object File Layout" and
"Compressed Bundle"; the header of the compressed one grew twice:

=======  ============================================================  =====
version  after the 4 bytes ``CCOB``                                    bytes
=======  ============================================================  =====
1        u16 version, u16 method, u32 raw size, u64 hash                  20
2        u16 version, u16 method, u32 total, u32 raw size, u64 hash       24
3        u16 version, u16 method, u64 total, u64 raw size, u64 hash       32
=======  ============================================================  =====

Method is 0 (zlib) or 1 (zstd); the hash is the first 8 bytes of the MD5 of the raw bundle; total counts the
header too, and version 1 leaves the end to the decompressor.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from channel_tools.verify import parallel, unpack
from channel_tools.verify.findings import Fault, Findings
from channel_tools.verify.images import read_image
from channel_tools.verify.parts import Parts
from channel_tools.verify.source import DamageError, Source, printable
from channel_tools.verify.targets import bundle_id_target

MAGIC: Final = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED_MAGIC: Final = b"CCOB"

_MAX_COPY: Final = 16 << 20
_copies = parallel.Room(32 << 20)
_MAX_ENTRIES: Final = 1024
_MAX_ID: Final = 1024
_COUNT = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQQ")
_VERSION = struct.Struct("<4xHH")
_COMPRESSED_REST: Final = {1: struct.Struct("<I8s"), 2: struct.Struct("<II8s"), 3: struct.Struct("<QQ8s")}


@dataclass(frozen=True)
class _Entry:
    bundle_id: str
    offset: int
    size: int


def read_bundles(source: Source, findings: Findings) -> int:
    """Read every bundle from the start of ``source`` to its end; zeros may lie between them.

    Many compressed ones are unpacked on all cores.

    :return: how many bundles were met, the damaged ones included
    """
    parts = Parts(findings)
    count = 0
    position = source.skip_zeros(0)
    while position < source.size:
        count += 1
        try:
            if _magic_at(source, position) == MAGIC:
                end = _read_plain(source, position, parts.here())
            else:
                end = _read_among_others(source, position, parts)
            position = source.skip_zeros(end)
        except DamageError as damage:
            parts.here().add_damage(damage)
            break
    parts.finish()
    return count


def _read_among_others(source: Source, offset: int, parts: Parts) -> int:
    packed = _packed_bundle(source, offset)
    if packed.end is None:
        return packed.read(parts.here())
    if source.shared:
        parts.later(packed.read_all)
    else:
        outcome = packed.begin()
        parts.then(lambda findings: packed.take_all(outcome.result(), findings))
    return packed.end


def read_bundle(source: Source, offset: int, findings: Findings, *, begin: bool = False) -> int:
    """Read one bundle; return the offset after it.

    :param begin: do no more than to begin with it, in another thread: it will be read again, out of the same
        bytes, which pass only once
    :raises DamageError: no bundle starts here, or its end cannot be told
    """
    if _magic_at(source, offset) == MAGIC:
        return _read_plain(source, offset, findings)
    packed = _packed_bundle(source, offset)
    if packed.end is None:
        return packed.read(findings)
    if begin:
        packed.begin()
    else:
        packed.read_all(findings)
    return packed.end


def _magic_at(source: Source, offset: int) -> bytes:
    head = source.peek(offset, len(MAGIC))
    if head == MAGIC:
        return MAGIC
    if head.startswith(COMPRESSED_MAGIC):
        return COMPRESSED_MAGIC
    raise source.damage(
        "no offload bundle where one should start",
        offset,
        found=head[:8].hex(" "),
        wanted=f"{MAGIC.decode()}, {COMPRESSED_MAGIC.decode()}, or zeros to the end",
    )


def _read_plain(source: Source, offset: int, findings: Findings) -> int:
    entries, end = _entry_table(source, offset)
    table_end = end
    last = offset
    for entry in sorted(entries, key=lambda entry: entry.offset):
        start = offset + entry.offset
        with findings.keep_damage():
            target = _target_of(source, offset, entry)
            if target is None and not entry.size:
                continue
            if entry.size and (start < table_end or start < last):
                raise source.damage(
                    f"bundle entry {entry.bundle_id} lies over another part of its bundle",
                    start,
                    found=f"offset {entry.offset:#x}",
                    wanted=f"at least {max(table_end, last) - offset:#x}",
                )
            window = source.window(start, entry.size, f"bundle entry {entry.bundle_id}")
            last = start + entry.size
            if target is not None:
                read_image(window, target, findings)
        end = max(end, min(start + entry.size, source.size))
    _check_ids(source, offset, entries, findings)
    return end


def _entry_table(source: Source, offset: int) -> tuple[list[_Entry], int]:
    position = offset + len(MAGIC)
    (count,) = source.unpack(_COUNT, position, "number of bundle entries")
    position += _COUNT.size
    if not 0 < count <= _MAX_ENTRIES:
        raise source.damage(
            "number of bundle entries", position - 8, found=str(count), wanted=f"1 to {_MAX_ENTRIES}"
        )
    entries = []
    for index in range(count):
        start, size, length = source.unpack(_ENTRY, position, f"bundle entry {index}")
        if not 0 < length <= _MAX_ID:
            raise source.damage(
                f"length of the id of bundle entry {index}",
                position + 16,
                found=str(length),
                wanted=f"1 to {_MAX_ID}",
            )
        position += _ENTRY.size
        raw = source.read(position, length, f"id of bundle entry {index}")
        entries.append(_Entry(printable(raw), start, size))
        position += length
    return entries, position


def _target_of(source: Source, offset: int, entry: _Entry) -> str | None:
    try:
        return bundle_id_target(entry.bundle_id)
    except ValueError as error:
        raise source.damage(
            "bundle entry id",
            offset,
            found=str(error),
            wanted="an id such as hipv4-amdgcn-amd-amdhsa--gfx942",
        ) from error


def _check_ids(source: Source, offset: int, entries: list[_Entry], findings: Findings) -> None:
    ids = [entry.bundle_id for entry in entries]
    for twice in sorted({bundle_id for bundle_id in ids if ids.count(bundle_id) > 1}):
        findings.faults.append(
            Fault(
                "a bundle holds two entries of one id",
                source.place(offset),
                found=twice,
                wanted="each id once",
                damage=True,
            )
        )


def _packed_bundle(source: Source, offset: int) -> _Packed:
    version, method = source.unpack(_VERSION, offset, "header of a compressed bundle")
    rest = _COMPRESSED_REST.get(version)
    if rest is None or method not in (0, 1):
        raise source.damage(
            "a compressed bundle of an unknown kind",
            offset + 4,
            found=f"version {version}, method {method}",
            wanted="version 1 to 3, method 0 (zlib) or 1 (zstd)",
        )
    fields = rest.unpack(source.read(offset + _VERSION.size, rest.size, "header of a compressed bundle"))
    raw_size, wanted_hash = fields[-2:]
    header = _VERSION.size + rest.size
    total = fields[0] if version > 1 else source.size - offset
    if total < header:
        raise source.damage(
            "total size of a compressed bundle", offset + 8, found=str(total), wanted=f"at least {header}"
        )
    source.window(offset, total, "compressed bundle")
    payload = source.window(offset + header, total - header, "compressed bundle")
    end = None if version == 1 else offset + total
    return _Packed(source, offset, payload, end, method, raw_size, wanted_hash)


@dataclass(frozen=True)
class _Outcome:
    """What a compressed bundle holds, bytes of the payload that it took, and its hash; or why it has none."""

    findings: Findings
    used: int = 0
    hash: bytes = b""
    damage: DamageError | None = None


@dataclass(frozen=True)
class _Packed:
    """A compressed bundle from ``offset`` to ``end``. Only the data tells where one of version 1 ends."""

    source: Source
    offset: int
    payload: Source
    end: int | None
    method: int
    raw_size: int
    wanted_hash: bytes

    def read(self, findings: Findings) -> int:
        """Read what it holds; return the offset after it.

        :raises DamageError: it cannot be unpacked, and nothing that it seemed to hold counts
        """
        return self._take(self._remember(self._here).result(), findings)

    def read_all(self, findings: Findings) -> None:
        """As :meth:`read`, and note the damage."""
        with findings.keep_damage():
            self.read(findings)

    def begin(self) -> Future[_Outcome]:
        """Read it in a thread, if it has no more bytes than may be copied for that."""
        return self._remember(self._in_thread)

    def take_all(self, outcome: _Outcome, findings: Findings) -> None:
        """Note what was read, or the damage."""
        with findings.keep_damage():
            self._take(outcome, findings)

    def _remember(self, make: Callable[[], Future[_Outcome]]) -> Future[_Outcome]:
        return self.payload.remember((self.method, self.raw_size), make)

    def _here(self) -> Future[_Outcome]:
        done: Future[_Outcome] = Future()
        done.set_result(self._unpack(self.payload))
        return done

    def _in_thread(self) -> Future[_Outcome]:
        # Who may be needed to free the room for copies must not wait for it.
        if self.payload.shared or self.payload.size > _MAX_COPY or parallel.in_crew():
            return self._here()
        _copies.acquire(self.payload.size)
        try:
            copy = self.payload.pinned(_MAX_COPY)
        except BaseException:
            _copies.release(self.payload.size)
            raise
        return parallel.submit(lambda: self._unpack_copy(copy))

    def _unpack_copy(self, copy: Source) -> _Outcome:
        try:
            return self._unpack(copy)
        finally:
            _copies.release(copy.size)

    def _unpack(self, payload: Source) -> _Outcome:
        unpack_it = unpack.zstd if self.method else unpack.zlib_stream
        name = f"{payload.name} (unpacked from {self.source.place(self.offset):#x})"
        inner = Findings(payload.name)
        try:
            raw = unpack_it(payload, self.raw_size, "compressed bundle", name)
            with inner.keep_damage():
                _read_unpacked(raw.source, inner)
            return _Outcome(inner, raw.finish(), raw.digest[:8])
        except DamageError as damage:
            return _Outcome(inner, damage=damage)

    def _take(self, outcome: _Outcome, findings: Findings) -> int:
        payload, used = self.payload, outcome.used
        if outcome.damage:
            raise outcome.damage
        if used > payload.size or (used < payload.size and self.end is not None):
            raise payload.damage(
                "a compressed bundle is longer than its data",
                min(used, payload.size),
                found=f"{abs(payload.size - used)} bytes {'more' if used < payload.size else 'too few'}",
                wanted=f"a total size of {payload.place(used) - self.source.place(self.offset)}",
            )
        if outcome.hash != self.wanted_hash:
            findings.add_damage(
                self.source.damage(
                    "a compressed bundle does not match its hash",
                    self.offset,
                    found=outcome.hash[::-1].hex(),
                    wanted=self.wanted_hash[::-1].hex(),
                )
            )
        findings.extend(outcome.findings)
        return payload.place(used) - self.source.place(0)


def _read_unpacked(inner: Source, findings: Findings) -> None:
    if inner.peek(0, len(MAGIC)) != MAGIC:
        raise inner.damage(
            "a compressed bundle holds no bundle", 0, found=inner.peek(0, 8).hex(" "), wanted=MAGIC.decode()
        )
    end = inner.skip_zeros(_read_plain(inner, 0, findings))
    if end != inner.size:
        raise inner.damage(
            "more data after the bundle", end, found=f"{inner.size - end} bytes", wanted="zeros or the end"
        )
