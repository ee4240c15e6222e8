"""The sources that recipes need, read from the recipes as rendered for the matrix. There is no other list."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from channel_tools.build.nodes import render_all
from channel_tools.model import environment
from channel_tools.model.errors import RecipeError
from channel_tools.model.matrix import Matrix
from channel_tools.model.project import Project
from channel_tools.model.recipe import render

# What the recipes put in the place of SOURCE_MIRROR where that is not set.
NO_MIRROR = "file:///no-source-mirror"
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Entry:
    """One entry of a recipe's ``source``: an archive by its sha256, or a folder beside the recipe.

    ``name`` is the file's name in a mirror, ``urls`` the public addresses; both are empty for a folder.
    ``file_name`` keeps the file as it is, under that name. Paths are relative to the recipe.
    """

    name: str
    sha256: str
    urls: tuple[str, ...]
    path: str | None
    target_directory: str
    file_name: str | None
    patches: tuple[str, ...]


@dataclass(frozen=True)
class Output:
    """One package of one recipe, with its ``source`` section as rendered."""

    package: str
    version: str
    stem: str
    recipe: Path
    variant: Mapping[str, str]
    entries: tuple[Entry, ...]

    def patch_files(self, entry: Entry) -> list[Path]:
        return [self.recipe / name for name in entry.patches]


@dataclass(frozen=True)
class Use:
    """A package that needs a source. ``variant`` holds the matrix keys that the package uses."""

    package: str
    version: str
    stem: str
    variant: Mapping[str, str]
    target_directory: str


@dataclass(frozen=True)
class Source:
    """One file: its name in a flat mirror, its sha256 in hex, the public addresses, and who needs it."""

    name: str
    sha256: str
    urls: tuple[str, ...]
    uses: tuple[Use, ...] = ()


def needed_sources(project: Project, matrix: Matrix, packages: Sequence[str] = ()) -> tuple[Source, ...]:
    """Sources of those packages and of all that they need, or of every recipe, sorted by name.

    :raises RecipeError: a recipe does not render, pins a source by no sha256, or no recipe has that name
    """
    return sources_of(outputs_for(project, matrix, packages))


def outputs_for(project: Project, matrix: Matrix, packages: Sequence[str] = ()) -> list[Output]:
    """Outputs of those packages and of all that they need, or of every recipe, in build order."""
    nodes = render_all(project.recipe_folders(), matrix)
    unknown = [package for package in packages if package not in {node.package for node in nodes}]
    if unknown:
        known = ", ".join(sorted({node.package for node in nodes}))
        raise RecipeError(f"no recipe {', '.join(unknown)}", wanted=f"one of {known}")
    needs = {node.stem: node.needs for node in nodes}
    queue = [node.stem for node in nodes if not packages or node.package in packages]
    wanted: set[str] = set()
    while queue:
        stem = queue.pop()
        if stem not in wanted:
            wanted.add(stem)
            queue += needs[stem]
    rendered = {
        output.stem: output
        for folder in {node.recipe for node in nodes if node.stem in wanted}
        for output in recipe_outputs(folder, matrix)
    }
    return [rendered[node.stem] for node in nodes if node.stem in wanted]


def recipe_outputs(folder: Path, matrix: Matrix) -> list[Output]:
    """Every output of one recipe over the matrix.

    :raises RecipeError: it does not render, or pins a source by no sha256
    """
    path = folder / "recipe.yaml"
    outputs = []
    for one in render(folder, matrix):
        section = one.data.get("source") or []
        outputs.append(
            Output(
                package=one.name,
                version=one.version,
                stem=one.stem,
                recipe=folder,
                variant=one.variant,
                entries=tuple(_entry(e, path) for e in (section if isinstance(section, list) else [section])),
            )
        )
    return outputs


def sources_of(outputs: Iterable[Output]) -> tuple[Source, ...]:
    """The files that those outputs name, each once.

    :raises RecipeError: one file name stands for two contents, so that a flat mirror cannot hold both
    """
    found: dict[str, Source] = {}
    by_name: dict[str, str] = {}
    for output in outputs:
        for entry in output.entries:
            if not entry.sha256:
                continue
            other = by_name.setdefault(entry.name, entry.sha256)
            if other != entry.sha256:
                raise RecipeError(
                    f"two sources are named {entry.name}",
                    where=output.recipe / "recipe.yaml",
                    found=f"sha256 {other} and {entry.sha256}",
                    fix="name one of them otherwise in the mirror's address of its recipe",
                )
            use = Use(output.package, output.version, output.stem, output.variant, entry.target_directory)
            old = found.get(entry.sha256, Source(entry.name, entry.sha256, ()))
            urls = tuple(dict.fromkeys((*old.urls, *entry.urls)))
            found[entry.sha256] = Source(old.name, old.sha256, urls, (*old.uses, use))
    return tuple(sorted(found.values(), key=lambda source: source.name))


def file_name(url: str) -> str:
    """The last part of an address's path."""
    return unquote(posixpath.basename(urlsplit(url).path))


def _entry(data: Mapping[str, Any], recipe: Path) -> Entry:
    target = str(data.get("target_directory") or "")
    patches = tuple(str(patch) for patch in data.get("patches") or ())
    if "path" in data:
        return Entry("", "", (), str(data["path"]), target, data.get("file_name"), patches)
    if "url" not in data:
        raise RecipeError(
            "a source is no archive with a sha256",
            where=recipe,
            found=", ".join(data),
            wanted="url and sha256",
            fix="name an archive of that commit, with its sha256",
        )
    given = [data["url"]] if isinstance(data["url"], str) else [str(url) for url in data["url"]]
    sha256 = str(data.get("sha256") or "").lower()
    if not SHA256.fullmatch(sha256):
        raise RecipeError(
            "a source is pinned by no sha256", where=recipe, found=given[-1], wanted="sha256: 64 hex digits"
        )
    mirror = (environment.read("SOURCE_MIRROR") or NO_MIRROR).rstrip("/") + "/"
    public = tuple(url for url in given if not url.startswith((mirror, NO_MIRROR)))
    return Entry(file_name(given[0]), sha256, public, None, target, data.get("file_name"), patches)
