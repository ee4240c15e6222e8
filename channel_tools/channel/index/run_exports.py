"""``run_exports.json`` (CEP 12): what each package file of a subdir says, also of the yanked ones.

A package without run exports has an empty entry. One of which nobody has looked at them (an index that
another tool wrote, without this file) has none, so that whoever needs them reads the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from channel_tools.channel.index.repodata import SECTIONS, section_of
from channel_tools.channel.index.texts import dump, load
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.change import Record
from channel_tools.model.errors import ChannelError

FILE = "run_exports.json"
_REPAIR = "delete that file and run `rocm-channel channel repair`, which writes it anew from the packages"

Entries = dict[str, dict[str, Any]]
"""``{"run_exports": {...}}`` by file name, of both package formats."""


def read_run_exports(store: Store, key: str) -> Entries:
    """The file of the subdir ``key``; empty when there is none.

    :raises ChannelError: it cannot be read
    """
    content = store.read(f"{key}/{FILE}")
    if content is None:
        return {}
    where = f"{store.address}/{key}/{FILE}"
    data = load(content, where, fix=_REPAIR)
    entries: Entries = {}
    for section in SECTIONS.values():
        part = data.get(section, {})
        if not isinstance(part, dict) or not all(isinstance(entry, dict) for entry in part.values()):
            raise ChannelError("is no mapping of packages", where=where, found=section, fix=_REPAIR)
        entries.update(part)
    return entries


def encode_run_exports(
    before: Mapping[str, dict[str, Any]],
    records: Mapping[str, Record],
    removed: frozenset[str],
    changed: frozenset[str],
    subdir: str,
    where: str,
) -> bytes:
    """The file anew.

    :param changed: file names whose records this change puts in, so that an old entry does not count
    """
    sections: dict[str, Entries] = {section: {} for section in SECTIONS.values()}
    for file_name, record in records.items():
        known = _entry_of(file_name, record, file_name in changed)
        kept = before.get(file_name)
        entry = (known or kept) if file_name in changed else (kept or known)
        if entry is not None:
            sections[section_of(file_name)][file_name] = entry
    for file_name in removed:
        if file_name in before:
            sections[section_of(file_name)][file_name] = before[file_name]
    return dump({"info": {"subdir": subdir, "version": 1}, **sections}, where)


def _entry_of(file_name: str, record: Record, changed: bool) -> dict[str, Any] | None:
    """What a record says, when its maker looked for run exports, as an ``indexed_timestamp`` shows.

    py-rattler's indexer, unlike ours, does not look for them in a ``.tar.bz2``.
    """
    if "run_exports" in record:
        return {"run_exports": record["run_exports"]}
    looked = "indexed_timestamp" in record and (changed or file_name.endswith(".conda"))
    return {"run_exports": {}} if looked else None
