"""Sharded repodata: a file for the records of each package name, and an index of the files (CEP 16, 21).

``<subdir>/shards/<sha256>.msgpack.zst`` holds ``packages``, ``packages.conda`` and ``removed`` of one name,
as ``repodata.json`` does, with digests as bytes. ``<subdir>/repodata_shards.msgpack.zst`` maps each name to
the SHA-256 of its shard. The same records always give the same shard.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgpack
import zstandard

from channel_tools.channel.index.records import name_of
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.change import Record
from channel_tools.model.errors import ChannelError

SHARDS_INDEX = "repodata_shards.msgpack.zst"
SHARDS_FOLDER = "shards"
OURS = "./shards/"
LEVEL = 9
"""zstd level of all index files: level 19 takes 30 times as long for a fifth less."""
KEEP_S = 7 * 24 * 3600.0
"""How long a shard stays that no index names: the week that CEP 16 advises, for clients with an old index."""
_LIMIT = 1 << 30
_STEP = 1 << 10
"""zstd makes at most some 30 MB of so many bytes, so that the limit is never far exceeded."""
_DIGESTS = {"md5": 16, "sha256": 32, "attestations_sha256": 32, "legacy_bz2_md5": 16}
"""Fields that are bytes in a shard, and their sizes: two by CEP 16, the others as py-rattler writes them."""


@dataclass(frozen=True)
class ShardsIndex:
    """What ``repodata_shards.msgpack.zst`` says: the SHA-256 of each name's shard, and ``info``."""

    shards: Mapping[str, bytes] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        """Do its shards lie where this module puts them?"""
        return self.info.get("shards_base_url") == OURS


def by_name(
    records: Mapping[str, Record], removed: Collection[str]
) -> dict[str, tuple[list[str], list[str]]]:
    """File names of records and of removed packages, sorted, by package name."""
    groups: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for file_name, record in records.items():
        groups[shard_name(record)][0].append(file_name)
    for file_name in removed:
        groups[name_of(file_name).lower()][1].append(file_name)
    return {name: (sorted(here), sorted(gone)) for name, (here, gone) in groups.items()}


def shard_name(record: Record) -> str:
    """The name that clients ask for: of what is ``PyYAML`` in an old package, ``pyyaml``."""
    name: str = record["name"]
    return name.lower()


def encode_shard(records: Mapping[str, Record], removed: Collection[str], where: str) -> bytes:
    """The shard of one name.

    :raises ChannelError: a record holds what MessagePack cannot, or a digest that is none
    """
    shard: dict[str, Any] = {"packages": {}, "packages.conda": {}, "removed": sorted(removed)}
    try:
        for file_name in sorted(records):
            section = "packages.conda" if file_name.endswith(".conda") else "packages"
            shard[section][file_name] = _packed(records[file_name])
        return compressed(msgpack.packb(shard))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ChannelError(
            "has a record that cannot be written as a shard",
            where=where,
            found=str(error),
            fix="run `rocm-channel audit`, then `rocm-channel channel repair`",
        ) from error


def encode_index(subdir: str, shards: Mapping[str, bytes], info: Mapping[str, Any]) -> bytes:
    """The index; what ``info`` has beside our own keys stays."""
    created = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    ours = {"subdir": subdir, "shards_base_url": OURS, "created_at": created}
    return compressed(
        msgpack.packb(
            {
                "version": 1,
                "info": {"base_url": "", **info, **ours},
                "shards": {name: shards[name] for name in sorted(shards)},
            }
        )
    )


def shard_key(key: str, digest: bytes) -> str:
    """Where a shard lies, of the subdir ``key``."""
    return f"{key}/{SHARDS_FOLDER}/{digest.hex()}.msgpack.zst"


def digest_of(shard: bytes) -> bytes:
    return hashlib.sha256(shard).digest()


