"""What comes from elsewhere and what goes wrong late: foreign files, hostile metadata, unsigned ways in."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from channel_tools.channel.attestations.sidecar import sigs_additions
from channel_tools.channel.care.audit import audit
from channel_tools.channel.care.prune import prune
from channel_tools.channel.care.yank import unyank, yank
from channel_tools.channel.care.yanked import read_yanked
from channel_tools.channel.folder import FolderChannel
from channel_tools.channel.index.encoding import read_all, read_index
from channel_tools.channel.index.records import record_of
from channel_tools.channel.init import init_channel
from channel_tools.channel.layout import LEASE_KEY
from channel_tools.channel.publishing.checks import specs
from channel_tools.channel.publishing.checks.builds import of_record
from channel_tools.channel.publishing.placing import candidate
from channel_tools.channel.publishing.promote import Promotion, promote
from channel_tools.channel.publishing.publish import Publisher
from channel_tools.channel.release import Release, read_releases
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.lease import held
from channel_tools.channel.stores.store import NO_CACHE
from channel_tools.channel.transaction.apply import apply
from channel_tools.channel.transaction.change import Addition, Change, Replacement, SubdirChange
from channel_tools.channel.transaction.reindex import repair_all
from channel_tools.client.mirroring.plan import _folders
from channel_tools.model.errors import (
    AttestationError,
    ChannelError,
    DamagedFileError,
    StorageError,
    VerifyError,
)
from channel_tools.model.matrix import read_matrix
from tests.integration.helpers import ROOT, rocm_channel
from tests.integration.tiny_packages import arch_package, release, rocm_package, tiny_package
from tests.unit.memory_store import MemoryStore

MATRIX = read_matrix(ROOT / "variants" / "conda_build_config.yaml")
WHO = "tests@host"
URL = "https://conda.example.com/internal"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("review")
    store = FolderStore(folder / "channel")
    init_channel(store, {"url": URL}, who=WHO)
    assert Publisher(store, MATRIX, WHO).publish(release(folder / "packages")).changed
    return store.path


@pytest.fixture
def store(published: Path, tmp_path: Path) -> FolderStore:
    shutil.copytree(published, tmp_path / "channel")
    return FolderStore(tmp_path / "channel")


def records(store: FolderStore) -> set[str]:
    return {f"{key}/{name}" for key, index in read_all(store).items() for name in index.records}


# Ways in: what no release brought stays out.


@pytest.mark.parametrize("damaged", [(), ("repodata.json",), ("repodata.json", "run_exports.json")])
def test_reindex_lists_what_was_published_and_nothing_else(
    store: FolderStore, damaged: tuple[str, ...]
) -> None:
    before = records(store)
    tiny_package(store.path, "left-over", "1", "0")
    for name in damaged:
        (store.path / "linux-64" / name).write_bytes(b"nonsense")
    done = repair_all(store, who=WHO, reindex=True)
    assert records(store) == before
    assert any("left-over-1-0.conda" in line and "names it" in line for line in done)


def test_reindex_does_not_take_another_file_under_a_published_name(
    store: FolderStore, tmp_path: Path
) -> None:
    victim = next(key for key in sorted(records(store)) if "hip-demo" in key)
    name, version, build = victim.rpartition("/")[2].removesuffix(".conda").rsplit("-", 2)
    other = tiny_package(tmp_path, name, version, build, depends=["something-else"])
    shutil.copyfile(other, store.path / victim)
    done = repair_all(store, who=WHO, reindex=True)
    assert victim not in records(store)
    assert f"left out {victim}: it is another file than was published" in done
    assert any(finding.key == victim for finding in audit(store).findings)


def test_reindex_of_a_folder_of_builds_leaves_declared_builds_in_their_labels(tmp_path: Path) -> None:
    channel = FolderChannel(tmp_path / "channel")
    channel.add([tiny_package(tmp_path / "made", "a"), arch_package(tmp_path / "made", "gfx942", "declared")])
    arch_package(channel.path, "gfx942", "declared")
    tiny_package(channel.path / "label" / "gfx942", "stray")
    tiny_package(channel.path, "by-hand")
    repair_all(channel.store, who=WHO, reindex=True)
    assert set(read_index(channel.store, "linux-64").records) == {"a-1-0.conda", "by-hand-1-0.conda"}
    assert set(read_index(channel.store, "label/gfx942/linux-64").records) == {
        "amdgpu-arch-9.4.2-gfx942_declared_0.conda"
    }


def test_builds_are_added_to_no_channel_that_requires_attestations(tmp_path: Path) -> None:
    channel = FolderChannel(tmp_path / "channel")
    publisher = {"identity": "a@example.com", "issuer": "https://issuer.example.com"}
    init_channel(channel.store, {"url": URL, "attestations": "require", "publishers": [publisher]}, who=WHO)
    with pytest.raises(AttestationError, match="unsigned"):
        channel.add([tiny_package(tmp_path, "a")])
    assert not records(channel.store)


def test_a_rebuild_does_not_replace_what_was_published(store: FolderStore, tmp_path: Path) -> None:
    key = next(key for key in sorted(records(store)) if "hip-demo" in key)
    name, version, build = key.rpartition("/")[2].removesuffix(".conda").rsplit("-", 2)
    other = tiny_package(tmp_path, name, version, build, depends=["something-else"])
    content = store.read(key)
    with pytest.raises(ChannelError, match="other content"):
        FolderChannel(store.path).add([other], replace=True)
    assert store.read(key) == content and key in records(store)


def test_labels_completed_by_promote_are_in_the_manifest_and_have_their_own_attestation(
    tmp_path: Path,
) -> None:
    """A new arch makes a combined label of a declared ROCm build that the target has, and has signed."""
    folder, staging, target = tmp_path / "made", FolderStore(tmp_path / "s"), FolderStore(tmp_path / "t")
    for one in (staging, target):
        init_channel(one, {"url": URL}, who=WHO)

    def publish(into: FolderStore, *packages: Path, sign: bool = False) -> str:
        attest = (lambda key, sha256: json.dumps({"for": key}).encode()) if sign else None
        return Publisher(into, MATRIX, WHO, attest=attest).publish(packages).release.id

    rocms = [rocm_package(folder, "7.2", kind) for kind in ("detected", "declared")]
    archs = [arch_package(folder, "gfx942", kind) for kind in ("detected", "declared")]
    publish(target, *rocms, sign=True)
    made = publish(staging, *archs)
    signed: list[str] = []

    def attest(key: str, sha256: str) -> bytes:
        signed.append(key)
        return json.dumps({"for": key}).encode()

    wish = Promotion(staging, made, WHO, MATRIX, attest=attest)
    planned, _ = promote(target, wish)
    label = "label/gfx942-rocm7.2/linux-64"
    key = f"{label}/rocm-userspace-7.2-system_declared_0.conda"
    record = read_index(target, label).records[key.rpartition("/")[2]]
    assert key in signed and key in {file.key for file in planned.release.files}
    assert json.loads(target.read(f"{key}.sigs.{record['attestations_sha256']}") or b"") == [{"for": key}]
    assert not promote(target, wish)[1].changed


def test_promote_with_verify_believes_nothing_that_staging_says(store: FolderStore, tmp_path: Path) -> None:
    """A file under a forged hash, and a record that says more than the package: as a writer can make them."""
    target = FolderStore(tmp_path / "target")
    init_channel(target, {"url": URL}, who=WHO)
    (made,) = read_releases(store)
    before = target.read("linux-64/repodata.json")
    wish = Promotion(store, made.id, WHO, MATRIX, verify=True)
    key = next(file.key for file in made.files if "hip-demo" in file.key)
    name = key.rpartition("/")[2]
    index = json.loads(store.read("linux-64/repodata.json") or b"")
    honest = dict(index["packages.conda"][name])
    for change in ({"depends": [*honest["depends"], "more"]}, {"sha256": "0" * 64}):
        index["packages.conda"][name] = {**honest, **change}
        (store.path / "linux-64/repodata.json").write_text(json.dumps(index))
        with pytest.raises((VerifyError, ChannelError)):
            promote(target, wish)
        assert target.read("linux-64/repodata.json") == before
    index["packages.conda"][name] = honest
    (store.path / "linux-64/repodata.json").write_text(json.dumps(index))
    content = store.read(key) or b""
    parts = name.removesuffix(".conda").rsplit("-", 2)
    shutil.copyfile(tiny_package(tmp_path, parts[0], parts[1], parts[2], depends=["other"]), store.path / key)
    with pytest.raises(VerifyError):
        promote(target, wish)
    (store.path / key).write_bytes(content)
    assert promote(target, wish)[1].changed


def test_a_declared_build_does_not_come_back_into_the_main_channel(store: FolderStore) -> None:
    path = arch_package(store.path, "gfx942", "declared")
    entry = {"reason": "wrong place", "record": record_of(path)}
    data = {"version": 1, "entries": {f"linux-64/{path.name}": entry}}
    (store.path / "yanked.json").write_text(json.dumps(data))
    before = records(store)
    with pytest.raises(ChannelError, match="cannot come back"):
        unyank(store, f"linux-64/{path.name}", WHO)
    assert records(store) == before


# What others wrote.


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("../outside/a-1-0.conda", {}),
        ("weird/a-1-0.conda", {}),
        ("linux-64/../a-1-0.conda", {}),
        ("linux-64/a\u202e-1-0.conda", {}),
        ("linux-64/a-1-0.conda", {"record": {"name": "a"}}),
        ("linux-64/a-1-0.conda", {"record": {"name": "b", "version": "1", "build": "0", "build_number": 0}}),
        ("linux-64/a-1-0.conda", {"record": []}),
        ("linux-64/a-1-0.conda", "text"),
    ],
)
def test_yanked_entries_that_nothing_could_do_with(store: FolderStore, key: str, entry: Any) -> None:
    (store.path / "yanked.json").write_text(json.dumps({"version": 1, "entries": {key: entry}}))
    with pytest.raises(ChannelError, match="yanked"):
        read_yanked(store)
    with pytest.raises(ChannelError):
        unyank(store, "a", WHO)
    assert any(finding.key == "yanked.json" for finding in audit(store).findings)


@pytest.mark.parametrize("change", [{"id": "other"}, {"verify": {"targets": 5}}, {"verify": {"faults": [1]}}])
def test_manifests_that_say_something_impossible(store: FolderStore, change: dict[str, Any]) -> None:
    (made,) = read_releases(store)
    data = json.loads(made.to_bytes())
    if "verify" in change:
        data["files"][0] |= change
    else:
        data |= change
    (store.path / made.key).write_text(json.dumps(data))
    with pytest.raises(ChannelError, match="manifest"):
        list(read_releases(store))
    assert [finding.key for finding in audit(store).findings if finding.key == made.key]


@pytest.mark.parametrize(
    ("version", "build"),
    [
        ("1 0", "0"),
        ("1-0", "0"),
        ("1", "\x1b[31m_0"),
        ("1", "h\u202e_0"),
        ("1", "h" * 170 + "_0"),
        ("1", "a;b_0"),
    ],
)
def test_package_names_that_would_break_an_index(tmp_path: Path, version: str, build: str) -> None:
    path = tiny_package(tmp_path, "a", version, build)
    with pytest.raises(DamagedFileError):
        record_of(path)
    channel = FolderChannel(tmp_path / "channel")
    with pytest.raises(DamagedFileError):
        channel.add([path])
    assert not channel.path.exists()


def test_packages_for_other_platforms_get_into_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match="platform"):
        candidate(tiny_package(tmp_path, "a", subdir="osx-arm64"))


def test_metadata_that_would_fill_the_memory(tmp_path: Path) -> None:
    path = tiny_package(tmp_path, "a", about={"summary": " " * (17 << 20)})
    assert path.stat().st_size < 100_000
    with pytest.raises(DamagedFileError, match=r"about\.json of"):
        candidate(path)


@pytest.mark.parametrize("about", [None, [], "text", {}, {"extra": None}, {"extra": []}, {"extra": "text"}])
def test_about_and_extra_that_are_no_mappings(tmp_path: Path, about: Any) -> None:
    path = tmp_path / "a-1-0.tar.bz2"
    index = {"name": "a", "version": "1", "build": "0", "build_number": 0, "subdir": "noarch"}
    with tarfile.open(path, "w:bz2") as tar:
        for name, data in (("info/index.json", index), ("info/about.json", about)):
            content = json.dumps(data).encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    assert candidate(path).package.toolchain is None


def test_records_of_others_that_no_solver_takes_are_matched_by_nothing() -> None:
    record = {"name": "a", "version": "not a version", "build": "0", "build_number": 0}
    good = {**record, "version": "1"}
    builds = [of_record("linux-64", f"a-{n}-0.conda", one) for n, one in enumerate((record, good))]
    assert specs.matching("a", builds) == builds[1:]


@pytest.mark.parametrize("until", [1e300, "Infinity", "NaN", -5, 1e12, True, None, "soon"])
def test_a_lease_that_says_nonsense_holds_nobody_up(store: FolderStore, until: Any) -> None:
    text = json.dumps({"version": 1, "id": "x", "who": "y", "until": until}).replace('"Infinity"', "Infinity")
    (store.path / LEASE_KEY).write_text(text.replace('"NaN"', "NaN"))
    assert any(finding.key == LEASE_KEY for finding in audit(store).findings)
    with held(store, WHO, wait=0, say=lambda line: None) as lease:
        lease.check()


@pytest.mark.parametrize(
    "url",
    [
        "https://host/a/..",
        "https://host/.",
        "https://../..",
        "https://user:hunter22@host/.hidden",
        "file:///",
    ],
)
def test_folders_of_a_mirror_stay_in_it(url: str) -> None:
    for folder in _folders([url, f"{url}/x/..", "https://other/x"], {}).values():
        assert Path(folder).name == folder and not folder.startswith(".") and "hunter22" not in folder


# Errors on the way.


def test_a_mistyped_address_makes_no_folder(tmp_path: Path, store: FolderStore) -> None:
    (made,) = read_releases(store)
    for call in (
        lambda nowhere: yank(nowhere, "a", "b", WHO),
        lambda nowhere: unyank(nowhere, "a", WHO),
        lambda nowhere: prune(nowhere, WHO),
        lambda nowhere: promote(nowhere, Promotion(store, made.id, WHO, MATRIX)),
        lambda nowhere: repair_all(nowhere, who=WHO),
    ):
        with pytest.raises(ChannelError, match="no channel is here"):
            call(FolderStore(tmp_path / "mistyped"))
    assert not (tmp_path / "mistyped").exists()


@pytest.mark.parametrize(
    "address",
    ["https://user:hunter22@host/c", "https://host/t/hunter22-token/c", "https://host/c?token=hunter22"],
)
@pytest.mark.parametrize("setting", ["url", "dependency_channels"])
def test_no_credential_gets_into_the_settings(tmp_path: Path, address: str, setting: str) -> None:
    store = FolderStore(tmp_path / "channel")
    with pytest.raises(ChannelError) as caught:
        init_channel(store, {setting: address if setting == "url" else [address]}, who=WHO)
    assert "hunter22" not in str(caught.value)
    assert not (tmp_path / "channel" / "channel.json").exists()


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("url", "conda.example.com/internal", "conda.example.com/internal"),
        ("url", "ftp://conda.example.com/c", "ftp://conda.example.com/c"),
        ("url", "https:///c", "https:///c"),
        ("url", "http://[", "http://["),
        ("url", "https://user:hunter22@host/c", "host/c"),
        ("name", "my channel", "my channel"),
        ("name", "a/b", "a/b"),
        ("name", "<b>", "<b>"),
        ("name", "", "name"),
        ("name", "-x", "-x"),
    ],
)
def test_settings_that_are_none_are_named(tmp_path: Path, setting: str, value: str, said: str) -> None:
    with pytest.raises(ChannelError) as caught:
        init_channel(FolderStore(tmp_path / "channel"), {setting: value}, who=WHO)
    assert said in str(caught.value) and "hunter22" not in str(caught.value)
    assert str(tmp_path / "channel") in str(caught.value)


def test_a_folder_with_other_files_becomes_no_channel(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ChannelError, match="thesis") as caught:
        init_channel(FolderStore(tmp_path), {}, who=WHO)
    assert "choose an empty folder" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    (tmp_path / "thesis.txt").unlink()
    assert init_channel(FolderStore(tmp_path), {}, who=WHO)[1]
    (tmp_path / "channel.json").unlink()  # lost, and written anew
    assert init_channel(FolderStore(tmp_path), {}, who=WHO)[0].url is None
    (tmp_path / "notes.txt").write_text("beside a channel that is there")
    assert not init_channel(FolderStore(tmp_path), {}, who=WHO)[1]


def test_other_objects_in_a_bucket_and_its_toolchain(tmp_path: Path) -> None:
    store = MemoryStore()
    with pytest.raises(ChannelError, match="toolchain host"):
        init_channel(store, {"toolchain": "host"}, who=WHO)
    assert store.files.get("channel.json") is None
    other = MemoryStore()
    other.files["backup/disk.img"] = b""
    with pytest.raises(ChannelError, match="backup"):
        init_channel(other, {}, who=WHO)
    assert list(other.files) == ["backup/disk.img"]


def test_undo_leaves_a_manifest_of_somebody_else() -> None:
    store = MemoryStore()
    foreign = Release(id="one", action="publish", created="x", who="other", files=())
    mine = foreign.model_copy(update={"who": "me"})
    empty = {subdir: SubdirChange() for subdir in ("linux-64", "noarch")}

    def meanwhile(_store: Any) -> list[dict[str, Any]]:
        store.put_new(mine.key, foreign.to_bytes(), sha256=_sha256(foreign.to_bytes()))
        return []

    change = Change(
        "publish", (), empty, {"index.html": Replacement(b"page", NO_CACHE)}, (mine.key, mine.to_bytes())
    )
    with pytest.raises(ChannelError, match="other content"):
        apply(store, change, who=WHO, check=meanwhile)
    assert store.read(mine.key) == foreign.to_bytes()
    assert store.read("index.html") is None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("key", ["linux-64/" + "a" * 300 + "-1-0.conda", "a" * 300])
def test_names_that_the_file_system_does_not_take(tmp_path: Path, key: str) -> None:
    store = FolderStore(tmp_path)
    for call in (
        lambda: store.put_new(key, b"x", sha256=_sha256(b"x")),
        lambda: store.replace(key, b"x", expect=None, cache=NO_CACHE),
        lambda: store.delete(key),
        lambda: store.read(key),
        lambda: store.stat(key),
    ):
        with pytest.raises(StorageError):
            call()


def test_a_source_that_cannot_be_read_is_not_called_a_target_that_cannot_be_written(tmp_path: Path) -> None:
    class Broken(MemoryStore):
        def open(self, key: str) -> Any:
            raise OSError(5, "Input/output error")

    with pytest.raises(StorageError, match="cannot be read") as caught:
        FolderStore(tmp_path).copy_from(Broken(), "a", "a", sha256="0" * 64)
    assert caught.value.where == "memory/a"


CODE = """
import sys
from channel_tools.cli import main
def broken(*words, **more):
    raise {error}
