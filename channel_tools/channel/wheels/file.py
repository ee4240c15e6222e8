"""A built wheel: its names, its metadata, and whether its RECORD is true.

The format is "Binary distribution format" of the Python packaging specifications (PEP 427, 491, 639).
"""

from __future__ import annotations

import base64
import csv
import errno
import hashlib
import io
import lzma
import struct
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from packaging.metadata import parse_email
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from channel_tools.model.errors import ChannelError, ChannelToolsError, DamagedFileError, StorageError

SIGNATURES: Final = ("RECORD.jws", "RECORD.p7s")
_MAX_METADATA: Final = 16 << 20
_CHUNK: Final = 1 << 20
_DAMAGE: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, csv.Error, struct.error),
    *(EOFError, NotImplementedError, RuntimeError, UnicodeError),
)
"""What the modules of a damaged zip file, its packed data and its RECORD raise."""


@dataclass(frozen=True)
class Wheel:
    """A wheel's own word.

    ``distribution`` is the name as the file spells it, ``name`` as indexes do; ``tags`` is what stands behind
    the version in the file name; ``info`` is the name of the ``.dist-info`` folder.
    """

    path: Path
    distribution: str
    name: str
    version: str
    tags: str
    info: str
    metadata: bytes = field(repr=False)
    record: bytes = field(repr=False)
    requires_python: str | None
    signed: bool

    def file_name(self, version: str) -> str:
        """File name of this wheel with another version."""
        return f"{self.distribution}-{_in_name(version)}-{self.tags}"

    def folders(self, version: str) -> dict[str, str]:
        """Top folders that carry the version, and what they are called with another one."""
        stem = self.info.removesuffix(".dist-info")
        new = f"{stem.partition('-')[0]}-{_in_name(version)}"
        return {f"{stem}{end}": f"{new}{end}" for end in (".dist-info", ".data")}


def _in_name(version: str) -> str:
    return str(Version(version)).replace("-", "_")


def read_wheel(path: Path) -> Wheel:
    """Read and check a wheel: names that agree, and a RECORD that lists every file as it is.

    :raises DamagedFileError: no wheel, one that ends early, or whose RECORD is not true
    :raises ChannelError: names that contradict each other
    :raises StorageError: it cannot be read
    """
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
        with zipfile.ZipFile(path) as archive:
            return _read(path, str(name), version, archive)
    except InvalidWheelFilename as error:
        raise ChannelError("is no file name of a wheel", where=path, found=str(error)) from error
    except _DAMAGE as error:
        raise DamagedFileError("cannot be read as a wheel", where=path, found=str(error)) from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # an offset before the file's beginning
            raise DamagedFileError("cannot be read as a wheel", where=path, found="a wrong offset") from error
        raise StorageError(f"cannot be read: {error.strerror or error}", where=path) from error


def _read(path: Path, name: str, version: Version, archive: zipfile.ZipFile) -> Wheel:
    folders = {entry.partition("/")[0] for entry in archive.namelist()}
    infos = sorted(folder for folder in folders if folder.endswith(".dist-info"))
    if len(infos) != 1:
        raise _wrong(path, "must have one .dist-info folder", ", ".join(infos) or "none")
    info = infos[0]
    metadata, record = (_member(path, archive, f"{info}/{file}") for file in ("METADATA", "RECORD"))
    _member(path, archive, f"{info}/WHEEL")
    raw, _ = parse_email(metadata)
    stem_name, _, stem_version = info.removesuffix(".dist-info").partition("-")
    said = {
        "file name": (name, version),
        "METADATA": (canonicalize_name(raw.get("name", "")), _version(path, raw.get("version", ""))),
        info: (canonicalize_name(stem_name), _version(path, stem_version)),
    }
    if len(set(said.values())) > 1:
        found = "; ".join(f"{where}: {one} {number}" for where, (one, number) in said.items())
        raise _wrong(path, "contradicts itself about its name or version", found)
    _check_record(path, archive, info, record)
    distribution, _, rest = path.name.partition("-")
    return Wheel(
        path=path,
        distribution=distribution,
        name=name,
        version=str(version),
        tags=rest.partition("-")[2],
        info=info,
        metadata=metadata,
        record=record,
        requires_python=raw.get("requires_python"),
        signed=any(f"{info}/{one}" in archive.NameToInfo for one in SIGNATURES),
    )


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        entry = archive.getinfo(name)
    except KeyError:
        raise _damaged(path, f"has no {name}", "nothing") from None
    if entry.file_size > _MAX_METADATA:
        raise _damaged(path, f"{name} is of an unlikely size", f"{entry.file_size} bytes")
    return archive.read(entry)


def _check_record(path: Path, archive: zipfile.ZipFile, info: str, record: bytes) -> None:
    unsigned = {f"{info}/{name}" for name in ("RECORD", *SIGNATURES)}
    rows = {row[0]: row[1:] for row in read_record(record)}
    files = [entry for entry in archive.infolist() if not entry.is_dir()]
    names = [entry.filename for entry in files]
    if len(set(names)) != len(names):
        raise _damaged(path, "holds two files of one name", next(n for n in names if names.count(n) > 1))
    strangers = sorted(set(names) - set(rows) - unsigned)
    missing = sorted(set(rows) - set(names) - unsigned)
    if strangers or missing:
        found = f"not in RECORD: {strangers[0]}" if strangers else f"not in the wheel: {missing[0]}"
        raise _damaged(path, "RECORD does not list the files of the wheel", found)
    for entry in files:
        if entry.filename in unsigned:
            continue
        algorithm, _, digest = (rows[entry.filename] or [""])[0].partition("=")
        if algorithm not in ("sha256", "sha384", "sha512"):
            raise _damaged(path, f"RECORD has no sha256 of {entry.filename}", algorithm or "nothing")
        found = _digest(archive, entry, algorithm)
        if found != digest.rstrip("="):
            raise _damaged(path, f"{entry.filename} is not what RECORD says", f"{algorithm}={found}")


def _digest(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, algorithm: str) -> str:
    digest = hashlib.new(algorithm)
    with archive.open(entry) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return record_digest(digest.digest())


def record_digest(raw: bytes) -> str:
    """A digest as RECORD spells it: base64 for URLs, without ``=`` at its end."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read_record(record: bytes) -> list[list[str]]:
    """The rows of a RECORD: path, digest, size."""
    return [row for row in csv.reader(io.StringIO(record.decode("utf-8", "replace"))) if row]


def _version(path: Path, text: str) -> Version:
    try:
        return Version(text.replace("_", "-"))
    except ValueError as error:  # InvalidVersion, and numbers without end
        raise _wrong(path, "has a version that PEP 440 does not allow", text[:200]) from error


def _wrong(path: Path, what: str, found: str) -> ChannelError:
    return ChannelError(what, where=path, found=found, fix="build it again")


def _damaged(path: Path, what: str, found: str) -> ChannelToolsError:
    return DamagedFileError(what, where=path, found=found, fix="build or fetch it again")
