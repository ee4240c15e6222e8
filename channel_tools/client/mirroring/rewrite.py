"""Locks as they are used at a mirror: the same text with the mirror's addresses in it.

Only addresses change, so comments, order and digests stay. A rattler lock is written anew, as it leaves out
what follows from an address, and what that is differs between addresses and paths. What comes out is read
again, and refused if anything in it still leads elsewhere.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from channel_tools import rattler_process
from channel_tools.client.addresses import place_of, without_credentials
from channel_tools.client.locks.lock_files import Lock, read_lock_file
from channel_tools.client.mirroring.plan import Plan, Source
from channel_tools.model.errors import LockError
from channel_tools.model.redaction import redact

_END = r"(?=[/\s\"'#,\]}]|$)"


def rewritten(locks: Sequence[Lock], plan: Plan, address: str) -> dict[str, str]:
    """Text of each lock by its name below ``locks/``.

    :param address: where the mirror is read
    :raises LockError: a lock still has an address that is not the mirror's
    """
    patterns = _patterns(plan, address)
    texts = {}
    for lock, name in zip(locks, names_of([lock.path for lock in locks]).values(), strict=True):
        if lock.format == "rattler":
            text = _rattler(lock, plan, address)
        else:
            text = lock.path.read_text(encoding="utf-8")
            for pattern, new in patterns:
                text = pattern.sub(partial(_replaced, new), text)
        _check(lock, text, address)
        texts[name] = text
    return texts


def _rattler(lock: Lock, plan: Plan, address: str) -> str:
    folders = {source.url: source.folder for source in plan.sources}

    def moved(url: str) -> str:
        channel, mark, label = without_credentials(url).partition("/label/")
        return f"{address}/{folders[channel]}{mark}{label}"

    with tempfile.TemporaryDirectory(prefix="rocm-channel-lock-") as scratch:
        path = Path(scratch, "pixi.lock")
        try:
            found = rattler_process.call("read_lock", {"path": str(lock.path.resolve()), "whole": True})
            for one in sorted(found, key=lambda one: (one["name"], one["platform"])):
                one["channels"] = [moved(url) for url in one["channels"]]
                for record in one["records"]:
                    place = place_of(record["url"])
                    record["channel"] = moved(place.base)
                    record["url"] = f"{record['channel']}/{place.subdir}/{record['url'].rpartition('/')[2]}"
            rattler_process.call("write_lock", {"path": str(path), "environments": found})
        except (rattler_process.RattlerCallError, KeyError) as error:
            raise LockError("could not be rewritten", where=lock.path, found=redact(str(error))) from error
        return path.read_text(encoding="utf-8")


def _replaced(new: str, match: re.Match[str]) -> str:
    return f"{match.groupdict().get('start') or ''}{new}"


def names_of(paths: Sequence[Path]) -> Mapping[Path, str]:
    """Name of each lock: its path below the folder that all have in common."""
    common = Path(os.path.commonpath([str(path.resolve().parent) for path in paths]))
    return {path: path.resolve().relative_to(common).as_posix() for path in paths}


def _patterns(plan: Plan, address: str) -> list[tuple[re.Pattern[str], str]]:
    found = []
    for source in sorted(plan.sources, key=lambda one: -len(one.url)):
        new = f"{address}/{source.folder}"
        found += [(pattern, new) for pattern in _forms(source)]
    return found


def _forms(source: Source) -> list[re.Pattern[str]]:
    """How locks write a channel: as URL, with or without credentials; as path; by name."""
    parts = urlsplit(source.url)
    forms = []
    if parts.scheme == "file":
        paths = {re.escape(parts.path), re.escape(unquote(parts.path))}
        for path in sorted(paths):
            forms.append(re.compile(rf"file://(?:localhost)?{path}{_END}"))
            forms.append(re.compile(rf"(?P<start>^\s*-?\s*(?:conda:\s*)?[\"']?){path}{_END}", re.M))
    else:
        forms.append(
            re.compile(
                rf"{re.escape(parts.scheme)}://(?:[^/@\s\"']+@)?{re.escape(parts.netloc)}"
                rf"(?:/t/[^/\s\"']+)?{re.escape(parts.path)}{_END}"
            )
        )
    for name in sorted(source.names):
        if "://" not in name and not name.startswith("/"):
            forms.append(
                re.compile(
                    rf"(?P<start>^\s*-\s+(?:url:\s*)?[\"']?){re.escape(name)}(?=[\"']?\s*$|/label/)", re.M
                )
            )
    return forms


def _content(lock: Lock) -> list[tuple[str, list[tuple[str, str | None, str | None]]]]:
    return [
        (environment.title, sorted((one.file, one.sha256, one.md5) for one in environment.packages))
        for environment in lock.environments
    ]


def _check(lock: Lock, text: str, address: str) -> None:
    with tempfile.TemporaryDirectory(prefix="rocm-channel-lock-") as scratch:
        path = Path(scratch, lock.path.name)
        path.write_text(text, encoding="utf-8")
        again = read_lock_file(path)
    before, after = _content(lock), _content(again)
    left = [
        found
        for environment in again.environments
        for found in (*environment.channels, *(one.url for one in environment.packages if one.url))
        if not found.startswith(f"{address}/")
    ]
    if before != after or left:
        raise LockError(
            "could not be rewritten to the addresses of the mirror",
            where=lock.path,
            found=redact(", ".join(left[:5])) or "other packages than before",
        )
