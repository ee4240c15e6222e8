"""Taking builds back, and bringing them back.

A yanked build leaves the index, so no solve chooses it; its file stays, so locks that name it still install.
The reason is written into ``yanked.json`` and onto the channel page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.channel.care.audits.findings import listed
from channel_tools.channel.care.locks import named_in_locks
from channel_tools.channel.care.upkeep import State, read_state, require_channel, timestamp
from channel_tools.channel.care.yanked import Yanked, public_reason
from channel_tools.channel.index.rebuild import read_record
from channel_tools.channel.layout import YANKED_KEY, label_of
from channel_tools.channel.publishing.checks import specs
from channel_tools.channel.publishing.checks.builds import Build, in_main, of_record
from channel_tools.channel.stores.store import NO_CACHE, Store
from channel_tools.channel.transaction.apply import Applied, apply
from channel_tools.channel.transaction.change import Change, Record, Replacement, SubdirChange
from channel_tools.model.errors import ChannelError
from channel_tools.model.package import SUFFIXES

Say = Callable[[str], None]
_SPEC = "a file name of the channel, or a match spec such as 'vllm-rocm ==0.26.0'"


@dataclass(frozen=True)
class Plan:
    """``keys`` that are yanked or come back, the change that does it, and what the operator should know."""

    keys: tuple[str, ...]
    change: Change
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"keys": list(self.keys), "notes": list(self.notes)}


def yank(
    store: Store,
    spec: str,
    reason: str,
    who: str,
    *,
    locks: Sequence[Path] = (),
    every: bool = False,
    say: Say = lambda line: None,
) -> tuple[Plan, Applied]:
    """Take builds back, as one transaction. See :func:`plan_yank`."""
    require_channel(store)
    made: list[Plan] = []

    def plan(view: Store) -> Change:
        made.append(plan_yank(view, spec, reason, who, locks=locks, every=every))
        return made[-1].change

    applied = apply(store, who=who, say=say, plan=plan)
    return made[-1], applied


def unyank(
    store: Store, spec: str, who: str, *, every: bool = False, say: Say = lambda line: None
) -> tuple[Plan, Applied]:
    """Bring builds back, as one transaction. See :func:`plan_unyank`."""
    require_channel(store)
    made: list[Plan] = []

    def plan(view: Store) -> Change:
        made.append(plan_unyank(view, spec, every=every))
        return made[-1].change

    applied = apply(store, who=who, say=say, plan=plan)
    return made[-1], applied


def plan_yank(
    store: Store, spec: str, reason: str, who: str, *, locks: Sequence[Path] = (), every: bool = False
) -> Plan:
    """What a yank would do.

    :param spec: a file name, a key, or a match spec: ``vllm-rocm ==0.26.0``
    :param locks: lock files; the notes name those that hold a build that is yanked
    :param every: take several versions or build numbers at once
    :raises ChannelError: no reason is given; nothing, or several versions, fit ``spec``
    """
    reason = public_reason(reason)
    state = read_state(store)
    named = named_in_locks(locks)
    there: dict[str, Build | None] = {
        f"{subdir}/{file}": of_record(subdir, file, record)
        for subdir, index in state.indexes.items()
        for file, record in index.records.items()
    }
    gone = _yanked(state)
    # What lost its entry with a yanked.json can be given one again.
    there.update({key: build for key, build in gone.items() if key not in state.yanked.entries})
    keys = _chosen(store, spec, there, every, elsewhere=gone, other="is yanked already")
    yanked = Yanked(dict(state.yanked.entries))
    for key in keys:
        subdir, _, file = key.rpartition("/")
        record = state.indexes[subdir].records.get(file) or _record_of_file(store, state, key)
        yanked.entries[key] = {
            "reason": reason,
            "who": who,
            "when": timestamp(store),
            "record": record and dict(record),
        }
    files_of: dict[str, set[str]] = {}
    for key in keys:
        files_of.setdefault(key.rpartition("/")[0], set()).add(key.rpartition("/")[2])
    subdirs = {subdir: SubdirChange(yank=frozenset(files)) for subdir, files in files_of.items()}
    files = sorted({key.rpartition("/")[2] for key in keys})
    notes = [f"{lock} names {file}, and still installs it" for file in files for lock in named.get(file, ())]
    notes += [f"{build} can no longer be installed: {spec}" for build, spec in _broken(state, subdirs)]
    replacements = {
        **state.page(store, subdirs, yanked),
        YANKED_KEY: Replacement(yanked.to_bytes(), NO_CACHE),
    }
    change = Change("yank", subdirs=subdirs, replacements=replacements)
    return Plan(tuple(keys), change, tuple(notes))


def plan_unyank(store: Store, spec: str, *, every: bool = False) -> Plan:
    """What an unyank would do.

    :raises ChannelError: nothing that is yanked fits ``spec``, or its file is gone, or is another one
    :raises DamagedFileError: its record is not known, and its file cannot be read
    """
    state = read_state(store)
    gone = _yanked(state)
    there = {build.where: build for build in in_main(state.indexes)}
    keys = _chosen(store, spec, gone, every, elsewhere=there, other="is not yanked")
    yanked = Yanked({key: entry for key, entry in state.yanked.entries.items() if key not in keys})
    back: dict[str, dict[str, Record]] = {}
    for key in keys:
        record = state.yanked.entries.get(key, {}).get("record") or _record_of_file(store, state, key)
        if record is None or store.stat(key) is None:
            raise ChannelError(
                "cannot come back: its file is not there any more",
                where=f"{store.address}/{key}",
                fix="publish it again with a higher build number",
            )
        build = gone[key]
        if build is not None and build.declared != (label_of(key) is not None):
            raise ChannelError(
                "cannot come back: it lies where it would reach hosts that it is not for",
                where=f"{store.address}/{key}",
                wanted="declared builds in their labels, and nothing else there",
            )
        subdir, _, file = key.rpartition("/")
        back.setdefault(subdir, {})[file] = record
    subdirs = {subdir: SubdirChange(unyank=records) for subdir, records in back.items()}
    replacements = {
        **state.page(store, subdirs, yanked),
        YANKED_KEY: Replacement(yanked.to_bytes(), NO_CACHE),
    }
    return Plan(tuple(keys), Change("unyank", subdirs=subdirs, replacements=replacements))


def _yanked(state: State) -> dict[str, Build | None]:
    """Yanked builds by key, also those that only an index lists as removed."""
    removed = {f"{subdir}/{file}" for subdir, index in state.indexes.items() for file in index.removed}
    keys = removed | state.yanked.entries.keys()
    return {key: _of_entry(key, state.yanked.entries.get(key, {})) for key in keys}


def _record_of_file(store: Store, state: State, key: str) -> Record | None:
    """The record of a yanked build that lost it; None where its file is gone.

    :raises ChannelError: the file is not the one that was published
    """
    record = read_record(store, key)
    published = {file.sha256 for release in state.releases for file in release.files if file.key == key}
    if record is not None and published and record["sha256"] not in published:
        raise ChannelError(
            "is another file than was published",
            where=f"{store.address}/{key}",
            found=f"sha256 {record['sha256']}",
            wanted=f"sha256 {', '.join(sorted(published))}",
            fix="restore it from a backup",
        )
    return record


def _of_entry(key: str, entry: dict[str, Any]) -> Build | None:
    from channel_tools.channel.publishing.checks.builds import of_file

    subdir, _, file = key.rpartition("/")
    record = entry.get("record")
    return of_record(subdir, file, record) if record else of_file(subdir, file)


def _chosen(
    store: Store,
    spec: str,
    builds: Mapping[str, Build | None],
    every: bool,
    *,
    elsewhere: Mapping[str, Build | None],
    other: str,
) -> list[str]:
    """Keys of the builds that a spec selects; a file name selects the file in each subdir that has it."""
    keys = _fitting(spec, builds)
    if not keys:
        there = _fitting(spec, elsewhere)
        if there:
            raise ChannelError(f"{spec}: {other}", where=store.address, found=listed(there))
        raise ChannelError(f"nothing fits {spec}", where=store.address, wanted=_SPEC)
    kinds = sorted({(b.name, b.version, b.number) for key in keys if (b := builds[key]) is not None})
    if len(kinds) > 1 and not every:
        raise ChannelError(
            f"{spec} fits several versions or build numbers",
            where=store.address,
            found="; ".join(f"{name} {version} build {number}" for name, version, number in kinds[:12]),
            wanted="one version and build number at a time",
            fix="say which, as '{}[version=\"{}\",build_number={}]', or take them all with --all".format(
                *kinds[-1]
            ),
        )
    return keys


def _fitting(spec: str, builds: Mapping[str, Build | None]) -> list[str]:
    if spec.endswith(SUFFIXES):
        return sorted(key for key in builds if key == spec or key.rpartition("/")[2] == spec)
    if specs.parse(spec) is None:
        raise ChannelError(f"{spec or 'an empty text'} is neither a file name nor a match spec", wanted=_SPEC)
    return sorted(key for key, build in builds.items() if build is not None and specs.matching(spec, [build]))


def _broken(state: State, subdirs: dict[str, SubdirChange]) -> list[tuple[Build, str]]:
    """Builds of the main channel with a dependency that only yanked builds provided."""
    before: dict[str, list[Build]] = {}
    after: dict[str, list[Build]] = {}
    for build in in_main(state.indexes):
        before.setdefault(build.name, []).append(build)
    for build in in_main(state.after(subdirs)):
        after.setdefault(build.name, []).append(build)
    names = {b.name for b in in_main(state.indexes)} & {
        build.name for name in before for build in before[name] if before[name] != after.get(name)
    }
    return [
        (build, spec)
        for build in in_main(state.after(subdirs))
        for spec in build.depends
        if (name := specs.name_of(spec)) in names
        and specs.matching(spec, before[str(name)])
        and not specs.matching(spec, after.get(str(name), ()))
    ]
