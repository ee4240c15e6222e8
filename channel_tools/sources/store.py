"""The store of sources: files by their sha256, and a flat view of them by name for the recipes.

::

    <cache>/sources/sha256/ab/abcdef...        a file whose bytes have that sha256
    <cache>/sources/sha256/ab/abcdef....json   where it came from; its size and time when it was checked
    <cache>/sources/sha256/ab/abcdef....part   an unfinished download, and its .part.json
    <cache>/sources/mirror/NAME                link to a checked file; the folder for SOURCE_MIRROR
    <cache>/sources/locks/                     one empty file for each that was ever fetched
    <cache>/sources/rejected/NAME.FOUND        files with another sha256 than wanted; never deleted by us
    <cache>/sources/NAME                       a file put here by hand is taken in by the next fetch
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.model.errors import StorageError
from channel_tools.model.files import storage_errors, write_text_whole
from channel_tools.model.project import Project
from channel_tools.sources.needed import SHA256, Source

CHUNK = 1 << 20

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Finding:
    """What ``verify`` says of one file: ``ok``, ``missing``, ``damaged``, ``orphaned`` or ``unfinished``."""

    state: str
    name: str
    sha256: str
    size: int | None
    path: Path
    found: str | None = None


@dataclass(frozen=True)
class Store:
    """The store in ``root``. Nothing is created by asking."""

    root: Path

    @classmethod
    def of(cls, project: Project) -> Store:
        return cls(project.cache / "sources")

    @property
    def view(self) -> Path:
        """The flat folder of checked files."""
        return self.root / "mirror"

    @property
    def rejected(self) -> Path:
        return self.root / "rejected"

    def path(self, sha256: str) -> Path:
        return self.root / "sha256" / sha256[:2] / sha256

    def part(self, sha256: str) -> Path:
        return self.path(sha256).with_suffix(".part")

    def lock(self, sha256: str) -> Path:
        """Held while a file is fetched, so that two processes do not fetch it at once."""
        return self.root / "locks" / sha256

    def record(self, sha256: str) -> dict[str, Any]:
        """What was noted when the file was taken in: ``name``, ``place``, ``url``, ``size``, ``mtime_ns``."""
        try:
            data = json.loads(self.path(sha256).with_suffix(".json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    def state(self, source: Source) -> tuple[str, int | None]:
        """``present``, ``partial`` or ``missing``, and the size in bytes of what there is."""
        for state, path in (("present", self.path(source.sha256)), ("partial", self.part(source.sha256))):
            with suppress(OSError):
                size = path.stat().st_size
                if size or state == "present":
                    return state, size
        return "missing", None

    def holds(self, source: Source) -> bool:
        """Whether the file is there, and as it was when it was checked; hashes it again when in doubt.

        A file that has become another one is set aside.
        """
        path = self.path(source.sha256)
        try:
            now = path.stat()
        except OSError:
            return False
        record = self.record(source.sha256)
        if (record.get("size"), record.get("mtime_ns")) == (now.st_size, now.st_mtime_ns):
            return True
        found = sha256_of(path)
        if found != source.sha256:
            self.reject(path, source.name, found)
            return False
        with suppress(StorageError):  # a store that is only read needs no note
            self._note(source, str(record.get("place", "")), str(record.get("url", "")))
        return True

    def take(self, file: Path, source: Source, place: str, url: str) -> Path:
        """Move a file in that is known to have the right sha256."""
        path = self.path(source.sha256)
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            sync(file)
            file.chmod(0o444)
            file.replace(path)
            sync(path.parent)
        self._note(source, place, url)
        self.link(source)
        return path

    def link(self, source: Source) -> None:
        """Show a file of the store in the flat view."""
        link = self.view / source.name
        target = os.path.relpath(self.path(source.sha256), self.view)
        with storage_errors(self.view):
            self.view.mkdir(parents=True, exist_ok=True)
            if link.is_symlink() and str(link.readlink()) == target:
                return
            beside = self.view / f".{source.name}.{os.getpid()}"
            beside.unlink(missing_ok=True)
            beside.symlink_to(target)
            beside.replace(link)

    def reject(self, file: Path, name: str, found: str) -> Path:
        """Set a file aside whose sha256 is ``found``, and take it out of the flat view."""
        kept = self.rejected / f"{name}.{found[:16]}"
        with storage_errors(kept):
            kept.parent.mkdir(parents=True, exist_ok=True)
            file.replace(kept)
            link = self.view / name
            if link.is_symlink() and not link.exists():
                link.unlink()
        return kept

    def mirror_url(self) -> str | None:
        """Address of the flat view after a check that it holds nothing but checked files.

        conda-build gives up at the first address whose file has another sha256, so a file that has changed
        since it was checked is hashed again, and leaves the view if it is another one.

        :returns: ``None`` where the view holds no file, or one that must not be used and cannot be taken out
        """
        some = False
        for link in sorted(self.view.glob("[!.]*")):
            sha256 = link.resolve().name
            ours = link.is_symlink() and link.exists() and SHA256.fullmatch(sha256)
            try:
                if ours and self.holds(Source(link.name, sha256, ())):
                    some = True
                else:
                    self._take_out(link)
            except StorageError:
                return None
        return self.view.absolute().as_uri() if some else None

    def objects(self) -> Iterator[Path]:
        yield from (p for p in sorted(self.root.glob("sha256/??/*")) if SHA256.fullmatch(p.name))

    def verify(
        self,
        needed: Iterable[Source],
        every: Iterable[Source],
        *,
        dry_run: bool = False,
        listen: Progress = lambda count: None,
    ) -> list[Finding]:
        """Hash every file of the store again.

        :param needed: what must be there
        :param every: what any recipe needs; a file that is not among it is orphaned
        :param dry_run: leave damaged files where they are; otherwise they are set aside
        :param listen: called with the number of bytes read since the last call
        """
        by_sha256 = {source.sha256: source for source in every}
        findings = []
        for path in self.objects():
            sha256, size = path.name, path.stat().st_size
            source = by_sha256.get(sha256)
            name = source.name if source else str(self.record(sha256).get("name") or sha256)
            found = sha256_of(path, listen)
            if found != sha256:
                kept = path if dry_run else self.reject(path, name, found)
                findings.append(Finding("damaged", name, sha256, size, kept, found))
            else:
                findings.append(Finding("ok" if source else "orphaned", name, sha256, size, path))
        for part in sorted(self.root.glob("sha256/??/*.part")):
            if part.stem not in by_sha256 and not self.path(part.stem).exists():
                findings.append(Finding("orphaned", part.name, part.stem, part.stat().st_size, part))
        there = {finding.sha256 for finding in findings}
        for source in needed:
            if source.sha256 not in there:
                state, begun = self.state(source)
                state = "unfinished" if state == "partial" else "missing"
                findings.append(Finding(state, source.name, source.sha256, begun, self.path(source.sha256)))
        return sorted(findings, key=lambda finding: (finding.name, finding.sha256))

    def _note(self, source: Source, place: str, url: str) -> None:
        path = self.path(source.sha256)
        now = path.stat()
        data = {
            "version": 1,
            "name": source.name,
            "place": place,
            "url": url,
            "size": now.st_size,
            "mtime_ns": now.st_mtime_ns,
            "checked": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        write_text_whole(path.with_suffix(".json"), json.dumps(data, indent=1) + "\n")

    def _take_out(self, link: Path) -> None:
        """Take an entry out of the flat view: a dead link is deleted, a foreign file is set aside."""
        with storage_errors(link):
            if link.is_symlink():
                link.unlink(missing_ok=True)
            elif link.is_file():
                self.reject(link, link.name, sha256_of(link))


def sha256_of(path: Path, listen: Progress = lambda count: None) -> str:
    """The sha256 of a file in hex. ``listen`` is called with the bytes of each piece."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(CHUNK):
            digest.update(piece)
            listen(len(piece))
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Make sure that a file's bytes, or a folder's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
