"""The index of a subdir made from the package files themselves, for audit and repair.

It reads every byte of every package once, and takes nothing from an index that is there.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO

from channel_tools.channel.index.encoding import SubdirIndex
from channel_tools.channel.index.records import record_of_stream
from channel_tools.channel.layout import is_package, label_of
from channel_tools.channel.stores.store import Stat, Store
from channel_tools.channel.transaction.change import Record
from channel_tools.model.errors import DamagedFileError
from channel_tools.model.files import storage_errors

_IN_MEMORY = 64 << 20


def rebuild(
    store: Store,
    key: str,
    yanked: Collection[str],
    known: Mapping[str, str | None] | None = None,
    left_out: dict[str, str] | None = None,
) -> SubdirIndex:
    """The index that the packages of the subdir ``key`` give.

    ``indexed_timestamp`` is when the store got the file. Encode it with an index that does not exist as the
    old one, so that nothing is taken from damaged files.

    :param yanked: file names that stay out of the index, which lists them as removed
    :param known: sha256 by file name of what may be in the index (None: any content); without it, all files
    :param left_out: is told the files that stay out because of that, or because they are damaged, and why
    """
    records: dict[str, Record] = {}
    yanked_records: dict[str, Record] = {}
    removed: set[str] = set()
    left_out = {} if left_out is None else left_out
    for stat, record in read_packages(store, key, known, left_out):
        file_name = stat.key.rsplit("/", 1)[-1]
        if file_name in yanked:
            removed.add(file_name)
        if isinstance(record, DamagedFileError):
            left_out[stat.key] = f"it is damaged, or no package of this subdir: {record.what}"
            continue
        if known is not None and known[file_name] not in (None, record["sha256"]):
            left_out[stat.key] = "it is another file than was published"
            continue
        if ("declared" in str(record["build"]).split("_")) != (label_of(stat.key) is not None):
            left_out[stat.key] = "declared builds belong into labels, and nothing else does"
            continue
        (yanked_records if file_name in yanked else records)[file_name] = record
    return SubdirIndex(key, records, frozenset(removed), True, yanked_records=yanked_records)


def read_packages(
    store: Store,
    key: str,
    names: Collection[str] | None = None,
    left_out: dict[str, str] | None = None,
) -> Iterator[tuple[Stat, Record | DamagedFileError]]:
    """Every package file of the subdir ``key`` with its record, or with what is wrong with it, by key.

    :param names: only these; ``left_out`` is told the others
    """
    stats = {stat.key: stat for stat in store.list(f"{key}/")}
    for stat in stats.values():
        if is_package(stat.key):
            if names is not None and stat.key.rpartition("/")[2] not in names:
                if left_out is not None:
                    left_out[stat.key] = "neither an index nor a release names it"
                continue
            try:
                record = _record(store, stat)
            except DamagedFileError as error:
                yield stat, error
                continue
            bundles = store.read(f"{stat.key}.sigs") if f"{stat.key}.sigs" in stats else None
            if bundles is not None:
                record["attestations_sha256"] = hashlib.sha256(bundles).hexdigest()
            yield stat, record


def read_record(store: Store, key: str) -> Record | None:
    """The record of one package, from its file; None where that is gone.

    :raises DamagedFileError: it is no package of that subdir
    """
    subdir, _, name = key.rpartition("/")
    for _, record in read_packages(store, subdir, (name,)):
        if isinstance(record, DamagedFileError):
            raise record
        return record
    return None


def _record(store: Store, stat: Stat) -> Record:
    where = f"{store.address}/{stat.key}"
    subdir, file_name = stat.key.split("/")[-2:]
    with store.open(stat.key) as stream, _seekable(stream) as seekable:
        record = record_of_stream(seekable, file_name, where=where, indexed_ms=int(stat.modified * 1000))
    if record["subdir"] != subdir:
        raise DamagedFileError("lies in the wrong subdir", where=where, found=subdir, wanted=record["subdir"])
    return record


def _seekable(stream: IO[bytes]) -> IO[bytes]:
    """The stream itself, or, of one that can only be read on, a copy: in memory, or in a file when large."""
    if stream.seekable():
        return stream
    copy = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
    with storage_errors(Path(tempfile.gettempdir())):
        shutil.copyfileobj(stream, copy, 1 << 20)
        copy.seek(0)
    return copy
