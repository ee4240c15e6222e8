"""The text files of a source distribution, from its archive or its unpacked folder."""

from __future__ import annotations

import hashlib
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from channel_tools.model.errors import DamagedFileError, RequirementsError

# What says how a release is built and what it needs.
_READ = re.compile(
    r"PKG-INFO|pyproject\.toml|setup\.py|CMakeLists\.txt|requirements/.+\.(?:txt|in)|cmake/.+\.cmake"
)
_MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class Sdist:
    """One release.

    ``files``: text by path of what was read; ``paths``: every file there is; ``sha256`` of the archive in
    hex, ``None`` for a folder.
    """

    path: Path
    name: str
    version: str
    sha256: str | None
    files: Mapping[str, str]
    paths: frozenset[str]


def read_sdist(path: Path, also: frozenset[str] = frozenset()) -> Sdist:
    """Read lists, ``setup.py`` and CMake files, and the files of ``also`` (paths in the distribution).

    :raises RequirementsError: nothing is there, or it is no source distribution
    :raises DamagedFileError: an archive that ends early
    """
    if path.is_dir():
        pairs, sha256 = _folder(path, also), None
    elif path.is_file():
        pairs, sha256 = _archive(path, also), _sha256(path)
    else:
        raise RequirementsError("there is no source distribution", where=path, fix="correct --source")
    try:
        found = dict(pairs)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DamagedFileError(
            "cannot be read as a source distribution", where=path, found=str(error), fix="fetch it again"
        ) from error
    files = {
        name: data.decode("utf-8", "surrogateescape") for name, data in found.items() if data is not None
    }
    name, version = (_field(files.get("PKG-INFO", ""), key) for key in ("Name", "Version"))
    if not name or not version:
        raise RequirementsError(
            "is no source distribution",
            where=path,
            found="no PKG-INFO with a name and a version",
            wanted="NAME-VERSION.tar.gz as the Python index has it, or the folder that it unpacks to",
        )
    return Sdist(path, name, version, sha256, files, frozenset(found))


def _folder(root: Path, also: frozenset[str]) -> Iterator[tuple[str, bytes | None]]:
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_file():
            wanted = _READ.fullmatch(name) or name in also
            yield name, path.read_bytes()[:_MOST_BYTES] if wanted else None


def _archive(path: Path, also: frozenset[str]) -> Iterator[tuple[str, bytes | None]]:
    with tarfile.open(path, "r:*") as archive:
        for member in archive:
            name = member.name.partition("/")[2]
            if member.isreg():
                stream = archive.extractfile(member) if _READ.fullmatch(name) or name in also else None
                yield name, stream.read(_MOST_BYTES) if stream else None


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _field(text: str, key: str) -> str:
    match = re.search(rf"^{key}:\s*(\S+)\s*$", text, re.MULTILINE)
    return match[1] if match else ""
