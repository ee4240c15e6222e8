"""The index files before other people's programs: py-rattler reads them in each form, conda-index and
py-rattler's indexer make the same records from a copy of the channel."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from channel_tools import rattler_process
from channel_tools.channel.index.encoding import SubdirIndex, changed, encode, read_index
from channel_tools.channel.index.records import record_of
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.transaction.change import Record, SubdirChange
from tests.integration.conda_index_program import conda_index
from tests.integration.tiny_packages import release, tiny_package
from tests.unit.memory_store import switch
from tests.unit.web import listening

ROOT = Path(__file__).resolve().parents[2]
SUBDIRS = ("linux-64", "noarch")
FORMS = {
    "json": ("repodata.json",),
    "zst": ("repodata.json.zst",),
    "shards": ("repodata_shards.msgpack.zst", "shards"),
    "all": ("repodata.json", "repodata.json.zst", "repodata_shards.msgpack.zst", "shards"),
}
YANKED = "tool-2-0.conda"
HISTORY: dict[str, SubdirChange | None] = {
    "added": None,
    "yanked": SubdirChange(yank=frozenset({YANKED, "old-1-0.tar.bz2"})),
    "all of a name yanked": SubdirChange(yank=frozenset({"single-1-0.conda"})),
    "unyanked": SubdirChange(),
    "dropped": SubdirChange(drop=frozenset({"tool-1-0.conda", "old-1-0.tar.bz2"})),
}


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A copy of one channel folder after each step of its history."""
    folder = tmp_path_factory.mktemp("states")
    channel = folder / "channel"
    paths = [path for path in release(channel) if "declared" not in path.name]
    for other in channel.glob("linux-64/*declared*"):
        other.unlink()
    exports = {"weak": ["tool 1.*"], "strong_constrains": ["x <2"], "noarch": ["tool"]}
    paths += [
        tiny_package(channel, "tool", "1", run_exports=exports),
        tiny_package(channel, "tool", "2", depends=["dep >=1"], constrains=["old <2"]),
        tiny_package(channel, "dep", "1", subdir="noarch"),
        tiny_package(channel, "old", "1", suffix=".tar.bz2", run_exports={"strong": ["old"]}),
        tiny_package(channel, "single", "1"),
    ]
    bundles = b'[{"x": 1}]'
    for suffix in (".sigs", f".sigs.{hashlib.sha256(bundles).hexdigest()}"):
        channel.joinpath(f"linux-64/single-1-0.conda{suffix}").write_bytes(bundles)
    store = FolderStore(channel)
    found: dict[str, Path] = {}
    yanked: dict[str, Record] = {}
    for step, change in HISTORY.items():
        for subdir in SUBDIRS:
            index = read_index(store, subdir)
            if step == "added":
                change = SubdirChange(add={p.name: _record(p) for p in paths if p.parent.name == subdir})
            elif subdir == "noarch":
                continue
            elif step == "unyanked":
                change = SubdirChange(unyank={YANKED: yanked[YANKED]})
            assert change is not None
            yanked |= {file: index.records[file] for file in change.yank}
            if step == "dropped":
                for file in change.drop:
                    (channel / subdir / file).unlink()
            new = changed(index, change)
            encoded = encode(store, index, new)
            switch(store, encoded.shards, encoded.files)
        found[step] = shutil.copytree(channel, folder / step)
    return found


def _record(path: Path) -> Record:
    """As publish makes it: with the digest of the attestations, where there are any."""
    record = record_of(path)
    bundles = path.with_name(f"{path.name}.sigs")
    if bundles.exists():
        record["attestations_sha256"] = hashlib.sha256(bundles.read_bytes()).hexdigest()
    return record


