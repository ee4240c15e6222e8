"""Keeps every ``meta.yaml`` equal to what its ``recipe.yaml`` gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from itertools import zip_longest
from pathlib import Path

from channel_tools.model.errors import OutOfSyncError, RecipeError
from channel_tools.model.files import write_text_whole
from channel_tools.recipe_v0.generate import generate

FIX = "rocm-channel recipes sync"


@dataclass(frozen=True)
class Change:
    """One ``meta.yaml`` that differs from what its recipe gives.

    :param path: the ``meta.yaml``
    :param old: its text now, empty if the file is not there
    :param new: what the recipe gives; None if there is no recipe beside the file
    """

    path: Path
    old: str
    new: str | None

    def diff(self) -> str:
        """The change as a unified diff."""
        name = f"{self.path.parent.name}/{self.path.name}"
        old, new = self.old.splitlines(keepends=True), (self.new or "").splitlines(keepends=True)
        return "".join(unified_diff(old, new, name, f"{name} (generated)"))

    def error(self) -> OutOfSyncError:
        """The error that names the file and its first line that differs."""
        if self.new is None:
            return OutOfSyncError(
                "there is no recipe.yaml beside this file", where=self.path, fix="delete it"
            )
        if not self.old:
            return OutOfSyncError("this generated file is missing", where=self.path, fix=FIX)
        pairs = zip_longest(self.old.splitlines(), self.new.splitlines())
        line, (found, wanted) = next(
            ((number, pair) for number, pair in enumerate(pairs, 1) if pair[0] != pair[1]),
            (1, (self.old, self.new)),
        )
        return OutOfSyncError(
            "this generated file differs from its recipe.yaml",
            where=f"{self.path}:{line}",
            found="end of the file" if found is None else repr(found),
            wanted="end of the file" if wanted is None else repr(wanted),
            fix=FIX,
        )


def changes(recipes_dir: Path) -> Iterator[Change]:
    """Every ``meta.yaml`` below the folder that is missing, differs, or has no recipe, in order of names.

    :raises RecipeError: if the folder has no recipe, or a recipe cannot be translated
    """
    folders = sorted(path for path in recipes_dir.glob("*") if path.is_dir())
    if not any((folder / "recipe.yaml").is_file() for folder in folders):
        raise RecipeError("there is no recipe in this folder", where=recipes_dir, wanted="NAME/recipe.yaml")
    for folder in folders:
        recipe, meta = folder / "recipe.yaml", folder / "meta.yaml"
        new = generate(recipe) if recipe.is_file() else None
        old = meta.read_text(encoding="utf-8") if meta.is_file() else ""
        if old != (new or "") or (new is None and meta.is_file()):
            yield Change(meta, old, new)


def sync(recipes_dir: Path) -> list[Path]:
    """Writes every ``meta.yaml`` that is missing or differs; nothing if one recipe is in error.

    :returns: the files that were written
    :raises RecipeError: as :func:`changes`
    :raises StorageError: if a file cannot be written
    """
    written = []
    for change in list(changes(recipes_dir)):
        if change.new is not None:
            write_text_whole(change.path, change.new)
            written.append(change.path)
    return written


def check(recipes_dir: Path) -> None:
    """Returns if every ``meta.yaml`` is what its recipe gives.

    :raises OutOfSyncError: for the first one that is not, with its first line that differs
    :raises RecipeError: as :func:`changes`
    """
    for change in changes(recipes_dir):
        raise change.error()
