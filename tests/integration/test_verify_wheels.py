"""Real wheels that nobody here made, as pip's own configuration finds them; kept in ``.cache/wheels``.

The targets stand here as they were found, and each is confirmed by another way to look at the bytes: LLVM's
bundler for the libraries of bitsandbytes, a count of ELF headers for those of mojolearn-amd. Nothing of the
wheels is installed or run.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from channel_tools.verify import FileReport, Report, verify_path
from tests.integration.clang_hip import run

pytestmark = pytest.mark.network

WHEELS = Path(__file__).resolve().parents[2] / ".cache" / "wheels"

# bitsandbytes 0.50.2: two translation units a library, one compressed bundle each. From ROCm 7.1 on they
# are version 3 of the format, which clang 19 cannot read.
ROCM_64 = (
    *("gfx908", "gfx90a", "gfx942"),
    *("gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1103"),
    *("gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1200", "gfx1201"),
)
ROCM_70 = (*ROCM_64, "gfx950")
ROCM_714 = (
    *ROCM_70,
    *("gfx1010", "gfx1011", "gfx1012", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    "gfx1250",
)
BITSANDBYTES = {
    "libbitsandbytes_rocm64.so": (2, ROCM_64),
    "libbitsandbytes_rocm70.so": (2, ROCM_70),
    "libbitsandbytes_rocm71.so": (3, ROCM_70),
    "libbitsandbytes_rocm72.so": (3, ROCM_70),
    "libbitsandbytes_rocm714.so": (3, ROCM_714),
    "libbitsandbytes_rocm715.so": (3, ROCM_714),
}
# Code objects for gfx942 in each library of mojolearn-amd 0.8.62, all of them in plain data.
MOJOLEARN = {
    "_adapters/libmojolearn_adapter.so": 128,
    "_adapters/mojolearn_torch.so": 0,
    "identical/_mojolearn_native.so": 1288,
    "identical/_mojolearn_native_cluster.so": 928,
    "identical/_mojolearn_native_sequence.so": 674,
    "identical/_mojolearn_native_trees.so": 1184,
    "identical/_mojolearn_x_sequence.so": 300,
}


def fetch(requirement: str) -> Path:
    """The wheel of ``name==version``, from the cache or through pip."""
    name, _, version = requirement.partition("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if not list(WHEELS.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        command += ["--dest", str(WHEELS), "--quiet", "--disable-pip-version-check", requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    (wheel,) = WHEELS.glob(pattern)
    return wheel


@pytest.fixture(scope="module")
def bitsandbytes() -> Path:
    return fetch("bitsandbytes==0.50.2")


@pytest.fixture(scope="module")
def mojolearn() -> Path:
    return fetch("mojolearn-amd==0.8.62")


def files_of(report: Report, folder: str) -> dict[str, FileReport]:
    return {file.path.removeprefix(folder): file for file in report.files if file.path.endswith(".so")}


def test_bitsandbytes_has_the_targets_of_each_rocm_release(bitsandbytes: Path) -> None:
    report = verify_path(bitsandbytes)
    assert report.all_faults() == []
    assert (report.kind, report.package and report.package.name) == ("wheel", "bitsandbytes")
    assert report.targets() == tuple(sorted(ROCM_714))
    files = files_of(report, "bitsandbytes/")
    for name, (_, targets) in BITSANDBYTES.items():
        assert files[name].targets == tuple(sorted(targets))
        assert files[name].objects == 2 * len(targets)
    others = {name: file for name, file in files.items() if name not in BITSANDBYTES}
    assert {"libbitsandbytes_cpu.so", "libbitsandbytes_cuda130.so", "libbitsandbytes_xpu2026.so"} <= set(
        others
    )
    assert not any(file.targets for file in others.values())


def test_bitsandbytes_as_the_bundler_lists_it(bitsandbytes: Path, tmp_path: Path) -> None:
    """clang 19 reads each bundle, those of version 3 after their header is written as version 2."""
    with zipfile.ZipFile(bitsandbytes) as archive:
        for name, (version, targets) in BITSANDBYTES.items():
            library = Path(archive.extract(f"bitsandbytes/{name}", tmp_path))
            section = tmp_path / "section"
            run("llvm-objcopy-19", f"--dump-section=.hip_fatbin={section}", library, "/dev/null")
            bundles = list(as_version_2(section.read_bytes(), version))
            assert len(bundles) == 2
            for bundle in bundles:
                path = tmp_path / "bundle"
                path.write_bytes(bundle)
                ids = run("clang-offload-bundler-19", "--type=o", "--list", f"--input={path}").split()
                assert Counter(entry.partition("--")[2] for entry in ids if "amdgcn" in entry) == Counter(
                    targets
                )


def as_version_2(section: bytes, version: int) -> Iterator[bytes]:
    layout, size = {2: ("<II8s", 24), 3: ("<QQ8s", 32)}[version]
    for match in re.finditer(rb"CCOB" + struct.pack("<HH", version, 1), section):
        start = match.start()
        total, raw_size, digest = struct.unpack_from(layout, section, start + 8)
        payload = section[start + size : start + total]
        yield b"CCOB" + struct.pack("<HHII8s", 2, 1, 24 + len(payload), raw_size, digest) + payload


def test_wheel_for_many_gpus_is_refused_for_one(bitsandbytes: Path) -> None:
    faults = verify_path(bitsandbytes, frozenset({"gfx942"})).all_faults()
    assert len(faults) == sum(len(targets) - 1 for _, targets in BITSANDBYTES.values())
    assert all("code for gfx" in fault and "_rocm" in fault for fault in faults)


def test_mojolearn_has_its_code_in_plain_data(mojolearn: Path) -> None:
    """4,502 code objects for gfx942, 674 of them in one library, and no section that is made for them."""
    report = verify_path(mojolearn, frozenset({"gfx942"}))
    assert report.all_faults() == []
    folder = "mojolearn/hip_native/gfx942/"
    files = files_of(report, folder)
    assert {name: file.objects for name, file in files.items()} == MOJOLEARN
    assert {file.targets for file in files.values() if file.objects} == {("gfx942",)}
    with zipfile.ZipFile(mojolearn) as archive:
        for name, objects in MOJOLEARN.items():
            content = archive.read(folder + name)
            assert b".hip_fatbin" not in content
            assert content.count(b"\x7fELF\x02\x01\x01\x40") == objects


def test_mojolearn_is_refused_for_another_gpu(mojolearn: Path) -> None:
    faults = verify_path(mojolearn, frozenset({"gfx90a"})).all_faults()
    assert sum("code for gfx942" in fault for fault in faults) == sum(map(bool, MOJOLEARN.values()))
    assert any("no code for gfx90a" in fault for fault in faults)
