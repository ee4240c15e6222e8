"""What a check of the doctor is, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

from channel_tools.diagnose.doctor.data import About, DoctorData, check_texts
from channel_tools.diagnose.doctor.host_root import HostRoot

if TYPE_CHECKING:
    from channel_tools.diagnose.doctor.gpus import Gpu
    from channel_tools.diagnose.doctor.rocm_roots import RocmRoot


class Status(IntEnum):
    """How bad it is; the order is that of severity."""

    SKIPPED = 0
    OK = 1
    INFO = 2
    WARNING = 3
    ERROR = 4

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Outcome:
    """What a check found. ``wanted`` replaces the check's own text where there is something more exact."""

    status: Status
    found: str
    fix: str = ""
    wanted: str = ""


def ok(found: str, *, wanted: str = "") -> Outcome:
    return Outcome(Status.OK, found, wanted=wanted)


def info(found: str, fix: str = "", *, wanted: str = "") -> Outcome:
    return Outcome(Status.INFO, found, fix, wanted)


def warning(found: str, fix: str, *, wanted: str = "") -> Outcome:
    return Outcome(Status.WARNING, found, fix, wanted)


def error(found: str, fix: str, *, wanted: str = "") -> Outcome:
    return Outcome(Status.ERROR, found, fix, wanted)


def skipped(found: str) -> Outcome:
    return Outcome(Status.SKIPPED, found)


def worst(outcomes: Iterable[Outcome]) -> Outcome | None:
    """One outcome for several: the worst status, and all that was found and advised at that status."""
    given = list(outcomes)
    if not given:
        return None
    status = max(one.status for one in given)
    chosen = [one for one in given if one.status == status]

    def joined(texts: Iterable[str]) -> str:
        return "; ".join(dict.fromkeys(text for text in texts if text))

    return Outcome(
        status,
        joined(one.found for one in chosen),
        joined(one.fix for one in chosen),
        joined(one.wanted for one in chosen),
    )


@dataclass(frozen=True)
class Context:
    """What a check looks at: a host, an environment on it, and the tables of ``doctor.toml``.

    :param prefix: the host's path of the environment that is judged, if there is one
    """

    host: HostRoot
    prefix: str | None
    data: DoctorData

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that programs see."""
        from channel_tools.diagnose.doctor.gpus import is_handed_in, render_minors

        there = render_minors(self.host)
        return tuple(gpu for gpu in self.all_gpus if is_handed_in(gpu.render, there))

    @cached_property
    def all_gpus(self) -> tuple[Gpu, ...]:
        """Every GPU that the kernel tells of."""
        from channel_tools.diagnose.doctor.gpus import read_gpus

        return read_gpus(self.host, self.data.integrated)

    @cached_property
    def rocm(self) -> RocmRoot | None:
        from channel_tools.diagnose.doctor.rocm_roots import find_rocm

        return find_rocm(self.host)

    @property
    def targets(self) -> tuple[str, ...]:
        """The distinct targets of the GPUs that programs see, in the kernel's order."""
        return tuple(dict.fromkeys(gpu.target for gpu in self.gpus))


@dataclass(frozen=True)
class Check:
    """One check: its id, its texts out of ``doctor_checks.toml``, and its code."""

    id: str
    about: About
    run: Callable[[Context], Outcome]


CHECKS: dict[str, Check] = {}


def check(identity: str) -> Callable[[Callable[[Context], Outcome]], Callable[[Context], Outcome]]:
    """Enter a function into the list of checks, with the texts that go by this id."""

    def enter(run: Callable[[Context], Outcome]) -> Callable[[Context], Outcome]:
        if identity in CHECKS:
            raise ValueError(f"two checks are called {identity}")
        CHECKS[identity] = Check(identity, check_texts()[identity], run)
        return run

    return enter
