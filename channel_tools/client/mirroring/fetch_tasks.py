"""Downloading package files, as it runs in the child process.

It is done with py-rattler's client, so with the credentials and proxies of the user's own clients, and goes
on where an earlier download broke off. py-rattler does not say whether a server heeded ``Range``. So a
download that goes on asks for the last bytes that it has once more: an answer that begins with those goes on,
one that begins as the file does is the whole of it, and any other is a file that changed.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

Json = dict[str, Any]

OVERLAP = 64 << 10
"""Bytes that are asked for once more."""

PARALLEL = 4
ATTEMPTS = 5
"""Downloads of one file that may break off one after the other, each after some progress."""


class ChangedError(Exception):
    """What comes is not the file whose beginning is here."""


class Part:
    """The end of a file that grows as its bytes arrive, and their sha256 with it."""

    def __init__(self, path: Path, limit: int | None) -> None:
        self.path = path
        self.limit = limit
        self.digest = hashlib.sha256()
        self.there = 0
        self.tail = self.head = b""
        self._waiting = b""
        self._stream: IO[bytes] | None = None

    @property
    def arrived(self) -> int:
        return self.there + len(self._waiting)

    def open(self) -> int:
        """Read what an earlier try left; returns where the download is to begin."""
        self.close()
        self.digest, self.there, self._waiting = hashlib.sha256(), 0, b""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()
        if self.limit is not None and self.path.stat().st_size > self.limit:
            self.path.write_bytes(b"")
        self._stream = self.path.open("r+b")
        while piece := self._stream.read(1 << 20):
            self.digest.update(piece)
            self.there += len(piece)
        start = max(self.there - OVERLAP, 0)
        self._stream.seek(0)
        self.head = self._stream.read(self.there - start)
        self._stream.seek(start)
        self.tail = self._stream.read()
        return start

    def write(self, piece: bytes) -> int:
        if self.tail:
            self._waiting += piece
            if len(self._waiting) < len(self.tail):
                return len(piece)
            arrived, self._waiting = self._waiting, b""
            self._join(arrived)
        else:
            self._append(piece)
        return len(piece)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _join(self, arrived: bytes) -> None:
        tail, self.tail = self.tail, b""
        if arrived.startswith(tail) and self.there > len(tail):
            self._append(arrived[len(tail) :])
        elif arrived.startswith(self.head):
            assert self._stream is not None
            self._stream.seek(0)
            self._stream.truncate()
            self.digest, self.there = hashlib.sha256(), 0
            self._append(arrived)
        else:
            raise ChangedError

    def _append(self, piece: bytes) -> None:
        assert self._stream is not None
        self.there += len(piece)
        if self.limit is not None and self.there > self.limit:
            raise ChangedError
        self._stream.write(piece)
        self.digest.update(piece)


class _Writer:
    """One download's way into a part; what comes after it was given up goes nowhere."""

    def __init__(self, part: Part) -> None:
        self.part: Part | None = part

    def write(self, piece: bytes) -> int:
        if self.part is None:
            raise OSError("given up")
        return self.part.write(piece)


def fetch(payload: Json) -> Any:
    """Download: ``{"files": [{"url", "path", "size", "sha256"}, ...], "stall": seconds}``.

    ``size`` in bytes, null when not known. The answer has one object for each file: ``{"sha256", "size"}`` of
    what is there now, or ``{"error": text}``; what has arrived of such a file stays, except what is wrong.
    """
    return asyncio.run(_fetch(payload["files"], payload.get("stall", 120.0)))


async def _fetch(files: list[Json], stall: float) -> list[Json]:
    gate = asyncio.Semaphore(PARALLEL)

    async def one(file: Json) -> Json:
        async with gate:
            return await _one(file, stall)

    return list(await asyncio.gather(*(one(file) for file in files)))


async def _one(file: Json, stall: float) -> Json:
    part = Part(Path(file["path"]), file["size"])
    restarted = False
    attempts = 0
    try:
        while True:
            start, before = part.open(), part.there
            try:
                if part.limit is None or part.there < part.limit or part.there == 0:
                    await _download(file["url"], part, start, stall)
            except ChangedError:
                wrong = "has another size or content than what was begun"
            except Exception as error:
                attempts = 0 if part.there > before + OVERLAP else attempts + 1
                if attempts and (attempts >= ATTEMPTS or not _broke_off(error, part.there > before)):
                    return {"error": str(error) or type(error).__name__}
                continue
            else:
                found = part.digest.hexdigest()
                if file["sha256"] in (None, found):
                    return {"sha256": found, "size": part.there}
                wrong = f"has sha256 {found}"
            part.close()
            part.path.unlink(missing_ok=True)
            if restarted or before == 0:
                return {"error": wrong, "changed": True}
            restarted = True
    finally:
        part.close()


def _broke_off(error: Exception, progress: bool) -> bool:
    """May the same be tried once more? Not where a server answered that it will not."""
    return isinstance(error, OSError) or progress


async def _download(url: str, part: Part, start: int, stall: float) -> None:
    if urlsplit(url).scheme == "file":
        with Path(unquote(urlsplit(url).path)).open("rb") as source:
            source.seek(start)
            await asyncio.to_thread(shutil.copyfileobj, source, part, 1 << 20)
        return
    from rattler.networking import Client
    from rattler.package_streaming import download_to_writer

    headers = {"Range": f"bytes={start}-"} if start else None
    client = Client.default_client(headers=headers)
    writer = _Writer(part)
    task = asyncio.ensure_future(download_to_writer(client, url, writer))
    seen = -1
    while not task.done():
        await asyncio.wait({task}, timeout=stall)
        if not task.done() and part.arrived == seen:
            writer.part = None
            task.cancel()
            raise OSError(f"no byte came for {stall:g} seconds")
        seen = part.arrived
    await task
