"""Channel names as this host's clients resolve them: ``custom_channels`` of ``.condarc`` and ``.mambarc``.

conda's rule (``conda/models/channel.py``, ``_get_channel_for_name``): of a name, cut at its ``/``, the
longest part that ``custom_channels`` has is found; the address is its location, ``/``, and the whole name.
So ``internal: https://conda.example.com`` makes ``internal/label/gfx942`` the channel
``https://conda.example.com/internal/label/gfx942``. A name that no entry has is looked up below
``channel_alias``, which is a public host unless it was changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from channel_tools.model import environment
from channel_tools.model.errors import ChannelToolsError

PUBLIC = (
    "conda-forge",
    "defaults",
    "main",
    "bioconda",
    "pytorch",
    "nvidia",
    "anaconda",
    "msys2",
    "r",
    "free",
)
"""Names of public channels that no other channel should take."""


@dataclass(frozen=True)
class ChannelNames:
    """``custom``: location by name; ``alias``: where other names are looked up, None for the clients' own."""

    custom: Mapping[str, str]
    alias: str | None = None

    def resolve(self, name: str) -> str | None:
        """URL of a channel's name; None where nothing of this host's configuration maps it."""
        parts = name.strip("/").split("/")
        for count in range(len(parts), 0, -1):
            location = self.custom.get("/".join(parts[:count]))
            if location is not None:
                return f"{location.rstrip('/')}/{'/'.join(parts)}"
        return f"{self.alias.rstrip('/')}/{'/'.join(parts)}" if self.alias else None


def is_name(text: str) -> bool:
    """Would a client take it for a channel's name, and not for an address or a path?"""
    return bool(text) and "://" not in text and not text.startswith(("/", "./", "../", "~", "file:"))


def split_url(url: str) -> tuple[str, str]:
    """Location and last part of a channel's URL, as ``custom_channels`` needs them."""
    location, _, name = url.rstrip("/").rpartition("/")
    return location, name


def configuration_files() -> list[Path]:
    """Configuration files of conda and mamba that may exist, from weak to strong.

    Of the places that conda documents ("Searching for .condarc" in its manual), those of one user and of the
    whole machine. ``CONDARC`` names the strongest.
    """
    home = Path.home()
    found = [Path("/etc/conda/.condarc")]
    if root := environment.read_path("CONDA_ROOT"):
        found.append(root / ".condarc")
    config = environment.read_path("XDG_CONFIG_HOME") or home / ".config"
    found.append(config / "conda" / ".condarc")
    found += [home / ".conda" / ".condarc", home / ".condarc", home / ".mambarc"]
    if named := environment.read_path("CONDARC"):
        found.append(named)
    return found


def read_names(files: Iterable[Path] | None = None) -> ChannelNames:
    """What the configuration of this host's clients maps; a later file wins.

    :param files: in the order of :func:`configuration_files`, which is what None means
    :raises ChannelToolsError: a file is there and is no YAML mapping
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    custom: dict[str, str] = {}
    alias = None
    for path in configuration_files() if files is None else files:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        try:
            data = YAML(typ="safe", pure=True).load(text)
        except YAMLError as error:
            raise ChannelToolsError("is no YAML", where=path, found=" ".join(str(error).split())) from error
        if not isinstance(data, Mapping):
            continue
        entries = data.get("custom_channels")
        if isinstance(entries, Mapping):
            custom.update({str(name): str(location) for name, location in entries.items() if location})
        if isinstance(data.get("channel_alias"), str):
            alias = str(data["channel_alias"])
    return ChannelNames(custom, alias)
