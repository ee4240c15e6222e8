"""The release manifest: what one publish or promote put into a channel.

It lies at ``releases/<id>.json``, is written last, and never changes. What it names is never pruned.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from channel_tools.channel.index.texts import problem_of
from channel_tools.channel.layout import RELEASES
from channel_tools.channel.stores.store import Store
from channel_tools.model.errors import ChannelError

_SHOWN = 8
"""Releases that a message names."""


class ReleaseFile(BaseModel):
    """One package of a release. ``verify`` is :meth:`channel_tools.verify.Report.summary`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    sha256: str
    size: int
    name: str
    version: str
    build: str
    build_number: int
    arch: str | None = None
    rocm: str | None = None
    python: str | None = None
    attestation: str | None = None
    """sha256 of the attestation bundles, as ``attestations_sha256`` of the record."""
    verify: dict[str, Any] | None = None

    @field_validator("verify")
    @classmethod
    def _lists(cls, verify: dict[str, Any] | None) -> dict[str, Any] | None:
        for name in ("targets", "faults"):
            value = (verify or {}).get(name) or ()
            if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
                raise ValueError(f"{name} is no list of texts")
        return verify


class Release(BaseModel):
    """``created`` is ISO 8601 in UTC; ``promoted_from`` the address and id of the release it is a copy of."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    id: str
    action: Literal["publish", "promote"]
    created: str
    who: str
    commit: str | None = None
    """Commit of the recipes, ``-dirty`` where files differed."""
    allow_missing: tuple[str, ...] = ()
    promoted_from: dict[str, str] | None = None
    files: tuple[ReleaseFile, ...]
    solves: tuple[dict[str, Any], ...] = ()
    """What the channel gave when it was read back as a consumer."""

    @property
    def key(self) -> str:
        return release_key(self.id)

    def to_bytes(self) -> bytes:
        return (json.dumps(self.model_dump(mode="json"), indent=1) + "\n").encode()


def release_key(release_id: str) -> str:
    return f"{RELEASES}{release_id}.json"


def read_release(store: Store, release_id: str) -> Release:
    """One manifest.

    :raises ChannelError: there is none of that name, or it cannot be read
    """
    key = release_key(release_id)
    content = store.read(key)
    if content is None:
        known = [stat.key.removeprefix(RELEASES).removesuffix(".json") for stat in store.list(RELEASES)]
        older = f", and {len(known) - _SHOWN} older" if len(known) > _SHOWN else ""
        raise ChannelError(
            f"has no release {release_id or 'without a name'}",
            where=store.address,
            found=(", ".join(known[-_SHOWN:]) or "none") + older,
            fix="name one of those" if known else "publish one first",
        )
    return _parse(store, key, content)


def read_releases(store: Store) -> Iterator[Release]:
    """Every manifest, by key.

    :raises ChannelError: one of them cannot be read
    """
    for stat in store.list(RELEASES):
        content = store.read(stat.key)
        if content is not None and stat.key.endswith(".json"):
            yield _parse(store, stat.key, content)


def _parse(store: Store, key: str, content: bytes) -> Release:
    where = f"{store.address}/{key}"
    try:
        release = Release.model_validate_json(content)
    except ValidationError as error:
        raise ChannelError(
            "is no release manifest of this format",
            where=where,
            found=problem_of(error),
            fix="restore it from a backup",
        ) from error
    if release.key != key:
        raise ChannelError(
            "is the manifest of another release",
            where=where,
            found=release.id,
            wanted=key.removeprefix(RELEASES).removesuffix(".json"),
            fix="restore it from a backup",
        )
    return release
