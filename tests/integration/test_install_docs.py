"""docs/install.md, block by block: channels in the order as written, and specs, solved with py-rattler."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tomlkit
import yaml

from channel_tools import rattler_process
from channel_tools.channel.page.builds import gather
from channel_tools.channel.page.commands import machines
from channel_tools.channel.settings import Settings
from channel_tools.client.arch_report import report
from channel_tools.client.configuring.backup import apply
from channel_tools.client.configuring.channel_names import ChannelNames, is_name
from channel_tools.client.configuring.configure import plan, wanted_of
from channel_tools.client.host import Host
from channel_tools.client.reader import open_reader
from channel_tools.model.arch import lookup
from tests.integration.helpers import ROOT, answer, rocm_channel, rocm_like
from tests.integration.page_channel import PageChannel
from tests.integration.solve_cases import HOST, SCENES, index, make_channels
from tests.integration.tiny_packages import tiny_package

PAGE = (ROOT / "docs" / "install.md").read_text()
URL = "https://conda.example.com/internal"
BLOCK = re.compile(r"<!-- host: (.*?) -->\n```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block with the host that it is for."""

    host: str
    language: str
    text: str

    @property
    def lines(self) -> list[str]:
        return [line.partition(" #")[0].strip() for line in self.text.splitlines() if line.strip()]

    def virtual(self) -> list[list[str]]:
        """What a client of that host detects."""
        found = list(HOST)
        if target := re.search(r"gfx\w+", self.host):
            known = lookup(target[0])
            assert known is not None
            found += [["__amdgpu", "0", "0"], ["__amdgpu_arch", known.isa, "0"]]
        if release := re.search(r"ROCm ([\d.]+)", self.host):
            found.append(["__rocm_userspace", release[1], "0"])
        return found


BLOCKS = [Block(*found) for found in BLOCK.findall(PAGE)]


@dataclass(frozen=True)
class Channels:
    ours: Path
    forge: Path

    def url(self, channel: str) -> str:
        """The address of a channel as the page has it, in the stead of the page's."""
        if channel == "conda-forge":
            return self.forge.as_uri()
        assert channel == URL or channel.startswith(f"{URL}/label/"), channel
        return channel.replace(URL, self.ours.as_uri())

    def solve(self, block: Block, channels: Sequence[str], specs: Sequence[str]) -> dict[str, str]:
        payload = {
            "channels": [self.url(one) for one in channels],
            "specs": list(specs),
            "virtual": block.virtual(),
        }
        return {r["name"]: f"{r['version']} {r['build']}" for r in rattler_process.call("solve", payload)}


@pytest.fixture(scope="module")
def channels(tmp_path_factory: pytest.TempPathFactory) -> Channels:
    ours, forge = make_channels(tmp_path_factory.mktemp("docs"), SCENES[0])
    tiny_package(ours, "conda-amdgpu-arch", "0.1.0", "0", subdir="noarch")
    index([ours, forge])
    return Channels(ours, forge)


def right(found: dict[str, str], arch: str = "gfx942") -> None:
    assert found["vllm-rocm"].startswith(f"0.26.0 rocm72_{arch}_"), found
    assert found["pytorch-rocm"].startswith(f"2.11.0 rocm72_{arch}_")
    assert found["amdgpu-arch"].split()[1].startswith(f"{arch}_")


def command(line: str) -> tuple[list[str], list[str], list[str]]:
    """Program and subcommand, channels in order, and specs of a conda-like command."""
    words = shlex.split(line)
    channels = [words[n + 1] for n, word in enumerate(words) if word == "-c"]
    takes_value = {"-c", "-n", "--platform", "--prefix", "--channel", "--arch", "--rocm"}
    rest = [
        word
        for n, word in enumerate(words[2:], 2)
        if not word.startswith("-") and words[n - 1] not in takes_value
    ]
    return words[:2], channels, rest


