"""`rocm-channel pin --check` and `--update`: what became of pins when the channels changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from channel_tools import rattler_process
from channel_tools.channel.care.yank import yank
from channel_tools.channel.stores.folder_store import FolderStore
from tests.integration.helpers import rocm_channel
from tests.integration.pin_channels import (
    NO_GPU,
    add,
    environment_yml,
    forge,
    internal,
    pin,
)
from tests.integration.tiny_packages import gpu_package, tiny_package

BOTH = ("--arch", "gfx942", "--arch", "gfx90a")


@pytest.fixture
def own(tmp_path: Path) -> tuple[Path, FolderStore, FolderStore]:
    """An environment.yml of channels that a test may change."""
    ours, others = internal(tmp_path), forge(tmp_path)
    label = f"{ours.path.as_uri()}/label/gfx942-rocm7.2"
    file = environment_yml(
        tmp_path / "environment.yml", [label, ours.path.as_uri(), others.path.as_uri()], "amdgpu-arch=9.4.2"
    )
    return file, ours, others


def check(*files: Path, code: int = 0, **environ: str) -> list[dict[str, Any]]:
    done = rocm_channel("pin", "--check", *files, "--json", **{**NO_GPU, **environ})
    assert done.returncode == code, done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["environments"]
    return found


def states(found: dict[str, Any]) -> dict[str, str]:
    return {one["file"].rsplit("-", 2)[0]: one["state"] for one in found["packages"] if one["state"] != "ok"}


def test_pins_hold_until_something_changes(own: tuple[Path, FolderStore, FolderStore]) -> None:
    file, ours, _ = own
    pin(file, *BOTH)
    pins = file.parent / "pinned"
    files = [pins / "pixi.lock", *(pins / "gfx942-rocm7.2").iterdir()]
    found = check(*files)
    assert len(found) == 5
    assert all(one["holds"] and not states(one) for one in found)
    for one in check(*files, ROCM_BOOTSTRAP_FORCE_GFX_ARCH="gfx90a", ROCM_BOOTSTRAP_DISABLE_DETECTION="0"):
        assert any("gfx90a" in note for note in one["host"]) == (one["arch"] == "gfx942")

    new = [
        gpu_package(file.parent / "more", "rocm-canary", "0.2.0", arch, "7.2")
        for arch in ("gfx942", "gfx90a")
    ]
    add(ours, new)
    for one in check(*files):
        newer = {p["file"].rsplit("-", 2)[0]: p["newer"] for p in one["packages"] if p["newer"]}
        assert newer["rocm-canary"]["version"] == "0.2.0"
        assert one["arch"] in newer["rocm-canary"]["build"]
        assert set(newer) == {"rocm-canary"}

    yank(ours, "vllm-rocm ==0.26.0 rocm72_gfx942*", "wrong results at head size 96", "me")
    for one in check(*files, code=52):
        if one["arch"] == "gfx90a":
            assert one["holds"]
            continue
        assert not one["holds"] and not one["solves"]
        assert states(one) == {"vllm-rocm": "yanked"}
        (detail,) = [p["detail"] for p in one["packages"] if p["state"] == "yanked"]
        assert "wrong results at head size 96" in detail


def test_a_replaced_and_a_missing_file_are_found(own: tuple[Path, FolderStore, FolderStore]) -> None:
    file, _, others = own
    pin(file)
    pins = file.parent / "pinned" / "gfx942-rocm7.2"
    other = file.parent / "other"
    replaced = tiny_package(other, "zlib", "1.3", "h0_0", files={"share/zlib.txt": b"other"})
    shutil.copy(replaced, others.path / "linux-64" / replaced.name)
    (others.path / "linux-64" / "numpy-2.0-py312_0.conda").unlink()
    for path in others.path.rglob("*repodata*"):
        path.unlink()
    rattler_process.call("index", {"channels": [str(others.path)], "force": True})
    for name in ("explicit.txt", "conda-lock.yml", "../pixi.lock"):
        (found,) = check(pins / name, code=52)
        assert states(found) == {"zlib": "replaced", "numpy": "missing"}, name
    (found,) = check(pins / "environment.yml", code=52)
    assert states(found) == {"numpy": "missing"}


def test_check_of_what_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("numpy\n")
    for path in (tmp_path / "x.txt", tmp_path / "nothing", tmp_path):
        done = rocm_channel("pin", "--check", path)
        assert done.returncode == 52
        assert "Traceback" not in done.stderr


def test_another_channel_with_a_file_of_that_name_replaces_nothing(
    own: tuple[Path, FolderStore, FolderStore],
) -> None:
    """The lock has an address and a digest, and what it names is where it was."""
    file, ours, _ = own
    pin(file)
    packages = [tiny_package(file.parent / "more", "zlib", "1.3", "h0_0", files={"lib/z": b"other"})]
    add(ours, packages)
    done = rocm_channel("pin", "--check", file.parent / "pinned" / "pixi.lock", **NO_GPU)
    assert done.returncode == 0 and "replaced" not in done.stdout, done.stdout


# -- update


def test_update_moves_only_what_must(own: tuple[Path, FolderStore, FolderStore]) -> None:
    file, ours, others = own
    file.write_text(file.read_text().replace("vllm-rocm=0.26.0", "vllm-rocm"))
    pin(file, *BOTH)
    more = file.parent / "more"
    add(
        others,
        [
            tiny_package(more, "numpy", "2.5", "py312_0", depends=["python 3.12.*"]),
            tiny_package(more, "zlib", "1.4", "h0_0"),
            tiny_package(more, "python", "3.13.0", "0_cpython", build_number=0, depends=["zlib", "tzdata"]),
        ],
    )
    needs = ["python >=3.12", "numpy >=2.5"]
    add(ours, [gpu_package(more, "vllm-rocm", "0.27.0", "gfx942", "7.2", depends=needs)])
    told = pin(file, "--update", "vllm-rocm")
    moved = {
        key: {one["name"]: one["to"].split()[0] for one in some} for key, some in told["changes"].items()
    }
    assert moved == {"gfx942-rocm7.2": {"vllm-rocm": "0.27.0", "numpy": "2.5"}, "gfx90a-rocm7.2": {}}
    assert any("vllm-rocm stays at 0.26.0" in note for note in told["notes"])
    told = pin(file, "--update", "zlib", "--arch", "gfx90a", "--dry-run")
    assert [(one["name"], one["to"]) for one in told["changes"]["gfx90a-rocm7.2"]] == [("zlib", "1.4 h0_0")]
    check(file.parent / "pinned" / "pixi.lock")


def test_update_of_a_pin_with_a_yanked_build(own: tuple[Path, FolderStore, FolderStore]) -> None:
    file, ours, _ = own
    pin(file)
    add(ours, [gpu_package(file.parent / "more", "rocm-canary", "0.1.0", "gfx942", "7.2", number=1)])
    yank(ours, "rocm-canary ==0.1.0 rocm72_gfx942*_0", "bad", "me")
    told = pin(file, "--update", "zlib")
    assert {one["name"] for one in told["changes"]["gfx942-rocm7.2"]} == {"rocm-canary"}
    assert any("is in no channel's index any more" in note for note in told["notes"])
    for words in (("--update", "nothing"), ("--update", "zlib", "--arch", "gfx90a")):
        done = rocm_channel("pin", file, *words, **NO_GPU)
        assert done.returncode == 52, done.stderr
        told_what = words[1] if words[1] == "nothing" else words[-1]
        assert told_what in done.stderr.partition("\n")[0] and "without --update" in done.stderr
