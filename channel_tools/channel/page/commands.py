"""The install commands of the channel page: each client, for each machine that the channel has builds for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from channel_tools.channel.layout import combined_label, rocm_label
from channel_tools.channel.page.builds import Build, plain
from channel_tools.channel.settings import Settings

Part = tuple[str, str]
"""A part of a command: kind and text. The page fills in ``url`` and ``pkg``, breaks no ``opt``."""

UNKNOWN_URL = "CHANNEL-URL"
"""Stands in commands of a channel without ``url``; the page's script puts its own address there."""


@dataclass(frozen=True)
class Command:
    """One line to copy."""

    client: str
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.parts)


@dataclass(frozen=True)
class Machine:
    """One machine, and how each client installs for it. ``found``: the client looks at the GPU itself."""

    title: str
    arch: str | None
    rocm: str | None
    found: bool
    commands: tuple[Command, ...]


def machines(
    settings: Settings, labels: Iterable[str], archs: Sequence[str], releases: Sequence[str], package: str
) -> list[Machine]:
    """Declared machines that the channel has a label for, then those that the client looks at itself.

    :param labels: labels of the channel
    :param archs: archs that the main channel can be matched with by the client
    :param releases: ROCm releases, the newest first
    """
    there = set(labels)
    declared = [
        Machine(
            f"{arch}, ROCm {rocm}",
            arch,
            rocm,
            False,
            _declared(settings, combined_label(arch, rocm), arch, rocm, package),
        )
        for rocm in releases
        for arch in archs
        if combined_label(arch, rocm) in there
    ]
    found = [
        Machine(
            f"GPU found by the client, ROCm {rocm}",
            None,
            rocm,
            True,
            _found(settings, rocm_label(rocm), package),
        )
        for rocm in releases
        if archs and rocm_label(rocm) in there
    ]
    return declared + found


def main_package(builds: Iterable[Build]) -> str | None:
    """The package that commands name at first: the top of the stack, if it is there."""
    names = {build.name for build in builds if build.yank is None and not build.selects}
    for name in ("vllm-rocm", "pytorch-rocm", "rocm-canary"):
        if name in names:
            return name
    return min(names, default=None)


def _declared(settings: Settings, label: str, arch: str, rocm: str, package: str) -> tuple[Command, ...]:
    channels = _channels(settings, f"/label/{label}")
    return (
        *(_conda(client, client, channels, package) for client in ("conda", "mamba", "micromamba")),
        _pixi("pixi", channels, package),
        _own(settings, package, f" --arch {shlex.quote(arch)} --rocm {shlex.quote(rocm)}"),
    )


def _found(settings: Settings, label: str, package: str) -> tuple[Command, ...]:
    channels = _channels(settings, f"/label/{label}")
    return (
        _own(settings, package, ""),
        _pixi("pixi 0.82 or newer", channels, package),
        _conda("conda with a plugin that reports __amdgpu_arch", "conda", channels, package),
    )


def _conda(client: str, program: str, channels: tuple[Part, ...], package: str) -> Command:
    head = _text(f"{program} create -n rocm --strict-channel-priority")
    return Command(client, (*head, *channels, ("", " "), _package(package)))


def _pixi(client: str, channels: tuple[Part, ...], package: str) -> Command:
    return Command(
        client,
        (
            *_text("pixi init --platform linux-64"),
            *channels,
            *_text(" rocm && cd rocm && pixi add "),
            _package(package),
        ),
    )


def _own(settings: Settings, package: str, machine: str) -> Command:
    head = (*_text("rocm-channel install --channel "), *_url(settings, ""))
    rest = "".join(f" -c {shlex.quote(plain(channel))}" for channel in settings.dependency_channels)
    tail = _text(f"{rest}{machine} --prefix ./rocm ")
    return Command("rocm-channel", (*head, *tail, _package(package)))


def _channels(settings: Settings, label: str) -> tuple[Part, ...]:
    """`` -c`` options: the label in front, then the channel, then those of the dependencies."""
    pieces: list[Part] = []
    for path in (label, ""):
        pieces += [("", " -c "), *_url(settings, path)]
    pieces += [("", f" -c {shlex.quote(plain(channel))}") for channel in settings.dependency_channels]
    return tuple(pieces)


def _url(settings: Settings, path: str) -> tuple[Part, ...]:
    if settings.url is None:
        return (("url", UNKNOWN_URL), ("", shlex.quote(path) if path else ""))
    return _text(shlex.quote(plain(settings.url).rstrip("/") + path))


def _package(name: str) -> Part:
    return ("pkg", shlex.quote(name))


def _text(text: str) -> tuple[Part, ...]:
    pieces = re.split(r"(?<= )(--[a-z-]+)", text)
    return tuple(("opt" if number % 2 else "", piece) for number, piece in enumerate(pieces) if piece)
