"""GPU targets and their ISA versions, as the registry of rocm-bootstrap knows them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLAIN_TARGET = re.compile(r"gfx[1-9][0-9]?[0-9a-f]{2}")


@dataclass(frozen=True, order=True)
class Arch:
    """One GPU target: ``gfx90a`` with ISA version ``9.0.10`` (decimal, as ``__amdgpu_arch`` spells it)."""

    target: str
    isa: str

    def __str__(self) -> str:
        return f"{self.target} (ISA {self.isa})"


def is_plain_target(text: str) -> bool:
    """Has it the form of one GPU target without features (``gfx942``), known to the registry or not?"""
    return _PLAIN_TARGET.fullmatch(text) is not None


def lookup(target: str) -> Arch | None:
    """The target of that exact name, or ``None`` for a name that AMD has not given out."""
    from rocm_bootstrap import lookup_target

    try:
        known = lookup_target(target)
    except ValueError:
        return None
    return Arch(known.name, f"{known.major}.{known.minor}.{known.stepping}")


def known_targets() -> list[str]:
    """Every target name of the registry, sorted."""
    from rocm_bootstrap import ALL_TARGETS

    return sorted(target.name for target in ALL_TARGETS)
