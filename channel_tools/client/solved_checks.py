"""What a solution must be before it is installed, whatever the solver made of channels and priorities.

Strict channel priority does not cover a version that the user names: py-rattler takes ``vllm-rocm=0.27.0``
from a later channel when ours has no 0.27.0. Whoever can upload there could offer a package under our name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE
from channel_tools.client.reader import Reader
from channel_tools.client.solving import Record
from channel_tools.model.errors import ArchRefusedError, ChannelError, RocmRefusedError
from channel_tools.model.redaction import redact

_ARCH = re.compile(r"(?:^|_)(gfx[0-9a-f]{3,})(?=_|$)")
_ROCM = re.compile(r"(?:^|_)rocm(\d+)(?=_|$)")


def check(
    reader: Reader, names: Collection[str], records: Sequence[Record], arch: str | None, rocm: str | None
) -> None:
    """Refuse a solution that is not what was asked for.

    :param names: of all packages that our channel has, in any version
    :param arch: the GPU target that the environment is for; None: whichever, but one
    :param rocm: the ROCm release that it is for
    :raises ChannelError: a package under one of our names comes from another channel
    :raises ArchRefusedError: builds of several archs, or of another one
    :raises RocmRefusedError: builds for several ROCm releases, or for another one
    """
    foreign = [record for record in records if record["name"] in names and not _is_ours(reader, record)]
    if foreign:
        raise ChannelError(
            "the solver took a package from another channel that this channel has under the same name",
            where=reader.shown,
            found="; ".join(
                f"{one['name']} {one['version']} {one['build']} of {redact(one['channel'])}"
                for one in foreign
            ),
            wanted=f"{', '.join(sorted({one['name'] for one in foreign}))} of this channel: who uploads to "
            "the other one could put anything under that name",
            fix="ask for a version that this channel has, or for none; with --priority flexible, use strict",
        )
    ours = [record for record in records if _is_ours(reader, record)]
    archs = {found: one for one in ours if (found := arch_of(one))}
    if len(archs) > 1 or (arch and archs and set(archs) != {arch}):
        raise ArchRefusedError(
            "the solution holds code for several GPU archs, or for another one",
            where=reader.shown,
            found=", ".join(f"{one['name']} {one['version']} {one['build']}" for one in archs.values()),
            wanted=f"one arch{f', {arch}' if arch else ''}",
            fix="nothing was installed; ask the channel's operator to run `rocm-channel audit`",
        )
    releases = {found: one for one in ours if (found := rocm_of(one))}
    if len(releases) > 1 or (rocm and releases and set(releases) != {rocm.replace(".", "")}):
        raise RocmRefusedError(
            "the solution holds builds for several ROCm releases, or for another one",
            where=reader.shown,
            found=", ".join(f"{one['name']} {one['version']} {one['build']}" for one in releases.values()),
            wanted=f"one release{f', {rocm}' if rocm else ''}",
            fix="nothing was installed; ask the channel's operator to run `rocm-channel audit`",
        )


def _is_ours(reader: Reader, record: Record) -> bool:
    """Both the file and the index that listed it: an index may name files of another host (CEP 15)."""
    channel = str(record["channel"])
    return reader.owns(record["url"]) and ("://" not in channel or reader.owns(channel))


def arch_of(record: Record) -> str | None:
    """GPU target that a build string names."""
    match = _ARCH.search(str(record["build"]))
    return match[1] if match else None


def rocm_of(record: Record) -> str | None:
    """ROCm release that a build is for, without its point: ``72``."""
    if record["name"] == ROCM_PACKAGE:
        return str(record["version"]).replace(".", "")
    if record["name"] == ARCH_PACKAGE:
        return None
    match = _ROCM.search(str(record["build"]))
    return match[1] if match else None
