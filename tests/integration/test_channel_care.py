"""Promote, yank, prune, audit and diff on channels with two releases, in a folder and on S3."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from channel_tools import rattler_process
from channel_tools.channel.attestations.sidecar import read_sidecar
from channel_tools.channel.care.audit import audit
from channel_tools.channel.care.compare import compare
from channel_tools.channel.care.prune import plan_prune, prune
from channel_tools.channel.care.upkeep import read_state
from channel_tools.channel.care.yank import plan_yank, unyank, yank
from channel_tools.channel.care.yanked import Yanked, read_yanked, yanked_notes
from channel_tools.channel.init import init_channel
from channel_tools.channel.layout import JOURNAL_KEY, LEASE_KEY, is_package
from channel_tools.channel.publishing.promote import Promotion, promote, rehearse
from channel_tools.channel.publishing.publish import Publisher
from channel_tools.channel.publishing.readback import read_back
from channel_tools.channel.release import Release, read_releases
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.store import Store
from channel_tools.model.errors import AttestationError, ChannelError, DamagedFileError, ReleaseRefusedError
from channel_tools.model.matrix import read_matrix
from tests.integration.helpers import ROOT, answer, rocm_channel
from tests.integration.s3 import s3_server  # noqa: F401
from tests.integration.tiny_packages import ISA, release, tiny_package

MATRIX = read_matrix(ROOT / "variants" / "conda_build_config.yaml")
WHO = "tests@host"
URL = "https://conda.example.com/"
OLD, NEW = "0.1.0", "0.2.0"
GFX942_ROCM72 = "rocm72_gfx942"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder channel with two releases of ``hip-demo``, the second without what selects."""
    folder = tmp_path_factory.mktemp("care")
    store = FolderStore(folder / "staging")
    init_channel(store, {"url": f"{URL}staging", "name": "staging"}, who=WHO)
    for version, selects in ((OLD, True), (NEW, False)):
        packages = release(folder / version, version=version, selection=selects)
        assert Publisher(store, MATRIX, WHO).publish(packages).changed
    return store.path


@pytest.fixture(params=["folder", "s3"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Store]:
    """Makes empty stores of one kind: a folder, or a prefix of a bucket."""
    if request.param == "folder":
        return lambda name: FolderStore(tmp_path / name)
    server = request.getfixturevalue("s3_server")
    return lambda name: server.store(name)


@pytest.fixture
def staging(make_store: Callable[[str], Store], published: Path) -> Store:
    """A copy of the channel with two releases."""
    return filled(make_store("staging"), published)


@pytest.fixture
def channel(tmp_path: Path, published: Path) -> FolderStore:
    """The same, always in a folder."""
    store = filled(FolderStore(tmp_path / "channel"), published)
    assert isinstance(store, FolderStore)
    return store


@pytest.fixture
def target(make_store: Callable[[str], Store]) -> Store:
    store = make_store("production")
    init_channel(store, {"url": f"{URL}internal", "name": "internal"}, who=WHO)
    return store


def filled(store: Store, folder: Path) -> Store:
    if isinstance(store, FolderStore):
        shutil.copytree(folder, store.path)
        return store
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".lock"):
        content = path.read_bytes()
        key = path.relative_to(folder).as_posix()
        store.put_new(key, content, sha256=hashlib.sha256(content).hexdigest())
    return store


def on_disk(store: Store, folder: Path) -> Path:
    """The channel as a folder, as a client reads it."""
    if isinstance(store, FolderStore):
        return store.path
    for stat in store.list(""):
        path = folder / stat.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.read(stat.key) or b"")
    return folder


def solve(
    folder: Path, *specs: str, arch: str = "gfx942", rocm: str = "7.2", **more: Any
) -> list[dict[str, Any]]:
    virtual = [
        ["__unix", "0", "0"],
        ["__linux", "6.8", "0"],
        ["__amdgpu", "0", "0"],
        ["__amdgpu_arch", ISA[arch], "0"],
        ["__rocm_userspace", rocm, "0"],
    ]
    payload = {"channels": [folder.as_uri()], "specs": list(specs), "virtual": virtual, **more}
    found: list[dict[str, Any]] = rattler_process.call("solve", payload)
    return found


