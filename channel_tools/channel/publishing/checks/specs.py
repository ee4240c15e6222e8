"""Match specs of packages, read and matched by the solver's own library."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from channel_tools.channel.publishing.checks.builds import Build


@lru_cache(maxsize=4096)
def parse(spec: str) -> Any:
    """A ``rattler.MatchSpec``; None for what is none."""
    from rattler import MatchSpec

    try:
        return MatchSpec(spec)
    except Exception:
        return None


def name_of(spec: str) -> str | None:
    parsed = parse(spec)
    name = parsed.name if parsed is not None else None
    return None if name is None else str(getattr(name, "normalized", name))


def matching(spec: str, builds: Sequence[Build]) -> list[Build]:
    """Those of ``builds`` that satisfy a spec, whatever they depend on themselves."""
    parsed = parse(spec)
    if parsed is None:
        return []
    return [build for build in builds if (one := _record(build)) is not None and parsed.matches(one)]


def exact_version(spec: str) -> str | None:
    """``9.4.2`` of ``amdgpu-arch ==9.4.2``; None where other versions or builds would do or are asked for."""
    parsed = parse(spec)
    if parsed is None or parsed.version is None or parsed.build is not None:
        return None
    version = str(parsed.version)
    return version.removeprefix("==") if version.startswith("==") and not set(version) & set(",|*") else None


@lru_cache(maxsize=65536)
def _record(build: Build) -> Any:
    """None for what no solver takes, as a foreign index may have it: a version that is none."""
    from rattler import BuildString, PackageRecord

    try:
        return PackageRecord(build.name, build.version, BuildString(build.build), build.number, build.subdir)
    except Exception:
        return None
