#!/usr/bin/env bash
# Of rocm_sdk.sh: the host's programs, the Debian mirror, and the download with a private apt state.

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
readonly ARCHIVE_KEYS=/usr/share/keyrings/debian-archive-keyring.gpg

mirror=''

check_tools() {
  local tool builtins names=''
  local -A package_of=(
    ["apt-get"]=apt
    ["dpkg-deb"]=dpkg
    ["flock"]=util-linux
    ["awk"]=mawk
    ["clang-$LLVM"]=clang-$LLVM
    ["clang++-$LLVM"]=clang-$LLVM
    ["ld.lld-$LLVM"]=lld-$LLVM
    ["llvm-readelf-$LLVM"]=llvm-$LLVM
    ["clang-offload-bundler-$LLVM"]=clang-tools-$LLVM
  ) missing=()
  for tool in "${!package_of[@]}"; do
    command -v "$tool" >/dev/null || missing[$tool]=${package_of[$tool]}
  done
  # HIP's CMake files stop without compiler-rt.
  if [[ -z ${missing["clang-$LLVM"]:-} ]]; then
    builtins=$("clang-$LLVM" -print-libgcc-file-name --rtlib=compiler-rt 2>/dev/null) || builtins=''
    [[ -e $builtins ]] || missing["compiler-rt of clang-$LLVM"]=libclang-rt-$LLVM-dev
  fi
  [[ -e $ARCHIVE_KEYS ]] || missing[$ARCHIVE_KEYS]=debian-archive-keyring
  ((${#missing[@]})) || return 0
  names=$(printf '%s\n' "${!missing[@]}" | sort | paste -s -d ,)
  die 13 "not on this machine: ${names//,/, }" \
    "apt-get install -y --no-install-recommends $(printf '%s\n' "${missing[@]}" | sort -u | paste -s -d ' ')"
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

fetch_package_list() {
  write_apt_settings
  private_apt update ||
    die_of_step 14 "cannot fetch the package list of Debian $SUITE from $mirror" "check the network, or set DEBIAN_MIRROR"
}

fetch_packages() {
  private_apt download "${PACKAGES[@]}" ||
    die_of_step 14 "cannot download ${PACKAGES[*]} from $mirror" "check the network, or set DEBIAN_MIRROR"
  rm -rf -- "$work/apt/lists"
}
