"""Attestations of packages: what they say (CEP 27), and making them.

How they lie beside the packages is in :mod:`channel_tools.channel.attestations.sidecar`, how they are
checked in :mod:`channel_tools.channel.attestations.check`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from channel_tools.channel.attestations.check import Question, check_all
from channel_tools.channel.attestations.outcome import Outcome, Verdict
from channel_tools.channel.attestations.policy import Policy
from channel_tools.channel.attestations.sidecar import appended, target_channel
from channel_tools.channel.attestations.signer import Signer
from channel_tools.channel.settings import Publisher
from channel_tools.model.errors import AttestationError

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://schemas.conda.org/attestations-publish-1.schema.json"


def statement(file_name: str, sha256: str, channel_url: str) -> bytes:
    """What is signed: this file was published to this channel. An in-toto statement by CEP 27, as JSON.

    :param sha256: of the file, hexadecimal
    :param channel_url: as clients name the channel; a label's has ``/label/<name>`` at its end
    """
    return json.dumps(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": file_name, "digest": {"sha256": sha256}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {"targetChannel": channel_url.rstrip("/")},
        }
    ).encode()


class Attester:
    """Makes the attestations of one channel, for publish and promote, and checks what it made.

    :param publishers: who may sign for the channel; anybody whom the instance vouches for, where empty
    """

    def __init__(self, signer: Signer, channel_url: str, publishers: Sequence[Publisher] = ()) -> None:
        self.signer = signer
        self.channel_url = channel_url.rstrip("/")
        self.publishers = tuple(publishers)

    def __call__(self, key: str, digest: str) -> bytes:
        """One bundle for a file, by its key in the channel and its sha256.

        A label is a channel of its own to clients, so the statement names the label that the key is in.

        :raises AttestationError: it cannot be made, or consumers would refuse it
        """
        url = target_channel(self.channel_url, key)
        return sign(key.rsplit("/", 1)[-1], digest, url, self.signer, self.publishers)[0]


def sign(
    file_name: str, digest: str, channel_url: str, signer: Signer, publishers: Sequence[Publisher] = ()
) -> tuple[bytes, Outcome]:
    """Sign that this file was published to this channel.

    :param digest: sha256 of the file, hexadecimal
    :returns: one bundle (JSON), and what a consumer sees of it: who signed, and when
    :raises AttestationError: it cannot be made, or a consumer with the instance's trusted root, who believes
        these publishers, would refuse it
    """
    url = channel_url.rstrip("/")
    bundle = signer.sign(statement(file_name, digest, url))
    sidecar = appended(None, [bundle])
    question = Question(file_name, digest, url, sidecar, advertised=hashlib.sha256(sidecar).hexdigest())
    (outcome,) = check_all([question], Policy("require", tuple(publishers), signer.trusted_root()))
    if outcome.verdict is Verdict.WRONG_SIGNER:
        raise AttestationError(
            "this signer may not publish to the channel",
            where=url,
            found="; ".join(outcome.reasons),
            wanted=" or ".join(f"{one.identity} ({one.issuer})" for one in publishers),
            fix="sign where the channel's publishers sign, or name this one, too: `rocm-channel channel init "
            "CHANNEL --change --publisher identity=...,issuer=...`",
        )
    if not outcome.verified:
        raise AttestationError(
            "the instance signed, and its signature does not verify",
            where=signer.where,
            found="; ".join(outcome.reasons),
            fix="its logs' keys and certificates must be the ones in the trust configuration",
        )
    return bundle, outcome
