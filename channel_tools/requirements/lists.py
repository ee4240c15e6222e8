"""Reading requirement lists: files for ``pip install -r``, and the build requirements of a pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from channel_tools.model.errors import RequirementsError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

# pip: a comment begins at the start of a line or behind white space.
_COMMENT = re.compile(r"(^|\s)#.*$")
_INCLUDE = re.compile(r"(?:-r|--requirement)[ =]?\s*(\S+)")


@dataclass(frozen=True)
class Asked:
    """What one release asks for under one name: all its lines together.

    ``name`` is pip's, in its normal form (lower case, ``-``). ``range`` is PEP 440, all lines joined; it is
    empty for any version. ``where`` has file and line of each. ``address`` is that of a requirement by URL.
    """

    name: str
    range: str
    extras: tuple[str, ...]
    where: tuple[str, ...]
    address: str | None = None


def marker_environment(python: str) -> dict[str, str]:
    """Values of the environment markers (PEP 508) for CPython ``X.Y`` on linux x86_64."""
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
        "extra": "",
    }


def read_lists(
    files: Mapping[str, str], names: Iterable[str], python: str, apart: Iterable[str] = ()
) -> tuple[Asked, ...]:
    """What the lists of these names ask for with that Python, sorted by name.

    :param files: text of every file of the source distribution that may be a list, by its path there
    :param names: paths to read; a file that one of them includes is read as well, unless it is of ``apart``
    :raises RequirementsError: a line that is no requirement, or a file that is not there
    """
    from packaging.utils import canonicalize_name

    environment: dict[str, str | frozenset[str]] = dict(marker_environment(python))
    lines: dict[str, list[tuple[str, Requirement]]] = {}
    for where, requirement in _lines(files, list(names), set(apart)):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            lines.setdefault(canonicalize_name(requirement.name), []).append((where, requirement))
    return tuple(_join(name, found) for name, found in sorted(lines.items()))


def _join(name: str, found: list[tuple[str, Requirement]]) -> Asked:
    from packaging.specifiers import SpecifierSet

    together = SpecifierSet()
    for _, requirement in found:
        together &= requirement.specifier
    return Asked(
        name=name,
        range=str(together),
        extras=tuple(sorted({extra for _, requirement in found for extra in requirement.extras})),
        where=tuple(where for where, _ in found),
        address=next((requirement.url for _, requirement in found if requirement.url), None),
    )


def _lines(files: Mapping[str, str], names: list[str], apart: set[str]) -> Iterator[tuple[str, Requirement]]:
    queue, seen = list(names), {*names, *apart}
    while queue:
        name = queue.pop(0)
        if name not in files:
            raise RequirementsError(
                "the source distribution has no such list",
                where=name,
                found=", ".join(sorted(files)) or "no list at all",
                fix="correct [files] in the recipe's requirements.toml",
            )
        for number, text in _entries(name, files[name]):
            where = f"{name}:{number}"
            included = _INCLUDE.fullmatch(text)
            if included:
                path = _beside(name, included[1])
                queue += [] if path in seen else [path]
                seen.add(path)
            elif not text.startswith("-"):
                yield where, _requirement(where, text)


def _entries(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Line number and text of each entry."""
    if name.endswith(".toml"):
        try:
            listed = tomllib.loads(text).get("build-system", {}).get("requires", [])
        except tomllib.TOMLDecodeError as error:
            raise RequirementsError("is no TOML", where=name, found=str(error)) from error
        lines = text.splitlines()
        for entry in listed:
            yield next((i for i, line in enumerate(lines, 1) if f'"{entry}"' in line), 1), str(entry)
        return
    pending, start = "", 1
    for number, line in enumerate(text.splitlines(), 1):
        start = start if pending else number
        pending += line.removesuffix("\\")
        if not line.endswith("\\"):
            entry = _COMMENT.sub("", pending).strip()
            pending = ""
            if entry:
                yield start, entry


def _requirement(where: str, text: str) -> Requirement:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise RequirementsError(
            "a line is no requirement",
            where=where,
            found=text,
            wanted=f"NAME RANGE; MARKER (PEP 508): {str(error).splitlines()[0]}",
        ) from error


def _beside(name: str, other: str) -> str:
    """Path in the source distribution of a file named from within another one."""
    parts = name.split("/")[:-1]
    for part in other.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
