"""What ``repodata.json`` of one subdir says, and reading it.

Its records are checked for what everybody relies on who reads them here: names that lead nowhere else, and
the fields that name a build.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from channel_tools.channel.index.records import LONGEST_NAME
from channel_tools.channel.index.shards import SHARDS_INDEX, decompressed
from channel_tools.channel.index.texts import load
from channel_tools.channel.layout import SUBDIRS, SUFFIXES, is_subdir, subdir_key
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.change import Record
from channel_tools.model.errors import ChannelError

JSON_FILE = "repodata.json"
ZST_FILE = "repodata.json.zst"
SECTIONS = {".tar.bz2": "packages", ".conda": "packages.conda"}
_FILE_NAME = re.compile(r"[A-Za-z0-9_][!-.0-\[\]-~]*")
_REPAIR = "run `rocm-channel audit` to see what is wrong, and `rocm-channel channel repair` to write it anew"


@dataclass(frozen=True)
class SubdirIndex:
    """What the index of one subdir says.

    :param key: as ``linux-64`` or ``label/gfx942/linux-64``
    :param records: by file name, of both package formats
    :param removed: file names of yanked packages
    :param exists: is there an index?
    :param other: top-level keys of ``repodata.json`` that are none of the above
    :param yanked_records: records of ``removed``, where they are known: after a rebuild
    """

    key: str
    records: Mapping[str, Record] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    exists: bool = False
    other: Mapping[str, Any] = field(default_factory=dict)
    yanked_records: Mapping[str, Record] = field(default_factory=dict)

    @property
    def subdir(self) -> str:
        return self.key.rsplit("/", 1)[-1]


def read_index(store: Store, key: str) -> SubdirIndex:
    """The index of the subdir ``key``, from ``repodata.json`` or, where only that is there, from its zst.

    :raises ChannelError: it cannot be read
    """
    content = store.read(f"{key}/{JSON_FILE}")
    where = f"{store.address}/{key}/{JSON_FILE}"
    if content is None:
        packed = store.read(f"{key}/{ZST_FILE}")
        where = f"{store.address}/{key}/{ZST_FILE}"
        content = None if packed is None else decompressed(packed, where)
    if content is None:
        if store.stat(f"{key}/{SHARDS_INDEX}") is not None:
            raise ChannelError(
                "has sharded repodata, and no repodata.json beside it",
                where=f"{store.address}/{key}",
                fix=_REPAIR,
            )
        return SubdirIndex(key)
    return _parsed(key, content, where)


def read_all(store: Store) -> dict[str, SubdirIndex]:
    """The indexes of the main channel and of every label that is there, by subdir key.

    :raises ChannelError: one of them cannot be read
    """
    keys = {subdir_key(None, subdir) for subdir in SUBDIRS}
    for stat in store.list("label/"):
        key, _, name = stat.key.rpartition("/")
        if name in (JSON_FILE, ZST_FILE, SHARDS_INDEX) and is_subdir(key):
            keys.add(key)
    indexes = {key: read_index(store, key) for key in sorted(keys)}
    return {key: index for key, index in indexes.items() if index.exists}


def repodata(index: SubdirIndex) -> dict[str, Any]:
    """The whole of ``repodata.json``."""
    sections: dict[str, dict[str, Record]] = {section: {} for section in SECTIONS.values()}
    for file_name, record in index.records.items():
        sections[section_of(file_name)][file_name] = record
    info = index.other.get("info")
    return {
        "repodata_version": 1,
        **index.other,
        "info": {**(info if isinstance(info, dict) else {}), "subdir": index.subdir},
        **sections,
        "removed": sorted(index.removed),
    }


def section_of(file_name: str) -> str:
    """Section of ``repodata.json`` and ``run_exports.json`` that a package is in."""
    return SECTIONS[".conda" if file_name.endswith(".conda") else ".tar.bz2"]


def _parsed(key: str, content: bytes, where: str) -> SubdirIndex:
    data = load(content, where, fix=_REPAIR)
    records: dict[str, Record] = {}
    for suffix, section in SECTIONS.items():
        entries = data.pop(section, {})
        if not isinstance(entries, dict):
            raise _damaged(where, f"`{section}` is no mapping")
        for file_name, record in entries.items():
            if not file_name.endswith(suffix) or not is_file_name(file_name):
                raise _damaged(where, f"{file_name!r} in `{section}`")
            fault = fault_of(record)
            if fault:
                raise _damaged(where, f"{file_name}: {fault}")
        records.update(entries)
    removed = data.pop("removed", None) or []
    if not isinstance(removed, list) or not all(
        isinstance(file, str) and file.endswith(SUFFIXES) and is_file_name(file) for file in removed
    ):
        raise _damaged(where, "`removed` is no list of package file names")
    return SubdirIndex(key, records, frozenset(removed) - records.keys(), True, data)


def is_file_name(name: str) -> bool:
    """Is it the name of a file, in ASCII, that leads nowhere else and that every file system takes?"""
    return len(name) <= LONGEST_NAME and _FILE_NAME.fullmatch(name) is not None


def fault_of(record: Any) -> str | None:
    """What is wrong with a record that every reader of the index relies on."""
    if not isinstance(record, dict):
        return "no record"
    for name in ("name", "version", "build"):
        if not isinstance(record.get(name), str):
            return f"no {name}"
    if not record["name"]:
        return "no name"
    if not isinstance(record.get("build_number"), int):
        return "no build_number"
    depends = record.get("depends", [])
    if not isinstance(depends, list) or not all(isinstance(spec, str) for spec in depends):
        return "`depends` is no list of specs"
    return None


def _damaged(where: str, found: str) -> ChannelError:
    return ChannelError("is no index that can be used", where=where, found=found, fix=_REPAIR)
