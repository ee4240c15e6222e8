"""What is installed in an environment: conda packages and Python distributions, read from their metadata."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass
from typing import Any, Final

from channel_tools.diagnose.doctor.host_root import HostRoot

_DIST: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._]*)-([^-]+)(?:-py[0-9.]+)?\.(?:dist|egg)-info")


@dataclass(frozen=True)
class CondaPackage:
    """One record of ``conda-meta``."""

    name: str
    version: str
    build: str
    depends: tuple[str, ...]

    @property
    def stem(self) -> str:
        return f"{self.name}-{self.version}-{self.build}"

    @property
    def targets(self) -> tuple[str, ...]:
        """GPU targets that the build string names."""
        return tuple(part for part in self.build.split("_") if re.fullmatch(r"gfx[0-9]+[0-9a-f]{2}", part))


def conda_packages(host: HostRoot, prefix: str) -> dict[str, CondaPackage]:
    """The conda packages of an environment by name; records that cannot be read are left out."""
    found = {}
    for path in host.glob(f"{prefix}/conda-meta", r".+\.json"):
        record = _object(host.text(path))
        name = record.get("name")
        if isinstance(name, str) and name:
            depends = record.get("depends")
            found[name] = CondaPackage(
                name,
                str(record.get("version", "")),
                str(record.get("build", record.get("build_string", ""))),
                tuple(str(one) for one in depends) if isinstance(depends, list) else (),
            )
    return found


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def site_packages(host: HostRoot, prefix: str) -> list[str]:
    """The folders of Python packages below a prefix."""
    found = []
    for library in ("lib", "lib64"):
        if host.is_link(f"{prefix}/{library}"):
            continue
        for python in host.glob(f"{prefix}/{library}", r"python3(\.\d+)?t?"):
            found += [
                folder
                for name in ("site-packages", "dist-packages")
                if host.is_dir(folder := posixpath.join(python, name))
            ]
    return found


def distributions(host: HostRoot, folder: str) -> dict[str, str]:
    """Versions of the Python distributions in a folder, by normalised name."""
    found = {}
    for name in host.names(folder):
        match = _DIST.fullmatch(name)
        if match:
            found[re.sub(r"[-_.]+", "-", match[1]).lower()] = match[2]
    return found


def python_folders(host: HostRoot, prefix: str | None) -> list[str]:
    """Folders that the Python of an environment, or else the host's own, takes packages from."""
    if prefix:
        return site_packages(host, prefix)
    program = host.real(host.which("python3") or "/usr/bin/python3")
    bases = ["/usr/local", "/usr", *([posixpath.dirname(posixpath.dirname(program))] if program else [])]
    found = [folder for base in dict.fromkeys(bases) for folder in site_packages(host, base)]
    return (
        [*found, "/usr/lib/python3/dist-packages"] if host.is_dir("/usr/lib/python3/dist-packages") else found
    )


def user_folders(host: HostRoot) -> list[str]:
    """Folders of packages installed with ``pip install --user``."""
    return site_packages(host, host.variable("PYTHONUSERBASE") or f"{host.home}/.local")


def conda_base(host: HostRoot) -> str | None:
    """The prefix of the conda installation that the shell knows."""
    program = host.variable("CONDA_EXE") or host.which("conda")
    if program is None:
        return None
    real = host.real(program) or program
    return posixpath.dirname(posixpath.dirname(real))
