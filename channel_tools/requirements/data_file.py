"""``requirements.toml`` beside a recipe: how pip's names become conda's, and what is left out, and why."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from channel_tools.model.errors import RequirementsError

FILE = "requirements.toml"
Role = Literal["build", "run"]
ROLES: tuple[Role, ...] = ("build", "run")


def _pip_name(name: str) -> str:
    from packaging.utils import canonicalize_name

    normal = canonicalize_name(name)
    if normal != name:
        raise ValueError(f"{name!r} is not in pip's normal form: write {normal!r}")
    return name


def _version_range(text: str) -> str:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError(str(error)) from error
    return text


PipName = Annotated[str, AfterValidator(_pip_name)]
VersionRange = Annotated[str, AfterValidator(_version_range)]
Reason = Annotated[str, Field(min_length=20)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Rule(_Table):
    """``versions``: releases of the package that the rule was looked at for (PEP 440); empty: all."""

    versions: VersionRange = ""
    reason: Reason

    def holds_for(self, version: str) -> bool:
        from packaging.specifiers import SpecifierSet

        return SpecifierSet(self.versions).contains(version, prereleases=True)


class LeftOut(_Rule):
    """Requirements that the recipe does without. ``role``: only those of that role; unset: of both."""

    names: list[PipName] = Field(min_length=1)
    role: Role | None = None


class OtherRange(_Rule):
    """A requirement whose range in the recipe is another one, ``takes`` (conda) for ``asks`` (PEP 440)."""

    names: list[PipName] = Field(min_length=1)
    asks: VersionRange
    takes: str


class AtRun(_Rule):
    """Requirements of the build lists that the recipe has among its run requirements instead."""

    names: list[PipName] = Field(min_length=1)


class Extras(_Rule):
    """Extras (``fastapi[standard]``) that need no package beside those that the recipe has."""

    name: PipName
    extras: list[str] = Field(min_length=1)


class Added(_Rule):
    """Conda packages in the recipe that no requirement asks for. ``role``: where; unset: in both."""

    names: list[str] = Field(min_length=1)
    role: Role | None = None


class Files(_Table):
    """Lists of the source distribution: for each entry the first path that is there, of those given."""

    build: list[list[str]]
    run: list[list[str]]


class DataFile(_Table):
    """A whole ``requirements.toml``. ``names``: pip's to conda's, where more than ``_`` and ``-`` differs."""

    version: Literal[1]
    files: Files
    names: dict[PipName, str] = {}
    left_out: list[LeftOut] = []
    other_range: list[OtherRange] = []
    at_run: list[AtRun] = []
    extras: list[Extras] = []
    added: list[Added] = []


def read_data_file(path: Path) -> DataFile:
    """Read and check a ``requirements.toml``.

    :raises RequirementsError: it is not there, no TOML, or holds a key or value that it may not
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise RequirementsError(
            f"cannot be read: {error.strerror}",
            where=path,
            wanted="the file that says how pip's requirements become conda's",
            fix="write it as recipes/vllm-rocm/requirements.toml is written",
        ) from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise RequirementsError(
            "is no TOML", where=f"{path}:{line[1]}" if line else path, found=str(error)
        ) from error
    try:
        return DataFile.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise RequirementsError(
            f"{_dotted(first['loc'])}: {first['msg'].removeprefix('Value error, ')}",
            where=path,
            found=repr(first["input"])[:200],
        ) from error


def _dotted(location: tuple[Any, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".") or "the file"
