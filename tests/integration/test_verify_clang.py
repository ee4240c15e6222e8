"""What clang 19 makes, in every form of its HIP drivers, read back and compared with LLVM's own tools.

Nothing here runs on a GPU: the files are compiled, linked and read.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from channel_tools.verify import FileReport, verify_path
from channel_tools.verify.targets import PROCESSOR_OF_MACH, Target
from tests.integration.clang_hip import (
    ARCHS,
    LINK,
    SHARED,
    code_only_policy,
    compile_hip,
    offload,
    run,
    write_source,
)
from tests.unit.test_verify_support import conda_info, write_conda


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one file for each way to make GPU code."""
    folder = tmp_path_factory.mktemp("made")
    source = write_source(folder)

    def compile_to(name: str, *options: str, kernel: str = "one") -> None:
        compile_hip(source, folder / name, *options, kernel=kernel)

    new = ("--offload-new-driver",)
    jobs: dict[str, tuple[str, ...]] = {
        "gfx90a.so": (*SHARED, *offload("gfx90a")),
        "gfx942.so": (*SHARED, *offload("gfx942")),
        "both.so": (*SHARED, *offload(*ARCHS)),
        "both_compressed.so": (*SHARED, "--offload-compress", *offload(*ARCHS)),
        "features.so": (*SHARED, *offload("gfx90a:xnack+", "gfx942:sramecc+:xnack-")),
        "generic.so": (*SHARED, "-mcode-object-version=6", *offload("gfx9-generic")),
        "version4.so": (*SHARED, "-mcode-object-version=4", *offload("gfx942")),
        "version6.so": (*SHARED, "-mcode-object-version=6", *offload("gfx942")),
        "one_rdc.so": (*SHARED, "-fgpu-rdc", *offload("gfx942")),
        "device_only.hipfb": ("--cuda-device-only", *offload(*ARCHS)),
        "device_only_compressed.hipfb": ("--cuda-device-only", "--offload-compress", *offload(*ARCHS)),
        "plain.o": ("-c", *offload("gfx942")),
        "plain90a.o": ("-c", *offload("gfx90a")),
        "compressed.o": ("-c", "--offload-compress", *offload(*ARCHS)),
        "rdc.o": ("-c", "-fgpu-rdc", *offload("gfx942")),
        "new.o": ("-c", *new, *offload("gfx942")),
        "new_rdc.o": ("-c", *new, "-fgpu-rdc", *offload(*ARCHS)),
    }
    twins = {"plain90a.o": "two", "compressed.o": "three"}
    with ThreadPoolExecutor(2) as pool:
        tasks = [
            pool.submit(compile_to, name, *options, kernel=twins.get(name, "one"))
            for name, options in jobs.items()
        ]
        tasks += [
            pool.submit(compile_to, "rdc_two.o", *jobs["rdc.o"], kernel="two"),
            pool.submit(compile_to, "new_rdc_two.o", *jobs["new_rdc.o"], kernel="two"),
        ]
        for task in tasks:
            task.result()

    def here(*names: str) -> list[Path]:
        return [folder / name for name in names]

    run(*LINK, *here("plain.o", "plain90a.o", "compressed.o"), "-o", folder / "several.so")
    run(*LINK, "-fgpu-rdc", *offload("gfx942"), *here("rdc.o", "rdc_two.o"), "-o", folder / "rdc.so")
    run(
        *LINK,
        *new,
        "-fgpu-rdc",
        *offload(*ARCHS),
        *here("new_rdc.o", "new_rdc_two.o"),
        "-o",
        folder / "new_rdc.so",
    )
    run("g++-11", "-shared", *here("plain.o", "plain90a.o"), "-o", folder / "gcc.so")
    run("ld", "-r", *here("plain.o", "plain90a.o"), "-o", folder / "merged.o")
    run("ld", "-r", *here("rdc.o", "rdc_two.o"), "-o", folder / "merged_rdc.o")
    run("ar", "rcs", folder / "libx.a", *here("plain.o", "plain90a.o", "compressed.o", "rdc.o"))
    run("llvm-ar-19", "rcsT", folder / "thin.a", *here("plain.o"))
    run("llvm-strip-19", folder / "both.so", "-o", folder / "stripped.so")
    run(
        *("clang-offload-bundler-19", "--type=o", "--unbundle", f"--input={folder / 'device_only.hipfb'}"),
        *(f"--targets=hipv4-amdgcn-amd-amdhsa--{arch}" for arch in ARCHS[:1]),
        f"--output={folder / 'gfx90a.hsaco'}",
    )
    return folder


