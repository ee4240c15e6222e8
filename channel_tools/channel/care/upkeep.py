"""What the commands that look after a channel share: the state that they start from, and its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from shlex import quote

from channel_tools.channel.care.yanked import Yanked, read_yanked
from channel_tools.channel.index.encoding import SubdirIndex, changed, read_all
from channel_tools.channel.layout import INDEX_FILES, PAGE_KEY, SETTINGS_KEY, SUBDIRS
from channel_tools.channel.release import Release, read_releases
from channel_tools.channel.settings import Settings, read_settings
from channel_tools.channel.stores.store import NO_CACHE, Store
from channel_tools.channel.transaction.change import Replacement, SubdirChange
from channel_tools.model.errors import ChannelError


@dataclass(frozen=True)
class State:
    """All that a channel says of itself at one moment."""

    settings: Settings
    indexes: Mapping[str, SubdirIndex]
    yanked: Yanked
    releases: tuple[Release, ...]

    def after(self, subdirs: Mapping[str, SubdirChange]) -> dict[str, SubdirIndex]:
        """The indexes after a change."""
        indexes = dict(self.indexes)
        for key, change in subdirs.items():
            indexes[key] = changed(indexes.get(key, SubdirIndex(key)), change)
        return indexes

    def page(
        self,
        store: Store,
        subdirs: Mapping[str, SubdirChange],
        yanked: Yanked | None = None,
        more: tuple[Release, ...] = (),
    ) -> dict[str, Replacement]:
        """The channel page after a change."""
        from channel_tools.channel.page.page import render_page

        content = render_page(
            self.settings,
            self.after(subdirs),
            self.yanked if yanked is None else yanked,
            (*self.releases, *more),
            store.now(),
        )
        return {PAGE_KEY: Replacement(content, NO_CACHE)}


def read_state(store: Store) -> State:
    """Read all of it.

    :raises ChannelError: there is no channel, or a part of it is gone or cannot be read
    """
    indexes = read_all(store)
    settings = read_settings(store)
    if settings is None and not indexes:
        raise _no_channel(store)
    releases = tuple(read_releases(store))
    if settings is None and releases:
        raise _no_settings(store)
    return State(settings or Settings(), indexes, read_yanked(store), releases)


def required_settings(store: Store) -> Settings:
    """The settings of a channel that takes releases.

    :raises ChannelError: there is no channel, or it has no settings, or they cannot be read
    """
    settings = read_settings(store)
    if settings is None:
        require_channel(store)
        raise _no_settings(store)
    return settings


def require_channel(store: Store) -> None:
    """Before the first write: a lease in a mistyped address would make a folder there.

    :raises ChannelError: no channel is there
    """
    keys = (SETTINGS_KEY, *(f"{subdir}/{INDEX_FILES[0]}" for subdir in SUBDIRS))
    if all(store.stat(key) is None for key in keys):
        raise _no_channel(store)


def _no_channel(store: Store) -> ChannelError:
    return ChannelError(
        "no channel is here",
        where=store.address,
        fix=f"check the address, or make one: `rocm-channel channel init {quote(store.address)}`",
    )


def _no_settings(store: Store) -> ChannelError:
    return ChannelError(
        f"has no {SETTINGS_KEY}, which says what the channel is and whether it requires attestations",
        where=store.address,
        fix="restore it from a backup, or say all of it again: `rocm-channel channel init "
        f"{quote(store.address)} ...`",
    )


def timestamp(store: Store) -> str:
    """The store's own time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(store.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
