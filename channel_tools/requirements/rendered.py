"""A recipe as rendered, section by section, for each stack and Python of the matrix."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from channel_tools.build.nodes import spec_name
from channel_tools.model.errors import RecipeError
from channel_tools.model.matrix import Matrix
from channel_tools.model.recipe import RenderedRecipe, render
from channel_tools.requirements.data_file import Role

SECTIONS: Mapping[Role, tuple[str, ...]] = {"build": ("build", "host"), "run": ("run",)}


@dataclass(frozen=True)
class Spec:
    """One requirement of a recipe: ``name`` and ``range`` (conda, empty for any), and its section."""

    name: str
    range: str
    section: str


@dataclass(frozen=True)
class Rendered:
    """One output of a recipe. ``archive`` (a file name), ``sha256`` and public ``urls``: its first source.

    ``imports`` are the modules that its tests import, ``licences`` files of that source, ``patches`` for it.
    """

    package: str
    version: str
    archive: str
    sha256: str
    urls: tuple[str, ...]
    patches: tuple[Path, ...]
    specs: tuple[Spec, ...]
    imports: tuple[str, ...]
    licences: tuple[str, ...]
    variant: Mapping[str, str]

    def of(self, role: Role) -> tuple[Spec, ...]:
        return tuple(spec for spec in self.specs if spec.section in SECTIONS[role])

    @property
    def python(self) -> str | None:
        return self.variant.get("python")


def render_outputs(folder: Path, matrix: Matrix) -> list[Rendered]:
    """Every output of one recipe over the matrix.

    :raises RecipeError: it does not render, or its first source is no archive with a sha256
    """
    return [_output(one) for one in render(folder, matrix)]


def _output(output: RenderedRecipe) -> Rendered:
    recipe, folder = output.data, output.folder
    given = recipe.get("source") or []
    sources = given if isinstance(given, list) else [given]
    source = sources[0] if sources else {}
    if "url" not in source or "sha256" not in source:
        raise RecipeError("its first source is no archive with a sha256", where=folder / "recipe.yaml")
    urls = [source["url"]] if isinstance(source["url"], str) else source["url"]
    requirements = recipe.get("requirements", {})
    other_folders = tuple(f"{other['target_directory']}/" for other in sources if "target_directory" in other)
    licences = recipe.get("about", {}).get("license_file") or []
    licences = [licences] if isinstance(licences, str) else licences
    return Rendered(
        package=output.name,
        version=output.version,
        archive=posixpath.basename(urlsplit(urls[-1]).path),
        sha256=str(source["sha256"]),
        urls=tuple(urls[1:] or urls),  # the first of several is the mirror
        patches=tuple(folder / patch for patch in source.get("patches", [])),
        specs=tuple(
            _spec(entry, section)
            for section in ("build", "host", "run")
            for entry in requirements.get(section, [])
            if isinstance(entry, str)
        ),
        imports=tuple(
            name for test in recipe.get("tests", []) for name in test.get("python", {}).get("imports", [])
        ),
        licences=tuple(name for name in licences if not name.startswith(other_folders)),
        variant=output.variant,
    )


def _spec(text: str, section: str) -> Spec:
    """A match spec ``NAME``, ``NAME RANGE`` or ``NAME RANGE BUILD``; ranges hold no spaces in our recipes."""
    name = spec_name(text)
    return Spec(name, (text.removeprefix(name).split() or [""])[0], section)
