"""Which subdirs a package belongs to, by its build string alone.

A declared build goes to the label of its own and to each combined label; everything else goes to the main
channel. A combined label exists for each pair of a declared arch and a declared ROCm release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from channel_tools.channel.layout import (
    ARCH_PACKAGE,
    ROCM_PACKAGE,
    arch_label,
    combined_label,
    rocm_label,
    subdir_key,
)
from channel_tools.channel.publishing.checks.builds import Build, in_labels, of_package
from channel_tools.model.errors import ChannelError
from channel_tools.model.package import Package

if TYPE_CHECKING:
    from channel_tools.channel.index.encoding import SubdirIndex


def routes(
    package: Package, present: Mapping[str, SubdirIndex], release: Sequence[Package] = ()
) -> list[str]:
    """Subdir keys that a package belongs to: ``["linux-64"]``, ``["label/gfx942/linux-64", ...]``.

    :param present: what the channel has, by subdir key
    :param release: what comes in together with ``package``, which adds combined labels
    :raises ChannelError: a declared build of a package that no label is for
    """
    build = of_package(package)
    if not build.declared:
        return [subdir_key(None, package.subdir)]
    others = [of_package(p) for p in release]
    keys = [subdir_key(label, package.subdir) for label in labels_of(build, others, present)]
    return sorted(set(keys))


def completions(release: Sequence[Package], present: Mapping[str, SubdirIndex]) -> list[tuple[str, str]]:
    """What combined labels need of what is in the channel already, once ``release`` is in.

    :returns: key of a package that is there, and the subdir key that it is to be copied to
    :raises ChannelError: a declared build of a package that no label is for
    """
    new = [build for build in map(of_package, release) if build.declared]
    there = {(build.name, _axis(build)): build for _, build in in_labels(present) if build.declared}
    for build in new:
        there.pop((build.name, _axis(build)), None)
    found = []
    for build in there.values():
        for label in labels_of(build, new, {}):
            key = subdir_key(label, build.subdir)
            index = present.get(key)
            if label != _own_label(build) and (index is None or build.file not in index.records):
                found.append((build.where, key))
    return sorted(found)


def labels_of(build: Build, others: Iterable[Build], present: Mapping[str, SubdirIndex]) -> list[str]:
    """Labels that a declared build belongs to: its own, and one for each declared build of the other kind."""
    own = _own_label(build)
    declared = [b for b in others if b.declared] + [b for _, b in in_labels(present) if b.declared]
    labels = {own}
    for other in declared:
        if build.name == ARCH_PACKAGE and other.name == ROCM_PACKAGE:
            labels.add(combined_label(_axis(build), _axis(other)))
        elif build.name == ROCM_PACKAGE and other.name == ARCH_PACKAGE:
            labels.add(combined_label(_axis(other), _axis(build)))
    return sorted(labels)


def _own_label(build: Build) -> str:
    if build.name == ARCH_PACKAGE:
        return arch_label(_axis(build))
    if build.name == ROCM_PACKAGE:
        return rocm_label(build.version)
    raise ChannelError(
        "is a declared build of a package that no label channel is for",
        where=build.where,
        found=str(build),
        wanted=f"{ARCH_PACKAGE} or {ROCM_PACKAGE}",
        fix="give it another build string: without the word 'declared' it belongs to the main channel",
    )


def _axis(build: Build) -> str:
    """What a declared build declares: a GPU target, or a ROCm release."""
    return build.words[0] if build.name == ARCH_PACKAGE else build.version
