"""conda with the plugin ``conda-amdgpu-arch``, in a test's own process.

No conda can be installed here. ``tests/data/conda_plugin_api`` has a stand-in for the parts that a plugin
meets, made after conda's source and documentation in four forms; ``releases.toml`` there says which, and from
where.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "conda_plugin"
API = ROOT / "tests" / "data" / "conda_plugin_api"
FACTS = tomllib.loads((API / "releases.toml").read_text())
RELEASES = {release["since"]: release for release in FACTS["release"]}
LATE = [since for since, release in RELEASES.items() if release["late"]]
OVERRIDES = ("CONDA_OVERRIDE_AMDGPU", "CONDA_OVERRIDE_AMDGPU_ARCH", "CONDA_OVERRIDE_ROCM_USERSPACE")

EXPECTED = {
    "apu": "11.5.1",
    "closed": "",
    "container": "11.0.0",
    "container-without-gpu": None,
    "display": None,
    "laptop": "11.0.2",
    "login": "",
    "mi250x": "9.0.10",
    "mi300x": "9.4.2",
    "mi300x-cpx": "9.4.2",
    "mi300x-cpx-w7900": "11.0.0",
    "old-radeon": "",
    "passthrough-host": "",
    "renamed": "9.0.10",
    "unknown-size": "9.0.10",
    "vm": "9.4.2",
    "w7900-mi210": "9.0.10",
}
"""``__amdgpu_arch`` by machine; None where there is ``__amdgpu`` alone, "" where there is neither."""


def expected_records(machine: str) -> dict[str, str]:
    """Name and version of the virtual packages for one of :data:`EXPECTED`."""
    isa = EXPECTED[machine]
    if isa == "":
        return {}
    return {"__amdgpu": "0"} | ({} if isa is None else {"__amdgpu_arch": isa})


class Conda:
    """A conda with the plugin, on a machine."""

    def __init__(self, release: str) -> None:
        self.release = RELEASES[release]
        self.plugin = importlib.import_module("conda_amdgpu_arch.plugin")
        self.detect = importlib.import_module("conda_amdgpu_arch.detect")
        self.packages: Any = importlib.import_module("conda_amdgpu_arch.virtual_packages")
        self.types = importlib.import_module("conda.plugins.types")
        self.exceptions = importlib.import_module("conda.exceptions")
        self.hookspec = importlib.import_module("conda.plugins.hookspec")
        self.manager: Any = importlib.import_module("conda.plugins.manager").CondaPluginManager()
        self.manager.register(self.plugin, "conda_amdgpu_arch.plugin")
        self.looked = 0

    def on(self, root: Path) -> None:
        """From now on, the machine is the one below ``root``."""

        def find_host() -> Any:
            self.looked += 1
            return self.detect.find_host(root)

        self.packages.host.cache_clear()
        self.packages.find_host = find_host

    def records(self) -> dict[str, str]:
        """Name and version of each virtual package that the solver would get."""
        records = self.manager.get_virtual_package_records()
        assert all(record.build == "0" for record in records)
        assert len({record.name for record in records}) == len(records)
        return {record.name: record.version for record in records}

    def other_plugin(self, *packages: tuple[str, str], late: bool = False) -> None:
        """Another plugin that gives these packages (name, version)."""
        types, hookimpl = self.types, self.hookspec.hookimpl

        @hookimpl  # type: ignore[untyped-decorator]
        def conda_virtual_packages() -> Iterator[Any]:
            for name, version in packages:
                yield types.CondaVirtualPackage(name, (lambda v=version: v) if late else version, "0")

        module = ModuleType(f"other_{len(self.manager.get_plugins())}")
        module.conda_virtual_packages = conda_virtual_packages  # type: ignore[attr-defined]
        self.manager.register(module, module.__name__)


def _forget(*packages: str) -> None:
    for name in list(sys.modules):
        if name.split(".")[0] in packages:
            del sys.modules[name]


def conda_of(release: str, monkeypatch: pytest.MonkeyPatch, nothing: Path) -> Iterator[Conda]:
    """One conda while a fixture lasts, at first on a machine that has nothing."""
    monkeypatch.setenv("STAND_IN_CONDA", release)
    for name in (*OVERRIDES, "ROCM_PATH", "STAND_IN_CONDARC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(API)
    monkeypatch.syspath_prepend(PLUGIN)
    _forget("conda", "conda_amdgpu_arch")
    made = Conda(release)
    made.on(nothing)
    yield made
    _forget("conda", "conda_amdgpu_arch")


def detect_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The plugin's module that looks at the machine, while a fixture lasts; it needs no conda."""
    monkeypatch.syspath_prepend(PLUGIN)
    yield importlib.import_module("conda_amdgpu_arch.detect")
    _forget("conda_amdgpu_arch")


def run_python(code: str, *words: str, python: str = sys.executable, path: tuple[Path, ...] = ()) -> str:
    """What Python code prints in a process of its own, with no other modules than those of ``path``."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "CONDA", "ROCM", "STAND_IN"))
    }
    environ |= {"STAND_IN_CONDA": LATE[-1], "PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run(
        [python, "-c", code, *words], capture_output=True, text=True, check=False, env=environ
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
