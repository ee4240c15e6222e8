"""Making a channel, and changing what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from pydantic import ValidationError

from channel_tools.channel.addresses import check_no_credential, consumer_url
from channel_tools.channel.care.upkeep import read_state, require_channel
from channel_tools.channel.index.encoding import read_all
from channel_tools.channel.index.texts import problem_of
from channel_tools.channel.layout import PAGE_KEY, RELEASES, SETTINGS_KEY, SUBDIRS, YANKED_KEY
from channel_tools.channel.publishing.placing import empty_channel, with_toolchain
from channel_tools.channel.settings import Settings, read_settings
from channel_tools.channel.stores.content import reading_errors
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.store import NO_CACHE, Store
from channel_tools.channel.transaction.apply import apply
from channel_tools.channel.transaction.change import Change, Replacement
from channel_tools.model.errors import ChannelError, DamagedFileError
from channel_tools.model.package import Package, read_package
from channel_tools.model.redaction import redact

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PARTS = frozenset(key.partition("/")[0] for key in (*SUBDIRS, RELEASES, PAGE_KEY, YANKED_KEY)) | {
    *("label", "records", "wheels", "lost+found")
}
"""Names at the top of a channel."""


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
    :raises ChannelError: a setting that is none; a channel with other settings, builds of another toolchain,
        or other files, are there; or no channel is, and one is to be changed
    :raises StorageError: the store cannot be written
    """
    made: list[Settings] = []
    _check_name(store, given.get("name"))
    if change:
        require_channel(store)
    _check_empty(store)
    _settings(store, given)  # before the lease makes a folder

    def plan(view: Store) -> Change:
        present = read_settings(view)
        settings = _settings(store, {**(present.model_dump() if present else {}), **given})
        made.append(with_toolchain(store, settings, _with_known_toolchain(store, view)))
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
        replaced = {SETTINGS_KEY: Replacement(made[-1].to_bytes(), NO_CACHE)}
        return Change("init", replacements={**replaced, **state.page(view, {})})

    applied = apply(store, who=who, plan=plan, say=say)
    return made[-1], applied.changed


def _with_known_toolchain(store: Store, view: Store) -> list[Package]:
    """A package of the channel that says what it was built with; none where none does.

    Builds against a host's own tools are in folders alone, so other stores are not looked at.
    """
    if isinstance(store, FolderStore):
        for key, index in read_all(view).items():
            for name in (*index.records, *sorted(index.removed)):
                with suppress(DamagedFileError, OSError):
                    package = read_package(store.path / key / name)
                    if package.toolchain is not None:
                        return [package]
    return []


def _laid_over(view: Store, change: Change) -> Store:
    from channel_tools.channel.transaction.view import View

    return View(view, {key: new.content for key, new in change.replacements.items()})


def _settings(store: Store, values: Mapping[str, Any]) -> Settings:
    if values.get("url") is not None:
        values = {**values, "url": consumer_url(values["url"], store.address)}
    for channel in values.get("dependency_channels") or ():
        check_no_credential(channel, store.address)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise ChannelError(
            "cannot have these settings", where=store.address, found=problem_of(error)
        ) from error
    if settings.toolchain == "host" and not isinstance(store, FolderStore):
        raise ChannelError(
            "cannot be a channel for builds against one host's own tools: other hosts would read it",
            where=store.address,
            found="toolchain host",
            fix="choose a folder, or leave --toolchain host out",
        )
    return settings


def _check_name(store: Store, name: str | None) -> None:
    if name is not None and not _NAME.fullmatch(name):
        raise ChannelError(
            "cannot have this name",
            where=store.address,
            found=redact(name),
            wanted="letters, digits, - _ and . only, a letter or digit first",
            fix="see --name",
        )


def _check_empty(store: Store) -> None:
    """Nothing but parts of a channel may be there: what else lies in the folder would be served with it."""
    if store.stat(SETTINGS_KEY) is not None:
        return
    if isinstance(store, FolderStore):
        with reading_errors(store.path):
            names = sorted(p.name for p in store.path.iterdir()) if store.path.is_dir() else []
    else:
        names = sorted({stat.key.partition("/")[0] for stat in islice(store.list(""), 1000)})
    others = [name for name in names if name not in _PARTS and not name.startswith(".")]
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise ChannelError(
            "holds other files, which would be in the channel with it",
            where=store.address,
            found=", ".join(others[:3]) + more,
            fix="choose an empty folder",
        )
