"""The GPU code in the files of an environment, read by verify, against what the packages declare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from channel_tools.client.env_check.arch import Wanted
from channel_tools.client.env_check.files import Scan, reinstall
from channel_tools.client.env_check.findings import Finding, listed
from channel_tools.client.env_check.package import Package
from channel_tools.client.env_check.prefix import Prefix
from channel_tools.verify.policy import ExtraTargets, named_policy
from channel_tools.verify.reading import read_path
from channel_tools.verify.reading_cache import ReadingCache, default_folder
from channel_tools.verify.report import FileReport
from channel_tools.verify.rules import surplus_targets
from channel_tools.verify.streams import Limits

_FOLDER: Final = "environments"


def code_findings(
    prefix: Prefix, looked: Scan, packages: Sequence[Package], want: Wanted, read: Callable[[int], None]
) -> tuple[list[Finding], dict[str, tuple[str, ...]]]:
    """Read the GPU code of packages.

    Files of a package that declares an arch may hold code for that arch only, but for what its policy allows;
    files of others must hold code for the arch of the environment, if they hold any.

    :param read: told the size of each file that was read, in bytes
    :returns: the findings, and the targets of each file that holds code
    """
    cache = ReadingCache(default_folder() / _FOLDER)
    findings: list[Finding] = []
    targets: dict[str, tuple[str, ...]] = {}
    archs = _own_archs(packages) or want.archs
    for package in packages:
        others: dict[str, FileReport] = {}
        damaged: dict[str, FileReport] = {}
        extra = _extra_targets(package)
        for path in sorted(package.paths):
            actual = looked.actual[path]
            if actual.kind is None or actual.type != "file":
                continue
            for file in _read(prefix.path / path, cache):
                if file.targets:
                    targets[path] = tuple(sorted({*targets.get(path, ()), *file.targets}))
                if any(fault.damage for fault in file.faults):
                    damaged[path] = file
                elif _is_foreign(path, file, package, archs, extra):
                    others[path] = file
            read(actual.size)
        findings += _of_package(package, others, damaged, archs, prefix)
    return findings, targets


def _is_foreign(
    path: str, file: FileReport, package: Package, archs: Sequence[str], extra: tuple[ExtraTargets, ...]
) -> bool:
    if not file.targets:
        return False
    if package.archs:
        found = FileReport(path, file.size, file.kind, file.targets)
        return bool(surplus_targets(found, frozenset(package.archs), extra))
    return bool(archs) and not {target.partition(":")[0] for target in file.targets} & set(archs)


def _of_package(
    package: Package,
    others: dict[str, FileReport],
    damaged: dict[str, FileReport],
    archs: Sequence[str],
    prefix: Prefix,
) -> Iterator[Finding]:
    if others:
        path, file = next(iter(others.items()))
        yield Finding(
            "code-other",
            f"a file of {package} holds GPU code for another arch",
            path,
            found=listed(list(file.targets)),
            wanted=", ".join(package.archs or archs),
            fix=reinstall(package, prefix.path),
            package=str(package),
            files=tuple(others),
        )
    if damaged:
        path, file = next(iter(damaged.items()))
        fault = next(fault for fault in file.faults if fault.damage)
        yield Finding(
            "code-damaged",
            f"a binary of {package} cannot be read: {fault.what}",
            path,
            found=fault.found,
            wanted=fault.wanted,
            fix=reinstall(package, prefix.path),
            package=str(package),
            files=tuple(damaged),
        )


def _own_archs(packages: Sequence[Package]) -> tuple[str, ...]:
    """The archs that conda packages of the environment are for."""
    return tuple(sorted({arch for one in packages if one.by_conda for arch in one.archs}))


def _extra_targets(package: Package) -> tuple[ExtraTargets, ...]:
    file = named_policy(package.name) if package.by_conda else None
    if file is None:
        return ()
    from channel_tools.verify.policy_file import read_policy

    return read_policy(file).extra_targets


def _read(path: Path, cache: ReadingCache) -> tuple[FileReport, ...]:
    kept = cache.read(path, False, lambda: read_path(path, progress=None, limits=Limits(), scan=False))
    return kept.reading.files
