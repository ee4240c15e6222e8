"""One file for each kind of GPU code that users meet, with what it holds: 42 samples, and six more.

What clang 19 cannot make lies in ``tests/data/code_objects``; everything else is made here, with clang 19,
the SDK root of :func:`tests.conftest.sdk_root`, CMake and g++-11. What was made with HIP 6.4.3 elsewhere
(``real64_*``) is made with the SDK's HIP, and linked with a library of that release's name. Nothing here ever
runs on a GPU.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.integration.clang_hip import ARCHS, LINK, SHARED, compile_hip, offload, run, write_source
from tests.unit.test_verify_support import DATA, compressed

_BOTH: Final = offload(*ARCHS)
_GFX942: Final = offload("gfx942")

_REAL_SOURCE: Final = """
#include <hip/hip_runtime.h>
#include <vector>
template <typename T> __global__ void scale(T *data, T by, int count) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) data[at] = expf(data[at]) * by;
}
__global__ void add(const float *left, const float *right, float *sum, int count) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) sum[at] = left[at] + right[at];
}
extern "C" int run_all(int count) {
  std::vector<float> host(count);
  float *data = nullptr;
  if (hipMalloc(&data, count * sizeof(float)) != hipSuccess) return 1;
  scale<float><<<1, 64>>>(data, 2.0f, count);
  add<<<1, 64>>>(data, data, data, count);
  return hipFree(data);
}
"""
_CMAKE_PROJECT: Final = """
cmake_minimum_required(VERSION 3.21)
project(sample LANGUAGES CXX HIP)
add_library(cmake_both SHARED real.hip)
set_target_properties(cmake_both PROPERTIES PREFIX "" HIP_STANDARD 17)
"""
_KERNEL: Final = {
    "add": """
__attribute__((amdgpu_kernel)) void add(GLOBAL float *left, GLOBAL float *right, GLOBAL float *sum) {
  int at = __builtin_amdgcn_workitem_id_x();
  sum[at] = left[at] + right[at];
}""",
    "mm": """
