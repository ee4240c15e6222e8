"""Looking at all of a channel: is every byte, index, label and manifest what the others say it is?

Nothing is written, and no lease is taken: a publish that runs meanwhile shows up as findings, and as the
journal that is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from channel_tools.channel.care.audits.findings import Finding, listed
from channel_tools.channel.care.audits.indexes import check_index
from channel_tools.channel.care.audits.labels import check_labels
from channel_tools.channel.care.audits.packages import Progress, Read, check_packages
from channel_tools.channel.care.audits.releases import check_releases, unreleased
from channel_tools.channel.care.upkeep import State
from channel_tools.channel.care.yanked import Yanked, read_yanked
from channel_tools.channel.index.encoding import SubdirIndex, read_index
from channel_tools.channel.layout import (
    JOURNAL_KEY,
    LEASE_KEY,
    PAGE_KEY,
    RELEASES,
    SETTINGS_KEY,
    SUBDIRS,
    YANKED_KEY,
    is_package,
    is_subdir,
    subdir_key,
)
from channel_tools.channel.release import read_release, release_key
from channel_tools.channel.settings import Settings, read_settings
from channel_tools.channel.stores.lease import MARGIN, holder, until_of
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.journal import AFTER, BEFORE, Journal, read_journal
from channel_tools.model.errors import ChannelError

T = TypeVar("T")
_REPAIR = "run `rocm-channel channel repair`"
_UNSETTLED = ("index", "label", "yanked", "attestation")
"""Subjects of findings that an unfinished transaction gives rise to."""


@dataclass
class Audit:
    """What was found. ``size`` in bytes of the packages that were read; ``notes`` are no differences."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    packages: int = 0
    size: int = 0
    attested: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "findings": [finding.to_json() for finding in self.findings],
            "notes": self.notes,
            "packages": self.packages,
            "bytes": self.size,
            "attested": self.attested,
        }


def audit(
    store: Store,
    *,
    verify: Callable[[str], None] | None = None,
    trusted_root: Path | None = None,
    progress: Progress = lambda key, size: None,
) -> Audit:
    """Look at everything; differences are collected, never raised.

    :param verify: verify each released package again, and tell it to this function; None: do not
    :param trusted_root: for attestations: see :class:`channel_tools.channel.attestations.policy.Policy`
    :param progress: told each package that was read whole
    :raises StorageError: the store cannot be read
    :raises ChannelError: no channel is there
    :raises AttestationError: attestations cannot be checked at all
    """
    result = Audit()
    state = _state(store, result)
    journal = _journal(store, result)
    pending = frozenset((*journal.additions, *journal.deletions) if journal else ())
    result.findings += _left_behind(store, journal)
    read = Read()
    for index in state.indexes.values():
        result.findings += check_packages(store, index, state.yanked, read, progress, pending)
    for index in state.indexes.values():
        if index.exists:
            result.findings += check_index(store, index, state.yanked, read.records)
    result.findings += check_labels(state.indexes)
    result.findings += check_releases(store, state, read.records, verify)
    result.findings += _attestations(store, state, trusted_root, result)
    result.findings = [finding for finding in result.findings if not _explained(finding, journal)]
    names = [key for key in unreleased(state) if key not in pending]
    if names:
        result.notes.append(f"no release manifest names {listed(names)}")
    result.packages, result.size = len(read.records), read.size
    result.findings.sort()
    return result


def _state(store: Store, result: Audit) -> State:
    """As much of the channel as can be read; the rest becomes findings."""

    def tried(key: str, reader: Callable[[], T], other: T) -> T:
        try:
            return reader()
        except ChannelError as error:
            fix = error.fix or "restore it from a backup"
            result.findings.append(Finding(key, "index", error.what, error.found, error.wanted, fix))
            return other

    keys = {subdir_key(None, subdir) for subdir in SUBDIRS}
    manifests = []
    for stat in store.list(""):
        folder, _, name = stat.key.rpartition("/")
        if is_package(stat.key) or (name.startswith("repodata") and is_subdir(folder)):
            keys.add(folder)
        elif stat.key.startswith(RELEASES) and name.endswith(".json"):
            manifests.append(name.removesuffix(".json"))
    indexes = {key: tried(key, partial(read_index, store, key), SubdirIndex(key)) for key in sorted(keys)}
    settings: Settings | None = tried(SETTINGS_KEY, partial(read_settings, store), None)
    if settings is None and not result.findings and not any(index.exists for index in indexes.values()):
        raise ChannelError("no channel is here", where=store.address, fix="check the address")
    if settings is None and store.stat(SETTINGS_KEY) is None:
        result.notes += _without_settings(result, bool(manifests))
    for index in indexes.values():
        if not index.exists and not any(f.key == index.key for f in result.findings):
            result.findings.append(
                Finding(index.key, "index", "has no index", fix="run `rocm-channel channel repair`")
            )
    if store.stat(PAGE_KEY) is None:
        result.notes.append("there is no channel page: the next publish writes it")
    releases = [tried(release_key(name), partial(read_release, store, name), None) for name in manifests]
    yanked = tried(YANKED_KEY, partial(read_yanked, store), Yanked())
    return State(settings or Settings(), indexes, yanked, tuple(r for r in releases if r is not None))