def version_of(records: list[dict[str, Any]], name: str = "hip-demo") -> str:
    return next(str(record["version"]) for record in records if record["name"] == name)


def releases(store: Store) -> list[Release]:
    return sorted(read_releases(store), key=lambda one: one.files[0].version if one.files else "")


def id_of(store: Store, version: str) -> str:
    """The release that has that version of ``hip-demo``."""
    return next(
        r.id
        for r in read_releases(store)
        if any((f.name, f.version) == ("hip-demo", version) for f in r.files)
    )


def promotion(staging: Store, version: str, **more: Any) -> Promotion:
    return Promotion(staging, id_of(staging, version), WHO, MATRIX, read_back=read_back, **more)


def key_of(store: Store, version: str, words: str = GFX942_ROCM72) -> str:
    return next(
        f"{subdir}/{file}"
        for subdir, index in read_state(store).indexes.items()
        for file in sorted(index.records.keys() | index.removed)
        if file.startswith(f"hip-demo-{version}-{words}")
    )


def content(store: Store) -> dict[str, bytes]:
    """All that a consumer may read."""
    return {s.key: store.read(s.key) or b"" for s in store.list("") if not s.key.startswith(".channel/")}


def findings(store: Store) -> list[str]:
    return [f"{finding.subject} {finding.key}" for finding in audit(store).findings]


# ---- promote


def test_two_releases_are_promoted_and_the_channels_are_the_same(
    staging: Store, target: Store, tmp_path: Path
) -> None:
    for version in (OLD, NEW):
        planned, applied = promote(target, promotion(staging, version))
        assert applied.changed
        assert {solve["as"] for solve in applied.solves} >= {"detected", "unknown GPU"}
        assert planned.release.promoted_from == {
            "channel": staging.address,
            "release": id_of(staging, version),
        }
        before = content(target)
        again, repeated = promote(target, promotion(staging, version))
        assert not repeated.changed
        assert again.release.files == planned.release.files
        assert content(target) == before, "doing it again changes nothing"
        assert version_of(solve(on_disk(target, tmp_path / version), "hip-demo")) == version
    result = compare(staging, target)
    assert not result.differences
    assert result.same["gfx942"] and result.same["gfx90a"]
    assert audit(target).findings == []
    page = (target.read("index.html") or b"").decode()
    assert NEW in page and f"{URL}internal" in page
    made = {r.action for r in read_releases(target)}
    assert made == {"promote"}
    assert b"declared" in b"".join(key.encode() for key in content(target) if key.startswith("label/"))


def test_a_rehearsal_reads_back_and_writes_nothing(channel: FolderStore, tmp_path: Path) -> None:
    target = FolderStore(tmp_path / "production")
    init_channel(target, {"url": f"{URL}internal"}, who=WHO)
    before = content(target)
    planned, applied = rehearse(target, promotion(channel, OLD))
    assert planned.new and applied.solves
    assert content(target) == before


def test_a_release_whose_dependencies_are_not_in_the_target_is_refused(
    channel: FolderStore, tmp_path: Path
) -> None:
    target = FolderStore(tmp_path / "production")
    init_channel(target, {"url": f"{URL}internal"}, who=WHO)
    before = content(target)
    with pytest.raises(ReleaseRefusedError, match="depends on what no channel provides"):
        promote(target, promotion(channel, NEW))
    assert content(target) == before


def test_what_staging_no_longer_stands_for_is_not_promoted(channel: FolderStore, tmp_path: Path) -> None:
    target = FolderStore(tmp_path / "production")
    with pytest.raises(ChannelError, match="no channel is here"):
        promote(target, promotion(channel, OLD))
    init_channel(target, {"url": f"{URL}internal"}, who=WHO)
    with pytest.raises(ChannelError, match="has no release nonsense"):
        promote(target, Promotion(channel, "nonsense", WHO, MATRIX))
    with pytest.raises(ChannelError, match="promoted to itself"):
        promote(channel, promotion(channel, OLD))
    key = key_of(channel, OLD)
    yank(channel, key, "wrong results", WHO)
    with pytest.raises(ChannelError, match="was yanked, and is not promoted") as refused:
        promote(target, promotion(channel, OLD))
    assert refused.value.found == "wrong results"
    unyank(channel, key, WHO)
    path = channel.path / key
    path.write_bytes(path.read_bytes() + b"x")
    before = content(target)
    with pytest.raises(DamagedFileError, match="another sha256"):
        promote(target, promotion(channel, OLD))
    assert content(target) == before, "a file that changed under the index is found while it is copied"


