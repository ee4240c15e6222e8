"""Which label and which virtual packages a host gets.

What the user declares is taken from a label channel; what is not declared is found on the host and passed
to the solver as a virtual package. A GPU or a ROCm release that no package is built for is refused with the
names of what was found and of what is on offer.
"""

from __future__ import annotations

from dataclasses import dataclass

from channel_tools.channel.layout import arch_label, combined_label, rocm_label
from channel_tools.client.host import Host
from channel_tools.client.reader import Offer
from channel_tools.model import arch as registry
from channel_tools.model.arch import Arch
from channel_tools.model.errors import ArchRefusedError, ChannelError, RocmRefusedError


@dataclass(frozen=True)
class Selection:
    """Label to put in front of the channel, virtual packages for the solver, and notes for the user."""

    label: str | None
    virtual: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]


def label_of(arch: str | None, rocm: str | None) -> str | None:
    """The label that holds what is declared; None where nothing is."""
    if arch and rocm:
        return combined_label(arch, rocm)
    return arch_label(arch) if arch else rocm_label(rocm) if rocm else None


def select(
    offer: Offer, host: Host, channel: str, arch: str | None = None, rocm: str | None = None
) -> Selection:
    """Decide the label and the virtual packages.

    :param arch: GPU target that the user declares, ``None`` to take the host's
    :param rocm: ROCm release that the user declares, ``None`` to take the host's
    :raises ArchRefusedError: no package is built for that GPU
    :raises RocmRefusedError: no package is built for that ROCm release
    :raises ChannelError: the channel has nothing that is built for a GPU
    """
    notes: list[str] = []
    virtual: list[tuple[str, str, str]] = []
    if not offer.archs:
        raise ChannelError(
            "has no amdgpu-arch package, so nothing there is matched to a GPU",
            where=channel,
            fix="check the address given by --channel",
        )
    if arch is None:
        found = _host_arch(offer, host, channel)
        virtual += [("__amdgpu", "0", "0"), ("__amdgpu_arch", found.isa, "0")]
        notes.append(f"GPU of this host: {found}")
    else:
        if arch not in {a.target for a in offer.archs}:
            known = registry.lookup(arch)
            build = f", or build for it: add {arch} to variants/ and run `rocm-channel build`"
            raise ArchRefusedError(
                f"no package is built for {arch}" if known else f"{arch} is no AMD GPU target",
                where=channel,
                wanted="one of " + _names(offer),
                fix=f"give one of those with --arch{build if known else ''}",
            )
        here = {a.target for a in host.archs}
        if here and arch not in here:
            notes.append(f"this host has {', '.join(sorted(here))}; what is installed runs on {arch} only")
    if rocm is None and offer.releases:
        release = _host_rocm(offer, host, channel)
        virtual.append(("__rocm_userspace", release, "0"))
        notes.append(f"ROCm of this host: {release} ({host.rocm_root})")
    elif rocm is not None and rocm not in offer.releases:
        raise RocmRefusedError(
            f"no package is built for ROCm {rocm}",
            where=channel,
            wanted="one of " + (", ".join(offer.releases) or "none: the channel has no rocm-userspace"),
            fix="give one of those with --rocm",
        )
    elif rocm is not None and host.rocm is not None and host.rocm != rocm:
        notes.append(f"this host has ROCm {host.rocm}; what is installed needs ROCm {rocm} where it runs")
    return Selection(label_of(arch, rocm), tuple(virtual), tuple(notes))


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
        f"its release: --rocm {offer.releases[-1]}"
    )
    if host.rocm is None:
        what, found = "no ROCm was found on this host", "neither ROCM_PATH nor /opt/rocm* has .info/version"
    else:
        what, found = "no package is built for the ROCm of this host", f"ROCm {host.rocm} ({host.rocm_root})"
    raise RocmRefusedError(what, where=channel, found=found, wanted=f"ROCm {offered}", fix=ways)


def _names(offer: Offer) -> str:
    return ", ".join(str(a) for a in offer.archs)
