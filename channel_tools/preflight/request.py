"""What to configure: a recipe for one variant, and what is changed for a try."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from channel_tools.build.toolchain import SDK_MARKER
from channel_tools.model.errors import PreflightError
from channel_tools.model.matrix import Matrix
from channel_tools.model.project import Project
from channel_tools.model.recipe import render
from channel_tools.preflight.data import read_data
from channel_tools.sources.needed import Output, recipe_outputs


@dataclass(frozen=True)
class Request:
    """What to configure.

    ``row`` is one combination of the matrix, ``rendered`` the recipe rendered for it, ``output`` its sources.
    ``source`` is a folder with the source, None: the recipe's own. ``engine`` changes what the build script
    gets, ``forced`` what CMake gets after it; the value None takes a variable away. ``keep`` is a new folder
    for all that is made, ``_configured`` in it CMake's; None: a temporary one.
    """

    project: Project
    output: Output
    row: Mapping[str, str]
    rendered: Mapping[str, Any]
    build_type: str
    rocm: Path
    python: Path
    source: Path | None = None
    engine: Mapping[str, str | None] = field(default_factory=dict)
    forced: Mapping[str, str | None] = field(default_factory=dict)
    cancel: threading.Event | None = None
    keep: Path | None = None

    @property
    def recipe(self) -> Path:
        return self.output.recipe

    @property
    def stem(self) -> str:
        return f"{self.output.stem}-{self.build_type}"


def recipe_settings(name: str) -> Mapping[str, Any]:
    """The entry of ``recipes.toml``.

    :raises PreflightError: the recipe cannot be configured ahead; says why
    """
    known = read_data("recipes")
    if name == "without" or name not in known:
        reason = known["without"].get(name)
        raise PreflightError(
            f"there is no preflight of {name}" + (f": {reason}" if reason else ""),
            where="channel_tools/preflight/recipes.toml",
            wanted=", ".join(key for key in known if key != "without"),
        )
    settings: Mapping[str, Any] = known[name]
    return settings


def requests(
    project: Project, name: str, matrix: Matrix, build_type: str, rocm: Path, python: Path, **more: Any
) -> list[Request]:
    """One request for each output of the recipe over the matrix.

    :raises PreflightError: the recipe cannot be configured ahead, or has no such build type
    :raises RecipeError: it does not render
    """
    settings = recipe_settings(name)
    if build_type not in settings["build_types"]:
        raise PreflightError(
            f"{name} is not built as {build_type}", wanted=" or ".join(settings["build_types"])
        )
    folder = project.recipes / name
    hip_sdk = "debian" if (rocm / SDK_MARKER).is_file() else "rocm"
    matrix = matrix.overridden({"toolchain": "host", "hip_sdk": hip_sdk})
    by_stem = {output.stem: output for output in recipe_outputs(folder, matrix)}
    found = []
    for one in render(folder, matrix):
        output = by_stem[one.stem]
        row = next(row for row in matrix.rows() if output.variant.items() <= row.items())
        found.append(Request(project, output, row, one.data, build_type, rocm, python, **more))
    return found
