"""Who signs what a command puts into a channel."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from channel_tools.cli.care import tell

if TYPE_CHECKING:
    from channel_tools.channel.publishing.publish import Attest
    from channel_tools.channel.stores.store import Store


def attester(store: Store, wanted: bool | None) -> Attest | None:
    """Makes attestations by key and sha256; None where none are to be made.

    :param wanted: None to do as the channel's settings say
    :raises ChannelError: no channel is there
    :raises AttestationError: the channel has no URL that an attestation could name, nobody can sign, or none
        are wanted where the channel requires them
    """
    from channel_tools.channel.care.upkeep import required_settings
    from channel_tools.model.errors import AttestationError

    settings = required_settings(store)
    required = settings.attestations == "require"
    if wanted is False and required:
        raise AttestationError(
            "the channel requires attestations",
            where=store.address,
            found="--no-attest",
            fix="leave that out, or change the channel: `rocm-channel channel init "
            f"{quote(store.address)} --change --attestations warn`",
        )
    if not wanted and not required:
        return None
    from channel_tools.channel.attestations.making import Attester
    from channel_tools.channel.attestations.signer import Signer

    if settings.url is None:
        raise AttestationError(
            "an attestation names the channel's URL, and the channel has none",
            where=store.address,
            fix=f"give it one: `rocm-channel channel init {quote(store.address)} --change --url https://...`",
        )
    made = Attester(Signer(), settings.url, settings.publishers)

    def attest(key: str, sha256: str) -> bytes:
        tell(f"signing {key}")
        return made(key, sha256)

    return attest
