"""Readings of packages that were read before, by the SHA-256 of the package.

Only what was read is kept, never a verdict: declarations, policies and ``--want`` are judged anew each time.
An entry is found by size and SHA-256 of the package, whether it was scanned, and a digest of the code that
read it, so that no entry outlives a change of the readers. What cannot be read back counts as not there.
An entry is trusted as much as the folder that it is in.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from channel_tools import __version__
from channel_tools.model import environment
from channel_tools.model.errors import RecipeError, StorageError
from channel_tools.model.files import written_whole
from channel_tools.model.package import sha256
from channel_tools.model.project import Project
from channel_tools.verify.findings import Fault
from channel_tools.verify.linkage import Linkage
from channel_tools.verify.reading import ARCHIVES, Reading
from channel_tools.verify.report import FileReport
from channel_tools.verify.source import printable

FORMAT_VERSION: Final = 1

_SUFFIX: Final = ".json.zst"
_MAX_ENTRIES: Final = 1000
_MAX_BYTES: Final = 512 << 20
_MAX_ENTRY: Final = 1 << 30


def default_folder() -> Path:
    """``$ROCM_CHANNEL_CACHE``, else the checkout's ``.cache``, else the user's; always ``verify`` in it."""
    named = environment.read_path("ROCM_CHANNEL_CACHE")
    if named is None:
        with contextlib.suppress(RecipeError):
            named = Project.find().cache
    if named is None:
        named = (environment.read_path("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocm-channel"
    return named / "verify"


@dataclass(frozen=True)
class Kept:
    """A reading with the SHA-256 of the file. ``known`` is true where it came out of the cache."""

    reading: Reading
    sha256: str
    known: bool


@dataclass(frozen=True)
class ReadingCache:
    """The readings in one folder, which is made when the first is written."""

    folder: Path

    @staticmethod
    def suits(path: Path) -> bool:
        """Is it worth it? To read a file that is no archive takes less time than to hash it."""
        return path.name.endswith(ARCHIVES) and path.is_file()

    def read(self, path: Path, scan: bool, read: Callable[[], Reading]) -> Kept:
        """The kept reading of ``path``, or that of ``read``, which is then kept if nothing is damaged.

        :raises OSError: the file cannot be read
        """
        before = _identity(path)
        key = f"{_readers_digest()[:16]}{'-scan' if scan else ''}{_SUFFIX}"
        if any(self.folder.glob(f"{before[0]}-*-{key}")):
            digest = sha256(path)
            entry = self._entry(before[0], digest, key)
            reading = _load(entry, printable(str(path)))
            if reading:
                with contextlib.suppress(OSError):
                    os.utime(entry)
                return Kept(reading, digest, True)
            reading = read()
        else:
            with _hashed_meanwhile(path) as result:
                reading = read()
            digest = result()
        if _identity(path) == before and not _damaged(reading):
            self._store(self._entry(before[0], digest, key), reading)
        return Kept(reading, digest, False)

    def _entry(self, size: int, digest: str, key: str) -> Path:
        return self.folder / f"{size}-{digest}-{key}"

    def _store(self, entry: Path, reading: Reading) -> None:
        import zstandard

        data = json.dumps(_to_json(reading), separators=(",", ":")).encode()
        packed = zstandard.ZstdCompressor(level=3, write_checksum=True).compress(data)
        with contextlib.suppress(StorageError, OSError):
            with written_whole(entry) as temporary:
                temporary.write_bytes(packed)
            self._prune()

    def _prune(self) -> None:
        """Remove the entries that were not used for longest, where there are too many."""
        found = sorted(
            ((status.st_mtime_ns, status.st_size, entry) for entry, status in self._entries()), reverse=True
        )
        size = 0
        for number, (_, bytes_, entry) in enumerate(found):
            size += bytes_
            if number >= _MAX_ENTRIES or size > _MAX_BYTES:
                entry.unlink(missing_ok=True)

    def _entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        for entry in self.folder.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):
                yield entry, entry.stat()


def _identity(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


@contextlib.contextmanager
def _hashed_meanwhile(path: Path) -> Iterator[Callable[[], str]]:
    """Hash a file while the block runs; the value is called for the result after it."""
    results: list[str] = []
    errors: list[OSError] = []

    def work() -> None:
        try:
            results.append(sha256(path))
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def result() -> str:
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    yield result


@cache
def _readers_digest() -> str:
    """Digest of the code of this package: another reader may see something else in the same bytes."""
    digest = hashlib.sha256(f"{FORMAT_VERSION} {__version__}\n".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _damaged(reading: Reading) -> bool:
    faults = [*reading.faults, *(fault for file in reading.files for fault in file.faults)]
    return any(fault.damage for fault in faults)


def _load(entry: Path, path: str) -> Reading | None:
    """The reading in an entry; None for an entry that is not there, damaged, or of another shape."""
    import zstandard

    try:
        packed = entry.read_bytes()
        data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=_MAX_ENTRY)
        return replace(_from_json(json.loads(data)), path=path)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, MemoryError, zstandard.ZstdError):
        return None


def _to_json(reading: Reading) -> dict[str, Any]:
    return {
        "kind": reading.kind,
        "size": reading.size,
        "members": reading.members,
        "files": [
            {
                **{
                    key: getattr(file, key) for key in ("path", "size", "kind", "targets", "objects", "named")
                },
                "faults": [asdict(fault) for fault in file.faults],
                "linkage": file.linkage.to_json() if file.linkage else None,
            }
            for file in reading.files
        ],
        "faults": [asdict(fault) for fault in reading.faults],
        "metadata": {name: raw.decode("latin-1") for name, raw in reading.metadata.items()},
        "sizes": dict(reading.sizes),
        "links": list(reading.links),
    }


def _from_json(data: dict[str, Any]) -> Reading:
    return Reading(
        path="",
        kind=data["kind"],
        size=data["size"],
        members=data["members"],
        files=tuple(_file(file) for file in data["files"]),
        faults=tuple(Fault(**fault) for fault in data["faults"]),
        metadata={name: text.encode("latin-1") for name, text in data["metadata"].items()},
        sizes=data["sizes"],
        links=tuple(data["links"]),
    )


def _file(data: dict[str, Any]) -> FileReport:
    return FileReport(
        path=data["path"],
        size=data["size"],
        kind=data["kind"],
        targets=tuple(data["targets"]),
        objects=data["objects"],
        faults=tuple(Fault(**fault) for fault in data["faults"]),
        named=tuple(data["named"]),
        linkage=Linkage.from_json(data["linkage"]) if data["linkage"] else None,
    )
