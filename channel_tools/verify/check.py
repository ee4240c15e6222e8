"""Verify a package, archive, folder or file: read every file in it, then compare with what is declared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from channel_tools.model.errors import VerifyError
from channel_tools.model.package import SUFFIXES
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
from channel_tools.verify.files import HEAD_SIZE, kind_of, read_file
from channel_tools.verify.findings import Fault, Findings
from channel_tools.verify.report import FileReport, Report
from channel_tools.verify.rules import compare_files, compare_whole
from channel_tools.verify.source import DamageError, Source, printable
from channel_tools.verify.streams import Budget, Limits
from channel_tools.verify.targets import Target

Progress = Callable[[str], None]

_MAX_DEPTH: Final = 3
_MAX_METADATA: Final = 16 << 20


def parse_want(text: str) -> frozenset[str]:
    """Read ``gfx90a,gfx942``.

    :raises ValueError: an empty list, or a word that is no GPU target
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise ValueError(f"{text!r} names no GPU target: wanted names such as gfx90a,gfx942")
    return frozenset(str(Target.parse(word)) for word in words)


def packages_under(path: Path) -> list[Path]:
    """The packages of a channel folder, sorted; ``[path]`` for everything else.

    A channel is a folder with conda packages in itself or in a platform folder below, or with an index.

    :raises VerifyError: a channel without a package
    """
    if not path.is_dir() or (path / "conda-meta").is_dir() or (path / package_info.INDEX).is_file():
        return [path]
    levels = (path, *(child for child in sorted(path.iterdir()) if child.is_dir() and not child.is_symlink()))
    marks = (*SUFFIXES, "repodata.json", "channeldata.json")
    if not any(entry.name.endswith(marks) for level in levels for entry in level.iterdir()):
        return [path]
    packages = sorted(found for found in path.rglob("*") if found.name.endswith(SUFFIXES) and found.is_file())
    if not packages:
        raise VerifyError("a channel without a package", where=path, wanted="at least one package")
    return packages


