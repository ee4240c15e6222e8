"""Uploads to package servers: py-rattler-build's own functions, against a server on this host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from channel_tools.channel.init import init_channel
from channel_tools.channel.release import read_releases
from channel_tools.channel.servers.upload_release import upload_releases
from channel_tools.channel.servers.upload_targets import (
    Target,
    Upload,
    install_commands,
    parse_target,
    upload,
)
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.cli.main import _app_of
from channel_tools.cli.upload import upload as upload_command
from channel_tools.model.errors import (
    AccessError,
    ChannelError,
    ChannelToolsError,
    DamagedFileError,
    StorageError,
)
from channel_tools.model.package import sha256
from tests.integration.faults import make_stage
from tests.integration.package_server import PackageServer, package_server
from tests.integration.tiny_packages import tiny_package
from tests.unit.store_contract import digest

KINDS = ["quetz", "artifactory", "prefix"]
ARCH = "label/gfx942/linux-64/amdgpu-arch-9.4.2-gfx942_declared_0.conda"
WRONG = "wrong-token-9876543210"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PackageServer]:
    with package_server() as running:
        running.channels = {"internal": {}, "internal-gfx942": {}}
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.delenv("RATTLER_AUTH_FILE", raising=False)
        for name in ("QUETZ_API_KEY", "ARTIFACTORY_TOKEN", "PREFIX_API_KEY"):
            monkeypatch.setenv(name, running.token)
        yield running


@pytest.fixture
def release(tmp_path: Path) -> list[Upload]:
    """Two packages of the main channel and a declared build."""
    made = {
        "linux-64/x-1-0.conda": tiny_package(tmp_path, "x"),
        "noarch/y-1-0.conda": tiny_package(tmp_path, "y", subdir="noarch"),
        ARCH: tiny_package(tmp_path, "amdgpu-arch", "9.4.2", "gfx942_declared_0"),
    }
    return [Upload(key, sha256(path), path) for key, path in made.items()]


def target(kind: str, server: PackageServer) -> Target:
    middle = "/artifactory" if kind == "artifactory" else ""
    return parse_target(f"{kind}:{server.address}{middle}/internal")


def quiet(_text: str) -> None:
    """For tests that do not look at messages."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_goes_up_labels_first_and_once(
    kind: str, server: PackageServer, release: list[Upload]
) -> None:
    said: list[str] = []
    sent = upload(target(kind, server), release, say=said.append)
    assert [item.key for item in sent] == [ARCH, "noarch/y-1-0.conda", "linux-64/x-1-0.conda"]
    assert set(server.channels["internal"]) == {"x-1-0.conda", "y-1-0.conda"}
    assert set(server.channels["internal-gfx942"]) == {ARCH.rsplit("/")[-1]}, "a sibling channel"
    for item in release:
        channel = "internal-gfx942" if item.key == ARCH else "internal"
        assert digest(server.channels[channel][item.name]) == item.sha256
    assert "uploaded 1 of 3" in said[0] and "internal-gfx942" in said[0]

    said.clear()
    assert upload(target(kind, server), release, say=said.append) == []
    assert len(server.uploads) == 3, "the same content again sends nothing"
    assert all(text.startswith("is there already") for text in said) and len(said) == 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("late", [False, True], ids=["listed", "not listed yet"])
@pytest.mark.parametrize("checksums", [False, True], ids=["", "checksum header"])
def test_other_content_is_refused_before_anything_is_sent(
    kind: str, late: bool, checksums: bool, server: PackageServer, release: list[Upload]
) -> None:
    """Also on Artifactory, which would overwrite, and while the server has not indexed the file yet."""
    server.channels["internal"]["x-1-0.conda"] = b"other"
    server.late, server.checksums = late, checksums
    with pytest.raises(ChannelError, match="other content") as caught:
        upload(target(kind, server), release, say=quiet)
    assert "x-1-0.conda" in str(caught.value)
    assert not server.uploads
    assert server.channels["internal"] == {"x-1-0.conda": b"other"}


