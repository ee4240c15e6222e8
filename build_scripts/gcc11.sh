#!/usr/bin/env bash
# Puts Debian 12's gcc-11 and g++-11 at DEST, for machines whose own packages no longer have them (Debian 13).
#
#   gcc11.sh [--force] DEST     then: CC=DEST/usr/bin/gcc-11 CXX=DEST/usr/bin/g++-11
#
# DEST holds the compiler, its own headers of C++, and the libraries that it runs with. The rest is the host's:
# libc and its headers, binutils, and the shared libraries that programs link (libstdc++.so.6, libgomp.so.1).
# clang takes the same GCC with --gcc-install-dir=DEST/usr/lib/gcc/x86_64-linux-gnu/11. dpkg's state is neither
# read nor changed, and root is not needed. DEST may be moved or mounted elsewhere.
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

# The last Debian release with GCC 11. zlib and zstd, which it needs too, are on every Debian: dpkg needs them.
readonly SUITE=bookworm
readonly PACKAGES=(
  cpp-11
  g++-11
  gcc-11
  gcc-11-base
  libgcc-11-dev
  libgmp10
  libisl23
  libmpc3
  libmpfr6
  libstdc++-11-dev
)
readonly GCC=usr/lib/gcc/x86_64-linux-gnu/11 HOST_LIBRARIES=/usr/lib/x86_64-linux-gnu
readonly NAME=gcc11 MARKER=.rocm-channel-gcc FORMAT=1 ROOM_MIB=250 STEPS=4
readonly MIRROR_FIX="check the network; where mirrors have dropped Debian 12, set DEBIAN_MIRROR to an archive that has it"
readonly COMPLETE_ROOT_HAS=(
  "$GCC/cc1"
  "$GCC/cc1plus"
  "$GCC/libgcc.a"
  "$GCC/libstdc++.so"
  usr/bin/g++-11
  usr/bin/gcc-11
  usr/include/c++/11/cstddef
)

check_own_tools() {
  need binutils as ld
  need libc6-dev /usr/include/stdio.h
  need libgcc-s1 "$HOST_LIBRARIES/libgcc_s.so.1"
  need libstdc++6 "$HOST_LIBRARIES/libstdc++.so.6"
}

describe() { printf 'GCC %s of Debian %s' "$(marked gcc)" "$(marked suite)"; }

unpack_packages() {
  local deb
  for deb in "$work"/debs/*.deb; do
    dpkg-deb -x "$deb" "$work/root"
  done
  # Debian's viewer of LTO objects is as large as the compiler, and no build needs it.
  rm -f -- "$work"/root/usr/bin/*lto-dump-11
  wrap_compilers
  link_host_libraries
}

# The compilers proper get the libraries of their own release. A wrapper each, so that as and ld, which the same
# driver starts, keep the host's.
wrap_compilers() {
  local program folder=$work/root/$GCC
  mkdir "$folder/programs" "$folder/libraries"
  mv "$work/root$HOST_LIBRARIES"/*.so.* "$folder/libraries/"
  for program in cc1 cc1plus lto1; do
    mv "$folder/$program" "$folder/programs/"
    # sh, not bash, expands these words.
    # shellcheck disable=SC2016
    printf '%s\n' '#!/bin/sh' 'here=${0%/*}' \
      'export LD_LIBRARY_PATH="$here/libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"' \
      'exec "$here/programs/${0##*/}" "$@"' >"$folder/$program"
    chmod 755 "$folder/$program"
  done
}

# The shared libraries that programs link are the host's: the newest of all its GCCs, as on Debian itself.
# Without their static twins, a link against one that the host lacks fails; it does not turn static in silence.
link_host_libraries() {
  local link name
  for link in "$work/root/$GCC"/lib*.so; do
    [[ -L $link ]] || continue
    name=$(readlink -- "$link")
    [[ $name != ../*/x86_64-linux-gnu/* ]] || ln -sf -- "$HOST_LIBRARIES/${name##*/}" "$link"
    [[ $link == */libstdc++.so ]] || rm -f -- "${link%.so}.a"
  done
}

finish_root() {
  local gxx=$work/root/usr/bin/g++-11 version
  "$gxx" -x c++ - -o "$work/program" <<<'#include <iostream>
int main() { std::cout << __VERSION__ << std::endl; }'
  version=$("$work/program")
  write_marker "gcc=${version%% *}"
}

begin "$@"
fetch
step 3 "unpack them" unpack_packages
step 4 "compile and link a program of C++ with it" finish_root
put_in_place
