"""What an environment that is there already is for."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE
from channel_tools.client.host import Host
from channel_tools.model.errors import ArchRefusedError, RocmRefusedError

UNFINISHED = "conda-meta/rocm-channel-unfinished"
"""File of an environment that is being changed: a line ``name-version-build`` for all that it will hold."""


@dataclass(frozen=True)
class PrefixFacts:
    """GPU target and ROCm release of an environment, and whether each was declared; ``names`` it holds."""

    arch: str | None = None
    arch_declared: bool = False
    rocm: str | None = None
    rocm_declared: bool = False
    names: tuple[str, ...] = ()


def read_prefix(prefix: Path | None) -> PrefixFacts:
    """Facts of an environment, from the names of its ``conda-meta`` files; none of one that is not there.

    Where an installation was broken off, they are of what it was about to make.
    """
    if prefix is None:
        return PrefixFacts()
    arch = rocm = None
    arch_declared = rocm_declared = False
    names = []
    for name, version, build in unfinished(prefix) or map(_parts, _records(prefix)):
        names.append(name)
        declared = "declared" in build.split("_")
        if name == ARCH_PACKAGE:
            arch, arch_declared = build.split("_")[0], declared
        elif name == ROCM_PACKAGE:
            rocm, rocm_declared = version, declared
    return PrefixFacts(arch, arch_declared, rocm, rocm_declared, tuple(names))


def from_elsewhere(prefix: Path | None, names: Collection[str], owns: Callable[[str], bool]) -> list[str]:
    """Installed packages of these names that came from another address than ours: the channel moved, perhaps.

    :param owns: is it the URL of a file of ours?
    """
    found = []
    for path in _records(prefix) if prefix else ():
        name = _parts(path)[0]
        if name in names:
            try:
                url = str(json.loads(path.read_text(encoding="utf-8")).get("url", ""))
            except (OSError, ValueError, AttributeError):
                url = ""
            if not owns(url):
                found.append(name)
    return found


def kept_declarations(
    prefix: Path | None, facts: PrefixFacts, host: Host, arch: str | None, rocm: str | None
) -> tuple[str | None, str | None, tuple[str, ...]]:
    """What the user declares, filled up by what the environment was declared for, and notes about that.

    :raises ArchRefusedError: the environment was made for the GPU of another host, and no arch is named
    :raises RocmRefusedError: the same with its ROCm release
    """
    notes = []
    if arch is None and facts.arch and facts.arch_declared:
        arch = facts.arch
        notes.append(f"this environment was declared for {arch}, and stays so; --arch changes it")
    elif arch is None and facts.arch and facts.arch not in {a.target for a in host.archs}:
        here = ", ".join(str(a) for a in host.archs)
        turned = f"; to rebuild it for this host, say --arch {host.archs[0].target}" if here else ""
        raise ArchRefusedError(
            "the environment is for another GPU than this host's",
            where=prefix,
            found=f"{facts.arch} in the environment, {here or 'no AMD GPU'} in this host",
            wanted="one environment for each arch",
            fix=f"to change the environment as it is, say --arch {facts.arch}{turned}",
        )
    elif arch is None and facts.arch and len(host.archs) > 1:
        arch = facts.arch
        notes.append(f"of this host's GPUs, the environment is for {arch}, and stays so")
    if rocm is None and facts.rocm and facts.rocm_declared:
        rocm = facts.rocm
        notes.append(f"this environment was declared for ROCm {rocm}, and stays so; --rocm changes it")
    elif rocm is None and facts.rocm and facts.rocm != host.rocm:
        turned = f"; to rebuild it for this host, say --rocm {host.rocm}" if host.rocm else ""
        raise RocmRefusedError(
            "the environment is for another ROCm release than this host's",
            where=prefix,
            found=f"{facts.rocm} in the environment, {host.rocm or 'no ROCm'} in this host",
            wanted="one environment for each release",
            fix=f"to change the environment as it is, say --rocm {facts.rocm}{turned}",
        )
    return arch, rocm, tuple(notes)


def _records(prefix: Path) -> list[Path]:
    return sorted((prefix / "conda-meta").glob("*.json"))


def unfinished(prefix: Path) -> list[tuple[str, str, str]]:
    """Name, version and build of what an installation that was broken off wanted; nothing where none was."""
    try:
        lines = (prefix / UNFINISHED).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
    found = [line.rsplit("-", 2) for line in lines]
    return [(one[0], one[1], one[2]) for one in found if len(one) == 3]


def _parts(path: Path) -> tuple[str, str, str]:
    parts = path.name.removesuffix(".json").rsplit("-", 2)
    if len(parts) == 3:
        return parts[0], parts[1], parts[2]
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        return str(data["name"]), str(data["version"]), str(data["build"])
    except (OSError, ValueError, KeyError, TypeError):
        return path.stem, "", ""
