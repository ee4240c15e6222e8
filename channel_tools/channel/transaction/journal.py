"""The journal of a transaction: what a crash leaves behind, so that the next publisher can tidy up.

``.channel/journal.json`` is there from the first file that a transaction stores to the last one that it
removes. Old and new content of every file that it switches lies below ``.channel/before/<id>/`` and
``.channel/after/<id>/``, under the file's own key.

Phase ``adding``: no file that clients read has changed. Phase ``switching``: each switched file is the old or
the new one. While the new content is whole the transaction can be completed; whoever undoes it removes that
first, so that a crash within the undoing is undone as well.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from channel_tools.channel.index.texts import problem_of
from channel_tools.channel.layout import CONTROL, JOURNAL_KEY
from channel_tools.channel.stores.store import Store
from channel_tools.model.errors import ChannelError

BEFORE = f"{CONTROL}before/"
AFTER = f"{CONTROL}after/"


class Switch(BaseModel):
    """One file that clients read and that changes: sha256 of old (None: not there) and new content."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    before: str | None
    after: str
    cache: str


class Journal(BaseModel):
    """``additions`` and ``shards`` are only those that were not there before; ``switches`` in their order.

    ``started`` is ISO 8601 in UTC. ``manifest`` is the key of the release manifest, written last;
    its sha256 is known from ``switching`` on. ``deletions`` come after it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    id: str
    action: str
    who: str
    started: str
    phase: Literal["adding", "switching"] = "adding"
    additions: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()
    switches: tuple[Switch, ...] = ()
    manifest: str | None = None
    manifest_sha256: str | None = None
    deletions: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        return (json.dumps(self.model_dump(mode="json"), indent=1) + "\n").encode()

    def before_key(self, key: str) -> str:
        return f"{BEFORE}{self.id}/{key}"

    def after_key(self, key: str) -> str:
        return f"{AFTER}{self.id}/{key}"

    def describe(self) -> str:
        return f"the {self.action} that {self.who} began at {self.started}"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_journal(store: Store) -> tuple[Journal, str] | None:
    """The journal and its etag; None when no transaction is under way.

    :raises ChannelError: it cannot be read
    """
    found = store.read_with_etag(JOURNAL_KEY)
    if found is None:
        return None
    try:
        return Journal.model_validate_json(found[0]), found[1]
    except ValidationError as error:
        raise ChannelError(
            "is no journal of this format, so a publish that broke off cannot be repaired",
            where=f"{store.address}/{JOURNAL_KEY}",
            found=problem_of(error),
            fix="use the release of rocm-channel that wrote it; if it is damaged, remove it and run "
            "`rocm-channel audit`",
        ) from error
