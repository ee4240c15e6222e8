"""GPU targets and their ISA versions, as the registry of rocm-bootstrap knows them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Arch:
    """One GPU target: ``gfx90a`` with ISA version ``9.0.10`` (decimal, as ``__amdgpu_arch`` spells it)."""

    target: str
    isa: str

    def __str__(self) -> str:
        return f"{self.target} (ISA {self.isa})"


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
