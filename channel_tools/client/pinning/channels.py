"""The channels of a pin: which of them is ours, how solvers take each, and how pinned files name it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from channel_tools.client.addresses import credentials, without_credentials
from channel_tools.client.configuring.channel_names import is_name
from channel_tools.client.locks.environment_yml import Wanted
from channel_tools.client.reader import Reader, open_dependency, open_reader
from channel_tools.model.errors import LockError
from channel_tools.model.redaction import redact


@dataclass(frozen=True)
class Channels:
    """The channels of a pin: ``ours`` stands at ``position`` among the others.

    ``others`` are as solvers take them, ``written`` the same as pinned files name them.
    """

    ours: Reader
    position: int
    others: tuple[str, ...]
    written: tuple[str, ...]

    def for_solver(self, label: str | None) -> list[str]:
        return self._with(self.others, self.ours.url, label)

    def for_files(self, label: str | None) -> list[str]:
        return self._with(self.written, without_credentials(self.ours.url), label)

    def secrets(self) -> list[str]:
        return [secret for url in (self.ours.url, *self.others) for secret in credentials(url)]

    def _with(self, others: Sequence[str], ours: str, label: str | None) -> list[str]:
        own = [ours] if label is None else [f"{ours}/label/{label}", ours]
        return [*others[: self.position], *own, *others[self.position :]]


def read_channels(wanted: Wanted, given: str | None) -> tuple[Channels, list[str]]:
    notes: list[str] = []
    listed = list(wanted.channels)
    own = wanted.ours
    if own is None and given is not None:
        same = given.rstrip("/").rpartition("/")[2]
        own = next((one for one in listed if one.rstrip("/").rpartition("/")[2] == same), None)
        if own is None:
            notes.append(f"{redact(given)} goes before the channels of the file")
            listed.insert(0, given)
            own = given
    if own is None:
        if not listed:
            raise LockError("names no channel", where=wanted.path, fix="name it there, or with --channel")
        own = listed[0]
    reader = open_reader(given or own)
    reader.refuse_label()
    if given is not None and own != given:
        notes.append(f"{reader.shown} takes the place of {redact(own)}")
    position = listed.index(own)
    del listed[position]
    others = tuple(open_dependency(one) for one in listed)
    written = tuple(
        name if other == name and is_name(name) else without_credentials(other)
        for other, name in zip(others, listed, strict=True)
    )
    if with_secrets := sum(bool(credentials(url)) for url in (reader.url, *others)):
        notes.append(f"credentials were left out of {with_secrets} channel addresses; see docs/access.md")
    return Channels(reader, position, others, written), notes
