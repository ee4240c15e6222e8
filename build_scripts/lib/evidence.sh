#!/usr/bin/env bash
# What a package was built with, inside the package.

# record_evidence [BUILD_DIR] (after the guards): writes $PREFIX/share/rocm-channel/$PKG_NAME/build.json and,
# with BUILD_DIR, its compile_commands.json beside it. Folders of this build appear as the words $SRC_DIR,
# $PREFIX, $BUILD_PREFIX, $ROCM_PATH and $RECIPE_DIR, so that two builds give the same files.
record_evidence() {
  local IFS=$' \t\n' folder script hip_version
  local engine="run the script through a build engine"
  [[ -n ${PREFIX:-} && -n ${PKG_NAME:-} ]] || guard_fail 67 evidence "PREFIX or PKG_NAME is not set" "${PREFIX:-}" "both" "$engine"
  [[ -n ${ROCM_KIND:-} && -n ${HIP_CLANG:-} ]] ||
    guard_fail 67 evidence "no ROCm root was checked" "" "the findings of guard_rocm" "call guard_rocm before record_evidence"
  [[ -z ${1:-} || -r $1/compile_commands.json ]] ||
    guard_fail 67 evidence "there are no compile commands" "no $1/compile_commands.json" "a build folder of CMake" \
      "configure with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
  folder=$PREFIX/share/rocm-channel/$PKG_NAME
  mkdir -p -- "$folder" 2>/dev/null || guard_fail 67 evidence "the package's folder cannot be made" "$folder" "a folder" "check the disk"
  folder_words
  script=$REPLY
  read_hip_version
  hip_version=$REPLY
  write_evidence "$folder/build.json" "$script" <<<"$(build_json "$hip_version")"
  [[ -z ${1:-} ]] || write_evidence "$folder/compile_commands.json" "$script" <"$1/compile_commands.json"
}

# Puts words for folders into what it reads, and makes FILE of it.
write_evidence() { # FILE SED_SCRIPT
  if ! { LC_ALL=C sed -E -e "$2" >"$1.partial" && mv -f -- "$1.partial" "$1"; } 2>/dev/null; then
    guard_fail 67 evidence "a file of evidence cannot be written" "$1" "room on the disk" "check the disk"
  fi
}

build_json() { # HIP_VERSION
  local key separator='' flags=(HIP_HOST_FLAGS HIPFLAGS CFLAGS CXXFLAGS LDFLAGS CMAKE_ARGS)
  local data=(
    package "${PKG_NAME:-}"
    package_version "${PKG_VERSION:-}"
    rocm_arch "${rocm_arch:-}"
    rocm_isa "${rocm_isa:-}"
    rocm_version "${rocm_version:-}"
    toolchain "${toolchain:-}"
    hip_sdk "${hip_sdk:-rocm}"
    rocm_kind "$ROCM_KIND"
    rocm_release "$ROCM_RELEASE"
    hip_version "$1"
    gcc_version "${GCC_VERSION:-}"
  )
  printf '{\n  "version": 1,\n'
  set -- "${data[@]}"
  while (($#)); do
    json_string "$2"
    printf '  "%s": %s,\n' "$1" "$REPLY"
    shift 2
  done
  compiler_line "${CXX_PROGRAM:-}"
  printf '  "cxx_compiler": %s,\n' "$REPLY"
  compiler_line "$HIP_CLANG"
  printf '  "hip_compiler": %s,\n  "flags": {' "$REPLY"
  for key in "${flags[@]}"; do
    json_string "${!key:-}"
    printf '%s\n    "%s": %s' "$separator" "$key" "$REPLY"
    separator=,
  done
  printf '\n  }\n}\n'
}

# REPLY: the first line of the compiler's version as a JSON string.
compiler_line() { # PROGRAM
  REPLY=''
  [[ -z $1 ]] || guard_output "$1" --version || true
  json_string "${REPLY%%$'\n'*}"
}

# REPLY: HIP's version by the header of the root.
read_hip_version() {
  local name value major='' minor='' patch=''
  while read -r _ name value; do
    case $name in
    HIP_VERSION_MAJOR) major=$value ;;
    HIP_VERSION_MINOR) minor=$value ;;
    HIP_VERSION_PATCH) patch=$value ;;
    esac
  done <"$ROCM_PATH/include/hip/hip_version.h"
  REPLY=$major.$minor.$patch
}

# REPLY: a sed script that puts words for the folders of this build, the longest path first, where a path ends
# in them or goes on below them.
folder_words() {
  local LC_ALL=C mark=$'\x01' name path literal script=''
  local -A word_of=()
  for name in SRC_DIR PREFIX BUILD_PREFIX ROCM_PATH RECIPE_DIR; do
    path=${!name:-}
    path=${path%/}
    [[ -n $path ]] || continue
    word_of[$path]=$name
    path=$(cd -- "$path" 2>/dev/null && pwd -P) || continue
    [[ -n ${word_of[$path]:-} ]] || word_of[$path]=$name
  done
  while IFS=$'\t' read -r _ path; do
    json_string "$path"
    # shellcheck disable=SC2001 # sed escapes its own pattern
    literal=$(sed 's/[][\.*^$+?(){}|]/\\&/g' <<<"${REPLY:1:-1}")
    script+="s$mark$literal([]/\" \\\\:;,=')]|\$)$mark\$${word_of[$path]}\\1${mark}g"$'\n'
  done < <(for path in "${!word_of[@]}"; do printf '%s\t%s\n' "${#path}" "$path"; done | sort -rn)
  REPLY=$script
}
