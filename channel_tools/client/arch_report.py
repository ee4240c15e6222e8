"""What this host is, what a channel offers, and what to type to bring the two together."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from channel_tools.channel.layout import combined_label, rocm_label
from channel_tools.client.host import Host, isa_of
from channel_tools.client.reader import Look, Offer, Reader
from channel_tools.model.arch import Arch

CLIENTS = ("conda", "mamba", "micromamba", "pixi", "rocm-channel")
TOP = ("vllm-rocm", "pytorch-rocm", "rocm-canary")


@dataclass(frozen=True)
class ArchReport:
    """``arch`` and ``rocm`` are what an environment for this host would be for; ``reason`` says why not.

    ``commands`` are lines to type, by client and by what they are for.
    """

    host: Host
    arch: Arch | None
    rocm: str | None
    reasons: tuple[str, ...]
    channel: str | None = None
    offer: Offer | None = None
    labels: tuple[str, ...] = ()
    commands: tuple[tuple[str, str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "version": 1,
            "gpus": [
                {"node": gpu.node, "target": gpu.target, "compute_units": gpu.compute_units}
                for gpu in self.host.gpus
            ],
            "archs": [arch.target for arch in self.host.archs],
            "rocm": self.host.rocm,
            "rocm_root": str(self.host.rocm_root) if self.host.rocm_root else None,
            "chosen": {"arch": self.arch.target if self.arch else None, "rocm": self.rocm},
            "reasons": list(self.reasons),
            "channel": self.channel,
            "offer": None
            if self.offer is None
            else {
                "archs": [a.target for a in self.offer.archs],
                "rocm": list(self.offer.releases),
                "labels": list(self.labels),
            },
            "commands": [
                {"client": client, "for": purpose, "command": command}
                for client, purpose, command in self.commands
            ],
        }

    @property
    def lines(self) -> list[str]:
        """For people."""
        found = [
            f"GPU: {gpu.target}, {gpu.compute_units} compute units (KFD node {gpu.node})"
            for gpu in self.host.gpus
        ]
        if not found:
            found = [f"GPU: {arch} (told, not looked for)" for arch in self.host.archs] or ["GPU: none"]
        root = f" ({self.host.rocm_root})" if self.host.rocm_root else ""
        found.append(f"ROCm: {self.host.rocm or 'none'}{root}")
        if self.offer is not None:
            found.append(
                f"{self.channel}: for {', '.join(a.target for a in self.offer.archs) or 'no GPU'}; "
                f"ROCm {', '.join(self.offer.releases) or 'none'}"
            )
        found += self.reasons
        found += [f"{client}, {purpose}:\n  {command}" for client, purpose, command in self.commands]
        return found


def report(
    host: Host, reader: Reader | None, look: Look | None, clients: Sequence[str], package: str | None = None
) -> ArchReport:
    """The report.

    :param clients: of :data:`CLIENTS`, whose commands are wanted
    :param package: what to install; None: the top of the stack that the channel has
    """
    if reader is None or look is None:
        arch = host.archs[0] if len(host.archs) == 1 else None
        return ArchReport(host, arch, host.rocm, tuple(_host_reasons(host)))
    offered = {arch.target: arch for arch in look.offer.archs}
    fitting = [offered[arch.target] for arch in host.archs if arch.target in offered]
    arch = fitting[0] if len(fitting) == 1 else None
    rocm = host.rocm if host.rocm in look.offer.releases else None
    package = package or next((name for name in TOP if name in look.names), "PACKAGE")
    reasons = _reasons(host, look.offer, fitting, rocm)
    archs = [arch] if arch else (fitting or list(look.offer.archs))
    releases = [rocm] if rocm else list(look.offer.releases[-1:])
    commands = []
    for client in clients:
        if arch and rocm and client == "rocm-channel":
            commands.append(("rocm-channel", "this host, found by itself", _own(reader, look, package)))
        for one in archs:
            for release in releases:
                if combined_label(one.target, release) not in look.labels:
                    continue
                purpose = f"declared for {one.target} and ROCm {release}"
                commands.append((client, purpose, _declared(client, reader, look, one, release, package)))
        if arch and rocm and client == "pixi" and rocm_label(rocm) in look.labels:
            commands.append(
                ("pixi 0.82 or newer", "GPU found by itself", _pixi(reader, look, rocm_label(rocm), package))
            )
        if arch and rocm and client == "conda":
            commands.append(
                (
                    "conda with conda-amdgpu-arch",
                    "this host, found by itself",
                    _conda("conda", reader, look, None, package),
                )
            )
    return ArchReport(
        host,
        arch,
        rocm,
        tuple(reasons),
        reader.shown,
        look.offer,
        tuple(sorted(look.labels)),
        tuple(commands),
    )


def _host_reasons(host: Host) -> list[str]:
    if len(host.archs) > 1:
        return [
            f"GPUs of several archs: an environment holds code for one; name it with --arch{_others(host)}"
        ]
    return [] if host.archs else ["no AMD GPU: declare the arch of the machine that the environment is for"]


def _reasons(host: Host, offer: Offer, fitting: Sequence[Arch], rocm: str | None) -> list[str]:
    found = []
    if len(fitting) > 1:
        found.append(
            "several of this host's GPUs are on offer, and an environment is for one: choose a line"
            + _others(host)
        )
    elif not fitting and host.archs:
        names = ", ".join(arch.target for arch in host.archs)
        found.append(f"nothing there is built for {names}: `rocm-channel install` refuses (exit code 50)")
    elif not host.archs:
        found.append("no AMD GPU here: the lines below declare the arch of another machine")
    if rocm is None and offer.releases:
        found.append(
            f"ROCm {host.rocm} is not on offer" if host.rocm else "no ROCm here: the lines below declare one"
        )
    return found


def _others(host: Host) -> str:
    """What clients do that do not ask (the rule of pixi, py-rattler and conda's plugin)."""
    if not host.gpus:
        return ""
    best = max(
        host.gpus, key=lambda gpu: (gpu.compute_units, [int(n) for n in isa_of(gpu.target).split(".")])
    )
    return f". Clients that do not ask take {best.target}, which has most compute units"


def _declared(client: str, reader: Reader, look: Look, arch: Arch, rocm: str, package: str) -> str:
    if client == "rocm-channel":
        return _own(reader, look, package, f" --arch {arch.target} --rocm {rocm}")
    label = combined_label(arch.target, rocm)
    if client == "pixi":
        return _pixi(reader, look, label, package)
    return _conda(client, reader, look, label, package)


def _own(reader: Reader, look: Look, package: str, machine: str = "") -> str:
    more = "".join(f" -c {shlex.quote(one)}" for one in look.settings.dependency_channels)
    return (
        f"rocm-channel install --channel {shlex.quote(reader.shown)}{more}{machine} --prefix ./rocm {package}"
    )


def _channels(reader: Reader, look: Look, label: str | None) -> str:
    from channel_tools.model.redaction import redact

    front = [redact(reader.label_url(label))] if label else []
    every = [*front, redact(reader.url), *look.settings.dependency_channels]
    return " ".join(f"-c {shlex.quote(one)}" for one in every)


def _conda(program: str, reader: Reader, look: Look, label: str | None, package: str) -> str:
    return f"{program} create -n rocm --strict-channel-priority {_channels(reader, look, label)} {package}"


def _pixi(reader: Reader, look: Look, label: str, package: str) -> str:
    head = f"pixi init --platform linux-64 {_channels(reader, look, label)} rocm"
    return f"{head} && cd rocm && pixi add {package}"
