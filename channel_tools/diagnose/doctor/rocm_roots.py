"""The ROCm installations of a host."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Final

from channel_tools.client.host import RELEASE
from channel_tools.diagnose.doctor.host_root import HostRoot, numbers

MARKER: Final = ".rocm-channel-sdk"
_FOLDER: Final = r"rocm-\d.*"
_CLANGS: Final = ("lib/llvm/bin/clang++", "llvm/bin/clang++")


@dataclass(frozen=True)
class RocmRoot:
    """A root as it is named, without links, and its release: X.Y, and whole as the file spells it.

    ``sdk``: it was made from Debian packages by ``rocm_sdk.sh``, so it is no ROCm.
    """

    path: str
    real: str
    release: str | None
    text: str
    sdk: bool


def find_rocm(host: HostRoot) -> RocmRoot | None:
    """``ROCM_PATH``, then ``/opt/rocm``, then the newest ``/opt/rocm-X.Y*``: the first that is a folder."""
    numbered = sorted(host.glob("/opt", _FOLDER), key=numbers, reverse=True)
    named = host.variable("ROCM_PATH")
    for path in [*([named] if named else []), "/opt/rocm", *numbered]:
        if host.is_dir(path):
            return read_root(host, path)
    return None


def all_roots(host: HostRoot) -> list[RocmRoot]:
    """Every root of ``/opt`` and the named one, each once."""
    named = host.variable("ROCM_PATH")
    paths = [*([named] if named else []), "/opt/rocm", *host.glob("/opt", _FOLDER)]
    roots = {
        root.real: root for path in reversed(paths) if host.is_dir(path) and (root := read_root(host, path))
    }
    return sorted(roots.values(), key=lambda root: root.real)


def read_root(host: HostRoot, path: str) -> RocmRoot:
    text = (host.line(posixpath.join(path, ".info/version")) or "").split(" ")[0]
    match = RELEASE.match(text)
    sdk = host.is_file(posixpath.join(path, MARKER))
    return RocmRoot(path, host.real(path) or path, match[1] if match else None, text, sdk)


def root_of(path: str) -> str | None:
    """The ROCm root in ``/opt`` that a path lies in."""
    match = re.match(r"(/opt/rocm(?:-[^/]*)?)(?:/|$)", path)
    return match[1] if match else None


def hip_compiler(host: HostRoot, rocm: RocmRoot | None) -> str | None:
    """The clang++ that HIP code is compiled with: ``HIP_CLANG_PATH``, ROCm's, else one on ``PATH``."""
    named = host.variable("HIP_CLANG_PATH")
    places = [posixpath.join(named, "clang++")] if named else []
    places += [posixpath.join(rocm.path, place) for place in _CLANGS] if rocm else []
    for place in places:
        if host.is_program(place):
            return place
    return host.which("clang++") or next(
        (found for major in range(30, 9, -1) if (found := host.which(f"clang++-{major}"))), None
    )
