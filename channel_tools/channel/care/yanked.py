"""``yanked.json``: which builds were taken back, why, by whom, and the records that they had."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from channel_tools.channel.index.repodata import fault_of, is_file_name
from channel_tools.channel.layout import YANKED_KEY, is_package
from channel_tools.channel.stores.store import Store
from channel_tools.model.errors import ChannelError
from channel_tools.model.redaction import redact


@dataclass
class Yanked:
    """``entries`` by key of the package: ``reason``, ``who``, ``when`` (ISO 8601, UTC) and ``record``."""

    entries: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        data = {"version": 1, "entries": dict(sorted(self.entries.items()))}
        return (json.dumps(data, indent=1) + "\n").encode()

    def reason(self, key: str) -> str:
        return str(self.entries.get(key, {}).get("reason") or "no reason is recorded")


def public_reason(text: str) -> str:
    """A reason as users read it: on one line, and with no credential in it.

    :raises ChannelError: there is none
    """
    reason = redact(" ".join(text.split()))
    if not reason:
        raise ChannelError("a yank needs a reason, which users will read", fix="give one with --reason")
    return reason


def read_yanked(store: Store) -> Yanked:
    """What was yanked; nothing where the file is not there.

    :raises ChannelError: it cannot be read
    """
    content = store.read(YANKED_KEY)
    if content is None:
        return Yanked()
    where = f"{store.address}/{YANKED_KEY}"
    fix = (
        "restore it from a backup; without one remove it: the indexes still list what is yanked, and "
        "`rocm-channel yank` gives each a reason again"
    )
    try:
        data = json.loads(content)
    except ValueError as error:
        raise ChannelError("is no list of yanked builds", where=where, found=str(error), fix=fix) from error
    entries = data.get("entries") if isinstance(data, Mapping) else None
    if not isinstance(entries, dict) or data.get("version") != 1:
        raise ChannelError("is no list of yanked builds of version 1", where=where, fix=fix)
    for key, entry in entries.items():
        fault = _fault(key, entry)
        if fault:
            raise ChannelError("is no list of yanked builds", where=where, found=f"{key!r}: {fault}", fix=fix)
    return Yanked(entries)


def _fault(key: str, entry: Any) -> str | None:
    """What is wrong with an entry that everybody relies on who reads it: it may go back into the index."""
    name = key.rpartition("/")[2]
    if not is_package(key) or not is_file_name(name):
        return "no package of a channel"
    if not isinstance(entry, dict):
        return "no entry"
    record = entry.get("record")
    if record is None:
        return None
    fault = fault_of(record)
    if fault is None and not name.startswith(f"{record['name']}-{record['version']}-{record['build']}."):
        return "the record of another package"
    return fault


def yanked_notes(store: Store, urls: Iterable[str]) -> list[str]:
    """A warning for each yanked build among the packages that somebody is about to install by URL.

    :param store: of the channel that the URLs are of; others' packages have other file names
    """
    yanked = read_yanked(store)
    by_place = {_place(key): key for key in yanked.entries}
    notes = []
    for url in urls:
        key = by_place.get(_place(unquote(urlsplit(url).path)))
        if key is not None:
            when = str(yanked.entries[key].get("when") or "")[:10]
            notes.append(
                f"{key.rpartition('/')[2]} was yanked{f' on {when}' if when else ''}: {yanked.reason(key)}"
            )
    return sorted(set(notes))


def _place(path: str) -> str:
    """Subdir and file name."""
    return "/".join(path.split("/")[-2:])
