"""Leftovers of builds in source trees, and work folders of conda-build and rattler-build."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from channel_tools.diagnose.cleaning.items import Item, Kept
from channel_tools.diagnose.doctor.host_root import HostRoot

_SOURCE_MARKS: Final = (
    "setup.py",
    "pyproject.toml",
    "setup.cfg",
    "CMakeLists.txt",
    "recipe.yaml",
    "meta.yaml",
)
_OWN_CHECKOUT: Final = "variants/conda_build_config.yaml"
_NOT_ENTERED: Final = frozenset({".git", ".hg", ".venv", "venv", "node_modules", ".cache"})
_DEPTH: Final = 12
_ARCH_KEYS: Final = frozenset(
    {
        "CMAKE_HIP_ARCHITECTURES",
        "GPU_TARGETS",
        "AMDGPU_TARGETS",
        "GPU_ARCHS",
        "PYTORCH_ROCM_ARCH",
        "HIP_ARCHITECTURES",
    }
)
_PATH_KEYS: Final = frozenset(
    {
        "CMAKE_C_COMPILER",
        "CMAKE_CXX_COMPILER",
        "CMAKE_HIP_COMPILER",
        "CMAKE_HIP_COMPILER_ROCM_ROOT",
        "ROCM_PATH",
    }
)
_CONDA_WORK = re.compile(r"(?P<name>.+)_\d{13}")
_RATTLER_WORK = re.compile(r"rattler-build_(?P<name>.+)_\d{10,13}")


def is_source_tree(host: HostRoot, tree: str) -> bool:
    """Does a folder hold a file that a build starts from?"""
    return any(host.is_file(posixpath.join(tree, name)) for name in _SOURCE_MARKS)


def is_own_checkout(host: HostRoot, tree: str) -> bool:
    """Is it a checkout of rocm-channel? What lies in it is in use, and no build starts in it."""
    return host.is_file(posixpath.join(tree, _OWN_CHECKOUT))


def leftovers(host: HostRoot, tree: str, arch: str | None, *, deep: bool = False) -> list[Item]:
    """What earlier builds left in a source tree.

    :param arch: the arch that will be built for; None leaves the arch of CMake caches unjudged
    :param deep: look into all folders, for ``__pycache__`` and for CMake caches
    """
    if not is_source_tree(host, tree) or is_own_checkout(host, tree):
        return []
    found = [
        Item("build-folder", path, f"an earlier build of {tree}")
        for name in ("build", "dist")
        if host.is_dir(path := posixpath.join(tree, name)) and not host.is_link(path)
    ]
    found += [Item("egg-info", path, f"an earlier build of {tree}") for path in _egg_infos(host, tree)]
    gone = {item.path for item in found}
    for folder in _folders(host, tree, _DEPTH if deep else 1):
        if any(folder == path or folder.startswith(path + "/") for path in gone):
            continue
        if deep and posixpath.basename(folder) == "__pycache__":
            found.append(Item("pycache", folder, "compiled anew when it is needed"))
            continue
        cache = posixpath.join(folder, "CMakeCache.txt")
        reason = _stale_cache(host, cache, arch) if host.is_file(cache) and not host.is_link(cache) else None
        if reason:
            parts = tuple(
                name for name in ("CMakeCache.txt", "CMakeFiles") if host.exists(posixpath.join(folder, name))
            )
            found.append(Item("cmake-cache", folder, reason, parts))
    return found


def tracked(host: HostRoot, item: Item) -> Kept | None:
    """Why an item of a source tree belongs to somebody's source, by what git tracks there or above it."""
    for path in item.paths:
        if host.exists(posixpath.join(path, ".git")):
            return Kept(path, "is a git checkout of its own")
    checkout = _checkout(host, item.path if item.parts else posixpath.dirname(item.path))
    if checkout is None:
        return None
    output = host.run("git", "-C", checkout, "ls-files", "--", *item.paths)
    if output is None or output.status != 0:
        return Kept(item.path, "git does not say whether it belongs to the source")
    return Kept(item.path, "git tracks files in it") if output.text.strip() else None


def _checkout(host: HostRoot, folder: str) -> str | None:
    """The git checkout that a folder lies in: the nearest one, so that nested ones count for themselves."""
    while not host.exists(posixpath.join(folder, ".git")):
        if folder in ("/", ""):
            return None
        folder = posixpath.dirname(folder)
    return folder


def _egg_infos(host: HostRoot, tree: str) -> Iterator[str]:
    own = host.data(posixpath.join(tree, "PKG-INFO"))
    for folder in (tree, *(path for path in host.glob(tree, r"[^.].*") if _is_folder(host, path))):
        for path in host.glob(folder, r".+\.egg-info"):
            # A source release brings the egg-info of its own PKG-INFO.
            if _is_folder(host, path) and (own is None or host.data(f"{path}/PKG-INFO") != own):
                yield path


def _is_folder(host: HostRoot, path: str) -> bool:
    return host.is_dir(path) and not host.is_link(path)


def _folders(host: HostRoot, folder: str, depth: int) -> Iterator[str]:
    yield folder
    if depth <= 0 or posixpath.basename(folder) == "__pycache__":
        return
    for name in host.names(folder):
        path = posixpath.join(folder, name)
        if name not in _NOT_ENTERED and _is_folder(host, path):
            yield from _folders(host, path, depth - 1)


def _stale_cache(host: HostRoot, cache: str, arch: str | None) -> str | None:
    for line in (host.text(cache) or "").splitlines():
        key, separator, value = line.partition("=")
        name = key.partition(":")[0]
        if not separator or not value:
            continue
        if name in _ARCH_KEYS and arch is not None and value != arch:
            return f"made for {value}, not {arch}"
        if name in _PATH_KEYS and value.startswith("/") and not host.exists(value):
            return f"{name} was {value}, which is gone"
    return None


def work_folders(host: HostRoot, places: list[str]) -> list[Item]:
    """Work folders that conda-build and rattler-build left in their build folders."""
    found = []
    for place in dict.fromkeys(places):
        for name in host.names(place):
            path = posixpath.join(place, name)
            if not _is_folder(host, path):
                continue
            marks = set(host.names(path))
            if _RATTLER_WORK.fullmatch(name) and "work" in marks:
                found.append(Item("rattler-work", path, "work folder of a build that has ended"))
            elif _CONDA_WORK.fullmatch(name) and marks & {"work", "_build_env", "test_tmp"}:
                found.append(Item("conda-work", path, "work folder of a build that has ended"))
    return found
