"""`rocm-channel mirror`: the exact files of locks, enough for a site without a network."""
# ruff: noqa: F811 (fixtures of another module)

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from channel_tools.channel.attestations.sidecar import sigs_additions
from channel_tools.channel.care.audit import audit
from channel_tools.channel.care.yank import yank
from channel_tools.channel.care.yanked import read_yanked
from channel_tools.channel.index.encoding import read_index
from channel_tools.channel.settings import Settings, read_settings
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.opening import open_store
from channel_tools.channel.transaction.apply import apply
from channel_tools.channel.transaction.change import Change, SubdirChange
from channel_tools.client.locks.lock_files import read_lock, read_lock_file
from channel_tools.client.mirroring.mirror import mirror
from channel_tools.model.errors import ChannelError
from tests.integration.helpers import answer, rocm_channel
from tests.integration.mirror_world import KEY, all_of, big, run, site, world  # noqa: F401
from tests.integration.pin_channels import (
    NO_GPU,
    Server,
    environment_yml,
    installed,
    make_channel,
)
from tests.integration.s3 import S3Server, s3_server  # noqa: F401
from tests.integration.tiny_packages import tiny_package

ALONE = subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0


def alone(*words: object) -> subprocess.CompletedProcess[str]:
    """Run ``rocm-channel`` where there is no network at all."""
    return subprocess.run(
        ["unshare", "-n", sys.executable, "-m", "channel_tools", *map(str, words)],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **NO_GPU},
        capture_output=True,
        text=True,
        check=False,
    )


ONE = 8 + 4
"""Files of one GPU's environment, with the builds of amdgpu-arch and rocm-userspace that come along."""

BOTH = 12 + 6

# -- must show 4: install with the network cut off


@pytest.mark.skipif(not ALONE, reason="no network namespace can be made here")
def test_mirror_then_install_without_a_network(
    world: tuple[Server, Path], site: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, pins = world
    lock = pins / KEY / "explicit.txt"
    done = rocm_channel("install", "--file", lock, "--prefix", tmp_path / "first", **NO_GPU)
    assert done.returncode == 0, done.stderr
    first = installed(tmp_path / "first")
    told = run(tmp_path / "mirror", *all_of(pins))
    assert len(told.fetched) == BOTH
    shutil.rmtree(pins)
    monkeypatch.setattr(server, "gone", {path.name for path in site[0].rglob("*.conda")})
    cache = tmp_path / "no-cache"
    locks = tmp_path / "mirror" / "locks"
    for number, words in enumerate(
        [
            ("--file", locks / KEY / "explicit.txt"),
            ("--file", locks / KEY / "conda-lock.yml"),
            ("--file", locks / "pixi.lock", "--arch", "gfx942"),
            (
                *("vllm-rocm=0.26.0", "rocm-canary", "--channel", tmp_path / "mirror" / "internal"),
                *("-c", tmp_path / "mirror" / "conda-forge", "--arch", "gfx942", "--rocm", "7.2"),
            ),
        ]
    ):
        prefix = tmp_path / f"env{number}"
        monkeypatch.setenv("RATTLER_CACHE_DIR", str(cache))
        done = alone("install", *words, "--prefix", prefix)
        assert done.returncode == 0, done.stderr
        assert installed(prefix) == first
    done = alone("pin", "--check", *all_of(locks))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": holds") == 8
    urls = [(tmp_path / "mirror" / name).as_uri() for name in ("internal", "conda-forge")]
    file = environment_yml(tmp_path / "environment.yml", urls)
    for words in (("--arch", "gfx942", "--rocm", "7.2"), ("--update", "zlib", "--rocm", "7.2")):
        done = alone("pin", file, *words)
        assert done.returncode == 0, done.stderr
    assert "stays at 1.3" in done.stderr
    new, old = (read_lock(path, "gfx942") for path in (tmp_path / "pinned/pixi.lock", locks / "pixi.lock"))
    assert sorted(new) == sorted(old)


def test_mirror_is_a_channel_that_agrees_with_itself(world: tuple[Server, Path], tmp_path: Path) -> None:
    _, pins = world
    run(tmp_path / "m", *all_of(pins))
    for name in ("internal", "conda-forge"):
        assert not audit(FolderStore(tmp_path / "m" / name)).findings
    forge_index = read_index(FolderStore(tmp_path / "m" / "conda-forge"), "linux-64")
    assert set(forge_index.records) == {
        "python-3.12.9-0_cpython.conda",
        "zlib-1.3-h0_0.conda",
        "numpy-2.0-py312_0.conda",
    }
    assert not list((tmp_path / "m").rglob("*.part"))
    assert not (tmp_path / "m" / ".parts").exists()


