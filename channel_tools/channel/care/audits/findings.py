"""A difference that an audit found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class Finding:
    """``key`` is the file that it concerns, ``subject`` what was looked at: ``index``, ``package``, ..."""

    key: str
    subject: str
    what: str
    found: str | None = None
    wanted: str | None = None
    fix: str | None = None

    def lines(self) -> list[str]:
        details = (("found", self.found), ("wanted", self.wanted), ("fix", self.fix))
        return [f"{self.key}: {self.what}", *(f"  {label}: {text}" for label, text in details if text)]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def listed(names: object, most: int = 5) -> str:
    """The first few of many names, and how many more there are."""
    words = sorted(map(str, names))  # type: ignore[call-overload]
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")
