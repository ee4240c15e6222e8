"""What a mirror of some locks needs: which files, from where, and to which place each of them goes.

Each source channel becomes one channel of the mirror, with its labels, so that priorities and declared builds
mean the same there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from channel_tools import rattler_process
from channel_tools.channel.care.yanked import Yanked
from channel_tools.channel.layout import SUBDIRS, label_prefix
from channel_tools.channel.settings import Settings, read_settings
from channel_tools.channel.stores.store import Store
from channel_tools.client.addresses import Place, place_of
from channel_tools.client.locks.lock_files import Lock, LockedPackage
from channel_tools.client.mirroring.selectors import labels_for, selectors
from channel_tools.client.pinning.update import all_records
from channel_tools.client.reader import open_dependency, open_reader
from channel_tools.client.solving import Record
from channel_tools.model.errors import AccessError, ChannelToolsError, LockError, StorageError
from channel_tools.model.redaction import redact

MANIFEST = "mirror.json"
LOCKS = "locks"


@dataclass(frozen=True)
class Wanted:
    """One package file: ``record`` is what its channel's index says of it, ``yank`` what of its yank."""

    package: LockedPackage
    place: Place
    sha256: str | None
    md5: str | None
    size: int | None
    record: Record | None
    yank: Mapping[str, Any] | None

    @property
    def key(self) -> str:
        """Where it goes, below its channel."""
        return f"{self.subdir_key}/{self.place.file}"

    @property
    def subdir_key(self) -> str:
        return f"{label_prefix(self.place.label)}{self.place.subdir}"


@dataclass(frozen=True)
class Source:
    """A channel that packages come from: its URL, the folder that it gets, and what it says of itself."""

    url: str
    folder: str
    labels: tuple[str, ...] = ()
    wanted: tuple[Wanted, ...] = ()
    settings: Settings = field(default_factory=Settings)
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Plan:
    """Everything that locks need; ``names`` in a source are what locks call it beside its URL."""

    sources: tuple[Source, ...]
    notes: tuple[str, ...]

    @property
    def wanted(self) -> list[Wanted]:
        return [one for source in self.sources for one in source.wanted]


def plan_mirror(locks: Sequence[Lock], known: Mapping[str, str]) -> Plan:
    """Work out what the locks need.

    :param known: folder by URL of channels that the mirror has already
    :raises LockError: locks that contradict each other, that have no files, or are for another system
    """
    notes: list[str] = []
    packages = _packages(locks, notes)
    listed = _listed(locks)
    channels: dict[str, set[str]] = {}
    names: dict[str, set[str]] = {}
    for base, written in listed.items():
        channel, _, label = base.partition("/label/")
        channels.setdefault(channel, set()).update([label] if label else [])
        names.setdefault(channel, set()).update(name.partition("/label/")[0] for name in written)
    for place in packages:
        channels.setdefault(place.channel, set()).update([place.label] if place.label else [])
    folders = _folders(sorted(channels), known)
    records = _records(
        {url: labels | labels_for(url, packages) for url, labels in channels.items()}, packages
    )
    for place, one in selectors(packages, records).items():
        packages[place] = one
        channels[place.channel].update([place.label] if place.label else [])
    with ThreadPoolExecutor(4) as pool:
        words = dict(zip(channels, pool.map(_own_words, channels), strict=True))
    sources = []
    for url, labels in sorted(channels.items()):
        settings, yanked, note = words[url]
        notes += [note] if note else []
        mine = {place: one for place, one in packages.items() if place.channel == url}
        wanted = tuple(
            _wanted(place, one, records.get(place), yanked, notes)
            for place, one in sorted(mine.items(), key=lambda item: item[0].url)
        )
        called = frozenset(names.get(url, ()))
        sources.append(Source(url, folders[url], tuple(sorted(labels)), wanted, settings, called))
    return Plan(tuple(sources), tuple(notes))


def read_known(store: Store) -> dict[str, str]:
    """Folder by URL of the channels that a mirror has."""
    content = store.read(MANIFEST)
    if content is None:
        return {}
    try:
        found = json.loads(content)["channels"]
        known = {str(url): str(folder) for url, folder in found.items()}
        if odd := [folder for folder in known.values() if not re.fullmatch(r"[\w-][\w.-]*", folder)]:
            raise ValueError(odd[0])
        return known
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise LockError(
            "is no list of a mirror's channels",
            where=f"{store.address}/{MANIFEST}",
            fix="restore it, or mirror into another folder",
        ) from error


