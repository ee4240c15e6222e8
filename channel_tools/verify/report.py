"""The result of a verification, for programs and for keeping."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from channel_tools.model.errors import DamagedFileError, VerifyError
from channel_tools.verify.catalogue import rule_of
from channel_tools.verify.findings import Fault
from channel_tools.verify.package_info import PackageInfo

if TYPE_CHECKING:
    from channel_tools.verify.linkage import Linkage
    from channel_tools.verify.policy import AppliedPolicy

FORMAT_VERSION: Final = 1
"""Of the JSON form."""

Verdict = Literal["pass", "fail"]
_FAULTS_IN_SUMMARY: Final = 20
_FLAGS_SHOWN: Final = 20


@dataclass(frozen=True)
class FileReport:
    """One file that may hold GPU code, or data that is named for a GPU.

    ``targets`` are sorted, spelled as the bundle ids spell them (``gfx942:sramecc+:xnack-``); ``objects`` is
    the number of code objects; ``size`` in bytes; ``named`` are the processors that its name claims, of a
    file that holds no code; ``linkage`` is that of a host ELF file.
    """

    path: str
    size: int
    kind: str
    targets: tuple[str, ...] = ()
    objects: int = 0
    faults: tuple[Fault, ...] = ()
    named: tuple[str, ...] = ()
    linkage: Linkage | None = None


@dataclass(frozen=True)
class Entry:
    """Any file of a package. ``sha256`` is what the package's own metadata says, where it says so."""

    size: int
    sha256: str | None = None


@dataclass(frozen=True)
class Taken:
    """A fault that the policy accepts. ``path`` is None for one of the package as a whole."""

    path: str | None
    fault: Fault
    reason: str


