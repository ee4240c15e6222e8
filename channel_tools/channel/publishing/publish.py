"""Publishing a release: all of its packages, or none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from channel_tools.channel.attestations.sidecar import sigs_additions
from channel_tools.channel.care.upkeep import State, read_state, required_settings, timestamp
from channel_tools.channel.layout import SETTINGS_KEY
from channel_tools.channel.publishing.placing import (
    Candidate,
    Place,
    candidate,
    places,
    to_add,
    with_toolchain,
)
from channel_tools.channel.publishing.readback import read_back
from channel_tools.channel.publishing.release_checks import check_release, is_local
from channel_tools.channel.publishing.release_files import (
    build_record,
    check_metadata,
    commit_of,
    package_files,
    release_files,
)
from channel_tools.channel.release import Release, ReleaseFile
from channel_tools.channel.settings import Settings, read_settings
from channel_tools.channel.stores.lease import check_writable
from channel_tools.channel.stores.store import NO_CACHE, Store
from channel_tools.channel.transaction.apply import Applied, apply, prepared
from channel_tools.channel.transaction.change import Addition, Change, Replacement, SubdirChange
from channel_tools.channel.transaction.view import View
from channel_tools.model.errors import AttestationError, VerifyError
from channel_tools.model.matrix import Matrix

if TYPE_CHECKING:
    from channel_tools.verify import Report

Attest = Callable[[str, str], bytes]
"""Makes one attestation for the key of a package and its sha256."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Published:
    """``release`` is the one that was published, or the one that has it all already.

    ``stored`` are the keys of new files, ``solves`` what the channel gave when it was read back.
    """

    release: Release
    changed: bool
    stored: tuple[str, ...] = ()
    solves: tuple[dict[str, Any], ...] = ()
    repaired: tuple[str, ...] = ()


