"""Valid conda packages in a millisecond each: what index, solver, verify and installer read is all there.

No engine makes them, so a test that is about a build needs :mod:`tests.integration.stub_channel` instead.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

ISA = {"gfx90a": "9.0.10", "gfx942": "9.4.2"}
RELEASES = ("7.0", "7.2")
BUILT = 1_796_000_000_000
"""``timestamp`` of each package, in milliseconds."""


def tiny_package(
    folder: Path,
    name: str,
    version: str = "1",
    build: str = "0",
    *,
    depends: Sequence[str] = (),
    constrains: Sequence[str] = (),
    extra: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    files: Mapping[str, bytes] | None = None,
    run_exports: Mapping[str, Any] | None = None,
    build_number: int | None = None,
    subdir: str = "linux-64",
    suffix: str = ".conda",
    timestamp: int = BUILT,
) -> Path:
    """Make ``folder/subdir/name-version-build.conda`` and return its path.

    The same words give the same bytes. ``files`` (path to content; one small file by default) is what it
    installs, ``extra`` the mapping of ``about.json``; the build number is what ``build`` ends with, when not
    given; ``suffix`` may be ``.tar.bz2``.
    """
    content = {f"share/{name}.txt": f"{version} {build}\n".encode()} if files is None else dict(files)
    index: dict[str, Any] = {
        "arch": None if subdir == "noarch" else "x86_64",
        "build": build,
        "build_number": _number(build) if build_number is None else build_number,
        "depends": list(depends),
        "license": "BSD-3-Clause",
        "name": name,
        "platform": None if subdir == "noarch" else "linux",
        "subdir": subdir,
        "timestamp": timestamp,
        "version": version,
    }
    if constrains:
        index["constrains"] = list(constrains)
    if subdir == "noarch":
        index["noarch"] = "generic"
    paths = [
        {
            "_path": path,
            "path_type": "hardlink",
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_in_bytes": len(data),
        }
        for path, data in sorted(content.items())
    ]
    variant = {key: str(value) for key, value in (extra or {}).items()}
    info = {
        "info/about.json": {
            "license": "BSD-3-Clause",
            "summary": name,
            **(about or {}),
            "extra": extra or {},
        },
        "info/hash_input.json": {**variant, "target_platform": subdir},
        "info/index.json": index,
        "info/paths.json": {"paths": paths, "paths_version": 1},
    }
    if run_exports:
        info["info/run_exports.json"] = dict(run_exports)
    members = {path: (json.dumps(data, indent=2) + "\n").encode() for path, data in info.items()}
    members["info/files"] = "".join(f"{path}\n" for path in sorted(content)).encode()
    target = folder / subdir / f"{name}-{version}-{build}{suffix}"
    target.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".conda":
        _write_conda(target, members, content)
    else:
        with tarfile.open(target, "w:bz2", compresslevel=1) as tar:
            _fill(tar, {**members, **content})
    return target


def arch_package(folder: Path, target: str, selection: str = "detected", **more: Any) -> Path:
    """``amdgpu-arch`` for one GPU target, ``detected`` or ``declared``."""
    found = ("__amdgpu", f"__amdgpu_arch =={ISA[target]}") if selection == "detected" else ()
    return tiny_package(
        folder,
        "amdgpu-arch",
        ISA[target],
        f"{target}_{selection}_0",
        **{"depends": found, "extra": {"rocm_arch": target, "selection": selection}, **more},
    )


def rocm_package(folder: Path, release: str, selection: str = "detected", **more: Any) -> Path:
    """``rocm-userspace`` for one ROCm release, ``detected`` or ``declared``."""
    found = (f"__rocm_userspace =={release}",) if selection == "detected" else ()
    return tiny_package(
        folder,
        "rocm-userspace",
        release,
        f"system_{selection}_0",
        **{"depends": found, "extra": {"rocm_version": release, "selection": selection}, **more},
    )


def gpu_package(
    folder: Path, name: str, version: str, target: str, release: str, number: int = 0, **more: Any
) -> Path:
    """A package of one arch and one ROCm release, named and tied to both as the recipes do it."""
    seed = f"{name} {version} {target} {release} {number}"
    build = (
        f"rocm{release.replace('.', '')}_{target}_h{hashlib.sha256(seed.encode()).hexdigest()[:7]}_{number}"
    )
    depends = [f"amdgpu-arch =={ISA[target]}", f"rocm-userspace =={release}", *more.pop("depends", ())]
    extra = {"rocm_arch": target, "rocm_version": release, "toolchain": "conda"}
    return tiny_package(
        folder, name, version, build, **{"depends": depends, "extra": extra, "build_number": number, **more}
    )


def release(
    folder: Path,
    name: str = "hip-demo",
    version: str = "0.1.0",
    number: int = 0,
    archs: Iterable[str] = ISA,
    releases: Iterable[str] = RELEASES,
    *,
    selection: bool = True,
    **more: Any,
) -> list[Path]:
    """One package for each arch and ROCm release; with ``selection`` also what chooses between them.

    The name must be one without a policy of its own, or `verify` misses the files that the policy names.
    """
    archs, releases = list(archs), list(releases)
    made = [gpu_package(folder, name, version, a, r, number, **more) for a in archs for r in releases]
    if selection:
        for kind in ("detected", "declared"):
            made += [arch_package(folder, a, kind) for a in archs]
            made += [rocm_package(folder, r, kind) for r in releases]
    return made


def _number(build: str) -> int:
    last = build.rpartition("_")[2]
    return int(last) if last.isdecimal() else 0


def _write_conda(target: Path, info: Mapping[str, bytes], content: Mapping[str, bytes]) -> None:
    stem = target.name.removesuffix(".conda")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        parts = (
            ("metadata.json", json.dumps({"conda_pkg_format_version": 2}).encode()),
            (f"pkg-{stem}.tar.zst", _tar_zst(content)),
            (f"info-{stem}.tar.zst", _tar_zst(info)),
        )
        for name, data in parts:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)


def _tar_zst(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _fill(tar, members)
    return zstandard.ZstdCompressor(level=1).compress(buffer.getvalue())


def _fill(tar: tarfile.TarFile, members: Mapping[str, bytes]) -> None:
    for path, data in sorted(members.items()):
        member = tarfile.TarInfo(path)
        member.size, member.mode, member.mtime = len(data), 0o644, BUILT // 1000
        tar.addfile(member, io.BytesIO(data))