def test_dependency_channels_are_those_of_the_mirror_where_it_has_them(
    world: tuple[Server, Path], tmp_path: Path
) -> None:
    """A line that `rocm-channel arch` prints at the mirror must not lead off the site."""
    server, pins = world
    elsewhere = "https://other.example.com/x"
    settings = Settings(toolchain="conda", dependency_channels=(f"{server.url}/conda-forge/", elsewhere))
    server.wrong["channel.json"] = settings.to_bytes()
    to = tmp_path / "m"
    for locks in ([pins / KEY / "explicit.txt"], [pins / "pixi.lock"]):
        run(to, *locks)
        found = read_settings(FolderStore(to / "internal"))
        assert found is not None
        assert found.dependency_channels == ((to / "conda-forge").as_uri(), elsewhere)
        assert found.toolchain == "conda"
    run(tmp_path / "copied", pins / "pixi.lock", url="https://site.example.com/conda")
    found = read_settings(FolderStore(tmp_path / "copied" / "internal"))
    assert found is not None
    assert found.dependency_channels == ("https://site.example.com/conda/conda-forge", elsewhere)


def test_nothing_is_fetched_twice(world: tuple[Server, Path], tmp_path: Path) -> None:
    server, pins = world
    to = tmp_path / "m"
    told = answer(rocm_channel("mirror", pins / KEY / "explicit.txt", "--to", to, "--dry-run", "--json"))
    assert (len(told["missing"]), told["present"], to.exists()) == (ONE, 0, False)
    assert server.packages() == []
    run(to, pins / KEY / "explicit.txt")
    assert len(server.packages()) == ONE
    told = run(to, pins / "pixi.lock")
    assert (len(told.fetched), len(told.present)) == (BOTH - ONE, ONE)
    told = run(to, *all_of(pins), url="https://host/m")
    assert told.fetched == ()
    assert len(server.packages()) == BOTH
    for path in all_of(to / "locks"):
        text = path.read_text()
        assert server.url not in text
        assert "https://host/m/internal/label/gfx" in text
        read_lock_file(path)


# -- what goes along


def explicit_of(store: FolderStore, path: Path) -> Path:
    urls = [
        f"{store.path.as_uri()}/{key}/{file}#{record['sha256']}"
        for key in ("linux-64", "noarch")
        for file, record in read_index(store, key).records.items()
    ]
    path.write_text("\n".join(["@EXPLICIT", *urls, ""]))
    return path


def test_attestations_patches_and_yanks_go_along(tmp_path: Path) -> None:
    packages = [tiny_package(tmp_path / "built", name, depends=["zlib"]) for name in ("a", "b", "c")]
    store = make_channel(tmp_path / "source", packages)
    lock = explicit_of(store, tmp_path / "lock.txt")
    key = "linux-64/a-1-0.conda"
    addition, (alias, replacement), digest = sigs_additions(key, b'[{"bundle": 1}]')
    index = read_index(store, "linux-64").records
    patched = {
        "a-1-0.conda": {**index["a-1-0.conda"], "attestations_sha256": digest},
        "b-1-0.conda": {**index["b-1-0.conda"], "depends": ["zlib <2"], "constrains": ["x >3"]},
    }
    change = Change("add", (addition,), {"linux-64": SubdirChange(add=patched)}, {alias: replacement})
    apply(store, change, who="test")
    yank(store, "c-1-0.conda", "it deletes files", "me")
    to = tmp_path / "m"
    for _ in range(2):
        done = mirror([read_lock_file(lock)], str(to))
        made = FolderStore(to / "source")
        records = read_index(made, "linux-64")
        assert records.records["b-1-0.conda"]["depends"] == ["zlib <2"]
        assert records.records["b-1-0.conda"]["constrains"] == ["x >3"]
        assert made.read(f"{key}.sigs.{digest}") == made.read(f"{key}.sigs") == b'[{"bundle": 1}]'
        assert records.removed == {"c-1-0.conda"}
        assert made.stat("linux-64/c-1-0.conda") is not None
        assert read_yanked(made).reason("linux-64/c-1-0.conda") == "it deletes files"
    assert len(done.present) == 3
    yank(store, "b-1-0.conda", "also", "me")
    mirror([read_lock_file(lock)], str(to))
    assert read_index(made, "linux-64").removed == {"b-1-0.conda", "c-1-0.conda"}
    found = rocm_channel("pin", "--check", to / "locks" / "lock.txt", **NO_GPU)
    assert found.returncode == 52
    assert "it deletes files" in found.stdout