def test_a_target_with_other_content_is_left_alone(channel: FolderStore, tmp_path: Path) -> None:
    target = FolderStore(tmp_path / "production")
    init_channel(target, {"url": f"{URL}internal"}, who=WHO)
    other = release(tmp_path / "other", version=OLD, about={"summary": "another"})
    Publisher(target, MATRIX, WHO).publish(other)
    before = content(target)
    with pytest.raises(ChannelError, match="other content"):
        promote(target, promotion(channel, OLD))
    assert content(target) == before


def test_each_channel_gets_an_attestation_of_its_own(channel: FolderStore, tmp_path: Path) -> None:
    target = FolderStore(tmp_path / "production")
    init_channel(
        target,
        {
            "url": f"{URL}internal",
            "attestations": "require",
            "publishers": [{"identity": "ci@example.com", "issuer": "https://issuer.example.com"}],
        },
        who=WHO,
    )
    with pytest.raises(AttestationError, match="none can be made"):
        promote(target, promotion(channel, OLD))

    def attest(key: str, sha256: str) -> bytes:
        return json.dumps({"for": key, "sha256": sha256}).encode()

    planned, _ = promote(target, promotion(channel, OLD, attest=attest))
    for file in planned.release.files:
        record = read_state(target).indexes[file.key.rpartition("/")[0]].records[file.key.rpartition("/")[2]]
        assert file.attestation == record["attestations_sha256"]
        bundles = json.loads(read_sidecar(target, file.key, file.attestation) or b"")
        assert bundles == [{"for": file.key, "sha256": file.sha256}]
        assert read_sidecar(target, file.key) == read_sidecar(target, file.key, file.attestation)
    assert not promote(target, promotion(channel, OLD, attest=attest))[1].changed


# ---- yank


def test_a_yanked_build_is_no_longer_chosen_and_its_url_still_installs(
    staging: Store, tmp_path: Path
) -> None:
    folder = on_disk(staging, tmp_path / "before")
    locked = [record for record in solve(folder, "hip-demo") if record["name"] == "hip-demo"]
    assert version_of(locked) == NEW
    lock = tmp_path / "explicit.txt"
    lock.write_text("@EXPLICIT\n" + "".join(f"{record['url']}#{record['sha256']}\n" for record in locked))
    plan, applied = yank(staging, f"hip-demo =={NEW}", "wrong results for odd sizes", WHO, locks=[lock])
    assert applied.changed
    assert len(plan.keys) == 4, "every arch and ROCm release of that version"
    assert any(str(lock) in note and "still installs" in note for note in plan.notes)

    folder = on_disk(staging, tmp_path / "after")
    for arch in ISA:
        assert version_of(solve(folder, "hip-demo", arch=arch)) == OLD
    with pytest.raises(rattler_process.RattlerCallError):
        solve(folder, f"hip-demo =={NEW}")
    for form in ("repodata.json", "patch_instructions.json"):
        assert plan.keys[0].rpartition("/")[2] in (folder / "linux-64" / form).read_text()
    assert "wrong results for odd sizes" in (folder / "index.html").read_text()

    name = plan.keys[0].rpartition("/")[2]
    notes = yanked_notes(staging, [f"{URL}staging/{plan.keys[0]}", f"{URL}staging/linux-64/other-1-0.conda"])
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert notes == [f"{name} was yanked on {today}: wrong results for odd sizes"]
    url = (folder / plan.keys[0]).as_uri()
    prefix = tmp_path / "prefix"
    installed = solve(
        folder, url, arch=next(a for a in ISA if a in name), rocm=_dotted(name), prefix=str(prefix)
    )
    assert version_of(installed) == NEW
    assert (prefix / "share" / "hip-demo.txt").is_file()

    assert audit(staging).findings == []
    back, _ = unyank(staging, f"hip-demo =={NEW}", WHO)
    assert back.keys == plan.keys
    assert read_yanked(staging).entries == {}
    folder = on_disk(staging, tmp_path / "again")
    assert version_of(solve(folder, "hip-demo")) == NEW
    assert "wrong results" not in (folder / "index.html").read_text()
    assert audit(staging).findings == []