@dataclass(frozen=True)
class Report:
    """One package, archive, folder or file.

    ``declared`` is what the package names as its GPU targets, ``want`` what the caller asked for (None: did
    not ask), ``members`` the number of files looked at, ``faults`` those of no single file, ``policy`` what
    it was held against (None: its files are only listed), ``evidence`` what compiler flags were read from,
    ``sha256`` that of the file where it was taken, ``inventory`` every file by path,
    ``compile_commands`` that file of its build record.
    """

    path: str
    kind: str
    size: int
    members: int
    files: tuple[FileReport, ...]
    faults: tuple[Fault, ...]
    package: PackageInfo | None = None
    want: tuple[str, ...] | None = None
    policy: AppliedPolicy | None = None
    evidence: str | None = None
    accepted: tuple[Taken, ...] = ()
    sha256: str | None = None
    inventory: Mapping[str, Entry] = field(default_factory=dict, repr=False)
    compile_commands: bytes | None = field(default=None, repr=False)

    @property
    def declared(self) -> tuple[str, ...]:
        return self.package.declared if self.package else ()

    @property
    def title(self) -> str:
        """Name, version and build of a package, else the path."""
        package = self.package
        if package is None or not package.name:
            return self.path
        return " ".join(part for part in (package.name, package.version, package.build) if part)

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
        return "fail" if self.faults or any(file.faults for file in self.files) else "pass"

    @property
    def damaged(self) -> bool:
        """Were bytes missing or contradicting each other?"""
        return any(fault.damage for _, fault in self.located_faults())

    def to_json(self) -> dict[str, Any]:
        """As :func:`to_json`, of this report alone."""
        return to_json([self])

    def digest(self) -> str:
        """SHA-256 over everything that was found and judged, the same on every machine.

        Paths of the machine and the name of a policy file are not part of it; the policy's content is.
        """
        return self._digest

    @cached_property
    def _digest(self) -> str:
        text = json.dumps(self._canonical(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def summary(self) -> dict[str, Any]:
        """What is kept beside a package: the verdict, what it rests on, the digest of the whole report."""
        from channel_tools import __version__

        lines = [self._without_folder(line) for line in self.all_faults()]
        with_code = [file for file in self.files if file.targets]
        return {
            "version": FORMAT_VERSION,
            "tool": f"rocm-channel {__version__}",
            "verdict": self.verdict,
            "digest": self.digest(),
            "sha256": self.sha256,
            "declared": list(self.declared),
            "want": None if self.want is None else list(self.want),
            "targets": list(self.targets()),
            "files_read": self.members,
            "files_with_code": len(with_code),
            "objects": sum(file.objects for file in with_code),
            "policy": None
            if self.policy is None
            else {
                "sources": [source.rpartition("/")[2] for source in self.policy.sources],
                "digest": self.policy.policy.digest(),
            },
            "evidence": self.evidence,
            "accepted": len(self.accepted),
            "fault_count": len(lines),
            "faults": lines[:_FAULTS_IN_SUMMARY],
        }

    def _canonical(self) -> dict[str, Any]:
        package = _package(self)
        package["path"] = self._without_folder(self.path)
        package["policy"] = self.policy.policy.digest() if self.policy else None
        for key in ("faults", "sha256"):
            del package[key]
        package["details"] = [fault_json(fault) for fault in self.faults]
        files = []
        for file in self.files:
            entry = _file(self, file)
            for key in ("container", "faults"):
                del entry[key]
            files.append({**entry, "linkage": file.linkage.to_json() if file.linkage else None})
        canonical: dict[str, Any] = self._portable({"package": package, "files": files, "want": self.want})
        return canonical

    def _portable(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._without_folder(value)
        if isinstance(value, dict):
            return {key: self._portable(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._portable(item) for item in value]
        return value

    def _without_folder(self, text: str) -> str:
        name = self.path.rstrip("/").rpartition("/")[2]
        return text.replace(self.path, name) if name else text


def exit_code(reports: Sequence[Report]) -> int:
    """0 where all pass; :class:`DamagedFileError`'s where damage is all that is wrong, else VerifyError's."""
    faults = [fault for report in reports for _, fault in report.located_faults()]
    if not faults:
        return 0
    return DamagedFileError.exit_code if all(fault.damage for fault in faults) else VerifyError.exit_code


def worst_first(report: Report) -> Iterator[FileReport]:
    """The files that fail, damaged ones first, then those with code or named for a GPU, each by path."""
    order = {"damaged": 0, "fail": 1, "good": 2}
    shown = [file for file in report.files if file.faults or file.targets or file.named]
    return iter(sorted(shown, key=lambda file: (order[file_state(file)], file.path)))


def file_state(file: FileReport) -> Literal["damaged", "fail", "good"]:
    if not file.faults:
        return "good"
    return "damaged" if any(fault.damage for fault in file.faults) else "fail"


def to_json(reports: Sequence[Report]) -> dict[str, Any]:
    """The JSON form.

    ``packages`` holds one object for each path that was verified, ``files`` one for each file in them that
    may hold GPU code (``container`` is the path of the package), ``faults`` every fault as one line, and
    ``details`` the same faults in parts.
    """
    faults = [line for report in reports for line in report.all_faults()]
    want = next((report.want for report in reports if report.want is not None), None)
    return {
        "version": FORMAT_VERSION,
        "verdict": "fail" if faults else "pass",
        "want": None if want is None else list(want),
        "packages": [{**_package(report), "digest": report.digest()} for report in reports],
        "files": [_file(report, file) for report in reports for file in report.files],
        "faults": faults,
    }


def fault_json(fault: Fault) -> dict[str, Any]:
    return {
        "rule": rule_of(fault).id,
        "what": fault.what,
        "offset": fault.offset,
        "found": fault.found,
        "expected": fault.wanted,
        "do": fault.fix,
        "damage": fault.damage,
    }


def _package(report: Report) -> dict[str, Any]:
    package = report.package or PackageInfo("", "")
    return {
        "path": report.path,
        "kind": report.kind,
        "name": package.name or None,
        "version": package.version or None,
        "build": package.build or None,
        "rocm_version": package.rocm_version,
        "size": report.size,
        "sha256": report.sha256,
        "declared": list(report.declared),
        "targets": list(report.targets()),
        "files_read": report.members,
        "policy": None if report.policy is None else report.policy.to_json(),
        "evidence": report.evidence,
        "verdict": report.verdict,
        "damaged": report.damaged,
        "faults": report.all_faults(),
        "accepted": [
            {"path": taken.path, "reason": taken.reason, **fault_json(taken.fault)}
            for taken in report.accepted
        ],
    }


def _file(report: Report, file: FileReport) -> dict[str, Any]:
    return {
        "path": file.path,
        "container": None if report.kind == "file" else report.path,
        "size": file.size,
        "kind": file.kind,
        "targets": list(file.targets),
        "objects": file.objects,
        "named": list(file.named),
        "faults": [str(fault) for fault in file.faults],
        "details": [fault_json(fault) for fault in file.faults],
        "linkage": None if file.linkage is None else _linkage(file.linkage),
    }


def _linkage(linkage: Linkage) -> dict[str, Any]:
    """Without most of the recorded command lines, of which a large library has megabytes."""
    return {
        **linkage.to_json(),
        "flags": list(linkage.flags[:_FLAGS_SHOWN]),
        "flag_lines": len(linkage.flags),
    }
