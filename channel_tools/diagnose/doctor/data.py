"""``doctor.toml``, what the doctor's checks compare with, and ``doctor_checks.toml``, what they are about."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Driver(_Model):
    """A release of the amdgpu driver: its module's version, and the ROCm releases that AMD lists for it."""

    module: str
    release: str
    rocm: tuple[str, ...]


class Sizes(_Model):
    """Sizes in MiB."""

    memory_least: int
    memory_a_job: int
    disk_least: int
    disk_good: int
    tmp_least: int
    tmp_good: int
    shared_least: int
    shared_good: int


class Limits(_Model):
    """Least limits of a process; ``stack_kib`` in KiB."""

    open_files: int
    processes: int
    stack_kib: int


class Versions(_Model):
    """First versions that do, unless the name says last."""

    gcc: str
    clang: int
    python_first: str
    python_last: str
    conda_last_with_boa: str
    conda_build: str
    pixi: str
    py_rattler: str


class DoctorData(_Model):
    """The whole file. ``arch_variables`` is the list of ``build_scripts/lib/arch.sh``."""

    version: int
    archs: tuple[str, ...]
    rocm: tuple[str, ...]
    gcc_major: int
    arch_variables: tuple[str, ...]
    integrated: tuple[str, ...]
    xnack_capable: tuple[str, ...]
    xnack_per_process: tuple[str, ...]
    triton_packages: tuple[str, ...]
    cached_wheels: tuple[str, ...]
    rocm_libraries: tuple[str, ...]
    prefix_length: int
    sizes: Sizes
    limits: Limits
    versions: Versions
    drivers: tuple[Driver, ...]


class About(_Model):
    """One check: ``wanted`` is what is right, ``why`` what goes wrong otherwise, ``sources`` where it did."""

    scope: Literal["build", "use"]
    title: str
    wanted: str
    why: str
    sources: tuple[str, ...]


class _Texts(_Model):
    version: int
    checks: dict[str, About]


@cache
def check_texts() -> dict[str, About]:
    """The texts of every check by its id."""
    text = (Path(__file__).with_name("doctor_checks.toml")).read_text(encoding="utf-8")
    return _Texts.model_validate(tomllib.loads(text)).checks


@cache
def doctor_data() -> DoctorData:
    """The tables that come with this program."""
    text = (Path(__file__).with_name("doctor.toml")).read_text(encoding="utf-8")
    return DoctorData.model_validate(tomllib.loads(text))
