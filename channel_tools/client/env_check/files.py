"""Are the files of an environment those that were installed? Each is read once, by several threads."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from channel_tools.client.env_check.findings import Finding
from channel_tools.client.env_check.package import Entry, Package
from channel_tools.client.env_check.prefix import Prefix
from channel_tools.verify.files import HEAD_SIZE, kind_of

Progress = Callable[[int, int], None]
"""Told how many bytes of how many were read."""

State = Literal["ok", "missing", "altered", "replaced"]

_CHUNK: Final = 1 << 20
_SHORT: Final = 12
_BINARY_FOLDERS: Final = ("bin/", "libexec/", "sbin/")
_BINARY_PARTS: Final = (".so", ".hsaco", ".co", ".kpack", ".aks2", ".hipfb", ".a", ".o")


@dataclass(frozen=True)
class Actual:
    """What lies at a path.

    ``type`` is ``file``, ``link``, ``folder``, ``other`` or ``missing``. ``size`` (bytes) and ``sha256``
    (None: not read) are of the content, through a link; ``target`` is a link's text, ``kind`` of
    :func:`channel_tools.verify.files.kind_of`, ``shared`` whether the inode has other names, too.
    """

    type: str
    size: int = 0
    sha256: str | None = None
    target: str | None = None
    kind: str | None = None
    shared: bool = False


@dataclass(frozen=True)
class Scan:
    """Every path that a package names; ``read`` in bytes."""

    actual: Mapping[str, Actual]
    read: int

    def state(self, entry: Entry, prefix: Path) -> State:
        """Is this path as its package has it?"""
        actual = self.actual[entry.path]
        if actual.type == "missing":
            return "missing"
        if entry.kind == "folder":
            return "ok" if actual.type in ("folder", "link") else "replaced"
        if entry.kind == "link":
            return _link_state(entry, actual)
        if actual.type not in ("file", "link"):
            return "replaced"
        other = "altered" if actual.type == "file" else "replaced"
        if entry.size is not None and actual.size != entry.size:
            return other  # type: ignore[return-value]
        if actual.sha256 is None or not (entry.sha256 or entry.placeholder):
            return "ok"
        if actual.sha256 in entry.sha256 or _was_packed(entry, prefix):
            return "ok"
        return other  # type: ignore[return-value]


def scan(prefix: Prefix, quick: bool, progress: Progress) -> Scan:
    """Look at each path once.

    :param quick: do not read contents, but for the first bytes of what may be a binary
    """
    wanted = sorted({path for one in (*prefix.records, *prefix.distributions) for path in one.paths})
    sizes = {path: _size(prefix.path / path) for path in wanted}
    total, done = sum(sizes.values()), 0
    found: dict[str, Actual] = {}
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
        for path, actual in zip(
            wanted, threads.map(lambda path: _look(prefix.path, path, quick), wanted), strict=True
        ):
            found[path] = actual
            done += sizes[path]
            progress(done, total)
    return Scan(found, 0 if quick else done)


def file_findings(
    prefix: Prefix, looked: Scan, packages: Iterable[Package], excused: Mapping[str, frozenset[str]]
) -> list[Finding]:
    """One finding for each package and each thing that happened to files of it.

    :param excused: paths, by the ``info`` of the package, that another finding speaks of
    """
    findings = []
    for package in packages:
        states: dict[State, list[str]] = {}
        for entry in package.entries:
            if entry.path in excused.get(package.info, ()):
                continue
            state = looked.state(entry, prefix.path)
            if state != "ok" and not _as_another_has_it(entry, package, prefix, looked):
                states.setdefault(state, []).append(entry.path)
        findings += _of_package(package, states, prefix, looked)
    return findings


def _of_package(
    package: Package, states: Mapping[State, list[str]], prefix: Prefix, looked: Scan
) -> list[Finding]:
    findings = []
    missing = states.get("missing", [])
    real = [entry.path for entry in package.entries if entry.kind != "folder"]
    if real and len(missing) >= len(real):
        findings.append(
            Finding(
                "package-gone",
                f"{package} is recorded as installed, and all of its files are gone",
                package.info,
                found=f"none of {len(real)} files",
                wanted="all of them",
                fix=reinstall(package, prefix.path),
                package=str(package),
                files=tuple(missing),
            )
        )
    elif missing:
        findings.append(_finding("file-missing", "is not there", "nothing", package, missing, prefix))
    if altered := states.get("altered"):
        first = next(entry for entry in package.entries if entry.path == altered[0])
        actual = looked.actual[altered[0]]
        finding = _finding(
            "file-altered", "is not as it was installed", _content(actual), package, altered, prefix
        )
        shared = any(looked.actual[path].shared for path in altered)
        again = reinstall(package, prefix.path)
        if shared and package.cache:
            again = f"the package cache has the same file, so first: rm -r {package.cache}; then {again}"
        findings.append(Finding(**{**finding.__dict__, "wanted": _wanted(first, actual), "fix": again}))
    if replaced := states.get("replaced"):
        actual = looked.actual[replaced[0]]
        found = f"a link to {actual.target}" if actual.target is not None else f"a {actual.type}"
        findings.append(_finding("file-replaced", "became something else", found, package, replaced, prefix))
    return findings


def _finding(kind: str, what: str, found: str, package: Package, paths: list[str], prefix: Prefix) -> Finding:
    count = "" if len(paths) == 1 else f", and {len(paths) - 1} more"
    return Finding(
        kind,
        f"a file of {package} {what}{count}",
        paths[0],
        found=found,
        wanted=f"as {package.name} has it",
        fix=reinstall(package, prefix.path),
        package=str(package),
        files=tuple(paths),
    )


def reinstall(package: Package, prefix: Path) -> str:
    """What a user does to have the files of a package again."""
    if not package.by_conda:
        wanted = f"{package.name}=={package.version}"
        return f"{prefix}/bin/python -m pip install --force-reinstall --no-deps '{wanted}'"
    spec = f"{package.name}={package.version}={package.build}"
    return (
        f"conda install -p {prefix} --force-reinstall '{spec}', pixi reinstall {package.name}, "
        "or make the environment anew"
    )


def _content(actual: Actual) -> str:
    if actual.size < 0:
        return "a file that cannot be read"
    digest = "" if actual.sha256 is None else f", sha256 {actual.sha256[:_SHORT]}..."
    return f"{actual.size} bytes{digest}"


def _wanted(entry: Entry, actual: Actual) -> str:
    size = "" if entry.size is None else f"{entry.size} bytes"
    digest = min(entry.sha256, default="")
    shown = f"sha256 {digest[:_SHORT]}..." if digest and actual.sha256 is not None else ""
    return ", ".join(part for part in (size, shown) if part) or "as it was packed"


def _link_state(entry: Entry, actual: Actual) -> State:
    if actual.type != "link" or actual.target is None:
        return "replaced"
    digests = {hashlib.sha256(actual.target.encode()).hexdigest(), actual.sha256}
    return "ok" if not entry.sha256 or digests & entry.sha256 else "replaced"


def _as_another_has_it(entry: Entry, package: Package, prefix: Prefix, looked: Scan) -> bool:
    """Did another conda package bring this path, so that the later one counts?"""
    return package.by_conda and any(
        looked.state(other, prefix.path) == "ok"
        for owner in prefix.owners.get(entry.path, ())
        if owner is not package
        for other in owner.entries
        if other.path == entry.path
    )


def _was_packed(entry: Entry, prefix: Path) -> bool:
    """A text with the prefix in it, of which only the digest before that is known: turn it back."""
    if entry.placeholder is None:
        return False
    try:
        content = (prefix / entry.path).read_bytes()
    except OSError:
        return False
    packed = content.replace(str(prefix).encode(), entry.placeholder.encode())
    return hashlib.sha256(packed).hexdigest() == entry.packed


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _look(prefix: Path, path: str, quick: bool) -> Actual:
    full = prefix / path
    try:
        status = full.lstat()
    except OSError:
        return Actual("missing")
    if stat.S_ISDIR(status.st_mode):
        return Actual("folder")
    target = None
    if stat.S_ISLNK(status.st_mode):
        target = str(full.readlink())
    elif not stat.S_ISREG(status.st_mode):
        return Actual("other")
    kind, size, digest = _read(full, path, quick)
    shared = target is None and status.st_nlink > 1
    return Actual("file" if target is None else "link", size, digest, target, kind, shared)


def _read(full: Path, path: str, quick: bool) -> tuple[str | None, int, str | None]:
    """Kind, size and digest of what is there; nothing of a link that leads nowhere or to a folder."""
    may_be_binary = path.startswith(_BINARY_FOLDERS) or any(
        part in path.rpartition("/")[2] for part in _BINARY_PARTS
    )
    try:
        if not full.is_file():
            return None, 0, None
        if quick and not may_be_binary:
            return None, full.stat().st_size, None
        with full.open("rb", buffering=0) as stream:
            size = os.fstat(stream.fileno()).st_size
            head = stream.read(_CHUNK) or b""
            kind = kind_of(path, head[:HEAD_SIZE])
            if quick:
                return kind, size, None
            digest = hashlib.sha256(head)
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
            return kind, size, digest.hexdigest()
    except OSError:
        return None, -1, "unreadable"
