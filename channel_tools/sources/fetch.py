"""Fetching sources into the store: from the store's folder, the mirror, the Python index, the public address.

The first place that gives a file of the right sha256 is the last one asked. A file with another sha256 is
kept in the store's ``rejected`` folder, and the next place is asked.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from channel_tools.model import environment
from channel_tools.model.errors import ChannelToolsError, SourceError
from channel_tools.model.files import check_writable, locked, storage_errors
from channel_tools.sources.download import (
    Download,
    OtherContent,
    Patience,
    PlaceFailed,
    Stopped,
    Transport,
    Unreached,
    web_transport,
)
from channel_tools.sources.needed import Source
from channel_tools.sources.python_index import PythonIndex, project_of
from channel_tools.sources.store import CHUNK, Store

AT_ONCE = 4
# A thread between two pieces of a download ends within this time, in seconds.
LAST_WORDS_S = 0.5

Listener = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Fetched:
    """What became of one source: ``kept`` (was there), ``fetched`` or ``failed``.

    ``place`` is ``store``, ``folder``, ``mirror``, ``index`` or ``url``; ``notes`` say what went wrong at the
    places before it.
    """

    source: Source
    status: str
    place: str = ""
    url: str = ""
    size: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    error: ChannelToolsError | None = None


def without_password(url: str) -> str:
    """An address as it may be shown: an index or a mirror may carry a user's name and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


@dataclass
class _Attempts:
    """The places that one source was asked for, and what each said."""

    notes: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def failed(self, place: str, url: str, error: PlaceFailed) -> None:
        self.notes.append(f"{place} {without_password(url)}".rstrip() + f": {error}")


