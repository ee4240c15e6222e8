"""Reading one path: what is in every file of it, before anything is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from channel_tools.verify import package_info
from channel_tools.verify.containers import (
    Member,
    container_kind,
    container_members,
    folder_members,
    may_be_container,
    nested_kind,
    open_regular,
)
from channel_tools.verify.crew import FilesInOrder
from channel_tools.verify.elf import read_elf
from channel_tools.verify.embedded import read_embedded
from channel_tools.verify.files import HEAD_SIZE, kind_of, read_file
from channel_tools.verify.findings import Fault, Findings
from channel_tools.verify.linkage import Linkage, read_linkage
from channel_tools.verify.named_data import named_processors
from channel_tools.verify.report import FileReport
from channel_tools.verify.source import DamageError, Source, printable
from channel_tools.verify.streams import Budget, Limits

Progress = Callable[[str], None]

NESTED: Final = "!"
"""Between the path of an archive and the path of a file in it."""

ARCHIVES: Final = (".conda", ".tar.bz2", ".whl", ".zip", ".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.zst")
"""Names that promise an archive."""

_PACKAGES: Final = (".conda", ".whl")
_PACKAGE_MARKS: Final = ("conda-meta", package_info.INDEX)
_MAX_DEPTH: Final = 3
_MAX_METADATA: Final = 16 << 20  # of one file: parsed JSON takes 20 times the memory
_MAX_ALL_METADATA: Final = 32 << 20
_MAX_NAMES: Final = 64 << 20
_MAX_DAMAGED: Final = 1000
_WORTH_A_THREAD: Final = 256 << 10
_SLOW: Final = ("compressed bundle", "kpack", "aks2")
_HOST_KINDS: Final = ("host binary", "host object")


@dataclass(frozen=True)
class Reading:
    """What was read.

    ``metadata`` holds the package's own word as bytes, ``sizes`` those of every file by path, ``links`` the
    paths of links.
    """

    path: str
    kind: str
    size: int
    members: int
    files: tuple[FileReport, ...]
    faults: tuple[Fault, ...]
    metadata: Mapping[str, bytes] = field(repr=False)
    sizes: Mapping[str, int] = field(repr=False)
    links: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_conda(self) -> bool:
        return package_info.INDEX in self.metadata

    def build_record(self, package: str, file: str) -> bytes | None:
        """A file of the package's build record; None where it has none."""
        return self.metadata.get(package_info.build_record(package, file))


def read_path(path: Path, *, progress: Progress | None, limits: Limits, scan: bool) -> Reading:
    """Read a conda package, wheel, zip, tar, folder, prefix or single file.

    :param scan: look for code objects in files of no known kind, too
    """
    reader = _Reader(path, progress, limits, scan)
    return reader.folder() if path.is_dir() else reader.file()


