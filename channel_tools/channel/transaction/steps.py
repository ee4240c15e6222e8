"""The steps of a transaction that both its own process and a later repair can take.

Each looks at what is there before it writes, so that it can be broken off at any point and taken again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from channel_tools.channel.index.encoding import read_index
from channel_tools.channel.index.shards import read_shards_index, shard_key
from channel_tools.channel.layout import JOURNAL_KEY, is_package
from channel_tools.channel.stores.content import changed_meanwhile
from channel_tools.channel.stores.lease import Lease
from channel_tools.channel.stores.store import IMMUTABLE, Store
from channel_tools.channel.transaction.journal import AFTER, BEFORE, Journal, Switch, digest
from channel_tools.model.errors import ChannelError


def completable(store: Store, journal: Journal) -> Mapping[str, bytes] | None:
    """New content by key, manifest included; None where the transaction can only be undone.

    That is: a part of it is missing, or something else changed one of its files meanwhile.
    """
    found: dict[str, bytes] = {}
    for switch in journal.switches:
        content = store.read(journal.after_key(switch.key))
        if content is None or digest(content) != switch.after:
            return None
        if _state(store, switch.key)[0] not in (switch.before, switch.after):
            return None
        found[switch.key] = content
    if journal.manifest is not None:
        content = store.read(journal.after_key(journal.manifest))
        if content is None:
            return None
        found[journal.manifest] = content
    if any(store.stat(key) is None for key in (*journal.additions, *journal.shards)):
        return None
    return found


def switch_all(
    store: Store,
    lease: Lease,
    journal: Journal,
    content: Mapping[str, bytes],
    etags: Mapping[str, str | None] | None = None,
    written: dict[str, str] | None = None,
) -> int:
    """Replace every file of the journal that has its old content by the new one, in order.

    :param etags: those of the old files, where they are known
    :param written: is given the etag of each file that was replaced
    :returns: how many were replaced
    :raises ConflictError: a file has neither content, or the lease is lost
    """
    replaced = 0
    for switch in journal.switches:
        lease.check()
        expect = etags[switch.key] if etags is not None else None
        if etags is None:
            state, expect = _state(store, switch.key)
            if state == switch.after:
                continue
            if state != switch.before:
                raise changed_meanwhile(f"{store.address}/{switch.key}")
        etag = store.replace(switch.key, content[switch.key], expect=expect, cache=switch.cache)
        if written is not None:
            written[switch.key] = etag
        replaced += 1
    return replaced


def read_again(store: Store, journal: Journal) -> None:
    """Make sure that the store gives what was written to it.

    :raises ChannelError: it gives something else
    """
    for switch in journal.switches:
        content = store.read(switch.key)
        if content is None or digest(content) != switch.after:
            raise ChannelError(
                "is not what was just written there",
                where=f"{store.address}/{switch.key}",
                found="no such file" if content is None else f"sha256 {digest(content)}",
                wanted=f"sha256 {switch.after}",
                fix="let nothing else write to the channel, then run the command again",
            )


def commit(store: Store, lease: Lease, journal: Journal, content: Mapping[str, bytes]) -> None:
    """Write the release manifest: from here on the transaction counts as done."""
    lease.check()
    if journal.manifest is not None:
        manifest = content[journal.manifest]
        store.put_new(journal.manifest, manifest, sha256=digest(manifest), cache=IMMUTABLE)


def finish(store: Store, lease: Lease, journal: Journal, etag: str | None) -> None:
    """Delete what no index names any more, then the journal, then what was kept to undo it all."""
    for key in journal.deletions:
        lease.check()
        store.delete(key)
    lease.check()
    store.delete(JOURNAL_KEY, expect=etag)
    _clear_own(store, lease, journal)


def undo(
    store: Store, lease: Lease, journal: Journal, etag: str | None, written: Mapping[str, str] | None = None
) -> list[str]:
    """Bring back the state before the transaction; in reverse order, and nothing that is not its own.

    :param written: etags of what was replaced, by which a file is known whose content came out wrong
    :returns: files that something else changed meanwhile, and that stay as they are
    :raises ConflictError: the lease is lost
    :raises ChannelError: what was kept of an old file is gone
    """
    clear(store, lease, (f"{AFTER}{journal.id}/",))
    foreign = []
    if journal.phase == "switching":  # before that, whoever made what is there, it was not this transaction
        if journal.manifest is not None:
            state, there = _state(store, journal.manifest)
            if state is not None and state == journal.manifest_sha256:
                store.delete(journal.manifest, expect=there)
        ours = written or {}
        foreign = [
            switch.key
            for switch in reversed(journal.switches)
            if not _restored(store, lease, journal, switch, ours.get(switch.key))
        ]
    _delete_unnamed(store, lease, journal)
    lease.check()
    store.delete(JOURNAL_KEY, expect=etag)
    _clear_own(store, lease, journal)
    return foreign


def clear(store: Store, lease: Lease, prefixes: Iterable[str]) -> int:
    """Delete control files; returns how many there were."""
    count = 0
    for prefix in prefixes:
        for stat in list(store.list(prefix)):
            lease.check()
            store.delete(stat.key)
            count += 1
    return count


def _clear_own(store: Store, lease: Lease, journal: Journal) -> None:
    clear(store, lease, (f"{BEFORE}{journal.id}/", f"{AFTER}{journal.id}/"))


def _state(store: Store, key: str) -> tuple[str | None, str | None]:
    """Sha256 and etag of what lies there."""
    found = store.read_with_etag(key)
    return (digest(found[0]), found[1]) if found else (None, None)


def _restored(store: Store, lease: Lease, journal: Journal, switch: Switch, ours: str | None) -> bool:
    """Put the old content back; False when something is there that is neither old nor ours."""
    lease.check()
    state, etag = _state(store, switch.key)
    if state == switch.before:
        return True
    if state != switch.after and (etag is None or etag != ours):
        return False
    if switch.before is None:
        store.delete(switch.key, expect=etag)
        return True
    content = store.read(journal.before_key(switch.key))
    if content is None or digest(content) != switch.before:
        raise ChannelError(
            "cannot be put back: what was kept of it is gone",
            where=f"{store.address}/{journal.before_key(switch.key)}",
            fix="run `rocm-channel channel repair --reindex`: it reads all packages again",
        )
    store.replace(switch.key, content, expect=etag, cache=switch.cache)
    return True


def _delete_unnamed(store: Store, lease: Lease, journal: Journal) -> None:
    """Delete what the transaction added, but for what an index names."""
    named: set[str] = set()
    for subdir in {key.rpartition("/")[0] for key in journal.additions if is_package(key)}:
        index = read_index(store, subdir)
        named |= {f"{subdir}/{name}" for name in (*index.records, *index.removed)}
    for subdir in {key.rpartition("/shards/")[0] for key in journal.shards}:
        shards = read_shards_index(store, subdir)
        named |= {shard_key(subdir, found) for found in (shards.shards.values() if shards else ())}
    for key in (*journal.additions, *journal.shards):
        if key not in named:
            lease.check()
            store.delete(key)
