#!/usr/bin/env bash
# No leftovers of an earlier build in the source folder.

# guard_stale [DIR]: setuptools and CMake reuse what they find in build/, dist/, *.egg-info and CMakeCache.txt,
# for whatever arch that was made. DIR is SRC_DIR where not given. The egg-info that a source release brings
# itself (its PKG-INFO is the release's own) is no leftover.
guard_stale() {
  local folder=${1:-${SRC_DIR:-}} found
  [[ -n $folder ]] || guard_fail 65 stale "SRC_DIR is not set" "" "the source folder" "run the script through a build engine"
  [[ -d $folder ]] || guard_fail 65 stale "the source folder is not there" "$folder" "a folder" "check the recipe's source"
  for found in "$folder"/build "$folder"/dist; do
    [[ ! -e $found && ! -L $found ]] || fail_stale "$folder" "$found"
  done
  for found in "$folder"/{,*/}*.egg-info; do
    [[ -e $found ]] || continue
    cmp -s -- "$folder/PKG-INFO" "$found/PKG-INFO" || fail_stale "$folder" "$found"
  done
  while IFS= read -r -d '' found; do
    check_cache_arch "$folder" "$found"
  done < <(find "$folder" -name .git -prune -o -name CMakeCache.txt -print0 2>/dev/null)
}

fail_stale() { # FOLDER LEFTOVER
  guard_fail 65 stale "an earlier build left something in the source folder" "$2" "a clean $1" "unpack the source again, or delete it"
}

check_cache_arch() { # FOLDER CACHE
  local key value
  while IFS='=' read -r key value; do
    case ${key%%:*} in
    CMAKE_HIP_ARCHITECTURES | GPU_TARGETS | AMDGPU_TARGETS | GPU_ARCHS | PYTORCH_ROCM_ARCH | HIP_ARCHITECTURES)
      [[ -z $value || $value == "${rocm_arch:-}" ]] ||
        guard_fail 65 stale "a CMake cache of another arch lies in the source folder" "$value in $2" "${rocm_arch:-}" \
          "unpack the source again, or delete it"
      ;;
    esac
  done <"$2"
}
