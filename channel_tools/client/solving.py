"""Asking the solver, and saying in our words why it could not do as asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from channel_tools import rattler_process
from channel_tools.client.reader import Reader, reading_error
from channel_tools.client.selection import Selection
from channel_tools.model.errors import ChannelToolsError, DependencyError, StorageError
from channel_tools.model.redaction import redact

Record = Mapping[str, Any]
Priority = Literal["strict", "flexible"]


def request(
    reader: Reader,
    specs: Sequence[str],
    selection: Selection,
    others: Sequence[str] = (),
    priority: Priority = "strict",
    base: Sequence[Sequence[str]] = (),
) -> dict[str, Any]:
    """What the solver is asked: our channel with its label in front, then the others.

    :param others: channels that come after ours, in order
    :param base: virtual packages of this host; those of AMD GPUs are left out, as what the selection has is
        all that a solve may know of them: a detected arch must not overrule a declared one
    """
    channels = [reader.url, *others]
    if selection.label is not None:
        channels.insert(0, reader.label_url(selection.label))
    ours = ("__amdgpu", "__rocm_userspace")
    return {
        "channels": channels,
        "specs": list(specs),
        "virtual": [list(one) for one in base if not one[0].startswith(ours)]
        + [list(one) for one in selection.virtual],
        "priority": priority,
    }


def host_packages() -> list[list[str]]:
    """Virtual packages that py-rattler finds on this host."""
    found: list[list[str]] = rattler_process.call("virtual", {})
    return found


def solve(
    reader: Reader, asked: Mapping[str, Any], prefix: Path | None = None, unlocked: Sequence[str] = ()
) -> list[Record]:
    """Solve, with what the prefix has left as it is where that is possible. Installs nothing.

    :param unlocked: names of installed packages that may become newer
    :returns: the records of the whole environment, each with the ``record`` that
        :func:`channel_tools.client.placing.place` takes
    :raises DependencyError: no combination satisfies the specs; has the solver's reasons
    :raises ChannelError: a channel cannot be read
    :raises AccessError: a channel wants a credential
    :raises StorageError: the records of the prefix cannot be read
    """
    payload = {**asked, "prefix": str(prefix) if prefix else None, "dry_run": True, "whole": True}
    payload["unlocked"] = list(unlocked)
    try:
        records: list[Record] = rattler_process.call("solve", payload)
    except rattler_process.RattlerCallError as error:
        raise _solve_error(reader, payload, error) from error
    return records


def _solve_error(
    reader: Reader, asked: Mapping[str, Any], error: rattler_process.RattlerCallError
) -> ChannelToolsError:
    text = str(error)
    if error.kind == "GatewayError":
        unread = _unread(text, asked["channels"])
        if unread is None or reader.owns(unread):
            return reading_error(reader.shown, text)
        return reading_error(redact(unread), text, "check the address given by -c")
    if error.kind == "InvalidMatchSpecError":
        return DependencyError(
            "is no match spec",
            where=", ".join(asked["specs"]),
            found=redact(text.strip()),
            wanted="for instance 'vllm-rocm =0.26.0'",
        )
    damaged = _damaged_record(Path(asked["prefix"])) if asked.get("prefix") else None
    if damaged is not None or ("conda-meta" in text and "os error" in text):
        return StorageError(
            "has records that cannot be read",
            where=damaged or asked["prefix"],
            found=redact(text.strip()),
            fix="make them readable, or make the environment anew: choose another --prefix",
        )
    return DependencyError(
        f"no environment with {', '.join(asked['specs'])} is possible",
        where=reader.shown,
        found=redact(text.strip()),
        fix="give a channel that has what is missing with -c, or ask for less",
    )


def _damaged_record(prefix: Path) -> Path | None:
    """A file of ``conda-meta`` that is no record."""
    for path in sorted((prefix / "conda-meta").glob("*.json")):
        try:
            if not {"name", "version", "build", "fn"} <= json.loads(path.read_bytes()).keys():
                return path
        except (OSError, ValueError, AttributeError, RecursionError):
            return path
    return None


def _unread(text: str, channels: Sequence[str]) -> str | None:
    """The channel whose address, or name, is in a message of the gateway."""
    marks = {channel: channel.rstrip("/") if "://" in channel else f"/{channel}" for channel in channels}
    named = [channel for channel in channels if f"{marks[channel]}/" in text]
    return max(named, key=lambda channel: len(marks[channel]), default=None)
