"""`rocm-channel pin`: what is pinned, and that each format installs the same files."""
# ruff: noqa: F811 (fixtures of another module)

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

from channel_tools import rattler_process
from channel_tools.client.locks.environment_yml import check_pip, read_environment
from channel_tools.client.locks.explicit import in_order
from channel_tools.client.pinning import files as pin_files
from channel_tools.model.errors import LockError, StorageError
from tests.integration.guarded_channel import guarded
from tests.integration.helpers import rocm_channel
from tests.integration.pin_channels import (
    BOTH,
    NO_GPU,
    Server,
    environment_yml,
    installed,
    pin,
    pinned,  # noqa: F401
    served,  # noqa: F401
    served_environment,
)


def install_with(script: str, *words: object) -> None:
    """Run a few lines of py-rattler in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


RATTLER_LOCK = """
import asyncio, os, sys
from pathlib import Path
from rattler import install
from rattler.lock import LockFile
lock, name, prefix = sys.argv[1:]
environment = LockFile.from_path(Path(lock)).environment(name)
(platform,) = environment.platforms()
records = environment.conda_repodata_records_for_platform(platform)
asyncio.run(install(records, target_prefix=prefix, show_progress=False))
os._exit(0)
"""


def from_environment_yml(pins: Path, key: str, prefix: Path) -> None:
    data = yaml.safe_load((pins / key / "environment.yml").read_text())
    specs = [spec.split("=") for spec in data["dependencies"]]
    payload = {
        "channels": [one for one in data["channels"] if one != "nodefaults"],
        "specs": [f"{name} =={version} {build}" for name, version, build in specs],
        "virtual": [["__linux", "6.8", "0"], ["__glibc", "2.39", "0"]],
        "prefix": str(prefix),
    }
    rattler_process.call("solve", payload)


def from_file(name: str, *more: str) -> Callable[[Path, str, Path], None]:
    def run(pins: Path, key: str, prefix: Path) -> None:
        file = pins / name.format(key=key)
        done = rocm_channel("install", "--file", file, "--prefix", prefix, *more, **NO_GPU)
        assert done.returncode == 0, done.stderr

    return run


FORMATS = {
    "environment.yml": from_environment_yml,
    "explicit.txt": from_file("{key}/explicit.txt"),
    "conda-lock.yml": from_file("{key}/conda-lock.yml"),
    "pixi.lock": from_file("pixi.lock", "--arch", "gfx942"),
    "pixi.lock by py-rattler": lambda pins, key, prefix: install_with(
        RATTLER_LOCK, pins / "pixi.lock", key, prefix
    ),
}


def test_every_format_gives_the_same_files(pinned: Path, served: tuple[Server, Path], tmp_path: Path) -> None:
    key, prefix = "gfx942-rocm7.2", tmp_path / "env"
    label = f"{served[0].url}/internal/label/{key}"
    payload = {
        "channels": [label, f"{served[0].url}/internal", f"{served[0].url}/conda-forge"],
        "specs": ["vllm-rocm ==0.26.0", "rocm-canary"],
        "virtual": [],
        "prefix": str(prefix),
    }
    rattler_process.call("solve", payload)
    first = installed(prefix)
    assert len([name for name in first if name.startswith("conda-meta/")]) == 8
    assert len(first["lib/libvllm.so"]) > 3_000_000
    assert first["lib/python3.12/site-packages/vllm/__init__.py"] == b"target = 'gfx942'\n"
    for name, install in FORMATS.items():
        shutil.rmtree(prefix)
        install(pinned, key, prefix)
        assert installed(prefix) == first, name


def test_the_other_gpu_gets_its_own_files(pinned: Path, tmp_path: Path) -> None:
    FORMATS["explicit.txt"](pinned, "gfx90a-rocm7.2", tmp_path / "one")
    from_file("pixi.lock", "--arch", "gfx90a")(pinned, "gfx90a-rocm7.2", tmp_path / "two")
    one = installed(tmp_path / "one")
    assert one == installed(tmp_path / "two")
    assert one["lib/python3.12/site-packages/vllm/__init__.py"] == b"target = 'gfx90a'\n"


# -- the files


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CondaLockHash(Strict):
    md5: str = Field(pattern="^[0-9a-f]{32}$")  # CEP 37 lets it away, conda-lock 4.0 does not
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class CondaLockPackage(Strict):
    name: str
    version: str
    manager: str = Field(pattern="^conda$")
    platform: str
    dependencies: dict[str, str]
    url: str
    hash: CondaLockHash
    build: str
    category: str
    optional: bool


class CondaLockChannel(Strict):
    url: str = Field(min_length=1)
    used_env_vars: list[str]


class CondaLockMetadata(Strict):
    content_hash: dict[str, str]
    channels: list[CondaLockChannel]
    platforms: list[str]
    sources: list[str]


class CondaLock(Strict):
    version: int
    metadata: CondaLockMetadata
    package: list[CondaLockPackage]


def test_conda_lock_is_as_cep_37_says(pinned: Path) -> None:
    """Read as YAML 1.1, as conda-lock does, where 2.0 and 0_1 are numbers."""
    path = pinned / "gfx942-rocm7.2" / "conda-lock.yml"
    lock = CondaLock.model_validate(yaml.safe_load(path.read_text()))
    assert lock.metadata.platforms == list(lock.metadata.content_hash) == ["linux-64"]
    assert {one.platform for one in lock.package} == {"linux-64"}
    assert len({one.name for one in lock.package}) == len(lock.package) == 8
    assert (path.parent / lock.metadata.sources[0]).resolve().name == "environment.yml"
    assert (path.parent / lock.metadata.sources[0]).is_file()


def test_explicit_list_has_digests_and_order(pinned: Path) -> None:
    lines = (pinned / "gfx942-rocm7.2" / "explicit.txt").read_text().splitlines()
    urls = lines[lines.index("@EXPLICIT") + 1 :]
    assert all("#sha256:" in url for url in urls)
    order = [url.rpartition("/")[2].rsplit("-", 2)[0] for url in urls]
    for before, after in (("zlib", "python"), ("python", "numpy"), ("numpy", "vllm-rocm")):
        assert order.index(before) < order.index(after)
    assert {"amdgpu-arch", "rocm-userspace"} == {
        url.rpartition("/")[2].rsplit("-", 2)[0] for url in urls if "/label/gfx942-rocm7.2/" in url
    }


def test_environment_yml_keeps_channels_in_order(pinned: Path, served: tuple[Server, Path]) -> None:
    for arch in ("gfx942", "gfx90a"):
        data = yaml.safe_load((pinned / f"{arch}-rocm7.2" / "environment.yml").read_text())
        url = served[0].url
        assert data["channels"] == [
            *(f"{url}/internal/label/{arch}-rocm7.2", f"{url}/internal", f"{url}/conda-forge"),
            "nodefaults",
        ]
        assert all(spec.count("=") == 2 for spec in data["dependencies"])


def test_circles_do_not_stop_the_order() -> None:
    def record(name: str, *depends: str) -> dict[str, Any]:
        return {"name": name, "record": {"depends": list(depends)}}

    some = [record("a", "b", "c >=1"), record("b", "a"), record("c"), record("d", "__glibc", "a")]
    assert [one["name"] for one in in_order(some)] == ["b", "c", "a", "d"]


def test_what_differs_is_told(served: tuple[Server, Path], tmp_path: Path) -> None:
    told = pin(served_environment(served[0], tmp_path), *BOTH, "--dry-run")
    assert {one["name"] for one in told["differences"]} == {
        "amdgpu-arch",
        "rocm-canary",
        "rocm-userspace",  # each label has a copy
        "vllm-rocm",
    }
    assert [one["name"] for one in told["differences"] if one["versions_differ"]] == ["amdgpu-arch"]
    assert told["same"] == 4
    assert not (tmp_path / "pinned").exists()


def test_what_the_file_declares_is_the_default(served: tuple[Server, Path], tmp_path: Path) -> None:
    told = pin(served_environment(served[0], tmp_path), "--dry-run")
    assert [(one["arch"], one["rocm"]) for one in told["environments"]] == [("gfx942", "7.2")]
    told = pin(served_environment(served[0], tmp_path), "--arch", "gfx90a", "--rocm", "7.0", "--dry-run")
    assert told["environments"][0]["name"] == "gfx90a-rocm7.0"
    file = environment_yml(
        tmp_path / "plain.yml", [f"{served[0].url}/internal", f"{served[0].url}/conda-forge"]
    )
    refused = rocm_channel("pin", file, "--dry-run", **NO_GPU)
    assert refused.returncode == 52
    assert "--arch" in refused.stderr


def test_a_pin_that_drops_another_release_says_so(served: tuple[Server, Path], tmp_path: Path) -> None:
    file = served_environment(served[0], tmp_path)
    first = pin(file, "--arch", "gfx942", "--rocm", "7.2")
    assert not any("too" in note for note in first["notes"])
    again = pin(file, "--arch", "gfx942", "--rocm", "7.2", "--dry-run")
    assert again["changes"] == {"gfx942-rocm7.2": []}
    other = pin(file, "--arch", "gfx942", "--rocm", "7.0", "--dry-run")
    assert other["changes"] == {}
    assert any("gfx942 with ROCm 7.2" in note for note in other["notes"])


def test_all_files_or_none(served: tuple[Server, Path], tmp_path: Path) -> None:
    file = served_environment(served[0], tmp_path)
    refused = rocm_channel("pin", file, "--arch", "gfx942", "--arch", "gfx1100", **NO_GPU)
    assert refused.returncode == 50
    assert not (tmp_path / "pinned").exists()


def test_a_failure_while_writing_leaves_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"pixi.lock": b"old", "a/explicit.txt": b"old"}
    pin_files.write_all(tmp_path, old)
    replace, calls = Path.replace, []

    def failing(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(StorageError, match="disk is full"):
        pin_files.write_all(
            tmp_path, {"pixi.lock": b"new", "a/explicit.txt": b"new", "b/explicit.txt": b"new"}
        )
    files = {p.relative_to(tmp_path).as_posix(): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert files == old


def test_no_credential_gets_into_a_file(served: tuple[Server, Path], tmp_path: Path) -> None:
    token = "tk-0123456789abcdef"
    with guarded(served[1] / "internal", "path", token) as server:
        ours = server.url.replace("http://", "http://") + f"/t/{token}"
        file = environment_yml(
            tmp_path / "environment.yml",
            [
                f"{ours}/label/gfx942-rocm7.2",
                ours,
                f"{served[0].url.replace('://', '://me:pw-secret-9@')}/conda-forge",
            ],
        )
        done = rocm_channel("pin", file, **NO_GPU)
        assert done.returncode == 0, done.stderr
        assert "credentials were left out" in done.stderr
        files = [path for path in (tmp_path / "pinned").rglob("*") if path.is_file()]
        assert len(files) == 4
        for path in files:
            text = path.read_text()
            assert token not in text and "pw-secret" not in text and f"{server.url}/" in text, path
    assert token not in done.stdout + done.stderr


# -- pip


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("transformers >=4", False),
        ("torch==2.11.0", True),
        ("Torch [extra] ; python_version > '3'", True),
        ("vllm @ https://host/vllm-0.26.0-py3-none-any.whl", True),
        ("git+https://github.com/x/vllm.git@main", True),
        ("https://host/wheels/triton-3.6.0-cp312-cp312-linux_x86_64.whl", True),
        ("rocm_canary", True),
        ("--extra-index-url https://me:secret-pw@host/simple", True),
        ("--extra-index-url https://host/simple", False),
        ("-e git+https://github.com/x/some.git#egg=some", False),
        ("-r https://host/requirements.txt", False),
        *((line, True) for line in ("-r more.txt", "--requirement=more.txt", "-c more.txt", "-e .", "-e.")),
        *((line, True) for line in (".", "..", "./some", "../some-1.0.tar.gz", "/srv/some-1.0.tar.gz")),
    ],
)
def test_pip_section(tmp_path: Path, line: str, refused: bool) -> None:
    file = environment_yml(tmp_path / "environment.yml", ["c"])
    file.write_text(f"{file.read_text()}  - pip:\n    - {json.dumps(line)}\n")
    try:
        wanted = read_environment(file)
        check_pip(wanted, {"rocm-canary", "vllm-rocm"})
    except LockError as error:
        assert refused
        assert "secret-pw" not in str(error)
    else:
        assert not refused
        assert wanted.pip == (line,)


def test_pip_section_is_passed_on(served: tuple[Server, Path], tmp_path: Path) -> None:
    file = served_environment(served[0], tmp_path)
    file.write_text(f"{file.read_text()}  - pip:\n    - transformers >=4\n")
    done = rocm_channel("pin", file, **NO_GPU)
    assert done.returncode == 0, done.stderr
    assert "nothing of it is pinned" in done.stderr
    data = yaml.safe_load((tmp_path / "pinned" / "gfx942-rocm7.2" / "environment.yml").read_text())
    assert data["dependencies"][-1] == {"pip": ["transformers >=4"]}
    file.write_text(file.read_text().replace("transformers >=4", "torch"))
    assert rocm_channel("pin", file, **NO_GPU).returncode == 52


@pytest.mark.parametrize(
    "text",
    [
        "channels: [defaults]\ndependencies: [a]\n",
        "channels: [c]\ndependencies: [{npm: [x]}]\n",
        "channels: [c]\ndependencies: 7\n",
        "channels: [c]\n",
        "channels: [c]\ndependencies: [a]\nplatforms: [osx-arm64]\n",
        "channels: [x/label/gfx942, y/label/gfx90a]\ndependencies: [a]\n",
        "channels: [x/label/gfx942, x/label/gfx90a]\ndependencies: [a]\n",
        "- a\n",
        "a: [\n",
    ],
)
def test_what_cannot_be_pinned_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "environment.yml").write_text(text)
    with pytest.raises(LockError):
        read_environment(tmp_path / "environment.yml")


@pytest.mark.parametrize(
    ("spec", "words", "what"),
    [
        ("numpy[[[", (), "is no match spec"),
        ("numpy >=>1", (), "is no match spec"),
        ("numpy", ("--assume", "__glibc=2 x"), "has a version that is none"),
        ("numpy", ("--assume", "__gl ibc=2"), "has a name that is none"),
    ],
)
def test_specs_that_are_none_are_no_fault_of_the_channel(
    served: tuple[Server, Path], tmp_path: Path, spec: str, words: tuple[str, ...], what: str
) -> None:
    file = served_environment(served[0], tmp_path)
    file.write_text(file.read_text() + f"  - '{spec}'\n")
    done = rocm_channel("pin", file, "--dry-run", *words, **NO_GPU)
    assert done.returncode == 52 and what in done.stderr, done.stderr
    assert (words[1] if words else spec) in done.stderr and "--channel" not in done.stderr


def test_a_file_without_channels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("channels: []\ndependencies: [a]\n")
    done = rocm_channel("pin", tmp_path / "environment.yml", "--arch", "gfx942", **NO_GPU)
    assert done.returncode == 52, done.stderr