typedef float float4v __attribute__((ext_vector_type(4)));
__attribute__((amdgpu_kernel)) void mm(GLOBAL float *left, GLOBAL float *right, GLOBAL float4v *product) {
  int at = __builtin_amdgcn_workitem_id_x();
  product[at] = __builtin_amdgcn_mfma_f32_16x16x4f32(left[at], right[at], product[at], 0, 0, 0);
}""",
}


@dataclass(frozen=True)
class Sample:
    """What a file holds: targets as its bundle ids spell them, number of code objects, kind of file.

    ``fault`` is a part of what must be said of a damaged file, ``fault_at`` the offset that must be named.
    """

    targets: tuple[str, ...]
    objects: int
    kind: str
    fault: str | None = None
    fault_at: int | None = None


_LIBRARY_BOTH: Final = Sample(ARCHS, 2, "host binary")
_LIBRARY_942: Final = Sample(("gfx942",), 1, "host binary")
_PACKED: Final = Sample(ARCHS, 2, "compressed bundle")

SAMPLES: Final[dict[str, Sample]] = {
    "bad_bundle_trunc.co": Sample((), 0, "bundle", "leaves the file", 0x1000),
    "bad_ccob_hash.co": Sample(ARCHS, 2, "compressed bundle", "does not match its hash", 0),
    "bad_ccob_size.co": Sample((), 0, "compressed bundle", "unpacks to another size", 0x18),
    "bundle_both.co": Sample(ARCHS, 2, "bundle"),
    "ccob_v1_zlib.co": _PACKED,
    "ccob_v1_zstd.co": _PACKED,
    "ccob_v2_zlib.co": _PACKED,
    "ccob_v2_zstd.co": _PACKED,
    "ccob_v3_zlib.co": _PACKED,
    "ccob_v3_zstd.co": _PACKED,
    "cmake_both.so": _LIBRARY_BOTH,
    "deviceonly_both.hipfb": Sample(ARCHS, 2, "bundle"),
    "deviceonly_gfx942.hsaco": Sample(("gfx942",), 1, "bundle"),
    "gcc11_link_both.so": _LIBRARY_BOTH,
    "libmulti.a": Sample(ARCHS, 4, "static archive"),
    "mini21_ccob_v1.so": _LIBRARY_942,
    "mini21_ccob_v2.so": _LIBRARY_942,
    "mini21_generic94.so": Sample(("gfx9-4-generic",), 1, "host binary"),
    "mini21_gfx950.so": Sample(("gfx950",), 1, "host binary"),
    "mini21_newdrv.so": _LIBRARY_942,
    "mini_both.so": _LIBRARY_BOTH,
    "mini_both_ccob.so": _LIBRARY_BOTH,
    "mini_both_stripped.so": _LIBRARY_BOTH,
    "mini_feat.so": Sample(("gfx90a:xnack+", "gfx942:sramecc+:xnack-"), 2, "host binary"),
    "mini_gfx90a.so": Sample(("gfx90a",), 1, "host binary"),
    "mini_gfx942.so": _LIBRARY_942,
    "mini_gfx9generic.so": Sample(("gfx9-generic",), 1, "host binary"),
    "mini_rdc_gfx942.so": _LIBRARY_942,
    "multi_mixed_bfd.so": Sample(ARCHS, 6, "host binary"),
    "multi_tu_both.so": Sample(ARCHS, 4, "host binary"),
    "rdc_old.o": Sample(("gfx942",), 1, "host object"),
    "real57_both.so": _LIBRARY_BOTH,
    "real57stub_both.so": _LIBRARY_BOTH,
    "real64_both.so": _LIBRARY_BOTH,
    "real64_gfx942.so": _LIBRARY_942,
    "real64_rdc.so": _LIBRARY_942,
    "synthetic.aks2": Sample(("gfx942",), 2, "aks2"),
    "synthetic.kpack": Sample(ARCHS, 2, "kpack"),
    "triton_add_gfx90a.hsaco": Sample(("gfx90a",), 1, "code object"),
    "triton_add_gfx942.hsaco": Sample(("gfx942",), 1, "code object"),
    "triton_add_gfx950.hsaco": Sample(("gfx950",), 1, "code object"),
    "triton_mm_gfx90a.hsaco": Sample(("gfx90a",), 1, "code object"),
}

MORE: Final[dict[str, Sample]] = {
    "newdriver_rdc.o": Sample(ARCHS, 2, "host object"),
    "newdriver.o": Sample(("gfx942",), 1, "host object"),
    "newdriver.a": Sample(ARCHS, 3, "static archive"),
    "newdriver_rdc.so": Sample(ARCHS, 2, "host binary"),
    "offload_packager.bin": Sample(ARCHS, 2, "offload binary"),
    "mini_without_sections.so": _LIBRARY_BOTH,
}
"""Kinds that the 42 lack: LLVM's offload binaries, and a library without its section table."""


