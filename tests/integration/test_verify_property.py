"""Random HIP programs, built with clang 19: what is found in them is what was asked for, object by object.

``ROCM_CHANNEL_EXAMPLES`` sets how many programs are built (25 where it is not set, in under 25 seconds).
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channel_tools.verify import Report, verify_path
from channel_tools.verify.targets import base_of
from tests.integration.clang_hip import LINK, code_only_policy, compile_hip, offload, run, write_source
from tests.unit.test_verify_support import conda_info, write_conda, write_tar_bz2, write_wheel

EXAMPLES = int(os.environ.get("ROCM_CHANNEL_EXAMPLES", "25"))

Driver = Literal["old", "new", "old rdc", "new rdc"]
Form = Literal["library", "objects", "merged object", "archive", "thin archive"]

# Settings of one processor that may be in one program: either none, or one of each feature setting.
SETTINGS: dict[str, tuple[tuple[str, ...], ...]] = {
    "gfx906": (("",), (":sramecc+:xnack-",), (":xnack+", ":xnack-")),
    "gfx908": (("",), (":xnack-",), (":sramecc+", ":sramecc-")),
    "gfx90a": (("",), (":xnack+",), (":xnack+", ":xnack-"), (":sramecc+:xnack-",)),
    "gfx942": (("",), (":sramecc+:xnack-",), (":xnack+", ":xnack-")),
    "gfx1030": (("",),),
    "gfx1100": (("",),),
}


@dataclass(frozen=True)
class Program:
    """What to build: the targets of each unit, and how."""

    driver: Driver
    units: tuple[tuple[str, ...], ...]
    compressed: tuple[bool, ...]
    level: str
    version: int
    form: Form
    stripped: bool
    debug: bool

    @property
    def rdc(self) -> bool:
        return self.driver.endswith("rdc")

    def expected(self) -> Counter[str]:
        """Code objects by target.

        Linked with RDC, the units share one object a target; where ``ld -r`` merges RDC objects, the bitcode
        of all units for one target lies in one section, which counts once.
        """
        if self.rdc and self.form in ("library", "merged object"):
            return Counter(set(self.units[0]))
        return Counter(target for unit in self.units for target in unit)


@st.composite
def target_sets(draw: st.DrawFn) -> tuple[str, ...]:
    processors = draw(st.lists(st.sampled_from(sorted(SETTINGS)), min_size=1, max_size=3, unique=True))
    return tuple(
        f"{processor}{setting}"
        for processor in sorted(processors)
        for setting in draw(st.sampled_from(SETTINGS[processor]))
    )


@st.composite
def programs(draw: st.DrawFn) -> Program:
    drivers: tuple[Driver, ...] = ("old", "old", "new", "old rdc", "new rdc")
    driver = draw(st.sampled_from(drivers))
    size = draw(st.integers(1, 4))
    first = draw(target_sets())
    # Device code that is linked across units must be there for the same targets in each.
    alike = driver.endswith("rdc") or draw(st.booleans())
    units = (first,) * size if alike else (first, *(draw(target_sets()) for _ in range(size - 1)))
    packed = draw(st.booleans())
    compressed = tuple(packed if alike else draw(st.booleans()) for _ in units)
    forms: tuple[Form, ...] = ("library", "library", "objects", "archive", "thin archive")
    if driver != "new rdc":
        forms = (*forms, "merged object")
    return Program(
        driver,
        units,
        compressed,
        level=draw(st.sampled_from(("-O0", "-O1", "-O2", "-O3", "-Os"))),
        version=draw(st.sampled_from((5, 5, 4, 6))),
        form=draw(st.sampled_from(forms)),
        stripped=draw(st.booleans()),
        debug=draw(st.booleans()),
    )


class Builder:
    """Builds programs, and keeps the object files that several of them share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._source = write_source(folder)
        self._objects: dict[tuple[str, ...], Path] = {}
        self._numbers = count()

    def build(self, program: Program) -> Path:
        """A folder with the files that ``program`` asks for."""
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(self._object, program, number) for number in range(len(program.units))]
            objects = [job.result() for job in jobs]
        output = self.folder / f"program{next(self._numbers)}"
        output.mkdir()
        library, archive, merged = (output / name for name in ("libmade.so", "libmade.a", "merged.o"))
        match program.form:
            case "library":
                # clang 19 hands --compress on to ld where it links RDC objects of the new driver
                options = [o for o in self._options(program) if o != "--offload-compress"]
                run(*LINK, *options, *objects, "-o", library)
            case "merged object":
                run("ld", "-r", *objects, "-o", merged)
            case "archive":
                run("llvm-ar-19", "rcs", archive, *objects)
            case "objects" | "thin archive":
                for path in objects:
                    shutil.copyfile(path, output / path.name)
        if program.stripped:
            for path in output.iterdir():
                run("llvm-strip-19", *([] if program.form == "library" else ["--strip-debug"]), path)
        if program.form == "thin archive":
            run("llvm-ar-19", "rcsT", archive, *sorted(output.iterdir()))
        return output

    def _options(self, program: Program) -> list[str]:
        options = [f"-mcode-object-version={program.version}"]
        if program.driver.startswith("new"):
            options.append("--offload-new-driver")
        if program.rdc:
            options += ["-fgpu-rdc", *offload(*program.units[0])]
            options += ["--offload-compress"] if program.compressed[0] else []
        return options

    def _object(self, program: Program, number: int) -> Path:
        options = [program.level, "-c", *(["-g"] if program.debug else [])]
        if program.rdc:
            options += self._options(program)
        else:
            options += [*self._options(program), *offload(*program.units[number])]
            options += ["--offload-compress"] if program.compressed[number] else []
        kernel = f"kernel{number}"
        key = (kernel, *options)
        if key not in self._objects:
            output = self.folder / f"unit{next(self._numbers)}.o"
            self._objects[key] = compile_hip(self._source, output, *options, kernel=kernel)
        return self._objects[key]


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("property"))


