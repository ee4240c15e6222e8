#!/usr/bin/env bash
# A folder made from packages of one Debian release, without dpkg and without root: for rocm_sdk.sh and gcc11.sh.
#
# The script that sources this sets NAME (of itself, without .sh), MARKER (file in DEST with lines of key=value),
# FORMAT (counts up when DEST is made differently), ROOM_MIB, SUITE, PACKAGES, STEPS, COMPLETE_ROOT_HAS (paths
# in DEST) and MIRROR_FIX (advice on a mirror that lacks something), and has two functions: check_own_tools,
# which calls need, and describe, which prints a few words on DEST. Then:
#
#   begin "$@"                         arguments, programs, lock, room; ends the script when DEST is complete
#   fetch                              steps 1 and 2: packages into $work/debs
#   step NUMBER TEXT FUNCTION          functions that make $work/root, the last one with write_marker
#   put_in_place
#
# A run that fails or is stopped leaves DEST as it was, and nothing beside it. Exit codes: 2 wrong usage, 13 a
# program is missing, 14 no Debian mirror or a failed download, 41 DEST cannot be written.
# shellcheck disable=SC2153

readonly ARCHIVE_KEYS=/usr/share/keyrings/debian-archive-keyring.gpg

dest='' parent='' force='' work='' child='' mirror=''
created_folders=()
declare -A missing=()
# Errors go here, when stderr already goes to a log.
exec 3>&2

say() { printf '%s: %s\n' "$NAME" "$1"; }

die() { # CODE WHAT FIX [FOUND]
  local text="error: $2${4:+; found: $4}; fix: $3"
  printf '%s: %s\n' "$NAME" "${text//[[:cntrl:]]/ }" >&3
  exit "$1"
}

usage() { die 2 "$1" "$NAME.sh [--force] DEST"; }

