"""What a change comes to: every file that is to be stored or switched, with all new content worked out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from channel_tools.channel.index.encoding import SubdirIndex, changed, encode, read_index
from channel_tools.channel.layout import SUBDIRS, label_of, label_prefix
from channel_tools.channel.stores.store import SHORT
from channel_tools.channel.transaction.change import Change, SubdirChange
from channel_tools.channel.transaction.view import View


@dataclass(frozen=True)
class Work:
    """A change with all new content worked out.

    ``new`` are the additions that are not there yet; ``files`` are in the order in which they are switched,
    each with its old content and etag (None: not there) and its ``Cache-Control``.
    """

    change: Change
    new: frozenset[str] = frozenset()
    shards: Mapping[str, bytes] = field(default_factory=dict)
    files: Mapping[str, tuple[bytes, tuple[bytes, str] | None, str]] = field(default_factory=dict)
    subdirs: tuple[str, ...] = ()


def prepared(view: View, change: Change, rewritten: Mapping[str, SubdirIndex] | None = None) -> Work:
    """Work out what is to be stored.

    :param rewritten: indexes that are written anew, with nothing taken from their old files
    :raises ChannelError: an index cannot be read, or cannot be changed in this way
    """
    wanted = {key: (SubdirIndex(key), index) for key, index in (rewritten or {}).items()}
    for key, subdir_change in _with_siblings(change.subdirs).items():
        if key not in wanted:
            old = read_index(view, key)
            wanted[key] = (old, changed(old, subdir_change))
    shards: dict[str, bytes] = {}
    files: dict[str, tuple[bytes, str]] = {}
    touched: list[str] = []
    for key in _order(wanted, change):
        old, new = wanted[key]
        if old.exists and old.records == new.records and old.removed == new.removed:
            continue
        encoded = encode(view, old, new)
        shards.update(encoded.shards)
        files.update({name: (content, SHORT) for name, content in encoded.files.items()})
        touched.append(key)
    others = {name: (new.content, new.cache) for name, new in change.replacements.items()}
    files = {**{name: new for name, new in others.items() if name.endswith(".sigs")}, **files, **others}
    switches = {name: (content, view.read_with_etag(name), cache) for name, (content, cache) in files.items()}
    return Work(
        change,
        frozenset(a.key for a in change.additions if view.stat(a.key) is None),
        {key: content for key, content in shards.items() if view.stat(key) is None},
        {name: entry for name, entry in switches.items() if entry[1] is None or entry[1][0] != entry[0]},
        tuple(touched),
    )


def _with_siblings(subdirs: Mapping[str, SubdirChange]) -> dict[str, SubdirChange]:
    """Clients want an index of every subdir of a channel or label, so an empty one comes with the first."""
    prefixes = {label_prefix(label_of(f"{key}/")) for key in subdirs}
    if prefixes:
        prefixes.add("")
    found = {f"{prefix}{subdir}": SubdirChange() for prefix in prefixes for subdir in SUBDIRS}
    return {**found, **subdirs}


def _order(keys: Mapping[str, object], change: Change) -> list[str]:
    def rank(key: str) -> tuple[bool, str, bool]:
        return label_of(f"{key}/") is None, key.rpartition("/")[0], not key.endswith("noarch")

    brings = any(c.add or c.unyank for c in change.subdirs.values()) or not change.subdirs
    return sorted(keys, key=rank, reverse=not brings)
