"""Pinning an environment.yml: one solve for each GPU arch, always for a declared one, by strict priority.

A pin is made where no GPU need be, and used elsewhere, so the label of the declared GPU and ROCm release goes
in front of our channel. Of this host's virtual packages only those of kernel, C library and processor are
taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools import rattler_process
from channel_tools.client.addresses import without_credentials
from channel_tools.client.host import Host
from channel_tools.client.locks.environment_yml import Wanted, check_pip, without_selectors
from channel_tools.client.locks.lock_files import LockedPackage
from channel_tools.client.pinning.channels import Channels, read_channels
from channel_tools.client.reader import Look, reading_error
from channel_tools.client.selection import label_of, select
from channel_tools.client.solved_checks import check
from channel_tools.client.solving import Record, host_packages
from channel_tools.model.arch import Arch
from channel_tools.model.errors import ChannelError, DependencyError, LockError
from channel_tools.model.redaction import redact

BASE = ("__unix", "__linux", "__glibc", "__archspec")
"""Virtual packages of this host that a pin may depend on."""


@dataclass(frozen=True)
class Pinned:
    """One solved environment.

    ``channels`` as environment.yml names them, ``bases`` as URLs, both in order; all without credentials.
    """

    arch: Arch
    rocm: str | None
    label: str | None
    channels: tuple[str, ...]
    bases: tuple[str, ...]
    records: tuple[Record, ...]

    @property
    def key(self) -> str:
        """Name of the environment, and of its folder."""
        return self.label or self.arch.target

    @property
    def platform(self) -> str:
        """Name of its platform in a rattler lock."""
        return f"linux-64-{self.arch.target}"

    @property
    def title(self) -> str:
        return self.arch.target + (f", ROCm {self.rocm}" if self.rocm else "")


@dataclass(frozen=True)
class Locked:
    """What an earlier pin has, by GPU target, and the packages that are to move."""

    packages: Mapping[str, Sequence[LockedPackage]]
    update: tuple[str, ...]


@dataclass(frozen=True)
class Pins:
    """Everything that one run pinned."""

    wanted: Wanted
    environments: tuple[Pinned, ...]
    secrets: tuple[str, ...]
    notes: tuple[str, ...]


def pin(
    wanted: Wanted,
    host: Host,
    *,
    channel: str | None = None,
    archs: Sequence[str] = (),
    rocm: str | None = None,
    assumed: Mapping[str, str] | None = None,
    locked: Locked | None = None,
) -> Pins:
    """Solve an environment for each GPU target.

    :param channel: takes the place of the file's channel of ours, as at a mirror's address
    :param archs: GPU targets; none: what the file's label declares, else this host's
    :param rocm: ROCm release; None: what the file's label declares, else this host's
    :param assumed: version by name of a virtual package, in the place of this host's
    :param locked: an earlier pin, of which only some packages are to move
    :raises ArchRefusedError: no build for one of the GPUs
    :raises RocmRefusedError: no build for the ROCm release
    :raises DependencyError: no environment is possible
    :raises ChannelError: a channel cannot be read, or has no such label
    :raises LockError: the file has something that cannot be pinned
    """
    channels, notes = read_channels(wanted, channel)
    reader = channels.ours
    chosen = list(dict.fromkeys(archs)) or [wanted.arch or _only(host)]
    release = rocm or wanted.rocm or host.rocm
    if rocm is None and wanted.rocm is None and host.rocm is not None:
        notes.append(f"ROCm {host.rocm} is this host's; --rocm names another")
    look = reader.look([label for arch in chosen if (label := label_of(arch, release))])
    if not look.offer.releases:
        release = None
    check_pip(wanted, look.names)
    if look.settings.url and not reader.url.startswith("http") and look.settings.url != reader.url:
        notes.append(f"the files name {reader.shown}; the channel says that others read {look.settings.url}")
    base = _base(assumed or {})
    notes.append("solved for " + ", ".join(f"{name}={version}" for name, version, _ in base))
    made = []
    for target in chosen:
        selection = select(look.offer, host, reader.shown, target, release)
        arch = next(one for one in look.offer.archs if one.target == target)
        if selection.label is not None and selection.label not in look.labels:
            raise ChannelError(
                f"has no label {selection.label}", where=reader.shown, wanted="declared builds in that label"
            )
        notes += [note for note in selection.notes if note not in notes]
        specs = _specs(wanted, arch, release, declared=bool(archs) or bool(rocm), notes=notes)
        solver = _Solver(channels, look, arch, release, selection.label, specs, base)
        made.append(solver.run(locked, notes))
    return Pins(wanted, tuple(made), tuple(channels.secrets()), tuple(dict.fromkeys((*wanted.notes, *notes))))


_NO_SPECS = {
    "InvalidMatchSpecError": "is no match spec",
    "InvalidVersionError": "has a version that is none",
    "InvalidPackageNameError": "has a name that is none",
}
"""What is wrong with dependencies and virtual packages, by the class of py-rattler's error."""


