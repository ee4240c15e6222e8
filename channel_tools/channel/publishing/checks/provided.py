"""Which names the channels have that consumers add after ours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from channel_tools.channel.publishing.checks.reasons import Provides
from channel_tools.model.errors import ChannelToolsError


def readable(channels: Sequence[str]) -> Provides:
    """Look names up in the channels of the list that can be read here: folders, ``file:`` and ``s3:``.

    The indexes are read once, at the first question. Where one of the channels cannot be read, a name that
    no other has may be there: the answer is None.
    """

    @cache
    def indexes() -> tuple[frozenset[str], bool]:
        names: set[str] = set()
        whole = True
        for channel in channels:
            found = _names(channel)
            whole = whole and found is not None
            names |= found or set()
        return frozenset(names), whole

    def provided(name: str) -> bool | None:
        names, whole = indexes()
        return True if name in names else False if whole else None

    return provided


def _names(channel: str) -> set[str] | None:
    from channel_tools.channel.index.encoding import read_all
    from channel_tools.channel.layout import label_of
    from channel_tools.channel.stores.opening import open_store

    if not channel.startswith(("file:", "s3:")) and not Path(channel).is_dir():
        return None
    try:
        present = read_all(open_store(channel))
    except ChannelToolsError:
        return None
    main = {key: index for key, index in present.items() if label_of(f"{key}/x") is None}
    return {str(record["name"]) for index in main.values() for record in index.records.values()} or None
