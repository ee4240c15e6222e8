"""An installation that ends early: a new environment is whole or not there, one that was there is marked."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from channel_tools import rattler_process
from channel_tools.channel.care.yank import yank
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.client import placing
from channel_tools.client.env_check.check import check_environment
from channel_tools.client.host import Host
from channel_tools.client.install import Prepared, prepare
from channel_tools.client.locked import prepare_locked, read_locked
from channel_tools.client.placing import place
from channel_tools.client.prefix_facts import UNFINISHED, read_prefix
from channel_tools.client.reader import open_reader
from channel_tools.model.errors import (
    ChannelError,
    ChannelToolsError,
    DamagedFileError,
    DependencyError,
    StorageError,
)
from tests.integration.pin_channels import Server, installed, make_channel, serving
from tests.integration.tiny_packages import release, tiny_package


def tiny_bytes() -> bytes:
    """A package, but another one."""
    with tempfile.TemporaryDirectory() as scratch:
        return tiny_package(Path(scratch), "hip-demo", "7").read_bytes()


NOBODY = Host((), None, None)
CONTENT = {"other": tiny_bytes(), "no package": b"<html>please log in</html>"}
ENDS: dict[str, type[BaseException]] = {
    "other": DamagedFileError,
    "no package": DamagedFileError,
    "gone": ChannelError,
    "disk": StorageError,
    "ctrl-c": KeyboardInterrupt,
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> FolderStore:
    root = tmp_path_factory.mktemp("site")
    return make_channel(
        root / "internal", release(root / "built", "hip-demo", files={"lib/demo": b"1" * 5000})
    )


@pytest.fixture
def server(site: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The channel as it is served, to a user whose cache is empty."""
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "cache"))
    with serving(site.path.parent) as state:
        yield state


def prepared(server: Server, prefix: Path, arch: str | None = None, rocm: str | None = None) -> Prepared:
    reader = open_reader(f"{server.url}/internal")
    return prepare(reader, ["hip-demo"], prefix=prefix, arch=arch, rocm=rocm, host=NOBODY)


@contextmanager
def ending(server: Server, how: str, found: Prepared) -> Iterator[None]:
    """The last package is another one or is not there, or all but that are installed before the end."""
    (name,) = [one["url"].rpartition("/")[2] for one in found.records if one["name"] == "hip-demo"]
    real = rattler_process.call

    def nearly(task: str, payload: dict[str, Any]) -> Any:
        real(task, {**payload, "records": [one for one in payload["records"] if one["name"] != "hip-demo"]})
        if how == "ctrl-c":
            raise KeyboardInterrupt
        raise rattler_process.RattlerCallError("failed to link: No space left on device (os error 28)")

    with pytest.MonkeyPatch.context() as patch:
        if how in ("other", "no package"):
            patch.setitem(server.wrong, name, CONTENT[how])
        elif how == "gone":
            server.gone.add(name)
        else:
            patch.setattr(rattler_process, "call", nearly)
        yield
    server.gone.discard(name)


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("there", [None, [], [".hidden", "lost+found"]])
def test_a_new_environment_is_whole_or_not_there(
    server: Server, tmp_path: Path, how: str, there: list[str] | None
) -> None:
    prefix = tmp_path / "env"
    for name in there or ():
        (prefix / name).mkdir(parents=True)
    if there is not None:
        prefix.mkdir(exist_ok=True)
    found = prepared(server, prefix, "gfx942", "7.2")
    with ending(server, how, found), pytest.raises(ENDS[how]) as error:
        place(prefix, found.records)
    if isinstance(error.value, ChannelToolsError):
        assert error.value.fix and error.value.fix.startswith("nothing was installed")
    assert prefix.exists() == (there is not None)
    assert sorted(one.name for one in prefix.rglob("*")) == sorted(there or ())
    place(prefix, found.records)
    assert (prefix / "lib" / "demo").is_file() and not (prefix / UNFINISHED).exists()


