"""Making a channel, and changing what it says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from channel_tools.channel.care.upkeep import read_state
from channel_tools.channel.layout import SETTINGS_KEY
from channel_tools.channel.publishing.placing import empty_channel
from channel_tools.channel.settings import Settings, read_settings
from channel_tools.channel.stores.store import NO_CACHE, Store
from channel_tools.channel.transaction.apply import apply
from channel_tools.channel.transaction.change import Change, Replacement
from channel_tools.model.errors import ChannelError
from channel_tools.model.redaction import redact


def init_channel(
    store: Store,
    given: Mapping[str, Any],
    *,
    who: str,
    change: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Settings, bool]:
    """Make an empty channel, or change the settings of one that is there.

    :param given: fields of :class:`Settings`
    :returns: the settings, and whether anything was written
    :raises ChannelError: a setting that is none, or a channel with other settings is there
    :raises StorageError: the store cannot be written
    """
    made: list[Settings] = []

    def plan(view: Store) -> Change:
        present = read_settings(view)
        made.append(_settings(store, {**(present.model_dump() if present else {}), **given}))
        if present is None:
            empty = empty_channel(made[-1])
            state = read_state(_laid_over(view, empty))
            return Change("init", (), empty.subdirs, {**empty.replacements, **state.page(view, {})})
        if made[-1] == present:
            return Change("init")
        if not change:
            raise ChannelError(
                "is a channel already, with other settings",
                where=store.address,
                found=present.to_bytes().decode().strip(),
                wanted=made[-1].to_bytes().decode().strip(),
                fix="give --change to change them",
            )
        state = read_state(_laid_over(view, empty_channel(made[-1])))
        settings = {SETTINGS_KEY: Replacement(made[-1].to_bytes(), NO_CACHE)}
        return Change("init", replacements={**settings, **state.page(view, {})})

    applied = apply(store, who=who, plan=plan, say=say)
    return made[-1], applied.changed


def _laid_over(view: Store, change: Change) -> Store:
    from channel_tools.channel.transaction.view import View

    return View(view, {key: new.content for key, new in change.replacements.items()})


def _settings(store: Store, values: Mapping[str, Any]) -> Settings:
    url = values.get("url")
    if url is not None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https", "file", "s3") or "@" in parts.netloc or parts.query:
            raise ChannelError(
                "is no address for consumers",
                wanted="https://host/channel, without credentials",
                fix="see --url",
            )
        values = {**values, "url": url.rstrip("/")}
    for channel in (url, *(values.get("dependency_channels") or ())):
        if channel is not None and redact(channel, {}) != channel:
            raise ChannelError(
                "has a credential in the address of a channel, which everybody could read",
                where=store.address,
                found=redact(channel),
                fix="leave it out; docs/access.md says where each client takes its credentials from",
            )
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        raise ChannelError(
            "cannot have these settings",
            where=store.address,
            found=f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}",
        ) from error
