"""What one transaction does to a channel, as data: made by publish, promote, yank and prune."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from channel_tools.channel.stores.store import IMMUTABLE, Store

Record = dict[str, Any]
"""A package's entry in ``repodata.json``."""


@dataclass(frozen=True)
class Addition:
    """A file that never changes: a package, or an attestation by hash.

    ``source`` is a file here, or a store and the key there; ``size`` in bytes.
    """

    key: str
    source: Path | tuple[Store, str]
    sha256: str
    size: int
    cache: str = IMMUTABLE


@dataclass(frozen=True)
class SubdirChange:
    """What happens to the records of one subdir, by file name.

    ``add`` puts records in (a record that is there is replaced: a new ``attestations_sha256``); ``yank``
    takes them out and lists them as removed; ``unyank`` puts them back; ``drop`` forgets them altogether.
    """

    add: Mapping[str, Record] = field(default_factory=dict)
    yank: frozenset[str] = frozenset()
    unyank: Mapping[str, Record] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Replacement:
    """A file that changes with the indexes: the page, ``yanked.json``, a ``.sigs`` alias."""

    content: bytes
    cache: str


@dataclass(frozen=True)
class Change:
    """One transaction.

    :param action: ``publish``, ``promote``, ``yank``, ``unyank``, ``prune``, ``add``, ``init``
    :param additions: stored before any index changes
    :param subdirs: by subdir key, as ``label/gfx942/linux-64``
    :param replacements: by key; written after the indexes
    :param manifest: key and content of a release manifest, the last thing written
    :param deletions: keys that no index names any more, deleted at the very end
    """

    action: str
    additions: tuple[Addition, ...] = ()
    subdirs: Mapping[str, SubdirChange] = field(default_factory=dict)
    replacements: Mapping[str, Replacement] = field(default_factory=dict)
    manifest: tuple[str, bytes] | None = None
    deletions: tuple[str, ...] = ()
