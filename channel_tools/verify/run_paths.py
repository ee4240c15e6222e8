"""Run paths: the folders in which the loader looks for the libraries that a file needs.

A package may be installed anywhere, so every run path begins at ``$ORIGIN``, the folder of the file, and
stays in the prefix. ROCm's libraries are reached through ``lib/rocm-host``, a link of the package
rocm-userspace.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final

from channel_tools.verify.findings import Fault

ROCM_HOST: Final = "lib/rocm-host"

_RULE = "runpath"
_ORIGIN = re.compile(r"\$(?:ORIGIN|\{ORIGIN\})(?P<rest>/.*)?")
_ROCM = re.compile(r"/opt/rocm(?:-[0-9.]+)?(?:/|$)")
_PLACEHOLDER = re.compile(r"placehold|_h_env|/host_env|\$PREFIX|\$\{PREFIX\}")
_BUILD_FOLDER = re.compile(
    r"^/(?:tmp|home|root|builds?|work|workspace|github|Users)(?:/|$)|/(?:conda-bld|bld|_?build|work|_build_env)(?:/|$)"
    r"|\$(?:SRC_DIR|BUILD_PREFIX)"
)


def file_folder(path: str, root: str = "") -> str:
    """Folder of a file of a package in the prefix; ``root`` is where the package's paths begin.

    ``site-packages/`` at the start of a path stands for Python's own folder, as in noarch packages.
    """
    if path.startswith("site-packages/"):
        root = "lib/python3"
    return posixpath.normpath(posixpath.join(root, posixpath.dirname(path)))


def search_folder(entry: str, folder: str) -> str | None:
    """The folder of the prefix that a run path entry means for a file in ``folder``; None outside of it."""
    match = _ORIGIN.fullmatch(entry)
    if match is None:
        return None
    target = posixpath.normpath(posixpath.join(folder, (match["rest"] or "").lstrip("/")))
    return None if target == ".." or target.startswith("../") else target


def origin_path(folder: str, target: str) -> str:
    """The run path entry by which a file in ``folder`` finds libraries in ``target``: ``$ORIGIN/../lib``."""
    steps = posixpath.relpath(target, folder)
    return "$ORIGIN" if steps == "." else f"$ORIGIN/{steps}"


def judge_run_path(entry: str, kind: str, folder: str) -> Fault | None:
    """The fault of one run path entry, if it has one.

    :param kind: ``RPATH`` or ``RUNPATH``
    :param folder: folder of the file in the prefix
    """
    if search_folder(entry, folder) is not None:
        return None
    fix = f"set it to {origin_path(folder, 'lib')} (-Wl,-rpath, CMAKE_INSTALL_RPATH or patchelf --set-rpath)"
    if _ORIGIN.fullmatch(entry):
        what = f"{kind} leaves the prefix"
    elif not entry:
        what = f"{kind} has an empty entry, which is the folder that the program is started in"
        fix = "take the empty entry out: a colon too many in the linker's flags"
    elif _ROCM.match(entry):
        what = f"{kind} names ROCm by its absolute path"
        fix = f"set it to {origin_path(folder, ROCM_HOST)}, the link of the package rocm-userspace"
    elif _PLACEHOLDER.search(entry):
        what = f"{kind} names the prefix of the build"
    elif _BUILD_FOLDER.search(entry):
        what = f"{kind} names a folder of the machine that built it"
    elif entry.startswith("/"):
        what = f"{kind} is absolute, so libraries of the host come before those of the environment"
    else:
        what = f"{kind} depends on the folder that the program is started in"
    return Fault(
        what,
        found=entry or "(empty)",
        wanted="folders of the prefix, from $ORIGIN on",
        fix=fix,
        rule=_RULE,
    )
