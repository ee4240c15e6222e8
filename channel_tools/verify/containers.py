"""The files in a package, archive or folder, one at a time and without unpacking to disk.

``.conda`` (https://conda.org/learn/ceps/cep-0035: a zip of ``pkg-*.tar.zst`` and ``info-*.tar.zst``),
``.tar.bz2`` and other tar files, zip files and wheels, folders, single files. What a file is is told by its
content. Nothing is ever written at a path that an archive names, nor anywhere else; links are not followed.

Members up to 32 MiB are held in memory, larger ones pass once (:mod:`.passing`). Whatever the
input, reading takes at most :data:`MEMORY_BOUND_MIB`.
"""

from __future__ import annotations

import io
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Final, cast

from channel_tools.verify.files import HEAD_SIZE
from channel_tools.verify.findings import Fault
from channel_tools.verify.kept import InPieces
from channel_tools.verify.passing import Passing
from channel_tools.verify.source import DamageError, OwnFile, Source, SourceFile, printable
from channel_tools.verify.streams import STREAM_MAGICS, Budget, Stream, library_errors, open_stream
from channel_tools.verify.tar_files import entry_data, tar_entries
from channel_tools.verify.zip_files import ZIP_MAGICS, open_entry, open_zip

MEMORY_BOUND_MIB: Final = 768
"""Memory of the whole process, in MiB, that verification stays below, whatever the sizes in its input."""

OnLink = Callable[[str, str], None]

_IN_MEMORY: Final = 32 << 20
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_TAR_MAGIC: Final = b"ustar"
_TAR_MAGIC_AT: Final = 257
_CHUNK: Final = 1 << 20
_WORTH_A_THREAD: Final = 1 << 20
_MAX_LINK: Final = 4096
_ARCHIVE_NAME = re.compile(r".*\.(conda|whl|zip|tar|tgz|tar\.(bz2|gz|xz|zst))")
_CONDA_PART = re.compile(r"(pkg|info)-.+\.tar\.zst")


