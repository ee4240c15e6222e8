"""``.condarc``, ``.mambarc`` and ``environment.yml``: edited with comments, order and quotes as they are."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from channel_tools.client.channel_order import merge_order
from channel_tools.model.errors import ChannelToolsError

Edited = tuple[str, list[str]]


def edit_condarc(before: str | None, path: Path, channels: Sequence[str], name: str, location: str) -> Edited:
    """Text after the change, and notes.

    :param channels: to be in front, in order; names that ``custom_channels`` maps, or public ones
    :param location: URL that the address of ``name`` begins with
    :raises ChannelToolsError: no YAML mapping, or a key of another type than conda takes
    """
    yaml, data = _load(before, path)
    notes = []
    present = [str(one) for one in _list(data, "channels", path)]
    if "channels" not in data and before:
        notes.append("the file named no channels, which meant `defaults`; add it at the end if you need it")
    if "defaults" in present and "conda-forge" in channels:
        notes.append(
            "`defaults` stays at the end; packages of it and of conda-forge do not always fit together"
        )
    notes += _order(data, "channels", channels, (name, f"{location}/{name}"))
    custom = data.get("custom_channels")
    if custom is not None and not isinstance(custom, dict):
        raise _wrong(path, "custom_channels", "a mapping of names to locations")
    if custom is None:
        data["custom_channels"] = {name: location}
    else:
        if custom.get(name) not in (None, location):
            notes.append(f"{name} was {custom[name]}, and is now {location}")
        custom[name] = location
    priority = data.get("channel_priority")
    if priority not in (None, "strict"):
        notes.append(
            f"channel_priority was {str(priority).lower()}; with it, other channels could overrule ours"
        )
    data["channel_priority"] = "strict"
    return _dump(yaml, data, before, ("channels", "custom_channels", "channel_priority")), notes


def edit_environment(
    before: str | None, path: Path, channels: Sequence[str], url: str, pins: Sequence[str]
) -> Edited:
    """Text of an ``environment.yml`` after the change, and notes.

    :param url: address of our channel, without a final ``/``
    :param pins: dependencies that hold arch and release; each takes the place of one with the same name
    :raises ChannelToolsError: no YAML mapping, or a key of another type than conda takes
    """
    yaml, data = _load(before if before is not None else "name: rocm\n", path)
    _list(data, "channels", path)
    notes = _order(data, "channels", channels, (url,))
    if not before:
        data["channels"].append("nodefaults")
    listed = _list(data, "dependencies", path)
    if "dependencies" not in data:
        data["dependencies"] = listed
    listed = data["dependencies"]
    for position, pin in enumerate(pins):
        name = pin.partition("=")[0]
        old = [n for n, one in enumerate(listed) if isinstance(one, str) and _name(one) == name]
        if old:
            listed[old[0]] = pin
        else:
            listed.insert(position, pin)
    note = (
        "conda reads channel_priority from .condarc, not from here: `rocm-channel configure --client conda`"
    )
    return _dump(yaml, data, before, ("channels", "dependencies")), [*notes, note]


def _name(spec: str) -> str:
    return re.split(r"[\s=<>!~\[]", spec.rpartition("::")[2].strip(), maxsplit=1)[0]


def _order(data: Any, key: str, channels: Sequence[str], ours: Sequence[str]) -> list[str]:
    """Put our channels in front of a list, and after them what is missing of the others, in order.

    :param ours: addresses and names of our channel; each entry of it or of a label of it goes away first
    :returns: notes about labels that went away
    """
    if key not in data:
        data[key] = list(channels)
        return []
    listed = data[key]
    front, rest, gone = merge_order([str(one) for one in listed], channels, ours)
    for position in reversed(rest):
        _delete(listed, position)
    for position, one in enumerate(front):
        listed.insert(position, one)
    return [f"{one} is no longer in front" for one in gone]


def _delete(listed: Any, position: int) -> None:
    """Remove an entry; a comment on it, which is often about the next one, goes to the one before."""
    token = listed.ca.items.get(position)
    del listed[position]
    if token is None or token[0] is None:
        return
    if position == 0:
        lines = [line.strip(" #") for line in token[0].value.splitlines() if line.strip()]
        listed.yaml_set_comment_before_after_key(0, before="\n".join(lines), indent=2)
    elif (before := listed.ca.items.get(position - 1)) and before[0] is not None:
        before[0].value = before[0].value.rstrip("\n") + "\n" + token[0].value.lstrip("\n")
    else:
        listed.ca.items[position - 1] = token


def _load(before: str | None, path: Path) -> tuple[Any, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import YAMLError

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    indent = re.search(r"^channels:[^\n]*\n(?:[ ]*#[^\n]*\n)*( *)- ", before or "", re.MULTILINE)
    offset = len(indent[1]) if indent else 2
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)
    if re.match(r"---\s*$", before or "", re.MULTILINE):
        yaml.explicit_start = True
    try:
        _plain(before or "")  # also refuses tags that only other programs understand
        data = yaml.load(before or "")
    except YAMLError as error:
        raise ChannelToolsError(
            "is no YAML that can be edited", where=path, found=" ".join(str(error).split())[:300]
        ) from error
    if data is None:
        data = CommentedMap()
        if before and before.strip():
            data.yaml_set_start_comment(re.sub(r"^# ?", "", before.strip("\n"), flags=re.MULTILINE))
    if not isinstance(data, dict):
        raise ChannelToolsError("is no YAML mapping", where=path)
    return yaml, data


def _list(data: Any, key: str, path: Path) -> list[Any]:
    value = data.get(key)
    if value is None:
        data.pop(key, None)
        return []
    if not isinstance(value, list):
        raise _wrong(path, key, "a list")
    return value


def _wrong(path: Path, key: str, wanted: str) -> ChannelToolsError:
    return ChannelToolsError(f"{key} is not of a form that conda reads", where=path, wanted=wanted)


def _dump(yaml: Any, data: Any, before: str | None, keys: Sequence[str]) -> str:
    """The edited document; of one that was there, no line outside the blocks of ``keys`` changes."""
    stream = io.StringIO()
    yaml.dump(data, stream)
    after = stream.getvalue()
    old, new = _blocks(before or ""), _blocks(after)
    if not old or not new:
        return after
    parts = [(new if key in keys else old)[key] for key in old if key in new]
    parts += [new[key] for key in new if key not in old]
    text = "".join(part if not part or part.endswith("\n") else f"{part}\n" for part in parts)
    return text if _plain(text) == _plain(after) else after


def _blocks(text: str) -> dict[str, str]:
    """Lines of each top-level key up to the next one; those before the first key under the empty key.

    None of a document in flow style, or of one without keys.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap

    data = YAML().load(text)
    if not isinstance(data, CommentedMap) or not data or data.fa.flow_style():
        return {}
    lines = text.splitlines(keepends=True)
    starts = {str(key): data.lc.key(key)[0] for key in data}
    ends = [*sorted(starts.values())[1:], len(lines)]
    found = {"": "".join(lines[: min(starts.values())])}
    found |= {key: "".join(lines[start:end]) for (key, start), end in zip(starts.items(), ends, strict=True)}
    return found


def _plain(text: str) -> Any:
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).load(text)
