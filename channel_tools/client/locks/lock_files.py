"""Every kind of lock file, read to the same thing: environments with the exact files of their packages.

======================  ==========================================================================
``@EXPLICIT``           CEP 23: URLs with a digest; has one environment
``pixi.lock``           rattler's lock file, versions 1 to 7, read by py-rattler: several environments
``conda-lock.yml``      CEP 37: one environment a platform
``environment.yml``     pinned, each package as ``name=version=build``: has no URLs, so nothing can be fetched
                        by it, but it can be checked
======================  ==========================================================================

The text is foreign: addresses that lead to no package of a channel, digests that are none and names that
differ from their address are refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from channel_tools import rattler_process
from channel_tools.channel.care.locks import explicit_entries
from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE, SUBDIRS
from channel_tools.client.addresses import Place, build_of, place_of, without_credentials
from channel_tools.model.errors import ChannelToolsError, LockError
from channel_tools.model.files import reason
from channel_tools.model.redaction import redact

Format = Literal["explicit", "rattler", "conda-lock", "environment"]

LIMIT = 64 << 20
"""Bytes of a lock file that are read."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MD5 = re.compile(r"[0-9a-f]{32}")
_CHANNEL = re.compile(r"^#\s*channel:\s*(\S+)\s*$", re.M)
_OTHER_SYSTEM = re.compile(r"(?:osx|win|emscripten|wasi|zos|freebsd)-|linux-(?!64\b)")
_GFX = re.compile(r"(?:^|[_-])(gfx[0-9a-f]{3,})(?=[_-]|$)")


@dataclass(frozen=True)
class LockedPackage:
    """A package that a lock names; ``url`` is None in an environment.yml; ``size`` in bytes."""

    name: str
    version: str
    build: str
    url: str | None = None
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None

    @property
    def place(self) -> Place | None:
        return None if self.url is None else place_of(self.url)

    @property
    def file(self) -> str:
        """File name; without suffix where no address is known."""
        place = self.place
        return f"{self.name}-{self.version}-{self.build}" if place is None else place.file

    @property
    def arch(self) -> str | None:
        """GPU target that its build string names."""
        match = _GFX.search(self.build)
        return match[1] if match else None


@dataclass(frozen=True)
class LockedEnvironment:
    """One environment for one platform; ``channels`` in their order, without credentials.

    ``other`` has the names of packages that are not conda's.
    """

    name: str
    platform: str
    channels: tuple[str, ...]
    packages: tuple[LockedPackage, ...]
    other: tuple[str, ...] = ()

    @property
    def arch(self) -> str | None:
        """The GPU target that it is for."""
        return next((one.arch for one in self.packages if one.name == ARCH_PACKAGE), None)

    @property
    def rocm(self) -> str | None:
        """The ROCm release that it is for, X.Y."""
        return next((one.version for one in self.packages if one.name == ROCM_PACKAGE), None)

    @property
    def is_of_other_system(self) -> bool:
        """Is it for another system than linux-64, for which there are no packages of ours?"""
        subdirs = {place.subdir for one in self.packages if (place := one.place) is not None}
        return bool(_OTHER_SYSTEM.match(self.platform) or subdirs - set(SUBDIRS))

    @property
    def title(self) -> str:
        return " ".join(dict.fromkeys(part for part in (self.name, self.platform) if part))


@dataclass(frozen=True)
class Lock:
    """A lock file that was read."""

    path: Path
    format: Format
    environments: tuple[LockedEnvironment, ...]

    @property
    def packages(self) -> tuple[LockedPackage, ...]:
        """Each package once, of whatever environment."""
        return tuple(dict.fromkeys(one for environment in self.environments for one in environment.packages))


def read_lock_file(path: Path) -> Lock:
    """Read a lock file of any kind.

    :raises LockError: it cannot be read, is of no kind that is known, or says something that cannot be right
    """
    try:
        if path.stat().st_size > LIMIT:
            raise LockError("is too large for a lock file", where=path, wanted=f"at most {LIMIT >> 20} MiB")
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise LockError("cannot be read as a lock file", where=path, found=reason(error)) from error
    try:
        return _read(path, text)
    except ChannelToolsError as error:
        error.where = f"{path}: {error.where}" if error.where and error.where != str(path) else str(path)
        if isinstance(error, LockError):
            raise
        raise LockError(
            error.what, where=error.where, found=error.found, wanted=error.wanted, fix=error.fix
        ) from error


def read_lock(
    path: Path, arch: str | None = None, here: Collection[str] = ()
) -> list[tuple[str, str | None]]:
    """URL and sha256 of each package of one environment.

    :param arch: GPU target, where the file has environments of several
    :param here: GPU targets of this host, by which it is chosen where no arch is given
    :raises LockError: as :func:`read_lock_file`; no such environment, or several; it has no URLs, or two
        packages of one name
    """
    packages = tuple(dict.fromkeys(choose(read_lock_file(path), arch, here).packages))
    counts = Counter(one.name for one in packages)
    if twice := [redact(one.url or one.file) for one in packages if counts[one.name] > 1]:
        raise LockError(
            "names several packages of one name, and an environment holds one",
            where=path,
            found=", ".join(twice),
            fix="pin it again; for a list of files to mirror, use `rocm-channel mirror`",
        )
    return [(_url(path, one), one.sha256) for one in packages]