def verify_path(
    path: Path,
    want: frozenset[str] | None = None,
    *,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> Report:
    """Read every file of ``path`` and compare its GPU code with ``want``, or with what the package declares.

    The union of the targets must equal the expected set, and each file's targets must be a subset of it;
    targets compare as text, so ``gfx942:xnack-`` is not ``gfx942``. With neither ``want`` nor a declaration
    a conda package with device code fails; anything else is only listed, and damage alone fails it.

    :param path: a conda package, wheel, zip, tar, folder, prefix or single file
    :param progress: called with the name of each file that is read
    :raises VerifyError: no such path
    """
    if not path.exists():
        raise VerifyError("no such file or folder", where=path, fix="check the path")
    verification = _Verification(path, want, progress, limits or Limits())
    return verification.folder() if path.is_dir() else verification.file()


class _Verification:
    """Collects the files of one path."""

    def __init__(
        self, path: Path, want: frozenset[str] | None, progress: Progress | None, limits: Limits
    ) -> None:
        self._path = path
        self._want = want
        self._progress = progress
        self._limits = limits
        self._members = 0
        self._size = 0
        self._files: list[FileReport] = []
        self._metadata: dict[str, bytes] = {}
        self._name = printable(str(path))
        self._whole = Findings(self._name)

    def folder(self) -> Report:
        kind = "prefix" if (self._path / "conda-meta").is_dir() else "folder"
        budget = Budget(self._name, self._limits.unpacked, self._limits)
        self._visit_all(folder_members(self._path, budget), budget)
        return self._report("extracted package" if package_info.INDEX in self._metadata else kind, 0)

    def file(self) -> Report:
        kind = "file"
        size = 0
        with self._whole.keep_damage(), open_regular(self._path) as source:
            size = source.size
            head = source.peek(0, HEAD_SIZE)
            container = None if kind_of(source.name, head) else container_kind(source.name, source)
            if container:
                kind = container
                budget = Budget(source.name, size, self._limits)
                self._visit_all(container_members(source.name, kind, source, budget), budget)
            else:
                self._visit(Member(source.name, size, head, opener=lambda: source), None, 0)
        if kind == "conda package" and package_info.INDEX not in self._metadata and not self._whole.faults:
            self._whole.faults.append(
                Fault("no conda package", found=f"no {package_info.INDEX}", wanted="one", damage=True)
            )
        return self._report(kind, size)

    def _visit_all(self, members: Iterator[Member], budget: Budget) -> None:
        with self._whole.keep_damage():
            for member in members:
                self._visit(member, budget, 0)

    def _visit(self, member: Member, budget: Budget | None, depth: int) -> None:
        self._members += 1
        self._size += member.size if depth == 0 else 0
        if self._progress:
            self._progress(member.path)
        if member.fault:
            if depth:
                return  # an archive in a package is data: nothing unpacks it
            self._files.append(FileReport(member.path, member.size, "entry", faults=(member.fault,)))
            return
        kind = kind_of(member.path, member.head)
        if kind:
            self._files.append(_read_member(member, kind))
        elif depth == 0 and _is_metadata(member.path):
            self._keep_metadata(member)
        elif budget and depth < _MAX_DEPTH and may_be_container(member.head):
            source = member.open_source()
            inner_kind = nested_kind(source)
            if inner_kind:
                self._visit_nested(member, inner_kind, source, budget, depth)

    def _visit_nested(self, member: Member, kind: str, source: Source, budget: Budget, depth: int) -> None:
        findings = Findings(member.path)
        with findings.keep_damage():
            for inner in container_members(member.path, kind, source, budget):
                path = f"{member.path}!{inner.path}"
                inside = Member(path, inner.size, inner.head, inner.fault, inner.opener)
                self._visit(inside, budget, depth + 1)
        if findings.faults:
            self._files.append(FileReport(member.path, member.size, "archive", faults=tuple(findings.faults)))

    def _keep_metadata(self, member: Member) -> None:
        if member.size > _MAX_METADATA:
            raise DamageError(
                "metadata", where=member.path, found=f"{member.size} bytes", wanted=f"at most {_MAX_METADATA}"
            )
        source = member.open_source()
        self._metadata[member.path] = source.read(0, source.size, "metadata")

    def _report(self, kind: str, size: int) -> Report:
        package, faults = package_info.read_conda_info(self._metadata)
        is_conda = package is not None
        for name, raw in self._metadata.items():
            if package is None and package_info.WHEEL_METADATA.fullmatch(name):
                package = package_info.read_wheel_info(raw)
        if is_conda and kind == "tar":
            kind = "conda package"
        targets = frozenset(target for file in self._files for target in file.targets)
        faults = self._whole.faults + faults
        damaged = any(fault.damage for fault in [*faults, *(f for file in self._files for f in file.faults)])
        faults += compare_whole(targets, package if is_conda else None, self._want, damaged=damaged)
        expected, whose = self._want, "as asked for"
        if expected is None:
            expected, whose = frozenset(package.declared if package else ()), "as the package declares"
        return Report(
            path=self._name,
            kind=kind,
            size=size or self._size,
            members=self._members,
            files=compare_files(sorted(self._files, key=lambda file: file.path), expected, whose),
            faults=tuple(faults),
            package=package,
            want=None if self._want is None else tuple(sorted(self._want)),
        )


def _is_metadata(path: str) -> bool:
    return path in (package_info.INDEX, package_info.ABOUT) or bool(
        package_info.WHEEL_METADATA.fullmatch(path)
    )


def _read_member(member: Member, kind: str) -> FileReport:
    findings = Findings(member.path)
    source = member.open_source()
    kind = read_file(source, kind, findings)
    return FileReport(
        member.path,
        member.size,
        kind,
        tuple(sorted({found.target for found in findings.objects})),
        len(findings.objects),
        tuple(findings.faults),
    )
