"""The whole matrix or nothing.

A release for one arch alone leaves the users of the other on the old version without a word. So for each
ROCm release of ``variants/``, every arch and every Python must be there at the same version and build
number, in the release or in the channel already, or be named in ``--allow-missing``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from channel_tools.channel.publishing.checks.builds import Build, python_word, rocm_word
from channel_tools.channel.publishing.checks.reasons import Candidate, Reason
from channel_tools.model.matrix import Matrix

_PART = re.compile(r"(?P<arch>gfx[0-9a-f]{3,})|rocm(?P<rocm>\d[\d.]*)|py(?P<python>\d[\d.]*)")


@dataclass(frozen=True, order=True)
class Cell:
    """A place in the matrix, in words of build strings; None along an axis that the package is not on."""

    rocm: str | None
    arch: str | None
    python: str | None

    def __str__(self) -> str:
        return " ".join(part for part in (self.rocm, self.arch, self.python) if part)


@dataclass(frozen=True)
class Allowed:
    """One ``--allow-missing``: ``[NAME:]PART[/PART...]``, or ``NAME`` for all of a package.

    A part is an arch (``gfx90a``), a ROCm release (``rocm7.0``) or a Python (``py3.12``):
    ``vllm-rocm:rocm7.0/gfx90a`` allows that one place, ``gfx90a`` that arch of every package.
    """

    name: str | None
    cell: Cell

    def fits(self, name: str, cell: Cell) -> bool:
        pairs = zip(_values(self.cell), _values(cell), strict=True)
        return self.name in (None, name) and all(wanted in (None, there) for wanted, there in pairs)


def parse_allowed(text: str) -> Allowed:
    """Read one ``--allow-missing``.

    :raises ValueError: it is not of that form
    """
    name, colon, parts = text.rpartition(":")
    if not colon and not _PART.fullmatch(text.split("/")[0]):
        return Allowed(text, Cell(None, None, None))
    found: dict[str, str] = {}
    for part in parts.split("/"):
        match = _PART.fullmatch(part)
        kind = match.lastgroup if match else None
        if match is None or kind is None or kind in found:
            raise ValueError(
                f"--allow-missing {text}: '{part}' is no GPU target (gfx90a), ROCm release (rocm7.0) or "
                "Python (py3.12)"
            )
        found[kind] = match[kind]
    return Allowed(
        name or None,
        Cell(
            rocm_word(found["rocm"]) if "rocm" in found else None,
            found.get("arch"),
            python_word(found["python"]) if "python" in found else None,
        ),
    )


def whole_matrix(candidate: Candidate) -> Iterator[Reason]:
    """See the module's docstring. Declared builds and the packages that select are not in the matrix."""
    allowed = []
    for text in candidate.allow_missing:
        try:
            allowed.append(parse_allowed(text))
        except ValueError as error:
            yield Reason("allow-missing", "the command line", str(error))
    names = sorted({b.name for b in candidate.builds if not b.selects and (b.arch or b.python)})
    for name in names:
        missing: dict[tuple[str, int], list[Cell]] = {}
        yield from _unknown(candidate, name)
        for version, number, cell in _missing(candidate, name):
            if not any(entry.fits(name, cell) for entry in allowed):
                missing.setdefault((version, number), []).append(cell)
        for (version, number), cells in missing.items():
            yield Reason(
                "partial",
                f"{name} {version} build {number}",
                "is not there for every GPU arch, ROCm release and Python of the matrix",
                found="no build for " + "; ".join(str(cell) for cell in sorted(cells, key=str)),
                wanted="all of them at one version and build number: who has what is missing would stay "
                "on the old version without a word",
                fix="publish them together, or name what is missing: "
                + " ".join(f"--allow-missing {name}:{_as_option(cell, candidate.matrix)}" for cell in cells),
            )


