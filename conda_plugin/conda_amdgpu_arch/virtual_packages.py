"""The virtual packages as conda's own objects, in the form that the conda at hand has.

Since 25.11, ``CondaVirtualPackage`` has a field ``override_entity``, and its version and build may be
functions that conda calls late; what they give may be conda's ``NULL``, for a package that is absent. Before,
it has three fields of text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any

from conda_amdgpu_arch.detect import Host, find_host
from conda_amdgpu_arch.overrides import CHECKS, OverrideError, present_packages

# One standard has both, so they come from one hand.
GPU = ("amdgpu", "amdgpu_arch")
BUILD = "0"


@lru_cache(maxsize=1)
def host() -> Host:
    """This machine, looked at once a process."""
    return find_host()


def completed(results: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """All virtual packages of other plugins, then ours."""
    others = set()
    for packages in results:
        for package in packages:
            others.add(getattr(package, "name", None))
            yield package
    left_out = set(others)
    if others & set(GPU):
        left_out.update(GPU)
    yield from ours(left_out)


def ours(left_out: Collection[object] = ()) -> Iterator[Any]:
    """Our virtual packages but those named in ``left_out``."""
    from conda.plugins.types import CondaVirtualPackage

    fields = getattr(CondaVirtualPackage, "__dataclass_fields__", {})
    if {"override_entity", "empty_override", "version_validation"} <= set(fields):
        # The value for an empty override is NULL, unless a plugin says otherwise.
        packages = _deferred(CondaVirtualPackage, fields["empty_override"].default)
    else:
        packages = _decided(CondaVirtualPackage)
    return (package for package in packages if package.name not in left_out)


def _deferred(make: Callable[..., Any], absent: Any) -> Iterator[Any]:
    """For a conda that overrides by itself; nothing is looked at before it asks."""

    def version(found: Callable[[Host], str | None]) -> Callable[[], Any]:
        return lambda: absent if found(host()) is None else found(host())

    def package(name: str, found: Callable[[Host], str | None], build: Any = BUILD) -> Any:
        return make(
            name=name,
            version=version(found),
            build=build,
            override_entity="version",
            version_validation=_for_conda(CHECKS[name]),
        )

    amdgpu = package("amdgpu", lambda host: "0" if host.present else None)
    yield amdgpu
    # conda also asks for the build of a package whose version is overridden: without __amdgpu there is none.
    yield package(
        "amdgpu_arch",
        lambda host: host.isa,
        lambda: absent if amdgpu.to_virtual_package() is absent else BUILD,
    )
    yield package("rocm_userspace", lambda host: host.rocm)


def _decided(make: Callable[..., Any]) -> Iterator[Any]:
    """For a conda that takes text alone: what is absent is not given."""
    for name, version in _for_conda(lambda: list(present_packages(host=host())))():
        yield make(name=name, version=version, build=BUILD)


def _for_conda(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its error as one that conda prints in a line."""

    def call(*values: str) -> Any:
        try:
            return function(*values)
        except OverrideError as error:
            from conda.exceptions import CondaValueError

            raise CondaValueError(str(error).replace("%", "%%")) from error

    return call
