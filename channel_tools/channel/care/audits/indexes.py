"""The forms of one index against each other: json, zst, shards, run exports and patch instructions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from channel_tools.channel.care.audits.findings import Finding, listed
from channel_tools.channel.care.yanked import Yanked
from channel_tools.channel.index.encoding import SubdirIndex
from channel_tools.channel.index.patches import read_patches
from channel_tools.channel.index.repodata import JSON_FILE, ZST_FILE
from channel_tools.channel.index.run_exports import FILE as RUN_EXPORTS
from channel_tools.channel.index.run_exports import read_run_exports
from channel_tools.channel.index.shards import SHARDS_INDEX, decompressed, read_shard, read_shards_index
from channel_tools.channel.layout import PATCH_FILE
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.change import Record
from channel_tools.model.errors import ChannelError

_REINDEX = "run `rocm-channel channel repair --reindex`, which writes every form anew"


def check_index(
    store: Store, index: SubdirIndex, yanked: Yanked, records: Mapping[str, Record]
) -> Iterator[Finding]:
    """What a client reads does not depend on the form that it reads.

    :param records: as the package files give them, by key; of those that could be read
    """
    yield from _zst(store, index)
    try:
        yield from _shards(store, index)
    except ChannelError as error:
        yield _unreadable(index, SHARDS_INDEX, error)
    try:
        yield from _run_exports(store, index, records)
    except ChannelError as error:
        yield _unreadable(index, RUN_EXPORTS, error)
    try:
        yield from _yanked(store, index, yanked)
    except ChannelError as error:
        yield _unreadable(index, PATCH_FILE, error)


def _unreadable(index: SubdirIndex, file: str, error: ChannelError) -> Finding:
    return Finding(
        f"{index.key}/{file}", "index", error.what, error.found, error.wanted, error.fix or _REINDEX
    )


def _zst(store: Store, index: SubdirIndex) -> Iterator[Finding]:
    plain, packed = (store.read(f"{index.key}/{name}") for name in (JSON_FILE, ZST_FILE))
    for name, content in ((JSON_FILE, plain), (ZST_FILE, packed)):
        if content is None:
            yield Finding(f"{index.key}/{name}", "index", "is not there", fix=_REINDEX)
    if plain is None or packed is None:
        return
    key = f"{index.key}/{ZST_FILE}"
    try:
        content = decompressed(packed, key)
        same = content == plain or json.loads(content) == json.loads(plain)
    except (ChannelError, ValueError) as error:
        yield Finding(key, "index", "cannot be read", str(error), fix=_REINDEX)
        return
    if not same:
        yield Finding(
            key,
            "index",
            f"differs from {JSON_FILE}, so that clients see two channels",
            f"sha256 {hashlib.sha256(content).hexdigest()}",
            f"sha256 {hashlib.sha256(plain).hexdigest()}",
            _REINDEX,
        )


def _shards(store: Store, index: SubdirIndex) -> Iterator[Finding]:
    key = f"{index.key}/{SHARDS_INDEX}"
    shards = read_shards_index(store, index.key)
    if shards is None:
        yield Finding(key, "index", "is not there", fix=_REINDEX)
        return
    records: dict[str, Record] = {}
    removed: set[str] = set()
    for name, digest in sorted(shards.shards.items()):
        try:
            here, gone = read_shard(store, index.key, digest)
        except ChannelError as error:
            yield Finding(
                key, "index", f"names a shard of {name} that cannot be used", error.found, fix=_REINDEX
            )
            continue
        strange = [file for file, record in here.items() if record.get("name") != name]
        if strange:
            yield Finding(
                key, "index", f"has other packages in the shard of {name}", listed(strange), fix=_REINDEX
            )
        records.update(here)
        removed |= gone
    differ = [file for file in records.keys() & index.records.keys() if records[file] != index.records[file]]
    for what, files in (
        ("lacks records that repodata.json has", index.records.keys() - records.keys()),
        ("has records that repodata.json lacks", records.keys() - index.records.keys()),
        ("has other records than repodata.json", differ),
        ("does not list the same yanked builds as repodata.json", removed ^ index.removed),
    ):
        if files:
            yield Finding(key, "index", what, listed(files), fix=_REINDEX)


def _run_exports(store: Store, index: SubdirIndex, records: Mapping[str, Record]) -> Iterator[Finding]:
    key = f"{index.key}/{RUN_EXPORTS}"
    if store.stat(key) is None:
        yield Finding(key, "index", "is not there", fix=_REINDEX)
        return
    entries = read_run_exports(store, index.key)
    missing = index.records.keys() - entries.keys()
    if missing:
        yield Finding(key, "index", "has no entry for packages of the index", listed(missing), fix=_REINDEX)
    differ = []
    for at, record in records.items():
        subdir, _, file = at.rpartition("/")
        entry = entries.get(file) if subdir == index.key else None
        if entry is not None:
            said = {kind: specs for kind, specs in (entry.get("run_exports") or {}).items() if specs}
            if said != record.get("run_exports", {}):
                differ.append(file)
    if differ:
        yield Finding(
            key,
            "index",
            "says something else of run exports than the packages do",
            listed(differ),
            fix=_REINDEX,
        )


def _yanked(store: Store, index: SubdirIndex, yanked: Yanked) -> Iterator[Finding]:
    named = {key.rpartition("/")[2] for key in yanked.entries if key.rpartition("/")[0] == index.key}
    patches = read_patches(store, index.key)
    removed = set(patches.get("remove", ())) if patches else set()
    for what, files, fix in (
        (
            "offers a build that yanked.json says is yanked",
            named & index.records.keys(),
            "yank it again, or unyank it",
        ),
        (
            "lists a yanked build that yanked.json has no reason for",
            index.removed - named,
            "restore yanked.json from a backup, or give the reason again: `rocm-channel yank`",
        ),
        (
            "does not list a build that yanked.json says is yanked",
            named - index.removed - index.records.keys(),
            _REINDEX,
        ),
    ):
        if files:
            yield Finding(f"{index.key}/{JSON_FILE}", "yanked", what, listed(files), fix=fix)
    if index.removed - removed:
        yield Finding(
            f"{index.key}/{PATCH_FILE}",
            "yanked",
            "does not leave out what is yanked, so another indexer would offer it",
            listed(index.removed - removed),
            fix=_REINDEX,
        )
    if removed & index.records.keys():
        yield Finding(
            f"{index.key}/{PATCH_FILE}",
            "yanked",
            "leaves out what the index offers",
            listed(removed & index.records.keys()),
            fix="correct that file",
        )
