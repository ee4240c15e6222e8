"""A channel's index files: reading them, changing what they say, and writing them anew.

All new content is made in memory, from the old index files and the change alone: no package is read, and only
the shards of package names that the change touches are written again. What other tools put into an index
(fields of records, top-level keys) stays.

A yanked package's record is gone from ``repodata.json``, which lists the file name under ``removed``, as does
``patch_instructions.json`` under ``remove``, so that other indexers leave it out, too. ``run_exports.json``
(CEP 12) says what the package files say, also of yanked ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from channel_tools.channel.index.older_forms import older_forms
from channel_tools.channel.index.patches import encode_patches, read_patches
from channel_tools.channel.index.records import name_of
from channel_tools.channel.index.repodata import (
    JSON_FILE,
    ZST_FILE,
    SubdirIndex,
    read_all,
    read_index,
    repodata,
)
from channel_tools.channel.index.run_exports import FILE as RUN_EXPORTS
from channel_tools.channel.index.run_exports import encode_run_exports, read_run_exports
from channel_tools.channel.index.shards import (
    SHARDS_INDEX,
    ShardsIndex,
    by_name,
    compressed,
    digest_of,
    encode_index,
    encode_shard,
    obsolete_shards,
    read_shards_index,
    shard_key,
    shard_name,
)
from channel_tools.channel.index.texts import dump
from channel_tools.channel.layout import PATCH_FILE
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.change import SubdirChange
from channel_tools.model.errors import ChannelError

__all__ = ["Encoded", "SubdirIndex", "changed", "encode", "obsolete_shards", "read_all", "read_index"]


@dataclass(frozen=True)
class Encoded:
    """New content of index files by key.

    ``shards`` never change and are stored first; ``files`` are then switched in their order.
    """

    shards: dict[str, bytes]
    files: dict[str, bytes]


def changed(index: SubdirIndex, change: SubdirChange) -> SubdirIndex:
    """The index after a change; first ``drop``, then ``unyank``, ``add`` and ``yank``.

    :raises ChannelError: it adds a yanked package, or yanks one that the index does not know
    """
    records, removed = dict(index.records), set(index.removed)
    for file_name in change.drop:
        records.pop(file_name, None)
        removed.discard(file_name)
    for file_name, record in change.unyank.items():
        removed.discard(file_name)
        records[file_name] = record
    for file_name, record in change.add.items():
        if file_name in removed:
            raise ChannelError(
                "was yanked, and cannot be added again as if it were new",
                where=f"{index.key}/{file_name}",
                fix="bring it back with `rocm-channel unyank`, or raise the build number",
            )
        records[file_name] = record
    for file_name in change.yank:
        if records.pop(file_name, None) is None and file_name not in removed:
            raise ChannelError(
                "is not in the index, so it cannot be yanked", where=f"{index.key}/{file_name}"
            )
        removed.add(file_name)
    return SubdirIndex(index.key, records, frozenset(removed), True, index.other, index.yanked_records)


def encode(store: Store, old: SubdirIndex, new: SubdirIndex) -> Encoded:
    """New content of every index file of a subdir.

    Where ``old`` does not exist, nothing is taken from the files that are there but patch instructions.

    :raises ChannelError: an old index file cannot be read, or a record cannot be written
    """
    key = new.key
    address = f"{store.address}/{key}"
    before = (read_shards_index(store, key) if old.exists else None) or ShardsIndex()
    exports = read_run_exports(store, key) if old.exists else {}
    made = {file: record for file, record in new.yanked_records.items() if file in new.removed}
    made |= {file: record for file, record in new.records.items() if old.records.get(file) is not record}
    shards, written = _shards(before, old, new, f"{address}/{JSON_FILE}")
    text = dump(repodata(new), f"{address}/{JSON_FILE}")
    zst = compressed(text)
    files = {
        f"{key}/{SHARDS_INDEX}": encode_index(new.subdir, shards, before.info),
        f"{key}/{ZST_FILE}": zst,
        f"{key}/{JSON_FILE}": text,
        **older_forms(store, key, text, zst),
        f"{key}/{RUN_EXPORTS}": encode_run_exports(
            exports,
            {**made, **new.records},
            new.removed,
            frozenset(made),
            new.subdir,
            f"{address}/{RUN_EXPORTS}",
        ),
    }
    gone = new.records.keys() | ((old.records.keys() | old.removed) - new.removed)
    patches = encode_patches(read_patches(store, key), new.removed, gone, f"{address}/{PATCH_FILE}")
    if patches is not None:
        files[f"{key}/{PATCH_FILE}"] = patches
    return Encoded(written, files)


def _shards(
    before: ShardsIndex, old: SubdirIndex, new: SubdirIndex, where: str
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """SHA-256 of every name's shard, and the shards that have to be written, by key."""
    touched = _touched(old, new)
    shards: dict[str, bytes] = {}
    written: dict[str, bytes] = {}
    for name, (file_names, removed) in by_name(new.records, new.removed).items():
        digest = before.shards.get(name) if before.ours and name not in touched else None
        if digest is None:
            shard = encode_shard({file: new.records[file] for file in file_names}, removed, where)
            digest = digest_of(shard)
            written[shard_key(new.key, digest)] = shard
        shards[name] = digest
    return shards, written


def _touched(old: SubdirIndex, new: SubdirIndex) -> set[str]:
    """Names of packages whose records, or removed files, differ."""
    names = {name_of(file).lower() for file in old.removed ^ new.removed}
    names |= {shard_name(old.records[file]) for file in old.records.keys() - new.records.keys()}
    for file, record in new.records.items():
        before = old.records.get(file)
        if before is not record and before != record:
            names.add(shard_name(record))
            if before is not None:
                names.add(shard_name(before))
    return names
