"""What a mirror takes beyond its locks: the packages that choose GPU and ROCm release, in every form."""

from __future__ import annotations

from collections.abc import Mapping

from channel_tools.channel.layout import (
    ARCH_PACKAGE,
    ROCM_PACKAGE,
    arch_label,
    combined_label,
    rocm_label,
)
from channel_tools.client.addresses import Place
from channel_tools.client.locks.lock_files import LockedPackage, package
from channel_tools.client.solving import Record


def labels_for(url: str, packages: Mapping[Place, LockedPackage]) -> set[str]:
    """Labels of a channel for the GPUs and releases that locks declare."""
    declared = [one for place, one in packages.items() if place.channel == url and place.label is not None]
    archs = {one.arch for one in declared if one.name == ARCH_PACKAGE and one.arch is not None}
    releases = {one.version for one in declared if one.name == ROCM_PACKAGE}
    return {
        *(arch_label(arch) for arch in archs),
        *(rocm_label(release) for release in releases),
        *(combined_label(arch, release) for arch in archs for release in releases),
    }


def selectors(
    packages: Mapping[Place, LockedPackage], records: Mapping[Place, Record]
) -> dict[Place, LockedPackage]:
    """All builds of the two packages that choose GPU and release, for those that locks name as declared.

    They are tiny, and say what a channel is built for: without them nobody could solve at the mirror, neither
    a host that detects nor one that declares its GPU alone.
    """
    wanted = {
        (place.channel, one.name, one.version)
        for place, one in packages.items()
        if place.label is not None and one.name in (ARCH_PACKAGE, ROCM_PACKAGE)
    }
    return {
        place: package(record["url"], record["sha256"], None, record["size"])
        for place, record in records.items()
        if place not in packages and (place.channel, record["name"], record["version"]) in wanted
    }
