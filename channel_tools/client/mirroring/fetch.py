"""Bringing package files into the channels of a mirror, one batch after the other.

A file is downloaded into a folder for parts, checked, and stored in its channel at once, where no index names
it yet. So an interrupted run loses nothing: what is stored is found again, and what was begun goes on.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools import rattler_process
from channel_tools.channel.index.records import record_of, record_of_stream
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.change import Record as IndexRecord
from channel_tools.client.mirroring.plan import Wanted
from channel_tools.model.errors import ChannelToolsError, DamagedFileError
from channel_tools.model.redaction import redact

BATCH_FILES = 32
BATCH_BYTES = 2 << 30
"""A batch ends with the file that brings it to this size, so that parts do not fill the disk."""

STALL_S = 120.0
"""Seconds without a byte after which a download is given up, and tried again."""

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Fault:
    """A file that could not be mirrored."""

    where: str
    text: str


@dataclass(frozen=True)
class Brought:
    """A file that is in its channel now: its record, and the sidecar that belongs beside it."""

    wanted: Wanted
    record: IndexRecord
    sidecar: bytes | None
    fetched: bool


def bring(
    store: Store, wanted: Sequence[Wanted], parts: Path, progress: Progress
) -> Iterator[Brought | Fault]:
    """Store each file in its channel.

    :param parts: folder for what is not complete yet
    :raises StorageError: the mirror cannot be written
    """
    missing = []
    for one in wanted:
        try:
            found = _stored(store, one)
        except DamagedFileError as error:
            text = f"{error.what} ({error.found}); remove it, and it is fetched again"
            yield Fault(f"{store.address}/{one.key}", text)
            continue
        if found is None:
            missing.append(one)
        else:
            yield from _with_sidecar(one, found, parts, fetched=False)
    for batch in _batches(missing):
        files = [_file(one, parts) for one in batch]
        for one, file, answer in zip(batch, files, download(files, progress), strict=True):
            path = Path(file["path"])
            if "error" in answer:
                yield Fault(redact(one.place.url), redact(answer["error"]))
                continue
            try:
                record = _checked(one, path, answer["sha256"])
            except ChannelToolsError as error:
                path.unlink(missing_ok=True)
                yield Fault(redact(one.place.url), f"{error.what}: {error.found}")
                continue
            store.put_new(one.key, path, sha256=answer["sha256"])
            path.unlink(missing_ok=True)
            yield from _with_sidecar(one, record, parts, fetched=True)


def download(files: Sequence[dict[str, Any]], progress: Progress) -> list[dict[str, Any]]:
    """Run the task ``fetch``, and tell meanwhile how far each file is."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.5):
            for file in files:
                path = Path(file["path"])
                try:
                    progress(path.name.removesuffix(".part"), path.stat().st_size, file["size"])
                except OSError:
                    continue

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        answer: list[dict[str, Any]] = rattler_process.call("fetch", {"files": list(files), "stall": STALL_S})
        return answer
    except rattler_process.RattlerCallError as error:
        return [{"error": str(error)}] * len(files)
    finally:
        done.set()
        watcher.join(timeout=2)


def _file(one: Wanted, parts: Path) -> dict[str, Any]:
    # The same file begun twice goes on; other content of that name, or the same in a label, is another part.
    mark = hashlib.sha256(f"{one.place.url}#{one.sha256}".encode()).hexdigest()
    return {
        "url": one.package.url,
        "path": str(parts / mark[:16] / f"{one.place.file}.part"),
        "size": one.size,
        "sha256": one.sha256,
    }


def _stored(store: Store, one: Wanted) -> IndexRecord | None:
    """The record of what an earlier run stored; None where nothing is, or half."""
    stat = store.stat(one.key)
    if stat is None:
        return None
    with store.open(one.key) as stream:
        record = record_of_stream(
            stream, one.place.file, where=f"{store.address}/{one.key}", indexed_ms=int(store.now() * 1000)
        )
    _check(one, f"{store.address}/{one.key}", record)
    return record


def _checked(one: Wanted, path: Path, sha256: str) -> IndexRecord:
    named = path.with_name(path.name.removesuffix(".part"))
    path.rename(named)
    try:
        record = record_of(named)
    finally:
        named.rename(path)
    if record["sha256"] != sha256:
        raise DamagedFileError("changed on the disk", where=path, found=record["sha256"], wanted=sha256)
    _check(one, one.place.url, record)
    return record


def _check(one: Wanted, where: str, record: IndexRecord) -> None:
    for digest, wanted in (("sha256", one.sha256), ("md5", one.md5)):
        if wanted is not None and record[digest] != wanted:
            raise DamagedFileError(
                f"has another {digest} than the lock says",
                where=where,
                found=f"{record[digest]} in the place of {wanted}",
                wanted=wanted,
            )


def _with_sidecar(
    one: Wanted, record: IndexRecord, parts: Path, *, fetched: bool
) -> Iterator[Brought | Fault]:
    """With what the source's index says of the file (patched dependencies) and its attestations."""
    known = dict(one.record["record"]) if one.record else {}
    for key in ("fn", "url", "channel"):
        known.pop(key, None)
    merged = {**record, **known, **{key: record[key] for key in ("md5", "sha256", "size")}}
    digest = merged.get("attestations_sha256")
    if not digest:
        yield Brought(one, merged, None, fetched)
        return
    url = f"{one.package.url}.sigs.{digest}"
    path = parts / digest[:16] / f"{one.place.file}.sigs"
    (answer,) = download(
        [{"url": url, "path": str(path), "size": None, "sha256": digest}], lambda name, there, size: None
    )
    if "error" in answer:
        yield Fault(redact(url), redact(answer["error"]))
        return
    content = path.read_bytes()
    path.unlink()
    yield Brought(one, merged, content, fetched)


def _batches(wanted: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    batch: list[Wanted] = []
    size = 0
    for one in wanted:
        batch.append(one)
        size += one.size or 0
        if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
