"""A v1 recipe as a tree whose every node knows its file, line and dotted key.

The text is read as YAML 1.2, and only the part of YAML that is the same for every engine: block lists and
maps, one document, no anchors, tags or directives.  Scalars keep their text as it is written
(``version: 1.10`` is the text ``1.10``, as it is for rattler-build).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from channel_tools.model.errors import RecipeError

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER_LIKE = re.compile(r"[-+]?(\.?[0-9][0-9_.eExXoOa-fA-F:+-]*|\.(inf|Inf|INF)|\.(nan|NaN|NAN))")
_OTHER_WORDS = {"~", "null", "Null", "NULL", "True", "TRUE", "False", "FALSE"}


@dataclass(frozen=True)
class Place:
    """Where a node stands: the file, the line (from 1) and the dotted key (``requirements.run[2]``)."""

    file: Path
    line: int
    key: str

    def child(self, key: str, line: int) -> Place:
        return Place(self.file, line, f"{self.key}.{key}" if self.key else key)

    def item(self, index: int, line: int) -> Place:
        return Place(self.file, line, f"{self.key}[{index}]")


@dataclass(frozen=True)
class Scalar:
    """One value; ``plain`` says that it stands without quotes, on one line."""

    place: Place
    text: str
    plain: bool

    def typed(self) -> str | int | bool | None:
        """The value as rattler-build types it where a key takes any plain value (context, extra).

        :raises RecipeError: for an unquoted number that engines would rewrite (``1.10``, ``0755``, ``1e3``)
        """
        if not self.plain:
            return self.text
        if self.text in ("true", "false"):
            return self.text == "true"
        if _INTEGER.fullmatch(self.text):
            return int(self.text)
        if self.text == "":
            return None
        if self.text in _OTHER_WORDS or _NUMBER_LIKE.fullmatch(self.text):
            raise refusal(
                self,
                "engines read this value differently without quotes",
                found=self.text,
                wanted=f'"{self.text}"',
                fix="put it in quotes",
            )
        return self.text


@dataclass(frozen=True)
class Sequence:
    place: Place
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Mapping:
    place: Place
    entries: tuple[tuple[Scalar, Node], ...]

    def get(self, key: str) -> Node | None:
        return next((value for name, value in self.entries if name.text == key), None)

    def keys(self) -> tuple[str, ...]:
        return tuple(name.text for name, _ in self.entries)


Node = Scalar | Sequence | Mapping


def refusal(
    at: Node | Place,
    what: str,
    *,
    found: str | None = None,
    wanted: str | None = None,
    fix: str | None = None,
) -> RecipeError:
    """The error for a node: ``<file>:<line>: <dotted key>: <what>``."""
    place = at if isinstance(at, Place) else at.place
    text = f"{place.key}: {what}" if place.key else what
    return RecipeError(text, where=f"{place.file}:{place.line}", found=found, wanted=wanted, fix=fix)


def read_recipe(path: Path) -> Mapping:
    """The tree of a recipe file.

    :raises RecipeError: if the file cannot be read, is not YAML, or uses YAML that engines read differently
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError("the recipe cannot be read", where=path, found=str(error)) from None
    top = Place(path, 1, "")
    try:
        tree = _Builder(top, YAML(typ="safe", pure=True).parse(text)).document()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise refusal(Place(path, line, ""), "this is not YAML", found=str(error.problem)) from None
    except YAMLError as error:
        raise refusal(top, "this is not YAML", found=str(error)) from None
    if not isinstance(tree, Mapping):
        raise refusal(tree, "a recipe is a map", wanted="schema_version: 1, package: ...")
    return tree


class _Builder:
    """Builds the tree from the events of ruamel's YAML 1.2 parser."""

    def __init__(self, top: Place, events: Iterator[Any]) -> None:
        self._top = top
        self._events = iter(events)

    def document(self) -> Node:
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                if event.version or event.tags:
                    raise refusal(self._top, "YAML directives are not supported", fix="delete the line")
                root = self._node(next(self._events), self._top)
                self._end_of_document()
                return root
        raise refusal(self._top, "the recipe is empty")

    def _end_of_document(self) -> None:
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                place = Place(self._top.file, _line(event), "")
                raise refusal(place, "a recipe is one YAML document", fix="delete what follows")

    def _node(self, event: Any, place: Place) -> Node:
        if isinstance(event, AliasEvent) or event.anchor is not None:
            raise refusal(place, "YAML anchors and aliases are not supported", fix="repeat the value")
        if event.tag is not None:
            raise refusal(place, "YAML tags are not supported", found=str(event.tag), fix="delete the tag")
        if isinstance(event, ScalarEvent):
            return self._scalar(event, place)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(event, place)
        assert isinstance(event, MappingStartEvent)
        return self._mapping(event, place)

    def _scalar(self, event: ScalarEvent, place: Place) -> Scalar:
        if event.style not in ("|", ">") and event.start_mark.line != event.end_mark.line:
            raise refusal(place, "this value goes over several lines", fix="write it on one line, or after |")
        return Scalar(place, event.value, plain=not event.style)

    def _sequence(self, start: SequenceStartEvent, place: Place) -> Sequence:
        items: list[Node] = []
        for event in self._events:
            if isinstance(event, SequenceEndEvent):
                break
            if start.flow_style:
                raise refusal(
                    place,
                    "flow lists are not supported: for conda-build, [...] at the end of a line is a selector",
                    wanted="one '- item' a line",
                )
            items.append(self._node(event, place.item(len(items), _line(event))))
        return Sequence(place, tuple(items))

    def _mapping(self, start: MappingStartEvent, place: Place) -> Mapping:
        entries: list[tuple[Scalar, Node]] = []
        for event in self._events:
            if isinstance(event, MappingEndEvent):
                break
            if start.flow_style:
                raise refusal(place, "flow maps are not supported", wanted="one 'key: value' a line")
            key = self._node(event, Place(place.file, _line(event), place.key))
            if not isinstance(key, Scalar):
                raise refusal(key, "a key is one word", wanted="'key: value'")
            here = place.child(key.text, key.place.line)
            if any(key.text == known.text for known, _ in entries):
                raise refusal(here, "this key stands here twice", fix="delete one of them")
            value = next(self._events)
            entries.append((Scalar(here, key.text, key.plain), self._node(value, here)))
        return Mapping(place, tuple(entries))


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
