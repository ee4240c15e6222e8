"""`rocm-channel mirror`: the exact files of locks, where downloads break off and sources are wrong."""
# ruff: noqa: F811 (fixtures of another module)

from __future__ import annotations

import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channel_tools.channel.index.encoding import read_index
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.client.locks.lock_files import read_lock_file
from channel_tools.client.mirroring import fetch as mirror_fetch
from channel_tools.client.mirroring.fetch_tasks import OVERLAP, ChangedError, Part
from channel_tools.client.mirroring.mirror import mirror
from channel_tools.model.errors import ChannelError, LockError, StorageError
from tests.integration.helpers import rocm_channel
from tests.integration.mirror_world import KEY, all_of, big, run, site, world  # noqa: F401
from tests.integration.pin_channels import (
    BIG,
    Server,
)
from tests.integration.s3 import S3Server, s3_server  # noqa: F401

# -- what breaks off goes on


def test_a_download_that_breaks_off_goes_on(
    world: tuple[Server, Path], site: tuple[Path, Path], tmp_path: Path
) -> None:
    server, pins = world
    name = big(site[0])
    server.cuts[name] = [1_000_000, 900_000, 700_000]
    run(tmp_path / "m", pins / KEY / "explicit.txt")
    ranges = [wanted for path, wanted in server.packages() if path.endswith(name)]
    assert ranges[0] is None and len(ranges) == 4 and None not in ranges[1:]
    assert server.sent < BIG + 400_000
    assert (tmp_path / "m/internal/linux-64" / name).read_bytes() == (
        site[0] / "internal/linux-64" / name
    ).read_bytes()


@pytest.mark.parametrize("ranges", [True, False])
def test_a_second_run_goes_on_where_the_first_ended(
    world: tuple[Server, Path], site: tuple[Path, Path], tmp_path: Path, ranges: bool
) -> None:
    server, pins = world
    name = big(site[0])
    server.ranges = ranges
    server.cuts[name] = [1_500_000, *[0] * 20] if ranges else [1_500_000] * 20
    with pytest.raises(ChannelError, match="11 are there and indexed") as caught:
        run(tmp_path / "m", pins / KEY / "explicit.txt")
    assert name in str(caught.value)
    (part,) = (tmp_path / "m" / ".parts").rglob("*.part")
    assert part.stat().st_size == 1_500_000
    index = read_index(FolderStore(tmp_path / "m" / "internal"), "linux-64")
    assert name not in index.records and len(index.records) == 3
    assert not (tmp_path / "m" / "locks").exists()
    server.cuts.clear()
    before = server.sent
    told = run(tmp_path / "m", pins / KEY / "explicit.txt")
    assert len(told.fetched) == 1
    assert server.sent - before < (BIG - 1_300_000 if ranges else BIG + 10_000)
    assert not list((tmp_path / "m").rglob("*.part"))


def test_an_interrupted_run_keeps_what_it_has(
    world: tuple[Server, Path], site: tuple[Path, Path], tmp_path: Path
) -> None:
    server, pins = world
    name = big(site[0])
    server.slow.add(name)
    to = tmp_path / "m"
    words = [
        sys.executable,
        "-m",
        "channel_tools",
        "mirror",
        str(pins / KEY / "explicit.txt"),
        "--to",
        str(to),
    ]
    running = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        parts = list(to.rglob(f"{name}.part"))
        if parts and parts[0].stat().st_size > 1_000_000:
            break
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=20)
    assert running.returncode == 130, told
    assert (to / "conda-forge" / "linux-64" / "repodata.json").is_file()
    server.slow.clear()
    asked = len(server.packages())
    run(to, pins / KEY / "explicit.txt")
    later = server.packages()[asked:]
    assert next(wanted for path, wanted in later if path.endswith(name)) is not None
    assert not any("conda-forge" in path for path, _ in later)


def test_a_run_that_fails_keeps_the_folders_for_the_next(
    world: tuple[Server, Path], site: tuple[Path, Path], tmp_path: Path
) -> None:
    """Else a channel of the same name would get the folder, and two would be mixed."""
    server, pins = world
    (site[0] / "other").mkdir(exist_ok=True)
    if not (site[0] / "other/internal").exists():
        (site[0] / "other/internal").symlink_to(site[0] / "internal")
    elsewhere = tmp_path / "elsewhere.txt"
    text = (pins / KEY / "explicit.txt").read_text()
    elsewhere.write_text(text.replace("/internal", "/other/internal"))
    server.gone.add(big(site[0]))
    with pytest.raises(ChannelError, match="could not be mirrored"):
        run(tmp_path / "m", elsewhere)
    server.gone.clear()
    told = run(tmp_path / "m", pins / KEY / "explicit.txt", elsewhere)
    folders = {source.url: source.folder for source in told.plan.sources}
    assert folders[f"{server.url}/other/internal"] == "internal"
    assert len(set(folders.values())) == len(folders) == 3