class _Solver:
    """The solves for one GPU target."""

    def __init__(
        self,
        channels: Channels,
        look: Look,
        arch: Arch,
        rocm: str | None,
        label: str | None,
        specs: Sequence[str],
        base: Sequence[Sequence[str]],
    ) -> None:
        self.channels, self.look, self.arch, self.rocm, self.label = channels, look, arch, rocm, label
        self.asked: dict[str, Any] = {
            "channels": channels.for_solver(label),
            "specs": list(specs),
            "virtual": [list(one) for one in base],
        }

    def run(self, locked: Locked | None, notes: list[str]) -> Pinned:
        if locked is None:
            answer = self.solve()
        else:
            from channel_tools.client.pinning.update import updated

            answer = updated(self.asked, self.solve, self.arch, self.rocm, locked, notes)
        records = answer["records"]
        check(self.channels.ours, self.look.names, records, self.arch.target, self.rocm)
        return Pinned(
            self.arch,
            self.rocm,
            self.label,
            tuple(self.channels.for_files(self.label)),
            tuple(without_credentials(url) for url in answer["bases"]),
            tuple(_plain(record) for record in records),
        )

    @property
    def virtual(self) -> list[str]:
        return [f"{name}={version}" for name, version, _ in self.asked["virtual"]]

    def solve(self, **more: Any) -> dict[str, Any]:
        """:raises DependencyError: no environment is possible"""
        try:
            answer: dict[str, Any] = rattler_process.call("pin", {**self.asked, **more})
        except rattler_process.RattlerCallError as error:
            if error.kind in _NO_SPECS:
                raise LockError(
                    _NO_SPECS[error.kind],
                    where=", ".join(self.asked["specs"] if "Spec" in error.kind else self.virtual),
                    found=redact(str(error).strip()),
                    wanted="for instance vllm-rocm=0.26.0, and __glibc=2.34 for --assume",
                ) from error
            raise reading_error(self.channels.ours.shown, str(error)) from error
        if "refused" in answer:
            raise DependencyError(
                f"no environment for {self.arch.target} is possible",
                where=self.channels.ours.shown,
                found=redact(answer["refused"].strip()),
                fix="add the channel that has what is missing, or ask for less",
            )
        return answer


def _only(host: Host) -> str:
    if len(host.archs) == 1:
        return host.archs[0].target
    raise LockError(
        "no GPU is named, neither by the file's label nor by --arch",
        found=", ".join(arch.target for arch in host.archs) or "no AMD GPU in this host",
        fix="name the GPU that the environment is for: --arch gfx942",
    )


def _specs(
    wanted: Wanted, arch: Arch, rocm: str | None, *, declared: bool, notes: list[str]
) -> tuple[str, ...]:
    """The file's specs; those that choose another GPU or ROCm give way to what is declared."""
    kept = without_selectors(wanted.specs)
    if not declared:
        return wanted.specs
    if len(kept) != len(wanted.specs):
        notes.append("the file's own amdgpu-arch and rocm-userspace give way to --arch and --rocm")
    chosen = [f"amdgpu-arch =={arch.isa}"] + ([f"rocm-userspace =={rocm}"] if rocm else [])
    return (*kept, *chosen)


def _base(assumed: Mapping[str, str]) -> list[list[str]]:
    found = {one[0]: one for one in host_packages() if one[0] in BASE}
    found.update({name: [name, version, "0"] for name, version in assumed.items()})
    return [found[name] for name in sorted(found)]


def _plain(record: Record) -> Record:
    """The record with addresses as files may have them."""
    whole = dict(record["record"])
    for data in (plain := dict(record), whole):
        for key in ("url", "channel"):
            data[key] = without_credentials(str(data[key]))
    return {**plain, "record": whole}


def default_folder(environment: Path) -> Path:
    return environment.parent / "pinned"
