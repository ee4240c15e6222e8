"""Records of virtual packages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PackageRecord:
    name: str
    version: str
    build: str

    @classmethod
    def virtual_package(cls, name: str, version: str | None, build: str | None) -> PackageRecord:
        for value in (version, build):
            assert value is None or isinstance(value, str), f"{name}: {value!r} is no text"
        return cls(name, version or "0", build or "0")
