"""The order of versions, which conda-index needs for ``channeldata.json`` only."""

from __future__ import annotations


class VersionOrder:
    """Nobody may call it here."""

    def __init__(self, version: str) -> None:
        raise NotImplementedError(f"the order of {version} needs a real conda")
