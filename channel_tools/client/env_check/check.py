"""Is an installed environment what was installed, for one GPU arch, and for this host?

Reads only, but for the cache of what verify has read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.client.env_check.arch import (
    Wanted,
    arch_findings,
    rocm_findings,
    wanted,
)
from channel_tools.client.env_check.code import code_findings
from channel_tools.client.env_check.files import Scan, file_findings, scan
from channel_tools.client.env_check.findings import Finding
from channel_tools.client.env_check.links import link_findings, read_links
from channel_tools.client.env_check.package import Package
from channel_tools.client.env_check.prefix import Prefix, read_prefix
from channel_tools.client.env_check.python import (
    foreign,
    foreign_files,
    pip_over_conda,
    shadows,
    two_distributions,
)
from channel_tools.client.env_check.records import (
    missing_dependencies,
    two_records,
    unfinished,
    unmet_dependencies,
)
from channel_tools.client.host import Host
from channel_tools.model.errors import EnvironmentCheckError

Progress = Callable[[str, int, int], None]
"""Told what is done, and how many bytes of how many."""


@dataclass(frozen=True)
class EnvironmentCheck:
    """What was found. ``ours`` are packages with GPU code, ``targets`` those of each file that was read."""

    prefix: Prefix
    quick: bool
    want: Wanted
    host: Host
    ours: tuple[Package, ...]
    looked: Scan
    targets: Mapping[str, tuple[str, ...]]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "version": 1,
            "prefix": str(self.prefix.path),
            "quick": self.quick,
            "host": {
                "archs": [one.target for one in self.host.archs],
                "rocm": self.host.rocm,
                "rocm_root": None if self.host.rocm_root is None else str(self.host.rocm_root),
            },
            "wanted": {
                "archs": list(self.want.archs),
                "rocm": self.want.rocm,
                "declared": self.want.declared,
            },
            "packages": {
                "conda": len(self.prefix.records),
                "python": len(self.prefix.distributions),
                "gpu": [
                    {
                        "name": one.name,
                        "version": one.version,
                        "build": one.build or None,
                        "source": one.source,
                        "archs": list(one.archs),
                        "rocm": one.rocm,
                    }
                    for one in self.ours
                ],
            },
            "files": len(self.looked.actual),
            "bytes_read": self.looked.read,
            "code": {path: list(targets) for path, targets in sorted(self.targets.items())},
            "findings": [finding.to_json() for finding in self.findings],
            "notes": list(self.notes),
            "damage": bool(self.findings),
        }


def check_environment(
    path: Path,
    host: Host,
    *,
    arch: str | None = None,
    rocm: str | None = None,
    quick: bool = False,
    environ: Mapping[str, str] | None = None,
    progress: Progress = lambda what, done, total: None,
) -> EnvironmentCheck:
    """Look at all of an environment; what is wrong is collected, never raised.

    :param arch: GPU target that it is for, in place of the host's
    :param rocm: ROCm release (X.Y) that it is for, in place of the host's
    :param quick: read no contents: neither hashes nor GPU code
    :param environ: variables that Python takes module folders from (default: this process's)
    :raises EnvironmentCheckError: the folder is no environment
    """
    prefix = read_prefix(path.absolute())
    if prefix is None:
        raise EnvironmentCheckError(
            "is no environment",
            where=path,
            found="neither conda-meta nor pyvenv.cfg" if path.is_dir() else "no folder",
            wanted="the folder that an environment was installed into",
        )
    want = wanted(prefix.path, host, arch, rocm)
    looked = scan(prefix, quick, lambda done, total: progress("reading files", done, total))
    others = foreign(prefix, looked)
    ours = tuple(one for one in (*prefix.records, *others) if one.is_ours)
    over, excused = pip_over_conda(prefix, looked, others)
    links = read_links(prefix, looked, ours)
    broken, notes = link_findings(prefix, links, want, bool(host.archs))
    code, targets = ([], {}) if quick else _code(prefix, looked, ours, want, progress)
    damaged = file_findings(prefix, looked, (*prefix.records, *others), excused)
    changed = {file for finding in damaged for file in finding.files}
    findings = (
        *unfinished(prefix),
        *prefix.faults,
        *two_records(prefix),
        *missing_dependencies(prefix),
        *unmet_dependencies(prefix),
        *arch_findings(prefix, ours, want),
        *rocm_findings(ours, want),
        *over,
        *two_distributions(prefix),
        *shadows(prefix, os.environ if environ is None else environ),
        *damaged,
        *foreign_files(prefix),
        *(one for one in code if one.kind != "code-damaged" or not changed.issuperset(one.files)),
        *broken,
    )
    notes = [*_notes(ours, want, host), *notes]
    return EnvironmentCheck(prefix, quick, want, host, ours, looked, targets, findings, tuple(notes))


def _code(
    prefix: Prefix, looked: Scan, ours: tuple[Package, ...], want: Wanted, progress: Progress
) -> tuple[list[Finding], dict[str, tuple[str, ...]]]:
    binaries = {
        p for one in ours for p in one.paths if looked.actual[p].kind and looked.actual[p].type == "file"
    }
    total, done = sum(looked.actual[path].size for path in binaries), 0

    def read(size: int) -> None:
        nonlocal done
        done += size
        progress("reading GPU code", done, total)

    return code_findings(prefix, looked, ours, want, read)


def _notes(ours: tuple[Package, ...], want: Wanted, host: Host) -> list[str]:
    notes = []
    if not ours:
        notes.append("no package of this environment names a GPU arch or a ROCm release")
    elif not want.archs:
        notes.append("this host has no AMD GPU that was found: the arch was compared with nothing (--arch)")
    if any(one.rocm for one in ours) and want.rocm is None:
        notes.append("this host has no ROCm that was found: the release was compared with nothing (--rocm)")
    if want.declared and host.archs and not {one.target for one in host.archs} & set(want.archs):
        notes.append(
            f"this host has {', '.join(str(one) for one in host.archs)}; {want.archs[0]} was declared"
        )
    return notes
