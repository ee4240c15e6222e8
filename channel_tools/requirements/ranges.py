"""Whether a range of pip and a range of conda allow the same versions.

pip's ranges are PEP 440 (``==0.11.3``, ``!=6.30.*``, ``~=1.2``), conda's are those of match specs
(``0.11.3.*``, ``>=1,<2``). The library of each installer is asked at every version where one of the two may
change its answer, so no rule of either is written down here. Pre-releases are not looked at: conda and pip
sort them in different ways, and no recipe here takes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_RELEASE = re.compile(r"\d+(?:\.\d+)*")
# With the label of a local build, as 3.7.1+git0263a6a6.
_WHOLE = re.compile(r"\d+(?:\.\d+)*(?:\.post\d+)?(?:\+[A-Za-z0-9.]+)?")
_ANYTHING = "*"


@dataclass(frozen=True)
class RangeDifference:
    """``refused``: a version that the recipe allows and upstream refuses. ``missed``: the other way round.

    ``impossible``: upstream's range allows no version at all, as two lists that contradict each other do.
    """

    refused: str | None
    missed: str | None
    impossible: bool = False

    @property
    def words(self) -> str:
        if self.impossible:
            return "upstream's lists together allow no version"
        parts = []
        if self.refused:
            parts.append(f"allows {self.refused}, which upstream does not")
        if self.missed:
            parts.append(f"refuses {self.missed}, which upstream allows")
        return f"the recipe {' and '.join(parts)}"


def compare_ranges(asked: str, taken: str) -> RangeDifference | None:
    """Compare a PEP 440 range with a conda range; empty text allows everything. ``None``: they are equal.

    :raises ValueError: text that is no range
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from rattler import Version, VersionSpec

    try:
        upstream = SpecifierSet(asked)
    except InvalidSpecifier as error:
        raise ValueError(str(error)) from error
    try:
        recipe = VersionSpec(taken or _ANYTHING)
    except Exception as error:
        raise ValueError(f"{taken!r} is no range of versions: {error}") from error
    refused = missed = None
    impossible = True
    for version in _versions(asked, taken):
        upstream_allows = upstream.contains(version, prereleases=True)
        recipe_allows = recipe.matches(Version(version))
        impossible = impossible and not upstream_allows
        if recipe_allows and not upstream_allows:
            refused = refused or version
        if upstream_allows and not recipe_allows:
            missed = missed or version
    return RangeDifference(refused, missed, impossible) if refused or missed else None


def _versions(*ranges: str) -> list[str]:
    """Every version at which one of the ranges may begin or end, and one just above each, in order."""
    named = {match for text in ranges for match in _RELEASE.findall(text)}
    edges = {"0", *named, *(edge for version in named for edge in _successors(version))}
    both = {*edges, *(f"{edge}.0.0.1" for edge in edges)}
    written = {match for text in ranges for match in _WHOLE.findall(text)} - both
    return [*sorted(both, key=lambda version: [int(part) for part in version.split(".")]), *sorted(written)]


def _successors(version: str) -> Iterator[str]:
    """Where ``==1.2.*`` and ``~=1.2.3`` end: 1.3 of 1.2.3, and 2."""
    parts = [int(part) for part in version.split(".")]
    for length in range(1, len(parts) + 1):
        yield ".".join(str(part) for part in (*parts[: length - 1], parts[length - 1] + 1))