def read_back(report: Report) -> tuple[set[str], int]:
    """Targets, and number of code objects; of a thin archive its members count, which lie beside it."""
    files = [file for file in report.files if file.kind != "thin archive"]
    return {target for file in files for target in file.targets}, sum(file.objects for file in files)


def contents(folder: Path) -> dict[str, bytes]:
    return {f"lib/{path.name}": path.read_bytes() for path in folder.iterdir()}


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
@given(program=programs(), container=st.sampled_from(("folder", "conda", "tar.bz2", "wheel")))
def test_what_was_asked_for_is_found(builder: Builder, program: Program, container: str) -> None:
    folder = builder.build(program)
    expected = program.expected()
    archs = sorted(expected)
    path = folder
    if container == "conda":
        path = write_conda(folder.with_suffix(".conda"), contents(folder), conda_info(archs))
    elif container == "tar.bz2":
        path = write_tar_bz2(folder.with_suffix(".tar.bz2"), contents(folder), conda_info(archs))
    elif container == "wheel":
        path = write_wheel(folder.with_suffix(".whl"), contents(folder))
    policy = code_only_policy(builder.folder)
    report = verify_path(path, frozenset(expected), policy=policy)
    assert read_back(report) == (set(expected), expected.total())
    thin = program.form == "thin archive"
    faults = [line for line in report.all_faults() if not (thin and "thin archive" in line)]
    assert faults == []
    for absent in sorted(set(SETTINGS) - {base_of(target) for target in expected})[:1]:
        assert any(absent in line for line in verify_path(path, frozenset({*archs, absent})).all_faults())
    if len(archs) > 1:
        told = verify_path(path, frozenset(archs[1:])).all_faults()
        assert any(f"{archs[0]}" in line for line in told)


def test_both_ways_to_count_agree() -> None:
    """The model that the test above trusts, on two programs worked out by hand."""

    def program(driver: Driver, units: Sequence[tuple[str, ...]], form: Form) -> Program:
        return Program(driver, tuple(units), (False,) * len(units), "-O1", 5, form, False, False)

    two = [("gfx90a", "gfx942"), ("gfx942",)]
    assert program("old rdc", [("gfx942",)] * 2, "merged object").expected() == {"gfx942": 1}
    assert program("old", two, "library").expected() == {"gfx90a": 1, "gfx942": 2}
    same = [("gfx942",), ("gfx942",)]
    assert program("new rdc", same, "library").expected() == {"gfx942": 1}
    assert program("new rdc", same, "archive").expected() == {"gfx942": 2}
