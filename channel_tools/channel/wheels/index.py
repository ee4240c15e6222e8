"""A wheel index in a folder or bucket, for pip: one simple index per ROCm release and GPU arch.

::

    rocm72/gfx942/simple/<project>/index.html, index.json    pages for pip
    rocm72/gfx942/simple/index.html, index.json              all projects
    rocm72/gfx942/wheels/<file>.whl, <file>.whl.metadata     never changed; the folder for --find-links
    index.html                                               for people
    wheels.json                                              which indexes there are
    .channel/                                                the lease of whoever writes

``wheels.json`` is ``{"version": 1, "url": text or null, "indexes": [{"rocm": "7.2", "arch": "gfx942"}]}``.
Wheels are stored before a page names them, and each page is replaced whole, so a reader never sees half of
anything. What a writer left undone by dying is done by adding the same wheels again.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from channel_tools.channel.addresses import consumer_url
from channel_tools.channel.care.yanked import public_reason
from channel_tools.channel.index.texts import dump, load
from channel_tools.channel.layout import PAGE_KEY, SETTINGS_KEY
from channel_tools.channel.stores.content import OtherContentError
from channel_tools.channel.stores.lease import Lease, held
from channel_tools.channel.stores.store import IMMUTABLE, NO_CACHE, SHORT, Store
from channel_tools.channel.wheels.check import Candidate
from channel_tools.channel.wheels.file import read_wheel
from channel_tools.channel.wheels.pages import (
    SOURCE_KEY,
    Files,
    Place,
    file_entry,
    project_pages,
    read_files,
    read_projects,
    root_pages,
    top_page,
)
from channel_tools.channel.wheels.rewrite import rewrite
from channel_tools.channel.wheels.versions import ARCH, RELEASE
from channel_tools.model.errors import ChannelError
from channel_tools.model.package import sha256

LIST_KEY: Final = "wheels.json"

Say = Callable[[str], None]


@dataclass
class Changes:
    """What was done, or would be: ``stored`` and ``there`` are keys of wheels, ``pages`` those of pages."""

    stored: list[str] = field(default_factory=list)
    there: list[str] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {"stored": self.stored, "there": self.there, "pages": self.pages}


class WheelIndex:
    """The indexes below one address.

    :param who: as other writers read it while they wait
    """

    def __init__(self, store: Store, who: str, say: Say = lambda line: None) -> None:
        self.store = store
        self._who = who
        self._say = say

    def add(
        self, candidates: Sequence[Candidate], *, url: str | None = None, dry_run: bool = False
    ) -> Changes:
        """Store wheels and write the pages that name them. What is there already stays as it is.

        :param url: where consumers read; kept for the next time
        :raises ChannelError: another file of that name is there, or something else than a wheel index; or
            the address is none that consumers could use, or has a credential in it
        :raises ConflictError: somebody else holds it
        :raises StorageError: the store cannot be read or written
        """
        url = None if url is None else consumer_url(url, self.store.address)
        with self._writing(dry_run) as lease:
            settings = self._settings()
            if url is not None:
                settings["url"] = url
            changes = Changes()
            touched: dict[tuple[Place, str], Files] = {}
            for one in candidates:
                key = (one.place, one.wheel.name)
                files = touched.setdefault(key, self._files(*key))
                files[one.file] = self._stored(one, files, changes, lease)
            self._write(settings, touched, changes, lease)
            return changes

    def yank(self, file: str, reason: str | None, *, dry_run: bool = False) -> Changes:
        """Mark a wheel as yanked (PEP 592), or with None as not: pip takes it only where it is pinned.

        :raises ChannelError: no index has a wheel of that name, or the reason is empty
        """
        reason = None if reason is None else public_reason(reason)
        if self.store.stat(LIST_KEY) is None:
            raise ChannelError("no wheel index is here", where=self.store.address, fix="check the address")
        with self._writing(dry_run) as lease:
            settings = self._settings()
            touched: dict[tuple[Place, str], Files] = {}
            for place in self._places(settings):
                for name in self._projects(place):
                    files = self._files(place, name)
                    if file in files:
                        files[file] = {**files[file], "yanked": False if reason is None else reason}
                        touched[place, name] = files
            if not touched:
                raise ChannelError(
                    "no index has this wheel",
                    where=self.store.address,
                    found=file,
                    wanted="a file name with its local version, as the pages list it",
                )
            changes = Changes()
            self._write(settings, touched, changes, lease)
            return changes

    @contextmanager
    def _writing(self, dry_run: bool) -> Iterator[Lease | None]:
        """Hold the lease, except on a dry run, which writes nothing."""
        self._refuse_others()
        if dry_run:
            yield None
            return
        with held(self.store, self._who, say=self._say) as lease:
            yield lease

    def _refuse_others(self) -> None:
        if self.store.read(SETTINGS_KEY) is not None or self.store.stat("linux-64/repodata.json") is not None:
            raise ChannelError(
                "is a conda channel, and has a page of its own",
                where=self.store.address,
                fix=f"put wheels into a folder of their own: --to {self.store.address}/wheels",
            )
        if self.store.stat(LIST_KEY) is None and self.store.stat(PAGE_KEY) is not None:
            raise ChannelError(
                "has an index.html that is not ours",
                where=self.store.address,
                fix="choose an empty folder",
            )

    def _stored(self, one: Candidate, files: Files, changes: Changes, lease: Lease | None) -> dict[str, Any]:
        """The entry of a wheel, which is stored first where it is not there."""
        key = one.place.wheel(one.file)
        known = files.get(one.file)
        if known is not None and self.store.stat(key) is not None:
            if one.sha256 not in (known.get(SOURCE_KEY), known["hashes"]["sha256"]):
                raise _other(f"{self.store.address}/{key}")
            changes.there.append(key)
            return known
        changes.stored.append(key)
        if lease is None:
            return known or file_entry(one.file, one.sha256, 0, one.sha256, one.sha256, None)
        self._say(f"storing {key}")
        with tempfile.TemporaryDirectory(prefix="rocm-channel-wheels-") as scratch:
            path, metadata = one.wheel.path, one.wheel.metadata
            if one.version != one.wheel.version or one.file != path.name:
                path = Path(scratch, one.file)
                metadata = rewrite(one.wheel, one.version, path)
                read_wheel(path)
            digest, metadata_digest = sha256(path), hashlib.sha256(metadata).hexdigest()
            try:
                lease.check()
                self.store.put_new(key, path, sha256=digest, cache=IMMUTABLE)
                self.store.put_new(f"{key}.metadata", metadata, sha256=metadata_digest, cache=IMMUTABLE)
            except OtherContentError as error:
                raise _other(f"{self.store.address}/{key}") from error
            size = path.stat().st_size
        return file_entry(one.file, digest, size, metadata_digest, one.sha256, one.wheel.requires_python)

    def _write(
        self,
        settings: dict[str, Any],
        touched: dict[tuple[Place, str], Files],
        changes: Changes,
        lease: Lease | None,
    ) -> None:
        places = {place: set(self._projects(place)) for place in self._places(settings)}
        pages: dict[str, bytes] = {}
        for (place, name), files in touched.items():
            places.setdefault(place, set()).add(name)
            pages.update(project_pages(place, name, files))
        for place in {place for place, _ in touched}:
            pages.update(root_pages(place, sorted(places[place])))
        settings["indexes"] = [{"rocm": place.rocm, "arch": place.arch} for place in sorted(places)]
        pages[LIST_KEY] = dump(settings, LIST_KEY) + b"\n"
        pages[PAGE_KEY] = top_page({place: sorted(names) for place, names in places.items()}, settings["url"])
        for key, content in pages.items():
            old = self.store.read_with_etag(key)
            if old is not None and old[0] == content:
                continue
            changes.pages.append(key)
            if lease is not None:
                lease.check()
                cache = NO_CACHE if key in (PAGE_KEY, LIST_KEY) else SHORT
                self.store.replace(key, content, expect=old[1] if old else None, cache=cache)

    def _settings(self) -> dict[str, Any]:
        content = self.store.read(LIST_KEY)
        where = f"{self.store.address}/{LIST_KEY}"
        fix = "restore it from a backup"
        data = {} if content is None else load(content, where, fix=fix)
        settings = {"version": 1, "url": None, "indexes": [], **data}
        fault = _fault(settings)
        if fault is not None:
            raise ChannelError("is no list of wheel indexes", where=where, found=fault, fix=fix)
        return settings

    def _places(self, settings: dict[str, Any]) -> list[Place]:
        return [Place(str(one["rocm"]), str(one["arch"])) for one in settings["indexes"]]

    def _files(self, place: Place, name: str) -> Files:
        key = f"{place.project(name)}index.json"
        return read_files(self.store.read(key), f"{self.store.address}/{key}")

    def _projects(self, place: Place) -> list[str]:
        key = f"{place.simple}index.json"
        return read_projects(self.store.read(key), f"{self.store.address}/{key}")


def _fault(settings: dict[str, Any]) -> str | None:
    """What is wrong with ``wheels.json``."""
    url, indexes = settings["url"], settings["indexes"]
    if settings["version"] != 1:
        return f"version {settings['version']}"
    if url is not None and not isinstance(url, str):
        return "`url` is no text"
    if not isinstance(indexes, list) or not all(isinstance(one, dict) for one in indexes):
        return "`indexes` is no list of objects"
    for one in indexes:
        rocm, arch = one.get("rocm"), one.get("arch")
        if not RELEASE.fullmatch(str(rocm)) or not ARCH.fullmatch(str(arch)):
            return f"an index for ROCm {rocm!r} and GPU arch {arch!r}"
    return None


def _other(where: str) -> OtherContentError:
    return OtherContentError(
        "a wheel of this name with other content is in the index already",
        where=where,
        fix="raise its version, or give it a build tag (PEP 427): published files never change",
    )