class _Reader:
    """Collects the files of one path."""

    def __init__(self, path: Path, progress: Progress | None, limits: Limits, scan: bool) -> None:
        self._path = path
        self._progress = progress
        self._limits = limits
        self._scan = scan
        self._many_files = False
        self._is_package = path.is_file() or any((path / mark).exists() for mark in _PACKAGE_MARKS)
        self._members = 0
        self._files: list[FileReport] = []
        self._metadata: dict[str, bytes] = {}
        self._metadata_room = _MAX_ALL_METADATA
        self._sizes: dict[str, int] = {}
        self._links: list[str] = []
        self._names_room = _MAX_NAMES
        self._damaged = 0
        self._crew = FilesInOrder(self._append)
        self._name = printable(str(path))
        self._whole = Findings(self._name)

    def folder(self) -> Reading:
        kind = "prefix" if (self._path / "conda-meta").is_dir() else "folder"
        budget = Budget(self._name, self._limits.unpacked, self._limits)
        self._many_files = True
        self._visit_all(folder_members(self._path, budget, self._note_link), budget)
        if package_info.INDEX in self._metadata:
            kind = "extracted package"
        return self._reading(kind, sum(self._sizes.values()))

    def file(self) -> Reading:
        kind = "file"
        size = 0
        with self._whole.keep_damage(), open_regular(self._path) as source:
            size = source.size
            head = source.peek(0, HEAD_SIZE)
            container = None if kind_of(source.name, head) else container_kind(source.name, source)
            if container:
                kind = container
                budget = Budget(source.name, size, self._limits)
                self._many_files = True
                self._visit_all(container_members(source.name, kind, source, budget, self._note_link), budget)
            else:
                self._visit(Member(source.name, size, head, opener=lambda: source), None, 0)
        if kind == "conda package" and package_info.INDEX not in self._metadata and not self._whole.faults:
            self._whole.faults.append(
                Fault("no conda package", found=f"no {package_info.INDEX}", wanted="one", damage=True)
            )
        if kind == "tar" and package_info.INDEX in self._metadata:
            kind = "conda package"
        return self._reading(kind, size)

    def _reading(self, kind: str, size: int) -> Reading:
        files = tuple(sorted(self._files, key=lambda file: file.path))
        faults = tuple(self._whole.faults)
        return Reading(
            self._name,
            kind,
            size,
            self._members,
            files,
            faults,
            self._metadata,
            self._sizes,
            tuple(self._links),
        )

    def _visit_all(self, members: Iterator[Member], budget: Budget) -> None:
        with self._whole.keep_damage():
            for member in members:
                self._visit(member, budget, 0)
        with self._whole.keep_damage():
            self._crew.finish()

    def _visit(self, member: Member, budget: Budget | None, depth: int) -> None:
        self._members += 1
        if self._progress:
            self._progress(member.path)
        if member.fault:
            if depth == 0:  # an archive in a package is data: nothing unpacks it
                self._append(FileReport(member.path, member.size, "entry", faults=(member.fault,)))
            return
        if depth == 0:
            self._note_name(member.path)
            self._sizes[member.path] = member.size
        kind = kind_of(member.path, member.head)
        if kind:
            self._read(member, kind)
        elif depth == 0 and package_info.is_metadata(member.path):
            self._keep_metadata(member)
        elif not self._read_container(member, budget, depth):
            self._read_other(member)

    def _read(self, member: Member, kind: str) -> None:
        source = member.open_source()
        work = partial(_read_member, member, source, kind)
        slow = kind in _SLOW or source.size > _WORTH_A_THREAD
        if slow and self._many_files and source.shared:
            self._crew.add(source.size, work)
        else:
            self._append(work())

    def _append(self, file: FileReport) -> None:
        """:raises DamageError: so many files are damaged that reading more of them serves no one"""
        if self._damaged >= _MAX_DAMAGED:
            return  # it was under way when reading ended
        self._files.append(file)
        self._damaged += any(fault.damage for fault in file.faults)
        if self._damaged >= _MAX_DAMAGED:
            raise DamageError(
                "too many damaged files: the rest was not read",
                where=self._name,
                found=f"{self._damaged}",
                wanted="none",
            )

    def _note_link(self, path: str, _target: str) -> None:
        self._note_name(path)
        self._links.append(path)

    def _note_name(self, path: str) -> None:
        self._names_room -= len(path)
        if self._names_room < 0:
            raise DamageError(
                "names of files take more than those of a package would",
                where=self._name,
                found=f"more than {_MAX_NAMES} letters",
                wanted=f"at most {_MAX_NAMES}",
            )

    def _read_container(self, member: Member, budget: Budget | None, depth: int) -> bool:
        """Read an archive inside; False for a file that is none."""
        promised = self._promises_archive(member.path)
        if budget is None or not (promised or may_be_container(member.head)):
            return False
        findings = Findings(member.path)
        if depth >= _MAX_DEPTH:
            if promised:
                findings.faults.append(_too_deep())
        else:
            source = member.open_source()
            with findings.keep_damage():
                kind = container_kind(member.path, source) if promised else nested_kind(source)
                if kind is None:
                    return False
                for inner in container_members(member.path, kind, source, budget):
                    path = f"{member.path}{NESTED}{inner.path}"
                    inside = Member(path, inner.size, inner.head, inner.fault, inner.opener)
                    self._visit(inside, budget, depth + 1)
        if findings.faults:
            self._append(FileReport(member.path, member.size, "archive", faults=tuple(findings.faults)))
        return True

    def _promises_archive(self, path: str) -> bool:
        """Must this be an archive? Of other names in a package, what cannot be opened is mere data."""
        return path.endswith(_PACKAGES if self._is_package else ARCHIVES)

    def _read_other(self, member: Member) -> None:
        """A file of no known kind: its name may speak, and a scan may find code in it."""
        named = named_processors(member.path)
        findings = Findings(member.path)
        if self._scan:
            with findings.keep_damage():
                read_embedded(member.open_source(), [], findings)
        if named or findings.objects or findings.faults:
            kind = "named data" if named and not findings.objects else "data"
            self._append(_file_report(member, kind, findings, named=named))

    def _keep_metadata(self, member: Member) -> None:
        self._metadata_room -= member.size
        if member.size > _MAX_METADATA or self._metadata_room < 0:
            raise DamageError(
                "metadata of an unlikely size",
                where=member.path,
                found=f"{member.size} bytes",
                wanted=f"at most {_MAX_METADATA} bytes, and {_MAX_ALL_METADATA} in all",
            )
        source = member.open_source()
        self._metadata[member.path] = source.read(0, source.size, "metadata")


def _too_deep() -> Fault:
    return Fault(
        "an archive too deep in others to be read",
        found=f"more than {_MAX_DEPTH} around it",
        wanted="packages that hold files",
        fix="verify it by itself",
        damage=True,
    )


def _read_member(member: Member, source: Source, kind: str) -> FileReport:
    findings = Findings(member.path)
    kind = read_file(source, kind, findings)
    linkage = None
    if kind in _HOST_KINDS:
        with findings.keep_damage():
            linkage = _read_linkage(source)
    return _file_report(member, kind, findings, linkage=linkage)


def _read_linkage(source: Source) -> Linkage:
    return read_linkage(source, read_elf(source))


def _file_report(
    member: Member,
    kind: str,
    findings: Findings,
    *,
    named: tuple[str, ...] = (),
    linkage: Linkage | None = None,
) -> FileReport:
    return FileReport(
        member.path,
        member.size,
        kind,
        tuple(sorted({found.target for found in findings.objects})),
        len(findings.objects),
        tuple(findings.faults),
        named,
        linkage,
    )
