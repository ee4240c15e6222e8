"""`rocm-channel publish` and `channel init|repair`: what gets in, what is refused, and what is said."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from channel_tools.channel.care.audit import audit
from channel_tools.channel.index.encoding import read_all
from channel_tools.channel.init import init_channel
from channel_tools.channel.layout import JOURNAL_KEY, LEASE_KEY
from channel_tools.channel.release import read_releases
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.lease import FREE, check_writable, held
from channel_tools.channel.stores.s3_store import S3Store
from channel_tools.channel.stores.store import Store
from channel_tools.model.errors import (
    AccessError,
    AttestationError,
    ChannelError,
    ConflictError,
    DamagedFileError,
    ReleaseRefusedError,
    StorageError,
    VerifyError,
)
from channel_tools.model.package import sha256
from tests.integration.faults import (
    Faults,
    FaultyStore,
    Stage,
    copy_folder,
    make_stage,
    publisher,
    whole_state,
)
from tests.integration.helpers import answer, rocm_channel
from tests.integration.s3 import S3Server, put_tree, s3_server  # noqa: F401
from tests.integration.tiny_packages import gpu_package, release, tiny_package


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return make_stage(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def first(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A channel with the first release, to be copied."""
    path = tmp_path_factory.mktemp("first") / "channel"
    init_channel(FolderStore(path), {"name": "internal"}, who="test")
    stage.publish_first(FolderStore(path))
    return path


@pytest.fixture
def channel(first: Path, tmp_path: Path) -> FolderStore:
    """A folder with the first release in it."""
    return copy_folder(first, tmp_path / "channel")


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, first: Path, tmp_path: Path) -> Store:
    """A channel with the first release, on each kind of store."""
    if request.param == "folder":
        return copy_folder(first, tmp_path / "channel")
    made: S3Store = request.getfixturevalue("s3_server").store()
    put_tree(made, first)
    return made


def test_two_releases_and_once_more(stage: Stage, store: Store) -> None:
    second = stage.publish_second(store)
    assert second.changed
    whole_state(store)
    assert not audit(store).findings
    assert {r.allow_missing for r in read_releases(store)} == {("gfx942",), ()}
    keys = {file.key for file in second.release.files}
    assert "noarch/hip-common-0.2.0-0.conda" in keys
    assert "label/gfx942-rocm7.2/linux-64/rocm-userspace-7.2-system_declared_0.conda" in keys
    assert all(file.verify and file.verify["verdict"] == "pass" for file in second.release.files)
    before = {stat.key: stat.etag for stat in store.list()}
    again = stage.publish_second(store)
    assert not again.changed and again.release.id == second.release.id
    assert {stat.key: stat.etag for stat in store.list()} == before


def test_the_manifest_says_what_each_host_gets(channel: FolderStore) -> None:
    (release,) = read_releases(channel)
    kept = json.loads(channel.read(release.key) or b"")
    solves = {(s["name"], s["as"], s["rocm"]): s for s in kept["solves"] if s["name"] == "hip-demo"}
    assert {key[1:] for key in solves} == {
        (way, rocm) for way in ("detected", "declared", "unknown GPU") for rocm in ("7.0", "7.2")
    }
    detected = solves["hip-demo", "detected", "7.2"]["packages"]
    assert [key.split("/")[-1].split("_h")[0] for key in detected if "hip-demo" in key] == [
        "hip-demo-0.1.0-rocm72_gfx90a"
    ]
    assert "linux-64/amdgpu-arch-9.0.10-gfx90a_detected_0.conda" in detected
    declared = solves["hip-demo", "declared", "7.0"]["packages"]
    assert "label/gfx90a-rocm7.0/linux-64/amdgpu-arch-9.0.10-gfx90a_declared_0.conda" in declared
    assert solves["hip-demo", "unknown GPU", "7.0"]["refused"]


