#!/usr/bin/env bash
# One GCC for the host code of C++ and of HIP.
#
# A HIP compiler left alone takes the headers of the newest GCC that it finds, while the link uses the GCC of
# CXX: undefined symbols of libstdc++, or an ABI mix, are what comes out. So clang is tied to CXX's GCC.

# What torch and vLLM need at least for C++20.
readonly GCC_FLOOR_MAJOR=11 GCC_FLOOR_MINOR=3
# Clang 15 has no --gcc-install-dir and knows no gfx942; 16 has the one and not the other.
readonly CLANG_FLOOR=16

# guard_compilers (after guard_rocm): CC and CXX are one GCC of major version cxx_compiler_version, and the
# HIP compiler selects that GCC. Exports HIP_HOST_FLAGS, HIPFLAGS, HIPCC_COMPILE_FLAGS_APPEND and
# HIPCC_LINK_FLAGS_APPEND; sets CC_PROGRAM, CXX_PROGRAM, {CC,CXX}_LAUNCHER, {CC,CXX}_OPTIONS (CC and CXX
# taken apart) and GCC_VERSION.
guard_compilers() {
  local IFS=$' \t\n' wanted=${cxx_compiler_version:-} cc_version major minor
  local fix="set CC and CXX to the gcc and g++ of one installation, as the compiler packages do"
  [[ -n ${HIP_CLANG:-} ]] ||
    guard_fail 63 compilers "HIP_CLANG is not set" "" "the HIP compiler" "call guard_rocm before guard_compilers"
  check_hip_clang
  [[ $wanted =~ ^[0-9]+ ]] ||
    guard_fail 63 compilers "cxx_compiler_version is no version" "$wanted" "GCC's major version" "set it in variants/conda_build_config.yaml"
  wanted=${BASH_REMATCH[0]}

  read_compiler CC c
  cc_version=$GCC_VERSION
  read_compiler CXX c++
  [[ $cc_version == "$GCC_VERSION" ]] ||
    guard_fail 63 compilers "CC and CXX are not the same GCC" "CC=$CC is $cc_version, CXX=$CXX is $GCC_VERSION" "one version" "$fix"
  IFS=. read -r major minor _ <<<"$GCC_VERSION"
  ((major == wanted)) ||
    guard_fail 63 compilers "CXX is not the GCC of this variant" "$GCC_VERSION ($CXX)" "$wanted" \
      "set CC and CXX to gcc and g++ $wanted, or correct cxx_compiler_version"
  ((major > GCC_FLOOR_MAJOR || (major == GCC_FLOOR_MAJOR && minor >= GCC_FLOOR_MINOR))) ||
    guard_fail 63 compilers "GCC is too old" "$GCC_VERSION ($CXX)" "$GCC_FLOOR_MAJOR.$GCC_FLOOR_MINOR or newer" "install a newer GCC $wanted"
  guard_output "$CXX_PROGRAM" -### no-such-file.o || true
  [[ $REPLY == *-lstdc++* ]] ||
    guard_fail 63 compilers "CXX does not link C++" "$CXX" "g++" "set CXX to the g++ beside $CXX_PROGRAM"

  find_gcc_folder
  find_sysroot
  tie_hip_compiler
  export HIP_HOST_FLAGS
  append_flags HIPFLAGS
  append_flags HIPCC_COMPILE_FLAGS_APPEND
  append_flags HIPCC_LINK_FLAGS_APPEND
}

