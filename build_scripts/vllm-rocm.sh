#!/usr/bin/env bash
# vLLM for one GPU arch, from its source distribution.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/guards.sh
. "$here/lib/guards.sh"

# check_optimisation BUILD_DIR: -O2 takes effect in every unit, and no unit is given more (patches/0001).
check_optimisation() {
  local file=$1/compile_commands.json above other
  local fix="see what sets the flags after CMakeLists.txt is read, with rocm-channel preflight vllm-rocm"
  above=$(LC_ALL=C grep -o -E -e '[ "]-O([3-9]|fast)[ "]' -- "$file" | LC_ALL=C sort | uniq -c) || above=''
  [[ -z $above ]] || guard_fail 70 optimisation "units are compiled above -O2" "$above" "-O2" "$fix"
  # The last level of a command is the one that takes effect.
  other=$(LC_ALL=C awk '/"command": / {
    level = "none"
    for (i = 1; i <= NF; i++) if ($i ~ /^-O/) level = $i
    if (level != "-O2") count[level]++
  }
  END { for (level in count) print count[level] " at " level }' "$file")
  [[ -z $other ]] || guard_fail 70 optimisation "units are not compiled at -O2" "$other" "-O2 in each" "$fix"
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

# setup.py appends CMAKE_ARGS last, split at spaces whatever the quotes: values with spaces go through the
# variables that CMake itself reads at its first run.
for argument in "${HIP_CMAKE_ARGS[@]}"; do
  value=${argument#*=}
  case $argument in
  -DCMAKE_C_FLAGS=*) CFLAGS=$value ;;
  -DCMAKE_CXX_FLAGS=*) CXXFLAGS=$value ;;
  -DCMAKE_HIP_FLAGS=*) HIPFLAGS=$value ;;
  -DCMAKE_*_LINKER_FLAGS=*) LDFLAGS=$value ;;
  *[[:space:]]*)
    guard_fail 71 cmake-args "vLLM splits CMAKE_ARGS at spaces" "$argument" "a path without" "build in another folder"
    ;;
  *) append_cmake_args "$argument" ;;
  esac
done
# ROCm's libraries need GLIBCXX_3.4.30 of GCC 12; the libstdc++ of the link has less, the environment's has it.
export CFLAGS CXXFLAGS HIPFLAGS LDFLAGS="$LDFLAGS -Wl,--allow-shlib-undefined -Wl,-rpath-link,$PREFIX/lib"
# Of site-packages/vllm: torch's libraries, the environment's, ROCm's through rocm-userspace.
# shellcheck disable=SC2016 # $ORIGIN is for the loader
append_cmake_args '-DCMAKE_INSTALL_RPATH=$ORIGIN/../torch/lib;$ORIGIN/../../..;$ORIGIN/../../../rocm-host'

export VLLM_TARGET_DEVICE=rocm VLLM_VERSION_OVERRIDE=$PKG_VERSION VLLM_DISABLE_SCCACHE=1
export CMAKE_BUILD_TYPE=Release
# The one thing that a ROCm build fetches otherwise, with git.
export TRITON_KERNELS_SRC_DIR=${TRITON_KERNELS_SRC_DIR:-$SRC_DIR/triton-kernels/python/triton_kernels/triton_kernels}
[[ -f $TRITON_KERNELS_SRC_DIR/matmul_ogs.py ]] ||
  guard_fail 72 triton-kernels "the second source does not hold triton_kernels" "$TRITON_KERNELS_SRC_DIR" "matmul_ogs.py, which vLLM imports" \
    "correct triton_kernels_version in variants/conda_build_config.yaml"
# The Rust frontend is optional and needs crates from a registry: a cargo of this host must not decide it.
export CARGO=no-cargo-in-this-build

# A first configuration of our own, in seconds, says what hours of compiling would: it takes the same arguments.
configured=$SRC_DIR/_configured
read -r -a given <<<"$CMAKE_ARGS"
configuration=(
  cmake -S . -B "$configured" -G Ninja -DCMAKE_BUILD_TYPE="$CMAKE_BUILD_TYPE" -DVLLM_TARGET_DEVICE=rocm
  -DVLLM_PYTHON_EXECUTABLE="$PYTHON" -DROCM_PATH="$ROCM_PATH" -DFETCHCONTENT_BASE_DIR="$configured/deps" "${given[@]}"
)
if [[ -n ${preflight_folder:-} ]]; then
  # rocm-channel preflight runs it, and judges more than is judged here.
  env -0 >"$preflight_folder/environment"
  printf '%s\0' "${configuration[@]}" >"$preflight_folder/command"
  exit
fi
"${configuration[@]}"
check_baked_arch "$configured"
check_optimisation "$configured"
rm -rf "$configured"

"$PYTHON" -m pip install . --no-build-isolation --no-deps --no-cache-dir -vv

mapfile -t folders < <(find build -name compile_commands.json -printf '%h\n')
((${#folders[@]} == 1)) ||
  guard_fail 66 baked-arch "there is not one build folder of CMake" "${folders[*]:-none}" "one below build/" "see setup.py of this release"
check_baked_arch "${folders[0]}"
check_optimisation "${folders[0]}"
record_evidence "${folders[0]}"
