"""What clang 19 makes is read with the same result as it passes and on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from channel_tools.verify import containers, files, sweep, verify_path
from tests.integration.clang_hip import ARCHS, LINK, SHARED, compile_hip, offload, run, write_source
from tests.unit.passing_support import check_same
from tests.unit.test_verify_support import conda_info, write_conda

RDC = ("-fgpu-rdc", "-c")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A library, object or archive of each form, with device code for :data:`ARCHS`."""
    folder = tmp_path_factory.mktemp("clang")
    source = write_source(folder)
    archs = offload(*ARCHS)

    def make(name: str, *options: str, kernel: str = "one") -> Path:
        return compile_hip(source, folder / name, *options, *archs, kernel=kernel)

    make("plain.so", *SHARED)
    make("new_driver.so", "--offload-new-driver", *SHARED)
    objects = [make(f"{kernel}.o", "-c", kernel=kernel) for kernel in ("one", "two", "three")]
    packed = [make(f"{k}_packed.o", "-c", "--offload-compress", kernel=k) for k in ("four", "five", "six")]
    make("rdc.o", *RDC)
    make("rdc_new.o", "--offload-new-driver", *RDC)
    run(*LINK, *archs, *objects, *packed, "-o", folder / "many.so")
    run(*LINK, "-fgpu-rdc", *archs, folder / "rdc.o", "-o", folder / "rdc.so")
    run("llvm-strip-19", folder / "many.so", "-o", folder / "stripped.so")
    run("llvm-ar-19", "rcs", folder / "lib.a", *objects, *packed)
    compile_hip(source, folder / "one.hsaco", "--cuda-device-only", *offload(ARCHS[0]))
    make("both.hipfb", "--cuda-device-only", "--gpu-bundle-output")
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path != source}


@pytest.fixture(autouse=True)
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "KEPT_START", 4000)
    monkeypatch.setattr(files, "_IN_MEMORY", 3000)
    monkeypatch.setattr(containers, "_IN_MEMORY", 0)


@pytest.mark.parametrize(("piece", "ring"), [(1 << 18, 4 << 20), (4096, 20_000), (500, 3000)])
def test_same_result_and_one_pass(made: dict[str, bytes], piece: int, ring: int) -> None:
    for name, data in made.items():
        passes = check_same(name, data, piece=piece, ring=ring)
        assert passes == 1 or ring < 20_000, name


def test_same_result_in_a_package(made: dict[str, bytes], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "lib").mkdir(parents=True)
    for name, data in made.items():
        (folder / "lib" / name).write_bytes(data)
    inside = {f"lib/{name}": data for name, data in made.items()}
    package = verify_path(write_conda(tmp_path / "x-1.0-h0_0.conda", inside, conda_info(None)))
    on_disk = verify_path(folder)
    assert [file.path for file in package.files] == [f"lib/{name}" for name in made]
    for one, other in zip(package.files, on_disk.files, strict=True):
        assert (one.path, one.kind, one.targets, one.objects) == (
            other.path,
            other.kind,
            other.targets,
            other.objects,
        )
        assert one.linkage == other.linkage
        assert {*other.targets} <= {*ARCHS}
        assert other.targets
