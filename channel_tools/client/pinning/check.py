"""Does a pinned file still hold? Each package against the channels' present indexes, and all in one solve.

A pin holds when every package is there, as the same file, and the solver still puts them together. What is
newer, and whether it is for this host's GPU and ROCm, is information.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote

from channel_tools import rattler_process
from channel_tools.channel.care.yanked import yanked_notes
from channel_tools.channel.layout import ARCH_PACKAGE
from channel_tools.client.host import Host, isa_of
from channel_tools.client.locks.lock_files import Lock, LockedEnvironment, LockedPackage, usable
from channel_tools.client.pinning.pin import BASE
from channel_tools.client.pinning.update import all_records, the_same
from channel_tools.client.reader import open_dependency, open_reader, reading_error
from channel_tools.client.solved_checks import arch_of, rocm_of
from channel_tools.client.solving import Record, host_packages
from channel_tools.model.errors import ChannelToolsError
from channel_tools.model.redaction import redact

State = Literal["ok", "yanked", "replaced", "missing"]


@dataclass(frozen=True)
class PackageState:
    """What became of one package; ``detail`` is the reason of a yank, or what lies in its place."""

    package: LockedPackage
    state: State
    detail: str = ""
    newer: tuple[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        newer = self.newer and {"version": self.newer[0], "build": self.newer[1]}
        return {"file": self.package.file, "state": self.state, "detail": self.detail, "newer": newer}


@dataclass(frozen=True)
class Checked:
    """One environment of one file: ``reason`` says why it does not solve, ``host`` how this host differs."""

    lock: Lock
    environment: LockedEnvironment
    states: tuple[PackageState, ...]
    reason: str | None
    host: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return self.reason is None and all(one.state == "ok" for one in self.states)

    def to_json(self) -> dict[str, Any]:
        return {
            "file": str(self.lock.path),
            "format": self.lock.format,
            "environment": self.environment.title,
            "arch": self.environment.arch,
            "rocm": self.environment.rocm,
            "holds": self.holds,
            "solves": self.reason is None,
            "reason": self.reason,
            "packages": [one.to_json() for one in self.states],
            "host": list(self.host),
            "notes": list(self.notes),
        }


def check_locks(locks: Sequence[Lock], host: Host) -> list[Checked]:
    """Check every environment of every lock; what several of them ask of a channel is asked once.

    Environments of other systems are only named.

    :raises LockError: a lock has no other ones
    :raises ChannelError: a channel cannot be read, so nothing can be said
    :raises AccessError: a channel wants a credential
    """
    asked = _Asked({}, {}, [one for one in host_packages() if one[0] in BASE])
    found = []
    for lock in locks:
        here = usable(lock)
        others = [one.title for one in lock.environments if one.is_of_other_system]
        notes = [f"for another system, and not looked at: {', '.join(others)}"] if others else []
        found += [_checked(lock, one, host, asked, notes) for one in here]
    return found


@dataclass(frozen=True)
class _Asked:
    """Answers by question, and this host's virtual packages."""

    offers: dict[tuple[tuple[str, ...], ...], tuple[list[list[Record]], list[str]]]
    solves: dict[tuple[tuple[str, ...], ...], str | None]
    base: list[list[str]]


def _checked(
    lock: Lock, environment: LockedEnvironment, host: Host, asked: _Asked, said: Sequence[str]
) -> Checked:
    channels = [open_dependency(one) for one in environment.channels]
    names = sorted({one.name for one in environment.packages})
    question = (tuple(channels), tuple(names))
    if question not in asked.offers:
        asked.offers[question] = _offered(channels, names)
    offered, notes = asked.offers[question][0], [*said, *asked.offers[question][1]]
    states = []
    for one in environment.packages:
        states.append(_state(one, offered, environment))
    lost = [one for one in states if one.state == "missing"]
    if lost:
        states = _with_yanks(states, channels, environment)
    if environment.other:
        notes.append(f"{len(environment.other)} packages of pip were not looked at")
    unhashed = sum(one.sha256 is None for one in environment.packages)
    if unhashed and lock.format != "environment":
        notes.append(f"{unhashed} packages have no sha256 in the file")
    gone = [one for one in states if one.state in ("yanked", "missing")]
    if gone:
        reason: str | None = "no index has " + ", ".join(one.package.file for one in gone)
    else:
        specs = tuple(sorted(f"{one.name} =={one.version} {one.build}" for one in environment.packages))
        if (tuple(channels), specs) not in asked.solves:
            asked.solves[tuple(channels), specs] = _solve(channels, specs, environment, asked.base)
        reason = asked.solves[tuple(channels), specs]
    return Checked(lock, environment, tuple(states), reason, tuple(_host(environment, host)), tuple(notes))


