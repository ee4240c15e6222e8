"""What reading a file brings to light: code objects, and faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from channel_tools.verify.source import DamageError

MAX_OBJECTS: Final = 250_000
"""Code objects in one file. The largest libraries have some 10,000."""

MAX_FAULTS: Final = 1000
"""Faults of one file that are told; it fails with the first."""


@dataclass(frozen=True)
class Fault:
    """One reason why a file or package must not be used as it is.

    ``damage`` is true where bytes are missing or contradict each other, false where they are sound and not
    what the package declares. ``rule`` is one of the ids of :mod:`channel_tools.verify.catalogue`, which says
    what the fault means; empty: ``damage``, or ``policy`` where nothing is damaged.
    """

    what: str
    offset: int | None = None
    found: str | None = None
    wanted: str | None = None
    fix: str | None = None
    damage: bool = False
    rule: str = ""

    def within(self, part: str) -> Fault:
        """The same fault, with the part of the file that it concerns."""
        return replace(self, what=f"{part}: {self.what}")

    def __str__(self) -> str:
        head = self.what if self.offset is None else f"at {self.offset:#x}: {self.what}"
        details = [
            f"{label}: {text}"
            for label, text in (("found", self.found), ("expected", self.wanted), ("do", self.fix))
            if text
        ]
        return "; ".join([head, *details])


@dataclass(frozen=True, slots=True)
class CodeObject:
    """Code for one GPU target, ``offset`` and ``size`` in bytes of the file (or of an unpacked bundle)."""

    target: str
    offset: int
    size: int


@dataclass
class Findings:
    """Collects what the readers of the file ``name`` see; readers go on after a fault wherever they can."""

    name: str
    objects: list[CodeObject] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def add_object(self, found: CodeObject) -> None:
        """:raises DamageError: there are more than any file has"""
        if len(self.objects) >= MAX_OBJECTS:
            raise DamageError(
                "more code objects than a file may hold",
                where=self.name,
                offset=found.offset,
                found=f"more than {MAX_OBJECTS}",
                wanted=f"at most {MAX_OBJECTS}",
            )
        self.objects.append(found)

    def extend(self, other: Findings) -> None:
        """Add what was found elsewhere in the same file; raises as :meth:`add_object`."""
        for found in other.objects:
            self.add_object(found)
        self.faults += other.faults[: max(0, MAX_FAULTS - len(self.faults))]

    def add_damage(self, damage: DamageError) -> None:
        if len(self.faults) >= MAX_FAULTS:
            return
        fix = damage.fix or "fetch it again; where it was built so, build it again"
        fault = Fault(damage.what, damage.offset, damage.found, damage.wanted, fix, damage=True)
        # A file in a nested archive is named archive!file here, and by its own name there.
        here = damage.where in (None, self.name) or self.name.endswith(f"!{damage.where}")
        self.faults.append(fault if here else fault.within(str(damage.where)))

    @contextmanager
    def keep_damage(self) -> Iterator[None]:
        """Turn damage met in the block into a fault, and go on after it."""
        try:
            yield
        except DamageError as damage:
            self.add_damage(damage)
