"""What ``env check`` can find, and how a finding reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

KINDS: Final[dict[str, str]] = {
    "record-unreadable": "a file of conda-meta that cannot be read",
    "unfinished": "an installation that was broken off",
    "dependency-missing": "packages that installed ones depend on, and that are not installed",
    "dependency-unmet": "packages that others want another version or build of",
    "two-records": "two packages of one name in conda-meta, as two of amdgpu-arch",
    "package-gone": "a package in conda-meta whose files are gone",
    "file-missing": "files of a package that are not there",
    "file-altered": "files that are not as they were installed",
    "file-replaced": "links, folders or files that became something else",
    "file-foreign": "files of no package in a module of a package with GPU code",
    "pip-over-conda": "a distribution that pip installed over a conda package",
    "two-distributions": "two distributions with one module, as two Tritons",
    "shadowed": "a module outside of the environment that Python takes first",
    "arch-mixed": "packages for more than one GPU arch",
    "arch-other": "packages for another GPU arch than the host's, or the declared one",
    "arch-unguarded": "packages with GPU code and no amdgpu-arch that ties them together",
    "rocm-mixed": "packages for more than one ROCm release",
    "rocm-other": "packages for another ROCm release than the host's, or the declared one",
    "rocm-library-missing": "a library of ROCm that is not on this host",
    "library-missing": "a library that a package with GPU code needs and that is nowhere",
    "code-other": "GPU code for another arch than the package declares",
    "code-damaged": "GPU code that cannot be read",
}
"""Every kind of finding, with what it means."""

_FILES_SHOWN: Final = 5


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    ``kind`` is a key of :data:`KINDS`; ``where`` a path below the prefix, or an absolute one outside of it;
    ``files`` are all paths that it concerns.
    """

    kind: str
    what: str
    where: str
    found: str | None = None
    wanted: str | None = None
    fix: str | None = None
    package: str | None = None
    files: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "files": list(self.files)}

    def lines(self) -> list[str]:
        """For a terminal: the first files only."""
        details = [("found", self.found), ("wanted", self.wanted), ("fix", self.fix)]
        if len(self.files) > 1:
            details.insert(0, ("files", listed(self.files)))
        return [
            f"{self.where}: {self.what} [{self.kind}]",
            *(f"  {label}: {text}" for label, text in details if text),
        ]


def listed(names: tuple[str, ...] | list[str], most: int = _FILES_SHOWN) -> str:
    """The first few of many names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
