"""What two channels differ in: packages, contents under one name, and what is yanked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from channel_tools.channel.care.upkeep import read_state
from channel_tools.channel.index.encoding import SubdirIndex
from channel_tools.channel.layout import ARCH_PACKAGE
from channel_tools.channel.publishing.checks.builds import Build, of_file, of_record
from channel_tools.channel.stores.store import Store

EVERY_ARCH = "any arch"


@dataclass(frozen=True)
class Difference:
    """One package by its key. ``kind`` is ``only``, ``content`` or ``yanked``; ``a`` and ``b`` say what each
    channel has: a sha256, ``yanked``, or None for nothing."""

    key: str
    kind: str
    arch: str
    a: str | None
    b: str | None

    def to_json(self) -> dict[str, Any]:
        return {"key": self.key, "kind": self.kind, "arch": self.arch, "a": self.a, "b": self.b}


@dataclass(frozen=True)
class Comparison:
    """``same`` counts, by arch, what both have with the same content."""

    differences: tuple[Difference, ...]
    same: Mapping[str, int]

    def by_arch(self) -> dict[str, list[Difference]]:
        """Differences by GPU arch; what is of none comes last."""
        archs = {difference.arch for difference in self.differences} | set(self.same)
        order = sorted(archs, key=lambda arch: (arch == EVERY_ARCH, arch))
        return {arch: [d for d in self.differences if d.arch == arch] for arch in order}

    def to_json(self) -> dict[str, Any]:
        return {
            "same": dict(self.same),
            "differences": [difference.to_json() for difference in self.differences],
        }


def compare(a: Store, b: Store, arch: str | None = None) -> Comparison:
    """Compare what the indexes of two channels say; no package is read.

    :param arch: only packages for this GPU target, and those for any
    :raises ChannelError: one of them is no channel, or its index cannot be read
    """
    found_a, found_b = (_content(read_state(store).indexes) for store in (a, b))
    differences: list[Difference] = []
    same: dict[str, int] = {}
    for key in sorted(found_a.keys() | found_b.keys()):
        here, there = found_a.get(key), found_b.get(key)
        target = next(entry[0] for entry in (here, there) if entry)
        if arch is not None and target not in (arch, EVERY_ARCH):
            continue
        said_a, said_b = (entry[1] if entry else None for entry in (here, there))
        if said_a == said_b:
            same[target] = same.get(target, 0) + 1
            continue
        kind = "only" if None in (said_a, said_b) else "yanked" if "yanked" in (said_a, said_b) else "content"
        differences.append(Difference(key, kind, target, said_a, said_b))
    return Comparison(tuple(differences), same)


def _content(indexes: Mapping[str, SubdirIndex]) -> dict[str, tuple[str, str]]:
    """GPU arch, and sha256 or ``yanked``, of every package by key."""
    found: dict[str, tuple[str, str]] = {}
    for subdir, index in indexes.items():
        for file, record in index.records.items():
            build = of_record(subdir, file, record)
            found[f"{subdir}/{file}"] = (_arch(build), str(record.get("sha256")))
        for file in index.removed:
            gone = of_file(subdir, file)
            found[f"{subdir}/{file}"] = (_arch(gone) if gone else EVERY_ARCH, "yanked")
    return found


def _arch(build: Build) -> str:
    return build.arch or (build.words[0] if build.name == ARCH_PACKAGE else EVERY_ARCH)
