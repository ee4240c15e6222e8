#!/usr/bin/env bash
# Builds the wheel of rocm-canary for one GPU target with this host's own tools, without isolation.
#   rocm-canary-wheel.sh TARGET ROCM_PATH DIR
# A wheel in DIR that is newer than every source of it is left as it is.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/guards.sh
. "$here/lib/guards.sh"

if [[ $# != 3 ]]; then
  echo "usage: rocm-canary-wheel.sh TARGET ROCM_PATH DIR" >&2
  exit 2
fi
rocm_arch=$1
ROCM_PATH=$(realpath -- "$2")
mkdir -p -- "$3"
wheels=$(realpath -- "$3")
source_dir=$(cd "$here/../recipes/rocm-canary/src" && pwd)

wheel=$(find "$wheels" -name 'rocm_canary-*.whl' -newer "$source_dir/CMakeLists.txt" -print -quit)
if [[ -n $wheel && -z $(find "$source_dir" -type f -newer "$wheel" -print -quit) ]]; then
  echo "$wheel is up to date"
  exit
fi

gfx_to_isa "$rocm_arch" || guard_fail 61 arch "no GPU target" "$rocm_arch" "as gfx942" "correct the first argument"
rocm_isa=$REPLY
hip_sdk=rocm
[[ ! -e $ROCM_PATH/$SDK_MARKER ]] || hip_sdk=debian
if [[ $hip_sdk == rocm ]]; then
  rocm_version=$(sed -n '1s/^\([0-9]*\.[0-9]*\).*/\1/p' "$ROCM_PATH/.info/version")
fi
private_gcc=${ROCM_CHANNEL_CACHE:-$here/../.cache}/gcc-11/usr/bin
if [[ -z ${CC:-}${CXX:-} && -x $private_gcc/g++-11 ]] && ! command -v g++-11 >/dev/null; then
  CC=$(realpath -s -- "$private_gcc/gcc-11") CXX=$(realpath -s -- "$private_gcc/g++-11")
fi
# Read by the guards and by CMake.
export rocm_arch rocm_isa hip_sdk rocm_version=${rocm_version:-7.2} toolchain=host
export CC=${CC:-gcc-11} CXX=${CXX:-g++-11} cxx_compiler_version=11 memory_per_job_mib=1500
guard_arch
guard_rocm
guard_compilers
guard_jobs

if ! python3 -c 'import scikit_build_core' 2>/dev/null; then
  echo "python3 has no scikit-build-core: put .venv/bin of \`make setup\` on PATH, or pip install scikit-build-core" >&2
  exit 13
fi
export HIPCXX=$HIP_CLANG HIPFLAGS="--rocm-path=$ROCM_PATH $HIP_HOST_FLAGS"
export CMAKE_ARGS="-DCMAKE_HIP_ARCHITECTURES=$rocm_arch -DCMAKE_HIP_COMPILER_ROCM_ROOT=$ROCM_PATH \
-DCMAKE_PREFIX_PATH=$ROCM_PATH -DCMAKE_SHARED_LINKER_FLAGS=-Wl,-rpath-link,$ROCM_PATH/lib \
-DROCM_CANARY_ROCM_VERSION=$rocm_version -DROCM_CANARY_HIP_SDK=$hip_sdk -DROCM_CANARY_TOOLCHAIN=host"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! python3 -m pip wheel --quiet --no-build-isolation --no-deps --no-index --wheel-dir "$work" "$source_dir" >"$work/log" 2>&1; then
  tail -n 20 "$work/log" >&2
  exit 20
fi
mv -- "$work"/*.whl "$wheels/"
ls -- "$wheels"/*.whl