@dataclass
class Publisher:
    """One release on its way into a channel.

    :param matrix: what a whole release has packages for
    :param who: as the manifest names the publisher
    :param allow_missing: places of the matrix that may stay empty
    :param attest: makes the attestations; None for none
    """

    store: Store
    matrix: Matrix
    who: str
    allow_missing: Sequence[str] = ()
    attest: Attest | None = None
    say: Say = lambda line: None
    ttl: float = 60
    wait: float = 600
    _new: list[Candidate] = field(default_factory=list)
    _reports: dict[Path, Report] = field(default_factory=dict)
    _commit: str | None = None
    _release: Release | None = None
    _dry_run: bool = False

    def publish(self, packages: Sequence[Path], *, dry_run: bool = False) -> Published:
        """Verify, store, index, read back, and only then write the manifest.

        :param packages: files, and folders with files
        :param dry_run: do all but write
        :raises VerifyError: a package is not what it declares
        :raises DamagedFileError: a package, or its record, is damaged
        :raises ReleaseRefusedError: with every reason
        :raises AttestationError: one cannot be made, or the channel takes none without
        :raises ChannelError: no channel is there, other content is there under one of the names, or hosts
            would not get what the release has for them
        :raises StorageError: the store cannot be read or written
        """
        settings = required_settings(self.store)
        self._dry_run = dry_run
        files = package_files(packages)
        self._check_attest(settings)
        if not dry_run:
            check_writable(self.store)
        self._read(files)
        if dry_run:
            view = View(self.store)
            work = prepared(view, self._plan(view))
            content = {key: entry[0] for key, entry in work.files.items()}
            changed = work.change.manifest is not None
            solves = self._check(View(self.store, content)) if changed else []
            return Published(self._made(), changed, tuple(sorted(work.new)), tuple(solves))
        applied: Applied = apply(
            self.store,
            who=self.who,
            plan=self._plan,
            check=self._check,
            say=self.say,
            ttl=self.ttl,
            wait=self.wait,
        )
        stored = tuple(addition.key for addition in applied.change.additions)
        return Published(self._made(), applied.changed, stored, applied.solves, applied.repaired)

    def _read(self, files: Sequence[Path]) -> None:
        from channel_tools.verify import verify_path

        records = []
        for number, path in enumerate(files, 1):
            self.say(f"verifying {path.name} ({number} of {len(files)})")
            one = candidate(path)
            records.append(build_record(path))
            check_metadata(one, records[-1])
            report = verify_path(path)
            if report.verdict != "pass":
                raise VerifyError(
                    "the package is not what it declares or its policy says",
                    where=path,
                    found="; ".join(report.all_faults()[:5]),
                    fix=f"see `rocm-channel verify {path}`",
                )
            self._new.append(one)
            self._reports[path] = report
        self._commit = commit_of(records)

    def _check_attest(self, settings: Settings) -> None:
        if settings.attestations == "require" and self.attest is None and not self._dry_run:
            raise AttestationError(
                "takes packages with attestations only",
                where=self.store.address,
                found="none are to be made",
                fix="publish with --attest",
            )

    def _plan(self, view: Store) -> Change:
        state = read_state(view)
        packages = [one.package for one in self._new]
        check_release(
            packages,
            self._reports,
            state.settings,
            state.indexes,
            matrix=self.matrix,
            allow_missing=self.allow_missing,
            local=is_local(self.store, state.settings),
            where=self.store.address,
        )
        settings = with_toolchain(view, state.settings, packages)
        self._check_attest(settings)
        wanted = list(places(self._new, state.indexes))
        additions, subdirs = to_add(view, wanted, state.indexes)
        verified = {path.name: report.summary() for path, report in self._reports.items()}
        known = {
            f"{subdir}/{name}": record["attestations_sha256"]
            for subdir, index in state.indexes.items()
            for name, record in index.records.items()
            if record.get("attestations_sha256")
        }
        unsigned = [place for place in wanted if place.key not in known]
        more, replacements, subdirs, attested = self._attested(unsigned, subdirs, state)
        files = release_files(wanted, self._new, verified, known | attested)
        there = next((r for r in state.releases if _holds(r, files)), None)
        if there is not None and not (additions or subdirs):
            self._release = there
            return Change("publish")
        self._release = self._new_release(view, files)
        if settings != state.settings:
            replacements[SETTINGS_KEY] = Replacement(settings.to_bytes(), NO_CACHE)
        page = replace(state, settings=settings).page(view, subdirs, more=(self._release,))
        return Change(
            "publish",
            (*additions, *more),
            subdirs,
            {**replacements, **page},
            (self._release.key, self._release.to_bytes()),
        )

    def _attested(
        self, wanted: Sequence[Place], subdirs: dict[str, SubdirChange], state: State
    ) -> tuple[list[Addition], dict[str, Replacement], dict[str, SubdirChange], dict[str, str]]:
        """Attestations of what has none, and the records that name them."""
        additions: list[Addition] = []
        replacements: dict[str, Replacement] = {}
        changes = {subdir: dict(change.add) for subdir, change in subdirs.items()}
        digests: dict[str, str] = {}
        for place in wanted if self.attest is not None else ():
            assert self.attest is not None
            self.say(f"signing {place.key}")
            bundle = self.attest(place.key, place.record["sha256"])
            addition, (alias, content), digest = sigs_additions(place.key, bundle)
            additions.append(addition)
            replacements[alias] = content
            digests[place.key] = digest
            index = state.indexes.get(place.subdir)
            record = (index.records if index else {}).get(place.name, place.record)
            changes.setdefault(place.subdir, {})[place.name] = {**record, "attestations_sha256": digest}
        return additions, replacements, {s: SubdirChange(add=found) for s, found in changes.items()}, digests

    def _new_release(self, view: Store, files: tuple[ReleaseFile, ...]) -> Release:
        created = timestamp(view)
        content = "\n".join(f"{file.key} {file.sha256}" for file in files)
        short = hashlib.sha256(content.encode()).hexdigest()[:8]
        return Release(
            id=f"{created.replace('-', '').replace(':', '')}-{short}",
            action="publish",
            created=created,
            who=self.who,
            commit=self._commit,
            allow_missing=tuple(self.allow_missing),
            files=files,
        )

    def _check(self, store: Store) -> list[dict[str, Any]]:
        self.say("reading the new state as consumers read it")
        settings = read_settings(store) or Settings()
        return read_back(store, self._made().files, settings.dependency_channels)

    def _made(self) -> Release:
        assert self._release is not None
        return self._release


def _holds(release: Release, files: Sequence[ReleaseFile]) -> bool:
    """Does an earlier release have all of these files?"""
    known = {(file.key, file.sha256) for file in release.files}
    return all((file.key, file.sha256) in known for file in files)
