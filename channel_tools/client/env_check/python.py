"""Python packages in each other's way: pip over conda, two of one module, modules that Python takes first."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from channel_tools.client.env_check.files import Scan, reinstall
from channel_tools.client.env_check.findings import Finding
from channel_tools.client.env_check.package import Package
from channel_tools.client.env_check.prefix import Prefix, normalised

_EXTENSIONS: Final = (".py", ".so")


def foreign(prefix: Prefix, looked: Scan) -> list[Package]:
    """The distributions that conda did not bring: their RECORD is no conda package's, or not any more."""
    return [one for one in prefix.distributions if not _is_condas(one, prefix, looked)]


def _is_condas(distribution: Package, prefix: Prefix, looked: Scan) -> bool:
    for name in ("RECORD", "METADATA"):
        path = f"{distribution.info}/{name}"
        owners = prefix.owners.get(path, ())
        if owners:
            return any(
                looked.state(entry, prefix.path) == "ok"
                for owner in owners
                for entry in owner.entries
                if entry.path == path
            )
    return False


def pip_over_conda(
    prefix: Prefix, looked: Scan, others: list[Package]
) -> tuple[list[Finding], dict[str, frozenset[str]]]:
    """Distributions that took the place of a conda package's files.

    :returns: the findings, and the paths that they speak of by the ``info`` of the conda package
    """
    findings: list[Finding] = []
    excused: dict[str, frozenset[str]] = {}
    for one in others:
        for record in prefix.records:
            common = record.paths & one.paths
            if not common and one.name not in _distribution_names(record, one.folder):
                continue
            touched = {
                entry.path: state
                for entry in record.entries
                if (entry.path in one.paths or entry.path.startswith(f"{one.folder}/"))
                and (state := looked.state(entry, prefix.path)) != "ok"
            }
            gone = sum(state == "missing" for state in touched.values())
            findings.append(
                Finding(
                    "pip-over-conda",
                    f"{one.source} installed {one.name} {one.version} over {record}",
                    one.info,
                    found=f"{len(touched) - gone} of its files replaced, {gone} removed",
                    wanted=f"{record.name} alone",
                    fix=f"{prefix.path}/bin/python -m pip uninstall {one.name}; then "
                    + reinstall(record, prefix.path),
                    package=str(record),
                    files=tuple(sorted(touched) or sorted(common)),
                )
            )
            excused[record.info] = excused.get(record.info, frozenset()) | frozenset(touched)
    return findings, excused


def two_distributions(prefix: Prefix) -> Iterator[Finding]:
    """Modules of ours that several distributions of one folder bring, and doubled metadata of one."""
    for site in prefix.sites:
        here = [one for one in prefix.distributions if one.folder == site]
        told: set[frozenset[str]] = set()
        for module in sorted(_our_modules(prefix, site)):
            bringing = [one for one in here if module in _modules(one, site)]
            names = frozenset(one.info for one in bringing)
            if len(bringing) > 1 and names not in told:
                told.add(names)
                yield _double(prefix, f"{site}/{module}", f"bring the module {module}", bringing)
        for name in sorted({one.name for one in here}):
            same = [one for one in here if one.name == name]
            names = frozenset(one.info for one in same)
            if len(same) > 1 and names not in told and any(one.is_ours for one in same):
                yield _double(prefix, same[0].info, f"are called {name}", same)


def _double(prefix: Prefix, where: str, how: str, bringing: list[Package]) -> Finding:
    removable = [
        one.name for one in bringing if not any(f"{one.info}/METADATA" in r.paths for r in prefix.records)
    ]
    return Finding(
        "two-distributions",
        f"{len(bringing)} distributions {how}",
        where,
        found=", ".join(f"{one.name} {one.version} ({one.source})" for one in bringing),
        wanted="one",
        fix=f"{prefix.path}/bin/python -m pip uninstall {removable[0]}, and reinstall what stays"
        if removable
        else "make the environment anew with one of them",
        files=tuple(one.info for one in bringing),
    )