def make_samples(folder: Path, work: Path, sdk_root: Path) -> Path:
    """Fill ``folder`` with every file of :data:`SAMPLES` and :data:`MORE`, in about ten seconds.

    :param work: an empty folder for what is left over
    """
    for name in SAMPLES:
        if (DATA / name).exists():
            shutil.copyfile(DATA / name, folder / name)
    source = write_source(work)
    real = work / "real.hip"
    real.write_text(_REAL_SOURCE)

    def mini(name: str, *options: str, kernel: str = "one") -> Callable[[], object]:
        place = work if name.endswith(".o") and name not in SAMPLES | MORE else folder
        return lambda: compile_hip(source, place / name, *options, kernel=kernel)

    def with_headers(output: Path, *options: str) -> Callable[[], object]:
        headers = ("clang++-19", "-x", "hip", "-std=c++17", "-O2", "-fPIC", f"--rocm-path={sdk_root}")
        return lambda: run(*headers, *options, real, "-o", output)

    jobs: list[Callable[[], object]] = [
        lambda: _cmake(folder, work, sdk_root),
        with_headers(work / "real.o", "-c", *_BOTH),
        with_headers(folder / "real64_gfx942.so", "-shared", "-no-hip-rt", *_GFX942),
        with_headers(folder / "real64_rdc.so", "-shared", "-no-hip-rt", "-fgpu-rdc", *_GFX942),
        mini("deviceonly_both.hipfb", "--cuda-device-only", *_BOTH),
        mini("ccob_v2_zstd.co", "--cuda-device-only", "--offload-compress", *_BOTH),
        mini("deviceonly_gfx942.hsaco", "--cuda-device-only", *_GFX942),
        mini("mini21_ccob_v1.so", *SHARED, "--offload-compress", *_GFX942),
        mini("mini_both.so", *SHARED, *_BOTH),
        mini("mini_both_ccob.so", *SHARED, "--offload-compress", *_BOTH),
        mini("mini_feat.so", *SHARED, *offload("gfx90a:xnack+", "gfx942:sramecc+:xnack-")),
        mini("mini_gfx90a.so", *SHARED, *offload("gfx90a")),
        mini("mini_gfx942.so", *SHARED, *_GFX942),
        mini("mini_gfx9generic.so", *SHARED, "-mcode-object-version=6", *offload("gfx9-generic")),
        mini("mini_rdc_gfx942.so", *SHARED, "-fgpu-rdc", *_GFX942),
        mini("rdc_old.o", "-c", "-fgpu-rdc", *_GFX942),
        mini("newdriver_rdc.o", "-c", "--offload-new-driver", "-fgpu-rdc", *_BOTH),
        mini("newdriver.o", "-c", "--offload-new-driver", *_GFX942, kernel="two"),
        mini("two.o", "-c", *_BOTH, kernel="two"),
        mini("three.o", "-c", "--offload-compress", *_BOTH, kernel="three"),
        mini("four.o", "-c", "--offload-compress", *_BOTH, kernel="four"),
        lambda: triton_like(folder / "triton_add_gfx90a.hsaco", "gfx90a"),
        lambda: triton_like(folder / "triton_add_gfx942.hsaco", "gfx942"),
        lambda: triton_like(folder / "triton_mm_gfx90a.hsaco", "gfx90a", "mm"),
    ]
    with ThreadPoolExecutor(2) as pool:
        for task in [pool.submit(job) for job in jobs]:
            task.result()
    _link(folder, work, sdk_root)
    return folder


def _link(folder: Path, work: Path, sdk_root: Path) -> None:
    objects = [work / name for name in ("real.o", "two.o", "three.o", "four.o")]
    real, two, *packed = objects
    host = work / "host.o"
    (work / "host.cpp").write_text("int on_the_host() { return 1; }\n")
    run("g++-11", "-c", "-fPIC", work / "host.cpp", "-o", host)
    newer = work / "newer" / "libamdhip64.so"
    newer.parent.mkdir()
    run("g++-11", "-shared", "-Wl,-soname,libamdhip64.so.6", host, "-o", newer)
    hip = ("-L", sdk_root / "lib", "-lamdhip64")
    run(*LINK, real, *hip, "-o", folder / "real57_both.so")
    run(*LINK, real, sdk_root / "lib" / "libamdhip64.so.5", "-o", folder / "real57stub_both.so")
    run(*LINK, real, newer, "-o", folder / "real64_both.so")
    run(*LINK, real, two, *hip, "-o", folder / "multi_tu_both.so")
    run(*LINK, "-fuse-ld=bfd", two, *packed, "-o", folder / "multi_mixed_bfd.so")
    run("g++-11", "-shared", real, host, *hip, "-o", folder / "gcc11_link_both.so")
    run("ar", "rcs", folder / "libmulti.a", real, two, host)
    run("llvm-strip-19", folder / "mini_both.so", "-o", folder / "mini_both_stripped.so")
    run("llvm-objcopy-19", "--strip-sections", folder / "mini_both.so", folder / "mini_without_sections.so")
    run("ar", "rcs", folder / "newdriver.a", folder / "newdriver_rdc.o", folder / "newdriver.o")
    new = ("--offload-new-driver", "-fgpu-rdc", *_BOTH)
    run(*LINK, *new, folder / "newdriver_rdc.o", "-o", folder / "newdriver_rdc.so")
    _bundle(folder, work)