def choose(lock: Lock, arch: str | None = None, here: Collection[str] = ()) -> LockedEnvironment:
    """The environment for a GPU target. Those of other systems do not count.

    :param arch: None: the only one, or of several the only one for a GPU of this host
    :param here: GPU targets of this host
    :raises LockError: there is none, or several
    """
    fitting = [one for one in usable(lock) if arch is None or one.arch in (None, arch)]
    exact = [one for one in fitting if one.arch in ((arch,) if arch else here)]
    found = fitting if len(fitting) == 1 else exact or fitting
    if len(found) == 1:
        return found[0]
    raise LockError(
        "has no environment for that GPU" if not found else "has several environments",
        where=lock.path,
        found=_titles(lock),
        wanted=arch or "one",
        fix="name the GPU with --arch"
        if len({one.arch for one in found}) != 1
        else "use the file of a single environment, as the explicit.txt that `rocm-channel pin` wrote",
    )


def usable(lock: Lock) -> list[LockedEnvironment]:
    """The environments for linux-64.

    :raises LockError: there is none
    """
    if not lock.environments:
        raise LockError("has no environment", where=lock.path)
    found = [one for one in lock.environments if not one.is_of_other_system]
    if not found:
        raise LockError("is for another system", where=lock.path, found=_titles(lock), wanted="linux-64")
    return found


def _titles(lock: Lock) -> str:
    return ", ".join(f"{one.title} ({one.arch or 'no GPU'})" for one in lock.environments)


def _url(path: Path, package: LockedPackage) -> str:
    if package.url is None:
        raise LockError(
            "pins versions and builds, but not files",
            where=path,
            fix="use the explicit.txt, conda-lock.yml or pixi.lock that were written beside it",
        )
    return package.url


def _read(path: Path, text: str) -> Lock:
    if any(line.strip() == "@EXPLICIT" for line in text.splitlines()):
        return Lock(path, "explicit", (_explicit(text),))
    from channel_tools.client.locks.yaml_text import load_mapping

    data = load_mapping(text)
    if "dependencies" in data:
        from channel_tools.client.locks.environment_yml import read_pinned

        return Lock(path, "environment", (read_pinned(data),))
    if "metadata" in data and "package" in data:
        from channel_tools.client.locks.conda_lock import read_conda_lock

        return Lock(path, "conda-lock", read_conda_lock(data))
    if "environments" in data and "packages" in data:
        return Lock(path, "rattler", _rattler(path))
    raise LockError(
        "is no lock file of a kind that is known here",
        wanted="an explicit list (@EXPLICIT), pixi.lock, conda-lock.yml or a pinned environment.yml",
    )


def _explicit(text: str) -> LockedEnvironment:
    packages = tuple(package(one.url, one.sha256, one.md5) for one in explicit_entries(text))
    listed = tuple(without_credentials(url) for url in _CHANNEL.findall(text))
    return LockedEnvironment("", "linux-64", listed or channels_of(packages), packages)


def _rattler(path: Path) -> tuple[LockedEnvironment, ...]:
    try:
        found: list[dict[str, Any]] = rattler_process.call("read_lock", {"path": str(path.resolve())})
    except rattler_process.RattlerCallError as error:
        raise LockError("is no lock file that can be used", found=redact(str(error).strip())) from error
    return tuple(
        LockedEnvironment(
            one["name"],
            one["platform"],
            tuple(without_credentials(url) for url in one["channels"]),
            tuple(_of_rattler(path, data) for data in one["packages"]),
            tuple(one["other"]),
        )
        for one in sorted(found, key=lambda one: (one["name"], one["platform"]))
    )


def _of_rattler(path: Path, data: dict[str, Any]) -> LockedPackage:
    location = data["location"]
    if "://" not in location:  # how rattler writes files of this machine, and files beside the lock
        location = (path.parent.resolve() / location).resolve().as_uri()
    found = package(location, data["sha256"], data["md5"], data["size"])
    if data["name"] is not None and data["name"] != found.name:
        raise LockError("names a package otherwise than its file", found=data["name"], wanted=found.file)
    return found


def package(url: str, sha256: str | None, md5: str | None, size: Any = None) -> LockedPackage:
    """A package by its address and digests.

    :raises LockError: the address leads to no package, or a digest is none
    """
    name, version, build = build_of(place_of(url).file)
    for digest, pattern in ((sha256, _SHA256), (md5, _MD5)):
        if digest is not None and not (isinstance(digest, str) and pattern.fullmatch(digest)):
            raise LockError("has a digest that is none", where=redact(url), found=repr(digest))
    known = size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None
    return LockedPackage(name, version, build, url, sha256, md5, known)


def channels_of(packages: Sequence[LockedPackage]) -> tuple[str, ...]:
    """Channels of packages, those with a label first, where a file does not name their order."""
    places = [place for one in packages if (place := one.place) is not None]
    labels = dict.fromkeys(place.base for place in places if place.label is not None)
    return (*labels, *dict.fromkeys(place.base for place in places if place.label is None))