CONDA_LINES = [
    (block, line)
    for block in BLOCKS
    if block.language in ("sh", "dockerfile")
    for line in (one.removeprefix("RUN ") for one in block.lines)
    if line.startswith(("conda ", "mamba ", "micromamba "))
]


def test_the_page_has_a_block_for_every_client() -> None:
    programs = {line.split()[0] for block in BLOCKS for line in block.lines if block.language == "sh"}
    assert {"conda", "mamba", "micromamba", "pixi", "rocm-channel"} <= programs
    assert {block.language for block in BLOCKS} == {"sh", "yaml", "toml", "python", "dockerfile"}
    fenced = len(re.findall(r"^```\w+$", PAGE, re.MULTILINE))
    unsolved = len(re.findall(r"(?<!-->\n)^```\w+$", PAGE, re.MULTILINE))
    assert fenced - unsolved == len(BLOCKS)


@pytest.mark.parametrize(("block", "line"), CONDA_LINES, ids=[line[:40] for _, line in CONDA_LINES])
def test_conda_like_commands(channels: Channels, block: Block, line: str) -> None:
    (_, verb), given, specs = command(line)
    assert verb in ("create", "install")
    names = ChannelNames({"internal": URL.rpartition("/")[0]})
    if any(is_name(one) and one != "conda-forge" for one in given):
        given = [names.resolve(one) or one for one in given]
    else:
        assert "--strict-channel-priority" in line, "no .condarc is there that could say it"
    assert given[-1] == "conda-forge" and given[-2] == URL
    found = channels.solve(block, given, specs)
    if specs == ["conda-amdgpu-arch"]:
        assert found == {"conda-amdgpu-arch": "0.1.0 0"}
    else:
        right(found)


@pytest.mark.parametrize("block", [b for b in BLOCKS if "pixi init" in b.text], ids=lambda block: block.host)
def test_pixi_commands(channels: Channels, block: Block) -> None:
    (line,) = block.lines
    init, cd, add = line.split(" && ")
    assert cd.split() == ["cd", command(init)[2][-1]]
    right(channels.solve(block, command(init)[1], shlex.split(add)[2:]))


def test_pixi_workspace(channels: Channels) -> None:
    (block,) = [b for b in BLOCKS if b.language == "toml"]
    data = tomlkit.parse(block.text).unwrap()
    (platform,) = data["workspace"]["platforms"]
    declared = Block(platform["amdgpu"], "", "")
    right(channels.solve(declared, data["workspace"]["channels"], list(data["dependencies"])))


def test_environment_yml(channels: Channels) -> None:
    (block,) = [b for b in BLOCKS if b.language == "yaml" and "dependencies" in b.text]
    data = yaml.safe_load(block.text)
    assert data["channels"][-1] == "nodefaults"
    right(channels.solve(block, data["channels"][:-1], data["dependencies"]))


def test_condarc_is_what_configure_writes(tmp_path: Path, channels: Channels) -> None:
    (block,) = [b for b in BLOCKS if b.language == "yaml" and "custom_channels" in b.text]
    made = plan(wanted_of(URL, "conda", arch="gfx942", rocm="7.2"), tmp_path / ".condarc")
    apply(made)
    assert (tmp_path / ".condarc").read_text() == block.text
    data = yaml.safe_load(block.text)
    names = ChannelNames(data["custom_channels"])
    right(channels.solve(block, [names.resolve(one) or one for one in data["channels"]], ["vllm-rocm"]))


def test_without_the_label_it_is_refused_as_the_page_says(channels: Channels) -> None:
    with pytest.raises(rattler_process.RattlerCallError, match=r"__amdgpu|__rocm_userspace"):
        channels.solve(Block("none", "", ""), [URL, "conda-forge"], ["vllm-rocm"])


