"""The install commands of the channel page: each client, for each machine that the channel has builds for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE, combined_label, rocm_label
from channel_tools.channel.page.builds import Build, plain
from channel_tools.channel.settings import Settings

_BOTH = {ARCH_PACKAGE, ROCM_PACKAGE}
_TOP = ("vllm-rocm", "pytorch-rocm", "rocm-canary")
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
    """One machine, and how each client installs for it. ``found``: the client looks at the GPU itself.

    ``packages`` are those that have a build for it which is not yanked; its commands name ``package``.
    """

    title: str
    arch: str | None
    rocm: str | None
    found: bool
    packages: tuple[str, ...]
    package: str
    commands: tuple[Command, ...]


def machines(
    settings: Settings,
    labels: Mapping[str, Iterable[Build]],
    archs: Sequence[str],
    releases: Sequence[str],
    builds: Iterable[Build],
) -> list[Machine]:
    """Declared machines that the channel has a label for, then those that the client looks at itself.

    None for which every build, or every build of the label, is yanked.

    :param labels: builds by label
    :param archs: archs that the main channel can be matched with by the client
    :param releases: ROCm releases, the newest first
    :param builds: those of the main channel
    """
    wanted = {(build.name, build.variant) for build in builds if build.yank is None and not build.selects}

    def packages(some: Sequence[str], rocm: str) -> tuple[str, ...]:
        fitting = {n for n, v in wanted if v.arch in (None, *some) and v.rocm in (None, rocm)}
        return tuple(sorted(fitting))

    made = []
    for rocm in releases:
        for arch in archs:
            label = combined_label(arch, rocm)
            names = packages((arch,), rocm) if _selects(labels.get(label, ())) == _BOTH else ()
            if names:
                top = top_package(names)
                commands = _declared(settings, label, arch, rocm, top)
                made.append(Machine(f"{arch}, ROCm {rocm}", arch, rocm, False, names, top, commands))
    for rocm in releases:
        label = rocm_label(rocm)
        names = packages(archs, rocm) if archs and ROCM_PACKAGE in _selects(labels.get(label, ())) else ()
        if names:
            top = top_package(names)
            title = f"GPU found by the client, ROCm {rocm}"
            made.append(Machine(title, None, rocm, True, names, top, _found(settings, label, top)))
    return made


def top_package(names: Iterable[str]) -> str:
    """The package that commands name at first: the top of the stack, if it is there."""
    there = set(names)
    return next((name for name in _TOP if name in there), None) or min(there)


def _selects(builds: Iterable[Build]) -> set[str]:
    """Which of the two selecting packages a label has, yanked builds left out."""
    return {build.name for build in builds if build.selects and build.yank is None}


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