def test_a_channel_called_as_the_folder_of_locks_gets_another_one(
    world: tuple[Server, Path], site: tuple[Path, Path], tmp_path: Path
) -> None:
    _, pins = world
    for name in ("locks", "mirror.json"):
        if not (site[0] / name).exists():
            (site[0] / name).symlink_to(site[0] / "conda-forge")
        lock = tmp_path / f"{name}.txt"
        lock.write_text((pins / KEY / "explicit.txt").read_text().replace("/conda-forge", f"/{name}"))
        run(tmp_path / "m", lock)
    assert {path.name for path in (tmp_path / "m/locks").iterdir()} == {"locks.txt", "mirror.json.txt"}
    assert (tmp_path / "m/mirror.json").is_file()


def test_a_file_of_the_mirror_that_was_cut_is_told_with_the_way_out(
    world: tuple[Server, Path], site: tuple[Path, Path], tmp_path: Path
) -> None:
    _, pins = world
    run(tmp_path / "m", pins / KEY / "explicit.txt")
    cut = tmp_path / "m/internal/linux-64" / big(site[0])
    cut.chmod(0o644)
    cut.write_bytes(cut.read_bytes()[:1000])
    other = next((tmp_path / "m/conda-forge/linux-64").glob("zlib-*.conda"))
    other.unlink()
    with pytest.raises(ChannelError, match="1 files could not be mirrored") as error:
        run(tmp_path / "m", pins / KEY / "explicit.txt")
    assert str(cut) in str(error.value) and "remove it" in str(error.value)
    assert other.is_file(), "the others are fetched all the same"
    cut.unlink()
    run(tmp_path / "m", pins / KEY / "explicit.txt")
    assert cut.read_bytes() == (site[0] / "internal/linux-64" / cut.name).read_bytes()


