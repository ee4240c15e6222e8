"""Installing from a channel: select for the host, solve, check the solution, install exactly that.

See :mod:`channel_tools.client.selection` for what a host gets, :mod:`channel_tools.client.solved_checks` for
what is refused afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from channel_tools.channel.attestations.outcome import Outcome, demand
from channel_tools.channel.attestations.policy import Mode, Policy
from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE
from channel_tools.channel.settings import Publisher
from channel_tools.client.host import Host, detect_host
from channel_tools.client.prefix_facts import PrefixFacts, from_elsewhere, kept_declarations, read_prefix
from channel_tools.client.reader import Look, Offer, Reader
from channel_tools.client.selection import Selection, label_of, select
from channel_tools.client.solved_checks import check
from channel_tools.client.solving import Priority, Record, host_packages, request, solve
from channel_tools.model.errors import ChannelError, DependencyError
from channel_tools.model.redaction import redact


@dataclass(frozen=True)
class Prepared:
    """A checked solution: what :func:`channel_tools.client.placing.place` may install."""

    reader: Reader
    look: Look
    records: tuple[Record, ...]
    notes: tuple[str, ...]
    outcomes: tuple[Outcome, ...] = field(default=())

    def to_json(self) -> list[dict[str, Any]]:
        """The packages, without credentials."""
        return [shown(record) for record in self.records]


def prepare(
    reader: Reader,
    specs: Sequence[str],
    *,
    prefix: Path | None = None,
    arch: str | None = None,
    rocm: str | None = None,
    others: Sequence[str] = (),
    priority: Priority = "strict",
    update: bool = False,
    host: Host | None = None,
) -> Prepared:
    """Select, solve and check. Nothing is installed.

    Packages that the prefix has already stay, at their versions where that is possible.

    :param arch: GPU target that the user declares; None: what the prefix was declared for, else the host's
    :param others: channels after ours, as the solver takes them
    :param update: take the newest of what is named, also where the prefix has an older one
    :raises ArchRefusedError: no build for that GPU, or a solution that mixes archs
    :raises RocmRefusedError: no build for that ROCm release, or a solution that mixes them
    :raises DependencyError: no combination satisfies the specs
    :raises ChannelError: no channel, no such label, or a package of ours from another channel
    :raises AccessError: a credential is missing
    """
    reader.refuse_label()
    host = host or detect_host()
    facts = read_prefix(prefix)
    arch, rocm, kept = kept_declarations(prefix, facts, host, arch, rocm)
    label = label_of(arch, rocm)
    look = reader.look([label] if label else [])
    selection = select(look.offer, host, reader.shown, arch, rocm)
    if label is not None and label not in look.labels:
        raise ChannelError(
            f"has no label {label}", where=reader.shown, wanted="declared builds in that label"
        )
    wanted = [*specs, *(name for name in facts.names if name not in _names(specs))]
    asked = request(reader, wanted, selection, others, priority, host_packages())
    try:
        unlocked = _unlocked(specs, facts, arch, rocm, update)
        unlocked += from_elsewhere(prefix, look.names, reader.owns)
        records = solve(reader, asked, prefix, unlocked)
    except DependencyError as error:
        missing = [one for one in look.settings.dependency_channels if one not in others]
        if error.fix and missing and not others:
            error.fix += f"; this channel's packages need others: -c {' -c '.join(missing)}"
        if error.fix and (gone := _yanked(look, _names(specs))):
            error.fix += f". Yanked there: {gone}"
        raise
    check(reader, look.names, records, arch or _detected(selection, look.offer), rocm)
    return Prepared(reader, look, tuple(records), (*kept, *selection.notes))


def attested(
    prepared: Prepared,
    mode: Mode | None = None,
    trusted_root: Path | None = None,
    publishers: Sequence[Publisher] = (),
    attested_as: str | None = None,
) -> Prepared:
    """Check who signed the packages of the channel.

    :param mode: None: as the channel's own settings say
    :param publishers: whom to believe; nobody: those that the channel's settings name
    :param attested_as: address that attestations must name; None: the one that is read from. A folder or a
        bucket has none, so that its settings say it
    :raises AttestationError: under ``require``, a package that is not attested as it should be
    """
    from channel_tools.channel.attestations.check import check_solved

    settings = prepared.look.settings
    policy = Policy.of(settings, trusted_root, mode, publishers)
    if policy.mode == "off":
        return prepared
    reader = prepared.reader
    told = attested_as or (reader.plain if reader.store is None else settings.url) or reader.plain
    outcomes, unchecked = check_solved(prepared.records, reader.url, told, policy)
    if policy.mode == "require":
        demand(outcomes)
    good = sum(outcome.verified for outcome in outcomes)
    notes = [f"{good} of {len(outcomes)} packages of this channel are signed by a publisher that may"]
    notes += [outcome.text for outcome in outcomes if not outcome.verified]
    if unchecked:
        notes.append(f"{len(unchecked)} packages of other channels were not checked")
    if not publishers:
        notes.append("who may sign was taken from the channel's own settings; name it with --identity")
    if told == settings.url and not attested_as and reader.store is not None:
        notes.append(f"attested as {told} by the channel's own settings; name it with --attested-as")
    return Prepared(
        prepared.reader, prepared.look, prepared.records, (*prepared.notes, *notes), tuple(outcomes)
    )


def shown(record: Record) -> dict[str, Any]:
    """A record for people and scripts: without the installer's part, and without credentials."""
    texts = {key: redact(str(record[key])) for key in ("channel", "url") if record.get(key)}
    return {**{key: value for key, value in record.items() if key != "record"}, **texts}


def _names(specs: Sequence[str]) -> set[str]:
    from channel_tools.build.nodes import spec_name

    return {spec_name(spec.rpartition("::")[2]) for spec in specs}


def _yanked(look: Look, names: Collection[str]) -> str:
    """The newest builds of these names that were yanked, with the reasons."""
    entries = sorted(look.yanked.entries.values(), key=lambda entry: str(entry.get("when")), reverse=True)
    found = [
        f"{record['name']} {record['version']} {record['build']} ({entry.get('reason')})"
        for entry in entries
        if (record := entry.get("record")) and record.get("name") in names
    ]
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _unlocked(
    specs: Sequence[str], facts: PrefixFacts, arch: str | None, rocm: str | None, update: bool
) -> list[str]:
    """Installed packages that the solver must not keep.

    py-rattler counts installed packages among the candidates, also where no channel of the solve has them: an
    environment that was declared for one release would stay on it when another one is declared.
    """
    found = _names(specs) if update else set()
    if arch and facts.arch and arch != facts.arch:
        found.add(ARCH_PACKAGE)
    if rocm and facts.rocm and rocm != facts.rocm:
        found.add(ROCM_PACKAGE)
    return sorted(found)


def _detected(selection: Selection, offer: Offer) -> str | None:
    isa = {version for name, version, _ in selection.virtual if name == "__amdgpu_arch"}
    return next((arch.target for arch in offer.archs if arch.isa in isa), None)