@pytest.mark.parametrize("label", ["rocm-7.2", "gfx942-rocm7.2"])
def test_py_rattler(channels: Channels, label: str, tmp_path: Path) -> None:
    """The program as it stands, with the channels' addresses and a folder of its own."""
    (block,) = [b for b in BLOCKS if b.language == "python"]
    calls = re.findall(r"^asyncio\.run\(main\(\"(.*?)\"\)\)", block.text, re.MULTILINE)
    assert calls == ["rocm-7.2", "gfx942-rocm7.2"]
    text = re.sub(r"^asyncio\.run.*\n", "", block.text, flags=re.MULTILINE)
    text = text.replace(URL, channels.ours.as_uri()).replace('"conda-forge"', repr(channels.forge.as_uri()))
    assert 'Channel("conda-forge")' not in text
    text += f"asyncio.run(main({label!r}))\nimport os\nos._exit(0)\n"
    gpu = {"CONDA_OVERRIDE_AMDGPU": "0", "CONDA_OVERRIDE_AMDGPU_ARCH": "9.4.2"} if label == "rocm-7.2" else {}
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, env={**os.environ, **gpu}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    metas = [json.loads(p.read_text()) for p in (tmp_path / "rocm" / "conda-meta").glob("*.json")]
    right({one["name"]: f"{one['version']} {one['build']}" for one in metas})


OWN = [
    (block, line)
    for block in BLOCKS
    for line in block.lines
    if line.startswith("rocm-channel install") and "--channel" in line
]


@pytest.mark.parametrize(("block", "line"), OWN, ids=[f"{n}" for n in range(len(OWN))])
def test_rocm_channel(channels: Channels, block: Block, line: str, tmp_path: Path) -> None:
    words: list[Any] = [
        channels.url(word) if word in (URL, "conda-forge") else word for word in shlex.split(line)[1:]
    ]
    target = re.search(r"gfx\w+", block.host)
    environ = (
        {"ROCM_BOOTSTRAP_FORCE_GFX_ARCH": target[0]} if target else {"ROCM_BOOTSTRAP_DISABLE_DETECTION": "1"}
    )
    if release := re.search(r"ROCm ([\d.]+)", block.host):
        environ["ROCM_PATH"] = str(rocm_like(tmp_path / "opt", release[1]))
    packages = answer(rocm_channel(*words, "--json", cwd=tmp_path, **environ))["packages"]
    declared = re.search(r"--arch (\w+)", line)
    found = {one["name"]: f"{one['version']} {one['build']}" for one in packages}
    right(found, declared[1] if declared else "gfx942")


def test_the_commands_of_arch_are_those_of_the_page(channels: Channels) -> None:
    """What `rocm-channel arch` prints for a gfx942 host with ROCm 7.2 stands on the page, word by word."""
    known = lookup("gfx942")
    assert known is not None
    reader = open_reader(channels.ours)
    look = reader.look("all")
    object.__setattr__(look.settings, "dependency_channels", ("conda-forge",))
    found = report(
        Host((known,), "7.2", Path("/opt/rocm")),
        reader,
        look,
        ("conda", "mamba", "micromamba", "pixi", "rocm-channel"),
    )
    assert len(found.commands) == 8
    for client, purpose, text in found.commands:
        text = text.replace(channels.ours.as_uri(), URL).replace(str(channels.ours), URL)
        assert text in PAGE, (client, purpose)


def test_the_channel_page_shows_the_same_commands() -> None:
    channel = PageChannel(Settings(url=URL, name="internal", dependency_channels=("conda-forge",)))
    channel.add("linux-64", "vllm-rocm", "0.26.0", "rocm72_gfx942_py312_h1_0")
    channel.add("label/gfx942-rocm7.2/linux-64", "amdgpu-arch", "9.4.2", "gfx942_declared_0")
    for label in ("gfx942-rocm7.2", "rocm-7.2"):
        channel.add(f"label/{label}/linux-64", "rocm-userspace", "7.2", "system_declared_0")
    found = gather(channel.indexes(), channel.yanked, [])
    labels = {label: builds for label, builds in found.items() if label}
    declared, _ = machines(channel.settings, labels, ["gfx942"], ["7.2"], found[None])
    assert len(declared.commands) == 5
    for shown in declared.commands:
        assert shown.text in PAGE, shown.client
