"""What a release must be before it enters a channel.

Nothing is written here. Every reason is collected before the release is refused, so that one run tells all
there is to do. The rules are in :mod:`channel_tools.channel.publishing.checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from channel_tools.channel.publishing.checks import arch_rule, doubles, origin
from channel_tools.channel.publishing.checks.dependencies import dependencies
from channel_tools.channel.publishing.checks.matrix_rule import whole_matrix
from channel_tools.channel.publishing.checks.names import shadowing
from channel_tools.channel.publishing.checks.provided import readable
from channel_tools.channel.publishing.checks.reasons import (
    Candidate,
    Provides,
    Reason,
    RefusedRelease,
    Rule,
    Verified,
)
from channel_tools.channel.publishing.checks.routing import completions, routes
from channel_tools.channel.settings import Settings
from channel_tools.channel.stores.store import Store
from channel_tools.model.matrix import Matrix
from channel_tools.model.package import Package

if TYPE_CHECKING:
    from channel_tools.channel.index.encoding import SubdirIndex

__all__ = [
    "RULES",
    "Reason",
    "RefusedRelease",
    "check_release",
    "completions",
    "is_local",
    "reasons_against",
    "routes",
]

RULES: tuple[Rule, ...] = (
    origin.verified,
    origin.host_tools,
    origin.one_toolchain,
    origin.local_addresses,
    shadowing,
    arch_rule.selection,
    arch_rule.one_arch,
    arch_rule.one_release,
    doubles.second_build,
    doubles.only_case,
    doubles.one_version,
    dependencies,
    whole_matrix,
)


def check_release(
    packages: Sequence[Package],
    reports: Mapping[Path, Verified],
    settings: Settings,
    present: Mapping[str, SubdirIndex],
    *,
    matrix: Matrix,
    allow_missing: Sequence[str] = (),
    local: bool = False,
    provided: Provides | None = None,
    channels_of: Callable[[Package], Sequence[str]] = origin.build_channels,
    where: str | None = None,
) -> None:
    """Refuse a release that would break what the channel promises to its consumers.

    :param reports: verification of each package, by its path
    :param present: indexes of the channel and its labels, by subdir key
    :param allow_missing: places of the matrix that may stay empty: see
        :class:`channel_tools.channel.publishing.checks.matrix_rule.Allowed`
    :param local: the channel is a folder made for builds against host tools
    :param provided: tells whether a dependency channel has a name (None: not known); by default the channels
        of ``settings.dependency_channels`` are read where they can be
    :param channels_of: the channels that a package was built with
    :param where: the channel's address, for the message
    :raises RefusedRelease: with every reason
    """
    reasons = reasons_against(
        Candidate(
            packages,
            reports,
            settings,
            present,
            matrix,
            allow_missing,
            local,
            provided or readable(settings.dependency_channels),
            channels_of,
        )
    )
    if reasons:
        raise RefusedRelease(reasons, where)


def reasons_against(candidate: Candidate) -> list[Reason]:
    """What each rule has to say, in the order of :data:`RULES`."""
    return [reason for rule in RULES for reason in rule(candidate)]


def is_local(store: Store, settings: Settings) -> bool:
    """A folder made for builds against this host's own tools."""
    from channel_tools.channel.stores.folder_store import FolderStore

    return isinstance(store, FolderStore) and settings.toolchain == "host"
