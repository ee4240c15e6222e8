"""Forms of the index that other tools wrote and that some clients prefer: kept right where they are there.

conda's classic solver asks for ``current_repodata.json`` first, and clients of before 2023 for
``repodata.json.bz2``. One that stayed as it was would hide new builds and offer yanked ones. Each gets the
whole of ``repodata.json``, which is what clients without such a file read. A channel without them gets none.
"""

from __future__ import annotations

import bz2

from channel_tools.channel.stores.store import Store

_CURRENT = "current_repodata.json"
_BZ2 = "repodata.json.bz2"


def older_forms(store: Store, key: str, text: bytes, zst: bytes) -> dict[str, bytes]:
    """New content of those that the subdir ``key`` has.

    :param text: of ``repodata.json``
    :param zst: the same, compressed
    """
    files: dict[str, bytes] = {}
    if store.stat(f"{key}/{_CURRENT}") is not None:
        files = {f"{key}/{_CURRENT}.zst": zst, f"{key}/{_CURRENT}": text}
    if store.stat(f"{key}/{_BZ2}") is not None:
        files[f"{key}/{_BZ2}"] = bz2.compress(text)
    return files
