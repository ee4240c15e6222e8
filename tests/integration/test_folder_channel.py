"""The folder channel with real packages: routing to labels, immutability, and what a bad disk does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from channel_tools.channel.folder import FolderChannel
from channel_tools.model.errors import ChannelError, DamagedFileError
from channel_tools.model.package import read_package, sha256
from tests.integration.tiny_packages import arch_package, release, tiny_package

BUILD = """
import json, os, sys
from rattler_build import Stage0Recipe
recipe, folder, output = json.load(sys.stdin)
Stage0Recipe.from_dict(recipe, recipe_dir=folder).run_build(
    output_dir=output, channels=[], no_include_recipe=True, package_format="conda:1")
os._exit(0)
"""


def make_package(
    folder: Path, name: str, version: str, build: str, extra: dict[str, Any], content: str = "x"
) -> Path:
    """A real package with one small file."""
    recipe = {
        "package": {"name": name, "version": version},
        "build": {
            "string": build,
            "script": [f'mkdir -p $PREFIX/share; echo {content} > "$PREFIX/share/{name}"'],
        },
        "about": {"license": "BSD-3-Clause"},
        "extra": extra,
    }
    folder.mkdir(parents=True, exist_ok=True)
    payload = json.dumps([recipe, str(folder), str(folder / "out")])
    subprocess.run([sys.executable, "-c", BUILD], input=payload, text=True, check=True, capture_output=True)
    return folder / "out" / "linux-64" / f"{name}-{version}-{build}.conda"


def declared_arch(folder: Path, target: str, isa: str) -> Path:
    return make_package(folder, "amdgpu-arch", isa, f"{target}_declared_0", {"rocm_arch": target})


def declared_rocm(folder: Path, release: str) -> Path:
    return make_package(folder, "rocm-userspace", release, "system_declared_0", {"rocm_version": release})


def content(channel: FolderChannel) -> dict[str, set[str]]:
    """Names and versions by label, as the indexes say; the main channel is ''."""
    return {
        label or "": {f"{r['name']} {r['version']}" for r in channel.records(label)}
        for label in (None, *channel.labels())
    }


@pytest.mark.parametrize("arch_first", [True, False])
def test_declared_builds_go_to_labels_only_in_any_order(tmp_path: Path, arch_first: bool) -> None:
    channel = FolderChannel(tmp_path / "channel")
    archs = [
        declared_arch(tmp_path / "a", "gfx942", "9.4.2"),
        declared_arch(tmp_path / "b", "gfx90a", "9.0.10"),
    ]
    releases = [declared_rocm(tmp_path / "c", "7.0"), declared_rocm(tmp_path / "d", "7.2")]
    detected = make_package(
        tmp_path / "e", "amdgpu-arch", "9.4.2", "gfx942_detected_0", {"rocm_arch": "gfx942"}
    )
    for package in [*archs, *releases] if arch_first else [*releases, *archs]:
        channel.add([package])
    channel.add([detected])
    assert content(channel) == {
        "": {"amdgpu-arch 9.4.2"},
        "gfx942": {"amdgpu-arch 9.4.2"},
        "gfx90a": {"amdgpu-arch 9.0.10"},
        "rocm-7.0": {"rocm-userspace 7.0"},
        "rocm-7.2": {"rocm-userspace 7.2"},
        "gfx942-rocm7.0": {"amdgpu-arch 9.4.2", "rocm-userspace 7.0"},
        "gfx942-rocm7.2": {"amdgpu-arch 9.4.2", "rocm-userspace 7.2"},
        "gfx90a-rocm7.0": {"amdgpu-arch 9.0.10", "rocm-userspace 7.0"},
        "gfx90a-rocm7.2": {"amdgpu-arch 9.0.10", "rocm-userspace 7.2"},
    }


def test_a_declared_build_of_anything_else_is_refused(tmp_path: Path) -> None:
    package = make_package(tmp_path / "a", "vllm-rocm", "1", "gfx942_declared_0", {})
    channel = FolderChannel(tmp_path / "channel")
    with pytest.raises(ChannelError, match="no label channel is for"):
        channel.add([package])
    assert not list(tmp_path.glob("channel/**/*.conda"))


def test_same_name_and_other_content_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    channel = FolderChannel(tmp_path / "channel")
    first = make_package(tmp_path / "a", "x", "1", "0", {}, "one")
    second = make_package(tmp_path / "b", "x", "1", "0", {}, "two")
    other = make_package(tmp_path / "c", "y", "1", "0", {})
    channel.add([first])
    before = {p: p.read_bytes() for p in channel.path.rglob("*") if p.is_file()}
    channel.add([first])
    with pytest.raises(ChannelError, match="other content"):
        channel.add([other, second])
    after = {p: p.read_bytes() for p in channel.path.rglob("*") if p.is_file()}
    assert {p.name: before[p] == after.get(p) for p in before} == {p.name: True for p in after}
    channel.add([second], replace=True)
    assert (
        channel.records()[0]["sha256"]
        != json.loads(before[channel.path / "linux-64" / "repodata.json"])["packages.conda"]["x-1-0.conda"][
            "sha256"
        ]
    )


def test_a_channel_takes_builds_of_one_toolchain(tmp_path: Path) -> None:
    channel = FolderChannel(tmp_path / "channel")
    channel.add([make_package(tmp_path / "a", "x", "1", "0", {"toolchain": "host"})])
    channel.add([make_package(tmp_path / "b", "plain", "1", "0", {})])
    with pytest.raises(ChannelError, match="another toolchain"):
        channel.add([make_package(tmp_path / "c", "y", "1", "0", {"toolchain": "conda"})])
    assert {r["name"] for r in channel.records()} == {"x", "plain"}


def test_a_truncated_package_is_refused(tmp_path: Path) -> None:
    package = make_package(tmp_path / "a", "x", "1", "0", {})
    package.write_bytes(package.read_bytes()[:-200])
    with pytest.raises(DamagedFileError, match="cannot be read as a conda package"):
        read_package(package)
    with pytest.raises(DamagedFileError):
        FolderChannel(tmp_path / "channel").add([package])


ADD = """
import sys
from pathlib import Path
from channel_tools.channel.folder import FolderChannel
from channel_tools.model.errors import ChannelToolsError
try:
    FolderChannel(Path(sys.argv[1])).add([Path(sys.argv[2])])
