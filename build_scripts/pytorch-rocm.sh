#!/usr/bin/env bash
# PyTorch for one GPU arch, from its release tarball (which holds its submodules).
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/guards.sh
. "$here/lib/guards.sh"

# check_configured: every HIP unit is for rocm_arch, and AOTriton is out. HIP units are custom commands
# (FindHIP.cmake), so they are in no compile_commands.json: their arch stands in the script that FindHIP writes
# for each. Units of the libraries inside may be CMake's own.
check_configured() {
  local baked option wanted=--offload-arch=${rocm_arch:?}
  [[ -f build/CMakeCache.txt ]] ||
    guard_fail 66 baked-arch "setup.py did not configure" "no build/CMakeCache.txt" "a build folder of CMake" "see setup.py of this release"
  baked=$(grep -r -h -o -E --include='*.cmake' --include='*.ninja' -e '--offload-arch=[A-Za-z0-9:+-]*' build | sort -u) || baked=''
  [[ $baked == "$wanted" ]] ||
    guard_fail 66 baked-arch "HIP units are compiled for other targets" "${baked//$'\n'/, }" "$wanted" \
      "find out which library inside reads another variable than lib/arch.sh sets"
  for option in USE_FLASH_ATTENTION USE_MEM_EFF_ATTENTION; do
    grep -q -i -E "^$option:[A-Z]+=(0|OFF|FALSE)$" build/CMakeCache.txt ||
      guard_fail 69 aotriton "$option was turned on" "$(grep "^$option" build/CMakeCache.txt || true)" "OFF" \
        "see how CMakeLists.txt of this release takes the option"
  done
  [[ ! -e build/aotriton ]] ||
    guard_fail 69 aotriton "AOTriton was fetched or built" "build/aotriton" "none" "see cmake/External/aotriton.cmake of this release"
}

cd "$SRC_DIR"
guard_arch
guard_rocm
guard_compilers
guard_stale
guard_jobs
guard_find_root
guard_network
hip_cmake_args

# setup.py knows no CMAKE_ARGS: flags go through the variables that CMake itself reads at its first run.
for argument in "${HIP_CMAKE_ARGS[@]}"; do
  case $argument in
  -DCMAKE_C_FLAGS=*) export CFLAGS=${argument#*=} ;;
  -DCMAKE_CXX_FLAGS=*) export CXXFLAGS=${argument#*=} ;;
  -DCMAKE_SHARED_LINKER_FLAGS=*) export LDFLAGS=${argument#*=} ;;
  esac
done
# PyTorch chooses the C++ standard. Hidden inline functions break type information across its libraries.
for name in CFLAGS CXXFLAGS; do
  read -r -a given <<<"${!name}"
  kept=()
  for flag in "${given[@]}"; do
    [[ $flag == -std=* || $flag == -fvisibility-inlines-hidden ]] || kept+=("$flag")
  done
  export "$name=${kept[*]}"
done
# --as-needed drops libraries that register their operators by being loaded. Immediate binding would make
# `import torch` resolve every symbol of the GPU libraries at once, also where there is no GPU.
LDFLAGS=${LDFLAGS//-Wl,--as-needed/}
LDFLAGS=${LDFLAGS//-Wl,-z,now/-Wl,-z,lazy}
# ROCm's libraries need GLIBCXX_3.4.30 of GCC 12; the libstdc++ of the link has less, the environment's has it.
LDFLAGS+=" -Wl,--allow-shlib-undefined -Wl,-rpath-link,$PREFIX/lib"
# From torch/lib and torch/bin the environment's lib is four folders up; torch/_C finds it through torch/lib.
# CMake adds $ORIGIN itself. The quotes are for the shell between Ninja and the linker.
export LDFLAGS="$LDFLAGS -Wl,-rpath,'\$ORIGIN/../../../..' -Wl,-rpath,'\$ORIGIN/../../../../rocm-host'"
# Python's own link command carries the environment's absolute path.
export LDSHARED="$CC -shared" LDCXXSHARED="$CXX -shared"
unset CMAKE_ARGS

export CMAKE_GENERATOR=Ninja CMAKE_BUILD_TYPE=Release CMAKE_PREFIX_PATH=$PREFIX
export PYTORCH_BUILD_VERSION=$PKG_VERSION PYTORCH_BUILD_NUMBER=0
# A build of one's own declares no Triton otherwise.
export PYTORCH_EXTRA_INSTALL_REQUIREMENTS="triton==${triton_version:?}"
export USE_ROCM=1 USE_CUDA=0 USE_XPU=0
export BUILD_TEST=0 INSTALL_TEST=0
export BLAS=OpenBLAS OpenBLAS_HOME=$PREFIX
# Left out: what this host may have or not (MPI, NUMA, ITT, MAGMA), what downloads at configure (NNPACK), and
# FBGEMM's GenAI kernels, which compile in AMD's own branch only.
export USE_MPI=0 USE_NUMA=0 USE_ITT=0 USE_MAGMA=0 USE_NNPACK=0 USE_FBGEMM_GENAI=0
# Composable Kernel is a second GEMM and attention backend that no one selects here, for hours of compiling.
export USE_ROCM_CK_GEMM=0 USE_ROCM_CK_SDPA=0
# Flash and memory-efficient attention are AOTriton. CMake would take it as binaries from a download, or, where
# its list lacks the ROCm release, build it from a git clone without a word. The recipe says what that costs.
export USE_FLASH_ATTENTION=0 USE_MEM_EFF_ATTENTION=0

# With this file, setup.py asks git for the submodules.
rm -f .gitmodules

"$PYTHON" tools/amd_build/build_amd.py
# Configuring takes minutes, the build many hours, and goes on from the same configuration.
"$PYTHON" setup.py build --cmake-only
check_configured
"$PYTHON" -m pip install . --no-build-isolation --no-deps --no-cache-dir -vv

check_configured

# Without compile commands: they are big, and hold the C++ units only.
record_evidence