@dataclass(frozen=True)
class Member:
    """One file of a container.

    ``head`` is its first bytes (up to :data:`HEAD_SIZE`); ``open_source`` gives all of it. A source that is
    not ``shared`` is valid until the next member is asked for. A member with a ``fault`` has no content.
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
    source = _open(path, printable(str(path)), _READ)
    source.beside = _beside(path.parent, path.parent)
    yield source


def _open(path: Path, name: str, flags: int) -> Source:
    try:
        file = OwnFile(os.open(path, flags))
    except OSError as error:
        raise DamageError(
            "cannot be opened", where=name, found=error.strerror or str(error), wanted="a readable file"
        ) from error
    status = file.status()
    if not stat.S_ISREG(status.st_mode):
        raise DamageError("not a file", where=name, found=stat.filemode(status.st_mode), wanted="a file")
    return Source(name, file, status.st_size)


def _beside(folder: Path, root: Path) -> Callable[[str], Source | None]:
    """Opens files below ``folder``, no links, and none outside ``root``."""

    def open_beside(name: str) -> Source | None:
        path = folder / name
        try:
            if path.resolve().is_relative_to(root.resolve()):
                return _open(path, name, _READ | os.O_NOFOLLOW)
        except (DamageError, OSError, ValueError):
            pass
        return None

    return open_beside


def container_kind(name: str, source: Source) -> str | None:
    """``conda package``, ``wheel``, ``zip`` or ``tar`` by content; None for a file that is no container.

    :raises DamageError: a name that promises a container, and content that is none
    """
    head = source.peek(0, HEAD_SIZE)
    if head.startswith(ZIP_MAGICS):
        with open_zip(name, source) as archive:
            names = archive.namelist()
        if name.endswith(".conda") or any(_CONDA_PART.fullmatch(entry) for entry in names):
            return "conda package"
        return "wheel" if any(entry.endswith(".dist-info/METADATA") for entry in names) else "zip"
    if _is_tar(head) or (head.startswith(STREAM_MAGICS) and _holds_tar(source)):
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
    return head.startswith((*ZIP_MAGICS, *STREAM_MAGICS)) or _is_tar(head)


def container_members(
    name: str, kind: str, source: Source, budget: Budget, on_link: OnLink | None = None
) -> Iterator[Member]:
    """The files of a container of a kind that :func:`container_kind` gave.

    :param on_link: told of each link and what it leads to, as the archive spells them
    :raises DamageError: an archive that ends early, contradicts itself or unpacks without bound
    """
    if kind == "tar":
        yield from _TarFiles(name, source, lambda: _file(source), budget, on_link).members()
        return
    with open_zip(name, source) as archive:
        files = _ZipFiles(name, source, archive, budget, on_link)
        if kind == "conda package":
            yield from _conda_members(files)
        else:
            yield from files.members(archive.infolist())


def folder_members(root: Path, budget: Budget, on_link: OnLink | None = None) -> Iterator[Member]:
    """Every file under a folder, in order of its path; links are passed over, wherever they lead.

    :param on_link: told of each link and what it leads to
    """
    for folder, names, files in os.walk(root, onerror=_raise_walk_error):
        names.sort()
        links = [name for name in names if on_link and Path(folder, name).is_symlink()]
        for file_name in sorted([*files, *links]):
            path = Path(folder, file_name)
            shown = printable(path.relative_to(root).as_posix())
            if path.is_symlink():
                if on_link:
                    on_link(shown, printable(str(path.readlink())))
                continue
            budget.add_member()
            try:
                source = _open(path, shown, _READ | os.O_NOFOLLOW)
            except DamageError as damage:
                fault = Fault(damage.what, None, damage.found, damage.wanted, damage=True)
                yield Member(shown, 0, fault=fault)
                continue
            source.beside = _beside(Path(folder), root)
            yield Member(shown, source.size, source.peek(0, HEAD_SIZE), opener=_always(source))


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


def _holds_tar(source: Source) -> bool:
    stream = open_stream(source.name, _file(source), None)
    try:
        return _is_tar(stream.read(HEAD_SIZE))
    finally:
        stream.close()


@dataclass(frozen=True)
class _TarFiles:
    """A tar file in ``source``, which ``open_file`` opens from its start, compressed or not."""

    name: str
    source: Source
    open_file: Callable[[], IO[bytes]]
    budget: Budget
    on_link: OnLink | None

    def members(self) -> Iterator[Member]:
        stream = self._open(self.budget.add_bytes)
        try:
            for info in tar_entries(self.name, stream):
                yield from self._member(info, stream)
        finally:
            stream.close()

    def _open(self, count: Callable[[int], None]) -> Stream:
        # Unpacked in a thread of its own, where that thread has its bytes for itself.
        ahead = self.source.shared and self.source.size > _WORTH_A_THREAD
        with library_errors(self.name, "tar archive"):
            return open_stream(self.name, self.open_file(), count, ahead=ahead)

    def _member(self, info: tarfile.TarInfo, stream: Stream) -> Iterator[Member]:
        self.budget.add_member()
        reason = _unsafe(info.name) or (_unsafe(info.linkname) if info.islnk() else None)
        if reason:
            yield _refused(info.name, reason)
        elif info.isreg():
            data = Stream(self.name, entry_data(info, stream, self.budget.add_bytes), what="tar archive")
            yield from _stream_member(info.name, info.size, data, lambda: self._data_again(info))
        elif info.issym() or info.islnk():
            if self.on_link:
                self.on_link(printable(info.name), printable(info.linkname))
        elif not info.isdir():
            yield _refused(info.name, "it is neither file, folder nor link")

    def _data_again(self, info: tarfile.TarInfo) -> Stream:
        count = self.budget.add_again
        stream = self._open(count)
        return Stream(self.name, _closing(stream, entry_data(info, stream, count)), what="tar archive")


def _closing(stream: Stream, pieces: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from pieces
    finally:
        stream.close()


@dataclass(frozen=True)
class _ZipFiles:
    """Entries of a zip file in ``source``."""

    name: str
    source: Source
    archive: zipfile.ZipFile
    budget: Budget
    on_link: OnLink | None

    def members(self, infos: Iterable[zipfile.ZipInfo]) -> Iterator[Member]:
        for info in sorted(infos, key=lambda info: info.header_offset):
            self.budget.add_member()
            reason = _unsafe(info.filename)
            if reason:
                yield _refused(info.filename, reason)
            elif stat.S_ISLNK(info.external_attr >> 16):
                self._tell_link(info)
            elif not info.is_dir():
                yield from self._member(info)

    def _member(self, info: zipfile.ZipInfo) -> Iterator[Member]:
        stream = self._open(info, self.budget.add_bytes)
        try:
            yield from _stream_member(
                info.filename, info.file_size, stream, lambda: self._open(info, self.budget.add_again)
            )
            while stream.piece(_CHUNK):
                pass  # the check sum is compared at the end
        finally:
            stream.close()

    def _open(self, info: zipfile.ZipInfo, count: Callable[[int], None]) -> Stream:
        ahead = self.source.shared and info.file_size > _WORTH_A_THREAD
        with library_errors(self.name, "zip archive"):
            return open_stream(self.name, open_entry(self.archive, info), count, ahead=ahead, packed=False)

    def _tell_link(self, info: zipfile.ZipInfo) -> None:
        if self.on_link and info.file_size <= _MAX_LINK:
            target = self._open(info, self.budget.add_bytes).read(_MAX_LINK)
            self.on_link(printable(info.filename), printable(target))


def _conda_members(files: _ZipFiles) -> Iterator[Member]:
    infos = files.archive.infolist()
    parts = [info for info in infos if _CONDA_PART.fullmatch(info.filename)]
    prefixes = sorted(info.filename.partition("-")[0] for info in parts)
    if prefixes != ["info", "pkg"]:
        raise DamageError(
            "parts of a .conda package",
            where=files.name,
            found=", ".join(info.filename for info in parts),
            wanted="one info-*.tar.zst and one pkg-*.tar.zst",
        )
    yield from files.members(info for info in infos if info not in parts)
    for info in sorted(parts, key=lambda part: part.filename):
        part = _TarFiles(
            files.name, files.source, partial(open_entry, files.archive, info), files.budget, files.on_link
        )
        yield from part.members()


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
        rule="unsafe-entry",
    )
    return Member(printable(path), 0, fault=fault)


def _stream_member(path: str, size: int, stream: Stream, again: Callable[[], Stream]) -> Iterator[Member]:
    """One member out of a stream: its head now, the rest only if the consumer asks."""
    path = printable(path)
    head = stream.read(min(size, HEAD_SIZE))
    sources: list[Source] = []

    def opener() -> Source:
        if not sources:
            sources.append(_stream_source(path, size, head, stream, again))
        return sources[0]

    try:
        yield Member(path, size, head, opener=opener)
    finally:
        for source in sources:
            source.close()


def _stream_source(path: str, size: int, head: bytes, stream: Stream, again: Callable[[], Stream]) -> Source:
    if size > _IN_MEMORY:
        return Source(path, Passing(path, size, stream, again, first=head), size)
    whole = InPieces([head, *_pieces(stream, size - len(head))])
    if whole.size < size:
        raise DamageError(
            "archive entry cannot be read",
            where=path,
            found=f"it ends after {whole.size} of {size} bytes",
            wanted="a sound archive entry",
        )
    return Source(path, whole, size)


def _pieces(stream: Stream, left: int) -> Iterator[bytes]:
    while left > 0 and (piece := stream.piece(left)):
        yield piece
        left -= len(piece)
