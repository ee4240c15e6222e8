"""Bridge packages: a local channel whose packages activate this host's own build tools.

Where no conda channel is in reach, recipes stay as they are: ``gxx_linux-64`` and the rest come from here.
A bridge has the version that was found on the host, and holds an activation script or a one-line wrapper,
no compiler. A package built with them has another hash (variant key ``toolchain: host``) and says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from channel_tools import rattler_process
from channel_tools.model.errors import StorageError, ToolMissingError
from channel_tools.model.files import check_writable, locked, write_text_whole

# libstdc++'s soname counts on while GCC's version does; from the libstdc++ manual, "ABI Policy and
# Guidelines", section on releases.
GCC_OF_LIBSTDCXX = {29: "11", 30: "12", 31: "13.1", 32: "13.2", 33: "14", 34: "15"}
STATE = "host-tools.json"
# Raised when bridges come out differently for the same host.
LAYOUT = 2


@dataclass(frozen=True)
class Bridge:
    """One bridge package.

    ``files`` maps paths in the prefix to text; ``depends`` and ``strong`` (run_exports) are match specs.
    """

    name: str
    version: str
    files: Mapping[str, str] = field(default_factory=dict)
    depends: tuple[str, ...] = ()
    strong: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostTools:
    """The channel of bridges of this host and what was found for it."""

    channel: Path
    glibc: str
    bridges: tuple[Bridge, ...]
    fresh: bool

    @property
    def url(self) -> str:
        return self.channel.resolve().as_uri()


def make_host_tools(
    channel: Path, gcc_major: str, pythons: tuple[str, ...] = (), private_gcc: Path | None = None
) -> HostTools:
    """Make the channel, or leave it alone when it is this host's already.

    :param gcc_major: the compiler of the matrix, ``11``
    :param pythons: versions of the matrix; each gets a bridge when the host has it
    :param private_gcc: root made by ``build_scripts/gcc11.sh``, used where PATH has no such compiler
    :raises ToolMissingError: a tool is not there; names the package that has it
    :raises StorageError: the channel cannot be written
    """
    glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 0").split()[-1]
    bridges = find_bridges(gcc_major, glibc, pythons, private_gcc)
    state = {"version": LAYOUT, "bridges": [asdict(bridge) for bridge in bridges]}
    with locked(channel.with_name(f".{channel.name}.lock")):
        fresh = not _is_current(channel / STATE, state)
        if fresh:
            _assemble(channel, state)
    return HostTools(channel, glibc, bridges, fresh)


def _is_current(file: Path, state: object) -> bool:
    return file.is_file() and json.loads(file.read_text(encoding="utf-8")) == json.loads(json.dumps(state))


def _assemble(channel: Path, state: dict[str, Any]) -> None:
    """Make the channel beside its place, then put it there."""
    check_writable(channel.parent)
    partial = channel.with_name(f"{channel.name}.partial.{os.getpid()}")
    try:
        for subdir in ("linux-64", "noarch"):
            (partial / subdir).mkdir(parents=True)
        # What was made before stays as it is, to the byte: locks name its sha256.
        payload = {"output": str(partial), "bridges": state["bridges"], "before": str(channel)}
        rattler_process.call("assemble", payload)
        write_text_whole(partial / STATE, json.dumps(state, indent=1) + "\n")
        if channel.exists():
            shutil.rmtree(channel)
        partial.replace(channel)
    except rattler_process.RattlerCallError as error:
        raise StorageError(f"the bridge packages cannot be made: {error}", where=channel) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def find_bridges(
    gcc_major: str, glibc: str, pythons: tuple[str, ...] = (), private_gcc: Path | None = None
) -> tuple[Bridge, ...]:
    """Look for every tool on this host; parameters as of :func:`make_host_tools`.

    :raises ToolMissingError: all that is missing, in one message
    """
    missing: list[ToolMissingError] = []

    def attempt(make: Callable[[], list[Bridge]]) -> list[Bridge]:
        try:
            return make()
        except ToolMissingError as error:
            missing.append(error)
            return []

    bridges = attempt(lambda: _compilers(gcc_major, glibc, private_gcc))
    for name, package in PROGRAMS.items():
        bridges += attempt(lambda name=name, package=package: [_program(name, package)])  # type: ignore[misc]
    for version in pythons:
        bridges += _python(version)
    if missing:
        raise ToolMissingError(
            "; ".join(error.what for error in missing),
            fix="; ".join(dict.fromkeys(error.fix for error in missing if error.fix)),
        )
    return tuple(bridges)


# Programs that recipes use in `requirements: build`, and the Debian package that has each.
PROGRAMS = {
    "cmake": "cmake",
    "ninja": "ninja-build",
    "make": "make",
    "patch": "patch",
    "pkg-config": "pkg-config",
    "git": "git",
    "patchelf": "patchelf",
}


def which(name: str) -> Path | None:
    """A program on PATH, or beside the Python that runs this (where pip puts cmake and ninja)."""
    beside = Path(sys.executable).parent / name
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(name)
    return Path(found) if found else None


def _compilers(major: str, glibc: str, private_gcc: Path | None) -> list[Bridge]:
    names = ("gcc", "g++", "gcc-ar", "gcc-nm", "gcc-ranlib")
    gcc, gxx, ar, nm, ranlib = _gcc(tuple(f"{name}-{major}" for name in names), major, private_gcc)
    version = _version_of(gxx, "-dumpfullversion")
    tools = {"AR": ar, "NM": nm, "RANLIB": ranlib}
    exports = [f"export CC={gcc}", f'export CPP="{gcc} -E"']
    exports += [f"export {variable}={path}" for variable, path in tools.items()]
    exports += [f"export {v}={p}" for v, t in (("LD", "ld"), ("STRIP", "strip")) if (p := which(t))]
    libstdcxx = _libstdcxx_version(gxx)
    runtime = (f"libgcc >={major}", f"libstdcxx >={major}")
    return [
        Bridge("libgcc", libstdcxx),
        Bridge("libstdcxx", libstdcxx, depends=("libgcc",)),
        Bridge("sysroot_linux-64", glibc, strong=(f"__glibc >={glibc},<3.0.a0",)),
        Bridge(
            "gcc_linux-64",
            version,
            files={"etc/conda/activate.d/activate-gcc_linux-64.sh": "\n".join(exports) + "\n"},
            strong=runtime[:1],
        ),
        Bridge(
            "gxx_linux-64",
            version,
            files={"etc/conda/activate.d/activate-gxx_linux-64.sh": f"export CXX={gxx}\n"},
            depends=(f"gcc_linux-64 =={version}",),
            strong=runtime,
        ),
    ]


def _gcc(names: tuple[str, ...], major: str, private_gcc: Path | None) -> list[Path]:
    """The programs of one GCC: all from PATH, or else all from the private root; never some of each."""
    found = {name: which(name) for name in names}
    if private_gcc is not None and None in found.values():
        programs = [(private_gcc / "usr" / "bin" / name).absolute() for name in names]
        if all(os.access(program, os.X_OK) for program in programs):
            return programs
    for name, path in found.items():
        if path is None:
            raise ToolMissingError(f"{name} is not on PATH", fix=_gcc_hint(major, private_gcc))
    return [path for path in found.values() if path is not None]


def _gcc_hint(major: str, private_gcc: Path | None) -> str:
    release = _os_release()
    # Testing and unstable have no VERSION_ID.
    newer = release.get("ID") == "debian" and int(release.get("VERSION_ID", "13").split(".")[0]) >= 13
    if newer and major == "11" and private_gcc is not None:
        return f"Debian 13 has no g++-11; for Debian 12's: bash build_scripts/gcc11.sh {private_gcc}"
    return f"apt-get install g++-{major}"


def _os_release() -> dict[str, str]:
    try:
        lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {key: value.strip('"') for key, value in pairs}


def _program(name: str, package: str) -> Bridge:
    path = which(name)
    if path is None:
        raise ToolMissingError(f"{name} is not on PATH", fix=f"apt-get install {package}")
    return Bridge(
        name, _version_of(path, "--version"), files={f"bin/{name}": f'#!/bin/sh\nexec {path} "$@"\n'}
    )


def _python(version: str) -> list[Bridge]:
    path = which(f"python{version}")
    if path is None:
        return []
    # A version manager's shim is on PATH for versions that it cannot start.
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    full = done.stdout.strip().removeprefix("Python ")
    if done.returncode or not full.startswith(f"{version}."):
        return []
    # The host's interpreter with the environment's own site-packages in front.
    wrapper = (
        "#!/bin/sh\n"
        f'PYTHONPATH="$(dirname "$0")/../lib/python{version}/site-packages${{PYTHONPATH:+:$PYTHONPATH}}"\n'
        "export PYTHONPATH\n"
        f'exec {path} "$@"\n'
    )
    return [Bridge("python", full, files={"bin/python": wrapper, f"bin/python{version}": wrapper})]


def _version_of(program: Path, option: str) -> str:
    done = subprocess.run([program, option], capture_output=True, text=True, check=False)
    match = re.search(r"\d+(?:\.\d+)+", done.stdout + done.stderr)
    if done.returncode or match is None:
        raise ToolMissingError(
            f"{program} does not tell its version", fix=f"run `{program} {option}` and see what it says"
        )
    return match[0]


def _libstdcxx_version(gxx: Path) -> str:
    done = subprocess.run(
        [gxx, "-print-file-name=libstdc++.so.6"], capture_output=True, text=True, check=False
    )
    soname = Path(done.stdout.strip()).resolve().name
    match = re.search(r"\.so\.6\.0\.(\d+)$", soname)
    if match is None:
        raise ToolMissingError("the host's libstdc++.so.6 was not found", fix="apt-get install libstdc++6")
    return GCC_OF_LIBSTDCXX.get(int(match[1]), "16" if int(match[1]) > 34 else "10")


def bridge_build(bridge: Mapping[str, Any]) -> str:
    """Build string of a bridge. Another content has another one: caches and locks go by file names."""
    content = json.dumps([LAYOUT, bridge], sort_keys=True).encode()
    return f"hosttools_h{hashlib.sha256(content).hexdigest()[:7]}_0"


def bridge_recipe(bridge: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe of one bridge, for rattler-build; its files lie in ``files/`` beside it."""
    requirements: dict[str, Any] = {"run": list(bridge["depends"])}
    if bridge["strong"]:
        requirements["run_exports"] = {"strong": list(bridge["strong"])}
    recipe: dict[str, Any] = {
        "package": {"name": bridge["name"], "version": bridge["version"]},
        "build": {
            "number": 0,
            "string": bridge_build(bridge),
            "script": ['cp -a files/. "$PREFIX/"'] if bridge["files"] else ["true"],
            "prefix_detection": {"ignore": True},
        },
        "requirements": requirements,
        "about": {
            "summary": f"{bridge['name']} of this host, activated for builds",
            "license": "BSD-3-Clause",
        },
        "extra": {"host_tools": "true"},
    }
    if bridge["files"]:
        recipe["source"] = [{"path": "files", "target_directory": "files"}]
    return recipe
