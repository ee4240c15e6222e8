"""Unpacking a source archive into a folder, as the build engines do, and never outside it.

The engines drop the one folder that an archive holds everything in; so does this. Python's ``data`` filter
(PEP 706) refuses absolute paths, paths that climb out, links that lead out, and devices. What it would
change without a word (an absolute path loses its root) is an error here, too.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import zstandard

from channel_tools.model.errors import DamagedFileError, RecipeError
from channel_tools.model.files import storage_errors
from channel_tools.model.tar import tarfile

TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
OTHER_ARCHIVES = (".zip", ".7z", ".whl", ".conda")

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Unpacked:
    """``files`` and ``links`` of an archive; ``folder`` is the one that was dropped, if there was one."""

    files: int
    links: int
    folder: str | None


class _Counted:
    """A stream that tells how much of it is read."""

    def __init__(self, stream: IO[bytes], listen: Progress) -> None:
        self._stream, self._listen = stream, listen

    def read(self, size: int = -1) -> bytes:
        piece = self._stream.read(size)
        self._listen(len(piece))
        return piece

    def close(self) -> None:
        """The file is closed by who opened it."""


class _Plain:
    """A decompressed stream with the errors of ``tarfile`` alone, so that a full disk is told apart."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        try:
            return self._stream.read(size)
        except (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
            raise tarfile.ReadError(str(error) or "it ends early") from error


def is_archive(name: str) -> bool:
    """Whether the engines unpack a file of that name.

    :raises RecipeError: they do, and this module does not
    """
    if name.endswith(OTHER_ARCHIVES):
        raise RecipeError("this kind of archive is not unpacked here", where=name, wanted=", ".join(TAR))
    return name.endswith(TAR)


def unpack(archive: Path, name: str, target: Path, listen: Progress = lambda count: None) -> Unpacked:
    """Unpack ``archive``, whose file name is ``name``, so that its content lies in ``target``.

    :param listen: called with the bytes of the archive that were read
    :raises DamagedFileError: it is cut short, or names something outside its folder
    :raises RecipeError: a file of it is in ``target`` already
    :raises StorageError: ``target`` cannot be written
    """
    with storage_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".unpack.", dir=target.parent))
    try:
        files, links = _extract(archive, name, work, listen)
        top = list(work.iterdir())
        dropped = top[0] if len(top) == 1 and top[0].is_dir() and not top[0].is_symlink() else None
        merge(dropped or work, target, name)
        return Unpacked(files, links, dropped.name if dropped else None)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def merge(source: Path, target: Path, name: str) -> None:
    """Move what is in ``source`` into ``target``, folder into folder.

    :raises RecipeError: a file is there already
    """
    for entry in sorted(source.iterdir()):
        there = target / entry.name
        if not there.exists() and not there.is_symlink():
            with storage_errors(there):
                entry.rename(there)
        elif entry.is_dir() and there.is_dir() and not (entry.is_symlink() or there.is_symlink()):
            merge(entry, there, name)
        else:
            raise RecipeError(
                "two sources bring the same file", where=name, found=entry.name, fix="use target_directory"
            )


def _extract(archive: Path, name: str, work: Path, listen: Progress) -> tuple[int, int]:
    files = links = 0
    try:
        with _opened(archive, name, listen) as tar:
            for member in tar:
                if member.name.startswith("/"):
                    raise tarfile.AbsolutePathError(member)
                with storage_errors(work):
                    tar.extract(member, work, filter="data")
                files += member.isfile()
                links += member.issym() or member.islnk()
    except tarfile.FilterError as error:
        raise DamagedFileError(
            "holds something that would leave its folder, and was not unpacked",
            where=name,
            found=str(error),
            fix="do not build from this archive; compare it with the project's own release",
        ) from error
    except tarfile.TarError as error:
        raise DamagedFileError(
            "cannot be unpacked", where=name, found=str(error), fix="rocm-channel sources verify"
        ) from error
    return files, links


@contextmanager
def _opened(archive: Path, name: str, listen: Progress) -> Iterator[tarfile.TarFile]:
    """The archive as a stream, read once from front to end."""
    with archive.open("rb") as stream:
        plain = _Plain(_decompressed(_Counted(stream, listen), name))
        reader: Any = plain
        with tarfile.open(fileobj=reader, mode="r|") as tar:
            yield tar


def _decompressed(stream: Any, name: str) -> Any:
    suffix = name.rpartition(".")[2]
    if suffix in ("gz", "tgz"):
        return gzip.GzipFile(fileobj=stream, mode="rb")
    if suffix in ("bz2", "tbz2"):
        return bz2.BZ2File(stream)
    if suffix in ("xz", "txz"):
        return lzma.LZMAFile(stream)
    if suffix == "zst":
        return zstandard.ZstdDecompressor().stream_reader(stream)
    return stream
