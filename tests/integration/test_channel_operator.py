"""What an operator types by mistake, finds damaged, or spells in another way: one error, no state lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from channel_tools.channel.addresses import consumer_url
from channel_tools.channel.care.audit import audit
from channel_tools.channel.care.prune import plan_prune
from channel_tools.channel.care.upkeep import required_settings
from channel_tools.channel.care.yank import plan_unyank, unyank, yank
from channel_tools.channel.care.yanked import read_yanked
from channel_tools.channel.folder import FolderChannel
from channel_tools.channel.index.encoding import read_all
from channel_tools.channel.index.records import record_of
from channel_tools.channel.init import init_channel
from channel_tools.channel.layout import JOURNAL_KEY
from channel_tools.channel.publishing.promote import Promotion, promote
from channel_tools.channel.publishing.publish import Publisher
from channel_tools.channel.release import read_release, read_releases
from channel_tools.channel.servers.upload_release import upload_releases
from channel_tools.channel.servers.upload_targets import parse_target
from channel_tools.channel.stores.content import stored_chunks, write_chunks
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.opening import open_store
from channel_tools.channel.stores.s3_objects import make_client
from channel_tools.channel.transaction.apply import apply
from channel_tools.channel.transaction.change import Addition, Change, SubdirChange
from channel_tools.channel.transaction.reindex import repair_all
from channel_tools.channel.wheels.index import WheelIndex
from channel_tools.cli.upload import _package
from channel_tools.model.errors import (
    AttestationError,
    ChannelError,
    ChannelToolsError,
    ReleaseRefusedError,
    StorageError,
    VerifyError,
)
from channel_tools.model.matrix import read_matrix
from tests.integration.helpers import ROOT, answer, rocm_channel
from tests.integration.s3 import S3Server, s3_server  # noqa: F401
from tests.integration.tiny_packages import release, tiny_package
from tests.unit.memory_store import MemoryStore

MATRIX = read_matrix(ROOT / "variants" / "conda_build_config.yaml")
WHO = "tests@host"
URL = "https://conda.example.com/internal"
SECRET = "hunter22-of-the-tests"
NEW = "hip-demo ==0.2.0 rocm72_gfx942*"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A channel with two releases, one build of which is yanked."""
    folder = tmp_path_factory.mktemp("operator")
    store = FolderStore(folder / "channel")
    init_channel(store, {"url": URL}, who=WHO)
    for version in ("0.1.0", "0.2.0"):
        made = release(folder / version, version=version)
        assert Publisher(store, MATRIX, WHO).publish(made).changed
    yank(store, NEW, "wrong results", WHO)
    return store.path


@pytest.fixture
def store(published: Path, tmp_path: Path) -> FolderStore:
    shutil.copytree(published, tmp_path / "channel")
    return FolderStore(tmp_path / "channel")


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".channel" not in path.parts
    }


def one_line(error: ChannelToolsError) -> str:
    """The error's text, which has one line for each of its parts and sends nobody elsewhere."""
    text = str(error)
    assert "http" not in (error.found or "") and len(text.splitlines()) <= 4, text
    return text


# A place with no channel in it: one error, and nothing is made there.


@pytest.mark.parametrize(
    "call",
    [
        lambda nowhere, there: init_channel(nowhere, {"name": "x"}, who=WHO, change=True),
        lambda nowhere, there: Publisher(nowhere, MATRIX, WHO).publish([there.path]),
        lambda nowhere, there: promote(nowhere, Promotion(there, "r", WHO, MATRIX)),
        lambda nowhere, there: promote(there, Promotion(nowhere, "r", WHO, MATRIX)),
        lambda nowhere, there: upload_releases(nowhere, (), parse_target("anaconda:x"), say=print),
        lambda nowhere, there: WheelIndex(nowhere, WHO).yank("a.whl", "x"),
        lambda nowhere, there: audit(nowhere),
    ],
)
def test_a_mistyped_address_is_no_channel_and_stays_what_it_is(
    call: Callable[[FolderStore, FolderStore], Any], store: FolderStore, tmp_path: Path
) -> None:
    above = tmp_path / "above"
    shutil.copytree(store.path, above / "internal")
    before = sorted(above.rglob("*"))
    for nowhere in (tmp_path / "mistyped", above):
        with pytest.raises(ChannelError, match=r"no channel is here|no wheel index is here"):
            call(FolderStore(nowhere), store)
    assert not (tmp_path / "mistyped").exists()
    assert sorted(above.rglob("*")) == before, "also in a folder with channels below it"