def _packages(locks: Sequence[Lock], notes: list[str]) -> dict[Place, LockedPackage]:
    found: dict[Place, LockedPackage] = {}
    for lock in locks:
        for environment in lock.environments:
            if environment.other:
                notes.append(f"{lock.path}: {len(environment.other)} packages of pip are not mirrored")
        for one in lock.packages:
            place = one.place
            if place is None:
                continue
            if place.subdir not in SUBDIRS:
                raise LockError(
                    "has a package for another system", where=lock.path, found=one.file, wanted="linux-64"
                )
            before = found.get(place)
            if before is not None and before.sha256 and one.sha256 and before.sha256 != one.sha256:
                raise LockError(
                    "two locks name the same file with other contents", where=lock.path, found=one.file
                )
            if before is None or (one.sha256 and not before.sha256):
                found[place] = one
    if not found:
        raise LockError(
            "no file with addresses is given, so nothing could be fetched",
            where=", ".join(str(lock.path) for lock in locks),
            fix="give the explicit.txt, conda-lock.yml or pixi.lock that `rocm-channel pin` wrote, too",
        )
    return found


def _listed(locks: Iterable[Lock]) -> dict[str, set[str]]:
    """Channels that locks list, by URL, with the names that they have for them."""
    written = {one for lock in locks for environment in lock.environments for one in environment.channels}
    order = sorted(written)
    found: dict[str, set[str]] = {}
    for name, base in zip(order, bases(order), strict=True):
        found.setdefault(base, set()).add(name)
    return found


def bases(channels: Sequence[str]) -> list[str]:
    """URLs of channels, without a final ``/``, as clients of this host take them."""
    found = [open_dependency(one).rstrip("/") for one in channels]
    if not all("://" in one for one in found):
        found = rattler_process.call("bases", {"channels": found})
    return found


def _folders(urls: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    found = {url: known[url] for url in urls if url in known}
    taken = {LOCKS, MANIFEST, *known.values()}
    for url in urls:
        if url in found:
            continue
        parts = urlsplit(url)
        last, host = (
            re.sub(r"[^\w.-]", "-", text).lstrip(".")  # a lock of others must lead to no other folder
            for text in (parts.path.rstrip("/").rpartition("/")[2], parts.netloc.rpartition("@")[2])
        )
        last, host = last or "channel", host or "local"
        ways = [last, f"{host}-{last}", *(f"{host}-{last}-{number}" for number in range(2, 100))]
        found[url] = next(way for way in ways if way not in taken)
        taken.add(found[url])
    return found


def _wanted(
    place: Place, one: LockedPackage, record: Record | None, yanked: Yanked, notes: list[str]
) -> Wanted:
    entry = yanked.entries.get(f"{label_prefix(place.label)}{place.subdir}/{place.file}")
    if record is None and entry is not None and entry.get("record"):
        record = {"record": entry["record"], **entry["record"]}
    if record is not None and one.sha256 and record.get("sha256") not in (None, one.sha256):
        notes.append(f"{place.file}: the index of {redact(place.base)} has another sha256 than the lock")
        record = None
    known = record or {}
    size = one.size if one.size is not None else known.get("size")
    return Wanted(one, place, one.sha256 or known.get("sha256"), one.md5, size, record, entry)


def _own_words(url: str) -> tuple[Settings, Yanked, str | None]:
    """Settings and yanked builds of a channel, where it has any; a note where it cannot be read."""
    try:
        look = open_reader(url).look()
    except ChannelToolsError as error:
        if isinstance(error, StorageError) and not isinstance(error, AccessError):
            raise  # a fault of this host, not of the channel
        note = f"{redact(url)}: its index cannot be read, so records are made from files: {error.what}"
        return Settings(), Yanked(), note
    settings = read_settings(look.files) or Settings()
    if settings.url is None and settings.attestations != "off":  # it stands in each attestation
        settings = settings.model_copy(update={"url": url})
    return settings, look.yanked, None


def _records(
    channels: Mapping[str, Iterable[str]], packages: Mapping[Place, LockedPackage]
) -> dict[Place, Record]:
    """What indexes say of the packages; nothing of a channel whose index cannot be read."""
    bases = [
        base for url, labels in channels.items() for base in (url, *(f"{url}/label/{one}" for one in labels))
    ]
    found: dict[Place, Record] = {}
    for records in all_records(bases, sorted({one.name for one in packages.values()})):
        if not isinstance(records, str):
            found.update({place_of(record["url"]): record for record in records})
    return found