def test_an_index_without_zst(server: PackageServer, release: list[Upload]) -> None:
    server.zst = False
    upload(target("quetz", server), release, say=quiet)
    assert upload(target("quetz", server), release, say=quiet) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_token(
    kind: str, server: PackageServer, release: list[Upload], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = target(kind, server)
    monkeypatch.setenv(place.variable, WRONG)
    with pytest.raises(StorageError) as caught:
        upload(place, release, say=quiet)
    text = str(caught.value)
    assert WRONG not in text and place.variable in text and "0 of 3 packages" in text
    assert not server.uploads
    if kind == "prefix":  # the functions for the others do not tell the status
        assert isinstance(caught.value, AccessError)


@pytest.mark.parametrize("kind", KINDS)
def test_no_token(
    kind: str, server: PackageServer, release: list[Upload], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = target(kind, server)
    monkeypatch.delenv(place.variable)
    with pytest.raises(AccessError, match=place.variable):
        upload(place, release, say=quiet)
    assert not server.uploads


@pytest.mark.parametrize("kind", KINDS)
def test_a_private_channel_wants_a_token_to_be_read(
    kind: str, server: PackageServer, release: list[Upload], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.private = True
    place = target(kind, server)
    upload(place, release, say=quiet)
    monkeypatch.setenv(place.variable, WRONG)
    with pytest.raises(AccessError, match="refused to show the channel") as caught:
        upload(place, release, say=quiet)
    assert WRONG not in str(caught.value)


def test_the_clients_own_file_has_the_token(
    server: PackageServer, release: list[Upload], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.private = True
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({"127.0.0.1": {"BearerToken": server.token}}))
    monkeypatch.delenv("PREFIX_API_KEY")
    monkeypatch.setenv("RATTLER_AUTH_FILE", str(file))
    assert len(upload(target("prefix", server), release, say=quiet)) == 3


def test_a_release_that_broke_off_goes_on(server: PackageServer, release: list[Upload]) -> None:
    server.fails = frozenset({1})
    with pytest.raises(StorageError) as caught:
        upload(target("quetz", server), release, say=quiet)
    assert "1 of 3 packages of this release were uploaded before it" in str(caught.value)
    sent = upload(target("quetz", server), release, say=quiet)
    assert len(sent) == 2
    assert set(server.channels["internal"]) == {"x-1-0.conda", "y-1-0.conda"}


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"<html>", b'{"packages": 1}', b'{"packages.conda": [1]}', b'{"packages": {"x": 1}}'],
)
def test_an_index_that_is_none(server: PackageServer, release: list[Upload], content: bytes) -> None:
    server.broken_index = content
    with pytest.raises(ChannelError, match="cannot be read"):
        upload(target("quetz", server), release, say=quiet)
    assert not server.uploads


def test_a_server_that_is_not_there(release: list[Upload], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(StorageError, match="cannot be reached"):
        upload(parse_target("quetz:http://127.0.0.1:9/internal"), release, say=quiet)


@pytest.mark.parametrize(
    ("address", "service", "channel", "url", "label"),
    [
        (
            "https://prefix.dev/internal",
            "https://prefix.dev",
            "internal",
            "https://prefix.dev/internal",
            "https://prefix.dev/internal-gfx942",
        ),
        (
            "prefix:https://conda.example.org/internal/",
            "https://conda.example.org",
            "internal",
            "https://conda.example.org/internal",
            "https://conda.example.org/internal-gfx942",
        ),
        (
            "artifactory:https://host/artifactory/internal",
            "https://host/artifactory",
            "internal",
            "https://host/artifactory/api/conda/internal",
            "https://host/artifactory/api/conda/internal-gfx942",
        ),
        (
            "artifactory:https://host/artifactory/api/conda/internal",
            "https://host/artifactory",
            "internal",
            "https://host/artifactory/api/conda/internal",
            "https://host/artifactory/api/conda/internal-gfx942",
        ),
        (
            "quetz:https://host/get/internal",
            "https://host",
            "internal",
            "https://host/get/internal",
            "https://host/get/internal-gfx942",
        ),
        (
            "cloudsmith:owner/internal",
            "",
            "owner/internal",
            "https://conda.cloudsmith.io/owner/internal",
            "https://conda.cloudsmith.io/owner/internal-gfx942",
        ),
        (
            "anaconda:owner",
            "",
            "owner",
            "https://conda.anaconda.org/owner",
            "https://conda.anaconda.org/owner/label/gfx942",
        ),
    ],
)
def test_addresses(address: str, service: str, channel: str, url: str, label: str) -> None:
    found = parse_target(address)
    assert (found.service, found.channel, found.url) == (service, channel, url)
    assert found.for_label("gfx942").url == label
    commands = install_commands(found, "gfx942", "vllm-rocm", ["conda-forge"])
    for command in commands.values():
        assert f"-c {label} -c {url} -c conda-forge" in command and "vllm-rocm" in command
    assert label not in install_commands(found, None, "vllm-rocm")["conda"]


@pytest.mark.parametrize(
    "address",
    [
        "nexus:https://host/internal",
        "quetz:host/internal",
        "quetz:https://host",
        "cloudsmith:owner",
        "anaconda:owner/name",
        "artifactory:https://user:hunter22@host/artifactory/internal",
        "quetz:https://host/internal?token=hunter22",
        "quetz:",
    ],
)
def test_addresses_that_name_no_channel(address: str) -> None:
    with pytest.raises(ChannelToolsError) as caught:
        parse_target(address)
    assert "hunter22" not in str(caught.value)
    assert "wanted" in str(caught.value)


def test_what_anaconda_and_cloudsmith_are_asked(
    server: PackageServer, release: list[Upload], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their functions take the call; a server that is none of theirs gives one clear error."""
    from channel_tools.channel.servers.upload_call import send

    for place in (
        Target("anaconda", server.address, "owner", server.address, "gfx942"),
        Target("cloudsmith", server.address, "owner/internal", server.address),
    ):
        monkeypatch.setenv(place.variable, WRONG)
        with pytest.raises(ChannelToolsError) as caught, release[0].file() as path:
            send(place, release[0], path)
        assert WRONG not in str(caught.value)
        assert caught.value.exit_code in (41, 46)


def test_a_file_that_changed_is_not_sent(server: PackageServer, release: list[Upload]) -> None:
    source = release[0].source
    assert isinstance(source, Path)
    source.write_bytes(source.read_bytes() + b"x")
    with pytest.raises(DamagedFileError):
        upload(target("quetz", server), release[:1], say=quiet)
    assert not server.uploads


def test_a_release_of_our_channel(server: PackageServer, tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "channel")
    init_channel(store, {"name": "internal"}, who="test")
    stage = make_stage(tmp_path / "packages")
    stage.publish_first(store)
    (release,) = read_releases(store)
    said: list[str] = []
    place = target("artifactory", server)
    assert upload_releases(store, (), place, say=said.append, dry_run=True)
    assert not server.uploads and "would upload" in said[-1]
    args = [str(store.path), "--to", f"artifactory:{server.address}/artifactory/internal", "--dry-run"]
    shown = CliRunner().invoke(_app_of("upload", upload_command), args)
    assert shown.exit_code == 0, shown.output
    assert "each is a channel of its own" in shown.output
    assert f"-c {server.address}/artifactory/api/conda/internal-gfx90a-rocm7.2 -c" in shown.output
    assert json.loads(CliRunner().invoke(_app_of("upload", upload_command), [*args, "--json"]).stdout)[
        "dry_run"
    ]
    assert not server.uploads
    sent = upload_releases(store, [release.id], place, say=quiet)
    assert {item.key for item in sent} == {file.key for file in release.files}
    for file in release.files:
        parts = file.key.split("/")
        channel = f"internal-{parts[1]}" if parts[0] == "label" else "internal"
        assert digest(server.channels[channel][parts[-1]]) == file.sha256
    assert upload_releases(store, (), place, say=quiet) == []
    with pytest.raises(ChannelError, match="has no release 7"):
        upload_releases(store, ["7"], place, say=quiet)