EXPECTED: Mapping[str, tuple[str, tuple[str, ...], int]] = {
    "gfx90a.so": ("host binary", ("gfx90a",), 1),
    "gfx942.so": ("host binary", ("gfx942",), 1),
    "both.so": ("host binary", ARCHS, 2),
    "both_compressed.so": ("host binary", ARCHS, 2),
    "stripped.so": ("host binary", ARCHS, 2),
    "features.so": ("host binary", ("gfx90a:xnack+", "gfx942:sramecc+:xnack-"), 2),
    "generic.so": ("host binary", ("gfx9-generic",), 1),
    "version4.so": ("host binary", ("gfx942",), 1),
    "version6.so": ("host binary", ("gfx942",), 1),
    "one_rdc.so": ("host binary", ("gfx942",), 1),
    "rdc.so": ("host binary", ("gfx942",), 1),
    "new_rdc.so": ("host binary", ARCHS, 2),
    "several.so": ("host binary", ARCHS, 4),
    "gcc.so": ("host binary", ARCHS, 2),
    "device_only.hipfb": ("bundle", ARCHS, 2),
    "device_only_compressed.hipfb": ("compressed bundle", ARCHS, 2),
    "gfx90a.hsaco": ("code object", ("gfx90a",), 1),
    "plain.o": ("host object", ("gfx942",), 1),
    "compressed.o": ("host object", ARCHS, 2),
    "rdc.o": ("host object", ("gfx942",), 1),
    "new.o": ("host object", ("gfx942",), 1),
    "new_rdc.o": ("host object", ARCHS, 2),
    "merged.o": ("host object", ARCHS, 2),
    "merged_rdc.o": ("host object", ("gfx942",), 1),
    "libx.a": ("static archive", ARCHS, 5),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_form_is_read(made: Path, name: str) -> None:
    report = verify_path(made / name)
    assert report.all_faults() == []
    (file,) = report.files
    assert (file.kind, file.targets, file.objects) == EXPECTED[name]


def test_thin_archive_is_read_where_its_members_lie(made: Path, tmp_path: Path) -> None:
    report = verify_path(made / "thin.a")
    assert report.all_faults() == []
    assert report.targets() == EXPECTED["plain.o"][1]
    (tmp_path / "thin.a").write_bytes((made / "thin.a").read_bytes())
    assert any("plain.o, a member of a thin archive" in line for line in verify_path(tmp_path).all_faults())


def test_section_removed_by_a_tool_is_noticed(made: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.so"
    run("llvm-objcopy-19", "--remove-section=.hip_fatbin", made / "gfx942.so", cut)
    report = verify_path(cut)
    assert report.damaged
    assert "number of bundles" in report.all_faults()[0]


@pytest.mark.parametrize(
    "name", ["gfx90a.so", "both.so", "features.so", "generic.so", "new.o", "version6.so"]
)
def test_agreement_with_llvm_tools(made: Path, tmp_path: Path, name: str) -> None:
    """clang-offload-bundler lists the same ids; llvm-readelf reads the same target in each code object."""
    fatbin = tmp_path / "fatbin"
    run("llvm-objcopy-19", f"--dump-section=.hip_fatbin={fatbin}", made / name, tmp_path / "copy")
    ids = run("clang-offload-bundler-19", "--type=o", "--list", f"--input={fatbin}").split()
    device_ids = [entry for entry in ids if not entry.startswith("host")]
    assert sorted(entry.partition("--")[2] for entry in device_ids) == list(found(made / name).targets)
    for entry in device_ids:
        code_object = tmp_path / "code_object.co"
        run(
            *("clang-offload-bundler-19", "--type=o", "--unbundle", f"--input={fatbin}"),
            *(f"--targets={entry}", f"--output={code_object}"),
        )
        (target,) = found(code_object).targets
        assert target == readelf_target(run("llvm-readelf-19", "-h", code_object))
        assert target == entry.partition("--")[2]


def test_compressed_ids_as_the_bundler_lists_them(made: Path) -> None:
    bundle = made / "device_only_compressed.hipfb"
    assert bundle.read_bytes()[:6] == b"CCOB\x02\x00"
    ids = run("clang-offload-bundler-19", "--type=o", "--list", f"--input={bundle}").split()
    assert {entry.partition("--")[2] for entry in ids if "amdgcn" in entry} == set(found(bundle).targets)


def found(path: Path) -> FileReport:
    (file,) = verify_path(path).files
    return file


def readelf_target(text: str) -> str:
    """Target of ``Flags: 0xE4C, gfx942, xnack-, sramecc+``; a feature without a sign is any setting."""
    match = re.search(r"Flags:\s+0x[0-9A-F]+, ([^\n]*)", text)
    assert match, text
    processor, *features = match[1].split(", ")
    settings = sorted(word for word in features if word[-1] in "+-")
    return ":".join([processor, *settings])


def test_processor_table_agrees_with_clang(tmp_path: Path) -> None:
    """Each processor of clang 19, and its feature settings, as llvm-mc writes and llvm-readelf reads them."""
    helped = subprocess.run(
        ["llc-19", "-mtriple=amdgcn-amd-amdhsa", "-mcpu=help"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    processors = sorted(
        set(re.findall(r"^ *(gfx\S+) +- Select the \1 processor", helped.stderr, re.MULTILINE))
    )
    assert {"gfx90a", "gfx942"} <= set(processors)
    cases = [(processor, "") for processor in processors]
    cases += [
        ("gfx90a", "+xnack"),
        ("gfx942", "+sramecc,-xnack"),
        ("gfx942", "-sramecc"),
        ("gfx90a", "-xnack"),
    ]

    def check(number: int, processor: str, features: str) -> None:
        path = tmp_path / f"{number}.hsaco"
        run(
            *("llvm-mc-19", "-triple=amdgcn-amd-amdhsa", f"-mcpu={processor}", f"-mattr={features}"),
            *("-filetype=obj", "-o", path, "/dev/null"),
        )
        (target,) = found(path).targets
        assert target == readelf_target(run("llvm-readelf-19", "-h", path))
        assert Target.parse(target).processor == processor

    with ThreadPoolExecutor(2) as pool:
        for task in [pool.submit(check, number, *case) for number, case in enumerate(cases)]:
            task.result()
    unknown_to_clang_19 = set(PROCESSOR_OF_MACH.values()) - set(processors)
    assert unknown_to_clang_19 <= {
        *("gfx950", "gfx1153", "gfx1154", "gfx1170", "gfx1171", "gfx1172", "gfx1250", "gfx1251", "gfx1310"),
        *("gfx9-4-generic", "gfx11-7-generic", "gfx12-5-generic", "gfx13-generic"),
    }


def test_package_of_compiled_files(made: Path, tmp_path: Path) -> None:
    def package(*names: str) -> list[str]:
        files = {f"lib/{name}": (made / name).read_bytes() for name in names}
        path = write_conda(tmp_path / "canary-1.0-h0_0.conda", files, conda_info(["gfx942"]))
        return verify_path(path, policy=code_only_policy(tmp_path)).all_faults()

    good = ("gfx942.so", "rdc.so", "one_rdc.so", "plain.o", "new.o", "version4.so")
    assert package(*good) == []
    for wrong in ("gfx90a.so", "both_compressed.so", "several.so", "libx.a", "features.so", "generic.so"):
        faults = package(*good, wrong)
        assert faults
        assert all(f"lib/{wrong}: code for" in fault for fault in faults)
