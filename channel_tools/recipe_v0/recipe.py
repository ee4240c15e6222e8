"""A v0 recipe in the making."""

from __future__ import annotations

from dataclasses import dataclass, field

from channel_tools.recipe_v0.document import Block, Entry, Item, Table, Value
from channel_tools.recipe_v0.fields import Reader
from channel_tools.recipe_v0.names import Names

_V0_ORDER = ("package", "source", "build", "requirements", "test", "about", "extra")


@dataclass
class Recipe:
    """A v0 recipe in the making."""

    names: Names
    noarch: bool = False
    sections: dict[str, list[Item]] = field(default_factory=dict)

    @property
    def read(self) -> Reader:
        return Reader(self.names)

    def add(self, section: str, key: str, value: Value) -> None:
        """Adds ``key: value``, unless the value is an empty list or map."""
        if value in (Block(()), Table(())):
            return
        self.sections.setdefault(section, []).append(Entry(key, value))

    def table(self) -> Table:
        return Table(
            tuple(
                Entry(name, Block(tuple(items)) if name == "source" else Table(tuple(items)))
                for name in _V0_ORDER
                if (items := self.sections.get(name))
            )
        )