def test_build_records_give_commit_and_are_compared(channel: FolderStore, tmp_path: Path) -> None:
    folder = tmp_path / "built"
    made = release(folder, version="0.5.0", archs=["gfx90a"], selection=False)
    (folder / "records").mkdir()
    for path in made:
        record = {"version": 1, "sha256": sha256(path), "commit": "0123abc"}
        (folder / "records" / f"{path.name}.json").write_text(json.dumps(record))
    changed = made[0]
    good = changed.read_bytes()
    gpu_package(folder, "hip-demo", "0.5.0", "gfx90a", "7.0", files={"share/x": b"rebuilt"})
    with pytest.raises(DamagedFileError, match="is not the file that its build record is of"):
        publisher(channel, allow_missing=("gfx942",)).publish([folder])
    changed.write_bytes(good)
    assert publisher(channel, allow_missing=("gfx942",)).publish([folder]).release.commit == "0123abc"


def test_a_dry_run_writes_nothing(stage: Stage, channel: FolderStore) -> None:
    before = {stat.key: stat.etag for stat in channel.list()}
    made = publisher(channel).publish(stage.second, dry_run=True)
    assert made.changed and made.stored and made.solves
    assert {stat.key: stat.etag for stat in channel.list()} == before


def refused(channel: Store, packages: list[Path], error: type[Exception], match: str) -> None:
    """Publishing them fails so, and leaves everything as it was."""
    before = {stat.key: stat.etag for stat in channel.list()}
    with pytest.raises(error, match=match):
        publisher(channel, allow_missing=("gfx942",)).publish(packages)
    assert {stat.key: stat.etag for stat in channel.list()} == before


def test_what_is_refused(stage: Stage, store: Store, tmp_path: Path) -> None:
    other = gpu_package(tmp_path / "a", "hip-demo", "0.1.0", "gfx90a", "7.0", files={"share/x": b"other"})
    refused(store, [other], ChannelError, "hip-demo-0.1.0")
    host = gpu_package(
        tmp_path / "b",
        "hip-demo",
        "0.3.0",
        "gfx90a",
        "7.0",
        extra={"rocm_arch": "gfx90a", "toolchain": "host"},
    )
    refused(store, [host], ReleaseRefusedError, "refused")
    renamed = tmp_path / "c" / "linux-64" / "hip-demo-9-0.conda"
    renamed.parent.mkdir(parents=True)
    renamed.write_bytes(stage.first[0].read_bytes())
    refused(store, [renamed], DamagedFileError, "hip-demo-9-0.conda")
    short = tmp_path / "d" / "linux-64" / stage.second[0].name
    short.parent.mkdir(parents=True)
    short.write_bytes(stage.second[0].read_bytes()[:-300])
    refused(store, [short], DamagedFileError, "cannot be read as a conda package")
    elf = tiny_package(tmp_path / "e", "hip-demo", "0.4.0", "0", files={"lib/x.so": b"\x7fELF broken"})
    refused(store, [elf], VerifyError, "is not what it declares")
    refused(store, [other, stage.first[0]], ChannelError, "name of another file")


def test_hosts_that_would_get_nothing(channel: FolderStore, tmp_path: Path) -> None:
    loop = [
        gpu_package(
            tmp_path, "hip-demo", "0.3.0", "gfx90a", rocm, depends=["hip-common ==0.1.0", "hip-demo <0.3"]
        )
        for rocm in ("7.0", "7.2")
    ]
    refused(channel, loop, ChannelError, "does not give its consumers|hip-demo")


def test_a_package_that_its_release_hides(channel: FolderStore, tmp_path: Path) -> None:
    """It can never be chosen: it rules out every build of what it needs."""
    bad = [
        gpu_package(tmp_path, "hip-demo", "0.3.0", "gfx90a", rocm, constrains=["amdgpu-arch <9"])
        for rocm in ("7.0", "7.2")
    ]
    refused(channel, bad, ChannelError, "does not give its consumers|another package than the release")


def test_a_mix_of_archs_is_refused(channel: FolderStore, tmp_path: Path) -> None:
    """Packages with an arch in their name and no dependency on amdgpu-arch."""
    wrong = [
        tiny_package(tmp_path, "helper", "1", f"rocm72_{arch}_h0_0", extra={"rocm_arch": arch})
        for arch in ("gfx90a", "gfx942")
    ]
    refused(channel, wrong, ChannelError, "helper")


