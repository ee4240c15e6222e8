"""What differs between two builds: targets, sizes, files, symbols, libraries, flags, metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from channel_tools.verify.build_record import UnreadableRecordError, read_compile_commands
from channel_tools.verify.command_lines import Unit, optimisation_level, read_recorded
from channel_tools.verify.linkage import Linkage
from channel_tools.verify.package_info import PackageInfo
from channel_tools.verify.report import Entry, FileReport, Report

_METADATA: Final = ("name", "version", "build", "subdir", "rocm_version", "gcc_pin")
_NAMES_FOLDERS: Final = (
    "-I",
    "-isystem",
    "-L",
    "-ffile-prefix-map",
    "-fdebug-prefix-map",
    "-fmacro-prefix-map",
)
_OF_THE_FORMAT: Final = ("info/", "metadata.json")


@dataclass(frozen=True)
class Change:
    """One thing that both have, and that differs."""

    what: str
    left: Any
    right: Any


@dataclass(frozen=True)
class Sides:
    """What only one of the two has, sorted."""

    only_left: tuple[str, ...] = ()
    only_right: tuple[str, ...] = ()

    @classmethod
    def of(cls, left: Iterator[str] | tuple[str, ...], right: Iterator[str] | tuple[str, ...]) -> Sides:
        one, other = set(left), set(right)
        return cls(tuple(sorted(one - other)), tuple(sorted(other - one)))


@dataclass(frozen=True)
class FileChange:
    """A file that both have, with what differs; ``content`` where only the bytes do."""

    path: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Comparison:
    """What differs. ``flags`` counts the compiler calls that carry a flag.

    ``by_content`` says whether files of equal size could be told apart: only conda packages carry the digests
    of their files.
    """

    left: str
    right: str
    metadata: tuple[Change, ...]
    size: Change | None
    targets: Sides
    depends: Sides
    files: Sides
    sizes: Mapping[str, int]
    changed: tuple[FileChange, ...]
    flags: tuple[Change, ...]
    by_content: bool

    @property
    def equal(self) -> bool:
        sides = (self.targets, self.depends, self.files)
        return not (
            self.metadata
            or self.size
            or self.changed
            or self.flags
            or any(side.only_left or side.only_right for side in sides)
        )

    def to_json(self) -> dict[str, Any]:
        return {"equal": self.equal, **asdict(self), "sizes": dict(self.sizes)}


def compare(left: Report, right: Report) -> Comparison:
    """Compare two reports of the same package, or of any two things."""
    single = left.kind == right.kind == "file"
    ours, theirs = _inventory(left, single), _inventory(right, single)
    files = Sides.of(tuple(ours), tuple(theirs))
    sizes = {path: ours[path].size for path in files.only_left}
    sizes |= {path: theirs[path].size for path in files.only_right}
    read = {_key(file.path, single): file for file in left.files}
    other = {_key(file.path, single): file for file in right.files}
    both = sorted({*ours, *read} & {*theirs, *other})
    changed = tuple(
        FileChange(path, changes)
        for path in both
        if (
            changes := tuple(_file_changes(ours.get(path), theirs.get(path), read.get(path), other.get(path)))
        )
    )
    return Comparison(
        left=left.path,
        right=right.path,
        metadata=tuple(_metadata_changes(left, right)),
        size=None if left.size == right.size else Change("size", left.size, right.size),
        targets=Sides.of(left.targets(), right.targets()),
        depends=Sides.of(_package(left).depends, _package(right).depends),
        files=files,
        sizes=sizes,
        changed=changed,
        flags=tuple(_flag_changes(left, right)),
        by_content=all(ours[path].sha256 and theirs[path].sha256 for path in {*ours} & {*theirs}),
    )


def _package(report: Report) -> PackageInfo:
    return report.package or PackageInfo("", "")


def _key(path: str, single: bool) -> str:
    return "the file" if single else path


def _inventory(report: Report, single: bool) -> dict[str, Entry]:
    """Every file but the package's metadata, which is compared by its meaning."""
    return {
        _key(path, single): entry
        for path, entry in report.inventory.items()
        if report.package is None or not path.startswith(_OF_THE_FORMAT)
    }


def _metadata_changes(left: Report, right: Report) -> Iterator[Change]:
    one, other = _package(left), _package(right)
    for key in _METADATA:
        yield from _differing(key, getattr(one, key) or None, getattr(other, key) or None)
    yield from _differing("declared", list(one.declared), list(other.declared))
    yield from _differing("kind", left.kind, right.kind)
    yield from _differing("evidence", left.evidence, right.evidence)


def _differing(what: str, left: Any, right: Any) -> Iterator[Change]:
    if left != right:
        yield Change(what, left, right)


def _file_changes(
    left: Entry | None, right: Entry | None, read: FileReport | None, other: FileReport | None
) -> Iterator[Change]:
    if left and right:
        yield from _differing("size", left.size, right.size)
        if left.size == right.size and left.sha256 and right.sha256:
            yield from _differing("content", left.sha256, right.sha256)
    one, two = read or FileReport("", 0, "data"), other or FileReport("", 0, "data")
    yield from _differing("kind", one.kind, two.kind)
    yield from _differing("targets", list(one.targets), list(two.targets))
    yield from _differing("objects", one.objects, two.objects)
    if one.linkage and two.linkage:
        yield from _linkage_changes(one.linkage, two.linkage)


def _linkage_changes(one: Linkage, two: Linkage) -> Iterator[Change]:
    for key in ("needed", "soname", "rpath", "runpath", "compilers", "text_relocations", "executable_stack"):
        left, right = getattr(one, key), getattr(two, key)
        if isinstance(left, tuple):
            left, right = list(left), list(right)
        yield from _differing(key, left, right)
    newest = [{family: versions[-1] for family, versions in side.versions.items()} for side in (one, two)]
    yield from _differing("newest symbol versions", *newest)
    if one.symbol_digest != two.symbol_digest:
        yield Change("exported symbols", one.symbols, two.symbols)


def _flag_changes(left: Report, right: Report) -> Iterator[Change]:
    one, other = _units(left), _units(right)
    yield from _differing("units", len(one), len(other))
    ours, theirs = _flags(one), _flags(other)
    for flag in sorted({*ours, *theirs}):
        yield from _differing(flag, ours[flag], theirs[flag])


def _units(report: Report) -> list[Unit]:
    """The compiler calls that are known of; a record that cannot be read knows none."""
    units: list[Unit] = []
    for file in report.files:
        if file.linkage:
            with suppress(ValueError):
                units += read_recorded(file.linkage.flags)
    if report.compile_commands is not None:
        with suppress(UnreadableRecordError):
            units += read_compile_commands(report.compile_commands)
    return units


def _flags(units: list[Unit]) -> Counter[str]:
    """How many units carry each flag. Of -O only what is in force; those that name folders are left out."""
    counted: Counter[str] = Counter()
    for unit in units:
        counted.update(unit.levels)
        counted.update(
            option
            for option in set(unit.options)
            if not option.startswith(_NAMES_FOLDERS) and not optimisation_level(option)
        )
    return counted