@pytest.mark.parametrize(
    "given", [{"url": "nonsense"}, {"name": "a b"}, {"attestations": "maybe"}, {"version": 7}]
)
def test_settings_that_are_none_make_no_folder(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ChannelError):
        init_channel(FolderStore(tmp_path / "new"), given, who=WHO)
    assert not (tmp_path / "new").exists()


# One place has many spellings.


def test_a_channel_is_the_same_by_whatever_path_it_is_named(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to("channel")
    target = FolderStore(tmp_path / "production")
    init_channel(target, {"url": URL}, who=WHO)
    first = min(read_releases(store), key=lambda made: made.created)
    monkeypatch.chdir(tmp_path)
    spellings = ("channel", "./channel/", "../" + tmp_path.name + "/channel", "link", store.path.as_uri())
    for number, text in enumerate(spellings):
        promotion = Promotion(open_store(text), first.id, WHO, MATRIX)
        assert promote(target, promotion)[1].changed == (number == 0), text
        with pytest.raises(ChannelError, match="promoted to itself"):
            promote(store, promotion)
    kept = read_release(target, first.id).promoted_from
    assert kept == {"channel": str(store.path), "release": first.id}, "it holds in any working folder"


def test_a_release_that_came_another_way_is_there_already(store: FolderStore, tmp_path: Path) -> None:
    """Staging may be moved, or a release come through a second channel: the files are what counts."""
    first = min(read_releases(store), key=lambda made: made.created)
    target, moved = FolderStore(tmp_path / "production"), tmp_path / "moved"
    init_channel(target, {"url": URL}, who=WHO)
    assert promote(target, Promotion(store, first.id, WHO, MATRIX))[1].changed
    store.path.rename(moved)
    before = tree(target.path)
    assert not promote(target, Promotion(FolderStore(moved), first.id, WHO, MATRIX))[1].changed
    assert tree(target.path) == before
    path = moved / "releases" / f"{first.id}.json"
    data = json.loads(path.read_text())
    data["files"][0]["sha256"] = "0" * 64
    path.write_text(json.dumps(data))
    with pytest.raises(ChannelError, match="has another release") as refused:
        promote(target, Promotion(FolderStore(moved), first.id, WHO, MATRIX))
    assert "that of a promote by" in str(refused.value)


# What is damaged or gone: told with a way out, and the way out works.


@pytest.mark.parametrize(
    ("key", "text"),
    [("channel.json", "no channel.json of this format"), ("releases/{}.json", "no release manifest")],
)
@pytest.mark.parametrize("content", [b"{", b"[]", b'{"version": 2}'])
def test_a_damaged_file_is_one_short_error_with_a_fix(
    key: str, text: str, content: bytes, store: FolderStore
) -> None:
    key = key.format(next(read_releases(store)).id)
    (store.path / key).write_bytes(content)
    with pytest.raises(ChannelError, match=text) as caught:
        yank(store, "hip-demo ==0.1.0", "x", WHO)
    assert "restore it from a backup" in one_line(caught.value)
    (finding,) = [f for f in audit(store).findings if f.key == key]
    assert finding.fix and "\n" not in (finding.found or "")


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("yanked", [False, True])
def test_builds_against_a_host_stay_what_they_are_whatever_init_is_told(
    lost: bool, yanked: bool, tmp_path: Path
) -> None:
    """A channel that called them conda's could be promoted, or uploaded, to where other hosts read it."""
    channel = FolderChannel(tmp_path / "channel")
    extra = {"toolchain": "host"}
    channel.add([tiny_package(tmp_path, "a", extra=extra), tiny_package(tmp_path, "no-toolchain")])
    store = channel.store
    if yanked:
        yank(store, "a", "x", WHO)
    if lost:
        (store.path / "channel.json").unlink()
    before = tree(store.path)
    with pytest.raises(ChannelError, match="builds of another toolchain"):
        init_channel(store, {"toolchain": "conda"}, who=WHO, change=True)
    assert tree(store.path) == before
    assert init_channel(store, {"name": "x"}, who=WHO, change=True)[0].toolchain == "host"
    empty = FolderStore(tmp_path / "empty")
    init_channel(empty, {"toolchain": "host"}, who=WHO)
    assert init_channel(empty, {"toolchain": "conda"}, who=WHO, change=True)[0].toolchain == "conda"


def test_promote_with_verify_does_not_take_the_channels_word_for_the_toolchain(tmp_path: Path) -> None:
    staging, target = FolderStore(tmp_path / "staging"), FolderStore(tmp_path / "production")
    init_channel(staging, {"toolchain": "host"}, who=WHO)
    init_channel(target, {"url": URL}, who=WHO)
    path = tiny_package(tmp_path, "a-tool", extra={"toolchain": "host"})
    made = Publisher(staging, MATRIX, WHO).publish([path]).release
    with pytest.raises(ReleaseRefusedError, match="host's own tools"):
        promote(target, Promotion(staging, made.id, WHO, MATRIX))
    (staging.path / "channel.json").write_text('{"version": 1, "toolchain": "conda"}')
    with pytest.raises(VerifyError, match="another toolchain than its channel says"):
        promote(target, Promotion(staging, made.id, WHO, MATRIX, verify=True))
    assert not list(read_releases(target))


def test_without_its_settings_a_channel_takes_nothing(store: FolderStore, tmp_path: Path) -> None:
    """They say whether attestations are required: a lost file must not switch that off."""
    init_channel(store, {"attestations": "require"}, who=WHO, change=True)
    (store.path / "channel.json").unlink()
    before = tree(store.path)
    other = FolderStore(tmp_path / "staging")
    shutil.copytree(store.path, other.path)
    for call in (
        lambda: required_settings(store),
        lambda: Publisher(store, MATRIX, WHO).publish(release(tmp_path / "new", version="0.3.0")),
        lambda: promote(store, Promotion(other, next(read_releases(other)).id, WHO, MATRIX)),
        lambda: unyank(store, NEW, WHO),
    ):
        with pytest.raises(ChannelError, match=r"has no channel\.json"):
            call()
    assert tree(store.path) == before
    assert [finding.key for finding in audit(store).findings] == ["channel.json"]
    (store.path / "wheels").mkdir()  # where docs/pip.md puts them
    (store.path / "wheels" / "wheels.json").write_text("{}")
    init_channel(store, {"url": URL}, who=WHO)
    assert not audit(store).findings


@pytest.mark.parametrize("content", [None, b"{", b"[]"])
def test_a_lost_list_of_yanked_builds_is_written_again(content: bytes | None, store: FolderStore) -> None:
    """The indexes know what is yanked; the record comes from the file, the reason from the operator."""
    (key,) = read_yanked(store).entries
    path, before = store.path / "yanked.json", read_yanked(store).entries[key]["record"]
    if content is not None:
        path.write_bytes(content)
        with pytest.raises(ChannelError, match="without one remove it"):
            yank(store, NEW, "again", WHO)
    path.unlink()
    assert [finding.fix for finding in audit(store).findings if "rocm-channel yank" in (finding.fix or "")]
    name = key.rpartition("/")[2]
    assert plan_unyank(store, name).keys == plan_unyank(store, NEW).keys == (key,)
    plan, applied = yank(store, name, "again", WHO)
    assert plan.keys == (key,) and applied.changed
    entry = read_yanked(store).entries[key]
    ours = {"indexed_timestamp"}
    assert entry["reason"] == "again"
    assert {k: v for k, v in entry["record"].items() if k not in ours} == {
        k: v for k, v in before.items() if k not in ours
    }
    assert not audit(store).findings
    path.unlink()
    assert unyank(store, NEW, WHO)[0].keys == (key,)
    assert not audit(store).findings
    with pytest.raises(ChannelError, match="is not yanked"):
        unyank(store, NEW, WHO)


def test_what_lost_its_record_comes_back_as_it_was_published_or_not_at_all(
    store: FolderStore, tmp_path: Path
) -> None:
    (key,) = read_yanked(store).entries
    (store.path / "yanked.json").unlink()
    words = key.rpartition("/")[2].removesuffix(".conda").rsplit("-", 2)
    other = tiny_package(tmp_path, words[0], words[1], words[2], depends=["something-else"])
    shutil.copyfile(other, store.path / key)
    with pytest.raises(ChannelError, match="another file than was published"):
        unyank(store, NEW, WHO)
    (store.path / key).unlink()
    with pytest.raises(ChannelError, match="cannot come back: its file"):
        unyank(store, NEW, WHO)


def test_a_damaged_package_does_not_keep_the_index_from_being_written(store: FolderStore) -> None:
    key = next(f"{k}/{f}" for k, i in read_all(store).items() for f in i.records if "hip-demo" in f)
    content = store.read(key) or b""
    (store.path / key).write_bytes(content[: len(content) // 2])
    (store.path / "linux-64" / "repodata.json").write_bytes(b"nonsense")
    done = repair_all(store, who=WHO)
    assert any(line.startswith(f"left out {key}: it is damaged") for line in done)
    assert key.rpartition("/")[2] not in read_all(store)["linux-64"].records
    (store.path / key).write_bytes(content)
    repair_all(store, who=WHO, reindex=True)
    assert not audit(store).findings


@pytest.mark.parametrize("subdir", ["linux-64", "label/gfx942/linux-64"])
@pytest.mark.parametrize("content", [b"{", None])
def test_an_index_that_cannot_be_read_is_one_finding(
    subdir: str, content: bytes | None, store: FolderStore
) -> None:
    for path in (store.path / subdir).glob("repodata*"):
        path.unlink()
    if content is not None:
        (store.path / subdir / "repodata.json").write_bytes(content)
    (finding,) = audit(store).findings
    assert finding.key == subdir and "channel repair" in (finding.fix or "")


@pytest.mark.parametrize(
    "data",
    [
        {"version": 2},
        {"version": 1, "indexes": 5},
        {"version": 1, "indexes": ["x"]},
        {"version": 1, "indexes": [{}]},
        {"version": 1, "indexes": [{"rocm": "7.2", "arch": "../x"}]},
        {"version": 1, "url": 5},
    ],
)
def test_a_damaged_list_of_wheel_indexes_is_one_error(data: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "wheels.json").write_text(json.dumps(data))
    index = WheelIndex(FolderStore(tmp_path), WHO)
    for call in (lambda: index.add([]), lambda: index.yank("a.whl", "x")):
        with pytest.raises(ChannelError, match="is no list of wheel indexes") as caught:
            call()
        one_line(caught.value)


@pytest.mark.parametrize(
    ("project", "root"),
    [
        ({"files": 5}, {}),
        ({"files": [{}]}, {}),
        ({"files": [{"filename": "a.whl"}]}, {}),
        ({"files": [{"filename": "a.whl", "url": "x", "hashes": {}}]}, {}),
        ({}, {"projects": [{}]}),
        ({}, {"projects": {"a": 1}}),
    ],
)
def test_a_damaged_page_of_a_wheel_index_is_one_error(project: Any, root: Any, tmp_path: Path) -> None:
    files = {
        "wheels.json": {"version": 1, "indexes": [{"rocm": "7.2", "arch": "gfx942"}]},
        "rocm72/gfx942/simple/index.json": {"projects": [{"name": "a"}], **root},
        "rocm72/gfx942/simple/a/index.json": {"files": [], **project},
    }
    for key, data in files.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_text(json.dumps(data))
    with pytest.raises(ChannelError, match="is no page of a wheel index") as caught:
        WheelIndex(FolderStore(tmp_path), WHO).yank("a.whl", "x")
    one_line(caught.value)


def test_a_file_that_audit_names_is_named_by_prune_whatever_its_age(store: FolderStore) -> None:
    path = tiny_package(store.path, "stray")
    key = f"linux-64/{path.name}"
    assert [finding.key for finding in audit(store).findings] == [key]
    young = plan_prune(store)
    assert not young.gone and [file.key for file in young.kept] == [key]
    assert "less than a day" in (young.kept[0].kept or "")
    os.utime(path, (1e9, 1e9))
    assert [file.key for file in plan_prune(store).gone] == [key]
    lock = store.path.parent / "explicit.txt"
    lock.write_text(f"@EXPLICIT\n{URL}/{key}\n")
    assert "explicit.txt names it" in (plan_prune(store, locks=[lock]).kept[0].kept or "")


# No credential goes where everybody can read it.


@pytest.mark.parametrize(
    "url",
    [f"https://me:{SECRET}@host/c", f"https://host/t/{SECRET}/c", f"https://host/c?token={SECRET}", "host/c"],
)
def test_addresses_for_everybody_have_no_credential(url: str, store: FolderStore, tmp_path: Path) -> None:
    package = tiny_package(tmp_path, "a")
    wheels = FolderStore(tmp_path / "wheels")
    for call in (
        lambda: consumer_url(url, "x"),
        lambda: init_channel(store, {"url": url}, who=WHO, change=True),
        lambda: WheelIndex(wheels, WHO).add([], url=url),
    ):
        with pytest.raises(ChannelError) as caught:
            call()
        assert SECRET not in str(caught.value)
    done = rocm_channel("attest", "create", package, "--channel", url, "--dry-run")
    assert done.returncode == 40 and not done.stdout and SECRET not in done.stderr
    assert not wheels.path.exists()
    assert not any(SECRET.encode() in content for content in tree(tmp_path).values())


def test_a_reason_for_everybody_is_one_line_without_credentials(store: FolderStore, tmp_path: Path) -> None:
    reason = f"see https://me:{SECRET}@host/issue\n and   ask"
    unyank(store, NEW, WHO)
    yank(store, NEW, reason, WHO)
    (entry,) = read_yanked(store).entries.values()
    assert entry["reason"] == "see https://***@host/issue and ask"
    assert not any(SECRET.encode() in content for content in tree(store.path).values())
    for text in ("", " \n"):
        with pytest.raises(ChannelError, match="needs a reason"):
            yank(store, "hip-demo ==0.1.0", text, WHO)
        with pytest.raises(ChannelError, match="needs a reason"):
            WheelIndex(FolderStore(tmp_path), WHO).yank("a.whl", text)


# Ctrl-C, once more while the first one is being undone, or when all is done already.


@pytest.mark.parametrize(
    ("method", "match", "said", "done"),
    [
        ("delete", "linux-64/a-", "the undoing was interrupted", False),
        ("delete", JOURNAL_KEY, "all of it is done, but for tidying up", True),
    ],
)
def test_an_interrupt_says_what_it_left(
    method: str, match: str, said: str, done: bool, tmp_path: Path
) -> None:
    class Interrupted(MemoryStore):
        armed = True

        def delete(self, key: str, *, expect: str | None = None) -> None:
            if self.armed and match in key:
                raise KeyboardInterrupt
            super().delete(key, expect=expect)

    def check(_view: Any) -> list[dict[str, Any]]:
        if not done:
            raise KeyboardInterrupt
        return []

    path = tiny_package(tmp_path, "a")
    record = record_of(path)
    key = f"linux-64/{path.name}"
    addition = Addition(key, path, record["sha256"], record["size"])
    change = Change("publish", (addition,), {"linux-64": SubdirChange(add={path.name: record})})
    store, lines = Interrupted(), []
    with pytest.raises(KeyboardInterrupt):
        apply(store, change, who=WHO, check=check, say=lines.append)
    assert said in lines[-1] and JOURNAL_KEY in store.files
    store.armed = False
    assert repair_all(store, who=WHO)
    assert (key in store.files) == done == (path.name in read_all(store)["linux-64"].records)
    assert JOURNAL_KEY not in store.files


# Messages.


def test_a_name_that_no_release_has_is_told_with_the_newest_ones(store: FolderStore) -> None:
    (made, *_) = read_releases(store)
    for number in range(30):
        copy = made.model_copy(update={"id": f"2026{number:04}"})
        (store.path / copy.key).write_bytes(copy.to_bytes())
    with pytest.raises(ChannelError, match="has no release") as caught:
        read_release(store, "")
    assert len(str(caught.value)) < 500 and "24 older" in str(caught.value)


def test_the_fix_of_a_refusal_is_a_line_to_type(tmp_path: Path) -> None:
    init_channel(FolderStore(tmp_path / "c"), {"url": URL, "attestations": "require"}, who=WHO)
    done = rocm_channel("publish", ROOT, "--channel", tmp_path / "c", "--no-attest")
    assert done.returncode == AttestationError.exit_code
    assert f"`rocm-channel channel init {tmp_path / 'c'} --change --attestations warn`" in done.stderr


@pytest.mark.parametrize(("arch", "said"), [("gfx942", False), ("gfx94", True)])
def test_a_diff_for_an_arch_that_neither_channel_has_says_so(
    arch: str, said: bool, store: FolderStore
) -> None:
    done = rocm_channel("diff", store.path, store.path, "--arch", arch, "--json")
    assert ("neither channel has a package for" in done.stderr) == said
    assert answer(done)["differences"] == []


def test_install_commands_name_what_the_release_is_about() -> None:
    class Item:
        def __init__(self, key: str) -> None:
            self.key, self.name = key, key.rpartition("/")[2]

    keys = ("amdgpu-arch-9.4.2-gfx942_detected_0", "rocm-userspace-7.2-x_0", "zz-1-0", "zz-tool-1-0")
    items: Any = [Item(f"linux-64/{key}.conda") for key in keys]
    assert _package(items) == "zz"
    assert _package(items[:2]) == "amdgpu-arch"
    assert _package([*items, Item("linux-64/vllm-rocm-1-0.conda")]) == _package([]) == "vllm-rocm"  # type: ignore[list-item]


def test_statements_are_one_json_document_about_packages(tmp_path: Path) -> None:
    packages = [tiny_package(tmp_path, name) for name in ("a", "b")]
    words = ("attest", "create", *packages, "--channel", URL + "/", "--dry-run")
    said = answer(rocm_channel(*words, "--json"))
    assert [one["subject"][0]["name"] for one in said["statements"]] == [p.name for p in packages]
    assert {one["predicate"]["targetChannel"] for one in said["statements"]} == {URL}
    lines = rocm_channel(*words).stdout.splitlines()
    assert [json.loads(line) for line in lines] == said["statements"]
    for command in ("create", "verify"):
        more = () if command == "create" else ("--identity", "a@b.c", "--issuer", "https://i.example.com")
        done = rocm_channel("attest", command, ROOT / "README.md", "--channel", URL, *more)
        assert done.returncode == 2 and "is no .conda or .tar.bz2 file" in done.stderr


@pytest.mark.parametrize("endpoint", ["nonsense", "http://[::1", "ftp//x"])
def test_an_s3_configuration_that_is_none_is_one_error(
    endpoint: str,
    s3_server: S3Server,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    with pytest.raises(StorageError, match="configuration for S3 cannot be used") as caught:
        make_client()
    assert "AWS_ENDPOINT_URL_S3" in one_line(caught.value)


def test_a_copy_that_finds_no_room_says_what_could_not_be_written(store: FolderStore, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="/dev/full: cannot be written: the disk is full"):
        write_chunks(stored_chunks(store, "linux-64/repodata.json"), Path("/dev/full"))
    with pytest.raises(StorageError, match="gone: cannot be read"):
        write_chunks(stored_chunks(store, "gone"), tmp_path / "copy")
