"""What a package says of itself: name, version, and the GPU targets that it declares."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from channel_tools.verify.findings import Fault
from channel_tools.verify.targets import is_known_target

INDEX: Final = "info/index.json"
ABOUT: Final = "info/about.json"
VARIANT: Final = "info/hash_input.json"
PATHS: Final = "info/paths.json"
OLDEST_GCC: Final = 4
WHEEL_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")

_BUILD_RECORD = re.compile(r"share/rocm-channel/[^/]+/(build|compile_commands)\.json")
_ARCH_IN_BUILD = re.compile(r"(?:^|_)(gfx[0-9a-f]{3,})(?=_|$)")
_ARCH_DEPENDENCY = re.compile(r"amdgpu-arch\s+={0,2}(\d+)\.(\d+)\.(\d+)(?:\.\*)?(?:\s.*)?")


@dataclass(frozen=True)
class PackageInfo:
    """A package's own word. ``declared`` is its GPU targets, sorted; empty where it names none.

    ``promises_code`` is true where it lists ``gfx_targets``: then device code must be there. ``gcc_pin`` is
    the major release of GCC that its variant pins, else the one that its build record names.
    """

    name: str
    version: str
    build: str = ""
    subdir: str = ""
    rocm_version: str | None = None
    declared: tuple[str, ...] = ()
    promises_code: bool = False
    depends: tuple[str, ...] = ()
    gcc_pin: int | None = None


def is_metadata(path: str) -> bool:
    """Does this path of a package hold what the functions here, or the judges, read?"""
    return path in (INDEX, ABOUT, VARIANT, PATHS) or bool(
        WHEEL_METADATA.fullmatch(path) or _BUILD_RECORD.fullmatch(path)
    )


def build_record(package: str, file: str) -> str:
    """Path of ``build.json`` or ``compile_commands.json``, as build_scripts/lib/evidence.sh writes them."""
    return f"share/rocm-channel/{package}/{file}"


def read_conda_info(metadata: Mapping[str, bytes]) -> tuple[PackageInfo | None, list[Fault]]:
    """Read ``index.json`` and ``about.json`` of a conda package; None for a container that is none.

    Targets are declared by ``extra: gfx_targets`` or ``extra: rocm_arch`` of about.json, else by the build
    string (``rocm72_gfx942_h...``) and the dependency on ``amdgpu-arch`` in index.json. Where several say
    something they must agree.
    """
    faults: list[Fault] = []
    if INDEX not in metadata:
        return None, faults
    index = _read_object(INDEX, metadata[INDEX], faults)
    about = _read_object(ABOUT, metadata.get(ABOUT, b"{}"), faults)
    extra = about.get("extra")
    extra = extra if isinstance(extra, dict) else {}
    build = str(index.get("build", ""))
    listed = _targets(extra.get("gfx_targets"), faults)
    sources = {
        "extra.gfx_targets": listed,
        "extra.rocm_arch": _targets(extra.get("rocm_arch"), faults),
        "build string": frozenset(_ARCH_IN_BUILD.findall(build)),
        "dependency on amdgpu-arch": _depends_targets(index.get("depends")),
    }
    said = {source: targets for source, targets in sources.items() if targets}
    if len(set(said.values())) > 1:
        faults.append(
            Fault(
                "the package contradicts itself about its GPU targets",
                found="; ".join(
                    f"{source}: {', '.join(sorted(targets))}" for source, targets in said.items()
                ),
                wanted="the same targets everywhere",
                fix="build it again from one variant",
                rule="metadata",
            )
        )
    unknown = sorted(target for targets in said.values() for target in targets if not is_known_target(target))
    if unknown:
        faults.append(
            Fault(
                "the package declares a GPU target that no compiler knows",
                found=", ".join(unknown)[:200],
                wanted="a target such as gfx942",
                fix="correct the recipe or the variant, and build it again",
                rule="metadata",
            )
        )
    for key in ("name", "version", "build"):
        if not isinstance(index.get(key), str):
            faults.append(
                Fault(f"{INDEX} has no {key}", found=repr(index.get(key)), wanted="text", damage=True)
            )
    rocm_version = extra.get("rocm_version")
    name = str(index.get("name", ""))
    info = PackageInfo(
        name=name,
        version=str(index.get("version", "")),
        build=build,
        subdir=str(index.get("subdir", "")),
        rocm_version=None if rocm_version is None else str(rocm_version),
        declared=tuple(sorted(next(iter(said.values()), frozenset()))),
        promises_code=bool(listed),
        depends=tuple(spec for spec in _list(index.get("depends")) if isinstance(spec, str)),
        gcc_pin=_gcc_pin(metadata, name, faults),
    )
    return info, faults


def read_wheel_info(metadata: bytes) -> PackageInfo:
    """Name and version of a wheel. A wheel has no field for GPU targets, so it declares none."""
    fields: dict[str, str] = {}
    for line in metadata.decode("utf-8", "replace").splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            break
        fields.setdefault(key.strip().lower(), value.strip())
    return PackageInfo(fields.get("name", ""), fields.get("version", ""))


def _read_object(name: str, raw: bytes, faults: list[Fault]) -> dict[str, Any]:
    found: str
    try:
        value = json.loads(raw)
        if isinstance(value, dict):
            return value
        found = type(value).__name__
    except (ValueError, RecursionError) as error:
        found = str(error)
    faults.append(Fault(f"{name} cannot be read", found=found, wanted="a JSON object", damage=True))
    return {}


def _targets(value: object, faults: list[Fault]) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(re.split(r"[,;\s]+", value.strip())) - {""}
    if value is None:
        return frozenset()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return frozenset(value)
    faults.append(
        Fault(
            f"{ABOUT}: GPU targets",
            found=repr(value)[:200],
            wanted="a list of names such as gfx942",
            rule="metadata",
        )
    )
    return frozenset()


def _depends_targets(depends: object) -> frozenset[str]:
    matches = (_ARCH_DEPENDENCY.fullmatch(spec) for spec in _list(depends) if isinstance(spec, str))
    return frozenset(f"gfx{int(m[1])}{int(m[2]):x}{int(m[3]):x}" for m in matches if m)


def _gcc_pin(metadata: Mapping[str, bytes], name: str, faults: list[Fault]) -> int | None:
    """``gxx`` in the variant that the package's hash was made of, else the compiler of the build record."""
    if VARIANT in metadata:
        variant = _read_object(VARIANT, metadata[VARIANT], faults)
        if variant.get("cxx_compiler") == "gxx":
            return _major(variant.get("cxx_compiler_version"))
    path = build_record(name, "build.json")
    return _major(_read_object(path, metadata[path], faults).get("gcc_version")) if path in metadata else None


def _major(version: object) -> int | None:
    match = re.match(r"\d{1,3}(?!\d)", str(version))
    return int(match[0]) if match and int(match[0]) >= OLDEST_GCC else None


def read_paths(metadata: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """The entries of ``paths.json``: ``_path``, ``path_type``, ``sha256``; empty where it cannot be read."""
    entries = _list(_read_object(PATHS, metadata.get(PATHS, b"{}"), []).get("paths"))
    return [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("_path"), str)]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