@pytest.mark.parametrize("step", [3, 40, 85])
def test_a_failing_store_is_one_error_and_the_old_state(stage: Stage, store: Store, step: int) -> None:
    before = {stat.key: stat.etag for stat in store.list() if not stat.key.startswith(".channel/")}
    with pytest.raises(StorageError, match="the test wants it so"):
        stage.publish_second(FaultyStore(store, Faults(fails=step)))
    after = {stat.key: stat.etag for stat in store.list() if not stat.key.startswith(".channel/")}
    assert after == before
    assert store.read(JOURNAL_KEY) is None
    stage.publish_second(store)
    whole_state(store)


class Answering:
    """A client whose writes of index files are answered with an HTTP error."""

    def __init__(self, client: Any, code: str, status: int) -> None:
        self.client, self.code, self.status = client, code, status

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.client, name)
        if name != "put_object":
            return call

        def put(**words: Any) -> Any:
            from botocore.exceptions import ClientError

            if words["Key"].endswith("/linux-64/repodata.json") and "/.channel/" not in words["Key"]:
                response = {
                    "Error": {"Code": self.code, "Message": "no"},
                    "ResponseMetadata": {"HTTPStatusCode": self.status},
                }
                raise ClientError(response, "PutObject")
            return call(**words)

        return put


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("AccessDenied", 403, AccessError),
        ("NoSuchBucket", 404, StorageError),
        ("PreconditionFailed", 412, ConflictError),
        ("InternalError", 500, StorageError),
    ],
)
def test_answers_of_s3_in_the_middle_of_switching(
    stage: Stage,
    first: Path,
    s3_server: S3Server,  # noqa: F811
    code: str,
    status: int,
    error: type[Exception],
) -> None:
    store = s3_server.store()
    put_tree(store, first)
    before = {key: index.records for key, index in read_all(store).items()}
    broken = s3_server.store(client=Answering(store.client, code, status))
    broken.bucket, broken.prefix, broken.objects = store.bucket, store.prefix, replace_client(store, broken)
    with pytest.raises(error):
        stage.publish_second(broken)
    assert {key: index.records for key, index in read_all(store).items()} == before
    whole_state(store)


def replace_client(store: Any, broken: Any) -> Any:
    from channel_tools.channel.stores.s3_objects import S3Objects

    return S3Objects(broken.client, store.bucket, store.prefix)


