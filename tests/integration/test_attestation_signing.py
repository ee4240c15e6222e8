"""Making attestations: sigstore's own client at a private instance, over HTTP."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from channel_tools.channel.attestations.check import (
    Question,
    check_all,
)
from channel_tools.channel.attestations.making import Signer, sign
from channel_tools.channel.attestations.outcome import Verdict
from channel_tools.channel.attestations.policy import Policy
from channel_tools.channel.attestations.sidecar import (
    appended,
)
from channel_tools.cli.attest import app
from channel_tools.model.errors import AttestationError, ChannelToolsError
from channel_tools.model.package import sha256
from tests.integration.attestation_support import CHANNEL, PUBLISHER, private_server, write_config
from tests.integration.private_sigstore import IDENTITY, ISSUER, PrivateSigstore
from tests.integration.private_sigstore_server import Server
from tests.integration.tiny_packages import tiny_package


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with private_server(monkeypatch) as running:
        yield running


def sign_file(package: Path, channel: str, signer: Signer) -> bytes:
    return sign(package.name, sha256(package), channel, signer)[0]


@pytest.mark.parametrize("version", [1, 2])
def test_sigstore_signs_at_a_private_instance(version: int, server: Server, tmp_path: Path) -> None:
    """Rekor 1 gives times of its own; at Rekor 2 the time comes from the timestamp authority."""
    package = tiny_package(tmp_path, "demo")
    signer = Signer(write_config(server, tmp_path, version), server.token)
    sidecar = None
    for channel in (CHANNEL, f"{CHANNEL}-prod"):
        sidecar = appended(sidecar, [sign_file(package, channel, signer)])
    (tmp_path / "trusted_root.json").write_text(signer.trusted_root())
    policy = Policy.of(None, tmp_path / "trusted_root.json", "require", [PUBLISHER])
    digest, announced = hashlib.sha256(package.read_bytes()).hexdigest(), hashlib.sha256(sidecar).hexdigest()
    staging, prod, other = (
        check_all([Question(package.name, digest, url, sidecar, advertised=announced)], policy)[0]
        for url in (CHANNEL, f"{CHANNEL}-prod", f"{CHANNEL}-other")
    )
    assert staging.verified and prod.verified and other.verdict is Verdict.OTHER_CHANNEL
    assert server.asked.count("/api/v2/signingCert") == 1  # one certificate for both
    assert ("/timestamp" in server.asked) == (version == 2)


def test_a_certificate_that_ran_out_is_renewed(server: Server, tmp_path: Path) -> None:
    server.minutes = 7 / 60  # seven seconds, which begin five seconds ago
    signer = Signer(write_config(server, tmp_path), server.token)
    package = tiny_package(tmp_path, "demo")
    sign_file(package, CHANNEL, signer)
    time.sleep(2.1)
    sign_file(package, CHANNEL, signer)
    assert server.asked.count("/api/v2/signingCert") == 2


def test_a_moment_of_trouble_is_waited_for(server: Server, tmp_path: Path) -> None:
    server.fail = {"/api/v2/signingCert": [503], "/api/v1/log/entries": [502]}
    sign_file(tiny_package(tmp_path, "demo"), CHANNEL, Signer(write_config(server, tmp_path), server.token))
    assert server.asked.count("/api/v1/log/entries") == 2


@pytest.mark.parametrize(
    ("fault", "texts"),
    [
        ("foreign token", ["HTTP 401", "new OIDC token"]),
        ("expired token", ["token", "new OIDC token"]),
        ("other audience", ["token", "audience sigstore"]),
        ("log refuses", ["HTTP 400", "/api/v1/log/entries"]),
        ("down", ["reaches it"]),
        ("hangs", ["no answer for 1 seconds", "reaches it"]),
        ("wrong keys", ["does not verify", "must be the ones in the trust configuration"]),
        ("no configuration", ["trust configuration cannot be used"]),
    ],
)
def test_why_it_could_not_be_signed(fault: str, texts: list[str], server: Server, tmp_path: Path) -> None:
    package = tiny_package(tmp_path, "demo")
    config = write_config(server, tmp_path)
    token = server.token()
    if fault == "foreign token":
        token = server.token(secret="of another issuer altogether, as long as it must be")
    elif fault == "expired token":
        token = server.token(iat=1_700_000_000, exp=1_700_000_300)
    elif fault == "other audience":
        token = server.token(aud="somebody else")
    elif fault == "log refuses":
        server.fail = {"/api/v1/log/entries": [400]}
    elif fault == "down":
        config.write_text(config.read_text().replace(server.url, "http://127.0.0.1:9"))
    elif fault == "hangs":
        server.slow = 3
    elif fault == "wrong keys":
        server.sigstore.entries.key = PrivateSigstore().entries.key
    elif fault == "no configuration":
        config.write_text('{"mediaType": "x"}')
    with pytest.raises(AttestationError) as error:
        sign_file(package, CHANNEL, Signer(config, lambda: token, timeout=1 if fault == "hangs" else 30))
    message = str(error.value)
    assert all(text in message for text in texts), message
    assert token not in message and "Traceback" not in message


def test_where_tokens_come_from(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "BUILDKITE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROCM_CHANNEL_TRUST_CONFIG", str(write_config(server, tmp_path)))
    package = tiny_package(tmp_path, "demo")
    with pytest.raises(AttestationError, match="no OIDC token to sign with"):
        sign_file(package, CHANNEL, Signer())
    monkeypatch.setenv("GITHUB_ACTIONS", "true")  # in a job without the permission
    with pytest.raises(AttestationError, match="the CI system gives no OIDC token"):
        sign_file(package, CHANNEL, Signer())
    monkeypatch.setenv("SIGSTORE_ID_TOKEN", server.token())
    sign_file(package, CHANNEL, Signer())


def test_signing_without_sigstore_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sigstore.sign", None)
    with pytest.raises(ChannelToolsError, match="needs the Python package sigstore"):
        Signer()


def test_create_and_verify_by_hand(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tiny_package(tmp_path, "demo")
    config = write_config(server, tmp_path)
    monkeypatch.setenv("SIGSTORE_ID_TOKEN", server.token())
    run = CliRunner()
    target = ["--channel", CHANNEL]
    shown = run.invoke(app, ["create", str(package), *target, "--dry-run"])
    assert json.loads(shown.output)["predicate"] == {"targetChannel": CHANNEL} and not server.asked
    made = run.invoke(app, ["create", str(package), *target, "--trust-config", str(config), "--json"])
    assert made.exit_code == 0, made.output
    (told,) = json.loads(made.output)["files"]
    assert told["identity"] == IDENTITY and Path(told["sigs"]).name == f"{package.name}.sigs"

    who = ["--identity", IDENTITY, "--issuer", ISSUER, "--trusted-root", str(config)]
    verified = run.invoke(app, ["verify", str(package), *target, *who])
    assert verified.exit_code == 0 and f"signed by {IDENTITY}" in verified.output
    copy = tmp_path / "elsewhere" / package.name
    copy.parent.mkdir()
    shutil.copy(package, copy)
    missing = run.invoke(app, ["verify", str(copy), *target, *who])
    assert isinstance(missing.exception, AttestationError) and "has no attestation" in str(missing.exception)
    with package.open("ab") as stream:
        stream.write(b"more")
    changed = run.invoke(app, ["verify", str(package), *target, *who, "--json"])
    assert isinstance(changed.exception, AttestationError)
    assert json.loads(changed.output)["files"][0]["verdict"] == "changed file"
