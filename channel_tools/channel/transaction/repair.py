"""Tidying up after a publisher that died: what clients may have seen is completed, all else undone."""

from __future__ import annotations

from collections.abc import Callable

from channel_tools.channel.stores.lease import Lease, held
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction import steps
from channel_tools.channel.transaction.journal import AFTER, BEFORE, read_journal

Say = Callable[[str], None]


def repair(
    store: Store, *, who: str, say: Say = lambda line: None, ttl: float = 60, wait: float = 600
) -> list[str]:
    """Complete or undo what a publisher left half done.

    :returns: what was done, as lines; none when there was nothing to do
    :raises ConflictError: another publisher holds the channel
    :raises ChannelError: the journal is damaged, or what was kept to undo it is gone
    :raises StorageError: the store cannot be read or written
    """
    with held(store, who, ttl=ttl, wait=wait, say=say) as lease:
        return repair_held(store, lease, say)


def repair_held(store: Store, lease: Lease, say: Say) -> list[str]:
    """As :func:`repair`, of a publisher that holds the lease."""
    done: list[str] = []

    def tell(line: str) -> None:
        done.append(line)
        say(line)

    found = read_journal(store)
    if found is None:
        left = steps.clear(store, lease, (BEFORE, AFTER))
        if left:
            tell(f"repaired: removed {left} control files that a finished transaction left behind")
        return done
    journal, etag = found
    content = steps.completable(store, journal) if journal.phase == "switching" else None
    if content is None:
        foreign = steps.undo(store, lease, journal, etag)
        seen = "as not all of it is there" if journal.phase == "switching" else "which no client has seen"
        tell(f"repaired: undid {journal.describe()}, {seen}")
        if foreign:
            tell(f"left as it is, since something else changed it meanwhile: {', '.join(foreign)}")
        return done
    replaced = steps.switch_all(store, lease, journal, content)
    steps.read_again(store, journal)
    steps.commit(store, lease, journal, content)
    steps.finish(store, lease, journal, etag)
    tell(
        f"repaired: completed {journal.describe()}; "
        f"{replaced} of {len(journal.switches)} index files were still to be written"
    )
    return done
