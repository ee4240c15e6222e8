"""What the reader and the installer ask py-rattler, as it runs in the child process.

See :mod:`channel_tools.rattler_process`. Nothing here is imported by the commands themselves.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from channel_tools.channel.layout import (
    ARCH_PACKAGE,
    ROCM_PACKAGE,
    SUBDIRS,
    arch_label,
    combined_label,
    rocm_label,
)

Json = dict[str, Any]
PRIORITIES = {"strict": "Strict", "flexible": "Flexible"}


def described(record: Any, *, whole: bool = False) -> Json:
    """A record as the parent takes it; with ``whole`` also everything that an installation needs of it."""
    found: Json = {
        "name": record.name.normalized,
        "version": str(record.version),
        "build": str(record.build),
        "channel": str(record.channel),
        "url": str(record.url),
        "sha256": record.sha256.hex() if record.sha256 else None,
        "size": record.size,
        "attestations_sha256": record.attestations_sha256.hex() if record.attestations_sha256 else None,
    }
    if whole:
        found["record"] = json.loads(record.to_json())
    return found


async def steadily(client: Any, ask: Callable[[Any], Awaitable[Any]]) -> Any:
    """What ``ask`` gives with a gateway; where the cache is the trouble, with one that does not use it.

    py-rattler 0.28 takes a 304 without ETag and Last-Modified for an error (its issue 2719). Simple servers
    send such answers, the one in Python's library for instance.
    """
    from rattler import Gateway
    from rattler.repo_data import SourceConfig

    try:
        return await ask(Gateway(client=client))
    except Exception as error:
        if "304 Not Modified" not in str(error):
            raise
        return await ask(Gateway(client=client, default_config=SourceConfig(cache_action="no-cache")))


def spec(text: str) -> Any:
    """A ``rattler.MatchSpec``; also of conda's ``name=version=build``, which strict parsing refuses.

    :raises InvalidMatchSpecError: it is none either way
    """
    from rattler import MatchSpec
    from rattler.exceptions import InvalidMatchSpecError

    try:
        return MatchSpec(text, strict=True)
    except InvalidMatchSpecError:
        try:
            return MatchSpec(text, strict=False)
        except InvalidMatchSpecError as error:
            raise InvalidMatchSpecError(f"{text!r}: {error}") from error


def look(payload: Json) -> Any:
    """What a channel has: ``{"channel": url, "labels": [name, ...] or "all", "files": [url, ...]}``.

    The answer has ``names`` of packages, ``selectors`` (the records of the two packages that choose arch and
    release), ``labels`` that are there, and ``files``: text by URL, null where there is none. With ``all``,
    every label that the selectors give rise to is looked for.
    """
    return asyncio.run(_look(payload))


async def _look(payload: Json) -> Json:
    from rattler.networking import Client
    from rattler.package_streaming import download_bytes

    client = Client.default_client()
    found: Json = await steadily(client, lambda gateway: _indexes(gateway, payload))
    files: dict[str, str | None] = {}
    for url in payload.get("files", ()):
        try:
            files[url] = (await download_bytes(client, url)).decode(errors="replace")
        except RuntimeError as error:
            if not is_missing(str(error)):
                raise
            files[url] = None
    return {**found, "files": files}


async def _indexes(gateway: Any, payload: Json) -> Json:
    from rattler import Channel

    subdirs: Any = list(SUBDIRS)
    here = Channel(payload["channel"])
    names = await gateway.names([here], subdirs)
    found = await gateway.query([here], subdirs, [ARCH_PACKAGE, ROCM_PACKAGE], recursive=False)
    selectors = [described(record) for part in found for record in part]
    labels = _possible(selectors) if payload["labels"] == "all" else payload["labels"]
    there = []
    for label in labels:
        try:
            await gateway.names([Channel(f"{payload['channel']}/label/{label}")], subdirs)
        except Exception as error:
            if not is_missing(str(error)):
                raise
        else:
            there.append(label)
    return {"names": sorted(name.normalized for name in names), "selectors": selectors, "labels": there}


def is_missing(text: str) -> bool:
    """Does py-rattler say that something is not there, and not that it could not be asked for?"""
    return "(404" in text or "No such file" in text or "NoSuchKey" in text


def _possible(selectors: Sequence[Mapping[str, Any]]) -> list[str]:
    archs = sorted({str(r["build"]).split("_")[0] for r in selectors if r["name"] == ARCH_PACKAGE})
    releases = sorted({str(r["version"]) for r in selectors if r["name"] == ROCM_PACKAGE})
    return [
        *(arch_label(arch) for arch in archs),
        *(rocm_label(release) for release in releases),
        *(combined_label(arch, release) for arch in archs for release in releases),
    ]


def place(payload: Json) -> Any:
    """Make an environment hold exactly these records, and nothing else.

    ``{"records": [...], "prefix": path}``: records as :func:`described` gives them whole, or as
    :func:`of_urls` does. Each file that is not installed yet is held against its record's sha256.

    py-rattler does that for what it downloads. It does not for ``file://``, so that is done here; and what it
    once got without a sha256 it takes from its cache for any, so such packages get a cache of their own.
    """
    asyncio.run(_place(payload))
    return len(payload["records"])


async def _place(payload: Json) -> None:
    from rattler import PrefixRecord, install
    from rattler.networking import Client

    with tempfile.TemporaryDirectory(prefix="rocm-channel-records-") as scratch:
        records = []
        for data in payload["records"]:
            file = Path(scratch, f"{data['name']}-{data['version']}-{data['build']}.json")
            nothing = {"files": [], "paths_data": {"paths_version": 1, "paths": []}}
            file.write_text(json.dumps({**data, **nothing}), encoding="utf-8")
            _check_file(data, Path(payload["prefix"], "conda-meta", file.name))
            records.append(PrefixRecord.from_path(file))
        await install(
            records=list(records),
            target_prefix=payload["prefix"],
            requested_specs=None,
            show_progress=False,
            client=Client.default_client(),
            cache_dir=None
            if all(data.get("sha256") for data in payload["records"])
            else Path(scratch, "pkgs"),
        )


def _check_file(data: Json, installed: Path) -> None:
    url = urlsplit(str(data["url"]))
    if url.scheme != "file" or not data.get("sha256"):
        return
    if installed.is_file() and json.loads(installed.read_bytes()).get("sha256") == data["sha256"]:
        return
    with Path(unquote(url.path)).open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != data["sha256"]:
        raise RuntimeError(f"hash mismatch: {url.path} has sha256 {found}, and its record {data['sha256']}")


def of_urls(payload: Json) -> Any:
    """Records of package files, from the files: ``{"packages": [[url, sha256 or null], ...], "ask": [url]}``.

    Only the part of each file that holds its metadata is read, where the server allows it. The channels of
    ``ask`` are asked for what files do not know of themselves: attestations, and a sha256 that is not given.
    """
    return asyncio.run(_of_urls(payload["packages"], payload.get("ask", ())))


async def _of_urls(packages: Sequence[Sequence[Any]], ask: Sequence[str]) -> list[Json]:
    from rattler import Channel
    from rattler.networking import Client
    from rattler.package_streaming import PackageArchive

    client = Client.default_client()

    async def one(url: str, sha256: str | None) -> Json:
        path = unquote(urlsplit(url).path)
        try:
            if urlsplit(url).scheme == "file":
                archive = await PackageArchive.from_path(path)
            else:
                archive = await PackageArchive.from_url(client, url)
            content = await archive.read_file("info/index.json")
        except Exception as error:
            raise RuntimeError(str(error) if url in str(error) else f"{url}: {error}") from error
        if content is None:
            raise RuntimeError(f"{url}: has no info/index.json")
        base, _, name = url.rpartition("/")
        record = {
            **json.loads(content),
            "fn": unquote(name),
            "url": url,
            "channel": base.rpartition("/")[0],
        }
        return {**record, "sha256": sha256} if sha256 else record

    found: list[Json] = []
    for start in range(0, len(packages), 16):
        some = packages[start : start + 16]
        found += await asyncio.gather(*(one(url, sha256) for url, sha256 in some))
    names = sorted({record["name"] for record in found})
    for channel in ask:
        query = partial(_records, Channel(channel), names)
        listed = await steadily(client, query)
        known = {record.url: described(record) for part in listed for record in part}
        for record in found:
            for key in ("sha256", "attestations_sha256"):
                if not record.get(key) and record["url"] in known and (value := known[record["url"]][key]):
                    record[key] = value
    return found


async def _records(channel: Any, names: Sequence[str], gateway: Any) -> Any:
    subdirs: Any = list(SUBDIRS)
    return await gateway.query([channel], subdirs, names, recursive=False)


def unmet(payload: Json) -> Any:
    """What installed records want of each other and do not get: ``{"records": [path, ...]}``.

    The answer is a list of ``[record's path, spec, path of the record that does not fit it]``.
    Only packages that are there are compared; a record or a spec that cannot be read is passed over.
    """
    from rattler import PrefixRecord

    records: list[tuple[str, Any]] = []
    for path in payload["records"]:
        with suppress(Exception):
            records.append((path, PrefixRecord.from_path(path)))
    there = {record.name.normalized: (path, record) for path, record in records}
    found = []
    for path, record in records:
        for text in (*record.depends, *record.constrains):
            with suppress(Exception):
                wanted = spec(text)
                other = there.get(wanted.name.normalized)
                if other is not None and not other[1].matches(wanted):
                    found.append([path, text, other[0]])
    return found
