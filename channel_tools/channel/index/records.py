"""A package's record, as it stands in ``repodata.json``, made from the package itself.

It is ``info/index.json`` as it is, less what is null there; ``md5``, ``sha256`` and ``size`` of the file;
``indexed_timestamp`` (CEP 47), the milliseconds since 1970 at which the channel took it in; and
``run_exports``, where the package has any, as py-rattler's indexer puts them there (CEP 21).
"""

from __future__ import annotations

import bz2
import hashlib
import json
import re
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

from conda_package_streaming.package_streaming import stream_conda_info, tar_generator

from channel_tools.channel.layout import SUFFIXES
from channel_tools.channel.transaction.change import Record
from channel_tools.model.errors import DamagedFileError

_PIECE = 4 << 20
_METADATA_LIMIT = 16 << 20
_INFO_LIMIT = 2 << 30
_INDEX = "info/index.json"
_RUN_EXPORTS = "info/run_exports.json"
_NAME = re.compile(r"[a-z0-9_][a-z0-9._-]*")
_VERSION = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.!+]*")
_BUILD = re.compile(r"[0-9A-Za-z_.+]+")
LONGEST_NAME = 180
"""Letters of a file name; file systems take 255, of which attestations and half files take some."""
RUN_EXPORT_KINDS = ("noarch", "strong", "strong_constrains", "weak", "weak_constrains")
"""Keys of ``info/run_exports.json`` that CEP 12 knows."""


def record_of(path: Path) -> Record:
    """The record of a package file.

    :raises DamagedFileError: no package, one that ends early, or one whose name, version and build are not
        those of its file name
    """
    try:
        with path.open("rb") as stream:
            return record_of_stream(stream, path.name, where=str(path), indexed_ms=int(time.time() * 1000))
    except OSError as error:
        raise DamagedFileError("cannot be read", where=path, found=error.strerror or str(error)) from error


def record_of_stream(stream: IO[bytes], file_name: str, *, where: str, indexed_ms: int) -> Record:
    """The record of a package that is read once from its beginning, and then, for its metadata, in places.

    :param stream: seekable
    :param where: path or URL for messages
    :param indexed_ms: ``indexed_timestamp``, milliseconds since 1970
    :raises DamagedFileError: as :func:`record_of`
    """
    md5, sha256, size = _digests(stream)
    stream.seek(0)
    index, run_exports = _metadata(stream, file_name, where)
    said = {name: value for name, value in index.items() if value is not None}
    record = {**said, "md5": md5, "sha256": sha256, "size": size, "indexed_timestamp": indexed_ms}
    record.pop("run_exports", None)
    if run_exports:
        record["run_exports"] = run_exports
    return record


def name_of(file_name: str) -> str:
    """Package name that a package's file name begins with: ``a-b`` of ``a-b-1.0-h0_0.conda``."""
    return file_name.rsplit("-", 2)[0]


def _digests(stream: IO[bytes]) -> tuple[str, str, int]:
    """MD5, SHA-256 and size in bytes. The two digests of a large file run side by side."""
    md5, sha256, size = hashlib.md5(usedforsecurity=False), hashlib.sha256(), 0
    with ThreadPoolExecutor(1) as other:
        while piece := stream.read(_PIECE):
            size += len(piece)
            if len(piece) == _PIECE:
                waiting = other.submit(md5.update, piece)
                sha256.update(piece)
                waiting.result()
            else:
                md5.update(piece)
                sha256.update(piece)
    return md5.hexdigest(), sha256.hexdigest(), size


def _metadata(stream: IO[bytes], file_name: str, where: str) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """``index.json``, checked, and the run exports that are not empty."""

    def broken(what: str, found: str | None = None, wanted: str | None = None) -> NoReturn:
        raise DamagedFileError(what, where=where, found=found, wanted=wanted, fix="build the package again")

    if not file_name.endswith(SUFFIXES):
        broken("is no conda package by its name", wanted="a file name that ends with .conda or .tar.bz2")
    found: dict[str, Any] = {}
    with package_errors(where):
        for name, content in _members(stream, file_name, where):
            if name in found:
                broken(f"holds {name} twice")
            found[name] = json.loads(content)
    index = found.get(_INDEX)
    if not isinstance(index, dict):
        broken(f"has no {_INDEX} with a JSON object")
    for key in ("name", "version", "build", "subdir"):
        if not isinstance(index.get(key), str) or not index[key]:
            broken(f"has no {key} in {_INDEX}", found=repr(index.get(key)))
    if not _NAME.fullmatch(index["name"]):
        broken("has a name that no client can ask for", found=index["name"], wanted="a-z, 0-9 and . _ -")
    for key, pattern in (("version", _VERSION), ("build", _BUILD)):
        if not pattern.fullmatch(index[key]):
            broken(f"has no usable {key}", found=repr(index[key])[:200], wanted="letters, digits and . _ +")
    if len(file_name) > LONGEST_NAME:
        broken("has too long a name", found=f"{len(file_name)} letters", wanted=f"at most {LONGEST_NAME}")
    number = index.get("build_number")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        broken(f"has no build number in {_INDEX}", found=repr(number))
    for key in ("depends", "constrains"):
        specs = index.get(key) or []
        if not isinstance(specs, list) or not all(isinstance(spec, str) for spec in specs):
            broken(f"has {key} in {_INDEX} that are no list of specs", found=repr(specs)[:200])
    inside = f"{index['name']}-{index['version']}-{index['build']}"
    outside = next(file_name.removesuffix(suffix) for suffix in SUFFIXES if file_name.endswith(suffix))
    if inside != outside:
        broken("is not the package that its file name says", found=inside, wanted=outside)
    exports = found.get(_RUN_EXPORTS, {})
    if not isinstance(exports, dict) or not all(isinstance(value, list) for value in exports.values()):
        broken(f"has a {_RUN_EXPORTS} that is no mapping of lists")
    return index, {kind: exports[kind] for kind in RUN_EXPORT_KINDS if exports.get(kind)}


def _members(stream: IO[bytes], file_name: str, where: str) -> Iterator[tuple[str, bytes]]:
    """The two metadata files, with limits on what a hostile package can make us read."""
    if file_name.endswith(".conda"):
        yield from _wanted(stream_conda_info(file_name, stream), where, limit=_INFO_LIMIT)
    else:
        with bz2.open(stream) as reader:
            yield from _wanted(tar_generator(reader), where)
            while reader.read(_PIECE):  # an early end shows up only there
                pass


def _wanted(
    members: Iterable[tuple[tarfile.TarFile, tarfile.TarInfo]], where: str, limit: float = float("inf")
) -> Iterator[tuple[str, bytes]]:
    total = 0
    for tar, member in members:
        total += member.size
        if total > limit:
            raise DamagedFileError("has more than 2 GiB of metadata", where=where)
        if member.name in (_INDEX, _RUN_EXPORTS):
            handle = tar.extractfile(member) if member.isfile() else None
            if handle is None or member.size > _METADATA_LIMIT:
                raise DamagedFileError(
                    f"has a {member.name} that is no file of less than 16 MiB", where=where
                )
            yield member.name, handle.read()


@contextmanager
def package_errors(where: str) -> Iterator[None]:
    """Whatever the readers of zip, tar, zstd, bzip2 and JSON raise, as one error."""
    try:
        yield
    except DamagedFileError:
        raise
    except Exception as error:
        raise DamagedFileError(
            "cannot be read as a conda package", where=where, found=f"{type(error).__name__}: {error}"
        ) from error
