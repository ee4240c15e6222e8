"""Mirroring locks: their exact files as channels of their own, for sites without a network.

Below the target: one channel for each source channel, with its labels; ``locks/`` with the locks as they are
used at the mirror; and ``mirror.json``, which says what is a copy of what.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.channel.attestations.sidecar import sigs_additions
from channel_tools.channel.care.yanked import Yanked, read_yanked
from channel_tools.channel.index.encoding import read_all, read_index
from channel_tools.channel.layout import SETTINGS_KEY, SUBDIRS, YANKED_KEY, label_prefix
from channel_tools.channel.settings import Settings
from channel_tools.channel.stores.content import other_content
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.opening import open_store
from channel_tools.channel.stores.store import NO_CACHE, Store
from channel_tools.channel.transaction.apply import apply
from channel_tools.channel.transaction.change import Addition, Change, Record, Replacement, SubdirChange
from channel_tools.channel.who import publisher
from channel_tools.client.locks.lock_files import Lock
from channel_tools.client.mirroring.fetch import Brought, Fault, Progress, bring
from channel_tools.client.mirroring.plan import (
    LOCKS,
    MANIFEST,
    Plan,
    Source,
    Wanted,
    bases,
    plan_mirror,
    read_known,
)
from channel_tools.client.mirroring.rewrite import rewritten
from channel_tools.model import environment
from channel_tools.model.errors import ChannelError
from channel_tools.model.redaction import redact


@dataclass(frozen=True)
class Mirrored:
    """What a run did; sizes in bytes. ``missing`` is what a dry run would fetch."""

    plan: Plan
    address: str
    fetched: tuple[Wanted, ...]
    present: tuple[Wanted, ...]
    missing: tuple[Wanted, ...]
    locks: tuple[str, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        def shown(some: Sequence[Wanted]) -> list[dict[str, Any]]:
            return [{"url": redact(one.place.url), "sha256": one.sha256, "size": one.size} for one in some]

        return {
            "address": self.address,
            "channels": {redact(one.url): one.folder for one in self.plan.sources},
            "fetched": shown(self.fetched),
            "present": len(self.present),
            "missing": shown(self.missing),
            "locks": list(self.locks),
            "notes": list(self.notes),
        }


def mirror(
    locks: Sequence[Lock],
    to: str,
    *,
    url: str | None = None,
    dry_run: bool = False,
    progress: Progress = lambda name, there, size: None,
    say: Callable[[str], None] = lambda line: None,
) -> Mirrored:
    """Mirror the files of locks. What is there already is not fetched again.

    :param to: folder, ``file://`` or ``s3://bucket/prefix``
    :param url: where the mirror will be read; None: at ``to``
    :raises LockError: the locks cannot be mirrored together
    :raises ChannelError: files that the source has not, or others than the locks say; everything else is
        there and indexed, and a further run fetches only what is missing
    :raises StorageError: the mirror cannot be written
    """
    locks = list({lock.path.resolve(): lock for lock in locks}.values())
    root = open_store(to)
    at = (url or _address(root)).rstrip("/")
    known = read_known(root)
    _refuse_others(root)
    plan = plan_mirror(locks, known)
    for source in plan.sources:
        if source.folder not in known.values():
            _refuse_others(open_store(f"{to.rstrip('/')}/{source.folder}"))
    texts = rewritten(locks, plan, at)
    channels = {**known, **{one.url: one.folder for one in plan.sources}}
    if not dry_run:  # first: a later run must find the same folders, however this one ends
        manifest = {"version": 1, "address": at, "channels": dict(sorted(channels.items()))}
        _write(root, MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    parts = _parts(root)
    fetched: list[Wanted] = []
    present: list[Wanted] = []
    missing: list[Wanted] = []
    faults: list[Fault] = []
    for source in plan.sources:
        store = open_store(f"{to.rstrip('/')}/{source.folder}")
        here, wanted = _split(store, source)
        present += here
        missing += wanted
        if dry_run:
            continue
        brought: list[Brought] = []
        try:
            for one in bring(store, wanted, parts, progress):
                if isinstance(one, Fault):
                    faults.append(one)
                else:
                    brought.append(one)
                    (fetched if one.fetched else present).append(one.wanted)
        finally:
            # Also when interrupted: what has arrived is of use without the rest.
            _index(store, source, _moved(source.settings, channels, at), brought, say)
    if not dry_run and not faults:
        for name, text in texts.items():
            _write(root, f"{LOCKS}/{name}", text.encode())
    if not dry_run:
        _tidy(parts)
    if faults:
        raise ChannelError(
            f"{len(faults)} files could not be mirrored; {len(fetched) + len(present)} are there and indexed",
            where=root.address,
            found="; ".join(f"{fault.where}: {fault.text}" for fault in faults),
            wanted="the files that the locks name",
            fix="`rocm-channel pin --check` says which builds were yanked or replaced: pin again. Or run "
            "this again when the source is back: only what is missing is fetched",
        )
    return Mirrored(
        plan,
        at,
        tuple(fetched),
        tuple(present),
        tuple(missing if dry_run else ()),
        tuple(f"{LOCKS}/{name}" for name in texts),
        plan.notes,
    )


def _refuse_others(store: Store) -> None:
    """Refuse a channel that is there and is none of this mirror: perhaps the very one that is mirrored.

    :raises ChannelError: there is one
    """
    if store.read(SETTINGS_KEY) is not None or any(
        store.stat(f"{subdir}/repodata.json") is not None for subdir in SUBDIRS
    ):
        raise ChannelError(
            "is a channel already, and none of this mirror",
            where=store.address,
            found=f"no {MANIFEST} above it that names it",
            wanted="a folder or prefix for several channels, with one folder each",
            fix="choose another --to",
        )


def _split(store: Store, source: Source) -> tuple[list[Wanted], list[Wanted]]:
    """What the mirror's index has and what is there, and the rest."""
    present = read_all(store)
    here: list[Wanted] = []
    missing: list[Wanted] = []
    for one in source.wanted:
        index = present.get(one.subdir_key)
        record = index.records.get(one.place.file) if index else None
        yanked = index is not None and one.place.file in index.removed
        if record is not None and one.sha256 and record.get("sha256") != one.sha256:
            raise other_content(f"{store.address}/{one.key}")
        stat = store.stat(one.key) if record is not None or yanked else None
        size = record.get("size") if record is not None else one.size
        done = stat is not None and size in (None, stat.size)
        (here if done else missing).append(one)
    return here, missing


