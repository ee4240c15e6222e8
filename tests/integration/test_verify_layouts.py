"""Folders as rocBLAS, hipBLASLt, Triton and MIOpen lay them out: content decides, a name is only reported."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from channel_tools.verify import Report, verify_path
from tests.integration.clang_hip import run
from tests.integration.sample_files import triton_like

PROBLEM = "TensileLibrary_Type_HH_HPA_Contraction_l_Ailk_Bjlk_Cijk_Dijk"
METADATA = b"\x82\xa9solutions\x90\xa7library\x80"
SQLITE = b"SQLite format 3\0" + bytes(4080)


def wanted(folder: Path, *archs: str) -> Report:
    return verify_path(folder, frozenset(archs))


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Code for gfx942 bare, bundled and compressed, and a stray for gfx90a."""
    folder = tmp_path_factory.mktemp("code")
    bare = triton_like(folder / "gfx942.hsaco", "gfx942")
    triton_like(folder / "gfx90a.hsaco", "gfx90a")
    targets = "--targets=host-x86_64-unknown-linux--,hipv4-amdgcn-amd-amdhsa--gfx942"
    bundle = ("clang-offload-bundler-19", "--type=o", "--bundle-align=4096", targets, "--input=/dev/null")
    run(*bundle, f"--input={bare}", f"--output={folder / 'bundle'}")
    run(*bundle, f"--input={bare}", "--compress", f"--output={folder / 'compressed'}")
    return folder


@pytest.fixture
def tensile(code: Path, tmp_path: Path) -> Path:
    """rocBLAS and hipBLASLt for gfx942: code in four wrappings, under names that tell nothing of them."""
    rocblas, hipblaslt = tmp_path / "lib/rocblas/library", tmp_path / "lib/hipblaslt/library"
    for folder in (rocblas, hipblaslt):
        folder.mkdir(parents=True)
        for name in (
            f"{PROBLEM}_gfx942.dat",
            f"{PROBLEM}_fallback.dat",
            "TensileLiteLibrary_lazy_Mapping.dat",
        ):
            (folder / name).write_bytes(METADATA)
    shutil.copyfile(code / "gfx942.hsaco", rocblas / f"{PROBLEM}_gfx942.co")
    shutil.copyfile(code / "gfx942.hsaco", rocblas / "Kernels.so-000-gfx942.hsaco")
    shutil.copyfile(code / "compressed", hipblaslt / f"{PROBLEM}_gfx942.co")
    shutil.copyfile(code / "bundle", hipblaslt / "Kernels.so-000-gfx942.hsaco")
    shutil.copyfile(code / "gfx942.hsaco", hipblaslt / "hipblasltTransform.hsaco")
    return tmp_path / "lib"


def test_tensile_libraries(tensile: Path) -> None:
    report = wanted(tensile, "gfx942")
    assert report.all_faults() == []
    code_files = [file for file in report.files if file.objects]
    kinds = ["bundle", "code object", "code object", "code object", "compressed bundle"]
    assert sorted(file.kind for file in code_files) == kinds
    assert {file.targets for file in code_files} == {("gfx942",)}
    named = {file.path.rpartition("/")[2]: file.named for file in report.files if not file.objects}
    assert named[f"{PROBLEM}_gfx942.dat"] == ("gfx942",)
    assert not named.get(f"{PROBLEM}_fallback.dat")


