"""Pages of a wheel index: HTML and JSON of the "Simple repository API", and the page on top of all indexes.

Sources: PEP 503 (HTML), 592 (yanked), 658 and 714 (metadata beside the file), 691 (JSON), 700 (versions and
sizes). The JSON of a project is what the index knows; its HTML is made from it.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from channel_tools.channel.index.texts import load
from channel_tools.channel.wheels.versions import release_tag
from channel_tools.model.errors import ChannelError

API_VERSION: Final = "1.1"
SOURCE_KEY: Final = "_source-sha256"
"""Digest of the wheel as it was given, before it got its version; names with ``_`` are an index's own."""

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{border:1px solid #8888;padding:.3rem .6rem;text-align:left}"
    "pre{background:#8882;padding:.6rem;overflow:auto}"
)
_REPAIR: Final = "restore it from a backup, or remove it and add the wheels again"


@dataclass(frozen=True, order=True)
class Place:
    """One index: wheels for one ROCm release (X.Y) and one GPU arch."""

    rocm: str
    arch: str

    @property
    def root(self) -> str:
        """Key prefix, with its ``/``."""
        return f"{release_tag(self.rocm)}/{self.arch}/"

    @property
    def simple(self) -> str:
        return f"{self.root}simple/"

    def project(self, name: str) -> str:
        return f"{self.simple}{name}/"

    def wheel(self, file: str) -> str:
        return f"{self.root}wheels/{file}"


Files = dict[str, dict[str, Any]]
"""Files of a project by name, as the JSON form has them."""


def file_entry(
    file: str, sha256: str, size: int, metadata_sha256: str, source_sha256: str, requires_python: str | None
) -> dict[str, Any]:
    """What the JSON form says of a wheel; ``size`` in bytes."""
    return {
        "filename": file,
        "url": f"../../wheels/{quote(file)}",
        "hashes": {"sha256": sha256},
        "size": size,
        **({"requires-python": requires_python} if requires_python else {}),
        "core-metadata": {"sha256": metadata_sha256},
        "yanked": False,
        SOURCE_KEY: source_sha256,
    }


def read_files(content: bytes | None, where: str) -> Files:
    """Files of a project from its JSON form; none of a project that is not there.

    :raises ChannelError: it cannot be read
    """
    found: Files = {}
    for one in _entries(content, where, "files", "filename"):
        hashes = one.get("hashes")
        if not isinstance(one.get("url"), str) or not isinstance(hashes, dict) or "sha256" not in hashes:
            raise _damaged(where, f"no url or no sha256 of {one['filename']}")
        found[one["filename"]] = one
    return found


def project_pages(place: Place, name: str, files: Files) -> dict[str, bytes]:
    """Both pages of a project, by key; the newest version last."""
    listed = sorted(files.values(), key=lambda one: (_version(one), one["filename"]))
    data = {
        "meta": {"api-version": API_VERSION},
        "name": name,
        "versions": list(dict.fromkeys(str(_version(one)) for one in listed)),
        "files": listed,
    }
    links = [_link(one) for one in listed]
    return _both(place.project(name), data, f"Links for {name}", links)


def root_pages(place: Place, names: Sequence[str]) -> dict[str, bytes]:
    """Both pages with all projects of an index, by key."""
    names = sorted(set(names))
    data = {"meta": {"api-version": API_VERSION}, "projects": [{"name": name} for name in names]}
    links = [f'<a href="{quote(name)}/">{html.escape(name)}</a>' for name in names]
    return _both(place.simple, data, f"Wheels for {place.arch}, ROCm {place.rocm}", links)


def read_projects(content: bytes | None, where: str) -> list[str]:
    """Names of the projects of an index from its JSON form.

    :raises ChannelError: it cannot be read
    """
    return [one["name"] for one in _entries(content, where, "projects", "name")]


def _entries(content: bytes | None, where: str, section: str, name: str) -> list[dict[str, Any]]:
    """The objects of a section, each with a text as its ``name``; none of a page that is not there."""
    entries = [] if content is None else load(content, where, fix=_REPAIR).get(section, [])
    if not isinstance(entries, list) or not all(
        isinstance(one, dict) and isinstance(one.get(name), str) for one in entries
    ):
        raise _damaged(where, f"`{section}` is no list of objects with a {name}")
    return entries


def _damaged(where: str, found: str) -> ChannelError:
    return ChannelError("is no page of a wheel index", where=where, found=found, fix=_REPAIR)


def top_page(places: Mapping[Place, Sequence[str]], url: str | None) -> bytes:
    """The page for people: which index is for which machine, and what is in it.

    :param url: where consumers read, without a final ``/``; None where it is not known
    """
    archs = sorted({place.arch for place in places})
    releases = sorted({place.rocm for place in places}, key=Version, reverse=True)
    rows = []
    for arch in archs:
        cells = []
        for rocm in releases:
            place = Place(rocm, arch)
            names = places.get(place)
            link = f'<a href="{html.escape(place.simple)}index.html">' + ", ".join(
                map(html.escape, names or ())
            )
            cells.append(f"<td>{link}</a></td>" if names else "<td>-</td>")
        rows.append(f"<tr><th>{html.escape(arch)}</th>{''.join(cells)}</tr>")
    heads = "".join(f"<th>ROCm {html.escape(rocm)}</th>" for rocm in releases)
    base = (url or "URL-OF-THIS-PAGE").rstrip("/")
    commands = "\n".join(
        f"# {place.arch}, ROCm {place.rocm}\npip install --index-url {base}/{place.simple} {' '.join(names)}"
        for place, names in sorted(places.items())
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Wheels by GPU arch</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>\n<h1>Wheels by GPU arch and ROCm release</h1>\n"
        "<p>pip does not look at the GPU: choose the one index that is for your machine, and never two.</p>\n"
        f"<table><tr><th></th>{heads}</tr>\n{chr(10).join(rows)}\n</table>\n"
        f"<pre>{html.escape(commands)}</pre>\n</body></html>\n"
    ).encode()


def _both(prefix: str, data: Mapping[str, Any], title: str, links: Sequence[str]) -> dict[str, bytes]:
    page = (
        f'<!DOCTYPE html>\n<html><head><meta charset="utf-8">'
        f'<meta name="pypi:repository-version" content="{API_VERSION}">'
        f"<title>{html.escape(title)}</title></head><body>\n<h1>{html.escape(title)}</h1>\n"
        + "".join(f"{link}<br>\n" for link in links)
        + "</body></html>\n"
    )
    text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    return {f"{prefix}index.json": text.encode(), f"{prefix}index.html": page.encode()}


def _link(entry: Mapping[str, Any]) -> str:
    metadata = f"sha256={entry['core-metadata']['sha256']}"
    attributes = {
        "href": f"{entry['url']}#sha256={entry['hashes']['sha256']}",
        "data-requires-python": entry.get("requires-python"),
        "data-core-metadata": metadata,
        "data-dist-info-metadata": metadata,
        "data-yanked": entry["yanked"] if entry["yanked"] is not False else None,
    }
    spelled = " ".join(
        f'{key}="{html.escape(value)}"' for key, value in attributes.items() if value is not None
    )
    return f"<a {spelled}>{html.escape(entry['filename'])}</a>"


def _version(entry: Mapping[str, Any]) -> Version:
    return parse_wheel_filename(str(entry["filename"]))[1]
