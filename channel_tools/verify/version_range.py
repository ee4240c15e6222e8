"""Ranges of release versions, as policies spell them: ``>=0.26,<0.34``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

_COMPARATOR = re.compile(r"\s*(>=|<=|==|>|<)\s*(\d+(?:\.\d+)*)\s*")
_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_TESTS: Final[dict[str, Callable[[int, int], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True)
class VersionRange:
    """Comparators that must all hold. Only a version's leading numbers count: ``0.26.0rc1`` is 0.26.0."""

    comparators: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """:raises ValueError: text that is no list of comparators"""
        matches = [_COMPARATOR.fullmatch(part) for part in text.split(",")]
        if not all(matches):
            raise ValueError(f"{text!r} is no range of versions: wanted such as '>=0.26,<0.34' or '==0.16.0'")
        return cls(tuple((match[1], _numbers(match[2])) for match in matches if match))

    def __contains__(self, version: str) -> bool:
        match = _RELEASE.match(version)
        if match is None:
            return False
        release = _numbers(match[0])
        return all(_TESTS[sign](_compare(release, bound), 0) for sign, bound in self.comparators)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _compare(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    for a, b in zip_longest(left, right, fillvalue=0):
        if a != b:
            return 1 if a > b else -1
    return 0
