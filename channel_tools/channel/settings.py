"""``channel.json``: what a channel is, written by ``channel init``."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from channel_tools.channel.index.texts import problem_of
from channel_tools.channel.layout import SETTINGS_KEY
from channel_tools.channel.stores.store import Store
from channel_tools.model.errors import ChannelError


class Publisher(BaseModel):
    """Who may sign: the identity in the certificate (an email or a CI workflow's URL) and its OIDC issuer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    identity: str
    issuer: str


class Settings(BaseModel):
    """``url`` is where consumers read, without a final ``/``; it stands in attestations and commands."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    url: str | None = None
    toolchain: Literal["conda", "host"] | None = None
    """Builds of one toolchain only, so that no solve mixes them."""
    name: str | None = None
    """As consumers call it: ``internal``."""
    dependency_channels: tuple[str, ...] = ()
    """Channels that consumers add after this one, in order: ``conda-forge``."""
    attestations: Literal["off", "warn", "require"] = "off"
    publishers: tuple[Publisher, ...] = ()

    def to_bytes(self) -> bytes:
        return (
            json.dumps(self.model_dump(mode="json", exclude_defaults=True) | {"version": 1}) + "\n"
        ).encode()


def read_settings(store: Store) -> Settings | None:
    """Settings of a channel; None where no channel is.

    :raises ChannelError: they cannot be read
    """
    content = store.read(SETTINGS_KEY)
    if content is None:
        return None
    try:
        return Settings.model_validate_json(content)
    except ValidationError as error:
        raise ChannelError(
            "is no channel.json of this format",
            where=f"{store.address}/{SETTINGS_KEY}",
            found=problem_of(error),
            fix="restore it from a backup, or remove it and say all of it again: `rocm-channel channel init`",
        ) from error
