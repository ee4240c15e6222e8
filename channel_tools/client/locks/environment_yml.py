"""``environment.yml`` (CEP 24): what is asked for, and the same with everything pinned.

A ``pip:`` section is passed on as it is, with the remark that it is not pinned, unless it would put a second
torch, triton or vllm over ours. Other sections, and the channel ``defaults``, are refused: no two clients
mean the same by them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE
from channel_tools.client.addresses import declared_by
from channel_tools.client.locks.lock_files import LockedEnvironment, LockedPackage
from channel_tools.client.locks.yaml_text import dump, load_mapping
from channel_tools.client.solving import Record
from channel_tools.model.errors import ChannelToolsError, LockError
from channel_tools.model.files import reason
from channel_tools.model.redaction import redact

SHADOWING = ("torch", "triton", "vllm", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm", "amdsmi")
"""Python distributions that pip must not put over the files of our packages."""

_KNOWN = frozenset({"name", "prefix", "channels", "dependencies", "variables", "platforms", "category"})
_SELECTOR = re.compile(r"sel\((unix|linux|osx|win)\)")
_PIN = re.compile(r"(?:\S*::)?(?P<name>[A-Za-z0-9_.-]+)={1,2}(?P<version>[^\s=]+)=(?P<build>[^\s=]+)")
_BESIDE = re.compile(r"\s*(?:(?:-[rce]|--(?:requirement|constraint|editable))(?:[\s=]|\b)|\.{1,2}(?:/|$)|/)")
_LABEL = re.compile(r"^(?P<channel>.+)/label/(?P<label>[^/]+)/?$")


@dataclass(frozen=True)
class Wanted:
    """What an environment.yml asks for, for linux-64.

    ``channels`` without ``nodefaults``; ``labels`` are those of ``ours``, the channel that has them, as the
    file writes it; ``arch`` and ``rocm`` are what the label declares.
    """

    path: Path
    name: str | None
    channels: tuple[str, ...]
    specs: tuple[str, ...]
    pip: tuple[str, ...] = ()
    variables: Mapping[str, str] | None = None
    ours: str | None = None
    labels: tuple[str, ...] = ()
    arch: str | None = None
    rocm: str | None = None
    notes: tuple[str, ...] = ()


def read_environment(path: Path) -> Wanted:
    """Read an environment.yml.

    :raises LockError: it cannot be read, or has something that cannot be pinned
    """
    try:
        data = load_mapping(path.read_text(encoding="utf-8"))
        found = _wanted(path, data)
    except (OSError, UnicodeDecodeError) as error:
        raise LockError("cannot be read", where=path, found=reason(error)) from error
    except ChannelToolsError as error:
        error.where = str(path)
        raise
    return _with_label(found)


def check_pip(wanted: Wanted, names: Collection[str]) -> None:
    """Refuse a pip section that would shadow packages of ours, or that leads to files beside it.

    :param names: of the packages that our channel has
    :raises LockError: one would
    """
    beside = [line for line in wanted.pip if _BESIDE.match(line) and "://" not in line]
    if beside:
        raise LockError(
            "has pip packages that a file or folder beside it names, which is not where pinned files lie",
            where=wanted.path,
            found=", ".join(beside),
            fix="write the requirements out in the pip section",
        )
    shadowed = {_normal(name) for name in (*SHADOWING, *names)}
    bad = [line for line in wanted.pip if _normal(_distribution(line)) in shadowed]
    if bad:
        raise LockError(
            "has pip packages that would be put over those of the channel, made for other GPUs or for none",
            where=wanted.path,
            found=", ".join(bad),
            fix="take them out of the pip section: the channel's packages bring them",
        )


def write_pinned(
    wanted: Wanted, records: Sequence[Record], channels: Sequence[str], name: str, title: str
) -> str:
    """The environment.yml with the exact version and build of everything, and the channels in their order."""
    dependencies: list[Any] = [
        f"{one['name']}={one['version']}={one['build']}"
        for one in sorted(records, key=lambda one: str(one["name"]))
    ]
    if wanted.pip:
        dependencies.append({"pip": list(wanted.pip)})
    data: dict[str, Any] = {
        "name": name,
        "channels": [*channels, "nodefaults"],
        "dependencies": dependencies,
    }
    if wanted.variables:
        data["variables"] = dict(wanted.variables)
    return f"# {title}\n# Channels are in their order: use it with channel_priority: strict.\n{dump(data)}"


def read_pinned(data: Mapping[str, Any]) -> LockedEnvironment:
    """A pinned environment.yml as a lock.

    :raises LockError: something in it is not pinned
    """
    found = _wanted(Path(), data)
    packages = []
    for spec in found.specs:
        match = _PIN.fullmatch(spec.strip())
        if match is None:
            raise LockError(
                "does not pin everything",
                found=spec,
                wanted="name=version=build",
                fix="`rocm-channel pin environment.yml` writes a pinned one",
            )
        packages.append(LockedPackage(match["name"], match["version"], match["build"]))
    if not packages:
        raise LockError("names no package")
    return LockedEnvironment(found.name or "", "linux-64", found.channels, tuple(packages), found.pip)


def without_selectors(specs: Sequence[str]) -> tuple[str, ...]:
    """The specs but those of the two packages that choose GPU and ROCm."""
    from channel_tools.build.nodes import spec_name

    return tuple(spec for spec in specs if spec_name(spec) not in (ARCH_PACKAGE, ROCM_PACKAGE))


def _wanted(path: Path, data: Mapping[str, Any]) -> Wanted:
    notes = [
        f"{key}: is no key of an environment.yml and was left out" for key in sorted(data.keys() - _KNOWN)
    ]
    channels = _texts(data, "channels")
    if "defaults" in channels:
        raise LockError(
            "uses the channel `defaults`, which is another one for each client and each site",
            wanted="channels by name or address, and nodefaults",
        )
    platforms = _texts(data, "platforms")
    if platforms and "linux-64" not in platforms:
        raise LockError("is not for linux-64", found=", ".join(platforms))
    specs: list[str] = []
    pip: list[str] = []
    dependencies = data.get("dependencies")
    if not isinstance(dependencies, list):
        raise LockError("has no list of dependencies")
    for entry in dependencies:
        if isinstance(entry, str):
            specs.append(entry)
        elif isinstance(entry, dict) and len(entry) == 1:
            (key, value), *_ = entry.items()
            selector = _SELECTOR.fullmatch(str(key))
            if selector is not None and isinstance(value, str):
                specs += [value] if selector[1] in ("unix", "linux") else []
            elif key == "pip" and isinstance(value, list) and all(isinstance(one, str) for one in value):
                pip += value
            else:
                raise LockError(
                    "has a section that no package can be pinned from", found=str(key), wanted="pip:"
                )
        else:
            raise LockError("has a dependency that is no spec", found=repr(entry)[:200])
    variables = data.get("variables") or {}
    if not isinstance(variables, dict):
        raise LockError("has variables that are no mapping")
    texts = {str(key): str(value) for key, value in variables.items()}
    for line in (*pip, *specs, *(f"{key}={value}" for key, value in texts.items())):
        if redact(line) != line:
            raise LockError(
                "holds a credential, which would get into every pinned file",
                found=redact(line),
                fix="take it out; docs/access.md says where clients take credentials from",
            )
    if pip:
        notes.append("the pip section is passed on as it is: nothing of it is pinned, or mirrored")
    name = data.get("name")
    return Wanted(
        path,
        name if isinstance(name, str) and name else None,
        tuple(one for one in channels if one != "nodefaults"),
        tuple(specs),
        tuple(pip),
        texts,
        notes=tuple(notes),
    )


def _with_label(wanted: Wanted) -> Wanted:
    """With what the label of a channel declares; the label goes, as pinning puts it there anew."""
    labels = [
        match for one in wanted.channels if (match := _LABEL.fullmatch(one)) and declared_by(match["label"])
    ]
    if not labels:
        return wanted
    ours = labels[0]["channel"]
    if any(match["channel"] != ours for match in labels):
        raise LockError(
            "has labels for GPUs of several channels",
            where=wanted.path,
            found=", ".join(redact(match[0]) for match in labels),
        )
    declared = [declared_by(match["label"]) or (None, None) for match in labels]
    archs = {arch for arch, _ in declared if arch}
    releases = {rocm for _, rocm in declared if rocm}
    if len(archs) > 1 or len(releases) > 1:
        raise LockError(
            "declares several GPUs or ROCm releases",
            where=wanted.path,
            found=", ".join(match["label"] for match in labels),
            fix="leave the labels out, and name the GPUs with --arch",
        )
    kept = tuple(one for one in wanted.channels if one not in {match[0] for match in labels})
    return replace(
        wanted,
        channels=kept if ours in kept else (ours, *kept),
        ours=ours,
        labels=tuple(match["label"] for match in labels),
        arch=next(iter(archs), None),
        rocm=next(iter(releases), None),
    )


def _texts(data: Mapping[str, Any], key: str) -> list[str]:
    value = data.get(key) or []
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise LockError(f"has {key} that are no list of names", found=repr(value)[:200])
    return value


def _distribution(line: str) -> str:
    """Name of the distribution that a line of a pip section asks for."""
    from packaging.requirements import InvalidRequirement, Requirement

    text = line.split(" #")[0].strip()
    try:
        return Requirement(text).name
    except InvalidRequirement:
        last = re.split(r"[/\\]", text.split("#egg=")[-1].split("#")[0].split("?")[0])[-1]
        return re.split(r"-\d", last.split("@")[0].removesuffix(".git"), maxsplit=1)[0]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
