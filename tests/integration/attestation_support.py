"""What the tests of attestations share: names, a policy, questions, and a private Sigstore at its address."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from channel_tools.channel.attestations.check import Question
from channel_tools.channel.attestations.making import statement
from channel_tools.channel.attestations.policy import Policy
from channel_tools.channel.attestations.sidecar import appended
from channel_tools.channel.settings import Publisher
from tests.integration.private_sigstore import IDENTITY, ISSUER, PrivateSigstore
from tests.integration.private_sigstore_server import Server, serving

CHANNEL = "https://conda.internal.example/rocm"
FILE = "demo-1.0-h1_0.conda"
DIGEST = hashlib.sha256(b"the package").hexdigest()
OTHER = hashlib.sha256(b"another package").hexdigest()
PUBLISHER = Publisher(identity=IDENTITY, issuer=ISSUER)
RIGHT = statement(FILE, DIGEST, CHANNEL)


def strict(instance: PrivateSigstore) -> Policy:
    """Our publisher alone, and the instance's own root."""
    return Policy("require", (PUBLISHER,), json.dumps(instance.trusted_root()))


def question(*bundles: bytes, sidecar: bytes | None = None, channel: str = CHANNEL) -> Question:
    """Our file with these bundles beside it, or with this content in their place."""
    content = appended(None, bundles) if sidecar is None else sidecar
    return Question(FILE, DIGEST, channel, content, advertised=hashlib.sha256(content).hexdigest())


@contextmanager
def private_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An instance that answers, and an environment without tokens or trust of its own."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr("channel_tools.channel.attestations.signer.PAUSE", 0.0)
    for name in ("SIGSTORE_ID_TOKEN", "ROCM_CHANNEL_TRUST_CONFIG", "ROCM_CHANNEL_TRUSTED_ROOT"):
        monkeypatch.delenv(name, raising=False)
    with serving(PrivateSigstore()) as running:
        yield running


def write_config(server: Server, folder: Path, version: int = 1) -> Path:
    """The trust configuration that an operator has, for Rekor 1 or 2."""
    path = folder / "trust_config.json"
    path.write_text(json.dumps(server.trust_config(version)))
    return path
