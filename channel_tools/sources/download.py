"""One download over HTTP that goes on where an earlier one ended.

The unfinished file lies at ``PART``, and ``PART.json`` says which address it came from (as a hash) and
under which entity tag. A later call asks for the rest (``Range``), and for the whole if the file has changed
(``If-Range``, RFC 9110 section 13.1.5). The sha256 decides in the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from channel_tools import __version__
from channel_tools.model.files import storage_errors, write_text_whole
from channel_tools.sources.store import CHUNK

PIECE = 1 << 16
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")

Listener = Callable[[int, int | None], None]


class PlaceFailed(Exception):  # noqa: N818
    """A place did not give the file; the text says why in a few words."""


class Unreached(PlaceFailed):
    """No attempt got as far as an answer of the server."""


class OtherContent(PlaceFailed):
    """A place gave a file with another sha256, ``found``; the bytes are in the part.

    ``pieced``: some of the bytes were there before, so that another try in one piece may give the right file.
    """

    def __init__(self, found: str, size: int, kind: str = "", *, pieced: bool = False) -> None:
        what = f", {kind}" if kind.startswith("text/") else ""
        super().__init__(f"sha256 {found} ({size} bytes{what})")
        self.found = found
        self.pieced = pieced


class Stopped(Exception):  # noqa: N818
    """The user gave up; the part holds what has come so far."""


class _Interrupted(Exception):  # noqa: N818
    """An attempt ended early; another one may go on. ``wait`` is what the server asked for, in seconds."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait


@dataclass(frozen=True)
class Transport:
    """A session with the interface of ``requests``, and the exceptions of its own that it raises."""

    session: Any
    errors: tuple[type[BaseException], ...]


@dataclass(frozen=True)
class Patience:
    """How long to try. ``tries`` counts attempts that bring nothing new; ``limit`` all of them.

    ``backoff_s`` doubles with each attempt in vain, up to ``longest_s``. The timeouts are seconds until a
    connection stands, and between two pieces of it.
    """

    tries: int = 3
    limit: int = 50
    backoff_s: float = 1.0
    longest_s: float = 30.0
    connect_s: float = 15.0
    read_s: float = 30.0