def _dotted(file: str) -> str:
    return next(f"{w[4]}.{w[5:]}" for w in file.split("-")[-1].split("_") if w.startswith("rocm"))


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ("hip-demo", "fits several versions"),
        ("hip-demo >=0.1", "fits several versions"),
        ("hip-demo ==9", "nothing fits"),
        ("no-such-thing", "nothing fits"),
        ("linux-64/none-1-0.conda", "nothing fits"),
        ("[[", "neither a file name nor a match spec"),
    ],
)
def test_a_yank_of_nothing_or_of_several_things_is_refused(
    channel: FolderStore, spec: str, what: str
) -> None:
    before = content(channel)
    with pytest.raises(ChannelError, match=what):
        yank(channel, spec, "why", WHO)
    assert content(channel) == before


def test_yanks_of_one_file_of_all_versions_and_of_what_others_need(channel: FolderStore) -> None:
    with pytest.raises(ChannelError, match="needs a reason"):
        yank(channel, "hip-demo", "  ", WHO)
    key = key_of(channel, NEW)
    yank(channel, key.rpartition("/")[2], "one", WHO)
    assert list(read_yanked(channel).entries) == [key]
    with pytest.raises(ChannelError, match="is yanked already"):
        yank(channel, key, "again", WHO)
    plan, _ = yank(channel, "hip-demo", "all", WHO, every=True)
    assert len(plan.keys) == 7
    with pytest.raises(ChannelError, match="is not yanked"):
        unyank(channel, "rocm-userspace ==7.2", WHO)
    (channel.path / key).unlink()
    with pytest.raises(ChannelError, match="its file is not there any more"):
        unyank(channel, key, WHO)
    declared, _ = yank(channel, "amdgpu-arch-9.4.2-gfx942_declared_0.conda", "test", WHO)
    assert {k.split("/")[1] for k in declared.keys} == {"gfx942", "gfx942-rocm7.0", "gfx942-rocm7.2"}
    unyank(channel, "hip-demo ==0.1.0", WHO)
    needed = plan_yank(channel, "rocm-userspace ==7.2", "test", WHO)
    assert any("can no longer be installed: rocm-userspace ==7.2" in note for note in needed.notes)


