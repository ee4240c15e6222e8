"""The first lines of a log that look like errors, for logs that no rule explains."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, model_validator

from channel_tools.diagnose.anchors import anchors_of
from channel_tools.diagnose.matcher import Hit, Probe
from channel_tools.diagnose.rules import check_regex
from channel_tools.diagnose.scratch import Scratch

FILE: Final = Path(__file__).with_name("first_errors.toml")
SHOWN: Final = 6
_KEPT: Final = 60


class Kind(BaseModel):
    """A kind of error line.

    :ivar attempt: what to try
    :ivar aftermath: such a line only says that something failed before
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str
    regex: str
    anchors: tuple[str, ...] = ()
    attempt: str
    aftermath: bool = False

    @model_validator(mode="after")
    def _anchored(self) -> Kind:
        check_regex(self.regex, self.anchors, "anchors")
        return self


@dataclass(frozen=True)
class FirstError:
    """A line that looks like an error; ``number`` counts from 1."""

    number: int
    text: str
    kind: str
    attempt: str


@cache
def kinds() -> tuple[Kind, ...]:
    """Kinds in their order; a line is of the first one that matches it."""
    return tuple(
        Kind.model_validate(kind) for kind in tomllib.loads(FILE.read_text(encoding="utf-8"))["kind"]
    )


class FirstErrors:
    """Collects error lines on the way through a log."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[int, Kind, str]] = {}

    def probes(self) -> Iterator[Probe]:
        for rank, kind in enumerate(kinds()):
            anchors = kind.anchors or anchors_of(kind.regex)
            yield Probe(kind.regex, anchors, partial(self._take, rank, kind), limit=_KEPT)

    def first(self, scratch: Scratch) -> tuple[FirstError, ...]:
        """In the order of the log, lines that only say that something failed last; none of checks."""
        found = [item for item in self._found.items() if not scratch.covers(item[0])]
        lines = sorted(found, key=lambda item: (item[1][1].aftermath, item[0]))
        return tuple(
            FirstError(number, text, kind.id, kind.attempt) for number, (_, kind, text) in lines[:SHOWN]
        )

    def _take(self, rank: int, kind: Kind, hit: Hit) -> None:
        known = self._found.get(hit.line)
        if known is None or rank < known[0]:
            self._found[hit.line] = (rank, kind, hit.text)
