"""A flat folder of checked sources for another host, as ``SOURCE_MIRROR`` wants it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from channel_tools.model.errors import DamagedFileError
from channel_tools.model.files import check_writable, write_text_whole, written_whole
from channel_tools.sources.needed import Source
from channel_tools.sources.store import CHUNK, Progress, Store, sha256_of

SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Exported:
    """``copied`` and ``there`` (right already) are in the folder; the store lacks ``missing``."""

    copied: tuple[Source, ...]
    there: tuple[Source, ...]
    missing: tuple[Source, ...]


def export(
    store: Store,
    sources: Iterable[Source],
    folder: Path,
    *,
    dry_run: bool = False,
    listen: Progress = lambda count: None,
) -> Exported:
    """Copy sources into ``folder`` by name, check each copy, and write ``SHA256SUMS`` for ``sha256sum -c``.

    A file that is there with the right bytes stays as it is, one with others is replaced.

    :param listen: called with the bytes of each piece
    :raises StorageError: the folder cannot be written
    :raises DamagedFileError: a file of the store changed while it was copied
    """
    copied, there, missing = [], [], []
    if not dry_run:
        check_writable(folder)
    for source in sources:
        target = folder / source.name
        if not store.holds(source):
            missing.append(source)
        elif target.is_file() and sha256_of(target, listen) == source.sha256:
            there.append(source)
        else:
            if not dry_run:
                _copy(store.path(source.sha256), target, source.sha256, listen)
            copied.append(source)
    exported = Exported(tuple(copied), tuple(there), tuple(missing))
    if not dry_run:
        present = sorted(exported.copied + exported.there, key=lambda source: source.name)
        write_text_whole(folder / SUMS, "".join(f"{s.sha256}  {s.name}\n" for s in present))
    return exported


def _copy(source: Path, target: Path, sha256: str, listen: Progress) -> None:
    digest = hashlib.sha256()
    with written_whole(target) as temporary, source.open("rb") as given, temporary.open("wb") as stream:
        while piece := given.read(CHUNK):
            digest.update(piece)
            stream.write(piece)
            listen(len(piece))
        if digest.hexdigest() != sha256:
            raise DamagedFileError(
                "changed while it was copied", where=source, found=digest.hexdigest(), wanted=sha256
            )