@dataclass
class Site:
    """A web server for one folder; ``asked`` has the paths that it had."""

    address: str
    folder: Path
    asked: list[str] = field(default_factory=list)

    def offer(self, channel: Path, form: str) -> None:
        """Have the packages and this form of the index there, and nothing else."""
        shutil.rmtree(self.folder)
        for path in channel.glob("*/*"):
            if path.name in FORMS[form] or path.name.endswith((".conda", ".tar.bz2")):
                target = self.folder / path.relative_to(channel)
                target.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if path.is_dir() else shutil.copy)(path, target)
        self.asked.clear()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "site"
    folder.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, directory=str(folder), **more)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Nothing on the terminal."""

        def send_head(self) -> Any:
            if Path(self.translate_path(self.path)).is_file() and self.command == "GET":
                served.asked.append(self.path)
            return super().send_head()

    with listening(Handler) as address:
        served = Site(address, folder)
        yield served


def seen(channel: str, names: list[str], spec: str = "tool") -> dict[str, Any]:
    """What py-rattler reads there."""
    payload = {"channel": channel, "names": names, "specs": [spec], "platforms": list(SUBDIRS)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.gateway_reader"],
        input=json.dumps(payload),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def whole(channel: Path) -> dict[str, SubdirIndex]:
    return {subdir: read_index(FolderStore(channel), subdir) for subdir in SUBDIRS}


def plain(records: Mapping[str, Record], *less: str) -> dict[str, Record]:
    """Records without empty fields and without those named."""
    return {
        file: {
            name: value for name, value in record.items() if value not in (None, [], {}) and name not in less
        }
        for file, record in records.items()
    }


@pytest.mark.parametrize("step", HISTORY)
def test_rattler_sees_the_same_in_each_form(states: dict[str, Path], site: Site, step: str) -> None:
    channel = states[step]
    indexes = whole(channel)
    ours = {file: record for index in indexes.values() for file, record in index.records.items()}
    names = sorted({record["name"] for record in ours.values()} | {"old", "single", "tool"})
    for form in FORMS:
        site.offer(channel, form)
        found = seen(site.address, names)
        assert plain(found["records"], "fn", "url", "channel") == plain(ours), form
        assert found["removed"] == sorted(indexes["linux-64"].removed), form
        newest = "tool-1-0.conda" if YANKED in indexes["linux-64"].removed else YANKED
        expected = [newest] if newest == "tool-1-0.conda" else ["dep-1-0.conda", newest]
        assert found["solution"] == expected, form
        wanted = "shards" if form == "all" else form
        assert {path.split("/")[2] for path in site.asked} == set(FORMS[wanted]), form
    assert seen(channel.as_uri(), names)["records"].keys() == ours.keys()


@pytest.mark.parametrize("step", HISTORY)
def test_conda_index_makes_the_same_of_a_copy(states: dict[str, Path], tmp_path: Path, step: str) -> None:
    copy = shutil.copytree(states[step], tmp_path / "copy")
    for subdir in SUBDIRS:
        for path in [*(copy / subdir).glob("repodata*"), copy / subdir / "run_exports.json"]:
            path.unlink()
    conda_index(copy, "--run-exports", "--zst")
    for subdir, ours in whole(states[step]).items():
        theirs = json.loads((copy / subdir / "repodata.json").read_text())
        # conda-index drops arch and platform, keeps run exports apart, and does not know the others
        less = ("arch", "platform", "indexed_timestamp", "run_exports", "attestations_sha256")
        assert plain(theirs["packages"] | theirs["packages.conda"]) == plain(ours.records, *less)
        assert theirs["removed"] == sorted(ours.removed)
        assert theirs["info"] == {"subdir": subdir}
        exports = json.loads((copy / subdir / "run_exports.json").read_text())
        assert json.loads((states[step] / subdir / "run_exports.json").read_text()) == exports


@pytest.mark.parametrize("step", HISTORY)
@pytest.mark.parametrize("force", [False, True])
def test_rattler_index_makes_the_same_of_a_copy(
    states: dict[str, Path], tmp_path: Path, step: str, force: bool
) -> None:
    copy = shutil.copytree(states[step], tmp_path / "copy")
    rattler_process.call("index", {"channels": [str(copy)], "force": force})
    for subdir, ours in whole(states[step]).items():
        theirs = read_index(FolderStore(copy), subdir)
        # It knows no patch instructions without a package that has them, so a yanked build comes back.
        back = {file: record for file, record in theirs.records.items() if file in ours.removed}
        assert back.keys() == ours.removed
        same = {file: record for file, record in theirs.records.items() if file not in back}
        less = ("indexed_timestamp",) if force else ()
        expected = plain(ours.records, *less)
        if force and "old-1-0.tar.bz2" in expected:
            # It looks for run exports in .conda files only.
            del expected["old-1-0.tar.bz2"]["run_exports"]
        assert plain(same, *less) == expected


def test_a_channel_of_rattler_and_one_of_conda_index_are_taken_over(
    states: dict[str, Path], tmp_path: Path, site: Site
) -> None:
    for tool in ("rattler", "conda-index"):
        copy = shutil.copytree(states["added"], tmp_path / tool)
        for subdir in SUBDIRS:
            for path in [*(copy / subdir).glob("repodata*"), copy / subdir / "run_exports.json"]:
                path.unlink()
            shutil.rmtree(copy / subdir / "shards")
        if tool == "rattler":
            rattler_process.call("index", {"channels": [str(copy)], "force": True})
        else:
            conda_index(copy, "--zst", "--write-shards", "--run-exports")
        store = FolderStore(copy)
        old = read_index(store, "linux-64")
        assert old.records.keys() == whole(states["added"])["linux-64"].records.keys()
        extra = tiny_package(copy, "extra")
        new = changed(old, SubdirChange(add={extra.name: record_of(extra)}))
        encoded = encode(store, old, new)
        assert len(encoded.shards) == (
            1 if tool == "rattler" else len({r["name"] for r in new.records.values()})
        )
        switch(store, encoded.shards, encoded.files)
        noarch = read_index(store, "noarch")
        encoded = encode(store, noarch, noarch)
        switch(store, encoded.shards, encoded.files)
        exports = json.loads((copy / "linux-64/run_exports.json").read_text())
        before = json.loads((states["added"] / "linux-64/run_exports.json").read_text())
        before["packages.conda"][extra.name] = {"run_exports": {}}
        if tool == "rattler":
            # It did not look into that one, so nothing is said about it.
            del before["packages"]["old-1-0.tar.bz2"]
        assert exports == before
        site.offer(copy, "shards")
        found = seen(site.address, sorted({record["name"] for record in new.records.values()}))
        sizes = {file: record["size"] for file, record in new.records.items()}
        assert {file: record["size"] for file, record in found["records"].items()} == sizes
