"""The files in a package, archive or folder, one at a time and without unpacking to disk.

``.conda`` (https://conda.org/learn/ceps/cep-0035: a zip of ``pkg-*.tar.zst`` and ``info-*.tar.zst``),
``.tar.bz2`` and other tar files, zip files and wheels, folders, single files. What a file is is told by its
content. Nothing is ever written at a path that an archive names; links are not followed.
"""

from __future__ import annotations

import io
import os
import re
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from channel_tools.verify.files import HEAD_SIZE
from channel_tools.verify.findings import Fault
from channel_tools.verify.source import DamageError, OpenFile, Source, SourceFile, printable
from channel_tools.verify.streams import (
    STREAM_MAGICS,
    Budget,
    CountedStream,
    Readable,
    library_errors,
    open_stream,
)

_ZIP_MAGICS: Final = (b"PK\x03\x04", b"PK\x05\x06")
_TAR_MAGIC: Final = b"ustar"
_TAR_MAGIC_AT: Final = 257
_TAR_BLOCK: Final = 512
_CHUNK: Final = 1 << 20
_IN_MEMORY: Final = 32 << 20
_ARCHIVE_NAME = re.compile(r".*\.(conda|whl|zip|tar|tgz|tar\.(bz2|gz|xz|zst))")
_CONDA_PART = re.compile(r"(pkg|info)-.+\.tar\.zst")


@dataclass(frozen=True)
class Member:
    """One file of a container.

    ``head`` is its first bytes (up to :data:`HEAD_SIZE`); ``open_source`` gives all of it, valid until the
    next member is asked for. A member with a ``fault`` has no content.
    """

    path: str
    size: int
    head: bytes = b""
    fault: Fault | None = None
    opener: Callable[[], Source] | None = None

    def open_source(self) -> Source:
        if self.opener is None:
            raise ValueError(f"{self.path} has no content")
        return self.opener()


@contextmanager
def open_regular(path: Path) -> Iterator[Source]:
    """A file as a source; links are followed, since the caller names the file.

    :raises DamageError: no regular file (a pipe is not waited for), or one that cannot be opened
    """
    with _opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC) as (descriptor, status):
        yield Source(printable(str(path)), OpenFile(descriptor), status.st_size)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[tuple[int, os.stat_result]]:
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise DamageError(
            "cannot be opened",
            where=printable(str(path)),
            found=error.strerror or str(error),
            wanted="a readable file",
        ) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise DamageError(
                "not a file", where=printable(str(path)), found=stat.filemode(status.st_mode), wanted="a file"
            )
        yield descriptor, status
    finally:
        os.close(descriptor)


def container_kind(name: str, source: Source) -> str | None:
    """``conda package``, ``wheel``, ``zip`` or ``tar`` by content; None for a file that is no container.

    :raises DamageError: a name that promises a container, and content that is none
    """
    head = source.peek(0, HEAD_SIZE)
    if head.startswith(_ZIP_MAGICS):
        with library_errors(name, "zip archive"), zipfile.ZipFile(_file(source)) as archive:
            names = archive.namelist()
        if any(_CONDA_PART.fullmatch(entry) for entry in names):
            return "conda package"
        return "wheel" if any(entry.endswith(".dist-info/METADATA") for entry in names) else "zip"
    if _is_tar(head) or (head.startswith(STREAM_MAGICS) and _holds_tar(source, head)):
        return "tar"
    if _ARCHIVE_NAME.fullmatch(name.rpartition("/")[2]):
        raise DamageError(
            "not an archive, as its name says",
            where=name,
            offset=0,
            found=head[:8].hex(" ") or "an empty file",
            wanted="a zip archive or a (compressed) tar archive",
        )
    return None


def nested_kind(source: Source) -> str | None:
    """As :func:`container_kind`, for a file in a container: one that cannot be opened is mere data."""
    try:
        return container_kind("", source)
    except DamageError:
        return None


def may_be_container(head: bytes) -> bool:
    """Cheap first look, before :func:`nested_kind` opens it."""
    return head.startswith((*_ZIP_MAGICS, *STREAM_MAGICS)) or _is_tar(head)


def container_members(name: str, kind: str, source: Source, budget: Budget) -> Iterator[Member]:
    """The files of a container of a kind that :func:`container_kind` gave.

    :raises DamageError: an archive that ends early, contradicts itself or unpacks without bound
    """
    if kind == "tar":
        stream = open_stream(name, _file(source), source.peek(0, 8), budget)
        yield from _tar_members(name, stream, budget)
    else:
        with library_errors(name, "zip archive"), zipfile.ZipFile(_file(source)) as archive:
            if kind == "conda package":
                yield from _conda_members(name, archive, budget)
            else:
                yield from _zip_members(name, archive, archive.infolist(), budget)


def folder_members(root: Path, budget: Budget) -> Iterator[Member]:
    """Every file under a folder, in order of its path; links are passed over, wherever they lead."""
    for folder, names, files in os.walk(root, onerror=_raise_walk_error):
        names.sort()
        for file_name in sorted(files):
            path = Path(folder, file_name)
            shown = printable(path.relative_to(root).as_posix())
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                continue
            budget.add_member()
            try:
                with _opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC) as opened:
                    descriptor, status = opened
                    source = Source(shown, OpenFile(descriptor), status.st_size)
                    head = source.peek(0, HEAD_SIZE)
                    yield Member(shown, status.st_size, head, opener=_always(source))
            except DamageError as damage:
                fault = Fault(damage.what, None, damage.found, damage.wanted, damage=True)
                yield Member(shown, 0, fault=fault)