@dataclass
class Download:
    """One file from one address into ``part``.

    :param listen: called with the bytes that are there and the size, if the server says it
    :param stop: set from elsewhere to end the download between two pieces
    """

    url: str
    part: Path
    sha256: str
    transport: Transport
    patience: Patience = field(default_factory=Patience)
    listen: Listener = lambda there, size: None
    stop: threading.Event = field(default_factory=threading.Event)

    _kind: str = ""
    _answered: bool = False

    def run(self) -> None:
        """Bring ``part`` to the file of that sha256.

        :raises OtherContent: the file has another sha256
        :raises PlaceFailed: the server does not have it, or gives up too often
        :raises StorageError: the disk is full or cannot be written
        :raises Stopped: ``stop`` was set
        """
        with storage_errors(self.part):
            self.part.parent.mkdir(parents=True, exist_ok=True)
            self.part.touch()
        pieced = self._size() > 0
        try:
            self._transfer()
        except PlaceFailed:
            # All may be there, and the server may announce more than it has, or be gone by now.
            if not self._size() or self._hash() != self.sha256:
                raise
        found = self._hash()
        if found != self.sha256:
            raise OtherContent(found, self._size(), self._kind, pieced=pieced)
        self._note_path.unlink(missing_ok=True)

    def _transfer(self) -> None:
        """Attempt after attempt until the server says that all is there."""
        in_vain = 0
        self._answered = False
        for _ in range(self.patience.limit):
            before = self._size()
            try:
                self._attempt()
                return
            except _Interrupted as error:
                why = error
            except self.transport.errors as error:
                why = _Interrupted(_words(error))
            in_vain = 0 if self._size() > before else in_vain + 1
            if in_vain >= self.patience.tries:
                break
            pause = min(self.patience.longest_s, self.patience.backoff_s * 2 ** max(0, in_vain - 1))
            if self.stop.wait(max(min(why.wait, self.patience.longest_s), pause * random.uniform(0.5, 1.0))):
                raise Stopped
        size = self._size()
        self._drop_if_empty()
        kind = PlaceFailed if self._answered else Unreached
        raise kind(f"{why}, {size} bytes are kept" if size else str(why))

    def _attempt(self) -> None:
        there = self._size()
        with closing(self._open(there)) as answer:
            self._answered = True
            status = answer.status_code
            headers = answer.headers
            begin, size = _content_range(headers.get("Content-Range", ""))
            if status == 416 and there:
                if size == there:
                    return
                self._empty()
                raise _Interrupted("the file has another size now")
            if status in AGAIN:
                raise _Interrupted(f"HTTP {status} {answer.reason}", _seconds(headers.get("Retry-After")))
            if status not in (200, 206):
                self._drop_if_empty()
                raise PlaceFailed(f"HTTP {status} {answer.reason}".strip())
            if status == 206 and begin != there:
                self._empty()
                raise _Interrupted(f"the server sent another range: {headers.get('Content-Range')}")
            if status == 200:
                there = 0
                length = headers.get("Content-Length", "")
                size = int(length) if length.isdecimal() else None
            self._kind = headers.get("Content-Type", "")
            self._note(headers)
            there = self._receive(answer, there, size)
            if size is not None and there < size:
                raise _Interrupted(f"the connection ended after {there} of {size} bytes")

    def _receive(self, answer: Any, there: int, size: int | None) -> int:
        """Write the body as it comes, without undoing any Content-Encoding; the size of the part then."""
        with storage_errors(self.part):
            stream = self.part.open("r+b")
        with stream:
            with storage_errors(self.part):
                stream.truncate(there)
                stream.seek(there)
            self.listen(there, size)
            for piece in answer.raw.stream(PIECE, decode_content=False):
                with storage_errors(self.part):
                    stream.write(piece)
                    stream.flush()
                there += len(piece)
                self.listen(there, size)
                if self.stop.is_set():
                    raise Stopped
        return there

    def _open(self, there: int) -> Any:
        headers = {"Accept-Encoding": "identity", "User-Agent": f"rocm-channel/{__version__}"}
        if there:
            headers["Range"] = f"bytes={there}-"
            note = self._read_note()
            if note.get("url") == _mark(self.url) and note.get("validator"):
                headers["If-Range"] = note["validator"]
        timeout = (self.patience.connect_s, self.patience.read_s)
        return self.transport.session.get(self.url, headers=headers, stream=True, timeout=timeout)

    @property
    def _note_path(self) -> Path:
        return self.part.with_name(f"{self.part.name}.json")

    def _read_note(self) -> dict[str, str]:
        try:
            note = json.loads(self._note_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) else {}

    def _note(self, headers: Mapping[str, str]) -> None:
        tag = headers.get("ETag", "")
        # A weak tag does not promise the same bytes.
        validator = tag if tag.startswith('"') else headers.get("Last-Modified", "")
        write_text_whole(self._note_path, json.dumps({"url": _mark(self.url), "validator": validator}) + "\n")

    def _size(self) -> int:
        with suppress(OSError):
            return self.part.stat().st_size
        return 0

    def _empty(self) -> None:
        with storage_errors(self.part):
            os.truncate(self.part, 0)

    def _drop_if_empty(self) -> None:
        if not self._size():
            with suppress(OSError):
                self.part.unlink(missing_ok=True)

    def _hash(self) -> str:
        digest = hashlib.sha256()
        with self.part.open("rb") as stream:
            while piece := stream.read(CHUNK):
                digest.update(piece)
                if self.stop.is_set():
                    raise Stopped
        return digest.hexdigest()


def _mark(url: str) -> str:
    """What tells one address from another on disk, without the password that may be in it."""
    return hashlib.sha256(url.encode()).hexdigest()


def web_transport() -> Transport:
    """A session of ``requests``: proxies, certificates and ``.netrc`` as the environment says."""
    import requests
    from urllib3.exceptions import HTTPError

    return Transport(requests.Session(), (requests.RequestException, HTTPError))


def _content_range(text: str) -> tuple[int | None, int | None]:
    """First byte and whole size of a Content-Range; ``None`` where it does not say."""
    match = CONTENT_RANGE.fullmatch(text.strip())
    if match is None:
        return None, None
    begin, size = match.groups()
    return int(begin) if begin else None, int(size) if size != "*" else None


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isdecimal() else 0.0


def _words(error: BaseException) -> str:
    """What went wrong with a connection, without the layers of the libraries around it."""
    seen: BaseException | None = error
    while seen is not None:
        reason = getattr(seen, "reason", None)
        inner = (
            reason
            if isinstance(reason, BaseException)
            else next((part for part in seen.args if isinstance(part, BaseException)), None)
        )
        if inner is None:
            break
        seen = inner
    text = " ".join(str(seen or error).split())
    text = re.sub(r"^<[^>]*>: |^\S*(?:Connection|Pool)\S*\([^)]*\): ", "", text)
    return text[:200] or type(error).__name__