def foreign_files(prefix: Prefix) -> Iterator[Finding]:
    """Files of nobody in the modules of packages with GPU code; what Python compiled is not meant."""
    known = set(prefix.owners).union(*(one.paths for one in prefix.distributions))
    for site in prefix.sites:
        for module in sorted(_our_modules(prefix, site)):
            found = sorted(
                path
                for path in _files(prefix.path, f"{site}/{module}")
                if path not in known and not path.endswith(".pyc")
            )
            if found:
                yield Finding(
                    "file-foreign",
                    f"files that no package brought are in the module {module}",
                    found[0],
                    found=f"{len(found)} files of no package",
                    wanted="files of installed packages only",
                    fix="remove them; code that is added belongs into a package of its own",
                    files=tuple(found),
                )


def shadows(prefix: Prefix, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Modules of ours that lie in folders which Python looks into before the environment's own.

    PYTHONPATH comes first, then the folder of ``pip install --user`` (unless PYTHONNOUSERSITE is set, or the
    environment is a virtual one without the system's packages), then the environment ("The initialization of
    the sys.path module search path", Python's library reference).
    """
    for site in prefix.sites:
        modules = sorted(_our_modules(prefix, site))
        for folder, how, fix in _first(prefix, site, environ):
            for module in modules:
                place = next((p for p in _places(folder, module) if _exists(p)), None)
                if place is None or place.resolve().is_relative_to((prefix.path / site).resolve()):
                    continue
                yield Finding(
                    "shadowed",
                    f"Python takes the module {module} from {how}, not from the environment",
                    str(place),
                    found=_version_there(folder, module) or str(place),
                    wanted=f"{module} of {site}",
                    fix=fix.format(module=module),
                )


def _first(prefix: Prefix, site: str, environ: Mapping[str, str]) -> Iterator[tuple[Path, str, str]]:
    for entry in environ.get("PYTHONPATH", "").split(os.pathsep):
        if entry:
            yield Path(entry), "PYTHONPATH", "unset PYTHONPATH"
    if environ.get("PYTHONNOUSERSITE") or not _has_user_site(prefix.path):
        return
    base = environ.get("PYTHONUSERBASE") or str(Path(environ.get("HOME") or "~").expanduser() / ".local")
    folder = Path(base) / "lib" / posixpath.basename(posixpath.dirname(site)) / "site-packages"
    yield (
        folder,
        "the user's own packages (pip install --user)",
        "export PYTHONNOUSERSITE=1, or uninstall {module} there: python -m pip uninstall {module}",
    )


def _has_user_site(prefix: Path) -> bool:
    try:
        lines = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return True
    settings = {
        key.strip().lower(): value.strip() for key, _, value in (line.partition("=") for line in lines)
    }
    return settings.get("include-system-site-packages", "").lower() == "true"


def _places(folder: Path, module: str) -> Iterator[Path]:
    yield folder / module / "__init__.py"
    yield folder / f"{module}.py"


def _exists(path: Path) -> bool:
    """Is it there? Not what this process may not look at, or no path at all: variables are foreign text."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _version_there(folder: Path, module: str) -> str | None:
    for info in sorted(folder.glob("*.dist-info")):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        if normalised(name) in (normalised(module), f"pytorch-{module}", f"pytorch-{module}-rocm"):
            return f"{name} {version} in {folder}"
    return None


def _our_modules(prefix: Prefix, site: str) -> set[str]:
    """The modules in a folder that packages with GPU code bring."""
    packages = (one for one in (*prefix.records, *prefix.distributions) if one.is_ours)
    return {module for one in packages for module in _modules(one, site)}


def _modules(package: Package, site: str) -> set[str]:
    """Names that ``import`` takes, of the files that a package has in a folder."""
    found = set()
    for path in package.paths:
        if path.startswith(f"{site}/"):
            first, slash, _ = path.removeprefix(f"{site}/").partition("/")
            if slash and not first.endswith((".dist-info", ".data", ".libs")) and first.isidentifier():
                found.add(first)
            elif not slash and first.endswith(_EXTENSIONS):
                found.add(first.partition(".")[0])
    return found - {"__pycache__"}


def _distribution_names(record: Package, site: str) -> set[str]:
    """Names of the distributions that a conda package brings, by its ``.dist-info`` folders."""
    folders = {
        path.removeprefix(f"{site}/").partition("/")[0]
        for path in record.paths
        if path.startswith(f"{site}/")
    }
    return {normalised(name.partition("-")[0]) for name in folders if name.endswith(".dist-info")}


def _files(prefix: Path, folder: str) -> Iterator[str]:
    for place, _, names in os.walk(prefix / folder):
        for name in names:
            yield Path(place, name).relative_to(prefix).as_posix()
