#!/usr/bin/env bash
# Builds rocm-canary for one GPU arch into $PREFIX.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/guards.sh
. "$here/lib/guards.sh"

guard_network
guard_arch
guard_rocm
guard_compilers
guard_jobs
guard_stale "$SRC_DIR"
guard_find_root
hip_cmake_args

build=$SRC_DIR/_build
read -r -d '' -a engine_cmake_args <<<"${CMAKE_ARGS:-}" || true
cmake -S "$SRC_DIR" -B "$build" -G Ninja \
  "${engine_cmake_args[@]}" "${HIP_CMAKE_ARGS[@]}" \
  -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_INSTALL_PREFIX="$PREFIX" \
  -DCMAKE_INSTALL_LIBDIR=lib \
  -DROCM_CANARY_ROCM_VERSION="${rocm_version:?}" \
  -DROCM_CANARY_HIP_SDK="${hip_sdk:-rocm}" \
  -DROCM_CANARY_TOOLCHAIN="${toolchain:?}"
ninja -C "$build" -j "$MAX_JOBS"
check_baked_arch "$build"
ninja -C "$build" install
record_evidence "$build"
