#!/usr/bin/env bash
# Puts the header-only libraries of ROCm that PyTorch's headers include at DEST, from Debian 13's packages.
#
#   hip_headers.sh [--force] DEST     then: -isystem DEST/usr/include
#
# For vllm_unit.py: the SDK of build_scripts/rocm_sdk.sh has HIP itself and none of the libraries above it.
#
# Exit codes: 2 wrong usage, 13 a program is missing, 14 no Debian mirror or a failed download,
# 41 DEST cannot be written. Environment: DEBIAN_MIRROR overrides the mirror of the apt sources.
set -euo pipefail
IFS=$' \t\n'
export LC_ALL=C
umask 022

lib=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../build_scripts/lib" && pwd)
# shellcheck source=../../build_scripts/lib/private_debian.sh
. "$lib/private_debian.sh"

# Of the same Debian release as the SDK, so of the same HIP.
readonly SUITE=trixie
readonly PACKAGES=(libhipblas-dev libhipcub-dev librocprim-dev librocthrust-dev)
readonly NAME=hip_headers MARKER=.rocm-channel-headers FORMAT=2 ROOM_MIB=100 STEPS=3
readonly MIRROR_FIX="check the network, or set DEBIAN_MIRROR"
readonly COMPLETE_ROOT_HAS=(usr/include/hipblas/hipblas.h usr/include/hipcub/hipcub.hpp usr/include/rocprim/rocprim.hpp usr/include/thrust/complex.h)

check_own_tools() { :; }

describe() { printf 'rocThrust %s of Debian %s' "$(marked rocthrust)" "$(marked suite)"; }

unpack_packages() {
  local deb
  for deb in "$work"/debs/*.deb; do
    dpkg-deb -x "$deb" "$work/root"
  done
  write_marker "rocthrust=$(version_of librocthrust-dev)"
}

begin "$@"
fetch
step 3 "unpack them" unpack_packages
put_in_place
