"""Versions as texts, compared number by number: enough for programs, which have no pre-releases here."""

from __future__ import annotations

import re


def parts(version: str) -> tuple[int, ...]:
    """The numbers of the first version in a text: (11, 4, 0) of ``gcc 11.4.0-1``; (0,) for none."""
    match = re.search(r"\d{1,9}(?:\.\d{1,9})*", version)
    return tuple(int(number) for number in match[0].split(".")) if match else (0,)


def at_least(version: str, floor: str) -> bool:
    """Is a version the given one or newer?"""
    return parts(version) >= parts(floor)


def at_most(version: str, last: str) -> bool:
    """Is a version not newer than the given one, of which only the numbers that it has count?"""
    wanted = parts(last)
    return parts(version)[: len(wanted)] <= wanted
