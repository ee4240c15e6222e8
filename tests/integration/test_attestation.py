"""Attestations at a Sigstore of our own: made with sigstore's client, checked with py-rattler's verifier."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from channel_tools.channel.attestations.check import (
    Question,
    check_all,
)
from channel_tools.channel.attestations.making import statement
from channel_tools.channel.attestations.outcome import Outcome, Verdict, demand
from channel_tools.channel.attestations.policy import Policy
from channel_tools.channel.attestations.sidecar import (
    appended,
)
from channel_tools.channel.settings import Publisher, Settings
from channel_tools.model.errors import AttestationError
from tests.integration.attestation_support import (
    CHANNEL,
    DIGEST,
    FILE,
    OTHER,
    PUBLISHER,
    RIGHT,
    question,
)
from tests.integration.private_sigstore import IDENTITY, ISSUER, PrivateSigstore

LONG_AGO = datetime.now(UTC) - timedelta(days=400)


@pytest.fixture(scope="module")
def instance() -> PrivateSigstore:
    return PrivateSigstore()


@pytest.fixture(scope="module")
def root(instance: PrivateSigstore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trust") / "trusted_root.json"
    path.write_text(json.dumps(instance.trusted_root()))
    return path


@pytest.fixture(scope="module")
def policy(root: Path) -> Policy:
    return Policy.of(None, root, "require", [PUBLISHER])


def _without(bundle: bytes, *path: str) -> bytes:
    data = json.loads(bundle)
    part = data
    for name in path[:-1]:
        part = part[int(name) if name.isdecimal() else name]
    del part[path[-1]]
    return json.dumps(data).encode()


def _unnamed(statement: bytes, **fields: Any) -> bytes:
    return json.dumps(json.loads(statement) | fields).encode()


# What is signed, or stored, wrongly; how the refusal is called; what its text says.
CASES: dict[str, tuple[Callable[[PrivateSigstore], Question], Verdict, str]] = {
    "right": (lambda s: question(s.bundle(RIGHT)), Verdict.VERIFIED, ""),
    "right, with a time stamp": (lambda s: question(s.bundle(RIGHT, stamped=True)), Verdict.VERIFIED, ""),
    "right, by a log without times": (lambda s: question(s.bundle(RIGHT, version=2)), Verdict.VERIFIED, ""),
    "right, second of two": (
        lambda s: question(s.bundle(statement(FILE, DIGEST, CHANNEL + "-staging")), s.bundle(RIGHT)),
        Verdict.VERIFIED,
        "",
    ),
    "wrong identity": (
        lambda s: question(s.bundle(RIGHT, "mallory@internal.example")),
        Verdict.WRONG_SIGNER,
        "valid signature by mallory@internal.example",
    ),
    "identity that begins alike": (
        lambda s: question(s.bundle(RIGHT, IDENTITY + "-beta")),
        Verdict.WRONG_SIGNER,
        "does not match the trusted publisher",
    ),
    "wrong issuer": (
        lambda s: question(s.bundle(RIGHT, issuer="https://elsewhere.example")),
        Verdict.WRONG_SIGNER,
        "issuer https://elsewhere.example",
    ),
    "another channel": (
        lambda s: question(s.bundle(statement(FILE, DIGEST, CHANNEL + "-staging"))),
        Verdict.OTHER_CHANNEL,
        "targets channel https://conda.internal.example/rocm-staging",
    ),
    "the main channel's in a label": (
        lambda s: question(s.bundle(RIGHT), channel=f"{CHANNEL}/label/gfx942"),
        Verdict.OTHER_CHANNEL,
        "targets channel https://conda.internal.example/rocm but",
    ),
    "no channel named": (
        lambda s: question(s.bundle(_unnamed(RIGHT, predicate=None))),
        Verdict.OTHER_CHANNEL,
        "names no channel",
    ),
    "a changed file": (
        lambda s: question(s.bundle(statement(FILE, OTHER, CHANNEL))),
        Verdict.CHANGED,
        "artifact hash does not match",
    ),
    "a bundle of another file": (
        lambda s: question(s.bundle(statement("other-1.0-0.conda", DIGEST, CHANNEL))),
        Verdict.OTHER_FILE,
        'subject is "other-1.0-0.conda"',
    ),
    "another predicate": (
        lambda s: question(s.bundle(_unnamed(RIGHT, predicateType="https://slsa.dev/provenance/v1"))),
        Verdict.MALFORMED,
        "unexpected predicate type",
    ),
    "an unknown authority": (
        lambda s: question(PrivateSigstore().bundle(RIGHT)),
        Verdict.UNTRUSTED,
        "sigstore verification failed",
    ),
    "a known log, an unknown authority": (
        lambda s: question(_foreign(s).bundle(RIGHT)),
        Verdict.UNTRUSTED,
        "certificate chain",
    ),
    "an expired certificate": (
        lambda s: question(s.bundle(RIGHT, start=LONG_AGO)),
        Verdict.UNTRUSTED,
        "CertExpired",
    ),
    "an expired certificate and no time": (
        lambda s: question(s.bundle(RIGHT, start=LONG_AGO, promised=False)),
        Verdict.UNTRUSTED,
        "no verified timestamp",
    ),
    "no time at all": (
        lambda s: question(s.bundle(RIGHT, promised=False)),
        Verdict.UNTRUSTED,
        "no verified timestamp",
    ),
    "not in the certificate log": (
        lambda s: question(s.bundle(RIGHT, logged=False)),
        Verdict.UNTRUSTED,
        "missing SCT",
    ),
    "not in the log of signatures": (
        lambda s: question(_without(s.bundle(RIGHT, stamped=True), "verificationMaterial", "tlogEntries")),
        Verdict.UNTRUSTED,
        "",
    ),
    "another's signature": (
        lambda s: question(_swapped(s.bundle(RIGHT), s.bundle(RIGHT))),
        Verdict.UNTRUSTED,
        "sigstore verification failed",
    ),
    "no bundle": (
        lambda s: question(sidecar=b'[{"mediaType": 1}]'),
        Verdict.MALFORMED,
        "not a valid Sigstore",
    ),
    "no JSON": (lambda s: question(sidecar=b"signed, believe me"), Verdict.MALFORMED, "malformed"),
    "an empty list": (lambda s: question(sidecar=b"[]"), Verdict.MALFORMED, "is empty"),
    "missing": (lambda s: Question(FILE, DIGEST, CHANNEL), Verdict.MISSING, ""),
    "announced and not there": (
        lambda s: Question(FILE, DIGEST, CHANNEL, sidecar=b"", advertised=OTHER),
        Verdict.UNAVAILABLE,
        "is not there",
    ),
    "other attestations than announced": (
        lambda s: Question(
            FILE, DIGEST, CHANNEL, sidecar=appended(None, [s.bundle(RIGHT)]), advertised=OTHER
        ),
        Verdict.UNAVAILABLE,
        "another sha256",
    ),
    "announced as no sha256": (
        lambda s: Question(FILE, DIGEST, CHANNEL, sidecar=b"[]", advertised="../../etc/passwd"),
        Verdict.UNAVAILABLE,
        "is no sha256",
    ),
}


def _foreign(instance: PrivateSigstore) -> PrivateSigstore:
    """The same logs, another authority."""
    other = PrivateSigstore()
    other.entries, other.certificates = instance.entries, instance.certificates
    return other


def _swapped(bundle: bytes, other: bytes) -> bytes:
    data = json.loads(bundle)
    data["dsseEnvelope"]["signatures"] = json.loads(other)["dsseEnvelope"]["signatures"]
    return json.dumps(data).encode()


@pytest.fixture(scope="module")
def outcomes(instance: PrivateSigstore, policy: Policy) -> dict[str, Outcome]:
    questions = [make(instance) for make, _, _ in CASES.values()]
    return dict(zip(CASES, check_all(questions, policy), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_each_fault_is_refused_by_its_name(case: str, outcomes: dict[str, Outcome]) -> None:
    _, verdict, text = CASES[case]
    found = outcomes[case]
    assert (found.verdict, found.file) == (verdict, FILE), found
    assert text in " ".join(found.reasons)
    if found.verified:
        assert (found.identity, found.issuer, found.channel) == (IDENTITY, ISSUER, CHANNEL)
        assert found.signed_at and found.signed_at.startswith(str(datetime.now(UTC).year))
        demand([found])
        return
    with pytest.raises(AttestationError) as error:
        demand([found])
    message = str(error.value)
    assert FILE in message and "fix:" in message and error.value.exit_code == 43
    assert "rocm-channel-sigs" not in message  # no path of our own scratch folder
    assert found.text.startswith(f"{FILE}: ")


def test_a_second_publisher_may_sign_too(instance: PrivateSigstore, root: Path) -> None:
    operator = Publisher(identity="operator@internal.example", issuer="https://login.internal.example")
    both = Policy.of(None, root, "require", [PUBLISHER, operator])
    by_operator = instance.bundle(RIGHT, operator.identity, operator.issuer)
    crossed = instance.bundle(RIGHT, operator.identity, ISSUER)  # right names, wrongly paired
    first, second, third = check_all(
        [question(instance.bundle(RIGHT)), question(by_operator), question(crossed)], both
    )
    assert first.verified and second.verified and second.identity == operator.identity
    assert third.verdict is Verdict.WRONG_SIGNER


def test_a_workflow_may_sign_at_any_of_its_tags(instance: PrivateSigstore) -> None:
    """A CI system names the tag in the identity: without a pattern each release would need a new policy."""
    root = json.dumps(instance.trusted_root())
    workflow = IDENTITY.removesuffix("v1")
    tags = Policy("require", (Publisher(identity=workflow + "*", issuer=ISSUER),), root)
    cases = {
        workflow + "v2.0.1": Verdict.VERIFIED,
        workflow: Verdict.VERIFIED,
        workflow.replace("tags", "heads") + "main": Verdict.WRONG_SIGNER,
        workflow.replace("publish.yml", "other.yml") + "v1": Verdict.WRONG_SIGNER,
        "https://evil.example/?" + workflow + "v1": Verdict.WRONG_SIGNER,
    }
    outcomes = check_all([question(instance.bundle(RIGHT, one)) for one in cases], tags)
    assert [one.verdict for one in outcomes] == list(cases.values())
    (late,) = check_all([question(*(instance.bundle(RIGHT, one) for one in reversed(cases)))], tags)
    assert late.verified
    (foreign,) = check_all([question(instance.bundle(RIGHT, workflow + "v1", "https://x.example"))], tags)
    assert foreign.verdict is Verdict.WRONG_SIGNER


@pytest.mark.parametrize(
    "identity", ["*", "https://*", "https://ci.example/*@refs/tags/v1", "a@refs/tags/**"]
)
def test_a_pattern_never_names_more_than_one_workflow(identity: str, root: Path) -> None:
    with pytest.raises(AttestationError, match="more signers than one workflow"):
        Policy.of(None, root, "require", [Publisher(identity=identity, issuer=ISSUER)])


def test_several_refused_files_are_all_named(outcomes: dict[str, Outcome]) -> None:
    with pytest.raises(AttestationError) as error:
        demand([outcomes["right"], outcomes["missing"], outcomes["a changed file"]])
    assert "2 of 3 files" in str(error.value)
    assert "missing" in str(error.value) and "changed file" in str(error.value)


def test_checking_needs_no_network(instance: PrivateSigstore, root: Path, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespaces here")
    package = tmp_path / FILE
    package.write_bytes(b"the package")
    (tmp_path / f"{FILE}.sigs").write_bytes(appended(None, [instance.bundle(RIGHT)]))
    arguments = ["verify", str(package), "--channel", CHANNEL, "--identity", IDENTITY, "--issuer", ISSUER]
    program = "import sys; from channel_tools.cli.attest import app; app(sys.argv[1:])"
    for more in (["--trusted-root", str(root)], []):
        done = subprocess.run(
            ["unshare", "-rn", sys.executable, "-c", program, *arguments, *more],
            capture_output=True,
            text=True,
            check=False,
        )
        if more:
            assert done.returncode == 0 and f"signed by {IDENTITY}" in done.stdout, done.stderr
        else:  # without a file, the keys of the public instance are built in: no look-up, and a refusal
            assert "does not vouch for" in done.stderr and "tuf" not in done.stderr.lower(), done.stderr


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is no trusted root"),
        ('{"keys": []}', "is no trusted root"),
        ("no-ctlogs", "no ctlogs"),
        ("no-authority", "no certificateAuthorities"),
    ],
)
def test_a_trusted_root_that_verifies_nothing(
    content: str | None, text: str, instance: PrivateSigstore, tmp_path: Path
) -> None:
    path = tmp_path / "trusted_root.json"
    missing = {"no-ctlogs": "ctlogs", "no-authority": "certificateAuthorities"}
    if content in missing:
        path.write_text(json.dumps(instance.trusted_root() | {missing[content]: []}))
    elif content is not None:
        path.write_text(content)
    with pytest.raises(AttestationError, match=text):
        Policy.of(None, path, "require", [PUBLISHER])


def test_a_policy_without_publishers_is_none(root: Path) -> None:
    with pytest.raises(AttestationError, match="nobody is named who may sign"):
        Policy.of(Settings(url=CHANNEL, attestations="require"), root)
    assert Policy.of(Settings(url=CHANNEL), root).mode == "off"
    with pytest.raises(AttestationError, match="no issuer"):
        Policy.of(None, root, "warn", [Publisher(identity=IDENTITY, issuer="token.internal.example")])


def test_a_log_key_from_after_the_signature_does_not_count(instance: PrivateSigstore) -> None:
    """Keys have times: a root whose log key begins tomorrow verifies nothing of today."""
    data = instance.trusted_root()
    data["tlogs"][0]["publicKey"]["validFor"] = {"start": "2100-01-01T00:00:00Z"}
    (found,) = check_all(
        [question(instance.bundle(RIGHT))], Policy("require", (PUBLISHER,), json.dumps(data))
    )
    assert found.verdict is Verdict.UNTRUSTED


# Copies of what the signed checkpoint says; py-rattler reads the checkpoint. And a final newline.
UNSIGNED = {
    1: {("inclusionProof", "checkpoint", "envelope")},
    2: {
        ("inclusionProof", "checkpoint", "envelope"),
        ("inclusionProof", "logIndex"),
        ("inclusionProof", "rootHash"),
        ("inclusionProof", "treeSize"),
        ("logId", "keyId"),
    },
}


@pytest.mark.parametrize("version", [1, 2])
def test_a_change_anywhere_in_a_bundle_is_noticed(
    version: int, instance: PrivateSigstore, policy: Policy
) -> None:
    bundle = json.loads(instance.bundle(RIGHT, version=version, stamped=True))
    changed = [(path, json.dumps(_with(bundle, path, new)).encode()) for path, new in _changes(bundle)]
    outcomes = check_all([question(one) for _, one in changed], policy)
    unnoticed = {path[3:] for (path, _), one in zip(changed, outcomes, strict=True) if one.verified}
    assert len(changed) > 30 and unnoticed <= UNSIGNED[version]


def _changes(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Every string of a bundle: with another bit at start, middle or end, or counted on, or one shorter."""
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _changes(value, (*path, key))
        return
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError:
        raw = b""
    if len(raw) > 8:
        # In the middle of a time stamp lies a copy of its authority's certificate, which nobody reads.
        middle = {len(raw) // 2} if path[-1] != "signedTimestamp" else set()
        for at in {0, len(raw) - 1} | middle:
            yield path, base64.b64encode(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]).decode()
    else:
        yield path, str(int(data) + 1) if data.isdigit() else data[:-1]


def _with(data: Any, path: tuple[Any, ...], value: str) -> Any:
    copy = json.loads(json.dumps(data))
    part = copy
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return copy
