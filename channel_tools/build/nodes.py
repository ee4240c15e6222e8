"""Recipes times variants: what there is to build, and what each build needs.

Rendering is rattler-build's own. It gives the distinct outputs of a recipe over the whole matrix, their
build strings with hashes, and the requirements, without solving anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.model.errors import RecipeError
from channel_tools.model.matrix import Matrix
from channel_tools.model.recipe import render


@dataclass(frozen=True)
class Node:
    """One package that one build makes.

    ``variant`` holds the matrix keys that the recipe uses, ``row`` a whole combination of the matrix with
    them, ``requires`` the specs of its build, host and run requirements as rendered, ``needs`` the stems of
    the other nodes among them, ``folders`` the local sources that lie outside of the recipe's own folder.
    """

    package: str
    version: str
    build: str
    build_number: int
    recipe: Path
    variant: Mapping[str, str]
    row: Mapping[str, str]
    requires: tuple[str, ...]
    needs: tuple[str, ...]
    memory_per_job_mib: int | None
    folders: tuple[Path, ...] = ()

    @property
    def stem(self) -> str:
        """File name of the package without its suffix."""
        return f"{self.package}-{self.version}-{self.build}"

    @property
    def declared(self) -> bool:
        """A build that says what a host has instead of finding it there; it belongs in label channels."""
        return self.variant.get("selection") == "declared"

    @property
    def detected(self) -> bool:
        """A build that only installs where the client finds what it names."""
        return self.variant.get("selection") == "detected"


def render_recipe(folder: Path, matrix: Matrix) -> list[Node]:
    """All outputs of one recipe over the matrix, without ``needs``.

    :raises RecipeError: with the recipe's path and the engine's words
    """
    rows = matrix.rows()
    nodes = []
    for output in render(folder, matrix):
        memory = output.data.get("context", {}).get("memory_per_job_mib")
        nodes.append(
            Node(
                package=output.name,
                version=output.version,
                build=output.build,
                build_number=int(output.data["build"].get("number", 0)),
                recipe=folder,
                variant=output.variant,
                row=next(row for row in rows if output.variant.items() <= row.items()),
                requires=tuple(_requirements(output.data.get("requirements", {}))),
                needs=(),
                memory_per_job_mib=None if memory is None else int(memory),
                folders=tuple(_folders(folder, output.data.get("source", []))),
            )
        )
    return nodes


def render_all(folders: Iterable[Path], matrix: Matrix) -> list[Node]:
    """All outputs of all recipes in the order in which they can be built.

    :raises RecipeError: a recipe does not render, or recipes need each other in a circle
    """
    import graphlib
    from dataclasses import replace

    nodes = [node for folder in folders for node in render_recipe(folder, matrix)]
    by_name: dict[str, list[Node]] = {}
    for node in nodes:
        by_name.setdefault(node.package, []).append(node)
    linked = {}
    for node in nodes:
        names = {spec_name(spec) for spec in node.requires} - {node.package}
        needs = [
            other.stem
            for name in sorted(names)
            for other in by_name.get(name, [])
            if _same_variant(node.row, node.variant, other.variant)
        ]
        linked[node.stem] = replace(node, needs=tuple(needs))
    try:
        order = graphlib.TopologicalSorter({s: n.needs for s, n in linked.items()}).static_order()
        return [linked[stem] for stem in order]
    except graphlib.CycleError as error:
        raise RecipeError("recipes need each other in a circle: " + " -> ".join(error.args[1])) from error


def spec_name(spec: str) -> str:
    """Name part of a match spec: ``rocm-userspace`` of ``rocm-userspace 7.2.*``."""
    return re.split(r"[\s=<>!~\[]", spec.strip().split("::")[-1], maxsplit=1)[0]


def _same_variant(row: Mapping[str, str], used: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether a node may be built with another one: no key that both use differs.

    Keys that only the other one uses follow the node's row when they are zipped with one that the node
    uses, so that a package that names Triton's version takes the row's ROCm release.
    """
    return all(used[key] == value for key, value in other.items() if key in used) and all(
        row[key] == value for key, value in other.items() if key not in used and key != "selection"
    )


def _folders(recipe: Path, sources: Any) -> Iterable[Path]:
    for source in sources if isinstance(sources, list) else [sources]:
        if "path" in source:
            folder = (recipe / source["path"]).resolve()
            if not folder.is_relative_to(recipe.resolve()):
                yield folder


def _requirements(requirements: Mapping[str, Any]) -> Iterable[str]:
    for section in ("build", "host", "run"):
        for entry in requirements.get(section, []):
            yield entry if isinstance(entry, str) else _pin_name(entry)


def _pin_name(entry: Any) -> str:
    """Name that a ``pin_subpackage``, ``pin_compatible`` or ``compiler`` entry stands for."""
    kind, value = next(iter(entry.items()))
    return str(value.get("name", kind)) if isinstance(value, Mapping) else str(value)
