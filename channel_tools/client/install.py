"""Choosing what fits a host, solving, and installing.

What the user declares is taken from a label channel; what is not declared is found on the host and passed
to the solver as a virtual package. A GPU or a ROCm release that no package is built for is refused with the
names of what was found and of what is on offer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools import rattler_process
from channel_tools.channel.folder import (
    ARCH_PACKAGE,
    ROCM_PACKAGE,
    FolderChannel,
    arch_label,
    combined_label,
    rocm_label,
)
from channel_tools.client.host import Host
from channel_tools.model import arch as registry
from channel_tools.model.arch import Arch
from channel_tools.model.errors import (
    ArchRefusedError,
    ChannelError,
    DependencyError,
    RocmRefusedError,
    StorageError,
)


@dataclass(frozen=True)
class Offer:
    """What a channel is built for: targets by ISA version, and ROCm releases."""

    archs: tuple[Arch, ...]
    releases: tuple[str, ...]


@dataclass(frozen=True)
class Selection:
    """Label to put in front of the channel, virtual packages for the solver, and notes for the user."""

    label: str | None
    virtual: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]


def read_offer(channel: FolderChannel) -> Offer:
    """The archs and releases that a channel has packages for, from its index.

    :raises ChannelError: no channel there
    """
    records = channel.records()
    if not records:
        raise ChannelError("no packages here", where=channel.path, fix="check the address given by --channel")
    archs = {Arch(r["build"].split("_")[0], r["version"]) for r in records if r["name"] == ARCH_PACKAGE}
    releases = {r["version"] for r in records if r["name"] == ROCM_PACKAGE}
    return Offer(tuple(sorted(archs)), tuple(sorted(releases, key=_release_key)))


def select(
    offer: Offer, host: Host, channel: str, arch: str | None = None, rocm: str | None = None
) -> Selection:
    """Decide the label and the virtual packages.

    :param arch: GPU target that the user declares, ``None`` to take the host's
    :param rocm: ROCm release that the user declares, ``None`` to take the host's
    :raises ArchRefusedError: no package is built for that GPU
    :raises RocmRefusedError: no package is built for that ROCm release
    """
    notes: list[str] = []
    virtual: list[tuple[str, str, str]] = []
    if arch is None:
        found = _host_arch(offer, host, channel)
        virtual += [("__amdgpu", "0", "0"), ("__amdgpu_arch", found.isa, "0")]
        notes.append(f"GPU of this host: {found}")
    else:
        if arch not in {a.target for a in offer.archs}:
            known = registry.lookup(arch)
            raise ArchRefusedError(
                f"no package is built for {arch}" if known else f"{arch} is no AMD GPU target",
                where=channel,
                wanted="one of " + _names(offer),
                fix=f"give one of those with --arch, or build for it: add {arch} to variants/ and run "
                "`rocm-channel build`",
            )
        here = {a.target for a in host.archs}
        if here and arch not in here:
            notes.append(f"this host has {', '.join(sorted(here))}; what is installed runs on {arch} only")
    if rocm is None:
        release = _host_rocm(offer, host, channel)
        virtual.append(("__rocm_userspace", release, "0"))
        notes.append(f"ROCm of this host: {release} ({host.rocm_root})")
    elif rocm not in offer.releases:
        raise RocmRefusedError(
            f"no package is built for ROCm {rocm}",
            where=channel,
            wanted="one of " + ", ".join(offer.releases),
            fix="give one of those with --rocm",
        )
    elif host.rocm is not None and host.rocm != rocm:
        notes.append(f"this host has ROCm {host.rocm}; what is installed needs ROCm {rocm} where it runs")
    label = None
    if arch and rocm:
        label = combined_label(arch, rocm)
    elif arch:
        label = arch_label(arch)
    elif rocm:
        label = rocm_label(rocm)
    return Selection(label, tuple(virtual), tuple(notes))


def _host_arch(offer: Offer, host: Host, channel: str) -> Arch:
    offered = {a.target: a for a in offer.archs}
    fitting = [offered[a.target] for a in host.archs if a.target in offered]
    if len(fitting) == 1:
        return fitting[0]
    ways = (
        f"to prepare an environment for another machine, name its arch: --arch {offer.archs[0].target}; "
        "to use this one, build for its GPU: add it to variants/ and run `rocm-channel build`"
    )
    if len(fitting) > 1:
        raise ArchRefusedError(
            "this host has GPUs of several archs, and an environment holds code for one",
            found=", ".join(str(a) for a in fitting),
            wanted="a choice",
            fix=f"name one: --arch {fitting[0].target}",
        )
    if host.archs:
        found = ", ".join(str(a) for a in host.archs)
        raise ArchRefusedError(
            "no package is built for the GPU of this host",
            where=channel,
            found=found,
            wanted=f"one of {_names(offer)}",
            fix=ways,
        )
    raise ArchRefusedError(
        "this host has no AMD GPU that the kernel's amdgpu driver shows",
        where=channel,
        found="no AMD GPU below /sys/class/kfd",
        wanted=f"one of {_names(offer)}",
        fix=ways,
    )


def _host_rocm(offer: Offer, host: Host, channel: str) -> str:
    if host.rocm in offer.releases:
        return str(host.rocm)
    offered = " or ".join(offer.releases)
    ways = (
        f"install ROCm {offered} on this host, or, to prepare an environment for another machine, name "
        f"its release: --rocm {offer.releases[-1] if offer.releases else '7.2'}"
    )
    if host.rocm is None:
        what, found = "no ROCm was found on this host", "neither ROCM_PATH nor /opt/rocm* has .info/version"
    else:
        what, found = "no package is built for the ROCm of this host", f"ROCm {host.rocm} ({host.rocm_root})"
    raise RocmRefusedError(what, where=channel, found=found, wanted=f"ROCm {offered}", fix=ways)


def install(
    channel: FolderChannel,
    prefix: Path | None,
    specs: Sequence[str],
    selection: Selection,
    extra_channels: Sequence[str] = (),
    *,
    dry_run: bool = False,
) -> list[Mapping[str, Any]]:
    """Solve, and install into ``prefix`` unless it is a dry run.

    Packages that the prefix has already stay, at their versions where that is possible.

    :returns: the records of the whole environment: name, version, build, channel, url, sha256, size
    :raises DependencyError: no combination satisfies the specs; has the solver's reasons
    :raises StorageError: the prefix cannot be written
    """
    channels = [channel.url, *extra_channels]
    if selection.label is not None:
        label = channel.label_url(selection.label)
        if label is None:
            raise ChannelError(
                f"has no label {selection.label}",
                where=channel.path,
                wanted="one of " + ", ".join(channel.labels()),
            )
        channels.insert(0, label)
    base = [
        package for package in rattler_process.call("virtual", {}) if not package[0].startswith("__amdgpu")
    ]
    payload = {
        "channels": channels,
        "specs": [*specs, *(_installed_specs(prefix, specs) if prefix else [])],
        "virtual": base + [list(package) for package in selection.virtual],
        "prefix": str(prefix) if prefix else None,
        "dry_run": dry_run,
    }
    try:
        records: list[Mapping[str, Any]] = rattler_process.call("solve", payload)
    except rattler_process.RattlerCallError as error:
        text = str(error).strip()
        if any(sign in text for sign in ("os error 28", "os error 30", "os error 13", "No space left")):
            raise StorageError(
                f"cannot be written: {text}", where=prefix, fix="choose another --prefix"
            ) from error
        raise DependencyError(
            f"no environment with {', '.join(specs)} is possible",
            where=channel.path,
            found=text,
            fix="give a channel that has what is missing with -c, or ask for less",
        ) from error
    return records


def _installed_specs(prefix: Path, specs: Sequence[str]) -> list[str]:
    """A spec for each package that the prefix has and the user does not name, so that it stays."""
    from channel_tools.build.nodes import spec_name

    named = {spec_name(spec) for spec in specs}
    installed = (path.stem.rsplit("-", 2)[0] for path in (prefix / "conda-meta").glob("*.json"))
    return sorted(name for name in installed if name not in named)


def _names(offer: Offer) -> str:
    return ", ".join(str(a) for a in offer.archs)


def _release_key(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())
