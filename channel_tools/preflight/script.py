"""What the recipe's own build script would run, learnt from the script itself.

The script is started as a conda engine starts it, with ``preflight_folder`` set. It passes all its guards,
leaves CMake's command and environment in that folder, and ends before CMake starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.build.host_tools import which
from channel_tools.model.errors import GuardError, PreflightError, ToolMissingError
from channel_tools.preflight.data import read_data

_GUARD_CODES = range(60, 80)


@dataclass(frozen=True)
class ScriptRun:
    """CMake's words and environment, as the script leaves them."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


def compilers(major: str, cache: Path) -> dict[str, str]:
    """CC and CXX: the caller's, or this host's GCC of that major version.

    :raises ToolMissingError: there is none
    """
    if os.environ.get("CC") and os.environ.get("CXX"):
        return {"CC": os.environ["CC"], "CXX": os.environ["CXX"]}
    names = {"CC": f"gcc-{major}", "CXX": f"g++-{major}"}
    private = cache / f"gcc-{major}" / "usr" / "bin"
    for folder in (None, private):
        found = {key: folder / name if folder else which(name) for key, name in names.items()}
        if all(path is not None and os.access(path, os.X_OK) for path in found.values()):
            return {key: str(path) for key, path in found.items()}
    raise ToolMissingError(
        f"there is no GCC {major}",
        found=f"neither CC and CXX in the environment, nor {names['CXX']} on PATH",
        fix=f"set CC and CXX, or: apt-get install {names['CC']} {names['CXX']}",
    )


def engine_environment(
    rendered: Mapping[str, Any], *, recipe: Path, source: Path, prefix: Path, python: Path, build_type: str
) -> dict[str, str]:
    """What a conda engine and its compiler packages give the script.

    :param rendered: the recipe as rendered; its ``script: env`` is part of the result
    """
    data = read_data("engine")
    words = {"@PREFIX@": str(prefix), "@BUILD_TYPE@": build_type}
    activation = dict(data["activation"])
    for word, value in words.items():
        activation = {key: text.replace(word, value) for key, text in activation.items()}
    passed = {name: os.environ[name] for name in data["passed"]["names"] if name in os.environ}
    # pip puts CMake and Ninja beside the Python that runs this.
    passed["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), passed.get("PATH", os.defpath)])
    return {
        **passed,
        **activation,
        **{key: str(value) for key, value in rendered["build"]["script"]["env"].items()},
        "CONDA_BUILD": "1",
        "CMAKE_GENERATOR": "Unix Makefiles",
        "HOME": str(source),
        "PKG_NAME": rendered["package"]["name"],
        "PKG_VERSION": str(rendered["package"]["version"]),
        "PREFIX": str(prefix),
        "PYTHON": str(python),
        "RECIPE_DIR": str(recipe),
        "SRC_DIR": str(source),
    }


def run_script(script: Path, environment: Mapping[str, str], folder: Path) -> ScriptRun:
    """Run the script up to its configuration.

    :raises GuardError: a guard stopped it
    :raises PreflightError: it ended in another way, or left no command
    """
    given = {**environment, "preflight_folder": str(folder)}
    done = subprocess.run(
        ["bash", str(script)],
        cwd=environment["SRC_DIR"],
        env=given,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    last = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
    if done.returncode in _GUARD_CODES:
        raise GuardError(last, code=done.returncode, where=script.name)
    command = folder / "command"
    if done.returncode or not command.is_file():
        raise PreflightError(
            "the build script does not get as far as its configuration",
            where=script.name,
            found=f"exit status {done.returncode}: {last}",
            wanted="CMake's command in preflight_folder",
        )
    pairs = _fields(folder / "environment")
    environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    environment.pop("preflight_folder", None)
    return ScriptRun(tuple(_fields(command)), environment)


def _fields(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="surrogateescape").split("\0")[:-1]
