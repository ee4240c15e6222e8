"""Attestations in a channel: beside the packages, at audit, before an install, by publish and by promote."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from channel_tools import rattler_process
from channel_tools.channel.attestations.check import (
    check_solved,
    check_store,
)
from channel_tools.channel.attestations.making import Attester, Signer, statement
from channel_tools.channel.attestations.outcome import Verdict, demand
from channel_tools.channel.attestations.policy import Policy
from channel_tools.channel.attestations.sidecar import (
    alias_key,
    appended,
    sidecar_key,
    sigs_additions,
    split,
    target_channel,
)
from channel_tools.channel.layout import SETTINGS_KEY
from channel_tools.channel.publishing.promote import Promotion, promote
from channel_tools.channel.publishing.publish import Publisher as ReleasePublisher
from channel_tools.channel.settings import Settings
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.model.errors import AttestationError
from channel_tools.model.matrix import read_matrix
from channel_tools.model.package import sha256
from tests.integration.attestation_support import (
    CHANNEL,
    DIGEST,
    FILE,
    OTHER,
    PUBLISHER,
    RIGHT,
    private_server,
    strict,
    write_config,
)
from tests.integration.private_sigstore import PrivateSigstore
from tests.integration.private_sigstore_server import Server
from tests.integration.tiny_packages import release, tiny_package


@pytest.fixture(scope="module")
def instance() -> PrivateSigstore:
    return PrivateSigstore()


@pytest.fixture(scope="module")
def policy(instance: PrivateSigstore) -> Policy:
    return strict(instance)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with private_server(monkeypatch) as running:
        yield running


def test_bundles_stay_byte_for_byte(instance: PrivateSigstore) -> None:
    old = b'[ {"b": 1.0,  "a":"\xc3\xa9 ]},[" }\n,\t{"a": {"n": [1, 2]}} ]'
    first, second = split(old, "old")
    assert first == b'{"b": 1.0,  "a":"\xc3\xa9 ]},[" }' and second == b'{"a": {"n": [1, 2]}}'
    new = instance.bundle(RIGHT)
    both = appended(old, [new])
    assert split(both, "new") == [first, second, new]
    assert appended(both, [new, first]) is both  # nothing new, nothing rewritten
    with pytest.raises(AttestationError, match="more attestations than clients read"):
        appended(both, [b'{"a": "' + b"x" * (4 << 20) + b'"}'])
    for broken in (b"", b"{}", b"[]", b"[1]", b'[{"a": 1}', b"\xff", b"[" * 100_000):
        with pytest.raises(AttestationError, match="is no list of attestations"):
            split(broken, "broken")


def test_a_label_is_a_channel_of_its_own() -> None:
    assert target_channel(f"{CHANNEL}/", "linux-64/x-1-0.conda") == CHANNEL
    assert target_channel(CHANNEL, "label/gfx942/linux-64/x-1-0.conda") == f"{CHANNEL}/label/gfx942"


@pytest.fixture
def channel(instance: PrivateSigstore, tmp_path: Path) -> Path:
    """A folder with a signed package in the main channel and one in a label, indexed by py-rattler."""
    root = tmp_path / "channel"
    store = FolderStore(root)
    for prefix, name in (("", "demo"), ("label/gfx942/", "amdgpu-arch")):
        package = tiny_package(root / prefix, name)
        (root / prefix / "noarch").mkdir(exist_ok=True)
        key = f"{prefix}linux-64/{package.name}"
        digest = hashlib.sha256(package.read_bytes()).hexdigest()
        bundle = instance.bundle(statement(package.name, digest, target_channel(CHANNEL, key)))
        addition, (alias, replacement), announced = sigs_additions(key, bundle)
        assert isinstance(addition.source, tuple)
        assert store.copy_from(*addition.source, addition.key, sha256=addition.sha256)
        store.replace(alias, replacement.content, expect=None, cache=replacement.cache)
        assert addition.key == f"{key}.sigs.{announced}"
        rattler_process.call("index", {"channels": [str(root / prefix)]})
    return root


def _records(channel: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for index in channel.rglob("repodata.json"):
        folder = index.parent.relative_to(channel)
        for name, record in json.loads(index.read_text())["packages.conda"].items():
            found[f"{folder}/{name}"] = record
    return found


def test_a_channel_as_audit_sees_it(channel: Path, policy: Policy) -> None:
    store = FolderStore(channel)
    records = _records(channel)
    outcomes, faults = check_store(store, records, CHANNEL, policy)
    assert [one.verdict for one in outcomes] == [Verdict.VERIFIED] * 2 and not faults
    assert outcomes[0].channel == f"{CHANNEL}/label/gfx942"
    key = next(key for key in records if key.startswith("linux-64/"))
    announced = records[key]["attestations_sha256"]
    (channel / alias_key(key)).write_bytes(b"[]")
    assert "is not the file that the record names" in check_store(store, records, CHANNEL, policy)[1][0]
    (channel / sidecar_key(key, announced)).unlink()
    outcomes, _ = check_store(store, records, CHANNEL, policy)
    assert outcomes[1].verdict is Verdict.UNAVAILABLE
    records[key]["attestations_sha256"] = "../../channel.json"
    assert "is no sha256" in check_store(store, records, CHANNEL, policy)[0][1].reasons[0]
    del records[key]["attestations_sha256"]
    outcomes, faults = check_store(store, records, CHANNEL, policy)
    assert outcomes[1].verdict is Verdict.MISSING and "the record does not name it" in faults[0]
    with pytest.raises(AttestationError, match="a channel without a URL"):
        check_store(store, records, "", policy)


def test_a_record_of_other_bytes_is_told_among_sound_ones(
    channel: Path, instance: PrivateSigstore, tmp_path: Path
) -> None:
    settings = Settings(url=CHANNEL, attestations="require", publishers=(PUBLISHER,))
    root = tmp_path / "trusted_root.json"
    root.write_text(json.dumps(instance.trusted_root()))
    policy, records = Policy.of(settings, root), _records(channel)
    changed = next(key for key in records if key.startswith("linux-64/"))
    records[changed]["sha256"] = OTHER
    outcomes, _ = check_store(FolderStore(channel), records, CHANNEL, policy)
    for key, outcome in zip(sorted(records), outcomes, strict=True):
        assert outcome.verdict is (Verdict.CHANGED if key == changed else Verdict.VERIFIED)


@pytest.mark.parametrize("by", ["folder", "server"])
def test_what_was_solved_is_checked_before_it_is_installed(
    by: str, channel: Path, policy: Policy, served: Callable[[Path], str]
) -> None:
    """The channel is read from a mirror; its packages are attested for the channel that it mirrors."""
    read_from = channel.as_uri() if by == "folder" else served(channel)
    payload = {
        "channels": [f"{read_from}/label/gfx942", read_from],
        "specs": ["demo", "amdgpu-arch"],
        "virtual": [],
    }
    records = rattler_process.call("solve", payload)
    outcomes, others = check_solved(records, read_from, CHANNEL, policy)
    assert [one.verified for one in outcomes] == [True, True] and not others, outcomes
    mirrored, _ = check_solved(records, read_from, read_from, policy)
    assert {one.verdict for one in mirrored} == {Verdict.OTHER_CHANNEL}
    stripped = [dict(record, attestations_sha256=None) for record in records]
    with pytest.raises(AttestationError, match="2 of 2 files are not attested"):
        demand(check_solved(stripped, read_from, CHANNEL, policy)[0])
    for path in channel.rglob("*.sigs.*"):
        path.unlink()
    gone, _ = check_solved(records, read_from, CHANNEL, policy)
    assert {one.verdict for one in gone} == {Verdict.UNAVAILABLE}, gone


def test_what_comes_from_elsewhere_is_not_passed_over(policy: Policy) -> None:
    record = {"url": "https://elsewhere.example/linux-64/x-1-0.conda", "sha256": OTHER}
    ours = {"url": f"{CHANNEL}/linux-64/{FILE}", "sha256": DIGEST}
    outcomes, others = check_solved([record, ours], CHANNEL, CHANNEL, policy)
    assert others == ["x-1-0.conda"] and [one.verdict for one in outcomes] == [Verdict.MISSING]
    with pytest.raises(AttestationError, match="no package is from the channel"):
        check_solved([record], CHANNEL, CHANNEL, policy)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], str]]:
    monkeypatch.setenv("NO_PROXY", "*")
    running: list[subprocess.Popen[str]] = []

    def serve(folder: Path) -> str:
        program = (
            "import functools, http.server as h, sys\n"
            "s = h.ThreadingHTTPServer(('127.0.0.1', 0),"
            " functools.partial(h.SimpleHTTPRequestHandler, directory=sys.argv[1]))\n"
            "print(s.server_address[1], flush=True)\ns.serve_forever()\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        running.append(process)
        assert process.stdout is not None
        return f"http://127.0.0.1:{process.stdout.readline().strip()}"

    yield serve
    for process in running:
        process.terminate()
        process.wait()


# --- by publish and promote --------------------------------------------------------------------------------


def _channel(folder: Path, url: str) -> FolderStore:
    store = FolderStore(folder)
    settings = Settings(url=url, attestations="require", publishers=(PUBLISHER,))
    store.replace(SETTINGS_KEY, settings.to_bytes(), expect=None, cache="")
    return store


def test_a_release_is_attested_where_it_is_published_and_promoted(
    server: Server, tmp_path: Path, repo_root: Path
) -> None:
    """Real signatures through both transactions; each label and each channel has statements of its own."""
    staging, prod = f"{CHANNEL}-staging", CHANNEL
    matrix = read_matrix(repo_root / "variants" / "conda_build_config.yaml")
    signer = Signer(write_config(server, tmp_path), server.token)
    policy = strict(server.sigstore)

    store = _channel(tmp_path / "staging", staging)
    attest = Attester(signer, staging, [PUBLISHER])
    packages = release(tmp_path / "built")
    published = ReleasePublisher(store, matrix, "tests", attest=attest).publish(packages)
    outcomes, faults = check_store(store, _records(tmp_path / "staging"), staging, policy)
    assert len(outcomes) == len(published.release.files) > len(packages) and not faults
    demand(outcomes)
    assert {one.channel for one in outcomes} >= {staging, f"{staging}/label/gfx942-rocm7.2"}
    asked = len(server.asked)
    assert not ReleasePublisher(store, matrix, "tests", attest=attest).publish(packages).changed
    assert len(server.asked) == asked  # what is attested is not signed again

    target = _channel(tmp_path / "prod", prod)
    wish = Promotion(store, published.release.id, "tests", matrix, attest=Attester(signer, prod))
    planned, _ = promote(target, wish)
    promoted, faults = check_store(target, _records(tmp_path / "prod"), prod, policy)
    assert len(promoted) == len(planned.release.files) and not faults
    demand(promoted)
    key = next(file.key for file in planned.release.files if file.key.startswith("linux-64/hip-demo"))
    before, after = (
        split((tmp_path / name / alias_key(key)).read_bytes(), key) for name in ("staging", "prod")
    )
    assert after[: len(before)] == before and len(after) == len(before) + 1


def test_who_may_not_publish_publishes_nothing(server: Server, tmp_path: Path, repo_root: Path) -> None:
    store = _channel(tmp_path / "channel", CHANNEL)
    before = sorted(stat.key for stat in store.list())
    signer = Signer(write_config(server, tmp_path), lambda: server.token("intern@internal.example"))
    publisher = ReleasePublisher(
        store,
        read_matrix(repo_root / "variants" / "conda_build_config.yaml"),
        "tests",
        attest=Attester(signer, CHANNEL, [PUBLISHER]),
    )
    with pytest.raises(AttestationError) as error:
        publisher.publish(release(tmp_path / "built"))
    assert "this signer may not publish" in str(error.value) and "intern@internal.example" in str(error.value)
    assert sorted(stat.key for stat in store.list()) == before


def test_what_an_attester_signs_names_the_label(server: Server, tmp_path: Path) -> None:
    package = tiny_package(tmp_path, "demo")
    attester = Attester(Signer(write_config(server, tmp_path), server.token), CHANNEL)
    for folder, url in (("linux-64", CHANNEL), ("label/gfx942/linux-64", f"{CHANNEL}/label/gfx942")):
        bundle = attester(f"{folder}/{package.name}", sha256(package))
        signed = json.loads(base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"]))
        assert signed["predicate"] == {"targetChannel": url}
