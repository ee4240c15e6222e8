"""What differs between the environments of a pin, and between a pin and the one before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from channel_tools.client.locks.lock_files import LockedPackage
from channel_tools.client.pinning.pin import Pinned


@dataclass(frozen=True)
class Difference:
    """A package that is not the same everywhere; ``builds`` has version and build by environment."""

    name: str
    builds: dict[str, tuple[str, str] | None]

    @property
    def versions_differ(self) -> bool:
        return len({build and build[0] for build in self.builds.values()}) > 1

    def to_json(self) -> dict[str, Any]:
        shown = {
            key: build and {"version": build[0], "build": build[1]} for key, build in self.builds.items()
        }
        return {"name": self.name, "versions_differ": self.versions_differ, "environments": shown}


def differences(environments: Sequence[Pinned]) -> list[Difference]:
    """Packages that differ between environments, those of other versions first."""
    by_key = {one.key: {record["name"]: record for record in one.records} for one in environments}
    found = []
    for name in sorted({name for records in by_key.values() for name in records}):
        here = {key: records.get(name) for key, records in by_key.items()}
        if len({record and record["url"] for record in here.values()}) > 1:
            builds = {
                key: None if record is None else (str(record["version"]), str(record["build"]))
                for key, record in here.items()
            }
            found.append(Difference(name, builds))
    return sorted(found, key=lambda one: (not one.versions_differ, one.name))


def same_everywhere(environments: Sequence[Pinned]) -> int:
    """How many packages are the same file in each environment."""
    sets = [{record["url"] for record in one.records} for one in environments]
    return len(set.intersection(*sets)) if sets else 0


def table(found: Sequence[Difference]) -> list[str]:
    """The differences as lines of text."""
    if not found:
        return []
    keys = list(found[0].builds)
    rows = [["", *keys]]
    rows += [
        [one.name, *(" ".join(build) if build else "-" for build in one.builds.values())] for one in found
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def moved(before: Iterable[LockedPackage], after: Pinned) -> list[tuple[str, str | None, str | None]]:
    """Name, old and new build of what is another file than in the pin before."""
    old = {one.name: f"{one.version} {one.build}" for one in before}
    new = {record["name"]: f"{record['version']} {record['build']}" for record in after.records}
    return [
        (name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
