"""``CondaVirtualPackage`` in the form of the release."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from conda import RELEASE
from conda.auxlib import NULL
from conda.base.context import context
from conda.models.records import PackageRecord


class _Texts(NamedTuple):
    name: str
    version: str | None
    build: str | None

    def to_virtual_package(self) -> PackageRecord:
        return PackageRecord.virtual_package(f"__{self.name}", self.version, self.build)


@dataclass
class _Plugin:
    name: str

    def __post_init__(self) -> None:
        self.name = self.name.lower().strip()


@dataclass
class _Fields(_Plugin):
    name: str
    version: str | None
    build: str | None

    def to_virtual_package(self) -> PackageRecord:
        return PackageRecord.virtual_package(f"__{self.name}", self.version, self.build)


@dataclass
class _Overridable(_Plugin):
    """A variable replaces version or build before a function is called, or else ``.condarc`` does."""

    name: str
    version: Any
    build: Any
    override_entity: str | None = None
    empty_override: Any = NULL
    version_validation: Callable[[str], str | None] | None = None

    def to_virtual_package(self) -> Any:
        values = {"version": self.version, "build": self.build}
        if self.override_entity:
            given = os.environ.get(f"CONDA_OVERRIDE_{self.name.upper()}")
            if given is None:
                given = context.override_virtual_packages.get(self.name)
            if given is not None:
                values[self.override_entity] = given.strip() or self.empty_override
        values = {key: value() if callable(value) else value for key, value in values.items()}
        if NULL in values.values():
            return NULL
        version = values["version"]
        if self.version_validation and version is not None:
            version = self.version_validation(version)
        return PackageRecord.virtual_package(f"__{self.name}", version, values["build"])


_FORMS = {("NamedTuple", False): _Texts, ("dataclass", False): _Fields, ("dataclass", True): _Overridable}
CondaVirtualPackage: Any = _FORMS[RELEASE["class"], RELEASE["late"]]
