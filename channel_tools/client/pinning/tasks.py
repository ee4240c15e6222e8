"""What pinning and mirroring ask py-rattler, as it runs in the child process.

See :mod:`channel_tools.rattler_process`. Nothing here is imported by the commands themselves.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from channel_tools.channel.layout import SUBDIRS
from channel_tools.client.rattler_tasks import described, is_missing, spec, steadily

Json = dict[str, Any]


def of_names(payload: Json) -> Any:
    """All records of some names, channel by channel: ``{"channels": [url, ...], "names": [...]}``.

    The answer has one object a channel: ``{"records": [...]}`` with the records from the highest version and
    build number down, or ``{"unreachable": text, "missing": bool}``.
    """
    return asyncio.run(_of_names(payload))


async def _of_names(payload: Json) -> list[Json]:
    from rattler import Channel
    from rattler.networking import Client

    client = Client.default_client()
    answers: list[Json] = []
    for url in payload["channels"]:
        try:
            parts = await steadily(client, partial(_query, Channel(url), payload["names"]))
        except Exception as error:
            text = str(error)
            missing = is_missing(text) or "could not find subdir" in text
            answers.append({"unreachable": text, "missing": missing})
            continue
        records = [record for part in parts for record in part]
        records.sort(key=lambda record: (record.version, record.build_number), reverse=True)
        answers.append({"records": [described(record, whole=True) for record in records]})
    return answers


def bases(payload: Json) -> Any:
    """The URL of each channel, named or not: ``{"channels": [name or url, ...]}``."""
    from rattler import Channel

    return [str(Channel(one).base_url).rstrip("/") for one in payload["channels"]]


def pin(payload: Json) -> Any:
    """Solve, with what is locked left as it is where that is possible. Installs nothing.

    ``{"channels", "specs", "virtual"}`` as of the task ``solve``; ``locked``: whole records; ``tries``:
    lists of further specs, of which the first that gives a solution is taken. The answer has ``records``,
    ``bases`` (the channels as URLs), ``taken`` (which of the tries), or ``{"refused": text}`` with the
    reason of the last try.
    """
    return asyncio.run(_pin(payload))


async def _pin(payload: Json) -> Json:
    from rattler import (
        BuildString,
        Channel,
        ChannelPriority,
        GenericVirtualPackage,
        PackageName,
        Version,
    )
    from rattler.exceptions import SolverError
    from rattler.networking import Client

    with tempfile.TemporaryDirectory(prefix="rocm-channel-records-") as scratch:
        locked = _records(Path(scratch), payload.get("locked", ()))
    channels = [Channel(url) for url in payload["channels"]]
    client = Client.default_client()
    virtual = [
        GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))
        for name, version, build in payload["virtual"]
    ]
    same = {
        "sources": channels,
        "platforms": list(SUBDIRS),
        "locked_packages": locked or None,
        "channel_priority": ChannelPriority.Strict,
        "virtual_packages": virtual,
    }
    refused = ""
    for number, further in enumerate(payload.get("tries") or [[]]):
        try:
            asked = {**same, "specs": [spec(one) for one in (*payload["specs"], *further)]}
            found = await steadily(client, partial(_solve, asked))
        except SolverError as error:
            refused = str(error)
            continue
        return {
            "records": [described(record, whole=True) for record in found],
            "bases": [str(channel.base_url).rstrip("/") for channel in channels],
            "taken": number,
        }
    return {"refused": refused}


async def _solve(asked: Json, gateway: Any) -> Any:
    from rattler import solve

    return await solve(gateway=gateway, **asked)


async def _query(channel: Any, names: Sequence[str], gateway: Any) -> Any:
    return await gateway.query([channel], list(SUBDIRS), names, recursive=False)


def write_lock(payload: Json) -> Any:
    """Write a rattler lock file.

    ``{"path": path, "environments": [{"name", "platform", "virtual": [spec, ...], "channels": [url, ...],
    "records": [whole, ...]}, ...]}``, with ``subdir`` where a platform is of another one than linux-64.
    """
    from rattler import Subdir
    from rattler.lock import LockChannel, LockFile, LockPlatform

    platforms = {
        one["platform"]: LockPlatform(one["platform"], Subdir(one.get("subdir", "linux-64")), one["virtual"])
        for one in payload["environments"]
    }
    lock = LockFile(list(platforms.values()))
    with tempfile.TemporaryDirectory(prefix="rocm-channel-records-") as scratch:
        for one in payload["environments"]:
            lock.set_channels(one["name"], [LockChannel(url) for url in one["channels"]])
            for record in _records(Path(scratch), one["records"]):
                lock.add_conda_package(one["name"], platforms[one["platform"]], record)
    lock.to_path(Path(payload["path"]))
    return len(platforms)


def read_lock(payload: Json) -> Any:
    """Environments of a rattler lock file, ``{"path": path}``: one for each name and platform.

    ``{"name", "platform", "channels", "packages": [{"location", "name", "sha256", "md5", "size"}, ...],
    "other": [name, ...]}``, and with ``"whole": true`` what :func:`write_lock` takes, too.
    """
    from rattler.lock import CondaLockedBinaryPackage, LockFile

    found: list[Json] = []
    for name, environment in LockFile.from_path(Path(payload["path"])).environments():
        for platform in environment.platforms():
            packages, other = [], []
            for one in environment.packages(platform) or ():
                if not isinstance(one, CondaLockedBinaryPackage):
                    other.append(one.name)
                    continue
                hashes, record = one.hashes, one.package_record
                packages.append(
                    {
                        "location": one.location,
                        "name": record.name.normalized if record else None,
                        "sha256": hashes.sha256.hex() if hashes and hashes.sha256 else None,
                        "md5": hashes.md5.hex() if hashes and hashes.md5 else None,
                        "size": record.size if record else None,
                    }
                )
            whole: Json = {}
            if payload.get("whole"):
                records = environment.conda_repodata_records_for_platform(platform) or ()
                whole = {
                    "subdir": str(platform.subdir),
                    "virtual": list(platform.virtual_packages),
                    "records": [json.loads(record.to_json()) for record in records],
                }
            found.append(
                {
                    **whole,
                    "name": name,
                    "platform": platform.name,
                    "channels": [str(channel).rstrip("/") for channel in environment.channels()],
                    "packages": packages,
                    "other": other,
                }
            )
    return found


def _records(scratch: Path, records: Sequence[Json]) -> list[Any]:
    """Whole records as py-rattler's objects; it reads them from files alone."""
    from rattler import PrefixRecord

    found = []
    nothing = {"files": [], "paths_data": {"paths_version": 1, "paths": []}}
    for data in records:
        file = scratch / "record.json"
        file.write_text(json.dumps({**data, **nothing}), encoding="utf-8")
        found.append(PrefixRecord.from_path(file))
    return found
