"""``pixi.toml`` and the pixi tables of ``pyproject.toml``: edited with comments and order as they are.

pixi takes no names for channels but those below its default host, so channels are addresses. ``amdgpu`` of a
platform is from pixi 0.82 on (its release notes); the older table ``system-requirements`` is deprecated since
0.71 and never had it.

Channels are sorted by their ``priority`` (0 where none is given), the higher first, and then as they are
listed; those of a feature come before the workspace's (``sort_channels_by_priority`` and ``has_features`` in
pixi's source).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from channel_tools.client.channel_order import is_ours, merge_order
from channel_tools.model.errors import ChannelToolsError

NEW = """\
[workspace]
name = "rocm"
channels = []
platforms = ["linux-64"]

[dependencies]
"""


def edit_pixi(
    before: str | None, path: Path, channels: Sequence[str], url: str, platform_arch: str | None
) -> tuple[str, list[str]]:
    """Text after the change, and notes.

    :param channels: to be in front, in order
    :param url: address of our channel, without a final ``/``
    :param platform_arch: GPU target that pixi shall demand of a host before it installs or runs anything
    :raises ChannelToolsError: no TOML, no workspace in it, or a key of another type than pixi takes
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document: Any = tomlkit.parse(before if before is not None else NEW)
    except TOMLKitError as error:
        raise ChannelToolsError("is no TOML", where=path, found=str(error)) from error
    workspace = _workspace(document, path)
    notes = []
    listed = workspace.get("channels")
    if listed is None:
        workspace["channels"] = listed = tomlkit.array()
    if not isinstance(listed, list):
        raise ChannelToolsError("channels is no list", where=path)
    notes += _order(listed, channels, url)
    notes += _of_features(document, path)
    if workspace.get("channel-priority") not in (None, "strict"):
        notes.append(
            f"channel-priority was {workspace['channel-priority']}; strict is what keeps our names ours"
        )
        workspace["channel-priority"] = "strict"
    platforms = workspace.get("platforms")
    if platforms is None:
        workspace["platforms"] = platforms = tomlkit.array()
        platforms.append("linux-64")
    if not isinstance(platforms, list):
        raise ChannelToolsError("platforms is no list", where=path)
    if platform_arch is not None:
        _demand(platforms, platform_arch)
        notes.append(f"pixi 0.82 or newer is needed, and refuses hosts without a {platform_arch} GPU")
    return tomlkit.dumps(document), notes


def _tables(document: Any, path: Path) -> Any:
    return document.get("tool", {}).get("pixi") if path.name == "pyproject.toml" else document


def _workspace(document: Any, path: Path) -> Any:
    tables = _tables(document, path)
    for name in ("workspace", "project"):  # the second is what pixi called it before 0.40
        if tables is not None and isinstance(tables.get(name), dict):
            return tables[name]
    raise ChannelToolsError(
        "has no pixi workspace", where=path, wanted="a table [workspace]", fix="run `pixi init` first"
    )


def _order(listed: Any, channels: Sequence[str], url: str) -> list[str]:
    notes = []
    own = [position for position, one in enumerate(listed) if is_ours(_address(one).rstrip("/"), (url,))]
    above = max((_priority(one) for position, one in enumerate(listed) if position not in own), default=0)
    given = {_priority(listed[position]) for position in own}
    priority = max([above + 1 if above > 0 else 0, *(given if len(given) == 1 else ())])
    was_empty, gone = not listed, []
    if given - {priority}:
        gone = [entry for position in own if (entry := _address(listed[position])) not in channels]
        for position in reversed(own):
            del listed[position]
    front, rest, more = merge_order([_address(one) for one in listed], channels, (url,))
    for position in reversed(rest):
        del listed[position]
    for position, one in enumerate(front):
        listed.insert(position, _entry(one, priority) if is_ours(one, (url,)) else one)
    if was_empty:
        listed.multiline(True)
    if priority and front:
        notes.append(f"other channels have a priority of up to {above}; ours has {priority}, to be in front")
    return [*notes, *(f"{one} is no longer in front" for one in (*gone, *more) if "/label/" in one)]


def _entry(channel: str, priority: int) -> Any:
    import tomlkit

    if not priority:
        return channel
    table = tomlkit.inline_table()
    table.update({"channel": channel, "priority": priority})
    return table


def _priority(entry: Any) -> int:
    value = entry.get("priority") if isinstance(entry, dict) else None
    return int(value) if isinstance(value, int) else 0


def _of_features(document: Any, path: Path) -> list[str]:
    features = _tables(document, path).get("feature")
    named = [
        str(name)
        for name, one in (features.items() if isinstance(features, dict) else ())
        if isinstance(one, dict) and one.get("channels")
    ]
    return [
        f"the feature {name} has channels of its own, which come before these: put ours in front there, too"
        for name in named
    ]


def _address(entry: Any) -> str:
    """A channel of a list: an address, a name, or a table with ``channel`` and ``priority``."""
    return str(entry.get("channel", "")) if isinstance(entry, dict) else str(entry)


def _demand(platforms: Any, arch: str) -> None:
    import tomlkit

    for entry in platforms:
        if isinstance(entry, dict) and entry.get("platform") == "linux-64":
            entry["amdgpu"] = arch
            return
    table = tomlkit.inline_table()
    table.update({"platform": "linux-64", "amdgpu": arch})
    for position, entry in enumerate(platforms):
        if entry == "linux-64":
            platforms[position] = table
            return
    platforms.append(table)
