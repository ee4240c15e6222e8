"""Moving a pin: some packages go up as far as possible, and the others only where they must."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from channel_tools import rattler_process
from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE
from channel_tools.client.locks.lock_files import LockedPackage
from channel_tools.client.pinning.pin import Locked
from channel_tools.client.reader import reading_error
from channel_tools.client.solved_checks import arch_of, rocm_of
from channel_tools.client.solving import Record
from channel_tools.model.arch import Arch
from channel_tools.model.errors import LockError

TRIES = 20
"""Builds of a package that are tried, from the newest down."""

Solve = Callable[..., dict[str, Any]]


def updated(
    asked: Mapping[str, Any],
    solve: Solve,
    arch: Arch,
    rocm: str | None,
    locked: Locked,
    notes: list[str],
) -> dict[str, Any]:
    """The pin of one GPU target with some packages moved; the answer of the task ``pin``.

    For each package to move, its builds are tried from the newest down to the present one, each time with all
    others locked: the solver moves one of those only where it is in the way.

    :param solve: asks the task ``pin`` with further keys
    :raises LockError: the pin has no such environment or package
    :raises DependencyError: the environment is possible no more
    """
    before = locked.packages.get(arch.target)
    if before is None:
        raise LockError(
            f"the earlier pin has no environment for {arch.target}", fix="pin it first, without --update"
        )
    names = {one.name for one in before}
    unknown = sorted(set(locked.update) - names)
    if unknown:
        raise LockError(
            f"{', '.join(unknown)}: not in the pin for {arch.target}, so it cannot be moved",
            wanted="a package of the pin",
            fix="to add one, name it in the environment.yml and pin again, without --update",
        )
    offered = on_offer(asked["channels"], sorted(names))
    current = [record for one in before if (record := the_same(one, offered.get(one.name, ()))) is not None]
    gone = [one for one in before if the_same(one, offered.get(one.name, ())) is None]
    notes += [f"{one.file} is in no channel's index any more, and moves" for one in gone]
    answer: dict[str, Any] = {}
    for name in locked.update:
        present = next((one for one in current if one["name"] == name), None)
        newer = _newer(offered.get(name, ()), present, arch, rocm)
        tries = [[f"{name} =={one['version']} {one['build']}"] for one in newer] + [[]]
        others = [one["record"] for one in current if one["name"] != name]
        if present is not None:  # the last try leaves it, with all others, as it is
            tries[-1] = [f"{name} =={present['version']} {present['build']}"]
        answer = solve(tries=tries, locked=others)
        if answer["taken"] >= len(newer) and present is not None:
            notes.append(f"{name} stays at {present['version']} {present['build']}: nothing newer fits")
        current = answer["records"]
    return answer


def on_offer(channels: Sequence[str], names: Sequence[str]) -> dict[str, list[Record]]:
    """All records of names, by strict priority: of the first channel that has the name.

    :raises ChannelError: a channel cannot be read
    """
    found: dict[str, list[Record]] = {}
    for url, records in zip(channels, all_records(channels, names), strict=True):
        if isinstance(records, str):
            raise reading_error(url, records)
        here: dict[str, list[Record]] = {}
        for record in records:
            here.setdefault(record["name"], []).append(record)
        for name, some in here.items():
            if name in (ARCH_PACKAGE, ROCM_PACKAGE):
                found.setdefault(name, []).extend(some)
            else:
                found.setdefault(name, some)
    return found


def all_records(channels: Sequence[str], names: Sequence[str]) -> list[list[Record] | str]:
    """Records of names for each channel, the newest first, or why it cannot be read."""
    try:
        answers = rattler_process.call("of_names", {"channels": list(channels), "names": list(names)})
    except rattler_process.RattlerCallError as error:
        return [str(error)] * len(channels)
    return [one["unreachable"] if "unreachable" in one else one["records"] for one in answers]


def the_same(package: LockedPackage, records: Sequence[Record]) -> Record | None:
    """The record of exactly that file."""
    for record in records:
        if record["url"].rpartition("/")[2] == package.file or (
            package.url is None and (record["version"], record["build"]) == (package.version, package.build)
        ):
            digests = (package.sha256, record["sha256"])
            if None in digests or digests[0] == digests[1]:
                return record
    return None


def _newer(records: Sequence[Record], present: Record | None, arch: Arch, rocm: str | None) -> list[Record]:
    found: list[Record] = []
    for record in records:
        if present is not None and record["url"] == present["url"]:
            break
        if arch_of(record) in (None, arch.target) and rocm_of(record) in (
            None,
            rocm and rocm.replace(".", ""),
        ):
            found.append(record)
    return found[:TRIES]
