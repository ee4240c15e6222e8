"""Why a release is refused: every reason at once, so that one look tells all there is to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from channel_tools.channel.publishing.checks.builds import Build, in_main, of_package
from channel_tools.channel.settings import Settings
from channel_tools.model.errors import ReleaseRefusedError
from channel_tools.model.matrix import Matrix
from channel_tools.model.package import Package

if TYPE_CHECKING:
    from channel_tools.channel.index.encoding import SubdirIndex


@dataclass(frozen=True)
class Reason:
    """One thing that is wrong. ``rule`` names the check; ``where`` is the file that it concerns."""

    rule: str
    where: str
    what: str
    found: str | None = None
    wanted: str | None = None
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class RefusedRelease(ReleaseRefusedError):  # noqa: N818 - the error of the model, with its reasons
    """A release with all its ``reasons``. Its text tells what several files have in common once."""

    def __init__(self, reasons: Sequence[Reason], where: str | None) -> None:
        self.groups: dict[tuple[object, ...], list[Reason]] = {}
        for reason in reasons:
            key = (reason.rule, reason.what, reason.wanted, reason.fix)
            self.groups.setdefault(key, []).append(reason)
        count = "one reason" if len(self.groups) == 1 else f"{len(self.groups)} reasons"
        super().__init__(f"the release is refused for {count}; nothing was changed", where=where)
        self.reasons = tuple(reasons)
        self.found = "; ".join(f"{reason.where}: {reason.what}" for reason in reasons)

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return "\n".join([head, *(f"  {line}" for group in self.groups.values() for line in _lines(group))])


def _lines(group: Sequence[Reason]) -> list[str]:
    first = group[0]
    files = list(dict.fromkeys(reason.where for reason in group))
    found = list(dict.fromkeys(reason.found for reason in group if reason.found))
    details = (
        ("files", _some(files, ", ") if len(files) > 1 else None),
        ("found", _some(found, "; ")),
        ("wanted", first.wanted),
        ("fix", first.fix),
    )
    subject = first.where if len(files) == 1 else f"{len(files)} files"
    what = first.what if len(files) == 1 else f"each {first.what}"
    return [f"{subject}: {what}", *(f"  {label}: {text}" for label, text in details if text)]


def _some(words: Sequence[str], between: str, most: int = 6) -> str:
    more = len(words) - most
    return between.join(words[:most]) + (f"{between}and {more} more" if more > 0 else "")


class Verified(Protocol):
    """What the checks want to know of a verification; a :class:`channel_tools.verify.Report` is one."""

    @property
    def verdict(self) -> str: ...

    def targets(self) -> tuple[str, ...]: ...


Provides = Callable[[str], bool | None]
"""Does a dependency channel have a package of that name? None: its index could not be read."""


@dataclass(frozen=True)
class Candidate:
    """A release as the rules see it.

    ``local`` says that the channel is a folder for builds against host tools; ``channels_of`` gives the
    channels that a package was built with.
    """

    packages: Sequence[Package]
    reports: Mapping[Path, Verified]
    settings: Settings
    present: Mapping[str, SubdirIndex]
    matrix: Matrix
    allow_missing: Sequence[str] = ()
    local: bool = False
    provided: Provides = field(default=lambda _name: None)
    channels_of: Callable[[Package], Sequence[str]] = field(default=lambda _package: ())

    @cached_property
    def builds(self) -> tuple[Build, ...]:
        """The release's own builds, in its order."""
        return tuple(of_package(package) for package in self.packages)

    @cached_property
    def present_builds(self) -> tuple[Build, ...]:
        """What the main channel offers already, without what the release brings again."""
        new = {build.file for build in self.builds}
        return tuple(build for build in in_main(self.present) if build.file not in new)

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[Build]]:
        """What the main channel offers once the release is in; declared builds are in labels only."""
        found: dict[str, list[Build]] = {}
        for build in (*self.builds, *self.present_builds):
            if not build.declared:
                found.setdefault(build.name, []).append(build)
        return found

    def targets(self, build: Build) -> tuple[str, ...]:
        """Processors that the verified files of a package hold code for, without features, sorted."""
        report = self.reports.get(build.package.path) if build.package else None
        found = report.targets() if report else ()
        return tuple(sorted({target.split(":")[0] for target in found}))


Rule = Callable[[Candidate], Iterable[Reason]]
