"""Installing what a lock file lists: exactly those files, whatever indexes say now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from channel_tools import rattler_process
from channel_tools.channel.care.yanked import yanked_notes
from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE
from channel_tools.client.host import Host
from channel_tools.client.install import Prepared
from channel_tools.client.locks.lock_files import read_lock
from channel_tools.client.reader import Look, Reader, open_reader, reading_error
from channel_tools.client.solved_checks import arch_of, check
from channel_tools.client.solving import Record
from channel_tools.model.errors import ArchRefusedError
from channel_tools.model.redaction import redact


@dataclass(frozen=True)
class Locked:
    """A package that a lock file names."""

    url: str
    sha256: str | None

    @property
    def file(self) -> str:
        return urlsplit(self.url).path.rpartition("/")[2]


def read_locked(path: Path, arch: str | None = None, host: Host | None = None) -> list[Locked]:
    """The packages of a lock file of any kind.

    :param arch: GPU target, where the file has environments for several; None: the host's
    :raises LockError: it cannot be read, has no addresses, or has no environment for that GPU
    """
    here = [one.target for one in host.archs] if host else ()
    return [Locked(url, sha256) for url, sha256 in read_lock(path, arch, here)]


def channel_of(packages: Sequence[Locked]) -> str | None:
    """URL of the channel that the packages' GPU arch is from; None where none of them chooses one."""
    for package in packages:
        if package.file.startswith((f"{ARCH_PACKAGE}-", f"{ROCM_PACKAGE}-")):
            base = package.url.rpartition("/")[0].rpartition("/")[0]
            return base.partition("/label/")[0]
    return None


def prepare_locked(
    packages: Sequence[Locked], reader: Reader | None, host: Host, arch: str | None
) -> Prepared:
    """Records of exactly these packages, with a warning for each that was yanked since.

    :param reader: channel to ask what was yanked; None: the one that the packages are from
    :param arch: GPU target that the user declares
    :raises ArchRefusedError: builds of several archs, or for another GPU than this host's or the declared one
    :raises ChannelError: a package cannot be read
    """
    if reader is None:
        url = channel_of(packages)
        reader = open_reader(url) if url else None
    if reader is not None:
        reader.refuse_label()
    own = reader or Reader("", None)
    ours = [one.url for one in packages if reader is not None and reader.owns(one.url)]
    payload = {
        "packages": [[package.url, package.sha256] for package in packages],
        "ask": sorted({url.rpartition("/")[0].rpartition("/")[0] for url in ours}),
    }
    try:
        whole: list[dict[str, Any]] = rattler_process.call("of_urls", payload)
    except rattler_process.RattlerCallError as error:
        fix = "`rocm-channel pin --check` says which files of the lock are gone or were replaced"
        raise reading_error("a package of the lock file", str(error), fix) from error
    look = None if reader is None else reader.look()
    notes = []
    if look is None:
        notes.append("no channel is known that could say which of these were yanked; name it with --channel")
    else:
        notes += [f"warning: {note}" for note in yanked_notes(look.files, ours)]
        whole = [_with_yanked(record, look) if record["url"] in ours else record for record in whole]
    unhashed = sum(record.get("sha256") is None for record in whole)
    if unhashed:
        notes.append(f"{unhashed} of {len(whole)} packages are listed without a sha256: content not checked")
    records = [_record(one) for one in whole]
    if reader is not None:
        check(reader, (), records, None, None)
    names = look.names if look else ()
    notes += [
        f"warning: {one['name']} is a name of {own.shown}, and is taken from {redact(one['channel'])}"
        for one in records
        if one["name"] in names and not own.owns(one["url"])
    ]
    notes += _host_notes(records, host, arch)
    return Prepared(own, look or _nothing(), tuple(records), tuple(notes))


def _with_yanked(record: dict[str, Any], look: Look) -> dict[str, Any]:
    """What no index has of a yanked build: the list of yanked builds has it."""
    for key, entry in look.yanked.entries.items():
        if key.rpartition("/")[2] == record["fn"]:
            known = entry.get("record") or {}
            more = {name: known[name] for name in ("sha256", "attestations_sha256") if known.get(name)}
            return {**more, **record}
    return record


def _record(whole: dict[str, Any]) -> Record:
    return {
        "name": whole["name"],
        "version": whole["version"],
        "build": whole["build"],
        "channel": whole["channel"],
        "url": whole["url"],
        "sha256": whole.get("sha256"),
        "size": whole.get("size"),
        "attestations_sha256": whole.get("attestations_sha256"),
        "record": whole,
    }


def _host_notes(records: Sequence[Record], host: Host, declared: str | None) -> list[str]:
    arch = next((arch_of(one) for one in records if one["name"] == ARCH_PACKAGE), None)
    release = next((str(one["version"]) for one in records if one["name"] == ROCM_PACKAGE), None)
    here = [a.target for a in host.archs]
    notes = []
    if release and host.rocm and release != host.rocm:
        notes.append(f"made for ROCm {release}; this host has {host.rocm}")
    if arch is None:
        return notes
    if declared is not None and declared != arch:
        raise ArchRefusedError(
            "the lock file is for another GPU",
            found=arch,
            wanted=declared,
            fix=f"use a lock made for {declared}",
        )
    if declared is None and here and arch not in here:
        raise ArchRefusedError(
            "the lock file is for another GPU than this host's",
            found=f"{arch} in the file, {', '.join(here)} in this host",
            wanted="a lock made for this host's GPU",
            fix=f"to prepare an environment for another machine, say so: --arch {arch}",
        )
    return notes if arch in here else [f"made for {arch}; no such GPU was found on this host", *notes]


def _nothing() -> Look:
    from channel_tools.channel.care.yanked import Yanked
    from channel_tools.channel.settings import Settings
    from channel_tools.channel.stores.memory_store import MemoryStore
    from channel_tools.client.reader import Offer

    return Look(frozenset(), frozenset(), Offer((), ()), Settings(), Yanked(), MemoryStore({}))
