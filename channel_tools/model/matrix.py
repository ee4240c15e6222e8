"""Reading ``variants/``: the matrix of GPU archs, ROCm releases, versions and compilers.

The files are conda-build's variant files. Their rules here are narrower than conda-build's own, since what
it reads differently from rattler-build, or drops without a word, must not get as far as a build: block
lists only, quoted values, no selectors.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.model import arch
from channel_tools.model.errors import MatrixError

ZIP_KEYS = "zip_keys"
NAME = re.compile(r"^[a-z][a-z0-9_]*$")
# conda-build takes any line that ends in [...] for a line with a selector, and drops it (metadata.sel_pat).
SELECTOR = re.compile(r"^\s*[^#\s].*\[[^\]]*\](?:\s*#.*)?\s*$|#\s*\[[^\]]*\]\s*$")

Variant = Mapping[str, str]


@dataclass(frozen=True)
class Matrix:
    """The variants that the recipes are built for.

    ``values`` has the list of each key; keys of one group of ``zip_groups`` advance together.
    """

    path: Path
    values: Mapping[str, tuple[str, ...]]
    zip_groups: tuple[tuple[str, ...], ...]

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.values)

    def groups(self) -> list[tuple[str, ...]]:
        """Zip groups first, then every other key as a group of its own, in file order."""
        zipped = {key for group in self.zip_groups for key in group}
        return [*self.zip_groups, *((key,) for key in self.values if key not in zipped)]

    def rows(self) -> list[dict[str, str]]:
        """Every combination as a dictionary of key to value, in file order."""
        axes = [
            [
                dict(zip(group, column, strict=True))
                for column in zip(*(self.values[k] for k in group), strict=True)
            ]
            for group in self.groups()
        ]
        return [{k: v for part in combo for k, v in part.items()} for combo in itertools.product(*axes)]

    def restricted(self, chosen: Mapping[str, Iterable[str]]) -> Matrix:
        """The part of the matrix in which each key of ``chosen`` has one of the values given for it.

        :raises MatrixError: a key or a value that the matrix does not have
        """
        values = dict(self.values)
        for key, wanted in chosen.items():
            wanted = list(wanted)
            if key not in values:
                raise MatrixError(f"no key {key!r} in the matrix", where=self.path, wanted=", ".join(values))
            missing = [value for value in wanted if value not in self.values[key]]
            if missing:
                raise MatrixError(
                    f"{key} {', '.join(missing)} is not in the matrix",
                    where=self.path,
                    wanted=" or ".join(self.values[key]),
                    fix=f"choose one of those, or add it to {self.path.name}",
                )
            group = next((g for g in self.zip_groups if key in g), (key,))
            keep = [i for i, value in enumerate(values[key]) if value in wanted]
            for member in group:
                values[member] = tuple(values[member][i] for i in keep)
            if not keep:
                raise MatrixError(
                    f"no variant is left with {key} {', '.join(wanted)}",
                    where=self.path,
                    fix="its zip group does not have that combination",
                )
        return Matrix(self.path, values, self.zip_groups)

    def overridden(self, fixed: Mapping[str, str]) -> Matrix:
        """The matrix with single values put in the place of whole lists; zipped keys keep their length."""
        values = dict(self.values)
        for key, value in fixed.items():
            values[key] = (value,) * (len(values[key]) if any(key in g for g in self.zip_groups) else 1)
        return Matrix(self.path, values, self.zip_groups)


def read_matrix(path: Path) -> Matrix:
    """Read and check the whole matrix.

    :raises MatrixError: with file and line, at the first thing that an engine would misread, that is of
        unequal length in a zip group, or that is no GPU target with its ISA version
    """
    data = _load(path)
    lines = data.lc
    values = {key: _values(path, data, key) for key in data if key != ZIP_KEYS}
    groups = _zip_groups(path, data)
    for group in groups:
        _check_zip_group(path, data, values, group)
    for key, listed in values.items():
        doubled = sorted({value for value in listed if listed.count(value) > 1})
        if doubled and not any(key in group for group in groups):
            raise MatrixError(f"{key} lists {doubled[0]!r} twice", where=_at(path, lines.key(key)[0]))
    _check_archs(path, data, values)
    return Matrix(path, values, groups)


def read_subset(path: Path, matrix: Matrix) -> tuple[str, tuple[str, ...]]:
    """Read a file that selects a part of the matrix: one key with some of its values.

    :returns: the key and its values
    :raises MatrixError: with file and line
    """
    data = _load(path)
    if len(data) != 1:
        raise MatrixError("a subset file holds one key", where=path, found=", ".join(data) or "nothing")
    key = next(iter(data))
    values = _values(path, data, key)
    known = matrix.values.get(key)
    if known is None:
        raise MatrixError(f"no key {key!r} in {matrix.path.name}", where=_at(path, data.lc.key(key)[0]))
    for index, value in enumerate(values):
        if value not in known:
            raise MatrixError(
                f"{key} has no value {value!r} in {matrix.path.name}",
                where=_at(path, data[key].lc.item(index)[0]),
                wanted=" or ".join(known),
            )
    return key, values


def check_subsets(matrix: Matrix) -> list[Path]:
    """Check every other ``*.yaml`` beside the matrix; returns their paths.

    :raises MatrixError: with file and line
    """
    paths = sorted(p for p in matrix.path.parent.glob("*.yaml") if p.name != matrix.path.name)
    for path in paths:
        read_subset(path, matrix)
    return paths


def _at(path: Path, line: int) -> str:
    """``file:line`` from a zero-based line."""
    return f"{path}:{line + 1}"


def _load(path: Path) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import MarkedYAMLError

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise MatrixError(f"cannot be read: {error.strerror}", where=path) from error
    for number, line in enumerate(text.splitlines()):
        if SELECTOR.search(line):
            raise MatrixError(
                "conda-build takes a line that ends in [...] for a selector and drops it without a word",
                where=_at(path, number),
                found=line.strip(),
                fix='write a block list: one `- "value"` a line, no selectors',
            )
    try:
        yaml = YAML(typ="rt")
        yaml.preserve_quotes = True
        data = yaml.load(text)
    except MarkedYAMLError as error:
        problem_line = error.problem_mark.line if error.problem_mark else 0
        raise MatrixError(f"not YAML: {error.problem}", where=_at(path, problem_line)) from error
    if not isinstance(data, CommentedMap):
        raise MatrixError("not a mapping of keys to lists", where=path)
    for key in data:
        if not isinstance(key, str) or not NAME.match(key):
            raise MatrixError(
                f"key {key!r} cannot be a variable of a build script",
                where=_at(path, data.lc.key(key)[0]),
                fix="use lower-case letters, digits and _",
            )
    return data


def _values(path: Path, data: Any, key: str) -> tuple[str, ...]:
    from ruamel.yaml.comments import CommentedSeq
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString

    listed = data[key]
    line = data.lc.key(key)[0]
    if not isinstance(listed, CommentedSeq) or not listed:
        raise MatrixError(f"{key} is not a list of values", where=_at(path, line))
    if listed.fa.flow_style():
        raise MatrixError(
            f"{key} is a flow-style list, which conda-build drops without a word",
            where=_at(path, line),
            fix='write a block list: one `- "value"` a line',
        )
    for index, value in enumerate(listed):
        if not isinstance(value, DoubleQuotedScalarString | SingleQuotedScalarString):
            raise MatrixError(
                f"a value of {key} is not quoted",
                where=_at(path, listed.lc.item(index)[0]),
                found=str(value),
                fix=f'write "{value}": unquoted, 7.0 and 7.10 are numbers, and engines differ',
            )
    return tuple(str(value) for value in listed)


def _zip_groups(path: Path, data: Any) -> tuple[tuple[str, ...], ...]:
    from ruamel.yaml.comments import CommentedSeq

    groups = data.get(ZIP_KEYS, [])
    seen: set[str] = set()
    for index, group in enumerate(groups):
        line = groups.lc.item(index)[0]
        if not isinstance(group, CommentedSeq) or len(group) < 2:
            raise MatrixError(
                "an entry of zip_keys is not a list of two or more keys",
                where=_at(path, line),
                fix="write `-` alone on a line, and its keys as a block list below it",
            )
        for position, key in enumerate(group):
            line = group.lc.item(position)[0]
            if key not in data:
                raise MatrixError(f"zip_keys names {key!r}, which has no values", where=_at(path, line))
            if key in seen:
                raise MatrixError(f"zip_keys names {key!r} twice", where=_at(path, line))
            seen.add(key)
    return tuple(tuple(str(key) for key in group) for group in groups)


def _check_zip_group(
    path: Path, data: Any, values: Mapping[str, tuple[str, ...]], group: tuple[str, ...]
) -> None:
    length = len(values[group[0]])
    for key in group[1:]:
        if len(values[key]) != length:
            raise MatrixError(
                f"{key} is zipped with {group[0]}, and their lists differ in length",
                where=_at(path, data.lc.key(key)[0]),
                found=f"{len(values[key])} values ({', '.join(values[key])})",
                wanted=f"{length}, one for each of {', '.join(values[group[0]])}",
            )


def _check_archs(path: Path, data: Any, values: Mapping[str, tuple[str, ...]]) -> None:
    targets = values.get("rocm_arch", ())
    isas = values.get("rocm_isa", ())
    for index, target in enumerate(targets):
        known = arch.lookup(target)
        if known is None:
            raise MatrixError(
                f"{target} is no AMD GPU target",
                where=_at(path, data["rocm_arch"].lc.item(index)[0]),
                wanted="one of " + ", ".join(arch.known_targets()),
            )
        if index < len(isas) and isas[index] != known.isa:
            raise MatrixError(
                f"{isas[index]} is not the ISA version of {target}",
                where=_at(path, data["rocm_isa"].lc.item(index)[0]),
                wanted=f"{known.isa} (three decimal numbers, as __amdgpu_arch spells it)",
            )