def _missing(candidate: Candidate, name: str) -> Iterator[tuple[str, int, Cell]]:
    """Places of the matrix that have no build: with the version and the build number that they lack."""
    ours = [b for b in candidate.builds if b.name == name]
    there: dict[tuple[str, int], set[Cell]] = {}
    for build in candidate.by_name[name]:
        there.setdefault((build.version, build.number), set()).add(_cell(build))
    sample = ours[0]
    for version, number in sorted({(b.version, b.number) for b in ours}):
        releases = {b.rocm for b in ours if (b.version, b.number) == (version, number)}
        for cell in _cells(candidate.matrix, sample):
            if cell.rocm in releases and cell not in there[version, number]:
                yield version, number, cell
    published = {b.rocm for b in ours}
    for cell in _cells(candidate.matrix, sample):
        if cell.rocm not in published:
            wanted = _wanted(candidate.matrix, name, ours, there, str(cell.rocm))
            if wanted and cell not in there.get(wanted, set()):
                yield *wanted, cell


def _wanted(
    matrix: Matrix,
    name: str,
    ours: list[Build],
    there: Mapping[tuple[str, int], set[Cell]],
    rocm: str,
) -> tuple[str, int] | None:
    """Version and build number that a ROCm release must have which the release at hand leaves out.

    Where the matrix has a key for the package's version (``vllm_version`` for ``vllm-rocm``), or the version
    is the ROCm release's own, each ROCm release has its own, and its newest build number counts. Else all
    have the same version and number.
    """
    newest = max(ours, key=lambda build: build.number)
    key = name.removesuffix("-rocm").replace("-", "_") + "_version"
    if key not in next((group for group in matrix.zip_groups if "rocm_version" in group), ()):
        key = "rocm_version"
    columns = dict(zip(map(rocm_word, matrix.values["rocm_version"]), matrix.values[key], strict=True))
    if rocm not in columns:
        return None
    if columns.get(str(newest.rocm)) != newest.version:
        # Of one version for all, or, where there is a key, of another time than the matrix.
        return (newest.version, newest.number) if key == "rocm_version" else None
    version = columns[rocm]
    if version == newest.version:
        return newest.version, newest.number
    numbers = [n for (v, n), cells in there.items() if v == version and any(c.rocm == rocm for c in cells)]
    return version, max(numbers, default=newest.number)


def _unknown(candidate: Candidate, name: str) -> Iterator[Reason]:
    """Builds for what the matrix does not have: nothing can be said of what is missing beside them."""
    rows = candidate.matrix.rows()
    axes = {
        "rocm": {rocm_word(row["rocm_version"]) for row in rows if "rocm_version" in row},
        "arch": {row["rocm_arch"] for row in rows if "rocm_arch" in row},
        "python": {python_word(row["python"]) for row in rows if "python" in row},
    }
    for build in candidate.builds:
        if build.name != name:
            continue
        strange = [
            value
            for value, axis in zip(_values(_cell(build)), axes.values(), strict=True)
            if value and value not in axis
        ]
        if strange:
            yield Reason(
                "partial",
                build.where,
                f"is for {' '.join(strange)}, which the matrix does not have",
                wanted="; ".join(", ".join(sorted(axis)) for axis in axes.values() if axis),
                fix=f"publish from a checkout whose {candidate.matrix.path.name} has it",
            )


def _cells(matrix: Matrix, sample: Build) -> list[Cell]:
    """Every place of the matrix, along the axes that the package's build strings name."""
    return sorted(
        {
            Cell(
                rocm_word(row["rocm_version"]) if sample.rocm and "rocm_version" in row else None,
                row.get("rocm_arch") if sample.arch else None,
                python_word(row["python"]) if sample.python and "python" in row else None,
            )
            for row in matrix.rows()
        },
        key=str,
    )


def _cell(build: Build) -> Cell:
    return Cell(build.rocm, build.arch, build.python)


def _values(cell: Cell) -> tuple[str | None, ...]:
    return (cell.rocm, cell.arch, cell.python)


def _as_option(cell: Cell, matrix: Matrix) -> str:
    """A place as ``--allow-missing`` takes it; releases with their dots, as the matrix has them."""
    releases = {rocm_word(release): f"rocm{release}" for release in matrix.values.get("rocm_version", ())}
    pythons = {python_word(version): f"py{version}" for version in matrix.values.get("python", ())}
    parts = (releases.get(str(cell.rocm)), cell.arch, pythons.get(str(cell.python)))
    return "/".join(part for part in parts if part)
