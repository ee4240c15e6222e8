"""Where the recipes, the matrix and the caches of this project are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from channel_tools.model import environment
from channel_tools.model.errors import RecipeError

MATRIX_FILE = "conda_build_config.yaml"


def project_root() -> Path:
    """The folder that holds ``recipes/`` and ``variants/``.

    ``ROCM_CHANNEL_ROOT`` first, then the current folder and those above it, then the checkout that this
    module was installed from.

    :raises RecipeError: none of them holds a matrix
    """
    named = environment.read_path("ROCM_CHANNEL_ROOT")
    if named is not None:
        candidates = [named]
    else:
        here = Path.cwd()
        candidates = [here, *here.parents, Path(__file__).resolve().parents[2]]
    for folder in candidates:
        if (folder / "variants" / MATRIX_FILE).is_file() and (folder / "recipes").is_dir():
            return folder.resolve()
    raise RecipeError(
        f"no recipes/ with a variants/{MATRIX_FILE} beside it",
        where=candidates[0],
        fix="change into a checkout of rocm-channel, or set ROCM_CHANNEL_ROOT to one",
    )


@dataclass(frozen=True)
class Project:
    """The folders of one checkout. Nothing is created by asking for them."""

    root: Path

    @classmethod
    def find(cls) -> Project:
        return cls(project_root())

    @property
    def matrix_file(self) -> Path:
        return self.root / "variants" / MATRIX_FILE

    @property
    def recipes(self) -> Path:
        return self.root / "recipes"

    @property
    def build_scripts(self) -> Path:
        return self.root / "build_scripts"

    @property
    def cache(self) -> Path:
        return environment.read_path("ROCM_CHANNEL_CACHE") or self.root / ".cache"

    @property
    def sdk(self) -> Path:
        """The SDK root made from Debian packages."""
        return self.cache / "sdk"

    @property
    def host_tools(self) -> Path:
        """The channel of bridge packages for this host's own tools."""
        return self.cache / "host-tools"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    def recipe_folders(self) -> list[Path]:
        """Folders under ``recipes/`` that hold a ``recipe.yaml``, sorted by name."""
        return sorted(path.parent for path in self.recipes.glob("*/recipe.yaml"))
