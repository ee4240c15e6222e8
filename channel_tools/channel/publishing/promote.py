"""Promoting a release: the same files, from a staging channel to the one that consumers use.

The files are copied by the store itself where both channels are of one service. They must be what the release
manifest says and what the staging index says; the checks of a publish are made again against the target, the
new state is read back as a consumer, and each file gets an attestation of its own for the target channel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from channel_tools.channel.attestations.sidecar import appended, read_sidecar, sigs_additions
from channel_tools.channel.care.audits.releases import verified_again
from channel_tools.channel.care.upkeep import State, read_state, require_channel, required_settings, timestamp
from channel_tools.channel.layout import SETTINGS_KEY
from channel_tools.channel.publishing.placing import Candidate, places, to_add, with_toolchain
from channel_tools.channel.publishing.release_checks import check_release, is_local
from channel_tools.channel.publishing.release_files import release_files
from channel_tools.channel.publishing.shipped import Verified, content_of, shipped
from channel_tools.channel.release import Release, ReleaseFile, read_release
from channel_tools.channel.settings import Settings
from channel_tools.channel.stores.lease import check_writable
from channel_tools.channel.stores.opening import absolute, same_place
from channel_tools.channel.stores.store import NO_CACHE, Store
from channel_tools.channel.transaction.apply import Applied, apply, prepared
from channel_tools.channel.transaction.change import Addition, Change, Record, Replacement, SubdirChange
from channel_tools.channel.transaction.view import View
from channel_tools.model.errors import AttestationError, ChannelError, VerifyError
from channel_tools.model.matrix import Matrix

Attest = Callable[[str, str], bytes]
"""Key in the target channel and sha256 of a file, to one attestation bundle for that channel."""

ReadBack = Callable[[Store, Sequence[ReleaseFile], Sequence[str]], list[dict[str, Any]]]
"""As :func:`channel_tools.channel.publishing.readback.read_back`."""


@dataclass(frozen=True)
class Promotion:
    """A release of ``source``, and what is asked for."""

    source: Store
    release: str
    who: str
    matrix: Matrix
    allow_missing: Sequence[str] = ()
    attest: Attest | None = None
    read_back: ReadBack | None = None
    verify: bool = False
    """Read every package again; without it, hashes and verdicts are what staging records."""
    rehearsal: bool = False
    """Sign nothing, as nothing will be written."""

    @property
    def origin(self) -> dict[str, str]:
        return {"channel": absolute(self.source), "release": self.release}


@dataclass(frozen=True)
class Planned:
    """What a promotion would do; ``change`` is empty where the target has the release already."""

    release: Release
    settings: Settings
    change: Change

    @property
    def new(self) -> bool:
        return self.change.manifest is not None


def promote(
    target: Store, promotion: Promotion, *, say: Callable[[str], None] = lambda line: None
) -> tuple[Planned, Applied]:
    """Promote a release as one transaction. Doing it again changes nothing.

    :raises ReleaseRefusedError: what the target must not take, with every reason
    :raises ChannelError: the staging channel does not hold what the release manifest says, or the target has
        other content under one of the names, or another release of that id
    :raises AttestationError: the target demands attestations, and they cannot be made
    :raises VerifyError: with ``verify``, a package that is not what the staging channel says of it
    """
    _check_channels(target, promotion)
    if promotion.verify:
        check_writable(target)
        _verify(promotion, say)
    planned: list[Planned] = []

    def plan(view: Store) -> Change:
        planned.append(plan_promotion(view, target, promotion))
        return planned[-1].change

    def check(view: Store) -> list[dict[str, Any]]:
        return _read_back(view, promotion, planned[-1])

    applied = apply(target, who=promotion.who, check=check, say=say, plan=plan)
    return planned[-1], applied


def _verify(promotion: Promotion, say: Callable[[str], None]) -> None:
    """Hash and verify the packages of a release, and compare each with its record.

    :raises VerifyError: one is not what the staging channel says, or does not pass
    """
    source = promotion.source
    for one in shipped(source, read_release(source, promotion.release)):
        say(f"verifying {one.file.key}")
        findings = list(verified_again(source, one.file, one.record, one.package.toolchain))
        if findings:
            raise VerifyError(
                findings[0].what,
                where=f"{source.address}/{one.file.key}",
                found=findings[0].found,
                wanted=findings[0].wanted,
                fix="it is not promoted; run `rocm-channel audit --verify` on the staging channel",
            )


def _check_channels(target: Store, promotion: Promotion) -> None:
    if same_place(target, promotion.source):
        raise ChannelError("is promoted to itself", where=target.address, fix="name another target")
    require_channel(promotion.source)
    required_settings(target)


def rehearse(target: Store, promotion: Promotion) -> tuple[Planned, Applied]:
    """As :func:`promote`, the read-back included, but nothing is written."""
    _check_channels(target, promotion)
    if promotion.verify:
        _verify(promotion, lambda line: None)
    view = View(target)
    planned = plan_promotion(view, target, promotion)
    work = prepared(view, planned.change)
    after = View(target, {key: entry[0] for key, entry in work.files.items()})
    solves = _read_back(after, promotion, planned)
    return planned, Applied(planned.change, planned.new, work.subdirs, tuple(solves))


def _read_back(view: Store, promotion: Promotion, planned: Planned) -> list[dict[str, Any]]:
    if promotion.read_back is None or not planned.new:
        return []
    return promotion.read_back(view, planned.release.files, planned.settings.dependency_channels)


def plan_promotion(view: Store, target: Store, promotion: Promotion) -> Planned:
    """What a promotion would do.

    :param view: the target as it is
    :param target: the target itself, for copies within it
    """
    release = read_release(promotion.source, promotion.release)
    state = read_state(view)
    there = _there_already(state, release, target)
    if there is not None:
        return Planned(there, state.settings, Change("promote"))
    found = shipped(promotion.source, release)
    packages = [one.package for one in found]
    allowed = tuple(sorted({*release.allow_missing, *promotion.allow_missing}))
    check_release(
        packages,
        {one.package.path: Verified(one.file.verify) for one in found},
        state.settings,
        state.indexes,
        matrix=promotion.matrix,
        allow_missing=allowed,
        local=is_local(target, state.settings),
        channels_of=lambda package: (),
        where=target.address,
    )
    new = [Candidate(one.package, _fresh(one.record, view)) for one in found]
    wanted = list(places(new, state.indexes))
    additions, subdirs = to_add(target, wanted, state.indexes)
    additions = [_from_staging(addition, promotion.source) for addition in additions]
    verified = {one.package.path.name: one.file.verify for one in found if one.file.verify is not None}
    files = release_files(wanted, new, verified, {})
    settings = with_toolchain(target, state.settings, packages)
    sidecars = _Sidecars(promotion, view, state, subdirs)
    result = Release(
        id=release.id,
        action="promote",
        created=timestamp(view),
        who=promotion.who,
        commit=release.commit,
        allow_missing=allowed,
        promoted_from=promotion.origin,
        files=tuple(sidecars.attested(file) for file in files),
    )
    replacements = {
        **sidecars.aliases,
        **replace(state, settings=settings).page(view, sidecars.subdirs, more=(result,)),
    }
    if settings != state.settings:
        replacements[SETTINGS_KEY] = Replacement(settings.to_bytes(), NO_CACHE)
    change = Change(
        "promote",
        (*additions, *sidecars.additions),
        sidecars.subdirs,
        replacements,
        manifest=(result.key, result.to_bytes()),
    )
    return Planned(result, settings, change)


class _Sidecars:
    """Attestations for the target channel, gathered file by file."""

    def __init__(
        self, promotion: Promotion, view: Store, state: State, subdirs: Mapping[str, SubdirChange]
    ) -> None:
        self._promotion = promotion
        self._view = view
        self._state = state
        self.additions: list[Addition] = []
        self.aliases: dict[str, Replacement] = {}
        self.subdirs = dict(subdirs)
        required = state.settings.attestations == "require" and not promotion.rehearsal
        if promotion.attest is None and required:
            raise AttestationError(
                "every file of this channel has an attestation, and none can be made",
                where=view.address,
                found="nobody signs",
                fix="promote where an OIDC token is at hand, with --attest",
            )

    def attested(self, file: ReleaseFile) -> ReleaseFile:
        """The file with its attestation for the target, its record in ``subdirs`` changed along with it."""
        subdir, _, name = file.key.rpartition("/")
        change = self.subdirs.get(subdir, SubdirChange())
        index = self._state.indexes.get(subdir)
        record = change.add.get(name) or (index.records[name] if index else {})
        known = record.get("attestations_sha256")
        if known is not None or self._promotion.attest is None:
            return file.model_copy(update={"attestation": known})
        bundle = self._promotion.attest(file.key, file.sha256)
        before = read_sidecar(self._view, file.key) or read_sidecar(self._promotion.source, file.key)
        content = appended(before, [bundle], file.key)
        addition, (alias, replacement), sha256 = sigs_additions(file.key, content)
        self.additions.append(addition)
        self.aliases[alias] = replacement
        record = {**record, "attestations_sha256": sha256}
        self.subdirs[subdir] = replace(change, add={**change.add, name: record})
        return file.model_copy(update={"attestation": sha256})


def _there_already(state: State, release: Release, target: Store) -> Release | None:
    """The release in the target, by whatever way it came; an error when that one is another."""
    there = next((r for r in state.releases if r.id == release.id), None)
    if there is None:
        return None
    # Combined labels may have brought more than the release itself has.
    if not {content_of(f) for f in there.files} >= {content_of(f) for f in release.files}:
        origin = (there.promoted_from or {}).get("channel")
        raise ChannelError(
            f"has another release {release.id}",
            where=target.address,
            found=f"that of a {there.action} by {there.who} at {there.created}"
            + (f", from {origin}" if origin else ""),
            fix="a release is never changed; publish what is new under another id",
        )
    return there


def _fresh(record: Record, view: Store) -> Record:
    """The record that a file gets in the target: new there, and not yet attested for it."""
    fresh = {key: value for key, value in record.items() if key != "attestations_sha256"}
    if "indexed_timestamp" in fresh:
        fresh["indexed_timestamp"] = int(view.now() * 1000)
    return fresh


def _from_staging(addition: Addition, source: Store) -> Addition:
    """Packages of the release come from the staging channel, where their path is a key."""
    if isinstance(addition.source, Path):
        return replace(addition, source=(source, addition.source.as_posix()))
    return addition
