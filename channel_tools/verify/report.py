"""The result of a verification, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from channel_tools.model.errors import DamagedFileError, VerifyError
from channel_tools.verify.findings import Fault
from channel_tools.verify.package_info import PackageInfo

FORMAT_VERSION: Final = 1
"""Of the JSON form."""

Verdict = Literal["pass", "fail"]


@dataclass(frozen=True)
class FileReport:
    """One file that may hold GPU code.

    ``targets`` are sorted, spelled as the bundle ids spell them (``gfx942:sramecc+:xnack-``); ``objects`` is
    the number of code objects; ``size`` in bytes.
    """

    path: str
    size: int
    kind: str
    targets: tuple[str, ...] = ()
    objects: int = 0
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class Report:
    """One package, archive, folder or file.

    ``declared`` is what the package names as its GPU targets, ``want`` what the caller asked for (None: did
    not ask), ``members`` the number of files looked at, ``faults`` those of no single file.
    """

    path: str
    kind: str
    size: int
    members: int
    files: tuple[FileReport, ...]
    faults: tuple[Fault, ...]
    package: PackageInfo | None = None
    want: tuple[str, ...] | None = None

    @property
    def declared(self) -> tuple[str, ...]:
        return self.package.declared if self.package else ()

    def targets(self) -> tuple[str, ...]:
        """Every target found, sorted."""
        return tuple(sorted({target for file in self.files for target in file.targets}))

    def located_faults(self) -> list[tuple[str, Fault]]:
        """Each fault with the path that it concerns, the container in front where there is one."""
        return [
            *((self.path, fault) for fault in self.faults),
            *(
                (file.path if self.kind == "file" else f"{self.path}: {file.path}", fault)
                for file in self.files
                for fault in file.faults
            ),
        ]

    def all_faults(self) -> list[str]:
        """Each fault as one line: path, place, what is wrong, what was found and expected, what to do."""
        return [f"{path}: {fault}" for path, fault in self.located_faults()]

    @property
    def verdict(self) -> Verdict:
        return "fail" if self.located_faults() else "pass"

    @property
    def damaged(self) -> bool:
        """Were bytes missing or contradicting each other?"""
        return any(fault.damage for _, fault in self.located_faults())

    def to_json(self) -> dict[str, Any]:
        """As :func:`to_json`, of this report alone."""
        return to_json([self])


def exit_code(reports: Sequence[Report]) -> int:
    """0 where all pass; :class:`DamagedFileError`'s where damage is all that is wrong, else VerifyError's."""
    faults = [fault for report in reports for _, fault in report.located_faults()]
    if not faults:
        return 0
    return DamagedFileError.exit_code if all(fault.damage for fault in faults) else VerifyError.exit_code


def to_json(reports: Sequence[Report]) -> dict[str, Any]:
    """The JSON form.

    ``packages`` holds one object for each path that was verified, ``files`` one for each file in them that
    may hold GPU code (``container`` is the path of the package), ``faults`` every fault as one line.
    """
    faults = [line for report in reports for line in report.all_faults()]
    want = next((report.want for report in reports if report.want is not None), None)
    return {
        "version": FORMAT_VERSION,
        "verdict": "fail" if faults else "pass",
        "want": None if want is None else list(want),
        "packages": [_summary(report) for report in reports],
        "files": [_file(report, file) for report in reports for file in report.files],
        "faults": faults,
    }


def _summary(report: Report) -> dict[str, Any]:
    package = report.package or PackageInfo("", "")
    return {
        "path": report.path,
        "kind": report.kind,
        "name": package.name or None,
        "version": package.version or None,
        "build": package.build or None,
        "rocm_version": package.rocm_version,
        "size": report.size,
        "declared": list(report.declared),
        "targets": list(report.targets()),
        "files_read": report.members,
        "verdict": report.verdict,
        "damaged": report.damaged,
        "faults": report.all_faults(),
    }


def _file(report: Report, file: FileReport) -> dict[str, Any]:
    return {
        "path": file.path,
        "container": None if report.kind == "file" else report.path,
        "size": file.size,
        "kind": file.kind,
        "targets": list(file.targets),
        "objects": file.objects,
        "faults": [str(fault) for fault in file.faults],
    }
