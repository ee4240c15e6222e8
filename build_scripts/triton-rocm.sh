#!/usr/bin/env bash
# Triton from its release, against the package triton-llvm and without a download.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/guards.sh
. "$here/lib/guards.sh"

cd "$SRC_DIR"
guard_stale
guard_jobs
guard_network
# No HIP compiler takes part, so guard_compilers has nothing to tie.
read_compiler CC c
read_compiler CXX c++
wanted=${cxx_compiler_version:?}
[[ ${GCC_VERSION%%.*} == "${wanted%%.*}" ]] ||
  guard_fail 63 compilers "CXX is not the GCC of this variant" "$GCC_VERSION ($CXX)" "$wanted" "set CC and CXX to gcc and g++ $wanted"

# Triton is written against one LLVM commit; another one fails after an hour, or compiles wrong code.
pinned=$(tr -d '[:space:]' <cmake/llvm-hash.txt 2>/dev/null) || pinned=''
[[ ${triton_llvm_version:?} == "0.g${pinned:0:8}" ]] ||
  guard_fail 68 llvm-pin "triton-llvm is not the commit that this Triton pins" "$triton_llvm_version" \
    "0.g${pinned:0:8} (cmake/llvm-hash.txt)" "correct triton_llvm_* in variants/conda_build_config.yaml"

export TRITON_OFFLINE_BUILD=1
export LLVM_SYSPATH=$PREFIX/lib/triton-llvm
export JSON_SYSPATH=$PREFIX
PYBIND11_SYSPATH=$(dirname -- "$("$PYTHON" -c 'import pybind11; print(pybind11.get_include())')")
export PYBIND11_SYSPATH
# The profiler wants NVIDIA's CUPTI and its tools.
export TRITON_BUILD_PROTON=OFF
export TRITON_HOME=$SRC_DIR/_home

# conda's own run path is absolute, and its dtags make it an RPATH.
read -r -a given <<<"${LDFLAGS:-}"
LDFLAGS=-Wl,--enable-new-dtags
for flag in "${given[@]}"; do
  [[ $flag == -Wl,-rpath,* || $flag == -Wl,--disable-new-dtags ]] || LDFLAGS+=" $flag"
done
export LDFLAGS
unset LD_RUN_PATH
# The unit tests fetch googletest; their switch is CMake's, and setup.py reads no variable of that name.
# triton/_C/libtriton.so finds libstdc++ and libz four folders up. setup.py splits this as a shell does.
export TRITON_APPEND_CMAKE_ARGS="-DTRITON_BUILD_UT=OFF -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON '-DCMAKE_INSTALL_RPATH=\$ORIGIN/../../../..'"
# Triton compiles itself with -Werror, for warnings that other GCC releases give; without warnings none are errors.
map=-ffile-prefix-map=$SRC_DIR=/usr/src/$PKG_NAME
export CFLAGS="${CFLAGS:-} $map -w" CXXFLAGS="${CXXFLAGS:-} $map -w"

# At the top of the source since 3.4, in python/ before.
[[ -f setup.py ]] || cd python
"$PYTHON" -m pip install . --no-build-isolation --no-deps --no-cache-dir -vv

# The build type TritonRelBuildWithAsserts is -O2 -g.
site=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
find "$site/triton" \( -name '*.so' -o -name FileCheck \) -type f -exec "${STRIP:-strip}" --strip-debug {} +
cp "$LLVM_SYSPATH/LICENSE.TXT" "$SRC_DIR/LLVM-LICENSE.TXT"
