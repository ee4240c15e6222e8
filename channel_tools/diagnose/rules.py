"""The rules of ``explain``: data in ``rules/*.toml``, one file a family, and the checks of that data.

A rule is for a family of failures, whatever the versions, compilers and paths in their wording.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from channel_tools.diagnose.anchors import anchors_of
from channel_tools.model.errors import RuleError

FOLDER: Final = Path(__file__).parent / "rules"

Category = Literal[
    "compiler/ABI",
    "wrong or missing arch",
    "missing ROCm path",
    "missing lib",
    "dependency resolution",
    "triton mismatch",
    "memory/OOM in compile",
    "cache staleness",
    "permissions/groups/device files",
    "packaging: prefix/rpath/overlinking/size",
    "channel/index/publish",
    "solver/arch selection",
    "runtime env",
    "patch failed to apply",
    "network download in build",
]
CATEGORIES: Final = get_args(Category)
Confidence = Literal["sure", "likely", "possible"]
Tool = Literal["rocm", "gcc", "clang", "cmake", "python", "torch", "triton", "vllm", "glibc", "conda"]

Text = Annotated[str, Field(min_length=1)]
_SOURCE = re.compile(r"[\w.-]+/[\w.-]+#\d+|document: .+|own: .+")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Wording(_Strict):
    """One wording of a failure: an expression over one line, or over several joined by spaces."""

    regex: Text = Field(description="Python's; searched in each line, without colours")
    anchors: tuple[Text, ...] = Field(
        default=(),
        description="plain texts, one of which is in every line that matches (default: taken from regex)",
    )
    lines: int = Field(
        default=1, ge=1, le=12, description="lines that it may span, joined by one space, indentation removed"
    )
    near: Text | None = Field(default=None, description="an expression that another line close by must match")
    near_anchors: tuple[Text, ...] = Field(default=(), description="as anchors, of near")
    within: int = Field(default=30, ge=0, le=2000, description="how many lines away that line may be")
    not_after: Text | None = Field(
        default=None,
        description="an expression that no line up to six lines before may match (CMake Warning)",
    )

    @model_validator(mode="after")
    def _anchored(self) -> Wording:
        for regex, anchors, key in (
            (self.regex, self.anchors, "anchors"),
            (self.near, self.near_anchors, "near_anchors"),
            (self.not_after, (), "not_after"),
        ):
            if regex is not None:
                check_regex(regex, anchors, key)
        return self


class Context(_Strict):
    """What else must be known from the log, anywhere in it."""

    present: tuple[Text, ...] = Field(default=(), description="expressions, all of which match somewhere")
    absent: tuple[Text, ...] = Field(default=(), description="expressions, none of which matches anywhere")
    gpu: tuple[Text, ...] = Field(default=(), description="the log names one of these as the GPU")
    gpu_not: tuple[Text, ...] = Field(default=(), description="the log names none of these as the GPU")
    versions: dict[Tool, Text] = Field(
        default={}, description="a version that the log names of that tool is in the range"
    )

    @field_validator("present", "absent")
    @classmethod
    def _anchored(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for regex in value:
            check_regex(regex, (), "present, absent")
        return value

    @field_validator("versions")
    @classmethod
    def _ranges(cls, value: dict[Tool, str]) -> dict[Tool, str]:
        for text in value.values():
            try:
                SpecifierSet(text)
            except InvalidSpecifier as error:
                raise ValueError(f"{text!r} is no version range") from error
        return value


class Examples(_Strict):
    """Pieces of logs; each may have several lines."""

    positive: tuple[Text, ...] = Field(min_length=1, description="the rule is found first")
    negative: tuple[Text, ...] = Field(min_length=1, description="near misses: the rule is not found")


class Rule(_Strict):
    """One cause, every wording in which logs show it, and what helps."""

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", description="unique in all files")
    category: Category = Field(description="the family; the same in the whole file")
    title: Text = Field(description="a few words")
    cause: Text = Field(description="one sentence")
    fix: tuple[Text, ...] = Field(
        min_length=1, description="what to do with this project's packages, as commands where there are any"
    )
    fix_plain: tuple[Text, ...] = Field(default=(), description="the same for plain pip and CMake")
    confidence: Confidence = Field(
        description="sure: the words have one cause; likely: nearly always; possible: a sign, no error"
    )
    harmless: bool = Field(default=False, description="named and ranked last; nothing has to be done")
    order: int = Field(
        default=50, ge=0, le=100, description="how specific; of rules for one event the highest comes first"
    )
    match: tuple[Wording, ...] = Field(min_length=1, description="any of these")
    context: Context = Context()
    consequences: tuple[Text, ...] = Field(
        default=(), description="ids of rules, or categories, whose later findings only follow from this one"
    )
    sources: tuple[Text, ...] = Field(min_length=1, description="owner/repository#number, or a document")
    examples: Examples

    @field_validator("sources")
    @classmethod
    def _sources(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for source in value:
            if not _SOURCE.fullmatch(source):
                raise ValueError(f"{source!r} is neither owner/repository#number nor 'document: ...'")
        return value


class RuleFile(_Strict):
    category: Category
    rule: tuple[Rule, ...] = Field(min_length=1)


def check_regex(regex: str, anchors: tuple[str, ...], key: str) -> None:
    """:raises ValueError: no expression, or none that plain text leads to"""
    try:
        compiled = re.compile(regex)
    except re.error as error:
        raise ValueError(f"{regex!r} is no regular expression: {error}") from error
    if compiled.match(""):
        raise ValueError(f"{regex!r} matches an empty line")
    if not anchors and not anchors_of(regex):
        raise ValueError(f"{regex!r} has no plain text of five characters in each alternative: give {key}")


def read_rules(files: Iterable[Path]) -> tuple[Rule, ...]:
    """Read and check rule files.

    :raises RuleError: a file that cannot be read or is not as the schema says, or an id that occurs twice
    """
    rules: list[Rule] = []
    for path in files:
        rules += _read_file(path)
    counts = Counter(rule.id for rule in rules)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise RuleError("rules share an id", found=", ".join(twice), wanted="an id of its own for each")
    known = {*counts, *CATEGORIES}
    for rule in rules:
        for name in rule.consequences:
            if name not in known:
                raise RuleError(f"rule {rule.id} names a consequence that is no rule", found=name)
    return tuple(rules)


@cache
def all_rules() -> tuple[Rule, ...]:
    """The rules that come with this package, in the order of their files' names."""
    return read_rules(sorted(FOLDER.glob("*.toml")))


def _read_file(path: Path) -> tuple[Rule, ...]:
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RuleError("the rules cannot be read", where=path, found=str(error)) from error
    for entry in data.get("rule", ()):
        entry.setdefault("category", data.get("category"))
    try:
        return RuleFile.model_validate(data).rule
    except ValidationError as invalid:
        first = invalid.errors(include_url=False)[0]
        raise RuleError(
            f"a rule is not as the schema says: {first['msg']}",
            where=path,
            found=f"{_place(data, first['loc'])}: {str(first['input'])[:200]}",
        ) from invalid


def _place(data: dict[str, Any], location: tuple[int | str, ...]) -> str:
    parts = [str(part) for part in location]
    if len(location) > 1 and location[0] == "rule" and isinstance(location[1], int):
        parts[1] = str(data["rule"][location[1]].get("id", location[1]))
    return ".".join(parts)