def read_shards_index(store: Store, key: str) -> ShardsIndex | None:
    """The index of the subdir ``key``; None when there is none.

    :raises ChannelError: it cannot be read
    """
    content = store.read(f"{key}/{SHARDS_INDEX}")
    if content is None:
        return None
    where = f"{store.address}/{key}/{SHARDS_INDEX}"
    data = _decoded(content, where)
    shards, info = data.get("shards"), data.get("info")
    if not isinstance(shards, dict) or not isinstance(info, dict):
        raise _damaged(where, "no `shards` and `info`")
    for name, digest in shards.items():
        if not isinstance(name, str) or not isinstance(digest, bytes) or len(digest) != 32:
            raise _damaged(where, f"no SHA-256 for {name!r}")
    return ShardsIndex(shards, info)


def read_shard(store: Store, key: str, digest: bytes) -> tuple[dict[str, Record], frozenset[str]]:
    """Records and removed file names of one shard, with digests in hexadecimal; for an audit.

    :raises ChannelError: it is not there, has another SHA-256, or cannot be read
    """
    at = shard_key(key, digest)
    where = f"{store.address}/{at}"
    content = store.read(at)
    if content is None:
        raise _damaged(where, "no such file")
    if digest_of(content) != digest:
        raise _damaged(where, f"content with sha256 {digest_of(content).hex()}")
    data = _decoded(content, where)
    records: dict[str, Record] = {}
    for section in ("packages", "packages.conda"):
        entries = data.get(section, {})
        if not isinstance(entries, dict) or not all(isinstance(record, dict) for record in entries.values()):
            raise _damaged(where, f"no records in `{section}`")
        for file_name, record in entries.items():
            records[file_name] = {
                name: value.hex() if isinstance(value, bytes) else value for name, value in record.items()
            }
    removed = data.get("removed") or []
    if not isinstance(removed, list) or not all(isinstance(file_name, str) for file_name in removed):
        raise _damaged(where, "no list of file names in `removed`")
    return records, frozenset(removed)


def obsolete_shards(store: Store, key: str, *, keep_s: float = KEEP_S) -> list[str]:
    """Keys of shards of the subdir ``key`` that no index names, sorted.

    :param keep_s: younger ones (seconds) are left out: clients may still hold an index that names them
    :raises ChannelError: the index cannot be read
    """
    index = read_shards_index(store, key)
    if index is None:
        return []
    named = {shard_key(key, digest) for digest in index.shards.values()}
    until = store.now() - keep_s
    return [
        stat.key
        for stat in store.list(f"{key}/{SHARDS_FOLDER}/")
        if stat.key not in named and stat.modified <= until
    ]


def compressed(content: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=LEVEL).compress(content)


def decompressed(content: bytes, where: str) -> bytes:
    """What a zstd file holds; a hostile one gives an error before it fills the memory.

    :raises ChannelError: it is no zstd, ends early, or holds more than 1 GiB
    """
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj(read_across_frames=False)
        pieces, total = [], 0
        for begin in range(0, len(content), _STEP):
            piece = reader.decompress(content[begin : begin + _STEP])
            total += len(piece)
            if total > _LIMIT:
                raise _damaged(where, "more than 1 GiB when decompressed")
            pieces.append(piece)
            if reader.eof:
                break
    except zstandard.ZstdError as error:
        raise _damaged(where, str(error)) from error
    if not reader.eof:
        raise _damaged(where, "an early end")
    return b"".join(pieces)


def _packed(record: Record) -> Record:
    packed: Record = _sorted(record)
    for name, size in _DIGESTS.items():
        if packed.get(name) is not None:
            packed[name] = bytes.fromhex(packed[name])
            if len(packed[name]) != size:
                raise ValueError(f"{name} of {len(packed[name])} bytes")
    return packed


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return value


def _decoded(content: bytes, where: str) -> dict[str, Any]:
    try:
        data = msgpack.unpackb(decompressed(content, where))
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise _damaged(where, f"{type(error).__name__}: {error}") from error
    if not isinstance(data, dict):
        raise _damaged(where, "no mapping")
    return data


def _damaged(where: str, found: str) -> ChannelError:
    return ChannelError(
        "is damaged, or no index file that this version knows",
        where=where,
        found=found,
        fix="run `rocm-channel channel repair`, which writes the index anew from the packages",
    )