def test_a_server_that_falls_silent_is_asked_again(
    world: tuple[Server, Path], site: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, pins = world
    name = big(site[0])
    server.slow.add(name)
    monkeypatch.setattr(mirror_fetch, "STALL_S", 0.3)
    run(tmp_path / "m", pins / KEY / "explicit.txt")
    ranges = [wanted for path, wanted in server.packages() if path.endswith(name)]
    assert ranges[0] is None and None not in ranges[1:]


def test_a_part_of_another_file_is_thrown_away(
    world: tuple[Server, Path], site: tuple[Path, Path], tmp_path: Path
) -> None:
    server, pins = world
    name = big(site[0])
    server.wrong[name] = bytes(BIG)
    server.cuts[name] = [1_000_000, *[0] * 20]
    with pytest.raises(ChannelError):
        run(tmp_path / "m", pins / KEY / "explicit.txt")
    server.wrong.clear()
    server.cuts.clear()
    run(tmp_path / "m", pins / KEY / "explicit.txt")
    assert not list((tmp_path / "m").rglob("*.part"))


# -- what the source gets wrong


def test_wrong_content_and_missing_files(
    world: tuple[Server, Path], site: tuple[Path, Path], tmp_path: Path
) -> None:
    server, pins = world
    server.wrong["zlib-1.3-h0_0.conda"] = (
        site[0] / "conda-forge/linux-64/numpy-2.0-py312_0.conda"
    ).read_bytes()
    server.gone.add("tzdata-2026-0.conda")
    done = rocm_channel("mirror", pins / KEY / "explicit.txt", "--to", tmp_path / "m")
    assert done.returncode == 40
    assert done.stderr.count("error:") == 1
    for sign in ("2 files could not be mirrored", "zlib-1.3-h0_0.conda: ", "404", "tzdata"):
        assert sign in done.stderr
    assert not list((tmp_path / "m").rglob("zlib*"))
    assert (
        "numpy-2.0-py312_0.conda" in read_index(FolderStore(tmp_path / "m/conda-forge"), "linux-64").records
    )
    server.wrong.clear()
    server.gone.clear()
    told = run(tmp_path / "m", pins / KEY / "explicit.txt")
    assert len(told.fetched) == 2


def test_other_content_in_the_mirror_is_never_replaced(world: tuple[Server, Path], tmp_path: Path) -> None:
    _, pins = world
    lock = pins / KEY / "explicit.txt"
    run(tmp_path / "m", lock)
    sha = next(one.sha256 for one in read_lock_file(lock).packages if one.name == "zlib")
    lock.write_text(lock.read_text().replace(str(sha), "0" * 64))
    with pytest.raises(ChannelError, match="other content"):
        run(tmp_path / "m", lock)


@pytest.mark.parametrize(
    "text",
    [
        "@EXPLICIT\nhttp://h/c/osx-64/a-1-0.conda\n",
        f"@EXPLICIT\nhttp://h/c/noarch/a-1-0.conda#{'0' * 64}\nhttp://h/c/noarch/a-1-0.conda#{'1' * 64}\n",
        "name: x\nchannels: [c]\ndependencies: [a=1=0]\n",
    ],
)
def test_locks_that_cannot_be_mirrored(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    with pytest.raises(LockError):
        mirror([read_lock_file(tmp_path / "lock")], str(tmp_path / "m"))
    assert not (tmp_path / "m").exists()


def test_a_lock_that_is_given_twice_is_one(world: tuple[Server, Path], tmp_path: Path) -> None:
    lock = world[1] / KEY / "explicit.txt"
    linked = tmp_path / "linked.txt"
    linked.symlink_to(lock)
    assert run(tmp_path / "m", lock, lock, linked).locks == ("locks/explicit.txt",)


@pytest.mark.parametrize("name", ["internal", "conda-forge"])
def test_a_channel_that_is_no_mirror_is_left_alone(
    world: tuple[Server, Path], site: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    """Were it the very one that is mirrored, its settings and index would be written anew."""
    _, pins = world
    shutil.copytree(site[0] / name, tmp_path / "m" / name)
    before = {path: path.read_bytes() for path in (tmp_path / "m").rglob("*") if path.is_file()}
    with pytest.raises(ChannelError, match="is a channel already") as error:
        run(tmp_path / "m", pins / KEY / "explicit.txt")
    assert str(tmp_path / "m" / name) in str(error.value)
    assert {path: path.read_bytes() for path in (tmp_path / "m").rglob("*") if path.is_file()} == before


def test_a_cache_that_cannot_be_written_does_not_make_a_smaller_mirror(
    world: tuple[Server, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without indexes, records are made from files, and what chooses GPU and release is missed."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    with pytest.raises(StorageError, match="the cache of py-rattler"):
        run(tmp_path / "m", world[1] / "pixi.lock")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("name", ["internal", "conda-forge"])
def test_a_mirror_is_not_put_into_a_channel(
    world: tuple[Server, Path], site: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    _, pins = world
    channel = shutil.copytree(site[0] / name, tmp_path / name)
    (channel / "channel.json").unlink()  # as of a channel of another program
    before = sorted(channel.rglob("*"))
    with pytest.raises(ChannelError, match="is a channel already"):
        run(channel, pins / KEY / "explicit.txt")
    assert sorted(channel.rglob("*")) == before


@pytest.mark.parametrize("folder", ["..", "../x", "/x", "", ".channel", "a/b"])
def test_a_list_of_channels_that_leads_elsewhere_is_refused(
    world: tuple[Server, Path], tmp_path: Path, folder: str
) -> None:
    server, pins = world
    (tmp_path / "m").mkdir()
    listed = {"version": 1, "channels": {f"{server.url}/internal": folder}}
    (tmp_path / "m/mirror.json").write_text(json.dumps(listed))
    with pytest.raises(LockError, match="is no list"):
        run(tmp_path / "m", pins / KEY / "explicit.txt")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and "pins" not in path.parts] == [
        "mirror.json"
    ]


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(0, 3 * OVERLAP),
    begun=st.integers(0, 3 * OVERLAP),
    heeded=st.booleans(),
    pieces=st.lists(st.integers(1, OVERLAP), max_size=6),
    kind=st.sampled_from(["noise", "zeros"]),
)
def test_what_was_begun_and_what_comes_make_the_file(
    tmp_path_factory: pytest.TempPathFactory,
    size: int,
    begun: int,
    heeded: bool,
    pieces: list[int],
    kind: str,
) -> None:
    """However the answer is cut, and whether or not ``Range`` is heeded: it is the file, or refused."""
    content = random.Random(size).randbytes(size) if kind == "noise" else bytes(size)
    path = tmp_path_factory.getbasetemp() / "part"
    path.write_bytes(content[:begun])
    part = Part(path, size)
    start = part.open()
    answer = content[start:] if heeded and start else content
    try:
        for piece in pieces:
            part.write(answer[:piece])
            answer = answer[piece:]
        part.write(answer)
    except ChangedError:
        assert kind == "zeros" and not heeded  # a whole answer that looks like the rest: too long, begun anew
        return
    finally:
        part.close()
    assert path.read_bytes() == content
    assert part.digest.hexdigest() == hashlib.sha256(content).hexdigest()
