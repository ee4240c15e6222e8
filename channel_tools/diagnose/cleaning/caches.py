"""Caches of compiled things that do not know the arch, ROCm or compiler that they were made with."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import Final

from channel_tools.diagnose.cleaning.items import Item, Kept, base_folder, named_folder
from channel_tools.diagnose.doctor.host_root import HostRoot

_WHEEL = re.compile(r"(?P<name>[A-Za-z0-9._]+)-(?P<version>[^-]+)(-[^-]+){3,4}\.whl")
_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
_METADATA_LIMIT: Final = 1 << 20
_PIP_DEPTH: Final = 6

# Names in the caches, as the programs make them.
_TRITON_ENTRY = re.compile(r"[A-Z2-7]{52}|[0-9a-f]{64}")
_INDUCTOR_ENTRIES: Final = ("fxgraph", "aotautograd")
_EXTENSIONS_ENTRY = re.compile(r"py3\d+_[a-z0-9.]+")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def cached_wheels(host: HostRoot, names: Sequence[str]) -> list[Item]:
    """Wheels that pip built and keeps, of these distributions."""
    folder = _pip_wheels(host)
    if not isinstance(folder, str):
        return []
    found = []
    for path in host.walk(folder, _PIP_DEPTH):
        match = _WHEEL.fullmatch(posixpath.basename(path))
        if match and _normal(match["name"]) in names:
            inside = _name_inside(host, path)
            if inside is None or _normal(inside) in names:
                reason = f"pip takes it for {match['name']} whatever arch and ROCm it was built for"
                found.append(Item("pip-wheel", path, reason))
    return found


def _pip_wheels(host: HostRoot) -> str | Kept | None:
    for variable, parts in (("PIP_CACHE_DIR", ("wheels",)), ("XDG_CACHE_HOME", ("pip", "wheels"))):
        value = host.variable(variable)
        if value:
            return base_folder(host, value, *parts)
    return base_folder(host, host.home, ".cache", "pip", "wheels")


def _name_inside(host: HostRoot, path: str) -> str | None:
    local = host.local(path)
    try:
        if local is None:
            return None
        with zipfile.ZipFile(local) as archive:
            for entry in archive.infolist():
                if _METADATA.fullmatch(entry.filename):
                    with archive.open(entry) as stream:
                        text = stream.read(_METADATA_LIMIT).decode("utf-8", "replace")
                    match = re.search(r"^Name: *(\S+)", text, re.MULTILINE)
                    return match[1] if match else None
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError):
        return None
    return None


def kernel_caches(host: HostRoot) -> tuple[list[Item], list[Kept]]:
    """Caches of Triton, of torch's extensions and compiler, and of vLLM's compiled graphs."""
    home, variable = host.home, host.variable
    cache = variable("XDG_CACHE_HOME")
    user = variable("LOGNAME") or variable("USER") or "root"  # as getpass.getuser() looks for it
    tmp = variable("TMPDIR") or "/tmp"
    triton_home = variable("TRITON_HOME") or home
    vllm = variable("VLLM_CACHE_ROOT")
    triton, extensions, inductor = (
        variable("TRITON_CACHE_DIR"),
        variable("TORCH_EXTENSIONS_DIR"),
        variable("TORCHINDUCTOR_CACHE_DIR"),
    )
    in_cache = (cache,) if cache else (home, ".cache")
    places: list[tuple[str, str | Kept | None, Callable[[str], bool], str]] = [
        (
            "triton-cache",
            named_folder(host, triton) if triton else base_folder(host, triton_home, ".triton", "cache"),
            lambda path: bool(_TRITON_ENTRY.fullmatch(posixpath.basename(path))),
            "kernels that Triton compiled",
        ),
        (
            "torch-extensions",
            named_folder(host, extensions)
            if extensions
            else base_folder(host, *in_cache, "torch_extensions"),
            lambda path: (
                bool(_EXTENSIONS_ENTRY.fullmatch(posixpath.basename(path))) or _is_extension(host, path)
            ),
            "extensions that torch compiled",
        ),
        (
            "inductor-cache",
            named_folder(host, inductor) if inductor else base_folder(host, tmp, f"torchinductor_{user}"),
            lambda path: _is_of_inductor(host, path),
            "graphs that torch compiled",
        ),
        (
            "vllm-graphs",
            base_folder(host, *((vllm,) if vllm else (*in_cache, "vllm")), "torch_compile_cache"),
            lambda path: bool(re.fullmatch(r"[0-9a-f]{10,64}", posixpath.basename(path))),
            "graphs that vLLM compiled",
        ),
    ]
    items, kept = [], []
    for kind, folder, recognised, what in places:
        if isinstance(folder, Kept):
            kept.append(folder)
        if not isinstance(folder, str):
            continue
        parts = tuple(
            name
            for name in host.names(folder)
            if host.is_dir(path := posixpath.join(folder, name))
            and not host.is_link(path)
            and recognised(path)
        )
        if parts:
            items.append(Item(kind, folder, f"{what} for the arch and ROCm of that day", parts))
    return items, kept


def _is_extension(host: HostRoot, path: str) -> bool:
    """A folder in which torch built an extension, and no project of somebody's own."""
    names = set(host.names(path))
    return "build.ninja" in names and not names & {"CMakeLists.txt", "CMakeCache.txt", ".git", "setup.py"}


def _is_of_inductor(host: HostRoot, path: str) -> bool:
    """``ab/`` with files ``cab....``, or a named folder (torch/_inductor/codecache.py, ``get_path``)."""
    name = posixpath.basename(path)
    if len(name) == 2:
        files = host.names(path)
        return bool(files) and all(file.startswith("c" + name) for file in files)
    if name == "triton":
        return all(one.isdecimal() or _TRITON_ENTRY.fullmatch(one) for one in host.names(path))
    return name in _INDUCTOR_ENTRIES
