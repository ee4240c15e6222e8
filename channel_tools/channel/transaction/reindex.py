"""Repair, and indexes written anew from the packages where they are damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from channel_tools.channel.care.yanked import read_yanked
from channel_tools.channel.index.encoding import read_index
from channel_tools.channel.index.patches import read_patches
from channel_tools.channel.index.rebuild import rebuild
from channel_tools.channel.index.run_exports import read_run_exports
from channel_tools.channel.index.shards import read_shards_index
from channel_tools.channel.layout import (
    INDEX_FILES,
    JOURNAL_KEY,
    SETTINGS_KEY,
    SUBDIRS,
    is_package,
    is_subdir,
    subdir_key,
)
from channel_tools.channel.release import Release, read_releases
from channel_tools.channel.stores.lease import Lease, held
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction import steps
from channel_tools.channel.transaction.apply import prepared, run
from channel_tools.channel.transaction.change import Change
from channel_tools.channel.transaction.journal import AFTER, BEFORE
from channel_tools.channel.transaction.repair import repair_held
from channel_tools.channel.transaction.view import View
from channel_tools.model.errors import ChannelError, ConflictError

Say = Callable[[str], None]


def repair_all(
    store: Store,
    *,
    who: str,
    reindex: bool = False,
    say: Say = lambda line: None,
    ttl: float = 60,
    wait: float = 600,
) -> list[str]:
    """Complete or undo what a publisher left half done, and write anew the indexes that cannot be read.

    :param reindex: write every index anew; every byte of every package is read
    :returns: what was done, as lines
    :raises ChannelError: there is no channel, or its journal is damaged and ``reindex`` was not asked for
    :raises ConflictError: another publisher holds the channel
    :raises StorageError: the store cannot be read or written
    """
    signs = (SETTINGS_KEY, JOURNAL_KEY, *(f"{subdir}/{INDEX_FILES[0]}" for subdir in SUBDIRS))
    if all(store.stat(key) is None for key in signs):
        raise ChannelError("no channel is here", where=store.address, fix="check the address")
    with held(store, who, ttl=ttl, wait=wait, say=say) as lease:
        done = _half_done(store, lease, say, reindex)
        keys = _subdirs(store)
        damaged = [key for key in keys if reindex or not _readable(store, key)]
        if damaged:
            releases = tuple(read_releases(store))
            left_out: dict[str, str] = {}
            indexes = {
                key: rebuild(store, key, _yanked(store, key), _known(store, key, releases), left_out)
                for key in damaged
            }
            work = prepared(View(store), Change("reindex"), indexes)
            run(store, lease, who, work, None, say, ())
            for key, index in indexes.items():
                done.append(f"wrote the index of {key} anew from {len(index.records)} packages")
            done += [f"left out {key}: {why}" for key, why in sorted(left_out.items())]
        return done


def _half_done(store: Store, lease: Lease, say: Say, reindex: bool) -> list[str]:
    try:
        return repair_held(store, lease, say)
    except ConflictError:
        raise
    except ChannelError as error:
        if not reindex:
            raise
        lease.check()
        store.delete(JOURNAL_KEY)
        steps.clear(store, lease, (BEFORE, AFTER))
        return [f"gave up on what was half done: {error}"]


def _subdirs(store: Store) -> list[str]:
    """Every subdir that has an index or a package, and the main ones."""
    found = {subdir_key(None, subdir) for subdir in SUBDIRS}
    for stat in store.list(""):
        folder, _, name = stat.key.rpartition("/")
        if is_package(stat.key) or (name in INDEX_FILES and is_subdir(folder)):
            found.add(folder)
    return sorted(found)


def _readable(store: Store, key: str) -> bool:
    try:
        index = read_index(store, key)
        read_shards_index(store, key)
        read_run_exports(store, key)
    except ChannelError:
        return False
    return index.exists


def _yanked(store: Store, key: str) -> set[str]:
    """Yanked file names of a subdir, by ``yanked.json`` and by the patch instructions."""
    names = {at.rpartition("/")[2] for at in read_yanked(store).entries if at.rpartition("/")[0] == key}
    return names | set((read_patches(store, key) or {}).get("remove", ()))


def _known(store: Store, key: str, releases: Sequence[Release]) -> dict[str, str | None] | None:
    """What may be in an index: what it names, as far as it can be read, and what a release names.

    Anything else in the folder was never published: a part of a release that broke off, or somebody else's
    file. None for a channel without releases, as builds fill it: all that is there.
    """
    if not releases:
        return None
    known: dict[str, str | None] = dict.fromkeys(_yanked(store, key))
    with suppress(ChannelError):
        known |= dict.fromkeys(read_run_exports(store, key))
    with suppress(ChannelError):
        index = read_index(store, key)
        known |= {name: record.get("sha256") for name, record in index.records.items()}
        known |= dict.fromkeys(index.removed - known.keys())
    for release in releases:
        known |= {
            file.key.rpartition("/")[2]: file.sha256
            for file in release.files
            if file.key.rpartition("/")[0] == key
        }
    return known
