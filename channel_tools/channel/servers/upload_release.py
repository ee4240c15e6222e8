"""A release of a channel of ours, sent to a package server.

What is sent was published before: verified, checked as a release, read back. So a server that knows no
transaction gets nothing that was not proven in a channel that does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from channel_tools.channel.care.upkeep import require_channel
from channel_tools.channel.care.yanked import read_yanked
from channel_tools.channel.release import Release, read_release, read_releases
from channel_tools.channel.servers.upload_targets import Target, Upload, upload
from channel_tools.channel.settings import Settings, read_settings
from channel_tools.channel.stores.store import Store
from channel_tools.model.errors import ChannelError


def upload_releases(
    store: Store,
    releases: Sequence[str],
    target: Target,
    *,
    say: Callable[[str], None],
    dry_run: bool = False,
) -> list[Upload]:
    """Send the packages of some releases, except those that were yanked since.

    :param releases: ids; the newest release when empty
    :returns: what was sent
    :raises ChannelError: no channel or no such release, a channel of builds against host tools, or a name
        that the server has with other content
    :raises AccessError: the server wants a credential, or another one
    :raises StorageError: the channel or the server cannot be read, or the server refuses
    """
    require_channel(store)
    if (read_settings(store) or Settings()).toolchain == "host":
        raise ChannelError(
            "holds builds against this host's own tools, which are for this host only", where=store.address
        )
    chosen = [read_release(store, release) for release in releases] or [_newest(store)]
    yanked = read_yanked(store)
    items: dict[str, Upload] = {}
    for release in chosen:
        for file in release.files:
            if file.key in yanked.entries:
                say(f"is left out, as it was yanked: {file.key} ({yanked.reason(file.key)})")
            else:
                items[file.key] = Upload(file.key, file.sha256, (store, file.key))
    return upload(target, list(items.values()), say=say, dry_run=dry_run)


def _newest(store: Store) -> Release:
    found = max(read_releases(store), key=lambda release: (release.created, release.id), default=None)
    if found is None:
        raise ChannelError("has no release", where=store.address, fix="publish one first")
    return found