def test_a_missing_attestation_is_an_error(tmp_path: Path) -> None:
    store = make_channel(tmp_path / "source", [tiny_package(tmp_path / "built", "a")])
    lock = explicit_of(store, tmp_path / "lock.txt")
    record = {**read_index(store, "linux-64").records["a-1-0.conda"], "attestations_sha256": "0" * 64}
    apply(store, Change("add", subdirs={"linux-64": SubdirChange(add={"a-1-0.conda": record})}), who="test")
    with pytest.raises(ChannelError, match="1 files could not be mirrored"):
        mirror([read_lock_file(lock)], str(tmp_path / "m"))


def test_channels_of_one_name_get_folders_of_their_own(tmp_path: Path) -> None:
    stores = []
    for number in (1, 2):
        packages = [tiny_package(tmp_path / f"built{number}", "a", str(number))]
        stores.append(make_channel(tmp_path / f"site{number}" / "main", packages))
    locks = [
        read_lock_file(explicit_of(store, tmp_path / f"lock{number}.txt"))
        for number, store in enumerate(stores)
    ]
    to = tmp_path / "m"
    mirror(locks[:1], str(to))
    done = mirror(locks, str(to))
    assert sorted(one.folder for one in done.plan.sources) == ["local-main", "main"]
    known = json.loads((to / "mirror.json").read_text())["channels"]
    assert known == {stores[0].path.as_uri(): "main", stores[1].path.as_uri(): "local-main"}
    assert "/main/linux-64/a-1-0" in (to / "locks/lock0.txt").read_text()
    assert "/local-main/linux-64/a-2-0" in (to / "locks/lock1.txt").read_text()


def test_md5_alone_is_checked_too(tmp_path: Path) -> None:
    store = make_channel(tmp_path / "source", [tiny_package(tmp_path / "built", "a")])
    url = f"{store.path.as_uri()}/linux-64/a-1-0.conda"
    md5 = hashlib.md5((store.path / "linux-64/a-1-0.conda").read_bytes()).hexdigest()
    (tmp_path / "lock").write_text(f"@EXPLICIT\n{url}#{md5}\n")
    assert len(mirror([read_lock_file(tmp_path / "lock")], str(tmp_path / "m")).fetched) == 1
    (tmp_path / "lock").write_text(f"@EXPLICIT\n{url}#{'0' * 32}\n")
    with pytest.raises(ChannelError, match="could not be mirrored"):
        mirror([read_lock_file(tmp_path / "lock")], str(tmp_path / "m2"))


def test_credentials_in_a_lock_are_used_and_not_passed_on(world: tuple[Server, Path], tmp_path: Path) -> None:
    _, pins = world
    lock = pins / KEY / "explicit.txt"
    lock.write_text(lock.read_text().replace("://", "://me:pw-0123456789@"))
    run(tmp_path / "m", lock)
    for path in (tmp_path / "m").rglob("*"):
        if path.is_file():
            assert b"pw-0123456789" not in path.read_bytes(), path


# -- S3


def test_mirror_to_s3(
    world: tuple[Server, Path],
    s3_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, pins = world
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    to = f"s3://{s3_server.bucket()}/air/gap"
    locks = [read_lock_file(path) for path in all_of(pins)]
    server.cuts["zlib-1.3-h0_0.conda"] = [0] * 20
    with pytest.raises(ChannelError, match=f"1 files could not be mirrored; {BOTH - 1} are there"):
        mirror(locks, to)
    server.cuts.clear()
    done = mirror(locks, to)
    assert (len(done.fetched), len(done.present)) == (1, BOTH - 1)
    asked = len(server.packages())
    assert mirror(locks, to).fetched == ()
    assert len(server.packages()) == asked
    store: Any = open_store(f"{to}/internal")
    assert set(read_index(store, f"label/{KEY}/linux-64").records) == {
        "amdgpu-arch-9.4.2-gfx942_declared_0.conda",
        "rocm-userspace-7.2-system_declared_0.conda",
    }
    root: Any = open_store(to)
    text = root.read(f"locks/{KEY}/explicit.txt").decode()
    assert f"{to}/conda-forge/linux-64/zlib-1.3-h0_0.conda#sha256:" in text
    assert not [path for path in (tmp_path / "cache" / "rocm-channel").rglob("*") if path.is_file()]
    (tmp_path / "explicit.txt").write_text(text)
    install = rocm_channel(
        "install", "--file", tmp_path / "explicit.txt", "--prefix", tmp_path / "env", **NO_GPU
    )
    assert install.returncode == 0, install.stderr
    again = mirror([read_lock_file(tmp_path / "explicit.txt")], str(tmp_path / "from-s3"))
    assert len(again.fetched) == ONE
