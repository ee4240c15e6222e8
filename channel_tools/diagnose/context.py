"""What a log says in passing: which GPU, which versions. Rules ask for it, and reports show it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict

from channel_tools.diagnose.matcher import Hit, Probe
from channel_tools.diagnose.rules import Tool

FILE: Final = Path(__file__).with_name("context.toml")
_LIMIT: Final = 40
_TRIES: Final = 5000
_ARCH_LIMIT: Final = 200
_PLACEHOLDER: Final = "{arch}"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Named(_Strict):
    """An expression whose first group is the value."""

    regex: str
    anchors: tuple[str, ...]


class Card(Named):
    """A name of a card, and the GPU target of it."""

    gfx: str


class Versioned(Named):
    tool: Tool


class Words(_Strict):
    """What to look for: the content of ``context.toml``."""

    arch: str
    device: tuple[Named, ...]
    card: tuple[Card, ...]
    version: tuple[Versioned, ...]


@cache
def words() -> Words:
    return Words.model_validate(tomllib.loads(FILE.read_text(encoding="utf-8")))


@dataclass
class Facts:
    """What was seen of GPUs and versions, each with its first line."""

    devices: dict[str, int] = field(default_factory=dict)
    archs: dict[str, int] = field(default_factory=dict)
    versions: dict[str, dict[str, int]] = field(default_factory=dict)

    def probes(self) -> Iterator[Probe]:
        known = words()
        for device in known.device:
            regex = device.regex.replace(_PLACEHOLDER, known.arch)
            yield Probe(
                regex, device.anchors, partial(_first_group, self.devices), limit=_LIMIT, tries=_TRIES
            )
        for card in known.card:
            yield Probe(card.regex, card.anchors, partial(self._card, card.gfx), limit=_LIMIT, tries=_TRIES)
        yield Probe(known.arch, ("gfx9", "gfx1"), self._archs, limit=_ARCH_LIMIT, tries=_TRIES)
        for entry in known.version:
            seen = self.versions.setdefault(entry.tool, {})
            yield Probe(entry.regex, entry.anchors, partial(_first_group, seen), limit=_LIMIT, tries=_TRIES)

    def gpus(self) -> frozenset[str]:
        """The GPUs of the host that wrote the log; where no line names one, the arch that all lines name."""
        if self.devices:
            return frozenset(self.devices)
        return frozenset(self.archs) if len(self.archs) == 1 else frozenset()

    def has_version(self, tool: str, wanted: str) -> bool:
        """Whether a version of the tool in that range was seen."""
        return any(_within(text, wanted) for text in self.versions.get(tool, ()))

    def summary(self) -> dict[str, list[str]]:
        """For reports: names and versions, each list in the order of the log."""
        found = {tool: list(seen)[:5] for tool, seen in self.versions.items() if seen}
        if self.archs or self.devices:
            found["gfx"] = list({**self.devices, **self.archs})[:12]
        return found

    def _card(self, arch: str, hit: Hit) -> None:
        self.devices.setdefault(arch, hit.line)

    def _archs(self, hit: Hit) -> None:
        for arch in re.findall(words().arch, hit.text)[:20]:
            self.archs.setdefault(arch, hit.line)


def _first_group(seen: dict[str, int], hit: Hit) -> None:
    seen.setdefault(hit.match[1], hit.line)


def _within(text: str, wanted: str) -> bool:
    try:
        return SpecifierSet(wanted).contains(Version(text), prereleases=True)
    except InvalidVersion:
        return False
