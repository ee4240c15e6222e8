"""Changing a channel as one transaction: its consumers see the old state or the new one.

1. Under the lease, whatever an earlier publisher left half done is repaired.
2. The journal says what is going to be added; then packages, attestations and shards are stored. No index
   names them yet.
3. Old and new index files are kept in the channel, the new state is read as a consumer reads it, and the
   journal says that switching begins.
4. Each index file is replaced, if it is still what it was: labels first, then ``noarch``, then ``linux-64``,
   so that what a new record needs is there before it; where records only go away, the other way round.
   Attestations come before the indexes (CEP 50), the page after them.
5. What was written is read again, the release manifest is stored, and the journal goes away.

Each index file changes in one instant, all of them together do not: a client that reads during step 4 may
have the new label and the old main channel. Both are whole, so that what it gets fits together.

A failure or an interrupt in 2 to 5 undoes it all; a crash is repaired by the next publisher, which undoes
what it finds in 2 or 3 and completes what it finds in 4 or 5. A publisher that lost its lease stops at its
next write and undoes nothing. Between a look at the lease and the write after it lies one request; in that
gap the etag of the file holds a late publisher off, unless the very bytes that it read have come back.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from channel_tools.channel.layout import JOURNAL_KEY
from channel_tools.channel.release import Release
from channel_tools.channel.stores.lease import Lease, held
from channel_tools.channel.stores.store import IMMUTABLE, NO_CACHE, Store
from channel_tools.channel.transaction import steps
from channel_tools.channel.transaction.change import Addition, Change
from channel_tools.channel.transaction.journal import Journal, Switch, digest, read_journal
from channel_tools.channel.transaction.repair import repair_held
from channel_tools.channel.transaction.view import View
from channel_tools.channel.transaction.work import Work, prepared
from channel_tools.model.errors import ChannelToolsError

__all__ = ["Applied", "Check", "Say", "Work", "apply", "prepared", "run"]

Check = Callable[[Store], list[dict[str, Any]]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Applied:
    """What a transaction did: the subdirs whose index changed, what the check gave, what was repaired first.

    ``changed`` is False when the channel was in the wanted state already, and nothing was written.
    """

    change: Change
    changed: bool
    subdirs: tuple[str, ...] = ()
    solves: tuple[dict[str, Any], ...] = ()
    repaired: tuple[str, ...] = ()


def apply(
    store: Store,
    change: Change | None = None,
    *,
    who: str,
    check: Check | None = None,
    say: Say = lambda line: None,
    plan: Callable[[Store], Change] | None = None,
    ttl: float = 60,
    wait: float = 600,
) -> Applied:
    """Do all of a change, or nothing.

    :param check: is given the new state before any client can see it; what it returns becomes ``solves`` of
        the release manifest; what it raises ends the transaction
    :param plan: makes the change from the channel's present state, under the lease
    :param ttl: seconds after which others may take over from a publisher that died
    :param wait: seconds to wait for another publisher
    :raises ConflictError: somebody else holds the channel, or changed it meanwhile
    :raises ChannelError: other content is there under one of the names, or an index cannot be read
    :raises StorageError: the store cannot be read or written
    """
    with held(store, who, ttl=ttl, wait=wait, say=say) as lease:
        repaired = tuple(repair_held(store, lease, say))
        view = View(store)
        if plan is not None:
            change = plan(view)
        if change is None:
            raise ValueError("neither a change nor a plan for one")
        work = prepared(view, change)
        return run(store, lease, who, work, check, say, repaired)


def run(
    store: Store, lease: Lease, who: str, work: Work, check: Check | None, say: Say, repaired: Sequence[str]
) -> Applied:
    """Steps 2 to 5, of a publisher that holds the lease."""
    change = work.change
    if not (work.new or work.files or change.manifest or change.deletions):
        for addition in change.additions:
            _add(store, addition)
        return Applied(change, False, repaired=tuple(repaired))
    journal = Journal(
        id=secrets.token_hex(8),
        action=change.action,
        who=who,
        started=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        additions=tuple(sorted(work.new)),
        shards=tuple(sorted(work.shards)),
        switches=tuple(
            Switch(key=key, before=digest(old[0]) if old else None, after=digest(content), cache=cache)
            for key, (content, old, cache) in work.files.items()
        ),
        manifest=change.manifest[0] if change.manifest else None,
        deletions=change.deletions,
    )
    etag: str | None = None
    written: dict[str, str] = {}
    try:
        lease.check()
        etag = store.replace(JOURNAL_KEY, journal.to_bytes(), expect=None, cache=NO_CACHE)
        _store_new(store, lease, work, say)
        content = {key: entry[0] for key, entry in work.files.items()}
        solves = check(View(store, content)) if check is not None else []
        if change.manifest is not None:
            content[change.manifest[0]] = _with_solves(change.manifest[1], solves)
        _stage(store, lease, journal, work, content)
        lease.check()
        signed = digest(content[journal.manifest]) if journal.manifest is not None else None
        journal = journal.model_copy(update={"phase": "switching", "manifest_sha256": signed})
        etag = store.replace(JOURNAL_KEY, journal.to_bytes(), expect=etag, cache=NO_CACHE)
        etags = {key: old[1] if old else None for key, (_, old, _) in work.files.items()}
        steps.switch_all(store, lease, journal, content, etags, written)
        steps.read_again(store, journal)
        steps.commit(store, lease, journal, content)
    except BaseException:
        _undo(store, lease, journal, written, say)
        raise
    try:
        steps.finish(store, lease, journal, etag)
    except ChannelToolsError as error:
        say(f"done, but for tidying up, which the next publish does: {error.what}")
    except KeyboardInterrupt:
        say("all of it is done, but for tidying up, which the next publish does")
        raise
    return Applied(change, True, work.subdirs, tuple(solves), tuple(repaired))


def _store_new(store: Store, lease: Lease, work: Work, say: Say) -> None:
    for number, addition in enumerate(work.change.additions, 1):
        lease.check()
        if addition.key in work.new:
            say(f"storing {addition.key} ({number} of {len(work.change.additions)})")
        _add(store, addition)
    for key, shard in work.shards.items():
        lease.check()
        store.put_new(key, shard, sha256=digest(shard), cache=IMMUTABLE)


def _add(store: Store, addition: Addition) -> None:
    if isinstance(addition.source, tuple):
        source, source_key = addition.source
        source = source.store if isinstance(source, View) else source
        store.copy_from(source, source_key, addition.key, sha256=addition.sha256)
    else:
        store.put_new(addition.key, addition.source, sha256=addition.sha256, cache=addition.cache)


def _stage(store: Store, lease: Lease, journal: Journal, work: Work, content: Mapping[str, bytes]) -> None:
    kept = {journal.before_key(key): old[0] for key, (_, old, _) in work.files.items() if old is not None}
    kept.update({journal.after_key(key): new for key, new in content.items()})
    for key, data in kept.items():
        lease.check()
        store.put_new(key, data, sha256=digest(data), cache=NO_CACHE)


def _undo(store: Store, lease: Lease, journal: Journal, written: Mapping[str, str], say: Say) -> None:
    """Undo after a failure; what cannot be undone now is left to the next publisher."""
    try:
        lease.check()
        found = read_journal(store)
        if found is None or found[0].id != journal.id:
            return
        foreign = steps.undo(store, lease, *found, written)
        if foreign:
            say(f"left as it is, since something else changed it meanwhile: {', '.join(foreign)}")
    except ChannelToolsError as error:
        say(f"what was begun could not be undone now, and is repaired by the next publish: {error.what}")
    except KeyboardInterrupt:
        say("the undoing was interrupted, too: the next publish, or `rocm-channel channel repair`, ends it")


def _with_solves(manifest: bytes, solves: list[dict[str, Any]]) -> bytes:
    if not solves:
        return manifest
    return Release.model_validate_json(manifest).model_copy(update={"solves": tuple(solves)}).to_bytes()
