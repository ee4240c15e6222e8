"""``conda-lock.yml``, as CEP 37 and conda-lock's own reader want it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from channel_tools.client.addresses import without_credentials
from channel_tools.client.locks.lock_files import LockedEnvironment, channels_of, package
from channel_tools.client.locks.yaml_text import dump
from channel_tools.client.solving import Record
from channel_tools.model.errors import LockError


def write_conda_lock(
    records: Sequence[Record], channels: Sequence[str], source: str, platform: str, title: str
) -> str:
    """The file for one environment.

    :param records: whole ones, as the solver gives them, without credentials
    :param source: path of the environment.yml, relative to the file
    :param title: what it is for, in a comment
    :raises LockError: a package has no MD5, which conda-lock asks for
    """
    entries = []
    for record in sorted(records, key=lambda one: str(one["name"])):
        whole = record["record"]
        if not whole.get("md5"):
            raise LockError(
                "conda-lock asks for the MD5 of each package, and the channel's index has none",
                found=record["url"],
                fix="index the channel again with md5",
            )
        entries.append(
            {
                "name": record["name"],
                "version": record["version"],
                "manager": "conda",
                "platform": platform,
                "dependencies": dict(_dependency(spec) for spec in whole.get("depends", ())),
                "url": record["url"],
                "hash": {"md5": whole["md5"], "sha256": record["sha256"]},
                "build": record["build"],
                "category": "main",
                "optional": False,
            }
        )
    content = "\n".join(sorted(f"{one['url']} {one['hash']['sha256']}" for one in entries))
    data = {
        "version": 1,
        "metadata": {
            "content_hash": {platform: hashlib.sha256(content.encode()).hexdigest()},
            "channels": [{"url": url, "used_env_vars": []} for url in channels],
            "platforms": [platform],
            "sources": [source],
        },
        "package": entries,
    }
    return f"# {title}\n{dump(data)}"


def read_conda_lock(data: Mapping[str, Any]) -> tuple[LockedEnvironment, ...]:
    """One environment for each platform.

    :raises LockError: it is not what CEP 37 says
    """
    if data.get("version", 1) != 1:
        raise LockError("is a conda-lock file of another version", found=repr(data["version"]), wanted="1")
    metadata, entries = data["metadata"], data["package"]
    if not isinstance(metadata, dict) or not isinstance(entries, list):
        raise LockError("is no conda-lock file", wanted="metadata and a list of packages")
    channels = tuple(_channel(one) for one in _list(metadata, "channels"))
    found: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("platform"), str):
            raise LockError("has a package without a platform", found=repr(entry)[:200])
        found.setdefault(entry["platform"], []).append(entry)
    if not found:
        raise LockError("names no package")
    return tuple(_environment(platform, channels, some) for platform, some in sorted(found.items()))


def _environment(
    platform: str, channels: tuple[str, ...], entries: Sequence[Mapping[str, Any]]
) -> LockedEnvironment:
    packages, other = [], []
    for entry in entries:
        digests = entry.get("hash")
        if not isinstance(entry.get("url"), str) or not isinstance(digests, dict):
            raise LockError("has a package without url or hash", found=repr(entry)[:200])
        if entry.get("manager") == "pip":
            other.append(str(entry.get("name")))
        elif entry.get("manager") == "conda":
            one = package(entry["url"], digests.get("sha256"), digests.get("md5"))
            if entry.get("name") != one.name:
                raise LockError(
                    "names a package otherwise than its file", found=repr(entry.get("name")), wanted=one.file
                )
            packages.append(one)
        else:
            raise LockError("has a package of an unknown manager", found=repr(entry.get("manager")))
    unique = tuple(dict.fromkeys(packages))
    return LockedEnvironment("", platform, channels or channels_of(unique), unique, tuple(other))


def _channel(entry: Any) -> str:
    url = entry.get("url") if isinstance(entry, dict) else entry
    if not isinstance(url, str) or not url:
        raise LockError("has a channel without url", found=repr(entry)[:200])
    return without_credentials(url)


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key, [])
    if not isinstance(value, list):
        raise LockError(f"has {key} that are no list", found=repr(value)[:200])
    return value


def _dependency(spec: str) -> tuple[str, str]:
    name, _, rest = spec.strip().partition(" ")
    return name, rest.strip()
