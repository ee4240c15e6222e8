"""The text that a line must hold before a regular expression can match it.

Searching a log for plain text is a hundred times as fast as searching it for expressions, so each expression
is tried only where its anchor was found.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

SHORTEST: Final = 5
"""Characters. Shorter text is found too often to be of use."""

_CLASSES: Final = "dDwWsSbBAZ"
_OPTIONAL: Final = "?*{"


@cache
def anchors_of(regex: str) -> tuple[str, ...]:
    """The longest plain text of each alternative of ``regex``; empty if one of them has none.

    Text in groups and character classes is not looked at.
    """
    found = [max(runs, key=len, default="") for runs in _plain_runs(regex)]
    return tuple(found) if all(len(text) >= SHORTEST for text in found) else ()


def _plain_runs(regex: str) -> list[list[str]]:
    """Runs of plain text outside groups, for each alternative outside groups."""
    branches: list[list[str]] = [[]]
    run = ""
    depth = 0
    at = 0
    if regex.startswith("(?i)"):
        return [[]]
    while at < len(regex):
        char = regex[at]
        plain = ""
        if char == "\\":
            at += 1
            if regex[at] not in _CLASSES:
                plain = regex[at]
        elif char == "[":
            at = _end_of_class(regex, at)
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and depth == 0:
            branches[-1].append(run)
            branches.append([])
            run = ""
            at += 1
            continue
        elif char not in ".^$*+?{}|":
            plain = char
        elif char == "{":
            at = regex.index("}", at)
        at += 1
        if depth:
            plain = ""
        if plain and at < len(regex) and regex[at] in _OPTIONAL:
            plain = ""
        if plain:
            run += plain
            if at >= len(regex) or regex[at] != "+":
                continue
        branches[-1].append(run)
        run = ""
    branches[-1].append(run)
    return branches


def _end_of_class(regex: str, start: int) -> int:
    end = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]").match(regex, start)
    if end is None:
        raise re.error("unterminated character set", regex, start)
    return end.end() - 1
