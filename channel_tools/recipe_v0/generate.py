"""From the file of a v1 recipe to the text of its ``meta.yaml``."""

from __future__ import annotations

from pathlib import Path

from channel_tools.model.errors import RecipeError
from channel_tools.model.matrix import read_matrix
from channel_tools.model.project import MATRIX_FILE
from channel_tools.recipe_v0.conda_build import DEFAULT_KEYS, is_selector_line, used_keys
from channel_tools.recipe_v0.document import Block, write_document
from channel_tools.recipe_v0.names import Text
from channel_tools.recipe_v0.nodes import read_recipe
from channel_tools.recipe_v0.recipe import Recipe
from channel_tools.recipe_v0.sections import check_words, translate


def generate(recipe_path: Path, variant_keys: frozenset[str] | None = None) -> str:
    """The text of the ``meta.yaml`` of a v1 recipe, the same on every run.

    :param recipe_path: the ``recipe.yaml``
    :param variant_keys: names that the recipe may use as variant keys; by default the keys of the
        ``conda_build_config.yaml`` beside the recipe, none if there is no such file
    :raises RecipeError: with file, line and dotted key, for anything outside the supported subset
    :raises MatrixError: if the matrix beside the recipe is in error
    """
    if variant_keys is None:
        matrix = recipe_path.parent / MATRIX_FILE
        variant_keys = read_matrix(matrix).keys if matrix.exists() else frozenset()
    root = read_recipe(recipe_path)
    check_words(root)
    recipe = translate(root, variant_keys)
    text = write_document(recipe.names.header(), recipe.table())
    ignored = _ignored_keys(recipe, text)
    if ignored:
        recipe.add("build", "force_ignore_keys", Block(tuple(Text((key,)) for key in ignored)))
        text = write_document(recipe.names.header(), recipe.table())
    _check_lines(recipe_path, text)
    return text


def _ignored_keys(recipe: Recipe, text: str) -> list[str]:
    """The keys that the recipe ignores, and those that conda-build would take for used by a likeness."""
    names = recipe.names
    seen = used_keys(text, names.variant_keys | DEFAULT_KEYS)
    return sorted((seen - names.used - names.counted) | names.ignored)


def _check_lines(recipe_path: Path, text: str) -> None:
    for number, line in enumerate(text.splitlines(), 1):
        if is_selector_line(line):
            raise RecipeError(
                f"line {number} of the generated meta.yaml would be a selector for conda-build",
                where=recipe_path,
                found=line.strip(),
                fix="write the text without [...] behind a #",
            )
