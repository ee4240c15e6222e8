"""Options that a shell leaves empty, or with a ``~``: no default, no folder of that name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command
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
    "verify paths": ("verify",),
    "verify --policy": ("verify", "x.conda", "--policy"),
    "publish packages": ("publish", "--channel", "channel"),
    "build --channel": ("build", "rocm-canary", "--channel"),
    "plan --rocm-path": ("plan", "rocm-canary", "--rocm-path"),
    "sources folder": ("sources", "mirror"),
    "env PREFIX": ("env", "check"),
    "doctor --prefix": ("doctor", "--prefix"),
    "clean SOURCE_TREES": ("clean",),
    "explain log": ("explain",),
    "wheels --policy": ("wheels", "x.whl", "--to", "wheels", "--policy"),
    "stage --into": ("stage", "vllm-rocm", "--into"),
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


def test_every_path_that_a_user_gives_is_read_so() -> None:
    parsers = {given.path, given.existing, given.file, given.folder}
    for command, parameter in parameters(get_command(app)):
        kind = parameter.type_descriptor
        if "Path" in str(kind.annotation):
            assert kind.parameter_info.parser in parsers, f"{command}: {parameter.name}"


def parameters(command: Any, name: str = "rocm-channel") -> Iterator[tuple[str, Any]]:
    if not isinstance(command, TyperGroup):
        yield from ((name, parameter) for parameter in command.params)
        return
    context = command.make_context(name, [], resilient_parsing=True)
    for one in command.list_commands(context):
        yield from parameters(command.get_command(context, one), f"{name} {one}")


@pytest.mark.parametrize("parser", [given.existing, given.file, given.folder])
def test_what_has_to_be_there(parser: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    there = {tmp_path: parser is not given.file, tmp_path / "file": parser is not given.folder}
    for path, fits in {**there, tmp_path / "file" / "x": False, tmp_path / "none": False}.items():
        if fits:
            assert parser(str(path)) == path
        else:
            with pytest.raises(typer.BadParameter):
                parser(str(path))


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
