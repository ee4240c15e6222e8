"""The data files beside this module."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Any


@functools.cache
def read_data(name: str) -> dict[str, Any]:
    """Content of ``<name>.toml``."""
    return tomllib.loads((resources.files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))
