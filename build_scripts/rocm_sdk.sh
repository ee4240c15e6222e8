#!/usr/bin/env bash
# Makes a ROCm-like root at DEST from Debian packages, for machines that have no ROCm.
#
#   rocm_sdk.sh [--force] DEST     then: --rocm-path=DEST, or ROCM_PATH=DEST
#
# It compiles and links HIP code for real; nothing made with it has run on a GPU. DEST holds HIP's headers
# and CMake files, the device bitcode, links to the host's clang, and link stubs: libraries with the real
# names, exports and symbol versions whose functions answer "no device". The marker file
# DEST/.rocm-channel-sdk (lines of key=value) tells it from ROCm itself. dpkg's state is neither read nor
# changed, and root is not needed. DEST may be moved or mounted elsewhere.
#
# Exit codes: 2 wrong usage, 13 a program is missing, 14 no Debian mirror or a failed download,
# 41 DEST cannot be written. Environment: DEBIAN_MIRROR overrides the mirror of the apt sources.
set -euo pipefail
IFS=$' \t\n'
export LC_ALL=C
umask 022

lib=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/lib" && pwd)
# shellcheck source=lib/private_debian.sh
. "$lib/private_debian.sh"
# shellcheck source=lib/sdk_root.sh
. "$lib/sdk_root.sh"

# Frozen, so that every machine gets the same HIP; device bitcode of LLVM 17 is what clang 19 still reads.
readonly SUITE=trixie LLVM=19
readonly PACKAGES=(
  libamd-comgr-dev
  libamd-comgr2
  libamdhip64-5
  libamdhip64-dev
  libhiprtc-builtins5
  libhsa-runtime-dev
  libhsa-runtime64-1
  rocm-device-libs-17
)
readonly NAME=rocm_sdk MARKER=.rocm-channel-sdk FORMAT=1 ROOM_MIB=160 STEPS=5
readonly MIRROR_FIX="check the network, or set DEBIAN_MIRROR"
readonly COMPLETE_ROOT_HAS=(
  amdgcn/bitcode/ocml.bc
  include/hip/hip_version.h
  lib/cmake/hip-lang/hip-lang-config.cmake
  lib/libamdhip64.so
  lib/llvm/bin/clang++
  llvm/bin/clang++
)

check_own_tools() {
  local builtins
  need "clang-$LLVM" "clang-$LLVM" "clang++-$LLVM"
  need "lld-$LLVM" "ld.lld-$LLVM"
  need "llvm-$LLVM" "llvm-readelf-$LLVM"
  need "clang-tools-$LLVM" "clang-offload-bundler-$LLVM"
  # HIP's CMake files stop without compiler-rt.
  if [[ -z ${missing["clang-$LLVM"]:-} ]]; then
    builtins=$("clang-$LLVM" -print-libgcc-file-name --rtlib=compiler-rt 2>/dev/null) || builtins=''
    [[ -e $builtins ]] || missing["compiler-rt of clang-$LLVM"]=libclang-rt-$LLVM-dev
  fi
}

describe() { printf 'HIP %s of Debian %s' "$(marked hip)" "$(marked suite)"; }

begin "$@"
fetch
step 3 "unpack them" unpack_packages
step 4 "make CMake's exports relocatable" relocate_exports
step 5 "link stubs of ${STUBBED_LIBRARIES[*]}" finish_root
put_in_place
