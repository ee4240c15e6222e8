#!/usr/bin/env bash
# LLVM, MLIR and lld for Triton: static libraries, the tools that its build runs, all below lib/triton-llvm.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/guards.sh
. "$here/lib/guards.sh"

guard_stale
guard_jobs
guard_network
# No HIP compiler takes part, so guard_compilers has nothing to tie.
read_compiler CC c
read_compiler CXX c++
wanted=${cxx_compiler_version:?}
[[ ${GCC_VERSION%%.*} == "${wanted%%.*}" ]] ||
  guard_fail 63 compilers "CXX is not the GCC of this variant" "$GCC_VERSION ($CXX)" "$wanted" "set CC and CXX to gcc and g++ $wanted"

root=$PREFIX/lib/triton-llvm
map=-ffile-prefix-map=$SRC_DIR=/usr/src/$PKG_NAME
export CFLAGS="${CFLAGS:-} $map" CXXFLAGS="${CXXFLAGS:-} $map"

read -r -a given <<<"${CMAKE_ARGS:-}"
options=(
  -DCMAKE_BUILD_TYPE=Release
  -DCMAKE_INSTALL_PREFIX="$root"
  -DCMAKE_INSTALL_LIBDIR=lib
  -DLLVM_ENABLE_PROJECTS="mlir;lld"
  -DLLVM_TARGETS_TO_BUILD="host;AMDGPU;NVPTX"
  # Triton's own build type keeps assertions, and its authors build their LLVM with them.
  -DLLVM_ENABLE_ASSERTIONS=ON
  # What static libraries need, Triton would have to link.
  -DLLVM_ENABLE_ZLIB=OFF
  -DLLVM_ENABLE_ZSTD=OFF
  -DLLVM_ENABLE_LIBXML2=OFF
  -DLLVM_ENABLE_LIBEDIT=OFF
  -DLLVM_ENABLE_LIBPFM=OFF
  -DLLVM_ENABLE_TERMINFO=OFF
  # The table generators, and FileCheck, which Triton copies into its package; none of the other tools.
  -DLLVM_BUILD_TOOLS=OFF
  -DLLD_BUILD_TOOLS=OFF
  -DLLVM_BUILD_UTILS=ON
  -DLLVM_INSTALL_UTILS=ON
  -DLLVM_INCLUDE_TESTS=OFF
  -DMLIR_INCLUDE_TESTS=OFF
  -DLLVM_INCLUDE_BENCHMARKS=OFF
  -DLLVM_INCLUDE_EXAMPLES=OFF
  -DLLVM_INCLUDE_DOCS=OFF
  -DLLVM_BUILD_TELEMETRY=OFF
  -DLLVM_APPEND_VC_REV=OFF
)
cmake -S "$SRC_DIR/llvm" -B "$SRC_DIR/build" -G Ninja "${given[@]}" "${options[@]}"
cmake --build "$SRC_DIR/build" --parallel "$MAX_JOBS"
cmake --install "$SRC_DIR/build"
cp "$SRC_DIR/llvm/LICENSE.TXT" "$root/"
