"""Reading a channel that demands a token, as docs/access.md says: the right one, a wrong one, none."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from channel_tools import rattler_process
from tests.integration.guarded_channel import Guarded, Way, guarded
from tests.integration.tiny_packages import arch_package, gpu_package, rocm_package

TOKEN = "tk-4f1d9c77e0aa5512"
WRONG = "tk-000000wrong000000"
VIRTUAL = [["__amdgpu", "0", "0"], ["__amdgpu_arch", "9.4.2", "0"], ["__rocm_userspace", "7.2", "0"]]
Credentials = dict[str, dict[str, Any]]
FORMS: dict[Way, Callable[[str], Credentials]] = {
    "bearer": lambda token: {"127.0.0.1": {"BearerToken": token}},
    "basic": lambda token: {"127.0.0.1": {"BasicHTTP": {"username": "reader", "password": token}}},
    "path": lambda token: {"127.0.0.1": {"CondaToken": token}},
}


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("channel")
    gpu_package(folder, "hip-demo", "0.1.0", "gfx942", "7.2")
    arch_package(folder, "gfx942")
    rocm_package(folder, "7.2")
    rattler_process.call("index", {"channels": [str(folder)]})
    return folder


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without credentials and without caches."""
    for name in ("RATTLER_AUTH_FILE", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "cache"))


def log_in(monkeypatch: pytest.MonkeyPatch, folder: Path, credentials: Credentials) -> None:
    file = folder / "credentials.json"
    file.write_text(json.dumps(credentials))
    file.chmod(0o600)
    monkeypatch.setenv("RATTLER_AUTH_FILE", str(file))


def install(url: str, prefix: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rattler_process.call(
        "solve", {"channels": [url], "specs": ["hip-demo"], "virtual": VIRTUAL, "prefix": str(prefix)}
    )
    return found


def all_text(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


def is_installed(prefix: Path) -> bool:
    return (prefix / "share" / "hip-demo.txt").is_file()


@pytest.mark.parametrize("way", FORMS)
def test_right_token_reads_and_installs(
    channel: Path, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, tmp_path, FORMS[way](TOKEN))
    with guarded(channel, way, TOKEN) as server:
        records = install(server.url, tmp_path / "env")
    assert {record["name"] for record in records} == {"hip-demo", "amdgpu-arch", "rocm-userspace"}
    assert is_installed(tmp_path / "env")
    assert server.refused == [] and any(path.endswith(".conda") for path in server.served)
    assert TOKEN not in json.dumps(records)
    assert TOKEN not in all_text(tmp_path / "env"), "a token in the environment would be handed on with it"


@pytest.mark.parametrize("way", FORMS)
def test_wrong_token_is_refused_and_not_shown(
    channel: Path, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, tmp_path, FORMS[way](WRONG))
    with guarded(channel, way, TOKEN) as server, pytest.raises(rattler_process.RattlerCallError) as error:
        install(server.url, tmp_path / "env")
    assert "401" in str(error.value) and WRONG not in str(error.value)
    assert server.served == [] and not is_installed(tmp_path / "env")


@pytest.mark.parametrize("way", FORMS)
def test_no_token_is_refused(channel: Path, way: Way, tmp_path: Path) -> None:
    with guarded(channel, way, TOKEN) as server, pytest.raises(rattler_process.RattlerCallError) as error:
        install(server.url, tmp_path / "env")
    assert "401" in str(error.value)
    assert server.served == [] and not is_installed(tmp_path / "env")


def test_netrc_serves_basic(channel: Path, tmp_path: Path) -> None:
    netrc = tmp_path / "home" / ".netrc"
    netrc.write_text(f"machine 127.0.0.1 login reader password {TOKEN}\n")
    netrc.chmod(0o600)
    with guarded(channel, "basic", TOKEN) as server:
        install(server.url, tmp_path / "env")
    assert is_installed(tmp_path / "env") and TOKEN not in all_text(tmp_path / "env")


def test_stored_token_goes_to_its_host_only(
    channel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, tmp_path, {"conda.example.com": {"BearerToken": TOKEN}})
    with guarded(channel, "bearer", TOKEN) as server, pytest.raises(rattler_process.RattlerCallError):
        install(server.url, tmp_path / "env")


def with_token(server: Guarded, token: str) -> str:
    return f"{server.url}/t/{token}"


def test_token_in_the_address_works_and_is_written_into_the_environment(
    channel: Path, tmp_path: Path
) -> None:
    """The reason why docs/access.md advises against it."""
    with guarded(channel, "path", TOKEN) as server:
        records = install(with_token(server, TOKEN), tmp_path / "env")
    assert is_installed(tmp_path / "env")
    assert all(TOKEN not in record["channel"] for record in records)
    assert TOKEN in all_text(tmp_path / "env" / "conda-meta")


def test_wrong_token_in_the_address_is_not_shown(channel: Path, tmp_path: Path) -> None:
    with guarded(channel, "path", TOKEN) as server, pytest.raises(rattler_process.RattlerCallError) as error:
        install(with_token(server, WRONG), tmp_path / "env")
    assert "401" in str(error.value) and WRONG not in str(error.value)


@pytest.mark.parametrize("way", FORMS)
def test_curl_as_docs_show_it(channel: Path, way: Way, tmp_path: Path) -> None:
    """The first thing to try when a client is refused: it needs no client at all."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    with guarded(channel, way, TOKEN) as server:
        url = with_token(server, TOKEN) if way == "path" else server.url
        lines = {"bearer": f'header = "Authorization: Bearer {TOKEN}"', "basic": f'user = "reader:{TOKEN}"'}
        done = subprocess.run(
            ["curl", "--fail", "--silent", "--show-error", "--config", "-", f"{url}/noarch/repodata.json"],
            input=lines.get(way, ""),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["info"]["subdir"] == "noarch"
