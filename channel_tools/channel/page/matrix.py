"""The tables of the channel page: package by arch and ROCm release, a place for each Python in a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from channel_tools.channel.page.builds import Build, Variant


@dataclass(frozen=True)
class Place:
    """One package for one variant.

    :param shown: the newest build that is not yanked
    :param yanked: yanked builds that a client would otherwise prefer to ``shown``
    :param behind: another variant of the same ROCm release has a newer one
    """

    variant: Variant
    shown: Build | None = None
    yanked: tuple[Build, ...] = ()
    behind: bool = False

    @property
    def builds(self) -> tuple[Build, ...]:
        return (*((self.shown,) if self.shown else ()), *self.yanked)


@dataclass(frozen=True)
class Row:
    """One package: the places of each column, and the builds that none of them shows, newest first."""

    name: str
    cells: tuple[tuple[Place, ...], ...]
    older: tuple[Build, ...]

    @property
    def variants(self) -> frozenset[Variant]:
        placed = (place.variant for cell in self.cells for place in cell)
        return frozenset(placed) | {build.variant for build in self.older}

    @property
    def archs(self) -> list[str]:
        """Archs that it has any build for; none for a package without GPU code."""
        return sorted({variant.arch for variant in self.variants if variant.arch})

    @property
    def releases(self) -> list[str]:
        return sorted({variant.rocm for variant in self.variants if variant.rocm})

    @property
    def older_yanked(self) -> int:
        return sum(build.yank is not None for build in self.older)


@dataclass(frozen=True)
class Table:
    """Packages of one kind. ``columns`` are the pairs of arch and ROCm release that occur."""

    columns: tuple[Variant, ...]
    rows: tuple[Row, ...]


def tables(builds: Iterable[Build]) -> tuple[Table, Table]:
    """The table of packages with GPU code, and that of the others."""
    by_name: dict[str, list[Build]] = {}
    for build in builds:
        if not build.selects:
            by_name.setdefault(build.name, []).append(build)
    with_code = {name for name, found in by_name.items() if any(b.variant.arch for b in found)}
    return (
        _table({name: found for name, found in by_name.items() if name in with_code}),
        _table({name: found for name, found in by_name.items() if name not in with_code}),
    )


def _column(variant: Variant) -> Variant:
    return replace(variant, python=None)


def _table(by_name: dict[str, list[Build]]) -> Table:
    occurring = {_column(build.variant) for builds in by_name.values() for build in builds}
    columns = tuple(sorted(occurring, key=lambda variant: variant.order))
    return Table(columns, tuple(_row(name, columns, by_name[name]) for name in sorted(by_name)))


def _row(name: str, columns: Sequence[Variant], builds: list[Build]) -> Row:
    newest_first = sorted(builds, key=lambda build: build.age_key, reverse=True)
    by_variant: dict[Variant, list[Build]] = {}
    for build in newest_first:
        by_variant.setdefault(build.variant, []).append(build)
    places = [_place(variant, found) for variant, found in by_variant.items()]
    newest: dict[str | None, tuple[Any, ...]] = {}
    for place in places:
        if place.shown:
            rocm = place.variant.rocm
            newest[rocm] = max(newest.get(rocm, ()), place.shown.release_key)
    cells: dict[Variant, list[Place]] = {column: [] for column in columns}
    for place in sorted(places, key=lambda place: place.variant.order):
        behind = bool(place.shown and place.shown.release_key < newest[place.variant.rocm])
        cells[_column(place.variant)].append(replace(place, behind=behind))
    shown = {build.key for place in places for build in place.builds}
    older = tuple(build for build in newest_first if build.key not in shown)
    return Row(name, tuple(tuple(cells[column]) for column in columns), older)


def _place(variant: Variant, newest_first: Sequence[Build]) -> Place:
    yanked: list[Build] = []
    for build in newest_first:
        if build.yank is None:
            return Place(variant, build, tuple(yanked))
        yanked.append(build)
    return Place(variant, None, tuple(yanked))