def test_the_commands(stage: Stage, tmp_path: Path) -> None:
    folder = tmp_path / "channel"
    packages = stage.first[0].parents[1]
    missing = rocm_channel("publish", packages, "--channel", folder)
    assert missing.returncode == 40 and "channel init" in missing.stderr
    made = answer(rocm_channel("channel", "init", folder, "--name", "internal", "--json"))
    assert made["changed"] and made["settings"]["name"] == "internal"
    other = rocm_channel("channel", "init", folder, "--name", "other")
    assert other.returncode == 40 and "--change" in other.stderr
    wrong = rocm_channel("channel", "init", folder, "--change", "--url", "https://user:secret@host/x")
    assert wrong.returncode == 40 and "secret" not in wrong.stderr + wrong.stdout
    partial = rocm_channel("publish", packages, "--channel", folder)
    assert partial.returncode == 44 and "gfx942" in partial.stderr and "published" not in partial.stdout
    words = ("publish", packages, "--channel", folder, "--allow-missing", "gfx942")
    dry = rocm_channel(*words, "--dry-run")
    assert dry.returncode == 0 and "would be published" in dry.stdout
    done = rocm_channel(*words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("published ")
    again = rocm_channel(*words)
    assert again.returncode == 0 and "nothing to do: release" in again.stdout
    data = answer(rocm_channel(*words, "--json"))
    assert data["version"] == 1 and not data["changed"] and data["release"]["files"]
    assert "nothing to repair" in rocm_channel("channel", "repair", folder).stdout
    assert answer(rocm_channel("channel", "repair", folder, "--reindex", "--json"))["done"]
    assert rocm_channel("publish", tmp_path / "none", "--channel", folder).returncode == 2
    nowhere = rocm_channel("channel", "repair", tmp_path / "nowhere")
    assert nowhere.returncode == 40 and not (tmp_path / "nowhere").exists()


def test_attestations_lie_beside_their_packages(stage: Stage, channel: FolderStore) -> None:
    asked: list[str] = []

    def attest(key: str, digest: str) -> bytes:
        asked.append(key)
        return json.dumps({"sha256": digest, "for": key}).encode()

    init_channel(channel, {"attestations": "require"}, who="test", change=True)
    with pytest.raises(AttestationError, match="with attestations only"):
        publisher(channel).publish(stage.second)
    assert publisher(channel).publish(stage.second, dry_run=True).changed
    made = publisher(channel, attest=attest).publish(stage.second)
    assert any("gfx942-rocm7.0/linux-64/rocm-userspace" in key for key in asked)
    present = {stat.key for stat in channel.list()}
    for file in made.release.files:
        subdir, _, name = file.key.rpartition("/")
        assert f"{file.key}.sigs" in present and f"{file.key}.sigs.{file.attestation}" in present
        assert read_all(channel)[subdir].records[name]["attestations_sha256"] == file.attestation
        assert json.loads(channel.read(f"{file.key}.sigs") or b"") == [
            {"sha256": file.sha256, "for": file.key}
        ]
    count = len(asked)
    assert count == len({file.key for file in made.release.files})
    assert not publisher(channel, attest=attest).publish(stage.second).changed
    assert len(asked) == count, "what is signed is not signed again"


def test_what_a_new_label_takes_from_an_old_one_is_signed_for_it(stage: Stage, channel: FolderStore) -> None:
    asked: list[str] = []

    def attest(key: str, digest: str) -> bytes:
        asked.append(key)
        return json.dumps({"sha256": digest, "for": key}).encode()

    publisher(channel, attest=attest, allow_missing=("gfx942",)).publish(stage.first)
    arch = [path for path in stage.second if path.name.startswith("amdgpu-arch-9.4.2")]
    made = publisher(channel, attest=attest).publish(arch)
    copied = "label/gfx942-rocm7.2/linux-64/rocm-userspace-7.2-system_declared_0.conda"
    assert copied in {file.key for file in made.release.files} and copied in asked
    (bundle,) = json.loads(channel.read(f"{copied}.sigs") or b"")
    assert bundle["for"] == copied
    with channel.open(copied) as stream:
        assert bundle["sha256"] == hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    assert not audit(channel).findings


class Refusing(FolderStore):
    """Lets nothing be written, as a bucket does for who may only read."""

    def replace(self, key: str, content: bytes, *, expect: str | None, cache: str) -> str:
        raise StorageError("access is denied", where=key)

    def put_new(self, key: str, content: bytes | Path, *, sha256: str, cache: str = "") -> bool:
        raise StorageError("access is denied", where=key)


def test_who_may_not_publish_is_told_before_anything_is_verified(stage: Stage, channel: FolderStore) -> None:
    said: list[str] = []
    with pytest.raises(StorageError, match="denied"):
        publisher(Refusing(channel.path), say=said.append).publish(stage.second)
    assert said == []
    publisher(Refusing(channel.path), say=said.append).publish(stage.second, dry_run=True)
    assert said != []


def test_a_channel_that_requires_attestations_says_so_before_anything_is_verified(
    stage: Stage, channel: FolderStore
) -> None:
    publishers = [{"identity": "ci@example.com", "issuer": "https://issuer.example.com"}]
    init_channel(channel, {"attestations": "require", "publishers": publishers}, who="tests", change=True)
    said: list[str] = []
    with pytest.raises(AttestationError):
        publisher(channel, say=said.append).publish(stage.second)
    assert said == []


@pytest.mark.parametrize("before", ["free", "held", "none"])
def test_the_writing_check_leaves_the_lease_as_it_was(channel: FolderStore, before: str) -> None:
    path = channel.path / LEASE_KEY
    if before == "none":
        path.unlink(missing_ok=True)
        check_writable(channel)
        assert path.read_bytes() == FREE
    elif before == "free":
        path.write_bytes(FREE)
        check_writable(channel)
        assert path.read_bytes() == FREE
    else:
        with held(channel, "tests", say=lambda line: None) as lease:
            content = path.read_bytes()
            check_writable(channel)
            assert path.read_bytes() == content
            lease.check()