# A full disk makes each tool fail in words of its own, if there is room for words; here it gets one line.
die_of_step() { # CODE WHAT FIX
  # clean_up may have ended the program a moment before this shell: then there is nothing to say.
  sleep 0.2
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
  say "[$1/$STEPS] $2"
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
  # The signal may have come between the start of a step and the note of its process.
  child=${child:-${!:-}}
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

begin() { # ARGUMENT...
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
}

read_arguments() {
  while (($#)); do
    case $1 in
    --force) force=yes ;;
    -h | --help)
      sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[-1]}"
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
    say "$dest is complete ($(describe)), nothing to do"
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

check_tools() {
  local names
  need apt apt-get
  need dpkg dpkg-deb
  need util-linux flock
  need mawk awk
  need debian-archive-keyring "$ARCHIVE_KEYS"
  check_own_tools
  ((${#missing[@]})) || return 0
  names=$(printf '%s\n' "${!missing[@]}" | sort | paste -s -d ,)
  die 13 "not on this machine: ${names//,/, }" \
    "apt-get install -y --no-install-recommends $(printf '%s\n' "${missing[@]}" | sort -u | paste -s -d ' ')"
}

need() { # PACKAGE PROGRAM-OR-FILE...
  local package=$1 thing
  for thing in "${@:2}"; do
    if [[ $thing == /* ]]; then
      [[ -e $thing ]] || missing[$thing]=$package
    else
      command -v "$thing" >/dev/null || missing[$thing]=$package
    fi
  done
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
  mkdir -p -- "$work"/{apt/{none,lists/partial,archives/partial},debs,root} 2>/dev/null ||
    die 41 "cannot write in $parent" "choose a DEST that this user may write"
}

# apt reads all forms of its sources. Where it has fetched a list before, the list's Release file says that
# the source is Debian's; on a machine that never did, the name of the suite has to do.
find_mirror() {
  local id='' codename='' suite uri
  if [[ -n ${DEBIAN_MIRROR:-} ]]; then
    [[ $DEBIAN_MIRROR =~ ^[a-z0-9+]+:[^[:space:]]+$ ]] ||
      die 14 "DEBIAN_MIRROR is no address" "set it to the address of a Debian mirror, with its folder" "$DEBIAN_MIRROR"
    mirror=$DEBIAN_MIRROR
    return
  fi
  # apt, not bash, expands these words.
  # shellcheck disable=SC2016
  local by_release=('$(ORIGIN)/$(LABEL) $(REPO_URI)' 'Created-By: Packages')
  # shellcheck disable=SC2016
  local by_suite=('$(RELEASE) $(REPO_URI)' 'Created-By: Packages' 'Component: main')
  mirror=$(apt-get indextargets --format "${by_release[@]}" 2>/dev/null | awk '$1 == "Debian/Debian" { print $2; exit }') ||
    mirror=''
  [[ -z $mirror ]] || return 0
  if [[ -r /etc/os-release ]]; then
    id=$(sed -n 's/^ID="\{0,1\}\([^"]*\).*/\1/p' /etc/os-release)
    codename=$(sed -n 's/^VERSION_CODENAME="\{0,1\}\([^"]*\).*/\1/p' /etc/os-release)
  fi
  if [[ $id == debian ]]; then
    while read -r suite uri; do
      case $suite in
      "$codename" | "$SUITE" | oldstable | stable | testing | unstable | sid)
        mirror=$uri
        return
        ;;
      esac
    done < <(apt-get indextargets --no-release-info --format "${by_suite[@]}" 2>/dev/null)
  fi
  die 14 "the apt sources of this machine name no Debian mirror" \
    "set DEBIAN_MIRROR to the address of one, with its folder (as in .../debian)"
}

# What the host needs to reach a mirror (proxies, certificates) stays in force; its hooks, pins, other
# sources and translations do not.
write_apt_settings() {
  cat >"$work/apt/debian.sources" <<END
Types: deb
URIs: $mirror
Suites: $SUITE
Components: main
Architectures: amd64
Targets: Packages
Languages: none
Signed-By: $ARCHIVE_KEYS
END
  : >"$work/apt/status"
  cat >"$work/apt/apt.conf" <<END
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Architectures;
APT::Architecture "amd64";
APT::Sandbox::User "";
APT::Update::Error-Mode "any";
Acquire::GzipIndexes "true";
Acquire::Retries "2";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
Dir::State "$work/apt";
Dir::State::lists "$work/apt/lists";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt";
Dir::Cache::archives "$work/apt/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Log "$work/apt";
Dir::Etc::SourceList "$work/apt/debian.sources";
Dir::Etc::SourceParts "$work/apt/none";
Dir::Etc::Preferences "$work/apt/none/preferences";
Dir::Etc::PreferencesParts "$work/apt/none";
END
}

private_apt() { env -C "$work/debs" apt-get -q -c "$work/apt/apt.conf" "$@"; }

fetch() {
  step 1 "fetch the package list of Debian $SUITE from $mirror" fetch_package_list
  step 2 "download ${#PACKAGES[@]} packages" fetch_packages
}

fetch_package_list() {
  write_apt_settings
  private_apt update ||
    die_of_step 14 "cannot fetch the package list of Debian $SUITE from $mirror" "$MIRROR_FIX"
}

fetch_packages() {
  private_apt download "${PACKAGES[@]}" ||
    die_of_step 14 "cannot download ${PACKAGES[*]} from $mirror" "$MIRROR_FIX"
  rm -rf -- "$work/apt/lists"
}

version_of() { # PACKAGE
  local debs=("$work/debs/$1"_*.deb) version
  version=${debs[0]##*/"$1"_}
  printf '%s\n' "${version%%_*}"
}

write_marker() { # KEY=VALUE...
  local packages
  packages=$(cd -- "$work/debs" && printf '%s\n' *.deb | sed 's/_[a-z0-9]*\.deb$//' | paste -s -d ' ')
  printf '%s\n' kind=debian "format=$FORMAT" "$@" "suite=$SUITE" "packages=$packages" >"$work/root/$MARKER"
}

put_in_place() {
  if [[ -e $dest ]] && ! mv -T -- "$dest" "$work/old"; then
    die_of_step 41 "cannot replace $dest" "choose a DEST that this user may write"
  fi
  if ! mv -T -- "$work/root" "$dest"; then
    [[ ! -e $work/old ]] || mv -T -- "$work/old" "$dest"
    die_of_step 41 "cannot rename $work/root to $dest" "choose a DEST that this user may write"
  fi
  say "$dest is ready ($(describe))"
}