except ChannelToolsError as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
@pytest.mark.parametrize("spare_kib", [-64, 4], ids=["no room for the package", "no room for its index"])
def test_a_full_disk_leaves_the_channel_as_it_was(tmp_path: Path, spare_kib: int) -> None:
    """In a mount namespace of its own: the channel lies on a tmpfs filled to what the package needs."""
    small = make_package(tmp_path / "a", "x", "1", "0", {})
    big = tmp_path / "b" / "out" / "linux-64" / "big-1-0.conda"
    blob = tmp_path / "blob"
    blob.write_bytes(os.urandom(1_200_000))
    make_package(tmp_path / "b", "big", "1", "0", {}, f'x; cp {blob} "$PREFIX/share/blob"; true')
    mount = tmp_path / "mount"
    mount.mkdir()
    script = f"""
set -e
mount -t tmpfs -o size=4m tmpfs {mount}
{sys.executable} -c "$ADD" {mount}/channel {small}
free=$(df -k --output=avail {mount} | tail -n 1)
need=$(( ($(stat -c %s {big}) + 4095) / 4096 * 4 + {spare_kib} ))
head -c "$(( (free - need) * 1024 ))" /dev/zero > {mount}/filler
cp -a {mount} {tmp_path}/before
set +e
{sys.executable} -c "$ADD" {mount}/channel {big}
echo "status $?"
set -e
rm -rf {tmp_path}/after; cp -a {mount} {tmp_path}/after
"""
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script],
        env={**os.environ, "ADD": ADD},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "status 41" in done.stdout, done.stdout + done.stderr
    assert "full" in done.stdout or "space" in done.stdout
    assert not list(Path(tmp_path, "after").rglob("big-*")), "no half-written package"
    for index in Path(tmp_path, "before").rglob("repodata.json"):
        again = Path(tmp_path, "after", index.relative_to(tmp_path / "before"))
        assert json.loads(again.read_text()) == json.loads(index.read_text())


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_read_only_folder_is_one_clear_error(tmp_path: Path) -> None:
    package = make_package(tmp_path / "a", "x", "1", "0", {})
    mount = tmp_path / "mount"
    mount.mkdir()
    script = f'mount -t tmpfs -o ro tmpfs {mount} && exec {sys.executable} -c "$ADD" {mount}/c {package}'
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script],
        env={**os.environ, "ADD": ADD},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 41
    assert "read-only" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_replaced_package_is_new_everywhere_and_others_stay(tmp_path: Path) -> None:
    channel = FolderChannel(tmp_path / "channel")
    channel.add(release(tmp_path / "a", archs=["gfx942"]))
    before = content(channel)
    again = arch_package(tmp_path / "b", "gfx942", "declared", files={"share/other": b"content"})
    with pytest.raises(ChannelError, match="other content"):
        channel.add([again])
    folders = channel.add([again], replace=True)
    assert {folder.name for folder in folders} == {"gfx942", "gfx942-rocm7.0", "gfx942-rocm7.2"}
    assert content(channel) == before
    for label in ("gfx942", "gfx942-rocm7.0", "gfx942-rocm7.2"):
        (record,) = [r for r in channel.records(label) if r["name"] == "amdgpu-arch"]
        assert (
            record["sha256"]
            == sha256(again)
            == sha256(channel.path / "label" / label / "linux-64" / again.name)
        )
    assert channel.add([again], replace=True) == []


def test_reading_makes_nothing_and_init_makes_an_empty_channel(tmp_path: Path) -> None:
    channel = FolderChannel(tmp_path / "channel")
    assert channel.records() == [] and channel.stems() == set() and channel.labels() == []
    assert not channel.path.exists()
    channel.init()
    before = {path: path.stat().st_mtime_ns for path in channel.path.rglob("repodata*")}
    channel.init()
    assert {path.parent.name for path in before} == {"linux-64", "noarch"}
    assert {path: path.stat().st_mtime_ns for path in channel.path.rglob("repodata*")} == before


def test_a_build_that_died_while_adding_is_repaired_by_the_next(tmp_path: Path) -> None:
    channel = FolderChannel(tmp_path / "channel")
    channel.add([tiny_package(tmp_path, "a", "1")])
    dying = (
        "import sys; from pathlib import Path; from channel_tools.channel.folder import FolderChannel\n"
        "from tests.integration import faults; faults._die_within(faults.Faults(dies=9))\n"
        "FolderChannel(Path(sys.argv[1])).add([Path(sys.argv[2])])"
    )
    package = tiny_package(tmp_path, "b", "1")
    done = subprocess.run(
        [sys.executable, "-c", dying, channel.path, package], cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == -9
    (channel.path / ".channel" / "lease.json").unlink()
    said: list[str] = []
    channel.add([tiny_package(tmp_path, "c", "1")], say=said.append)
    assert said[0].startswith("repaired: undid the add that ")
    assert {r["name"] for r in channel.records()} == {"a", "c"}
    assert {path.name for path in channel.files()} == {"a-1-0.conda", "c-1-0.conda"}
    channel.add([package])
    assert {r["name"] for r in channel.records()} == {"a", "b", "c"}
