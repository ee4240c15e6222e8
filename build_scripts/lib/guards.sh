#!/usr/bin/env bash
# Guards: checks that stop a build before it makes the wrong thing. Every build script sources this file.
#
# A guard that stops prints one line on stderr,
#   guard NAME: WHAT; found: ...; wanted: ...; fix: ...
# and ends the script with its own exit code: 61 arch, 62 rocm, 63 compilers, 64 jobs, 65 stale,
# 66 baked-arch, 67 evidence. Names in lower case (rocm_arch, toolchain, ...) are variant keys or recipe
# data, set by the engine. Guards hold under `set -euo pipefail`, and with any IFS.
declare -F guard_fail >/dev/null && return

# guard_fail CODE NAME WHAT FOUND WANTED FIX
guard_fail() {
  local line="guard $2: $3; found: ${4:-nothing}; wanted: $5; fix: $6"
  printf '%s\n' "${line//[[:cntrl:]]/ }" >&2
  exit "$1"
}

guard_warn() { # NAME TEXT
  printf 'guard %s: warning: %s\n' "$1" "${2//[[:cntrl:]]/ }" >&2
}

guard_say() { # NAME TEXT
  printf 'guard %s: %s\n' "$1" "${2//[[:cntrl:]]/ }"
}

# Runs a program; REPLY is all that it printed, in English.
guard_output() {
  REPLY=$(LC_ALL=C "$@" 2>&1 </dev/null)
}

guard_lib=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=arch.sh
. "$guard_lib/arch.sh"
# shellcheck source=rocm.sh
. "$guard_lib/rocm.sh"
# shellcheck source=compilers.sh
. "$guard_lib/compilers.sh"
# shellcheck source=jobs.sh
. "$guard_lib/jobs.sh"
# shellcheck source=stale.sh
. "$guard_lib/stale.sh"
# shellcheck source=cmake.sh
. "$guard_lib/cmake.sh"
# shellcheck source=network.sh
. "$guard_lib/network.sh"
# shellcheck source=json.sh
. "$guard_lib/json.sh"
# shellcheck source=evidence.sh
. "$guard_lib/evidence.sh"
