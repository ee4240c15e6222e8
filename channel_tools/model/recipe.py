"""Recipes as rattler-build renders them for the matrix: one output for each distinct variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.model.errors import RecipeError
from channel_tools.model.matrix import Matrix

PLATFORM = "linux-64"


@dataclass(frozen=True)
class RenderedRecipe:
    """One output: ``data`` is the recipe with all values filled in, ``variant`` the matrix keys it uses."""

    folder: Path
    data: Mapping[str, Any]
    variant: Mapping[str, str]

    @property
    def name(self) -> str:
        return str(self.data["package"]["name"])

    @property
    def version(self) -> str:
        return str(self.data["package"]["version"])

    @property
    def build(self) -> str:
        return str(self.data["build"]["string"])

    @property
    def stem(self) -> str:
        """File name of the package without its suffix."""
        return f"{self.name}-{self.version}-{self.build}"


def render(folder: Path, matrix: Matrix) -> list[RenderedRecipe]:
    """Every output of ``folder/recipe.yaml`` over the matrix; nothing is solved or fetched.

    :raises RecipeError: with the recipe's path and the engine's words
    """
    from rattler_build import PlatformConfig, RenderConfig, Stage0Recipe, VariantConfig

    path = folder / "recipe.yaml"
    try:
        config = VariantConfig(
            {key: list(values) for key, values in matrix.values.items()},
            zip_keys=[list(group) for group in matrix.zip_groups],
        )
        outputs = Stage0Recipe.from_file(path).render(
            config, RenderConfig(platform=PlatformConfig(target_platform=PLATFORM))
        )
    except Exception as error:
        raise RecipeError(f"does not render: {' '.join(str(error).split())[:300]}", where=path) from error
    return [
        RenderedRecipe(
            folder,
            output.recipe.to_dict(),
            {key: str(value) for key, value in output.variant.items() if key in matrix.keys},
        )
        for output in outputs
    ]
