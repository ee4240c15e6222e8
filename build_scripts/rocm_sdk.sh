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
# shellcheck source=lib/sdk_packages.sh
. "$lib/sdk_packages.sh"
# shellcheck source=lib/sdk_root.sh
. "$lib/sdk_root.sh"

readonly MARKER=.rocm-channel-sdk FORMAT=1 ROOM_MIB=160

dest='' parent='' force='' work='' child=''
created_folders=()
# Errors go here, when stderr already goes to a log.
exec 3>&2

say() { printf 'rocm_sdk: %s\n' "$1"; }

die() { # CODE WHAT FIX [FOUND]
  local text="error: $2${4:+; found: $4}; fix: $3"
  printf 'rocm_sdk: %s\n' "${text//[[:cntrl:]]/ }" >&3
  exit "$1"
}

usage() { die 2 "$1" "rocm_sdk.sh [--force] DEST"; }

# A full disk makes each tool fail in words of its own, if there is room for words; here it gets one line.
die_of_step() { # CODE WHAT FIX
  if (($(free_mib) < 2)) || grep -q -i -e 'no space left' -e 'disk quota' -e 'enough free space' "$work/log"; then
    die 41 "no space left in $parent" "make room ($ROOM_MIB MiB), or choose another DEST" "$(free_mib) MiB free"
  fi
  die "$1" "$2" "$3" "$(grep -m 1 -E '^E: |error: ' "$work/log" || tail -n 1 "$work/log")"
}

free_mib() { df -Pk -- "$parent" | awk 'NR == 2 { print int($4 / 1024) }'; }

# Runs a function with its output in the log. In the background, so that a signal is handled at once, and in a
# process group of its own, so that clean_up ends all of it, and a Ctrl-C none of it in between.
step() { # NUMBER TEXT FUNCTION
  local status=0
  say "[$1/5] $2"
  set -m
  "$3" >>"$work/log" 2>&1 </dev/null &
  child=$!
  set +m
  wait "$child" || status=$?
  child=''
  case $status in
  0) ;;
  14 | 41) exit "$status" ;;
  *) die_of_step 41 "cannot $2" "check the disk, or report it" ;;
  esac
}

clean_up() {
  local status=$? folder
  trap - EXIT
  trap '' HUP INT TERM
  exec 2>/dev/null
  if [[ -n $child ]]; then
    kill -- "-$child" || true
    wait "$child" || true
  fi
  if [[ -n $work ]]; then
    # A program that is just ending may still put a file in.
    for _ in {1..50}; do
      rm -rf -- "$work" && break
      sleep 0.1
    done
  fi
  if ((status != 0)); then
    for folder in "${created_folders[@]}"; do
      rmdir -- "$folder" || true
    done
  fi
  exit "$status"
}

read_arguments() {
  while (($#)); do
    case $1 in
    --force) force=yes ;;
    -h | --help)
      sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    -*) usage "unknown option $1" ;;
    '') usage "DEST is empty" ;;
    *)
      [[ -z $dest ]] || usage "more than one DEST"
      dest=$1
      ;;
    esac
    shift
  done
  [[ -n $dest ]] || usage "DEST is missing"
  dest=$(realpath -m -- "$dest")
  [[ $dest != / ]] || usage "DEST is /"
  parent=${dest%/*}
  parent=${parent:-/}
}

is_complete() {
  local path
  grep -q -s -x "format=$FORMAT" "$dest/$MARKER" || return 1
  for path in "${COMPLETE_ROOT_HAS[@]}"; do
    [[ -e $dest/$path ]] || return 1
  done
}

marked() { sed -n "s/^$1=//p" "$dest/$MARKER"; }

end_if_complete() {
  if [[ -z $force ]] && is_complete; then
    say "$dest is complete (HIP $(marked hip) of Debian $(marked suite)), nothing to do"
    exit 0
  fi
}

refuse_foreign_dest() {
  local content
  [[ -e $dest || -L $dest ]] || return 0
  [[ -d $dest ]] || die 41 "$dest is not a folder" "choose another DEST"
  [[ -e $dest/$MARKER ]] && return
  content=("$dest"/{,.[!.]}*)
  if [[ -e ${content[0]} || -e ${content[1]} ]]; then
    die 41 "$dest holds files that this script did not make" "choose another DEST, or empty it" "no $MARKER in it"
  fi
}

make_parent() {
  local folder=$parent fix="choose a DEST that this user may write"
  while [[ ! -d $folder ]]; do
    created_folders+=("$folder")
    folder=${folder%/*}
    folder=${folder:-/}
  done
  mkdir -p -- "$parent" 2>/dev/null || die 41 "cannot make the folder $parent" "$fix"
  [[ -w $parent ]] || die 41 "cannot write in $parent" "$fix"
}

# The lock is on the folder that holds DEST, so that no lock file stays behind.
lock_parent() {
  exec 9<"$parent"
  flock -n 9 2>/dev/null && return
  say "waiting for another run in $parent"
  flock 9 2>/dev/null || say "$parent has no file locks, going on without"
}

start_work() {
  local left_behind free
  for left_behind in "$dest".partial.*; do
    [[ ! -d $left_behind ]] || rm -rf -- "$left_behind"
  done
  free=$(free_mib)
  ((free >= ROOM_MIB)) ||
    die 41 "not enough room in $parent" "make room ($ROOM_MIB MiB), or choose another DEST" "$free MiB free"
  work=$dest.partial.$$
  mkdir -p -- "$work"/{apt/{none,lists/partial,archives/partial},debs,debian,root,stubs} 2>/dev/null ||
    die 41 "cannot write in $parent" "choose a DEST that this user may write"
}

put_in_place() {
  if [[ -e $dest ]] && ! mv -T -- "$dest" "$work/old"; then
    die_of_step 41 "cannot replace $dest" "choose a DEST that this user may write"
  fi
  if ! mv -T -- "$work/root" "$dest"; then
    [[ ! -e $work/old ]] || mv -T -- "$work/old" "$dest"
    die_of_step 41 "cannot rename $work/root to $dest" "choose a DEST that this user may write"
  fi
  say "$dest is ready (HIP $(marked hip) of Debian $(marked suite))"
}

read_arguments "$@"
end_if_complete
refuse_foreign_dest
check_tools
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
find_mirror
make_parent
lock_parent
end_if_complete
refuse_foreign_dest
start_work
# What bash says of programs that a signal ended.
exec 2>>"$work/log"
step 1 "fetch the package list of Debian $SUITE from $mirror" fetch_package_list
step 2 "download ${#PACKAGES[@]} packages" fetch_packages
step 3 "unpack them" unpack_packages
step 4 "make CMake's exports relocatable" relocate_exports
step 5 "link stubs of ${STUBBED_LIBRARIES[*]}" finish_root
put_in_place
