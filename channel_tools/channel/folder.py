"""A channel in a folder, as builds and installs on this host use it.

Every change of it is a transaction, as on any other store; see :mod:`channel_tools.channel.layout` for what
lies where.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from channel_tools.channel.layout import SUBDIRS
from channel_tools.model.errors import ChannelError
from channel_tools.model.package import package_stem

if TYPE_CHECKING:
    from channel_tools.channel.publishing.placing import Candidate
    from channel_tools.channel.stores.folder_store import FolderStore
    from channel_tools.channel.transaction.change import Change

LEASE_S = 15.0
"""How long a build that was killed keeps the next one waiting."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class FolderChannel:
    """One channel folder. Reading never creates anything."""

    path: Path

    @property
    def url(self) -> str:
        return self.path.resolve().as_uri()

    @property
    def store(self) -> FolderStore:
        from channel_tools.channel.stores.folder_store import FolderStore

        return FolderStore(self.path)

    def label_url(self, label: str) -> str | None:
        """URL of a label that exists, else ``None``."""
        folder = self.path / "label" / label
        return folder.resolve().as_uri() if (folder / "linux-64" / "repodata.json").is_file() else None

    def labels(self) -> list[str]:
        return sorted(p.parent.parent.name for p in self.path.glob("label/*/linux-64/repodata.json"))

    def records(self, label: str | None = None) -> list[dict[str, Any]]:
        """Records of the index of the main channel or of one label, each with its file name as ``fn``.

        :raises ChannelError: the index cannot be read
        """
        folder = self.path if label is None else self.path / "label" / label
        records = []
        for subdir in SUBDIRS:
            index = folder / subdir / "repodata.json"
            if not index.is_file():
                continue
            try:
                data = json.loads(index.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise ChannelError(f"the index cannot be read: {error}", where=index) from error
            for section in ("packages", "packages.conda"):
                records += [{**record, "fn": fn} for fn, record in data.get(section, {}).items()]
        return records

    def stems(self) -> set[str]:
        """Stems of all packages that the index of the channel or of any label lists and that are there."""
        found = set()
        for label in (None, *self.labels()):
            folder = self.path if label is None else self.path / "label" / label
            for record in self.records(label):
                file = folder / record["subdir"] / record["fn"]
                if file.is_file():
                    found.add(package_stem(file))
        return found

    def files(self) -> list[Path]:
        """Every package file of the channel and its labels."""
        return sorted(
            path
            for pattern in ("*/*.conda", "*/*.tar.bz2", "label/*/*/*.conda", "label/*/*/*.tar.bz2")
            for path in self.path.glob(pattern)
            if path.parent.name in SUBDIRS
        )

    def init(self) -> None:
        """Make the folders and empty indexes of a channel that is not there yet.

        :raises StorageError: the folder cannot be written
        """
        from channel_tools.channel.publishing.placing import empty_channel
        from channel_tools.channel.settings import Settings, read_settings

        if (self.path / "linux-64" / "repodata.json").is_file():
            return
        self._apply(lambda store: empty_channel(read_settings(store) or Settings()))

    def add(
        self, packages: Sequence[Path], *, replace: bool = False, say: Say = lambda line: None
    ) -> list[Path]:
        """Put verified packages where they belong, then index once. All of them appear, or none.

        :param replace: put a package in the place of one with the same name and other content; the old one
            goes first, in a transaction of its own
        :param say: told when another process holds the channel, and what was repaired
        :returns: the folders whose index changed
        :raises DamagedFileError: a file is no package
        :raises ChannelError: same name and other content, or a toolchain that this channel does not take
        :raises StorageError: the channel cannot be written
        """
        from channel_tools.channel.publishing import placing

        new: Sequence[Candidate] = [placing.candidate(path) for path in packages]
        subdirs: set[str] = set()
        if replace:
            subdirs.update(self._apply(lambda store: placing.without_others(store, new), say))
        subdirs.update(self._apply(lambda store: placing.with_packages(store, new), say))
        return sorted({(self.path / key).parent for key in subdirs})

    def _apply(self, plan: Callable[[Any], Change], say: Say = lambda line: None) -> tuple[str, ...]:
        from channel_tools.channel.transaction.apply import apply
        from channel_tools.channel.who import publisher

        return apply(self.store, who=publisher(), plan=plan, say=say, ttl=LEASE_S).subdirs
