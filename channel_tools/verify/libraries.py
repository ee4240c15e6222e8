"""Where shared libraries come from, and which symbol versions a dependency is sure to bring.

The tables are data, in ``libraries.toml``, with the source of each.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, Final

BASE: Final = "the C library"

_SPEC = re.compile(r"(?:[^\s:\[]+::?)?(?P<name>[A-Za-z0-9_.-]+?)(?P<rest>(?:[\s=<>!~\[].*)?)")
_BRACKET_VERSION = re.compile(r"\[.*version\s*=\s*(?P<quote>['\"]?)(?P<version>[^'\"\]]+)(?P=quote).*\]")
_LOWER = re.compile(r"(?:>=|>|==|=|~=)?\s*(?P<version>[0-9][0-9.]*)(?:\.\*|\*)?(?:[.a-z_+-].*)?")

Release = tuple[int, ...]


@dataclass(frozen=True)
class VersionFamily:
    """Symbol versions of one library: ``GLIBCXX`` of ``libstdc++.so.6``.

    ``packages`` bring the library; ``since`` has the release of theirs that brought each version, and is
    empty where the versions are the releases themselves.
    """

    library: str
    packages: tuple[str, ...]
    since: Mapping[str, Release]

    def release_of(self, version: str) -> Release | None:
        """The release that brought a version; None for a version newer than the table."""
        return self.since.get(version) if self.since else release(version)


@dataclass(frozen=True)
class LibraryTable:
    """``libraries.toml``. Patterns are shell patterns over library names."""

    base: tuple[str, ...]
    glibc: Release
    glibc_marks: Mapping[str, Release]
    rocm: tuple[str, ...]
    rocm_package: str
    numbered_by_hip: tuple[str, ...]
    packages: Mapping[str, tuple[str, ...]]
    requires: Mapping[str, tuple[str, ...]]
    families: Mapping[str, VersionFamily]

    def packages_with(self, library: str) -> tuple[str, ...]:
        """The packages that have a library, by name."""
        if matches(library, self.rocm):
            return (self.rocm_package,)
        return tuple(name for name, patterns in self.packages.items() if matches(library, patterns))

    def closure(self, names: Iterable[str]) -> frozenset[str]:
        """The packages and all that they require in turn."""
        found: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += self.requires.get(name, ())
        return frozenset(found)


@cache
def library_table() -> LibraryTable:
    """The table that comes with this package."""
    data = tomllib.loads(files(__package__).joinpath("libraries.toml").read_text(encoding="utf-8"))
    base, rocm, packages = data["base"], data["rocm"], data["packages"]
    return LibraryTable(
        base=tuple(base["libraries"]),
        glibc=release(base["glibc"]),
        glibc_marks={mark: release(since) for mark, since in base["marks"].items()},
        rocm=tuple(rocm["libraries"]),
        rocm_package=rocm["package"],
        numbered_by_hip=tuple(rocm["numbered_by_hip"]),
        packages={name: tuple(entry.get("libraries", ())) for name, entry in packages.items()},
        requires={name: tuple(entry.get("requires", ())) for name, entry in packages.items()},
        families={name: _family(entry) for name, entry in data["versions"].items()},
    )


def _family(entry: Mapping[str, Any]) -> VersionFamily:
    since = {version: release(first) for version, first in entry.get("since", {}).items()}
    return VersionFamily(entry["library"], tuple(entry["packages"]), since)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Does a name match one of the shell patterns?"""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def release(text: str) -> Release:
    """``"2.34"`` gives ``(2, 34)``; what is no number ends it."""
    numbers = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else ()


def spell(numbers: Release) -> str:
    return ".".join(map(str, numbers))


def spec_name(spec: str) -> str:
    """Package name of a match spec: ``libstdcxx >=11`` gives ``libstdcxx``."""
    match = _SPEC.fullmatch(spec.strip())
    return match["name"].lower() if match else spec.strip()


def lower_bound(depends: Iterable[str], names: Sequence[str]) -> Release | None:
    """The lowest release of packages of these names that match specs allow; None where they set none.

    ``libstdcxx >=11,<15`` gives ``(11,)``, ``libstdcxx >=11|>=9`` ``(9,)``.
    """
    bounds = [
        bound
        for spec in depends
        if spec_name(spec) in names
        for bound in [_spec_bound(spec)]
        if bound is not None
    ]
    return max(bounds, default=None)


def _spec_bound(spec: str) -> Release | None:
    match = _SPEC.fullmatch(spec.strip())
    rest = match["rest"].strip() if match else ""
    bracket = _BRACKET_VERSION.search(rest)
    text = bracket["version"] if bracket else re.sub(r"([<>=!~])\s+", r"\1", rest.partition("[")[0])
    words = text.split()  # a build string may follow
    bounds = [_alternative_bound(alternative) for alternative in words[0].split("|")] if words else []
    known = [bound for bound in bounds if bound is not None]
    return min(known) if known and len(known) == len(bounds) else None


def _alternative_bound(text: str) -> Release | None:
    bounds = [
        release(match["version"]) for part in text.split(",") if (match := _LOWER.fullmatch(part.strip()))
    ]
    return max(bounds, default=None)
