"""Every package file, read whole, against its record in the index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from channel_tools.channel.care.audits.findings import Finding
from channel_tools.channel.care.yanked import Yanked
from channel_tools.channel.index.encoding import SubdirIndex
from channel_tools.channel.index.rebuild import read_packages
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.change import Record
from channel_tools.model.errors import DamagedFileError

Progress = Callable[[str, int], None]
"""Key and size in bytes of a file that was read."""

# What the channel puts in at its own time, or is checked with the attestations.
_NOT_OF_THE_FILE = frozenset({"indexed_timestamp", "attestations_sha256"})
_REINDEX = "`rocm-channel channel repair --reindex` makes records from the files"
_FOREIGN = "a published file never changes: restore it from a backup, or yank the build and publish another"


@dataclass
class Read:
    """``records`` by key, as the files themselves give them; ``size`` in bytes of all that was read."""

    records: dict[str, Record] = field(default_factory=dict)
    size: int = 0


def check_packages(
    store: Store,
    index: SubdirIndex,
    yanked: Yanked,
    read: Read,
    progress: Progress,
    pending: frozenset[str] = frozenset(),
) -> Iterator[Finding]:
    """Files against records, in both directions, with each byte hashed.

    :param index: where it does not exist, that is a finding already, and no file of it is one
    :param pending: keys that an unfinished transaction brings or deletes, so that no index need list them
    """
    seen: set[str] = set()
    for stat, record in read_packages(store, index.key):
        file = stat.key.rpartition("/")[2]
        seen.add(file)
        read.size += stat.size
        progress(stat.key, stat.size)
        if isinstance(record, DamagedFileError):
            yield Finding(stat.key, "package", record.what, record.found, record.wanted, _FOREIGN)
            continue
        read.records[stat.key] = record
        known = index.records.get(file)
        if known is None and file in index.removed:
            known = yanked.entries.get(stat.key, {}).get("record")
            if known is None:
                continue
        if known is None and (stat.key in pending or not index.exists):
            continue
        if known is None:
            yield Finding(
                stat.key,
                "package",
                "is a package that no index lists",
                fix="publish it again to keep it; `rocm-channel prune` deletes it once it is a day old",
            )
            continue
        yield from compared(stat.key, known, record)
    for file in sorted((index.records.keys() | index.removed) - seen):
        yield Finding(
            f"{index.key}/{file}",
            "package",
            "is yanked, and its file is gone: locks that name it fail"
            if file in index.removed
            else "is in the index, and its file is gone",
            fix="restore it from a backup",
        )


def compared(key: str, known: Record, record: Record) -> Iterator[Finding]:
    """What the index says of a file against what the file itself says."""
    if known.get("sha256") != record["sha256"]:
        yield Finding(
            key,
            "package",
            "is not the file that the index has a hash of",
            f"sha256 {record['sha256']}, {record['size']} bytes",
            f"sha256 {known.get('sha256')}, {known.get('size')} bytes",
            _FOREIGN,
        )
        return
    differ = sorted(
        name
        for name in (known.keys() | record.keys()) - _NOT_OF_THE_FILE
        if known.get(name) != record.get(name) and (known.get(name) or record.get(name))
    )
    if differ:
        yield Finding(
            key,
            "record",
            "has a record that differs from the file's own metadata",
            "; ".join(f"{name}: {known.get(name)!r}" for name in differ)[:500],
            "; ".join(f"{name}: {record.get(name)!r}" for name in differ)[:500],
            _REINDEX,
        )