def _moved(settings: Settings, folders: Mapping[str, str], at: str) -> Settings:
    """The settings with the mirror's own channels as those of dependencies, where it has them."""
    names = settings.dependency_channels
    there = tuple(
        f"{at}/{folders[base]}" if base in folders else name
        for name, base in zip(names, bases(names) if names else (), strict=True)
    )
    return settings.model_copy(update={"dependency_channels": there})


def _index(
    store: Store,
    source: Source,
    settings: Settings,
    brought: Sequence[Brought],
    say: Callable[[str], None],
) -> None:
    """One transaction: records, attestations, settings and yanked builds; an empty channel where none is."""

    def plan(view: Store) -> Change:
        subdirs: dict[str, dict[str, Record]] = {
            f"{label_prefix(label)}{subdir}": {} for label in (None, *source.labels) for subdir in SUBDIRS
        }
        additions: list[Addition] = []
        replacements: dict[str, Replacement] = {}
        yanked = Yanked(dict(read_yanked(view).entries))
        for one in source.wanted:
            if one.yank is not None:
                yanked.entries[one.key] = dict(one.yank)
        removed = {key: read_index(view, key).removed for key in subdirs}
        for found in brought:
            one, key = found.wanted, found.wanted.subdir_key
            if found.sidecar is not None:
                addition, (alias, replacement), _ = sigs_additions(one.key, found.sidecar)
                additions.append(addition)
                replacements[alias] = replacement
            if one.place.file not in removed[key]:
                subdirs[key][one.place.file] = found.record
        if yanked.entries != read_yanked(view).entries:
            replacements[YANKED_KEY] = Replacement(yanked.to_bytes(), NO_CACHE)
        if view.read(SETTINGS_KEY) != settings.to_bytes():
            replacements[SETTINGS_KEY] = Replacement(settings.to_bytes(), NO_CACHE)
        changes = {}
        for key, records in subdirs.items():
            listed = {*records, *read_index(view, key).records}
            gone = frozenset(file for file in listed if f"{key}/{file}" in yanked.entries)
            changes[key] = SubdirChange(add=records, yank=gone)
        return Change("mirror", tuple(additions), changes, replacements)

    apply(store, who=publisher(), plan=plan, say=say)


def _address(root: Store) -> str:
    return root.path.resolve().as_uri() if isinstance(root, FolderStore) else root.address


def _parts(root: Store) -> Path:
    """Folder for unfinished downloads: in the mirror, or in the cache of this user for one on S3."""
    if isinstance(root, FolderStore):
        return root.path / ".parts"
    cache = environment.read_path("XDG_CACHE_HOME") or Path.home() / ".cache"
    return cache / "rocm-channel" / "mirror"


def _tidy(parts: Path) -> None:
    """Take away the folders of parts that are empty now."""
    for folder in (*parts.glob("*"), parts):
        if folder.is_dir() and not any(folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)


def _write(root: Store, key: str, content: bytes) -> None:
    if isinstance(root, FolderStore):
        from channel_tools.model.files import written_whole

        with written_whole(root.path / key) as temporary:
            temporary.write_bytes(content)
        return
    found = root.read_with_etag(key)
    if found is None or found[0] != content:
        root.replace(key, content, expect=found[1] if found else None, cache=NO_CACHE)
