"""HIP code that clang 19 compiles without any headers, and how tests call the compiler.

Compiling, linking and reading need no GPU; nothing that is made here ever runs on one.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = """
#define GLOBAL __attribute__((global))
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
using hipStream_t = struct ihipStream_t *;
using hipError_t = int;
extern "C" hipError_t __hipPushCallConfiguration(dim3, dim3, unsigned long = 0, hipStream_t = 0);
extern "C" hipError_t __hipPopCallConfiguration(dim3 *, dim3 *, unsigned long *, hipStream_t *);
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, hipStream_t);
GLOBAL void NAME(float *data) { data[__builtin_amdgcn_workitem_id_x()] += 1.0f; }
void launch(float *data) { NAME<<<1, 64>>>(data); }
"""
COMPILE: Final = ("clang++-19", "-x", "hip", "-std=c++17", "-O1", "-nogpuinc", "-nogpulib", "-fPIC", "-w")
LINK: Final = ("clang++-19", "--hip-link", "-nogpulib", "-no-hip-rt", "-shared", "-w")
SHARED: Final = ("-shared", "-no-hip-rt")
ARCHS: Final = ("gfx90a", "gfx942")


def run(*words: str | Path) -> str:
    """Run a program that must end well; what it prints on stdout."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def offload(*archs: str) -> list[str]:
    return [f"--offload-arch={arch}" for arch in archs]


def write_source(folder: Path) -> Path:
    """:data:`SOURCE` as a file."""
    source = folder / "source.hip"
    source.write_text(SOURCE)
    return source


def compile_hip(source: Path, output: Path, *options: str, kernel: str = "one") -> Path:
    """Compile :data:`SOURCE` with one kernel of that name, so that several units link into one library."""
    run(*COMPILE, f"-DNAME={kernel}", f"-Dlaunch=launch_{kernel}", *options, source, "-o", output)
    return output


def code_only_policy(folder: Path) -> Path:
    """A policy for packages of bare test files, whose linkage is not what the test is about."""
    path = folder / "code_only.toml"
    path.write_text(
        """
[[accepted]]
rules = [
  "library-undeclared", "library-unknown-origin", "library-missing", "library-release", "runpath",
  "symbol-version", "compiler", "optimisation", "offload-arch", "evidence",
]
files = ["*"]
reason = "linkage is tested elsewhere"
"""
    )
    return path