@dataclass
class Fetcher:
    """Fetches sources, several at once.

    :param offline: ask no network; a ``file:`` mirror is still asked
    :param listen: called with a file's name, the bytes there and its size if known, from any thread
    :param ended: called with each result but those that were there
    """

    store: Store
    offline: bool = False
    at_once: int = AT_ONCE
    patience: Patience = field(default_factory=Patience)
    listen: Listener = lambda name, there, size: None
    ended: Callable[[Fetched], None] = lambda fetched: None
    _stop: threading.Event = field(default_factory=threading.Event)
    _index: PythonIndex = field(default_factory=PythonIndex)
    _unreached: dict[str, str] = field(default_factory=dict)

    def run(self, sources: Sequence[Source]) -> list[Fetched]:
        """Fetch what is not there. Failures are in the results, in the order of ``sources``.

        :raises StorageError: the store cannot be written, before anything starts
        :raises KeyboardInterrupt: downloads end where they are, and go on there the next time
        """
        results = {source.sha256: self._kept(source) for source in sources}
        wanted = [source for source in sources if results[source.sha256] is None]
        if wanted:
            check_writable(self.store.root)
            for fetched in self._fetch_all(wanted):
                results[fetched.source.sha256] = fetched
        return [found for source in sources if (found := results[source.sha256]) is not None]

    def _fetch_all(self, wanted: list[Source]) -> list[Fetched]:
        """In threads that the process does not wait for, since a stalled connection may hold one long."""
        todo: queue.SimpleQueue[Source] = queue.SimpleQueue()
        done: queue.SimpleQueue[Fetched | BaseException] = queue.SimpleQueue()
        for source in wanted:
            todo.put(source)
        self._index = PythonIndex()

        def work() -> None:
            transport = web_transport()
            while not self._stop.is_set():
                try:
                    source = todo.get_nowait()
                except queue.Empty:
                    return
                try:
                    done.put(self._fetch(source, transport))
                except BaseException as error:
                    done.put(error)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(self.at_once, len(wanted)))]
        for thread in threads:
            thread.start()
        results: list[Fetched] = []
        try:
            while len(results) < len(wanted):
                try:
                    result = done.get(timeout=0.2)
                except queue.Empty:
                    continue
                if isinstance(result, BaseException):
                    raise result
                results.append(result)
                self.ended(result)
        except BaseException:
            self._stop.set()
            for thread in threads:
                thread.join(LAST_WORDS_S)
            raise
        self._index.close()
        return results

    def _kept(self, source: Source) -> Fetched | None:
        if not self.store.holds(source):
            return None
        self.store.link(source)
        record = self.store.record(source.sha256)
        return Fetched(
            source, "kept", "store", str(record.get("url", "")), self.store.path(source.sha256).stat().st_size
        )

    def _fetch(self, source: Source, transport: Transport) -> Fetched:
        start = time.monotonic()
        attempts = _Attempts()
        try:
            with locked(self.store.lock(source.sha256)):
                if kept := self._kept(source):  # another process was faster
                    return kept
                place, url = self._ask_all(source, transport, attempts)
        except ChannelToolsError as error:
            return Fetched(source, "failed", notes=tuple(attempts.notes), error=error)
        size = self.store.path(source.sha256).stat().st_size
        seconds = time.monotonic() - start
        return Fetched(source, "fetched", place, url, size, seconds, tuple(attempts.notes))

    def _ask_all(self, source: Source, web: Transport, attempts: _Attempts) -> tuple[str, str]:
        """Ask every place in turn; the place and the address that gave the file.

        :raises SourceError: none did
        """
        dropped = self.store.root / source.name
        if dropped.is_file():
            url = dropped.absolute().as_uri()
            if self._ask(source, "folder", url, web, attempts):
                return "folder", url
        mirror = environment.read("SOURCE_MIRROR")
        if mirror:
            url = f"{mirror.rstrip('/')}/{quote(source.name)}"
            if self._ask(source, "mirror", url, web, attempts):
                return "mirror", without_password(url)
        if project_of(source.name) and not self.offline:
            try:
                url, session = self._index.find(source.name, source.sha256)
            except PlaceFailed as error:
                attempts.failed("index", "", error)
            else:
                if self._ask(source, "index", url, session, attempts):
                    return "index", without_password(url)
        for url in source.urls:
            if self._ask(source, "url", url, web, attempts):
                return "url", url
        raise self._error(source, attempts)

    def _ask(self, source: Source, place: str, url: str, transport: Transport, attempts: _Attempts) -> bool:
        """Try one address, and once more in one piece if a continued download has other content."""
        part = self.store.part(source.sha256)
        is_file = urlsplit(url).scheme == "file"
        got = part.with_suffix(".copy") if is_file else part
        for _ in range(2):
            try:
                if is_file:
                    self._copy(source, url, got)
                elif self.offline:
                    raise PlaceFailed("not asked: offline")
                else:
                    self._download(source, url, transport)
            except OtherContent as error:
                self._reject(source, got, place, url, error, attempts)
                if not error.pieced:
                    return False
            except PlaceFailed as error:
                attempts.failed(place, url, error)
                return False
            else:
                self.store.take(got, source, place, without_password(url))
                return True
        return False

    def _reject(
        self, source: Source, file: Path, place: str, url: str, error: OtherContent, attempts: _Attempts
    ) -> None:
        kept = self.store.reject(file, source.name, error.found)
        attempts.others.append(f"{error} from {without_password(url)}, kept as {kept}")
        attempts.failed(place, url, error)

    def _download(self, source: Source, url: str, transport: Transport) -> None:
        def listen(there: int, size: int | None) -> None:
            self.listen(source.name, there, size)

        host = urlsplit(url).netloc
        if host in self._unreached:
            raise PlaceFailed(f"not asked again: {self._unreached[host]}")
        part = self.store.part(source.sha256)
        try:
            Download(url, part, source.sha256, transport, self.patience, listen, self._stop).run()
        except Unreached as error:
            self._unreached[host] = str(error)
            raise

    def _copy(self, source: Source, url: str, copy: Path) -> None:
        """Copy a file of this host beside the store's place for it, and check the copy."""
        path = Path(unquote(urlsplit(url).path))
        try:
            given = path.open("rb")
        except OSError as error:
            raise PlaceFailed(error.strerror or str(error)) from error
        digest, there, size = hashlib.sha256(), 0, path.stat().st_size
        with given, storage_errors(copy):
            copy.parent.mkdir(parents=True, exist_ok=True)
            with copy.open("wb") as stream:
                while piece := given.read(CHUNK):
                    if self._stop.is_set():
                        copy.unlink()
                        raise Stopped
                    digest.update(piece)
                    stream.write(piece)
                    there += len(piece)
                    self.listen(source.name, there, size)
        if digest.hexdigest() != source.sha256:
            raise OtherContent(digest.hexdigest(), there)

    def _error(self, source: Source, attempts: _Attempts) -> SourceError:
        wanted = f"sha256 {source.sha256}"
        users = ", ".join(sorted({use.package for use in source.uses}))
        if attempts.others:
            rest = [note for note in attempts.notes if "sha256" not in note]
            return SourceError(
                f"is another file than the recipe names{f' (for {users})' if users else ''}",
                where=source.name,
                found="\n    ".join([*attempts.others, *rest]),
                wanted=wanted,
                fix="compare with the project's own release; "
                "correct SOURCE_MIRROR, or the sha256 in variants/",
            )
        notes = attempts.notes or ["nothing: it has no address"]
        return SourceError(
            f"no place gives this source{f' (for {users})' if users else ''}",
            where=source.name,
            found="\n    ".join(notes),
            wanted=wanted,
            fix=f"put the file into {self.store.root} and fetch again, or set SOURCE_MIRROR to a folder or "
            "address that has it; a host with network writes such a folder: rocm-channel sources mirror DIR",
        )
