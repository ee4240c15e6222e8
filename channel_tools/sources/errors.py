"""The errors of sources and patches."""

from __future__ import annotations

from channel_tools.model.errors import ChannelToolsError


class SourceError(ChannelToolsError):
    """A source that no place gives, or that only comes with another sha256 than the recipe's."""

    exit_code = 14


class PatchError(ChannelToolsError):
    """A patch that does not fit the source that it is for, or that is no unified diff."""

    exit_code = 15
