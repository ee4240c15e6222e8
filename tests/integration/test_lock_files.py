"""One reader for every kind of lock file, and text of foreign origin."""
# ruff: noqa: F811 (fixtures of another module)

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from channel_tools import rattler_process
from channel_tools.channel.care.locks import named_in_locks
from channel_tools.client.host import Host
from channel_tools.client.locks.lock_files import choose, read_lock, read_lock_file
from channel_tools.client.pinning import tasks as pin_tasks
from channel_tools.client.pinning.check import check_locks
from channel_tools.model.errors import LockError
from tests.integration.pin_channels import (
    pinned,  # noqa: F401
    served,  # noqa: F401
)


def test_prune_and_yank_know_every_format(pinned: Path) -> None:
    for name in ("explicit.txt", "conda-lock.yml", "environment.yml", "../pixi.lock"):
        names = named_in_locks([pinned / "gfx942-rocm7.2" / name])
        assert any(one.startswith("vllm-rocm-0.26.0-rocm72_gfx942") for one in names), name
        assert "numpy-2.0-py312_0.conda" in names


def test_one_reader_for_all_formats(pinned: Path) -> None:
    folder = pinned / "gfx942-rocm7.2"
    wanted = sorted(read_lock(folder / "explicit.txt"))
    assert (
        wanted
        == sorted(read_lock(folder / "conda-lock.yml"))
        == sorted(read_lock(pinned / "pixi.lock", "gfx942"))
    )
    with pytest.raises(LockError, match="several"):
        read_lock(pinned / "pixi.lock")
    with pytest.raises(LockError, match="no environment for that GPU"):
        read_lock(pinned / "pixi.lock", "gfx950")
    with pytest.raises(LockError, match="not files"):
        read_lock(folder / "environment.yml")
    found = choose(read_lock_file(pinned / "pixi.lock"), "gfx90a")
    assert (found.arch, found.rocm, found.platform) == ("gfx90a", "7.2", "linux-64-gfx90a")


@pytest.mark.parametrize("other", ["zlib-1.2-h0_0.conda", "zlib-1.3-h0_1.conda", "zlib-1.3-h0_0.tar.bz2"])
def test_two_packages_of_one_name_are_no_environment(pinned: Path, tmp_path: Path, other: str) -> None:
    text = (pinned / "gfx942-rocm7.2" / "explicit.txt").read_text()
    (line,) = [one for one in text.splitlines() if "/zlib-" in one]
    lock = tmp_path / "explicit.txt"
    lock.write_text(f"{text}{line}\n")
    assert read_lock(lock) == read_lock(pinned / "gfx942-rocm7.2" / "explicit.txt"), "the same line twice"
    lock.write_text(f"{text}{line.rpartition('/')[0]}/{other}\n")
    with pytest.raises(LockError, match="several packages of one name") as error:
        read_lock(lock)
    assert other in str(error.value)
    assert other in {one.file for one in read_lock_file(lock).packages}, "still a list to mirror"


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_of_several_environments_the_one_for_this_host(pinned: Path, arch: str) -> None:
    lock = read_lock_file(pinned / "pixi.lock")
    assert choose(lock, here=[arch]).arch == choose(lock, here=["gfx1100", arch]).arch == arch
    for here in ([], ["gfx1100"], ["gfx90a", "gfx942"]):
        with pytest.raises(LockError, match="several environments") as error:
            choose(lock, here=here)
        assert error.value.fix == "name the GPU with --arch"
    (one,) = [one for one in lock.environments if one.arch == arch]
    twice = replace(lock, environments=(one, replace(one, name="other")))
    with pytest.raises(LockError, match="several environments") as error:
        choose(twice, arch)
    assert "--arch" not in str(error.value)
    with pytest.raises(LockError, match="has no environment"):
        choose(replace(lock, environments=()))


def with_other_system(pinned: Path, folder: Path, platform: str, *, alone: bool = False) -> Path:
    """The pinned conda-lock file, with the same packages for another system, too."""
    data = yaml.safe_load((pinned / "gfx942-rocm7.2" / "conda-lock.yml").read_text())
    others = [{**one, "platform": platform} for one in data["package"] if "/noarch/" in one["url"]]
    for one in data["package"]:
        if "/linux-64/" in one["url"]:
            url = one["url"].replace("/linux-64/", f"/{platform}/")
            others.append({**one, "platform": platform, "url": url})
    data["package"] = others if alone else [*data["package"], *others]
    data["metadata"]["platforms"].append(platform)
    path = folder / f"{platform}.yml"
    path.write_text(yaml.safe_dump(data))
    return path