def test_a_lock_that_names_nothing_is_an_error(channel: FolderStore, tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("nothing of interest")
    with pytest.raises(ChannelError, match="names no conda package"):
        yank(channel, key_of(channel, NEW), "why", WHO, locks=[tmp_path / "lock"])


# ---- prune


def test_prune_keeps_what_releases_locks_and_indexes_name(staging: Store, tmp_path: Path) -> None:
    now = staging.now()
    names = ("orphan", "locked")
    for name in names:
        path = tiny_package(tmp_path, name)
        staging.put_new(f"linux-64/{path.name}", path, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    yank(staging, f"hip-demo =={NEW}", "bad", WHO)
    lock = tmp_path / "pixi.lock"
    lock.write_text("- conda: https://elsewhere.example.com/linux-64/locked-1-0.conda\n  sha256: 12\n")
    assert not plan_prune(staging, locks=[lock]).gone, "too young"

    later = _Later(staging, now + 400 * 86400)
    made = plan_prune(later, locks=[lock])
    assert {g.key: g.why for g in made.gone if is_package(g.key)} == {
        "linux-64/orphan-1-0.conda": "is in no index"
    }
    kept = {g.key: g.kept for g in made.kept}
    assert kept.pop("linux-64/locked-1-0.conda") == f"{lock} names it"
    assert len(kept) == 4 and all(f"release {id_of(staging, NEW)} names it" == why for why in kept.values())
    before = content(staging)
    assert content(staging) == before

    staging.delete(f"releases/{id_of(staging, NEW)}.json")
    made, applied = prune(_Later(staging, now + 400 * 86400), WHO, locks=[lock])
    assert applied.changed
    assert sum(is_package(g.key) for g in made.gone) == 5
    assert [f for f in findings(staging) if "locked" not in f] == []
    assert staging.stat("linux-64/locked-1-0.conda")
    assert read_yanked(staging).entries == {}
    assert version_of(solve(on_disk(staging, tmp_path / "after"), "hip-demo")) == OLD
    assert not any(is_package(g.key) for g in plan_prune(later, locks=[lock]).gone)


class _Later:
    """A store whose clock is ahead."""

    def __init__(self, store: Store, now: float) -> None:
        self._store = store
        self._now = now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def now(self) -> float:
        return self._now


def test_superseded_builds_go_when_asked_for_and_nobody_needs_them(tmp_path: Path) -> None:
    from channel_tools.channel.folder import FolderChannel

    folder = FolderChannel(tmp_path / "channel")
    packages = [path for v in (OLD, NEW) for path in release(tmp_path / v, version=v, selection=v == OLD)]
    packages += [
        tiny_package(tmp_path, "tool", "1", "h1111111_0"),
        tiny_package(tmp_path, "tool", "2", "h2222222_0"),
    ]
    packages.append(
        tiny_package(tmp_path, "needs-old", "1", "0", depends=["hip-demo ==0.1.0 rocm70_gfx90a_*"])
    )
    folder.add(packages)
    store = FolderStore(folder.path)
    assert plan_prune(store).gone == ()
    gone = {g.key.rpartition("/")[2] for g in plan_prune(store, old_too=True).gone}
    assert {name.rsplit("-", 1)[0] for name in gone} == {"hip-demo-0.1.0", "tool-1"}
    assert len(gone) == 4, "the one that another package needs stays"
    prune(store, WHO, old_too=True)
    assert findings(store) == []
    assert version_of(solve(folder.path, "needs-old", arch="gfx90a", rocm="7.0")) == OLD
    assert plan_prune(store, old_too=True).gone == ()


def test_leftovers_go_and_young_files_stay(channel: FolderStore) -> None:
    name = "linux-64/" + key_of(channel, NEW).rpartition("/")[2]
    stale = channel.path / f"{name}.sigs.{'ab' * 32}"
    gone = channel.path / "linux-64" / "gone-1-0.conda.sigs"
    part = channel.path / "linux-64" / ".big-1-0.conda.abc.part"
    for path in (stale, gone, part):
        path.write_bytes(b"[]")
    assert {g.key for g in plan_prune(channel).gone} == {"linux-64/gone-1-0.conda.sigs"}
    for path in (stale, gone, part):
        os.utime(path, (1, 1))
    made, _ = prune(channel, WHO)
    assert {g.key for g in made.gone} == {f"{name}.sigs.{'ab' * 32}", "linux-64/gone-1-0.conda.sigs"}
    assert made.stray == ("linux-64/.big-1-0.conda.abc.part",)
    assert not any(path.exists() for path in (stale, gone, part))
    assert findings(channel) == []


# ---- audit


def test_a_channel_with_two_releases_is_whole(staging: Store) -> None:
    seen: list[str] = []
    result = audit(staging, progress=lambda key, size: seen.append(key))
    assert result.findings == []
    assert result.packages == len(seen) == len(set(seen)) > 12
    assert result.notes == []


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _edit(path: Path, change: Callable[[Any], None]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def _first(folder: Path, pattern: str) -> Path:
    return sorted(folder.glob(pattern))[0]


def _declared_in_main(folder: Path) -> None:
    from channel_tools.channel.transaction.apply import apply
    from channel_tools.channel.transaction.change import Addition, Change, SubdirChange

    file = _first(folder, "label/gfx942/linux-64/amdgpu*.conda")
    record = json.loads((file.parent / "repodata.json").read_text())["packages.conda"][file.name]
    addition = Addition(f"linux-64/{file.name}", file, record["sha256"], record["size"])
    change = Change("add", (addition,), {"linux-64": SubdirChange(add={file.name: record})})
    apply(FolderStore(folder), change, who=WHO)


def _package_in_label(folder: Path) -> None:
    from channel_tools.channel.transaction.apply import apply
    from channel_tools.channel.transaction.change import Addition, Change, SubdirChange

    file = _first(folder, "linux-64/hip-demo*.conda")
    record = json.loads((file.parent / "repodata.json").read_text())["packages.conda"][file.name]
    key = "label/gfx942/linux-64"
    addition = Addition(f"{key}/{file.name}", file, record["sha256"], record["size"])
    apply(
        FolderStore(folder), Change("add", (addition,), {key: SubdirChange(add={file.name: record})}), who=WHO
    )


FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a bit of a package flipped": (lambda f: _flip(_first(f, "linux-64/hip-demo*.conda")), "package"),
    "a package cut short": (
        lambda f: (p := _first(f, "linux-64/hip-demo*.conda")).write_bytes(p.read_bytes()[:-20]),
        "package",
    ),
    "a package gone": (lambda f: _first(f, "linux-64/hip-demo*.conda").unlink(), "package"),
    "a package in no index": (lambda f: tiny_package(f, "stranger"), "package"),
    "no package under a package's name": (
        lambda f: (f / "linux-64" / "x-1-0.conda").write_bytes(b"PK"),
        "package",
    ),
    "an index that cannot be read": (lambda f: (f / "linux-64/repodata.json").write_text("{"), "index"),
    "no index in json": (lambda f: (f / "linux-64/repodata.json").unlink(), "index"),
    "no index in zst": (lambda f: (f / "linux-64/repodata.json.zst").unlink(), "index"),
    "a damaged zst": (lambda f: _flip(f / "linux-64/repodata.json.zst"), "index"),
    "no shards": (lambda f: (f / "linux-64/repodata_shards.msgpack.zst").unlink(), "index"),
    "a shard gone": (lambda f: [p.unlink() for p in (f / "linux-64/shards").iterdir()], "index"),
    "a shard damaged": (lambda f: [_flip(p) for p in (f / "linux-64/shards").iterdir()], "index"),
    "no run exports": (lambda f: (f / "linux-64/run_exports.json").unlink(), "index"),
    "other run exports": (
        lambda f: _edit(
            f / "linux-64/run_exports.json",
            lambda d: next(iter(d["packages.conda"].values())).update(run_exports={"weak": ["x"]}),
        ),
        "index",
    ),
    "a record with another dependency": (
        lambda f: _edit(
            f / "linux-64/repodata.json",
            lambda d: next(r for k, r in d["packages.conda"].items() if "hip" in k).update(depends=[]),
        ),
        "record",
    ),
    "a record forgotten": (
        lambda f: _edit(
            f / "linux-64/repodata.json",
            lambda d: d["packages.conda"].pop(next(k for k in d["packages.conda"] if "hip" in k)),
        ),
        "release",
    ),
    "a yank that nobody recorded": (
        lambda f: _edit(
            f / "linux-64/repodata.json",
            lambda d: d["removed"].append(
                next(k for k in list(d["packages.conda"]) if "hip" in k and d["packages.conda"].pop(k))
            ),
        ),
        "yanked",
    ),
    "a reason for what is offered": (
        lambda f: (f / "yanked.json").write_bytes(
            Yanked({f"linux-64/{_first(f, 'linux-64/hip-demo*.conda').name}": {"reason": "x"}}).to_bytes()
        ),
        "yanked",
    ),
    "a label gone": (lambda f: shutil.rmtree(f / "label/gfx942-rocm7.2"), "label"),
    "a declared build in the main channel": (_declared_in_main, "label"),
    "a package in a label": (_package_in_label, "label"),
    "a manifest that cannot be read": (lambda f: _first(f, "releases/*.json").write_text("{}"), "index"),
    "a manifest of another file": (
        lambda f: _edit(_first(f, "releases/*.json"), lambda d: d["files"][0].update(sha256="0" * 64)),
        "release",
    ),
    "a manifest without verification": (
        lambda f: _edit(_first(f, "releases/*.json"), lambda d: [x.update(verify=None) for x in d["files"]]),
        "verify",
    ),
    "a package that failed verification": (
        lambda f: _edit(
            _first(f, "releases/*.json"), lambda d: d["files"][0]["verify"].update(verdict="fail")
        ),
        "verify",
    ),
    "a stale lease": (
        lambda f: (f / LEASE_KEY).write_text(
            json.dumps({"version": 1, "id": "x", "who": "a dead one", "since": 1, "until": 2})
        ),
        "control",
    ),
    "a journal": (
        lambda f: (f / ".channel/journal.json").write_text(
            json.dumps(
                {"id": "x", "action": "publish", "who": "a dead one", "started": "2026-11-30T00:00:00Z"}
            )
        ),
        "control",
    ),
    "what a transaction kept": (
        lambda f: ((f / ".channel/before/x").mkdir(parents=True), (f / ".channel/before/x/y").write_text("")),
        "control",
    ),
    "settings that cannot be read": (lambda f: (f / "channel.json").write_text("[]"), "index"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_audit_finds_each_fault_and_says_what_to_do(channel: FolderStore, fault: str) -> None:
    break_it, subject = FAULTS[fault]
    break_it(channel.path)
    found = audit(channel).findings
    assert subject in {finding.subject for finding in found}, [f.lines() for f in found]
    assert all(f.fix for f in found if f.subject != "verify"), [f for f in found if not f.fix]


class Snapshots(FolderStore):
    """Copies the channel after each write, as a publisher that is killed then leaves it."""

    def __init__(self, path: Path, into: Path) -> None:
        super().__init__(path)
        self.into = into
        self.taken: list[FolderStore] = []

    def _taken(self) -> None:
        copy = self.into / str(len(self.taken))
        shutil.copytree(self.path, copy)
        self.taken.append(FolderStore(copy))

    def put_new(self, key: str, content: bytes | Path, *, sha256: str, cache: str = "") -> bool:
        new = super().put_new(key, content, sha256=sha256, cache=cache)
        self._taken()
        return new

    def replace(self, key: str, content: bytes, *, expect: str | None, cache: str) -> str:
        etag = super().replace(key, content, expect=expect, cache=cache)
        self._taken()
        return etag

    def delete(self, key: str, *, expect: str | None = None) -> None:
        super().delete(key, expect=expect)
        self._taken()


def _publish_more(store: Store, folder: Path) -> None:
    packages = release(folder / "more", version="0.3.0", selection=False)
    assert Publisher(store, MATRIX, WHO).publish(packages).changed


@pytest.mark.parametrize(
    "change",
    [
        _publish_more,
        lambda store, folder: yank(store, f"hip-demo =={OLD}", "bad", WHO),
        lambda store, folder: (os.utime(tiny_package(store.path, "stranger"), (1, 1)), prune(store, WHO)),
    ],
    ids=["publish", "yank", "prune"],
)
def test_an_audit_of_a_killed_transaction_has_one_finding(
    channel: FolderStore, tmp_path: Path, change: Callable[[Store, Path], Any]
) -> None:
    store = Snapshots(channel.path, tmp_path / "taken")
    change(store, tmp_path)
    unfinished = [taken for taken in store.taken if taken.stat(JOURNAL_KEY) is not None]
    assert unfinished
    for taken in unfinished[:: max(1, len(unfinished) // 12)]:
        result = audit(taken)
        found = result.findings
        assert [f.key for f in found] == [JOURNAL_KEY], [f.lines() for f in found]
        assert "unfinished transaction" in found[0].what and "channel repair" in str(found[0].fix)
        assert result.notes == []


def test_what_a_journal_does_not_explain_is_found_also_while_a_journal_is_there(
    channel: FolderStore, tmp_path: Path
) -> None:
    store = Snapshots(channel.path, tmp_path / "taken")
    _publish_more(store, tmp_path)
    taken = next(t for t in reversed(store.taken) if t.stat(JOURNAL_KEY) is not None)
    file = _first(taken.path, "linux-64/hip-demo-0.3.0*.conda")
    _flip(file)
    tiny_package(taken.path, "stranger")
    found = {f.key for f in audit(taken).findings}
    assert {f"linux-64/{file.name}", "linux-64/stranger-1-0.conda"} <= found


def test_an_audit_demands_attestations_where_the_channel_does(channel: FolderStore) -> None:
    publishers = [{"identity": "ci@example.com", "issuer": "https://issuer.example.com"}]
    init_channel(channel, {"attestations": "require", "publishers": publishers}, who=WHO, change=True)
    result = audit(channel)
    assert {finding.subject for finding in result.findings} == {"attestation"}
    assert len(result.findings) == sum(len(i.records) for i in read_state(channel).indexes.values())
    init_channel(channel, {"attestations": "warn"}, who=WHO, change=True)
    result = audit(channel)
    assert result.findings == []
    assert len(result.notes) > 8


def test_an_audit_verifies_the_binaries_again_when_asked(channel: FolderStore) -> None:
    said: list[str] = []
    assert audit(channel, verify=said.append).findings == []
    assert len(said) == len({file.sha256 for r in read_releases(channel) for file in r.files})
    path = _first(channel.path, "releases/*.json")
    _edit(path, lambda d: d["files"][0]["verify"].update(targets=["gfx950"]))
    (finding,) = audit(channel, verify=said.append).findings
    assert finding.what == "holds code for other GPUs than its manifest records"


# ---- diff


def test_a_diff_names_what_each_channel_has_alone_and_what_differs(
    channel: FolderStore, tmp_path: Path
) -> None:
    other = filled(FolderStore(tmp_path / "other"), channel.path)
    assert isinstance(other, FolderStore)
    key = key_of(channel, NEW)
    yank(other, key, "bad", WHO)
    alone = key_of(channel, OLD, "rocm70_gfx90a")
    for file in ("repodata.json",):
        _edit(other.path / "linux-64" / file, lambda d: d["packages.conda"].pop(alone.rpartition("/")[2]))
    changed = key_of(channel, OLD, "rocm70_gfx942")
    _edit(
        other.path / "linux-64/repodata.json",
        lambda d: d["packages.conda"][changed.rpartition("/")[2]].update(sha256="0" * 64),
    )
    found = compare(channel, other)
    assert {(d.key, d.kind, d.arch) for d in found.differences} == {
        (key, "yanked", "gfx942"),
        (alone, "only", "gfx90a"),
        (changed, "content", "gfx942"),
    }
    assert [d.key for d in compare(channel, other, "gfx90a").differences] == [alone]
    assert list(found.by_arch()) == ["gfx90a", "gfx942", "any arch"]
    back = {(d.key, d.a, d.b) for d in compare(other, channel).differences}
    assert (alone, None, next(d.a for d in found.differences if d.key == alone)) in back


# ---- command line


def test_the_commands_as_an_operator_gives_them(channel: FolderStore, tmp_path: Path) -> None:
    target = tmp_path / "production"
    answer(rocm_channel("channel", "init", target, "--url", f"{URL}internal", "--json"))
    release_id = id_of(channel, OLD)
    words = ("promote", channel.path, target, "--release", release_id, "--json")
    assert answer(rocm_channel(*words, "--dry-run"))["changed"]
    assert not (target / "releases").exists()
    assert answer(rocm_channel(*words))["release"]["promoted_from"]["release"] == release_id
    assert not answer(rocm_channel(*words))["changed"]

    difference = rocm_channel("diff", channel.path, target)
    assert difference.returncode == 0
    assert f"  - {key_of(channel, NEW)}" in difference.stdout

    key = key_of(channel, NEW)
    dry = answer(rocm_channel("yank", channel.path, key, "--reason", "bad", "--dry-run", "--json"))
    assert dry["keys"] == [key] and read_yanked(channel).entries == {}
    assert answer(rocm_channel("yank", channel.path, key, "--reason", "bad", "--json"))["keys"] == [key]
    assert rocm_channel("yank", channel.path, key, "--reason", "bad").returncode == 40
    assert answer(rocm_channel("unyank", channel.path, key, "--json"))["keys"] == [key]

    tiny_package(channel.path, "orphan")
    os.utime(channel.path / "linux-64/orphan-1-0.conda", (1, 1))
    found = rocm_channel("audit", channel.path)
    assert found.returncode == 45
    assert "is a package that no index lists" in found.stdout and "one thing differs" in found.stderr
    assert (
        json.loads(rocm_channel("audit", channel.path, "--json").stdout)["findings"][0]["subject"]
        == "package"
    )
    said = rocm_channel("prune", channel.path)
    assert "would go: linux-64/orphan-1-0.conda (is in no index)" in said.stdout
    assert (channel.path / "linux-64/orphan-1-0.conda").exists()
    assert answer(rocm_channel("prune", channel.path, "--yes", "--json"))["gone"][0]["key"].endswith(
        "orphan-1-0.conda"
    )
    whole = rocm_channel("audit", channel.path)
    assert whole.returncode == 0 and "everything agrees" in whole.stdout
    assert rocm_channel("prune", channel.path, "--yes", "--dry-run").returncode == 2
    nowhere = rocm_channel("audit", tmp_path / "nowhere")
    assert nowhere.returncode == 40 and "no channel is here" in nowhere.stderr