def _raise_walk_error(error: OSError) -> None:
    raise DamageError(
        "cannot be listed",
        where=str(error.filename),
        found=error.strerror or str(error),
        wanted="a readable folder",
    )


def _always(source: Source) -> Callable[[], Source]:
    return lambda: source


def _file(source: Source) -> IO[bytes]:
    return cast("IO[bytes]", io.BufferedReader(SourceFile(source), _CHUNK))


def _is_tar(head: bytes) -> bool:
    return head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + len(_TAR_MAGIC)] == _TAR_MAGIC


def _holds_tar(source: Source, head: bytes) -> bool:
    return _is_tar(open_stream(source.name, _file(source), head, None).read(HEAD_SIZE))


def _conda_members(name: str, archive: zipfile.ZipFile, budget: Budget) -> Iterator[Member]:
    parts = [info for info in archive.infolist() if _CONDA_PART.fullmatch(info.filename)]
    prefixes = sorted(info.filename.partition("-")[0] for info in parts)
    if prefixes != ["info", "pkg"]:
        raise DamageError(
            "parts of a .conda package",
            where=name,
            found=", ".join(info.filename for info in parts),
            wanted="one info-*.tar.zst and one pkg-*.tar.zst",
        )
    others = [info for info in archive.infolist() if info not in parts]
    yield from _zip_members(name, archive, others, budget)
    for info in sorted(parts, key=lambda part: part.filename):
        with archive.open(info) as raw:
            stream = CountedStream(name, raw, None)
            head = stream.read(len(STREAM_MAGICS[0]))
            yield from _tar_members(
                name, open_stream(name, cast("IO[bytes]", _Joined(head, stream)), head, budget), budget
            )
            stream.drain()


class _Joined:
    """Bytes that were looked at already, and the stream that they came from."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int, /) -> bytes:
        head, self._head = self._head[:size], self._head[size:]
        return head or self._rest.read(size)


def _zip_members(
    name: str, archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], budget: Budget
) -> Iterator[Member]:
    for info in infos:
        budget.add_member()
        reason = _unsafe(info.filename)
        if reason:
            yield _refused(info.filename, reason)
        elif not info.is_dir() and not stat.S_ISLNK(info.external_attr >> 16):
            with archive.open(info) as raw:
                stream = CountedStream(name, raw, budget)
                yield from _stream_member(info.filename, info.file_size, stream)
                stream.drain()


def _tar_members(name: str, stream: CountedStream, budget: Budget) -> Iterator[Member]:
    raw = cast("IO[bytes]", stream)
    with library_errors(name, "tar archive"), tarfile.open(fileobj=raw, mode="r|", bufsize=_CHUNK) as tar:
        for info in tar:
            tar.members = []  # type: ignore[attr-defined]  # else it keeps every header
            budget.add_member()
            reason = _unsafe(info.name) or (_unsafe(info.linkname) if info.islnk() else None)
            if reason:
                yield _refused(info.name, reason)
            elif info.isreg():
                content = tar.extractfile(info)
                if content is not None:
                    yield from _stream_member(info.name, info.size, content)
            elif not (info.isdir() or info.issym() or info.islnk()):
                yield _refused(info.name, "it is neither file, folder nor link")
        stream.drain()
        more = stream.content_end - tar.offset
        if more > 0 or stream.total < tar.offset + _TAR_BLOCK:
            raise DamageError(
                "a tar archive without its end mark",
                where=name,
                offset=tar.offset,
                found=f"{more} bytes that are no member header" if more > 0 else "the end",
                wanted="a member header, or zeros to the end",
            )


def _unsafe(path: str) -> str | None:
    """Why a path must not be in a package; None for a good one."""
    parts = path.split("/")
    if not path or "\0" in path:
        return "its name is empty or holds a zero byte"
    if path.startswith(("/", "\\")) or re.match(r"[A-Za-z]:[\\/]", path):
        return "its path is absolute"
    if ".." in parts or ".." in path.split("\\"):
        return "its path leads out of the archive"
    return None


def _refused(path: str, reason: str) -> Member:
    fault = Fault(
        f"an entry that must not be unpacked: {reason}",
        found=repr(path),
        wanted="files and links below the archive's own root",
        fix="do not install this package; build it anew",
        damage=True,
    )
    return Member(printable(path), 0, fault=fault)


def _stream_member(path: str, size: int, content: Readable) -> Iterator[Member]:
    """One member out of a stream: its head now, the rest only if the consumer asks."""
    path = printable(path)
    head = content.read(min(size, HEAD_SIZE))
    with tempfile.TemporaryFile() if size > _IN_MEMORY else io.BytesIO() as store:

        def opener() -> Source:
            with library_errors(path, "archive entry"):
                store.write(head)
                left = size - len(head)
                while left > 0:
                    data = content.read(min(left, _CHUNK))
                    if not data:
                        raise EOFError(f"it ends after {size - left} of {size} bytes")
                    store.write(data)
                    left -= len(data)
                store.flush()
            if isinstance(store, io.BytesIO):
                return Source.of_bytes(path, store.getvalue())
            return Source(path, OpenFile(store.fileno()), size)

        yield Member(path, size, head, opener=opener)
