"""Who signs what a command puts into a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from channel_tools.channel.publishing.publish import Attest
    from channel_tools.channel.stores.store import Store


def attester(store: Store, wanted: bool | None) -> Attest | None:
    """Makes attestations by key and sha256; None where none are to be made.

    :param wanted: None to do as the channel's settings say
    :raises AttestationError: the channel has no URL that an attestation could name, or nobody can sign
    """
    from channel_tools.channel.settings import Settings, read_settings
    from channel_tools.model.errors import AttestationError

    settings = read_settings(store) or Settings()
    if wanted is False or (wanted is None and settings.attestations != "require"):
        return None
    from channel_tools.channel.attestations.making import Attester
    from channel_tools.channel.attestations.signer import Signer

    if settings.url is None:
        raise AttestationError(
            "an attestation names the channel's URL, and the channel has none",
            where=store.address,
            fix="give it one: `rocm-channel channel init --change --url https://...`",
        )
    return Attester(Signer(), settings.url, settings.publishers).stored
