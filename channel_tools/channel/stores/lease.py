"""One publisher at a time: a lease on the channel that expires by the store's clock.

``.channel/lease.json``: ``{"version": 1, "id": text, "who": text, "since": seconds, "until": seconds}``, and
``{"version": 1, "id": null}`` when nobody holds it. It only ever changes by compare-and-swap, so of two
publishers that want a free or stale lease one gets it. The holder renews it in the background; one that
stood still for longer than the lease lasts (a suspended machine, a lost network) finds another id there.
"""

from __future__ import annotations

import json
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from channel_tools.channel.layout import LEASE_KEY
from channel_tools.channel.stores.store import NO_CACHE, Store
from channel_tools.model.clock import elapsed
from channel_tools.model.errors import ConflictError, StorageError

MARGIN = 1.0
"""Seconds that a lease is honoured past its end: what a ``Date`` header cuts off."""

_CENTURY = 4_102_444_800.0
FREE = b'{"version": 1, "id": null}\n'


class Lease:
    """The right to change a channel, for as long as :meth:`check` does not fail."""

    def __init__(self, store: Store, who: str, ttl: float) -> None:
        self.store = store
        self.who = who
        self.ttl = ttl
        self.id = secrets.token_hex(8)
        self._since = 0.0
        self._etag = ""
        self._good_until = 0.0
        self._seen = 0.0
        self._lost: str | None = None
        self._ended = threading.Event()
        self._one = threading.Lock()

    def check(self) -> None:
        """Make sure that the channel is still ours; costs at most one small read a second.

        :raises ConflictError: another publisher took the lease, or it was removed
        :raises StorageError: the lease has run out and cannot be renewed
        """
        with self._one:
            if self._lost is None and elapsed() >= self._good_until:
                self._renew()
            elif self._lost is None and elapsed() >= self._seen + min(1.0, self.ttl / 20):
                self._look()
            if self._lost is not None:
                raise ConflictError(
                    "the lease on the channel was lost: " + self._lost,
                    where=self.store.address,
                    fix="run the command again; nothing of the other publisher's was touched",
                )

    def _take(self, expect: str | None) -> bool:
        """Write the lease over what has the etag ``expect``; False when somebody else was faster."""
        asked = elapsed()
        now = self.store.now()
        self._since = self._since or now
        entry = {
            "version": 1,
            "id": self.id,
            "who": self.who,
            "since": round(self._since, 3),
            "until": round(now + self.ttl, 3),
        }
        content = json.dumps(entry).encode() + b"\n"
        try:
            self._etag = self.store.replace(LEASE_KEY, content, expect=expect, cache=NO_CACHE)
        except ConflictError:
            return False
        self._good_until, self._seen = asked + self.ttl, elapsed()
        return True

    def _renew(self) -> None:
        if self._take(self._etag):
            return
        self._look()
        if self._lost is None and not self._take(self._etag):
            self._lost = "somebody changes it"

    def _look(self) -> None:
        found = self.store.read_with_etag(LEASE_KEY)
        self._seen = elapsed()
        entry = _entry(found[0]) if found else {}
        if found is None or entry.get("id") is None:
            self._lost = "somebody removed it"
        elif entry["id"] != self.id:
            self._lost = f"{entry.get('who', 'somebody else')} has it now"
        else:
            self._etag = found[1]

    def _keep(self) -> None:
        """Renew until the end. Of a store that does not answer, :meth:`check` says so if need be."""
        pause = self.ttl / 3
        while not self._ended.wait(pause):
            with self._one:
                if self._lost is not None:
                    return
                try:
                    self._renew()
                    pause = self.ttl / 3
                except StorageError:
                    pause = self.ttl / 10

    def _release(self) -> None:
        """Give it back, if it is still ours; one that cannot be given back runs out by itself."""
        self._ended.set()
        if not self._one.acquire(timeout=5):  # the store hangs in a renewal, and would in this too
            return
        try:
            found = self.store.read_with_etag(LEASE_KEY)
            if found is not None and _entry(found[0]).get("id") == self.id:
                self.store.replace(LEASE_KEY, FREE, expect=found[1], cache=NO_CACHE)
        except (ConflictError, StorageError):
            pass
        finally:
            self._one.release()


@contextmanager
def held(
    store: Store, who: str, *, ttl: float = 60, wait: float = 600, say: Callable[[str], None]
) -> Iterator[Lease]:
    """Hold the lease for the length of the block; also an interrupt gives it back.

    :param who: as others read it while they wait
    :param ttl: seconds that it lasts without being renewed
    :param wait: seconds to wait for another holder
    :param say: told who holds it, once for each holder
    :raises ConflictError: somebody else held it all the time
    :raises StorageError: the store cannot be read or written
    """
    lease = Lease(store, who, ttl)
    keeper = threading.Thread(target=lease._keep, name="lease", daemon=True)
    try:
        _acquire(lease, wait, say)
        keeper.start()
        yield lease
    finally:
        lease._release()
        if keeper.ident is not None:
            keeper.join(timeout=5)


def holder(store: Store) -> dict[str, Any] | None:
    """The lease (``id``, ``who``, ``since``, ``until``), also a stale one; None when nobody holds it."""
    content = store.read(LEASE_KEY)
    entry = _entry(content) if content else {}
    return entry if entry.get("id") is not None else None


def check_writable(store: Store) -> None:
    """Write what is in the place of the lease once more, so that who may not write is told at once.

    :raises StorageError: the store cannot be read or written
    """
    found = store.read_with_etag(LEASE_KEY)
    content, etag = found if found else (FREE, None)
    with suppress(ConflictError):  # somebody else could write
        store.replace(LEASE_KEY, content, expect=etag, cache=NO_CACHE)


def _acquire(lease: Lease, wait: float, say: Callable[[str], None]) -> None:
    store, end = lease.store, time.monotonic() + wait
    told: object = None
    while True:
        found = store.read_with_etag(LEASE_KEY)
        entry = _entry(found[0]) if found else {}
        free = entry.get("id") is None
        stale = not free and store.now() > until_of(entry) + MARGIN
        if (free or stale) and lease._take(found[1] if found else None):
            if stale:
                say(f"took over the lease of {_name(entry)}, which ran out at {_clock(until_of(entry))}")
            return
        if not free and not stale and told != entry["id"]:
            told = entry["id"]
            say(
                f"waiting: {_name(entry)} is changing the channel {store.address} and holds it until "
                f"{_clock(until_of(entry))} at least"
            )
        left = end - time.monotonic()
        if left <= 0:
            raise ConflictError(
                "somebody else holds the channel",
                where=store.address,
                found=f"{_name(entry)}, since {_clock(_number(entry, 'since'))}, "
                f"until {_clock(until_of(entry))}",
                fix="run the command again later; a lease whose holder died runs out by itself",
            )
        time.sleep(min(left, random.uniform(0.5, 1.0) * min(1.0, lease.ttl / 4)))


def _entry(content: bytes) -> dict[str, Any]:
    """The lease in ``content``; what cannot be read counts as a free one, as no holder can renew it."""
    try:
        entry = json.loads(content)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _number(entry: dict[str, Any], name: str) -> float:
    """Seconds since 1970; 0 for what is no time of this century, so that a damaged lease has run out."""
    value = entry.get(name)
    return float(value) if isinstance(value, int | float) and 0 <= value < _CENTURY else 0.0


def until_of(entry: dict[str, Any]) -> float:
    """When a lease runs out, in seconds since 1970."""
    return _number(entry, "until")


def _name(entry: dict[str, Any]) -> str:
    return str(entry.get("who") or "somebody else")


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S UTC")
