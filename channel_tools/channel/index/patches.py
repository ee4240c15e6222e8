"""``patch_instructions.json``: by which conda-index, too, leaves yanked packages out of its indexes.

Only its ``remove`` list is ours; instructions that an operator wrote into it stay.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from channel_tools.channel.index.texts import dump, load
from channel_tools.channel.layout import PATCH_FILE
from channel_tools.channel.stores.store import Store
from channel_tools.model.errors import ChannelError

_FIX = "correct that file, or delete it"
_EMPTY = {"patch_instructions_version": 1, "packages": {}, "packages.conda": {}, "remove": [], "revoke": []}


def read_patches(store: Store, key: str) -> dict[str, Any] | None:
    """The instructions of the subdir ``key``; None when there are none.

    :raises ChannelError: they cannot be read
    """
    content = store.read(f"{key}/{PATCH_FILE}")
    if content is None:
        return None
    where = f"{store.address}/{key}/{PATCH_FILE}"
    data = load(content, where, fix=_FIX)
    remove = data.get("remove", [])
    if not isinstance(remove, list) or not all(isinstance(name, str) for name in remove):
        raise ChannelError("has a `remove` that is no list of file names", where=where, fix=_FIX)
    return data


def encode_patches(
    before: dict[str, Any] | None, removed: AbstractSet[str], gone: AbstractSet[str], where: str
) -> bytes | None:
    """The file anew; None when it stays as it is, or when there is none and need be none.

    :param removed: file names of yanked packages
    :param gone: file names that must not be in the list: back in the index, or forgotten
    """
    remove = set(before.get("remove", ())) if before else set()
    wanted = (remove | removed) - gone
    if wanted == remove:
        return None
    return dump({**_EMPTY, **(before or {}), "remove": sorted(wanted)}, where)
