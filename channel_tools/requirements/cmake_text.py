"""Reading CMake's language: commands with their arguments, and conditions as far as they can be known.

Grammar: cmake-language(7). Conditions: the manual of ``if()``. Nothing is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<skip>\s+|\#\[(?P<c>=*)\[.*?\](?P=c)\]|\#[^\n]*)
      |(?P<bracket>\[(?P<b>=*)\[(?P<inner>.*?)\](?P=b)\])
      |"(?P<quoted>(?:[^"\\]|\\.)*)"
      |(?P<paren>[()])
      |(?P<plain>(?:[^\s()#"\\]|\\.)+)""",
    re.DOTALL | re.VERBOSE,
)
_REFERENCE = re.compile(r"\$\{([^${}]+)\}")
_TRUE = frozenset({"1", "ON", "YES", "TRUE", "Y"})
_FALSE = frozenset({"0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND", ""})
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_COMPARISONS: Mapping[str, Callable[[list[int], list[int]], bool]] = {
    "LESS": lambda a, b: a < b,
    "GREATER": lambda a, b: a > b,
    "EQUAL": lambda a, b: a == b,
    "LESS_EQUAL": lambda a, b: a <= b,
    "GREATER_EQUAL": lambda a, b: a >= b,
}
# Tests of one word that ask the host or the project's targets.
_HOST_TESTS = frozenset({"EXISTS", "IS_DIRECTORY", "IS_ABSOLUTE", "COMMAND", "POLICY", "TARGET", "TEST"})


@dataclass(frozen=True)
class Argument:
    """One argument; ``quoted`` ones stand for themselves in conditions."""

    text: str
    quoted: bool


@dataclass(frozen=True)
class Command:
    """One command; ``name`` in lower case, ``line`` counted from 1. Parentheses within are arguments."""

    name: str
    arguments: tuple[Argument, ...]
    line: int

    @property
    def words(self) -> list[str]:
        return [argument.text for argument in self.arguments]


def read_commands(text: str) -> list[Command]:
    """The commands of a CMake file in order; text that ends early gives those that are whole."""
    commands: list[Command] = []
    name, name_line, depth = "", 1, 0
    arguments: list[Argument] = []
    for kind, value, line in _tokens(text):
        if depth == 0:
            if kind == "plain":
                name, name_line = value.lower(), line
            elif value == "(" and kind == "paren":
                depth, arguments = 1, []
        elif kind == "paren" and value == ")" and depth == 1:
            depth = 0
            commands.append(Command(name, tuple(arguments), name_line))
        else:
            depth += {"(": 1, ")": -1}.get(value, 0) if kind == "paren" else 0
            arguments.append(Argument(value, kind in ("quoted", "bracket")))
    return commands


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:  # a lone quote or backslash
            position += 1
            continue
        for kind, group in (
            ("bracket", "inner"),
            ("quoted", "quoted"),
            ("paren", "paren"),
            ("plain", "plain"),
        ):
            if match[kind] is not None:
                yield kind, match[group], line
        line += match[0].count("\n")
        position = match.end()


def expand(text: str, variables: Mapping[str, str]) -> str:
    """``${NAME}`` replaced by its value; a name that is not known stays as it is."""
    for _ in range(10):
        expanded = _REFERENCE.sub(lambda match: variables.get(match[1], match[0]), text)
        if expanded == text:
            break
        text = expanded
    return text


@dataclass
class Condition:
    """The value of a condition: ``None`` where it depends on what is not known.

    ``variables`` are known values; ``environment`` the variables of the environment that are set, all others
    are not.
    """

    variables: Mapping[str, str]
    environment: frozenset[str]

    def value(self, arguments: Sequence[Argument]) -> bool | None:
        self._rest = list(arguments)
        found = self._any()
        return None if self._rest else found

    def _any(self) -> bool | None:
        found = self._all()
        while self._keyword("OR"):
            other = self._all()
            found = True if True in (found, other) else None if None in (found, other) else False
        return found

    def _all(self) -> bool | None:
        found = self._not()
        while self._keyword("AND"):
            other = self._not()
            found = False if False in (found, other) else None if None in (found, other) else True
        return found

    def _not(self) -> bool | None:
        if self._keyword("NOT"):
            found = self._not()
            return None if found is None else not found
        if self._keyword("("):
            found = self._any()
            self._keyword(")")
            return found
        return self._test()

    def _keyword(self, word: str) -> bool:
        there = bool(self._rest) and not self._rest[0].quoted and self._rest[0].text == word
        if there:
            self._rest.pop(0)
        return there

    def _test(self) -> bool | None:
        if not self._rest:
            return None
        first = self._rest.pop(0)
        if not first.quoted and first.text == "DEFINED" and self._rest:
            return self._defined(self._rest.pop(0).text)
        if not first.quoted and first.text in _HOST_TESTS and self._rest:
            self._rest.pop(0)
            return None
        operator = self._rest[0].text if self._rest and not self._rest[0].quoted else ""
        if (
            operator in ("STREQUAL", "MATCHES", "IN_LIST")
            or operator.removeprefix("VERSION_") in _COMPARISONS
        ):
            self._rest.pop(0)
            return self._binary(first, operator, self._rest.pop(0)) if self._rest else None
        return self._truth(first)

    def _defined(self, name: str) -> bool | None:
        if name.startswith("ENV{"):
            return name[4:-1] in self.environment
        return True if name in self.variables else None

    def _binary(self, left: Argument, operator: str, right: Argument) -> bool | None:
        a, b = self._string(left), self._string(right)
        if a is None or b is None:
            return None
        if operator == "STREQUAL":
            return a == b
        if operator == "MATCHES":
            try:
                return re.search(b, a) is not None
            except re.error:
                return None
        comparison = _COMPARISONS.get(operator.removeprefix("VERSION_"))
        if comparison is None or not _NUMBERS.fullmatch(a) or not _NUMBERS.fullmatch(b):
            return None
        numbers = [[int(part) for part in text.split(".")] for text in (a, b)]
        length = max(map(len, numbers))
        return comparison(*([*parts, *[0] * (length - len(parts))] for parts in numbers))

    def _string(self, argument: Argument) -> str | None:
        """What an argument of a comparison stands for: an unquoted name of a variable for its value."""
        text = expand(argument.text, self.variables)
        if "${" in text or "$ENV{" in text:
            return None
        if argument.quoted or text != argument.text or _NUMBERS.fullmatch(text):
            return text
        # Unquoted, and not known: a variable as likely as a word.
        return self.variables.get(text)

    def _truth(self, argument: Argument) -> bool | None:
        text = expand(argument.text, self.variables)
        if text.upper() in _TRUE:
            return True
        if text.upper() in _FALSE or text.endswith("-NOTFOUND"):
            return False
        value = None if argument.quoted else self.variables.get(text)
        return None if value is None else value.upper() not in _FALSE and not value.endswith("-NOTFOUND")
