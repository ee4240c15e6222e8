"""What is installed in an environment: conda's records, and what pip and others added.

``conda-meta/*.json`` is written by each conda client at install: ``paths_data`` is the package's
``paths.json``, with ``sha256_in_prefix`` of what was changed at install. ``*.dist-info`` is written by pip
and others ("Recording installed projects" of the Python packaging specifications).
"""

from __future__ import annotations

import base64
import binascii
import csv
import json
import os
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from channel_tools.client.env_check.findings import Finding
from channel_tools.client.env_check.package import Entry, EntryKind, Package

_PYTHON_FOLDERS: Final = re.compile(r"python3(\.\d+)?t?")
_METADATA_LIMIT: Final = 32 << 20
_DIGITS: Final = 20


@dataclass(frozen=True)
class Prefix:
    """An environment as its own metadata tells it. ``sites`` are its folders of Python packages."""

    path: Path
    records: tuple[Package, ...]
    distributions: tuple[Package, ...]
    sites: tuple[str, ...]
    faults: tuple[Finding, ...]

    def record(self, name: str) -> Package | None:
        return next((one for one in self.records if one.name == name), None)

    @cached_property
    def owners(self) -> dict[str, tuple[Package, ...]]:
        """The conda packages of each path."""
        found: dict[str, tuple[Package, ...]] = {}
        for record in self.records:
            for path in record.paths:
                found[path] = (*found.get(path, ()), record)
        return found


def read_prefix(path: Path) -> Prefix | None:
    """Read an environment, of conda or of ``python -m venv``; None for a folder that is neither."""
    sites = tuple(_sites(path))
    meta = path / "conda-meta"
    if not meta.is_dir() and not (path / "pyvenv.cfg").is_file():
        return None
    records: list[Package] = []
    faults: list[Finding] = []
    for file in sorted(meta.glob("*.json")):
        found = _read_record(file, f"conda-meta/{file.name}", sites)
        (records if isinstance(found, Package) else faults).append(found)  # type: ignore[arg-type]
    distributions = tuple(one for site in sites for one in _distributions(path, site))
    return Prefix(path, tuple(records), distributions, sites, tuple(faults))


def normalised(name: str) -> str:
    """A distribution's name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _sites(prefix: Path) -> Iterator[str]:
    for library in ("lib", "lib64"):
        folder = prefix / library
        if folder.is_symlink() or not folder.is_dir():
            continue
        for python in sorted(
            entry.name for entry in folder.iterdir() if _PYTHON_FOLDERS.fullmatch(entry.name)
        ):
            site = f"{library}/{python}/site-packages"
            if (prefix / site).is_dir() and not (folder / python).is_symlink():
                yield site


def _read_record(file: Path, name: str, sites: tuple[str, ...]) -> Package | Finding:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return Package(
            source="conda",
            name=str(data["name"]),
            version=str(data["version"]),
            build=str(data.get("build", data.get("build_string", ""))),
            info=name,
            depends=tuple(map(str, data.get("depends") or ())),
            entries=tuple(_record_entries(data, sites)),
            cache=data.get("extracted_package_dir"),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return Finding(
            "record-unreadable",
            "cannot be read as the record of a package",
            name,
            found=f"{type(error).__name__}: {error}",
            wanted="a JSON object with name, version and paths_data",
            fix="make the environment anew: nobody knows which files this package has",
        )


def _record_entries(data: dict[str, Any], sites: tuple[str, ...]) -> Iterator[Entry]:
    kinds: dict[str, EntryKind] = {"softlink": "link", "directory": "folder"}
    known = set()
    for item in (data.get("paths_data") or {}).get("paths") or ():
        path = _in_place(str(item["_path"]), sites)
        if "\0" in path:
            raise ValueError("a path with a null byte")
        known.add(path)
        kind = kinds.get(str(item.get("path_type")), "file")
        placeholder = item.get("prefix_placeholder")
        in_prefix = item.get("sha256_in_prefix")
        plain = kind == "file" and not in_prefix and not placeholder
        digests = {item.get("sha256") if plain else in_prefix}
        changed = bool(placeholder) and item.get("file_mode") != "binary"
        yield Entry(
            path,
            kind,
            frozenset(str(digest) for digest in digests if digest),
            None if changed or kind != "file" else item.get("size_in_bytes"),
            str(placeholder) if changed and not in_prefix else None,
            str(item.get("sha256") or ""),
        )
    for file in data.get("files") or ():
        path = _in_place(str(file), sites)
        if path not in known and "\0" not in path and not path.endswith(".pyc"):
            yield Entry(path)


def _in_place(path: str, sites: tuple[str, ...]) -> str:
    """Paths of noarch Python packages, should a client have kept them as the package has them."""
    if path.startswith("site-packages/") and sites:
        return f"{posixpath.dirname(sites[0])}/{path}"
    return f"bin/{path.removeprefix('python-scripts/')}" if path.startswith("python-scripts/") else path


def _distributions(prefix: Path, site: str) -> Iterator[Package]:
    for folder in sorted((prefix / site).glob("*.dist-info")):
        info = f"{site}/{folder.name}"
        headers = _headers(folder / "METADATA")
        stem_name, _, stem_version = folder.name.removesuffix(".dist-info").partition("-")
        yield Package(
            source=(_text(folder / "INSTALLER") or "").strip() or "unknown installer",
            name=normalised(headers.get("name") or stem_name),
            version=headers.get("version") or stem_version,
            build="",
            info=info,
            entries=tuple(_recorded(prefix, site, _text(folder / "RECORD"))),
            folder=site,
        )


def _recorded(prefix: Path, site: str, text: str | None) -> Iterator[Entry]:
    for row in _rows(text or ""):
        if not row[0] or "\0" in row[0] or row[0].endswith(".pyc"):
            continue
        path = posixpath.normpath(posixpath.join(site, row[0]))
        if path.startswith("/"):
            path = os.path.relpath(path, prefix)
        if path.startswith("../"):
            continue
        yield Entry(
            path, "file", _digest(row[1] if len(row) > 1 else ""), _size(row[2] if len(row) > 2 else "")
        )


def _rows(text: str) -> Iterator[list[str]]:
    """Rows of a RECORD; one that is none is left out, with those after it."""
    try:
        yield from (row for row in csv.reader(text.splitlines()) if row)
    except csv.Error:
        return


def _digest(text: str) -> frozenset[str]:
    algorithm, _, value = text.partition("=")
    if algorithm != "sha256":
        return frozenset()
    try:
        return frozenset({base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()})
    except (ValueError, binascii.Error):
        return frozenset()


def _size(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < _DIGITS else None


def _headers(file: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in (_text(file) or "").splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            break
        found.setdefault(key.strip().lower(), value.strip())
    return found


def _text(file: Path) -> str | None:
    try:
        if file.stat().st_size > _METADATA_LIMIT:
            return None
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