main.app = broken
main.main()
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            "RuntimeError('at https://user:hunter22@host/c \\x1b[31m')",
            "internal error: RuntimeError: at https://***@",
        ),
        ("PermissionError(13, 'Permission denied', '/some/file')", "error: /some/file: Permission denied"),
        ("KeyError('x')", "please report"),
    ],
)
@pytest.mark.parametrize("traceback", ["", "1"])
def test_what_nobody_foresaw_is_one_message_without_credentials(
    error: str, said: str, traceback: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(error=error)],
        env={**os.environ, "ROCM_CHANNEL_TRACEBACK": traceback},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 1
    assert "hunter22" not in done.stderr and "\x1b" not in done.stderr
    assert ("Traceback" in done.stderr) == bool(traceback)
    assert traceback or said in done.stderr


def test_a_closed_terminal_is_an_interrupt() -> None:
    """So that a publish whose terminal goes away is undone at once; under nohup it goes on."""
    code = CODE.replace("raise {error}", "print(flush=True); import time; time.sleep(30)")
    for ignored in (False, True):
        start = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" if ignored else ""
        with subprocess.Popen(
            [sys.executable, "-c", start + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGHUP)
            if ignored:
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(0.5)
                process.terminate()
            assert process.wait(20) == 130


def test_errors_show_no_control_characters_of_packages(tmp_path: Path) -> None:
    path = tiny_package(tmp_path, "a", depends=["\x1b]0;owned\x07 b"])
    init_channel(FolderStore(tmp_path / "channel"), {}, who=WHO)
    done = rocm_channel("publish", path, "--channel", tmp_path / "channel")
    assert done.returncode not in (0, 1) and "\x1b" not in done.stderr and "\x07" not in done.stderr


def test_an_addition_with_a_sidecar_is_undone_whole(tmp_path: Path) -> None:
    """A check that fails after everything was stored leaves neither package nor attestation."""
    store = MemoryStore()
    path = tiny_package(tmp_path, "a")
    record = record_of(path)
    addition, (alias, content), digest = sigs_additions("linux-64/a-1-0.conda", b"{}")
    change = Change(
        "add",
        (Addition("linux-64/a-1-0.conda", path, record["sha256"], record["size"]), addition),
        {"linux-64": SubdirChange(add={path.name: {**record, "attestations_sha256": digest}})},
        {alias: content},
    )

    def refuses(_store: Any) -> list[dict[str, Any]]:
        raise ChannelError("no")

    with pytest.raises(ChannelError, match="no"):
        apply(store, change, who=WHO, check=refuses)
    assert [key for key in store.files if not key.startswith(".channel/")] == []