@pytest.mark.parametrize("how", ENDS)
def test_one_that_was_there_is_marked_and_completed(server: Server, tmp_path: Path, how: str) -> None:
    prefix = tmp_path / "env"
    place(prefix, prepared(server, prefix, "gfx90a", "7.0").records)
    found = prepared(server, prefix, "gfx942", "7.2")
    with ending(server, how, found), pytest.raises(ENDS[how]) as error:
        place(prefix, found.records)
    if isinstance(error.value, ChannelToolsError):
        assert error.value.fix and error.value.fix.startswith("the environment is incomplete")
    facts = read_prefix(prefix)
    assert (facts.arch, facts.arch_declared, facts.rocm, facts.rocm_declared) == ("gfx942", True, "7.2", True)
    assert "hip-demo" in facts.names
    assert "unfinished" in {one.kind for one in check_environment(prefix, NOBODY, environ={}).findings}
    (prefix / "conda-meta" / "prefix_record_abc").write_text("{")  # as a process leaves it that was killed
    place(prefix, prepared(server, prefix).records)
    place(tmp_path / "fresh", prepared(server, tmp_path / "fresh", "gfx942", "7.2").records)
    assert installed(prefix) == installed(tmp_path / "fresh")


def test_what_refuses_before_anything_changed_leaves_no_mark(server: Server, tmp_path: Path) -> None:
    prefix = tmp_path / "env"
    found = prepared(server, prefix, "gfx942", "7.2")
    place(prefix, found.records)
    before = installed(prefix)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placing, "check_writable", full)
        with pytest.raises(StorageError):
            place(prefix, found.records)
    assert installed(prefix) == before
    assert check_environment(prefix, NOBODY, environ={}).findings == ()


def full(folder: Path) -> None:
    raise StorageError("cannot be written: the disk is full", where=folder)


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "RATTLER_CACHE_DIR"])
def test_a_cache_that_cannot_be_written_is_no_fault_of_the_channel(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(variable, str(tmp_path / "file" / "cache"))
    with pytest.raises(StorageError, match="the cache of py-rattler cannot be written") as error:
        place(tmp_path / "env", prepared(server, tmp_path / "env", "gfx942", "7.2").records)
    assert error.value.exit_code == 41 and "XDG_CACHE_HOME" in str(error.value)
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize("content", [None, b"", b"cut"])
def test_a_package_of_a_lock_that_cannot_be_read_is_named(
    site: FolderStore, server: Server, tmp_path: Path, content: bytes | None
) -> None:
    found = prepared(server, tmp_path / "env", "gfx942", "7.2")
    channel = shutil.copytree(site.path, tmp_path / "internal")
    (url,) = [one["url"] for one in found.records if one["name"] == "hip-demo"]
    file = channel / "linux-64" / url.rpartition("/")[2]
    lock = tmp_path / "explicit.txt"
    others = [one["url"] for one in found.records if one["url"] != url]
    lock.write_text("\n".join(["@EXPLICIT", file.as_uri(), *others, ""]))
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(ChannelError) as error:
        prepare_locked(read_locked(lock), None, NOBODY, None)
    assert file.as_uri() in str(error.value) and "pin --check" in str(error.value)


def test_a_solve_without_a_way_names_what_was_yanked(site: FolderStore, tmp_path: Path) -> None:
    channel = FolderStore(shutil.copytree(site.path, tmp_path / "internal"))
    yank(channel, "hip-demo", "wrong results", "me", every=True)
    with pytest.raises(DependencyError) as error:
        prepare(open_reader(channel.path), ["hip-demo"], arch="gfx942", rocm="7.2", host=NOBODY)
    assert error.value.fix and "Yanked there: hip-demo 0.1.0" in error.value.fix
    assert "(wrong results)" in error.value.fix and "and 1 more" in error.value.fix
    with pytest.raises(DependencyError) as error:
        prepare(open_reader(channel.path), ["other"], arch="gfx942", rocm="7.2", host=NOBODY)
    assert error.value.fix and "Yanked" not in error.value.fix
