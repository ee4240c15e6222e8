"""The v0 document that the generator builds, and how it is written down.

What is written must mean the same after conda-build has read each line for a selector, rendered Jinja,
read each line for a selector again, and read the result as YAML 1.1.  So text is quoted unless it is
plainly text, and characters that Jinja or the selector pattern would take are written as escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from channel_tools.recipe_v0.conda_build import is_selector_line
from channel_tools.recipe_v0.names import Expression, Text

HEADER = "# Generated from recipe.yaml by `rocm-channel recipes sync`; edit recipe.yaml, not this file."

# Starts with a letter, or with what is only ever text in YAML 1.1.
_PLAIN = re.compile(r"[A-Za-z_/$][^\x00-\x1f\x7f-\U0010ffff]*(?<! )")
_PLAIN_TROUBLE = re.compile(r": |:$| #|\{[{%#]")
_YAML_1_1_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


@dataclass(frozen=True)
class Bare:
    """A value that stands without quotes: a number, true or false, or an expression that gives a number."""

    value: int | bool | Expression


@dataclass(frozen=True)
class Choice:
    """Items or entries that stand between ``{% if %}`` and ``{% endif %}``."""

    condition: Expression
    then: tuple[Item, ...]
    otherwise: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Block:
    """A block list."""

    items: tuple[Item, ...]


@dataclass(frozen=True)
class Entry:
    """One ``key: value`` of a map."""

    key: str
    value: Value


@dataclass(frozen=True)
class Table:
    """A block map: entries, and choices of entries."""

    entries: tuple[Item, ...]


Value = Text | Bare | Block | Table
Item = Value | Choice | Entry


def write_document(header: list[str], sections: Table) -> str:
    """The text of a ``meta.yaml``: header comment, ``{% set %}`` lines, then one section after another."""
    lines = [HEADER, *header]
    for section in sections.entries:
        lines += ["", *_item(section, 0)]
    return "\n".join(lines) + "\n"


def quote(text: Text, before: str = "") -> str:
    """A text as a YAML scalar on one line.

    :param before: what stands before it on the line
    """
    literal = text.literal
    if literal is not None and _is_plain(literal) and not is_selector_line(before + literal):
        return literal
    body = "".join(_escaped(text.pieces))
    if is_selector_line(f'{before}"{body}"'):
        body = "".join(_escaped(text.pieces, selectors=True))
    return f'"{body}"'


def _is_plain(text: str) -> bool:
    return (
        _PLAIN.fullmatch(text) is not None
        and _PLAIN_TROUBLE.search(text) is None
        and text.lower() not in _YAML_1_1_WORDS
    )


def _is_prose(text: Text) -> bool:
    """Whether a text of several lines can stand behind ``|``, where there are no escapes."""
    literal = text.literal
    if literal is None or "\n" not in literal:
        return False
    lines = literal.removesuffix("\n").split("\n")
    return all(map(_is_prose_line, lines)) and "" not in (lines[0], lines[-1]) and lines[0][0] != " "


def _is_prose_line(line: str) -> bool:
    return (
        re.fullmatch(r"[\x20-\x7e]*", line) is not None
        and re.search(r"\{[{%#]|^ *#| $", line) is None
        and not is_selector_line(line)
    )


def _escaped(pieces: tuple[str | Expression, ...], *, selectors: bool = False) -> Iterator[str]:
    for index, piece in enumerate(pieces):
        if isinstance(piece, Expression):
            yield f"{{{{ {piece.code} }}}}"
            continue
        text = "".join(_escaped_char(char) for char in piece)
        text = re.sub(r"\{(?=[{%#])", r"\\x7b", text)
        if selectors:
            text = text.replace("#", r"\x23").replace("[", r"\x5b").replace("]", r"\x5d")
        if text.endswith("{") and index + 1 < len(pieces):
            text = text[:-1] + r"\x7b"
        if text.startswith("}") and index:
            text = r"\x7d" + text[1:]
        yield text


def _escaped_char(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if ord(char) > 0xFFFF:
        return f"\\U{ord(char):08x}"
    if ord(char) > 0x7E:
        return f"\\u{ord(char):04x}"
    return char if char >= " " else f"\\x{ord(char):02x}"


def _item(item: Item, indent: int) -> list[str]:
    pad = " " * indent
    match item:
        case Entry(key=key, value=value):
            return _entry(f"{pad}{quote(Text((key,)), pad)}:", value, indent)
        case Choice():
            lines = [f"{pad}{{% if {item.condition.code} %}}"]
            lines += [line for part in item.then for line in _item(part, indent)]
            if item.otherwise:
                lines.append(f"{pad}{{% else %}}")
                lines += [line for part in item.otherwise for line in _item(part, indent)]
            return [*lines, f"{pad}{{% endif %}}"]
        case Text() | Bare():
            return [f"{pad}- {_scalar(item, f'{pad}- ')}"]
        case Table():
            # The first entry stands behind the dash; a choice cannot.
            lines = [line for entry in item.entries for line in _item(entry, indent + 2)]
            return [f"{pad}- {lines[0].lstrip()}", *lines[1:]]
        case Block():
            return [f"{pad}-", *(line for part in item.items for line in _item(part, indent + 2))]


def _entry(head: str, value: Value, indent: int) -> list[str]:
    match value:
        case Text() if _is_prose(value):
            prose = value.literal or ""
            pad = " " * (indent + 2)
            lines = [f"{pad}{line}".rstrip() for line in prose.removesuffix("\n").split("\n")]
            return [f"{head} {'|' if prose.endswith(chr(10)) else '|-'}", *lines]
        case Text() | Bare():
            return [f"{head} {_scalar(value, f'{head} ')}"]
        case Block(items=()) | Table(entries=()):
            return [f"{head} {'[]' if isinstance(value, Block) else '{}'}"]
        case Block(items=items) | Table(entries=items):
            return [head, *(line for item in items for line in _item(item, indent + 2))]


def _scalar(value: Text | Bare, before: str) -> str:
    match value:
        case Text():
            return quote(value, before)
        case Bare(value=bool() as flag):
            return "true" if flag else "false"
        case Bare(value=Expression(code=code)):
            return f"{{{{ {code} }}}}"
        case Bare(value=number):
            return str(number)
