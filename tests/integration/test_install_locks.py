"""Lock files and attestations at `rocm-channel install`: exactly those files, and what is known of them."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from channel_tools import rattler_process
from channel_tools.channel.attestations.making import statement
from channel_tools.channel.attestations.sidecar import sigs_additions, target_channel
from channel_tools.channel.care.yank import yank
from channel_tools.channel.folder import FolderChannel
from channel_tools.channel.settings import Publisher
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.client.install import Prepared, attested, prepare
from channel_tools.client.locked import Locked, channel_of, prepare_locked, read_locked
from channel_tools.client.placing import place
from channel_tools.client.reader import open_reader
from channel_tools.model.errors import (
    ArchRefusedError,
    AttestationError,
    DamagedFileError,
    DependencyError,
    LockError,
)
from tests.integration.attestation_support import CHANNEL, PUBLISHER
from tests.integration.guarded_channel import guarded
from tests.integration.helpers import rocm_channel
from tests.integration.private_sigstore import PrivateSigstore
from tests.integration.test_install_checks import host
from tests.integration.tiny_packages import gpu_package, release


def explicit(prepared: Prepared, path: Path, hashes: bool = True) -> Path:
    lines = [f"{one['url']}#sha256:{one['sha256']}" if hashes else one["url"] for one in prepared.records]
    path.write_text("\n".join(["# platform: linux-64", "@EXPLICIT", *lines, ""]))
    return path


@pytest.fixture
def channel(tmp_path: Path) -> FolderChannel:
    """A channel that can be changed, by transactions."""
    made = FolderChannel(tmp_path / "internal")
    made.init()
    made.add(release(tmp_path / "packages", "hip-demo", "0.1.0"))
    return made


def test_an_explicit_lock_gives_the_same_files(channel: FolderChannel, tmp_path: Path) -> None:
    prepared = prepare(open_reader(channel.path), ["hip-demo"], arch="gfx942", rocm="7.2", host=host())
    place(tmp_path / "one", prepared.records)
    lock = explicit(prepared, tmp_path / "lock.txt")
    done = rocm_channel(
        "install", "--file", lock, "--prefix", tmp_path / "two", ROCM_BOOTSTRAP_DISABLE_DETECTION="1"
    )
    assert done.returncode == 0, done.stderr
    for name in ("one", "two"):
        assert (tmp_path / name / "share" / "hip-demo.txt").is_file()
    metas = [
        sorted(p.name for p in (tmp_path / name / "conda-meta").glob("*.json")) for name in ("one", "two")
    ]
    assert metas[0] == metas[1] and len(metas[0]) == 3
    for name in metas[0]:
        data = [json.loads((tmp_path / env / "conda-meta" / name).read_text()) for env in ("one", "two")]
        for key in ("name", "version", "build", "depends", "sha256", "url", "files"):
            assert data[0][key] == data[1][key], key


def test_a_yanked_build_still_installs_and_warns(channel: FolderChannel, tmp_path: Path) -> None:
    prepared = prepare(open_reader(channel.path), ["hip-demo"], arch="gfx942", rocm="7.2", host=host())
    lock = explicit(prepared, tmp_path / "lock.txt")
    yank(channel.store, "hip-demo", "wrong results at head size 96", "me", every=True)
    with pytest.raises(DependencyError):
        prepare(open_reader(channel.path), ["hip-demo"], arch="gfx942", rocm="7.2", host=host())
    done = rocm_channel(
        "install", "--file", lock, "--prefix", tmp_path / "env", ROCM_BOOTSTRAP_DISABLE_DETECTION="1"
    )
    assert done.returncode == 0 and (tmp_path / "env" / "share" / "hip-demo.txt").is_file()
    assert "warning: hip-demo-0.1.0" in done.stderr and "wrong results at head size 96" in done.stderr
    packages = read_locked(explicit(prepared, tmp_path / "no-hashes.txt", hashes=False))
    unhashed = prepare_locked(packages, None, host(), None)
    assert all(record["sha256"] for record in unhashed.records), "index and yanked list know them"


def test_a_lock_of_another_host_is_refused(channel: FolderChannel, tmp_path: Path) -> None:
    prepared = prepare(open_reader(channel.path), ["hip-demo"], arch="gfx942", rocm="7.2", host=host())
    packages = read_locked(explicit(prepared, tmp_path / "lock.txt"))
    reader = open_reader(channel.path)
    with pytest.raises(ArchRefusedError, match="--arch gfx942"):
        prepare_locked(packages, reader, host("gfx90a"), None)
    with pytest.raises(ArchRefusedError, match="another GPU"):
        prepare_locked(packages, reader, host("gfx90a"), "gfx90a")
    for here, arch in ((host("gfx942"), None), (host("gfx90a"), "gfx942"), (host(), None)):
        assert len(prepare_locked(packages, reader, here, arch).records) == 3
    for there, told in (("7.0", True), ("7.2", False), (None, False)):
        here = host("gfx942", rocm=there)
        notes = prepare_locked(packages, reader, here, None).notes
        assert ("made for ROCm 7.2; this host has 7.0" in notes) == told


def test_a_lock_that_mixes_archs_is_refused(channel: FolderChannel, tmp_path: Path) -> None:
    wrong = gpu_package(tmp_path / "packages", "hip-demo", "0.1.0", "gfx90a", "7.2")
    prepared = prepare(open_reader(channel.path), ["hip-demo"], arch="gfx942", rocm="7.2", host=host())
    packages = [p for p in read_locked(explicit(prepared, tmp_path / "lock.txt")) if "hip-demo" not in p.file]
    packages.append(Locked(f"{channel.url}/linux-64/{wrong.name}", None))
    with pytest.raises(ArchRefusedError, match="several GPU archs"):
        prepare_locked(packages, open_reader(channel.path), host(), None)


def test_a_file_that_changed_since_the_lock_is_refused(channel: FolderChannel, tmp_path: Path) -> None:
    prepared = prepare(open_reader(channel.path), ["hip-demo"], arch="gfx942", rocm="7.2", host=host())
    lock = explicit(prepared, tmp_path / "lock.txt")
    text = lock.read_text()
    digest = next(one["sha256"] for one in prepared.records if one["name"] == "hip-demo")
    lock.write_text(text.replace(digest, hashlib.sha256(b"other").hexdigest()))
    done = rocm_channel(
        "install", "--file", lock, "--prefix", tmp_path / "env", ROCM_BOOTSTRAP_DISABLE_DETECTION="1"
    )
    assert done.returncode == DamagedFileError.exit_code and "hash mismatch" in done.stderr
    assert not (tmp_path / "env" / "share" / "hip-demo.txt").exists()


def test_files_that_are_no_locks(tmp_path: Path) -> None:
    for text in ("", "hello\n", "@EXPLICIT\n", "@EXPLICIT\nnot-a-url\n"):
        (tmp_path / "lock").write_text(text)
        with pytest.raises(LockError):
            read_locked(tmp_path / "lock")
    with pytest.raises(LockError):
        read_locked(tmp_path / "missing")
    done = rocm_channel("install", "--file", tmp_path / "missing", "--prefix", tmp_path / "env")
    assert done.returncode == 52 and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words", [("-c", "conda-forge"), ("--rocm", "7.2"), ("--update",), ("--priority", "flexible")]
)
def test_what_a_lock_decides_cannot_be_given_beside_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    lock = tmp_path / "explicit.txt"
    lock.write_text("@EXPLICIT\n")
    refused = rocm_channel("install", "--file", lock, "--dry-run", *words)
    assert refused.returncode == 2
    assert words[0] in refused.stderr and "lock file" in refused.stderr


def test_the_channel_of_a_lock() -> None:
    base = "https://h.example.com/internal"
    label = Locked(f"{base}/label/gfx942-rocm7.2/linux-64/amdgpu-arch-9.4.2-gfx942_declared_0.conda", None)
    other = Locked("https://f.example.com/forge/linux-64/python-3.12.9-0.conda", None)
    assert channel_of([other, label]) == base and channel_of([other]) is None


@pytest.fixture(scope="module")
def sigstore() -> PrivateSigstore:
    return PrivateSigstore()


@pytest.fixture
def signed(signed_once: Path, tmp_path: Path) -> Path:
    """A channel in which every package is attested for its address, and the trusted root beside it."""
    shutil.copytree(signed_once / "internal", tmp_path / "internal")
    shutil.copy(signed_once / "trusted_root.json", tmp_path)
    return tmp_path / "internal"


@pytest.fixture(scope="module")
def signed_once(sigstore: PrivateSigstore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("signed")
    root = tmp_path / "internal"
    FolderChannel(root).init()
    FolderChannel(root).add(release(tmp_path / "packages", "hip-demo", "0.1.0"))
    store = FolderStore(root)
    for package in [*root.glob("linux-64/*.conda"), *root.glob("label/gfx942-rocm7.2/linux-64/*.conda")]:
        key = package.relative_to(root).as_posix()
        digest = hashlib.sha256(package.read_bytes()).hexdigest()
        bundle = sigstore.bundle(statement(package.name, digest, target_channel(CHANNEL, key)))
        addition, (alias, replacement), _ = sigs_additions(key, bundle)
        assert isinstance(addition.source, tuple)
        store.copy_from(*addition.source, addition.key, sha256=addition.sha256)
        store.replace(alias, replacement.content, expect=None, cache=replacement.cache)
    for folder in (root, *root.glob("label/*")):
        rattler_process.call("index", {"channels": [str(folder)], "force": True})
    settings = {
        "version": 1,
        "url": CHANNEL,
        "attestations": "warn",
        "publishers": [{"identity": PUBLISHER.identity, "issuer": PUBLISHER.issuer}],
    }
    (root / "channel.json").write_text(json.dumps(settings))
    (tmp_path / "trusted_root.json").write_text(json.dumps(sigstore.trusted_root()))
    return tmp_path


def test_attestations_are_checked_before_the_install(signed: Path, tmp_path: Path) -> None:
    options = ("--trusted-root", tmp_path / "trusted_root.json", "--identity", PUBLISHER.identity)
    words = (
        "install",
        "--channel",
        signed,
        "--arch",
        "gfx942",
        "--rocm",
        "7.2",
        *options,
        "--issuer",
        PUBLISHER.issuer,
    )
    good = rocm_channel(*words, "--attestations", "require", "--prefix", tmp_path / "good", "hip-demo")
    assert good.returncode == 0, good.stderr
    assert "3 of 3 packages of this channel are signed" in good.stderr
    assert (tmp_path / "good" / "share" / "hip-demo.txt").is_file()
    for sidecar in signed.glob("linux-64/hip-demo*.sigs.*"):
        sidecar.unlink()
    bad = rocm_channel(*words, "--attestations", "require", "--prefix", tmp_path / "bad", "hip-demo")
    assert bad.returncode == AttestationError.exit_code and "hip-demo" in bad.stderr
    assert not (tmp_path / "bad").exists(), "nothing is installed"


def test_attestation_modes(signed: Path, tmp_path: Path) -> None:
    root = tmp_path / "trusted_root.json"
    prepared = prepare(open_reader(signed), ["hip-demo"], arch="gfx942", rocm="7.2", host=host())
    assert all(record["attestations_sha256"] for record in prepared.records)
    by_settings = attested(prepared, None, root)
    assert len(by_settings.outcomes) == 3 and all(one.verified for one in by_settings.outcomes)
    assert any("from the channel's own settings" in note for note in by_settings.notes)
    assert attested(prepared, "off") is prepared
    stranger = Publisher(identity="somebody@example.com", issuer=PUBLISHER.issuer)
    warned = attested(prepared, "warn", root, [stranger])
    assert not any(one.verified for one in warned.outcomes) and len(warned.notes) >= 4
    with pytest.raises(AttestationError):
        attested(prepared, "require", root, [stranger])
    with pytest.raises(AttestationError, match="other channel"):
        attested(prepared, "require", root, [PUBLISHER], "https://conda.example.com/other")


def test_a_channel_does_not_say_which_address_it_was_attested_for(
    signed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Served elsewhere, its own settings name the address that it was copied from; that is not believed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with guarded(signed, "path", "tk-00112233") as server:
        reader = open_reader(f"{server.url}/t/tk-00112233")
        prepared = prepare(reader, ["hip-demo"], arch="gfx942", rocm="7.2", host=host())
        assert prepared.look.settings.url == CHANNEL
        root = tmp_path / "trusted_root.json"
        with pytest.raises(AttestationError, match="other channel") as error:
            attested(prepared, "require", root, [PUBLISHER])
        assert "tk-00112233" not in str(error.value)
        mirror = attested(prepared, "require", root, [PUBLISHER], CHANNEL)
    assert all(one.verified for one in mirror.outcomes)


def test_what_a_channel_says_cannot_steer_the_terminal(channel: FolderChannel, tmp_path: Path) -> None:
    prepared = prepare(open_reader(channel.path), ["hip-demo"], arch="gfx942", rocm="7.2", host=host())
    lock = explicit(prepared, tmp_path / "lock.txt")
    yank(channel.store, "hip-demo", "bad \x1b[2Jbuild", "me", every=True)
    (channel.path / "channel.json").write_text(
        json.dumps({"version": 1, "dependency_channels": ["a\x1b[2Jb"]})
    )
    done = rocm_channel(
        "install", "--file", lock, "--prefix", tmp_path / "env", ROCM_BOOTSTRAP_DISABLE_DETECTION="1"
    )
    words = (
        "install",
        "--channel",
        channel.path,
        "--arch",
        "gfx942",
        "--rocm",
        "7.2",
        "--dry-run",
        "nothing",
    )
    hint, shown = rocm_channel(*words), rocm_channel("arch", "--channel", channel.path)
    assert "build" in done.stderr and hint.returncode == 21
    assert all("\x1b" not in one.stdout + one.stderr for one in (done, hint, shown))


def test_a_lock_is_checked_like_a_solve(signed: Path, tmp_path: Path) -> None:
    prepared = prepare(open_reader(signed), ["hip-demo"], arch="gfx942", rocm="7.2", host=host())
    packages = read_locked(explicit(prepared, tmp_path / "lock.txt"))
    locked = prepare_locked(packages, open_reader(signed), host(), None)
    assert all(one.verified for one in attested(locked, "require", tmp_path / "trusted_root.json").outcomes)