def _offered(channels: Sequence[str], names: Sequence[str]) -> tuple[list[list[Record]], list[str]]:
    found: list[list[Record]] = []
    notes = []
    for url, records in zip(channels, all_records(channels, names), strict=True):
        if not isinstance(records, str):
            found.append(records)
            continue
        if "could not find subdir" not in records and "(404" not in records:
            raise reading_error(redact(url), records)
        notes.append(f"{redact(url)} is no channel any more")
        found.append([])
    return found, notes


def _state(
    package: LockedPackage, offered: Sequence[Sequence[Record]], environment: LockedEnvironment
) -> PackageState:
    place = package.place
    replaced = None
    for records in offered:
        here = [one for one in records if one["name"] == package.name]
        if place is not None:
            here = [one for one in here if one["url"].split("://")[-1].split("/")[-2] == place.subdir]
        record = the_same(package, here)
        if record is not None:
            return PackageState(package, "ok", "", _newer(record, here, environment))
        for other in here:
            if replaced is None and unquote(other["url"].rpartition("/")[2]) == package.file:
                detail = f"sha256 {other['sha256']} in the place of {package.sha256}"
                replaced = PackageState(package, "replaced", detail)
    return replaced or PackageState(package, "missing")


def _newer(record: Record, here: Sequence[Record], environment: LockedEnvironment) -> tuple[str, str] | None:
    """The highest build that is newer, for the same GPU, ROCm and Python; the records come newest first."""
    for other in here:
        if other["url"] == record["url"]:
            return None
        number, present = other["record"]["build_number"], record["record"]["build_number"]
        if other["version"] == record["version"] and number <= present:
            return None
        fits = record["name"] != ARCH_PACKAGE and all(
            of(other) == of(record) for of in (arch_of, rocm_of, _python)
        )
        if fits:
            return other["version"], other["build"]
    return None


def _python(record: Record) -> str | None:
    parts = str(record["build"]).replace("-", "_").split("_")
    return next((part for part in parts if part.startswith("py3") and part[2:].isdigit()), None)


def _with_yanks(
    states: Sequence[PackageState], channels: Sequence[str], environment: LockedEnvironment
) -> list[PackageState]:
    """What is missing, with the reason where its channel says that it was yanked."""
    reasons: dict[str, str] = {}
    for base in dict.fromkeys(url.partition("/label/")[0] for url in channels):
        if "://" not in base:
            continue
        try:
            files = open_reader(base).look().files
        except ChannelToolsError:
            continue
        for one in states:
            if one.state == "missing":
                place = one.package.place
                urls = (
                    [place.url]
                    if place is not None
                    else [f"{base}/{subdir}/{one.package.file}{suffix}" for subdir, suffix in _FORMS]
                )
                if found := yanked_notes(files, urls):
                    reasons[one.package.file] = found[0].partition(" was ")[2] or found[0]
    return [
        PackageState(one.package, "yanked", reasons[one.package.file])
        if one.state == "missing" and one.package.file in reasons
        else one
        for one in states
    ]


_FORMS = [(subdir, suffix) for subdir in ("linux-64", "noarch") for suffix in (".conda", ".tar.bz2")]


def _solve(
    channels: Sequence[str],
    specs: Sequence[str],
    environment: LockedEnvironment,
    base: Sequence[Sequence[str]],
) -> str | None:
    """Why the pinned packages do not go together any more; None where they do."""
    asked: Mapping[str, Any] = {
        "channels": list(channels),
        "specs": list(specs),
        "virtual": [list(one) for one in base] + _declared(environment),
    }
    try:
        answer = rattler_process.call("pin", dict(asked))
    except rattler_process.RattlerCallError as error:
        raise reading_error("the channels of the lock", str(error)) from error
    if "refused" in answer:
        return redact(" ".join(str(answer["refused"]).split()))
    more = {one["name"] for one in answer["records"]} - {one.name for one in environment.packages}
    return f"it needs more than the file has: {', '.join(sorted(more))}" if more else None


def _declared(environment: LockedEnvironment) -> list[list[str]]:
    """Virtual packages of a host that the environment is for."""
    found = []
    if environment.arch is not None:
        found += [["__amdgpu", "0", "0"], ["__amdgpu_arch", isa_of(environment.arch), "0"]]
    if environment.rocm is not None:
        found.append(["__rocm_userspace", environment.rocm, "0"])
    return found


def _host(environment: LockedEnvironment, host: Host) -> list[str]:
    notes = []
    here = [arch.target for arch in host.archs]
    if environment.arch and here and environment.arch not in here:
        notes.append(f"is for {environment.arch}, and this host has {', '.join(here)}")
    elif environment.arch and not here:
        notes.append(f"is for {environment.arch}; this host has no AMD GPU")
    if environment.rocm and host.rocm and environment.rocm != host.rocm:
        notes.append(f"is for ROCm {environment.rocm}, and this host has {host.rocm}")
    return notes
