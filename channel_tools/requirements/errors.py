"""The errors of ``rocm-channel deps`` and ``bump``."""

from __future__ import annotations

from channel_tools.model.errors import RecipeError


class RequirementsError(RecipeError):
    """A release whose requirements are not what recipe and data file say, or cannot be read."""

    exit_code = 16