def _without_settings(result: Audit, released: bool) -> list[str]:
    """A folder of builds can do without settings; what was published to relies on them."""
    if not released:
        return [f"there is no {SETTINGS_KEY}: `rocm-channel channel init` writes it"]
    fix = "restore it from a backup, or say all of it again: `rocm-channel channel init`"
    what = "is gone: nothing says any more whether the channel requires attestations, and whose"
    result.findings.append(Finding(SETTINGS_KEY, "settings", what, fix=fix))
    return []


def _journal(store: Store, result: Audit) -> Journal | None:
    """The journal, as one finding that also says who holds the channel."""
    try:
        journal = read_journal(store)
    except ChannelError as error:
        result.findings.append(Finding(JOURNAL_KEY, "control", error.what, error.found, fix=error.fix))
        return None
    if journal is None:
        return None
    entry = holder(store)
    busy = entry is not None and not _ran_out(store, entry)
    fix = "audit again later; if it died, run `rocm-channel channel repair`" if busy else _REPAIR
    what = f"is of an unfinished transaction: {journal[0].describe()}"
    found = f"{entry.get('who')} holds the channel" if busy and entry else None
    result.findings.append(Finding(JOURNAL_KEY, "control", what, found, fix=fix))
    return journal[0]


def _explained(finding: Finding, journal: Journal | None) -> bool:
    """Is it only that some files were switched, and some not yet?"""
    if journal is None or journal.phase != "switching" or finding.subject not in _UNSETTLED:
        return False
    switched = {switch.key for switch in journal.switches}
    subdirs = {key.rpartition("/")[0] for key in switched if "/" in key}
    return finding.key in switched | subdirs or f"{finding.key}.sigs" in switched


def _ran_out(store: Store, entry: Mapping[str, Any]) -> bool:
    return store.now() > until_of(dict(entry)) + MARGIN


def _left_behind(store: Store, journal: Journal | None) -> Iterator[Finding]:
    """A lease, files that a transaction keeps, and unfinished uploads."""
    entry = holder(store)
    if entry is not None and journal is None:
        stale = _ran_out(store, entry)
        what = "is a lease that ran out" if stale else "is held: somebody is changing the channel right now"
        fix = _REPAIR if stale else "audit later"
        yield Finding(LEASE_KEY, "control", what, str(entry.get("who")), fix=fix)
    left = [stat.key for prefix in (BEFORE, AFTER) for stat in store.list(prefix)]
    if left and journal is None:
        yield Finding(left[0], "control", "was left by a transaction that is over", listed(left), fix=_REPAIR)
    stray = getattr(store, "stray", None)
    for key in stray() if stray else ():
        yield Finding(
            key, "control", "is an upload that was not finished", fix="`rocm-channel prune` removes it"
        )


def _attestations(store: Store, state: State, trusted_root: Path | None, result: Audit) -> Iterator[Finding]:
    if state.settings.attestations == "off":
        return
    from channel_tools.channel.attestations.check import check_store
    from channel_tools.channel.attestations.policy import Policy

    records = {
        f"{key}/{file}": r for key, index in state.indexes.items() for file, r in index.records.items()
    }
    if not records:
        return
    if state.settings.url is None:
        yield Finding(
            SETTINGS_KEY,
            "attestation",
            "demands attestations and has no URL that they could name",
            fix=f"`rocm-channel channel init {quote(store.address)} --change --url https://...`",
        )
        return
    policy = Policy.of(state.settings, trusted_root)
    outcomes, faults = check_store(store, records, state.settings.url, policy)
    for key, outcome in zip(sorted(records), outcomes, strict=True):
        if outcome.verified:
            result.attested += 1
        elif state.settings.attestations == "require":
            error = outcome.error()
            yield Finding(key, "attestation", error.what, error.found, error.wanted, error.fix)
        else:
            result.notes.append(outcome.text)
    for fault in faults:
        key, _, what = fault.partition(" ")
        yield Finding(
            key, "attestation", what, fix="publish or promote it again, or restore it from a backup"
        )