def _bundle(folder: Path, work: Path) -> None:
    """Take the driver's bundle apart, and put it together again with each tool that does so."""
    bundler = ("clang-offload-bundler-19", "--type=o")
    made = folder / "deviceonly_both.hipfb"
    ids = [f"hipv4-amdgcn-amd-amdhsa--{arch}" for arch in ARCHS]
    parts = [work / f"{arch}.hsaco" for arch in ARCHS]
    for bundle_id, part in zip(ids, parts, strict=True):
        run(*bundler, "--unbundle", f"--input={made}", f"--targets={bundle_id}", f"--output={part}")
    host = "host-x86_64-unknown-linux--"
    inputs = ("--input=/dev/null", *(f"--input={part}" for part in parts))
    output = folder / "bundle_both.co"
    run(*bundler, "--bundle-align=4096", f"--targets={','.join([host, *ids])}", *inputs, f"--output={output}")
    (folder / "ccob_v2_zlib.co").write_bytes(compressed(output.read_bytes(), 2, "zlib"))
    images = [
        f"--image=file={part},triple=amdgcn-amd-amdhsa,arch={arch},kind=hip"
        for arch, part in zip(ARCHS, parts, strict=True)
    ]
    run("clang-offload-packager-19", "-o", folder / "offload_packager.bin", *images)


def _cmake(folder: Path, work: Path, sdk_root: Path) -> None:
    project, build = work / "project", work / "build"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(_CMAKE_PROJECT)
    (project / "real.hip").write_text(_REAL_SOURCE)
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    cmake = shutil.which("cmake", path=tools) or "cmake"
    ninja = shutil.which("ninja", path=tools) or "ninja"
    run(
        *(cmake, "-S", project, "-B", build, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"),
        *("-DCMAKE_CXX_COMPILER=g++-11", f"-DCMAKE_HIP_COMPILER={shutil.which('clang++-19')}"),
        *(f"-DCMAKE_HIP_COMPILER_ROCM_ROOT={sdk_root}", f"-DCMAKE_HIP_FLAGS=--rocm-path={sdk_root}"),
        f"-DCMAKE_HIP_ARCHITECTURES={';'.join(ARCHS)}",
    )
    run(cmake, "--build", build)
    shutil.copyfile(build / "cmake_both.so", folder / "cmake_both.so")


def triton_like(output: Path, arch: str, kernel: str = "add", *, keep: bool = False) -> Path:
    """A bare code object as Triton makes it: from LLVM IR through assembler text, in no bundle.

    :param keep: leave ``.llir`` and ``.amdgcn`` beside it, as Triton's cache does
    """
    source, ir, assembler, relocatable = (output.with_suffix(f".{s}") for s in ("cl", "llir", "amdgcn", "o"))
    source.write_text(_KERNEL[kernel].replace("GLOBAL", "__global"))
    target = ("-target", "amdgcn-amd-amdhsa", f"-mcpu={arch}", "-nogpulib", "-w")
    run("clang-19", "-x", "cl", "-O2", *target, "-S", "-emit-llvm", source, "-o", ir)
    run("clang-19", "-x", "ir", "-O2", *target, "-S", ir, "-o", assembler)
    run("clang-19", "-x", "assembler", *target, "-c", assembler, "-o", relocatable)
    run("ld.lld-19", "-shared", relocatable, "-o", output)
    for rest in (source, relocatable, *(() if keep else (ir, assembler))):
        rest.unlink()
    return output