@pytest.mark.parametrize(
    "name", ["hipblaslt/library/hipblasltTransform.hsaco", "rocblas/library/Kernels.so-000-gfx942.hsaco"]
)
def test_no_name_makes_code_for_gfx942(tensile: Path, code: Path, name: str) -> None:
    """A name without an arch, and one with the wrong arch: both files hold gfx90a."""
    shutil.copyfile(code / "gfx90a.hsaco", tensile / name)
    faults = wanted(tensile, "gfx942").all_faults()
    assert any(f"{name}: code for gfx90a" in fault for fault in faults)
    assert all(name in fault for fault in faults)


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        (f"rocblas/library/{PROBLEM}_gfx90a.dat", "gfx90a"),
        ("hipblaslt/library/gfx90a/TensileLibrary_HH_HH_UA_Bias_SAV_Type_HH_gfx90a.dat", "gfx90a"),
        ("hipblaslt/library/TensileLibrary_lazy_gfx90a.dat", "gfx90a"),
        ("share/miopen/db/gfx90a68.HIP.fdb.txt", "gfx90a"),
        ("share/miopen/db/gfx90a_104.HIP.fdb.txt", "gfx90a"),
        ("share/miopen/db/gfx90a.db", "gfx90a"),
        ("share/miopen/db/gfx90a6e.kdb", "gfx90a"),
        ("share/miopen/db/gfx90a_ConvHipIgemmGroupFwdXdlops_encoder.ktn.model", "gfx90a"),
        ("share/miopen/db/gfx90a.tn.model", "gfx90a"),
        ("share/miopen/db/gfx103036.db.txt", "gfx1030"),
        ("share/miopen/db/gfx1030_36.OpenCL.fdb.txt", "gfx1030"),
        ("share/miopen/db/gfx908_metadata.tn.model", "gfx908"),
    ],
)
def test_data_that_only_its_name_ties_to_a_gpu(tmp_path: Path, code: Path, name: str, arch: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_bytes(SQLITE if name.endswith("db") else METADATA)
    shutil.copyfile(code / "gfx942.hsaco", tmp_path / "kernel.hsaco")
    listed = verify_path(tmp_path)
    assert listed.all_faults() == []
    (file,) = [file for file in listed.files if file.path == name]
    assert (file.named, file.targets, file.objects) == ((arch,), (), 0)
    assert listed.targets() == ("gfx942",)
    (fault,) = wanted(tmp_path, "gfx942").all_faults()
    assert name in fault
    assert arch in fault
    good = tmp_path / name.replace(arch, "gfx942")
    good.parent.mkdir(parents=True, exist_ok=True)
    path.rename(good)
    assert wanted(tmp_path, "gfx942").all_faults() == []


def test_data_is_never_taken_for_code(tmp_path: Path) -> None:
    """A package of data for gfx942 alone holds no code for it."""
    (tmp_path / "gfx942130.kdb").write_bytes(SQLITE)
    (tmp_path / f"{PROBLEM}_gfx942.dat").write_bytes(METADATA)
    report = wanted(tmp_path, "gfx942")
    assert report.targets() == ()
    assert any("no GPU code" in fault for fault in report.all_faults())


def test_triton_cache(tmp_path: Path) -> None:
    """One folder a kernel, named by a hash: the code object, and its source in other languages beside it."""
    for arch in ("gfx90a", "gfx942"):
        folder = tmp_path / hashlib.sha256(arch.encode()).hexdigest()
        folder.mkdir()
        triton_like(folder / "add.hsaco", arch, keep=True)
        (folder / "add.json").write_text(json.dumps({"target": {"backend": "hip", "arch": arch}}))
        (folder / "__grp__add.json").write_text(json.dumps({"child_paths": {}}))
    report = verify_path(tmp_path)
    assert report.all_faults() == []
    found = [(file.path.rpartition("/")[2], *file.targets) for file in report.files if file.objects]
    assert sorted(found) == [("add.hsaco", "gfx90a"), ("add.hsaco", "gfx942")]
    (fault,) = wanted(tmp_path, "gfx942").all_faults()
    assert "add.hsaco: code for gfx90a" in fault


def test_thin_archive_is_no_proof(tmp_path: Path, code: Path) -> None:
    """Its members lie beside it: they are read, and the archive itself is never passed in silence."""
    run("llvm-objcopy-19", "-I", "binary", "-O", "elf64-x86-64", code / "gfx90a.hsaco", tmp_path / "one.o")
    run("llvm-ar-19", "rcsT", tmp_path / "libthin.a", tmp_path / "one.o")
    assert (tmp_path / "libthin.a").read_bytes().startswith(b"!<thin>")
    report = verify_path(tmp_path)
    (member,) = [file for file in report.files if file.path == "one.o"]
    assert member.targets == ("gfx90a",)
    (archive,) = [file for file in report.files if file.path == "libthin.a"]
    assert archive.faults or archive.targets == ("gfx90a",)
    assert wanted(tmp_path, "gfx942").verdict == "fail"


def test_scan_finds_code_in_files_of_no_known_kind(tmp_path: Path, code: Path) -> None:
    """Kernels inside a saved model or another blob: no name and no first bytes tell of them."""
    blob = b"model" * 999
    parts = [(code / name).read_bytes() for name in ("gfx942.hsaco", "compressed", "gfx90a.hsaco")]
    (tmp_path / "model.bin").write_bytes(blob + blob.join(parts) + blob)
    assert verify_path(tmp_path).targets() == ()
    report = verify_path(tmp_path, scan=True)
    assert report.all_faults() == []
    (file,) = report.files
    assert (file.path, file.targets, file.objects) == ("model.bin", ("gfx90a", "gfx942"), 3)
    told = verify_path(tmp_path, frozenset({"gfx942"}), scan=True).all_faults()
    assert any("model.bin: code for gfx90a" in fault for fault in told)
