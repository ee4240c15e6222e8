"""Deleting what nobody can need any more.

Never touched: what a release manifest or a given lock file names, what is in an index (unless superseded
builds are asked for), and what was yanked a short while ago. What goes: packages in no index, builds that
were yanked long ago, shards and attestations that nothing names any more, and what broken-off uploads left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from channel_tools.channel.care.locks import named_in_locks
from channel_tools.channel.care.superseded import superseded
from channel_tools.channel.care.upkeep import State, read_state, require_channel
from channel_tools.channel.care.yanked import Yanked
from channel_tools.channel.index.encoding import encode
from channel_tools.channel.index.shards import obsolete_shards
from channel_tools.channel.layout import SUFFIXES, YANKED_KEY, is_package
from channel_tools.channel.stores.store import NO_CACHE, Stat, Store
from channel_tools.channel.transaction.apply import Applied, apply
from channel_tools.channel.transaction.change import Change, Replacement, SubdirChange

DAYS = 90
"""How long a yanked build stays at least."""

GRACE_S = 24 * 3600.0
"""Packages and attestations younger than this stay, indexed or not: somebody may be about to index them."""

_ORPHAN = "is in no index"
_SIDECAR = re.compile(r"(?P<package>.+(?:\.conda|\.tar\.bz2))\.sigs(?:\.(?P<sha256>[0-9a-f]{64}))?")


@dataclass(frozen=True)
class Gone:
    """One file that goes; ``size`` in bytes. ``kept`` says what protects it, of one that stays."""

    key: str
    size: int
    why: str
    kept: str | None = None


@dataclass(frozen=True)
class Pruned:
    """``kept`` has files that would have gone, if nothing protected them."""

    gone: tuple[Gone, ...]
    kept: tuple[Gone, ...]
    change: Change
    stray: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(gone.size for gone in self.gone)

    def to_json(self) -> dict[str, Any]:
        def entries(files: Sequence[Gone]) -> list[dict[str, Any]]:
            return [asdict(file) for file in files]

        return {
            "gone": entries(self.gone),
            "kept": entries(self.kept),
            "bytes": self.size,
            "unfinished": list(self.stray),
        }


def prune(
    store: Store,
    who: str,
    *,
    locks: Sequence[Path] = (),
    days: float = DAYS,
    old_too: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Pruned, Applied]:
    """Prune, as one transaction; a consumer never sees an index that names a deleted file.

    :raises ChannelError: see :func:`plan_prune`
    """
    require_channel(store)
    made: list[Pruned] = []

    def plan(view: Store) -> Change:
        made.append(plan_prune(view, locks=locks, days=days, old_too=old_too))
        return made[-1].change

    applied = apply(store, who=who, say=say, plan=plan)
    clear = getattr(store, "clear_stray", None)
    stray = tuple(clear()) if clear else ()
    last = made[-1]
    return Pruned(last.gone, last.kept, last.change, stray), applied


def plan_prune(
    store: Store, *, locks: Sequence[Path] = (), days: float = DAYS, old_too: bool = False
) -> Pruned:
    """What pruning would do.

    :param locks: lock files; what they name stays
    :param days: how long yanked builds stay
    :param old_too: also take builds that a newer one of the same variant is there for
    :raises ChannelError: the channel, or a lock file, cannot be read
    """
    state = read_state(store)
    files = {stat.key: stat for stat in store.list("") if not stat.key.startswith(".channel/")}
    protected = _protected(state, locks)
    gone: dict[str, Gone] = {}
    kept: list[Gone] = []
    now = store.now()
    for key, why in _candidates(now, state, files, days, old_too):
        size = files[key].size if key in files else 0
        by = protected.get(key) or protected.get(key.rpartition("/")[2])
        if why == _ORPHAN and now - files[key].modified < GRACE_S:
            by = by or "it is there since less than a day, and somebody may be about to index it"
        if by:
            kept.append(Gone(key, size, why, by))
        else:
            gone[key] = Gone(key, size, why)
    for key, why in _beside(store, state, files, gone):
        gone[key] = Gone(key, files[key].size, why)
    stray = getattr(store, "stray", None)
    deletions = tuple(sorted(key for key in gone if key in files))
    change = _change(store, state, set(gone), deletions)
    return Pruned(
        tuple(gone[key] for key in sorted(gone)), tuple(kept), change, tuple(stray()) if stray else ()
    )


def _protected(state: State, locks: Sequence[Path]) -> dict[str, str]:
    """What must stay, by key or by file name, with the reason."""
    found = {name: f"{', '.join(paths)} names it" for name, paths in named_in_locks(locks).items()}
    for release in state.releases:
        found.update({file.key: f"release {release.id} names it" for file in release.files})
    return found


def _candidates(
    now: float, state: State, files: dict[str, Stat], days: float, old_too: bool
) -> Iterator[tuple[str, str]]:
    indexed = {f"{key}/{file}" for key, index in state.indexes.items() for file in index.records}
    removed = {f"{key}/{file}" for key, index in state.indexes.items() for file in index.removed}
    for key in sorted(removed | (state.yanked.entries.keys() - indexed)):
        age = _age_days(state.yanked.entries.get(key, {}).get("when"), now)
        if age is not None and age >= days:
            yield key, f"was yanked {int(age)} days ago"
    known = indexed | removed | state.yanked.entries.keys()
    for key in files:
        if is_package(key) and key not in known:
            yield key, _ORPHAN
    if old_too:
        for build, newer in superseded(state):
            yield build.where, f"{newer.version} {newer.build} is there"


def _beside(
    store: Store, state: State, files: dict[str, Stat], gone: dict[str, Gone]
) -> Iterator[tuple[str, str]]:
    """Shards and attestations that nothing names, once ``gone`` is gone."""
    changes = _drops(state, set(gone))
    after = state.after(changes)
    for key, index in state.indexes.items():
        # What is dropped may bring back a shard of former times.
        named_again = encode(store, index, after[key]).shards if key in changes else {}
        obsolete = obsolete_shards(store, key)
        yield from ((shard, "no index names this shard") for shard in obsolete if shard not in named_again)
    now = store.now()
    named = {
        f"{key}/{file}": record.get("attestations_sha256")
        for key, index in state.indexes.items()
        for file, record in index.records.items()
    }
    named.update(
        {
            key: (entry.get("record") or {}).get("attestations_sha256")
            for key, entry in state.yanked.entries.items()
        }
    )
    kept = {(file.key, file.attestation) for release in state.releases for file in release.files}
    for key, stat in files.items():
        match = _SIDECAR.fullmatch(key)
        if match is None or not is_package(match["package"]):
            continue
        package, sha256 = match["package"], match["sha256"]
        if package in gone or package not in files:
            yield key, "its package is gone" if package not in files else "its package goes"
        elif (
            sha256 is not None
            and named.get(package) != sha256
            and (package, sha256) not in kept
            and now - stat.modified >= GRACE_S
        ):
            yield key, "no record names this attestation"


def _drops(state: State, gone: set[str]) -> dict[str, SubdirChange]:
    """Records, and mentions of yanked builds, that go with their files."""
    drops: dict[str, set[str]] = {}
    for key in gone:
        subdir, _, file = key.rpartition("/")
        index = state.indexes.get(subdir)
        if file.endswith(SUFFIXES) and index is not None and (file in index.records or file in index.removed):
            drops.setdefault(subdir, set()).add(file)
    return {subdir: SubdirChange(drop=frozenset(files)) for subdir, files in drops.items()}


def _change(store: Store, state: State, gone: set[str], deletions: Sequence[str]) -> Change:
    subdirs = _drops(state, gone)
    yanked = Yanked({key: entry for key, entry in state.yanked.entries.items() if key not in gone})
    replacements = {}
    if subdirs or yanked.entries != state.yanked.entries:
        replacements = state.page(store, subdirs, yanked)
        if yanked.entries != state.yanked.entries:
            replacements[YANKED_KEY] = Replacement(yanked.to_bytes(), NO_CACHE)
    return Change("prune", subdirs=subdirs, replacements=replacements, deletions=tuple(deletions))


def _age_days(when: object, now: float) -> float | None:
    """Days since a time in ISO 8601; None where it cannot be told."""
    try:
        return (now - datetime.fromisoformat(str(when)).timestamp()) / 86400
    except ValueError:
        return None
