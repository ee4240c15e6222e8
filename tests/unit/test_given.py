"""Options that a shell leaves empty, or with a ``~``: no default, no folder of that name."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from channel_tools.cli import given
from channel_tools.cli.main import app
from channel_tools.client.reader import open_dependency, open_reader
from channel_tools.model.errors import ChannelError

COMMANDS = {
    "install --prefix": ("install", "vllm-rocm", "--prefix"),
    "install -p": ("install", "vllm-rocm", "-p"),
    "install --channel": ("install", "vllm-rocm", "--prefix", "env", "--channel"),
    "install -c": ("install", "vllm-rocm", "--prefix", "env", "-c"),
    "install --file": ("install", "--prefix", "env", "--file"),
    "arch --channel": ("arch", "--channel"),
    "configure --channel": ("configure", "--channel"),
    "configure --file": ("configure", "--channel", "https://conda.example.com/internal", "--file"),
    "configure --undo --file": ("configure", "--undo", "--file"),
    "pin --channel": ("pin", "environment.yml", "--channel"),
    "pin --output-dir": ("pin", "environment.yml", "--output-dir"),
    "mirror --to": ("mirror", "pixi.lock", "--to"),
}


@pytest.mark.parametrize("value", ["", " "])
@pytest.mark.parametrize("name", COMMANDS)
def test_an_empty_value_is_a_wrong_usage(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*COMMANDS[name], value])
    assert done.exit_code == 2 and "is empty" in done.output
    assert name.split()[-1] in done.output and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.split()[-1] in ("--prefix", "--file")])
def test_a_home_that_no_shell_expanded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert given.path("~/x") == Path("~/x").expanduser()
    done = CliRunner().invoke(app, [*COMMANDS[name][:-1], f"{COMMANDS[name][-1]}=~nobody-of-that-name/x"])
    assert done.exit_code == 2 and "no home folder" in done.output


def test_channels_in_a_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_reader("~/internal").url == (tmp_path / "internal").as_uri()
    assert open_dependency("~/forge") == (tmp_path / "forge").as_uri()
    for opened in (open_reader, open_dependency):
        with pytest.raises(ChannelError, match="home folder"):
            opened("~nobody-of-that-name/x")