# The HIP compiler is new enough and knows rocm_arch, by its own list of processors.
check_hip_clang() {
  local arch=${rocm_arch:-} version known=() word
  local fix="use the clang++ of ROCm, or set HIP_CLANG_PATH to the folder of one that is new enough: gfx942 needs version 17"
  guard_output "$HIP_CLANG" --version || true
  [[ $REPLY =~ clang\ version\ ([0-9]+) ]] || return 0
  version=${BASH_REMATCH[1]}
  ((version >= CLANG_FLOOR)) ||
    guard_fail 63 compilers "the HIP compiler is too old: Clang 15 and older know no gfx942, and cannot be tied to the GCC of CXX" \
      "Clang $version ($HIP_CLANG)" "Clang $CLANG_FLOOR or newer" "$fix"
  guard_output "$HIP_CLANG" --target=amdgcn -print-supported-cpus || true
  while read -r word; do
    [[ $word != gfx* ]] || known+=("$word")
  done <<<"$REPLY"
  [[ -z $arch || ${#known[@]} -eq 0 || " ${known[*]} " == *" $arch "* ]] ||
    guard_fail 63 compilers "the HIP compiler does not know $arch" "Clang $version ($HIP_CLANG), which knows ${known[*]}" "$arch" "$fix"
}

append_flags() { # VARIABLE
  [[ " ${!1:-} " == *" $HIP_HOST_FLAGS "* ]] || export "$1=${!1:+${!1} }$HIP_HOST_FLAGS"
}

# Takes the command in CC or CXX apart: launchers, the program's full path, options. Sets GCC_VERSION.
read_compiler() { # VARIABLE LANGUAGE
  local variable=$1 command=${!1:-} words=() launcher=() program
  local fix="set CC and CXX to the gcc and g++ of one installation, as the compiler packages do"
  [[ $command =~ [^[:space:]] ]] || guard_fail 63 compilers "$variable is not set" "" "a GCC" "$fix"
  if [[ -x $command && ! -d $command ]]; then
    words=("$command")
  else
    read -r -d '' -a words <<<"$command" || true
  fi
  while [[ ${words[0]##*/} =~ ^(ccache|sccache|distcc|icecc|buildcache)$ ]] && ((${#words[@]} > 1)); do
    type -P -- "${words[0]}" >/dev/null ||
      guard_fail 63 compilers "$variable names a launcher that is not installed" "$command" "${words[0]}" "install ${words[0]}, or take it out of $variable"
    launcher+=("${words[0]}")
    words=("${words[@]:1}")
  done
  program=$(type -P -- "${words[0]}") ||
    guard_fail 63 compilers "$variable names no program" "$command" "a GCC that is installed" "$fix"
  [[ $program == /* ]] || program=$PWD/$program
  words=("${words[@]:1}")
  gcc_version_of "$2" "$program" "${words[@]}" || guard_fail 63 compilers "$variable is not GCC" "$command: $REPLY" "GCC" "$fix"
  GCC_VERSION=$REPLY
  # Results, read by hip_cmake_args and record_evidence.
  # shellcheck disable=SC2034
  case $variable in
  CC) CC_PROGRAM=$program CC_LAUNCHER=("${launcher[@]}") CC_OPTIONS=("${words[@]}") ;;
  CXX) CXX_PROGRAM=$program CXX_LAUNCHER=("${launcher[@]}") CXX_OPTIONS=("${words[@]}") ;;
  esac
}

# REPLY: the version by the compiler's own macros, which no wrapper or translation changes; what it is instead
# if it is no GCC.
gcc_version_of() { # LANGUAGE PROGRAM [OPTION...]
  local language=$1 name value major='' minor='' patch=''
  shift
  if ! guard_output "$@" -E -dM -x "$language" /dev/null; then
    REPLY=${REPLY%%$'\n'*}
    return 1
  fi
  while read -r _ name value; do
    case $name in
    __GNUC__) major=$value ;;
    __GNUC_MINOR__) minor=$value ;;
    __GNUC_PATCHLEVEL__) patch=$value ;;
    __clang__ | __INTEL_COMPILER | __NVCOMPILER)
      guard_output "$@" --version || true
      REPLY=${REPLY%%$'\n'*}
      return 1
      ;;
    esac
  done <<<"$REPLY"
  REPLY=$major.$minor.$patch
  [[ $REPLY =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || {
    REPLY="a compiler without GCC's version macros"
    return 1
  }
}

# GCC_FOLDER: where the GCC of CXX keeps its own files.
find_gcc_folder() {
  local libgcc
  libgcc=$(LC_ALL=C "$CXX_PROGRAM" "${CXX_OPTIONS[@]}" -print-libgcc-file-name 2>/dev/null) || libgcc=''
  [[ $libgcc == /* && -f $libgcc ]] ||
    guard_fail 63 compilers "CXX does not find its own libgcc" "$CXX: ${libgcc:-nothing}" "a whole GCC" "install the compiler package again"
  GCC_FOLDER=$(cd -- "${libgcc%/*}" && pwd)
  [[ ! $GCC_FOLDER =~ [[:space:]] ]] ||
    guard_fail 63 compilers "GCC lies below a folder with white space in its name" "$GCC_FOLDER" "a path without" "build in another folder"
}

# GCC_SYSROOT: the root of libc for the GCC of CXX; empty where it is the host's own.
find_sysroot() {
  local given
  given=$(LC_ALL=C "$CXX_PROGRAM" "${CXX_OPTIONS[@]}" -print-sysroot 2>/dev/null) || given=''
  given=${given:-${CONDA_BUILD_SYSROOT:-}}
  GCC_SYSROOT=''
  [[ -n $given && $given != / ]] || return 0
  GCC_SYSROOT=$(cd -- "$given" 2>/dev/null && pwd) ||
    guard_fail 63 compilers "the sysroot of CXX is not there" "$given" "a folder" "install the sysroot package, or unset CONDA_BUILD_SYSROOT"
  [[ $GCC_SYSROOT != / ]] || GCC_SYSROOT=''
}

tie_hip_compiler() {
  local line selected='' headers flags=("--gcc-install-dir=$GCC_FOLDER")
  local fix="install the GCC of CXX with its C++ headers, or set HIP_CLANG_PATH to a clang++ of version 17 or newer"
  [[ -z $GCC_SYSROOT ]] || flags+=("--sysroot=$GCC_SYSROOT")
  guard_output "$HIP_CLANG" "${flags[@]}" -v || true
  while IFS= read -r line; do
    case $line in
    "Selected GCC installation: "*) selected=${line#*: } ;;
    *"error: "*) guard_fail 63 compilers "the HIP compiler refuses the GCC of CXX" "$line" "$GCC_FOLDER" "$fix" ;;
    esac
  done <<<"$REPLY"
  [[ -d $selected && $selected -ef $GCC_FOLDER ]] ||
    guard_fail 63 compilers "the HIP compiler selects another GCC than CXX" "$selected" "$GCC_FOLDER" "$fix"

  libstdcxx_of "$CXX_PROGRAM" "${CXX_OPTIONS[@]}" ||
    guard_fail 63 compilers "CXX does not find the headers of libstdc++" "$CXX: $REPLY" "a whole GCC" "install libstdc++'s headers for GCC $GCC_VERSION"
  headers=$REPLY
  libstdcxx_of "$HIP_CLANG" "${flags[@]}" ||
    guard_fail 63 compilers "the HIP compiler does not find the headers of libstdc++" "$REPLY" "those of $GCC_FOLDER" "$fix"
  [[ $REPLY == "$headers" ]] ||
    guard_fail 63 compilers "the HIP compiler reads another libstdc++ than CXX" "$REPLY" "$headers" "$fix"
  HIP_HOST_FLAGS=${flags[*]}
}

# REPLY: release and date of the libstdc++ whose headers a compiler reads; its complaint if it reads none.
libstdcxx_of() { # PROGRAM [OPTION...]
  local name value release='' date=''
  if ! REPLY=$(LC_ALL=C "$@" -E -dM -x c++ - <<<'#include <cstddef>' 2>&1); then
    REPLY=${REPLY%%$'\n'*}
    return 1
  fi
  while read -r _ name value; do
    case $name in
    _GLIBCXX_RELEASE) release=$value ;;
    __GLIBCXX__) date=$value ;;
    esac
  done <<<"$REPLY"
  REPLY="libstdc++ $release of $date"
  [[ -n $release ]]
}
