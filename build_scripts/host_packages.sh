#!/usr/bin/env bash
# Makes sure that this host has the Debian packages that a build with its own tools needs.
#   host_packages.sh [--with-tests]    check, and install what is missing when run as root
#   host_packages.sh --venv DIR        make a virtual environment with pip
# Without root, one line names the packages that are missing.
set -euo pipefail

clang=19
missing=()

need() { # need PACKAGE PROGRAM-OR-FILE
  if [[ $2 == /* ]]; then
    compgen -G "$2" >/dev/null || missing+=("$1")
  else
    command -v "$2" >/dev/null || missing+=("$1")
  fi
}

install_missing() {
  ((${#missing[@]})) || return 0
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    echo "missing packages: as root, run: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 13
  fi
  echo "apt: ${missing[*]}"
  log=$(mktemp)
  if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "apt-get could not install: ${missing[*]}" >&2
    rm -f "$log"
    exit 13
  fi
  rm -f "$log"
}

if [[ ${1:-} == --venv ]]; then
  python=${PYTHON:-python3}
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    echo "python3 is missing or older than 3.11: apt-get install python3, or set PYTHON" >&2
    exit 13
  }
  "$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  install_missing
  echo "venv: $2"
  "$python" -m venv "$2"
  exit
fi

need "clang-$clang" "clang++-$clang"
need "lld-$clang" "ld.lld-$clang"
need "llvm-$clang" "llvm-readelf-$clang"
need "clang-tools-$clang" "clang-offload-bundler-$clang"
need "libclang-rt-$clang-dev" "/usr/lib/llvm-$clang/lib/clang/$clang/lib/linux/libclang_rt.builtins-x86_64.a"
need binutils ld
need libc6-dev /usr/include/stdio.h
need make make
need patch patch
need pkg-config pkg-config
need git git
if [[ ${1:-} == --with-tests ]]; then
  need chromium chromium
  need chromium-driver chromedriver
  need g++ g++
  need unzip unzip
  need python3-dev "$("${PYTHON:-python3}" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h"
  need dash dash
  need fish fish
  need tcsh tcsh
  need zsh zsh
fi

# Debian 13 has no g++-11: Debian 12's is put beside the caches, and touches no installed package. apt is asked
# for gcc-11, because it takes a name with + that it does not know for a pattern, which fits other packages.
packaged_gcc11() {
  # shellcheck source=/dev/null
  ! (. /etc/os-release && [[ $ID == debian && ${VERSION_ID:-13} -ge 13 ]]) || apt-cache show gcc-11 >/dev/null 2>&1
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
private_gcc=${ROCM_CHANNEL_CACHE:-$root/.cache}/gcc-11
if command -v g++-11 >/dev/null || [[ -x $private_gcc/usr/bin/g++-11 ]]; then
  install_missing
elif packaged_gcc11; then
  missing+=(gcc-11 g++-11)
  install_missing
else
  install_missing
  bash "$root/build_scripts/gcc11.sh" "$private_gcc"
fi