@pytest.mark.parametrize("platform", ["osx-arm64", "win-64", "linux-aarch64", "linux-32"])
def test_environments_of_other_systems_do_not_count(pinned: Path, tmp_path: Path, platform: str) -> None:
    both = with_other_system(pinned, tmp_path, platform)
    wanted = sorted(read_lock(pinned / "gfx942-rocm7.2" / "conda-lock.yml"))
    assert sorted(read_lock(both)) == sorted(read_lock(both, "gfx942")) == wanted
    (checked,) = check_locks([read_lock_file(both)], Host((), None, None))
    assert checked.holds and any(platform in note for note in checked.notes)
    alone = read_lock_file(with_other_system(pinned, tmp_path, platform, alone=True))
    for ask in (lambda: choose(alone), lambda: check_locks([alone], Host((), None, None))):
        with pytest.raises(LockError, match="is for another system") as error:
            ask()
        assert platform in str(error.value) and "linux-64" in str(error.value)


URL = "https://host/c/linux-64/a-1-0.conda"


def conda_lock(package: str) -> str:
    return f"metadata: {{}}\npackage: [{{{package}}}]\n"


@pytest.mark.parametrize(
    "text",
    [
        "@EXPLICIT\nhttps://host/c/linux-64/../../a-1-0.conda\n",
        "@EXPLICIT\nhttps://host/c/linux-64/%2e%2e%2fa-1-0.conda\n",
        "@EXPLICIT\nhttps://host/c/a b/a-1-0.conda\n",
        "@EXPLICIT\nhttps://host/c/linux-64/a.conda\n",
        f"@EXPLICIT\n{URL}#sha256:{'a' * 63}\n",
        "metadata: {}\npackage: {}\n",
        "version: 2\nmetadata: {}\npackage: []\n",
        conda_lock(f"name: b, manager: conda, platform: linux-64, url: '{URL}', hash: {{}}"),
        conda_lock(f"name: a, manager: x, platform: linux-64, url: '{URL}', hash: {{}}"),
        conda_lock(f"name: a, manager: conda, platform: linux-64, url: '{URL}', hash: {{md5: 7}}"),
        conda_lock(f"name: a, manager: conda, url: '{URL}', hash: {{}}"),
        "version: 7\nenvironments: {}\npackages: 3\n",
        "version: 99\nenvironments: {}\npackages: []\n",
        "dependencies: [numpy]\n",
        "dependencies: []\n",
        "a: &a [*a, *a]\n",
        "a: 9999-99-99\n",
        "[]",
        "",
    ],
)
def test_hostile_locks_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lock"
    path.write_text(text)
    with pytest.raises(LockError):
        read_lock_file(path)


def in_process(task: str, payload: dict[str, Any]) -> Any:
    """The task without its child process, which a thousand examples would take minutes for."""
    try:
        return json.loads(json.dumps(getattr(pin_tasks, task)(payload)))
    except BaseException as error:  # also what a panic of py-rattler becomes
        if isinstance(error, KeyboardInterrupt):
            raise
        raise rattler_process.RattlerCallError(str(error)) from error


@settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "150")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(edits=[], name="pixi.lock", text="\x00")
@given(
    edits=st.lists(st.tuples(st.integers(0, 1 << 14), st.integers(0, 40), st.text(max_size=20)), max_size=4),
    name=st.sampled_from(
        ["pixi.lock", *(f"gfx942-rocm7.2/{f}" for f in ("explicit.txt", "conda-lock.yml", "environment.yml"))]
    ),
    text=st.one_of(st.none(), st.text(max_size=200)),
)
def test_foreign_text_is_a_lock_or_a_lock_error(
    pinned: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    edits: list[tuple[int, int, str]],
    name: str,
    text: str | None,
) -> None:
    monkeypatch.setattr(rattler_process, "call", in_process)
    content = (pinned / name).read_text() if text is None else text
    for at, length, new in edits:
        at %= len(content) + 1
        content = content[:at] + new + content[at + length :]
    path = tmp_path / "lock"
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    try:
        lock = read_lock_file(path)
    except LockError:
        return
    for one in lock.packages:
        assert one.name and one.version and one.build
        assert one.sha256 is None or len(one.sha256) == 64
        assert one.place is None or ("/" not in one.place.file and ".." not in one.place.subdir)
