"""Where packages go in a channel, as changes: the main channel, labels, and who may come in at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from channel_tools.channel.index.encoding import SubdirIndex, read_all
from channel_tools.channel.index.records import record_of
from channel_tools.channel.layout import SETTINGS_KEY, SUBDIRS
from channel_tools.channel.publishing.checks.routing import completions, routes
from channel_tools.channel.release import read_releases
from channel_tools.channel.settings import Settings, read_settings
from channel_tools.channel.stores.content import other_content
from channel_tools.channel.stores.store import NO_CACHE, Store
from channel_tools.channel.transaction.change import Addition, Change, Record, Replacement, SubdirChange
from channel_tools.model.errors import AttestationError, ChannelError, DamagedFileError
from channel_tools.model.package import Package, read_package


@dataclass(frozen=True)
class Candidate:
    """A package file that is to come in, with the record that it gets."""

    package: Package
    record: Record

    @property
    def name(self) -> str:
        return self.package.path.name


@dataclass(frozen=True)
class Place:
    """A package and one subdir that it belongs to: ``source`` is a file here, or a key of the channel."""

    subdir: str
    name: str
    record: Record
    source: Path | str

    @property
    def key(self) -> str:
        return f"{self.subdir}/{self.name}"


def candidate(path: Path) -> Candidate:
    """What a file has to say of itself.

    :raises DamagedFileError: no package, one that ends early, or one named or made for another place
    """
    one = Candidate(read_package(path), record_of(path))
    if one.package.subdir not in SUBDIRS:
        raise DamagedFileError(
            "is for a platform that this channel has no place for",
            where=path,
            found=one.package.subdir,
            wanted=" or ".join(SUBDIRS),
        )
    return one


def places(new: Sequence[Candidate], present: Mapping[str, SubdirIndex]) -> Iterator[Place]:
    """Every place that ``new`` belongs to, and what combined labels then need of what is there already.

    :raises ChannelError: a declared build of a package that no label is for
    """
    packages = [one.package for one in new]
    for one in new:
        for subdir in routes(one.package, present, packages):
            yield Place(subdir, one.name, one.record, one.package.path)
    for key, subdir in completions(packages, present):
        there, _, name = key.rpartition("/")
        record = dict(present[there].records[name])
        record.pop("attestations_sha256", None)  # it is for that label alone
        yield Place(subdir, name, record, key)


def to_add(
    store: Store, wanted: Sequence[Place], present: Mapping[str, SubdirIndex]
) -> tuple[list[Addition], dict[str, SubdirChange]]:
    """What has to be stored and indexed; what is there already, with the same content, is left out.

    :raises ChannelError: other content is there under one of the names
    """
    additions: list[Addition] = []
    records: dict[str, dict[str, Record]] = defaultdict(dict)
    for place in wanted:
        known = _known(place, present)
        if known is not None and known.get("sha256") != place.record["sha256"]:
            raise other_content(f"{store.address}/{place.key}")
        if known is None:
            records[place.subdir][place.name] = place.record
        if known is None or store.stat(place.key) is None:
            source = place.source if isinstance(place.source, Path) else (store, place.source)
            additions.append(Addition(place.key, source, place.record["sha256"], place.record["size"]))
    return additions, {subdir: SubdirChange(add=found) for subdir, found in records.items()}


def with_packages(store: Store, new: Sequence[Candidate]) -> Change:
    """Add packages to a channel of builds.

    :raises ChannelError: same name and other content, or a toolchain that this channel does not take
    :raises AttestationError: the channel takes none without
    """
    present = read_all(store)
    settings = read_settings(store)
    if settings is not None and settings.attestations == "require":
        raise AttestationError(
            "takes packages with attestations only, so nothing is added to it unsigned",
            where=store.address,
            fix="build into another folder, and publish from there with --attest",
        )
    taken = with_toolchain(store, settings or Settings(), [one.package for one in new])
    additions, subdirs = to_add(store, list(places(new, present)), present)
    replacements = {} if taken == settings else {SETTINGS_KEY: Replacement(taken.to_bytes(), NO_CACHE)}
    return Change("add", tuple(additions), subdirs, replacements)


def without_others(store: Store, new: Sequence[Candidate]) -> Change:
    """Take out what has the name of one of ``new`` and other content.

    :raises ChannelError: a release names it: published files never change
    """
    present = read_all(store)
    released = {file.key for release in read_releases(store) for file in release.files}
    names: dict[str, set[str]] = defaultdict(set)
    for place in places(new, present):
        known = _known(place, present)
        if known is not None and known.get("sha256") != place.record["sha256"]:
            if place.key in released:
                raise other_content(f"{store.address}/{place.key}")
            names[place.subdir].add(place.name)
    return Change(
        "replace",
        subdirs={subdir: SubdirChange(drop=frozenset(found)) for subdir, found in names.items()},
        deletions=tuple(f"{subdir}/{name}" for subdir, found in names.items() for name in sorted(found)),
    )


def with_toolchain(store: Store, settings: Settings, packages: Sequence[Package]) -> Settings:
    """The settings once ``packages`` are in: a channel holds builds of one toolchain, so that no solve mixes.

    :raises ChannelError: they are of another toolchain than the channel, or of several
    """
    kinds = {package.toolchain for package in packages} | {settings.toolchain}
    kinds.discard(None)
    if len(kinds) > 1:
        raise ChannelError(
            "holds builds of another toolchain, and a channel takes builds of one only",
            where=store.address,
            found=" and ".join(sorted(map(str, kinds))),
            fix="give another --channel, or move this one away",
        )
    if not kinds or settings.toolchain is not None:
        return settings
    return Settings.model_validate({**settings.model_dump(), "toolchain": kinds.pop()})


def empty_channel(settings: Settings) -> Change:
    """A channel without packages."""
    return Change(
        "init",
        subdirs={subdir: SubdirChange() for subdir in SUBDIRS},
        replacements={SETTINGS_KEY: Replacement(settings.to_bytes(), NO_CACHE)},
    )


def _known(place: Place, present: Mapping[str, SubdirIndex]) -> Record | None:
    index = present.get(place.subdir)
    return index.records.get(place.name) if index else None
