"""Whether the libraries that binaries need are there: in the environment, in ROCm, or on the host.

A library counts as there when any file of the environment has its name: what a program loaded before is found
again by its name alone, whatever the search path (``ld.so(8)``).
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from channel_tools.client.env_check.arch import ROCM_LINK, Wanted
from channel_tools.client.env_check.files import Scan, reinstall
from channel_tools.client.env_check.findings import Finding, listed
from channel_tools.client.env_check.package import Package
from channel_tools.client.env_check.prefix import Prefix
from channel_tools.verify.containers import open_regular
from channel_tools.verify.elf import EM_AMDGPU, read_elf
from channel_tools.verify.elf_dynamic import DT_NEEDED, DT_RPATH, DT_RUNPATH, read_dynamic, read_segments
from channel_tools.verify.libraries import library_table, matches
from channel_tools.verify.run_paths import search_folder
from channel_tools.verify.source import DamageError

_SYSTEM_FOLDERS: Final = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")
_LDCONFIG: Final = "/sbin/ldconfig"


@dataclass(frozen=True)
class Links:
    """Libraries that nothing has, each with the files that need it.

    ``rocm`` and ``ours`` are needed by packages with GPU code, ``ours`` by package; ``others`` by the rest.
    """

    rocm: Mapping[str, list[str]]
    ours: Mapping[Package, Mapping[str, list[str]]]
    others: Mapping[str, list[str]]


def read_links(prefix: Prefix, looked: Scan, packages: Sequence[Package]) -> Links:
    """Read what every binary of the environment needs; files that cannot be read are left to others.

    :param packages: those with GPU code
    """
    owner = {path: one for one in packages for path in one.paths}
    names = {
        path.rpartition("/")[2] for path, actual in looked.actual.items() if actual.type in ("file", "link")
    }
    rocm_names = library_table().rocm
    rocm: dict[str, list[str]] = {}
    ours: dict[Package, dict[str, list[str]]] = {}
    others: dict[str, list[str]] = {}
    for path, actual in looked.actual.items():
        if actual.kind != "elf" or actual.type != "file":
            continue
        for library, folders in _needs(prefix.path, path):
            if library in names or _is_there(prefix.path, path, library, folders):
                continue
            package = owner.get(path)
            if package is None:
                group = others
            else:
                group = rocm if matches(library, rocm_names) else ours.setdefault(package, {})
            group.setdefault(library, []).append(path)
    return Links(rocm, ours, others)


def link_findings(
    prefix: Prefix, links: Links, want: Wanted, has_gpu: bool
) -> tuple[list[Finding], list[str]]:
    """Findings, and notes: a host without GPU and ROCm only prepares the environment, so misses nothing."""
    findings = list(_missing(links.ours, prefix.path))
    notes = []
    if links.rocm:
        link = prefix.path / ROCM_LINK
        linked = link.is_symlink()
        leads = f"{ROCM_LINK} -> {link.readlink()}" if linked else "not where this host's loader looks"
        names = listed(sorted(links.rocm))
        there = link.exists()
        if there or (has_gpu and not want.declared):
            files = tuple(sorted({file for some in links.rocm.values() for file in some}))
            found = f"{leads}, which has no such library" if there else f"{leads}, which is not there"
            findings.append(
                Finding(
                    "rocm-library-missing",
                    f"libraries of ROCm are not on this host: {names}",
                    ROCM_LINK if linked else files[0],
                    found=found if linked else leads,
                    wanted=", ".join(sorted(links.rocm)),
                    fix=_fix_rocm(link, want),
                    files=files,
                )
            )
        else:
            notes.append(f"needs of ROCm, which is not on this host ({leads}): {names}")
    if links.others:
        notes.append(
            f"needed by packages that name no GPU arch, and nowhere here: {listed(sorted(links.others))}"
        )
    return findings, notes


def _missing(packages: Mapping[Package, Mapping[str, list[str]]], prefix: Path) -> Iterator[Finding]:
    table = library_table()
    for package, libraries in packages.items():
        files = tuple(dict.fromkeys(file for some in libraries.values() for file in some))
        homes = sorted({home for library in libraries for home in table.packages_with(library)})
        fix = (
            f"install {', '.join(homes)}"
            if homes
            else f"install what it depends on; {reinstall(package, prefix)}"
        )
        yield Finding(
            "library-missing",
            f"libraries that {package} needs are nowhere to be found",
            files[0],
            found="neither in the environment nor where this host keeps libraries",
            wanted=", ".join(sorted(libraries)),
            fix=fix,
            package=str(package),
            files=files,
        )


def _fix_rocm(link: Path, want: Wanted) -> str:
    others = sorted(str(path) for path in Path("/opt").glob("rocm-[0-9]*") if path.is_dir())
    if not link.exists() and link.is_symlink() and str(link.readlink()) == "/opt/rocm/lib" and others:
        return f"ln -s {others[-1]} /opt/rocm"
    return f"install ROCm{f' {want.rocm}' if want.rocm else ''} with the packages that have these libraries"


def _needs(prefix: Path, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Needed libraries and the run path of an ELF file; nothing of a static, damaged or GPU one."""
    try:
        with open_regular(prefix / path) as source:
            if read_elf(source).machine == EM_AMDGPU:
                return
            dynamic = read_dynamic(source, read_segments(source))
            if dynamic is None:
                return
            run_path = dynamic.texts(DT_RUNPATH, "run path") or dynamic.texts(DT_RPATH, "run path")
            folders = tuple(run_path[-1].split(":")) if run_path else ()
            for library in dynamic.texts(DT_NEEDED, "needed library"):
                yield library, folders
    except DamageError:
        return


def _is_there(prefix: Path, path: str, library: str, folders: Sequence[str]) -> bool:
    if "/" in library:
        return Path(library).exists()
    table = library_table()
    if matches(library, table.base) or library in _of_system():
        return True
    home = path.rpartition("/")[0]
    for entry in folders:
        inside = search_folder(entry, home)
        folder = prefix / inside if inside is not None else Path(entry)
        if folder.is_absolute() and (folder / library).exists():
            return True
    return any(Path(folder, library).exists() for folder in _SYSTEM_FOLDERS)


@cache
def _of_system() -> frozenset[str]:
    """The names in the cache of this host's loader."""
    try:
        done = subprocess.run([_LDCONFIG, "-p"], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return frozenset()
    return frozenset(line.split()[0] for line in done.stdout.splitlines()[1:] if " => " in line)
