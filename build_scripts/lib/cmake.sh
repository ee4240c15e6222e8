#!/usr/bin/env bash
# CMake's arguments for HIP, and what CMake made of them.

# guard_find_root: in a conda build, CMAKE_ARGS confines find_library and find_path to the prefix and the
# sysroot, so that nothing of ROCm is found. Lifts that; exports CMAKE_ARGS.
guard_find_root() {
  local IFS=$' \t\n' kind word mode words
  read -r -d '' -a words <<<"${CMAKE_ARGS:-}" || true
  for kind in LIBRARY INCLUDE PACKAGE; do
    mode=''
    for word in "${words[@]}"; do
      [[ ! $word =~ ^-DCMAKE_FIND_ROOT_PATH_MODE_$kind(:[A-Z]+)?=(.*)$ ]] || mode=${BASH_REMATCH[2]}
    done
    [[ $mode != ONLY ]] || CMAKE_ARGS+=" -DCMAKE_FIND_ROOT_PATH_MODE_$kind=BOTH"
  done
  export CMAKE_ARGS=${CMAKE_ARGS:-}
}

append_cmake_args() { # ARGUMENT
  [[ " ${CMAKE_ARGS:-} " == *" $1 "* ]] || CMAKE_ARGS=${CMAKE_ARGS:+$CMAKE_ARGS }$1
  export CMAKE_ARGS
}

# hip_cmake_args (after guard_arch, guard_rocm and guard_compilers): sets the array HIP_CMAKE_ARGS. Compilers
# and flags are whole in it: host paths are mapped away, the run path is the project's own, and device code
# depends on nothing but the sources.
hip_cmake_args() {
  local IFS=$' \t\n' flag maps=() link_flags=() words
  [[ -n ${CMAKE_HIP_ARCHITECTURES:-} && -n ${HIP_CLANG:-} && -n ${CC_PROGRAM:-} && -n ${CXX_PROGRAM:-} && -n ${HIP_HOST_FLAGS:-} ]] ||
    guard_fail 63 compilers "hip_cmake_args has nothing to work with" "" "the exports of three guards" \
      "call guard_arch, guard_rocm and guard_compilers before hip_cmake_args"
  [[ -n ${PREFIX:-} && -n ${SRC_DIR:-} && -n ${PKG_NAME:-} ]] ||
    guard_fail 63 compilers "PREFIX, SRC_DIR or PKG_NAME is not set" "${PREFIX:-}" "all three" "run the script through a build engine"

  map_path "$SRC_DIR" "/usr/src/$PKG_NAME"
  map_path "$PREFIX" /usr/src/prefix
  [[ -z ${BUILD_PREFIX:-} ]] || map_path "$BUILD_PREFIX" /usr/src/build_prefix
  [[ $ROCM_PATH == /opt/rocm ]] || map_path "$ROCM_PATH" /opt/rocm

  # conda's own run path is absolute, and its dtags make it an RPATH.
  read -r -d '' -a words <<<"${LDFLAGS:-}" || true
  for flag in "${words[@]}"; do
    [[ $flag == -Wl,-rpath[,=]* || $flag == -Wl,--disable-new-dtags ]] || link_flags+=("$flag")
  done
  link_flags+=("-Wl,--enable-new-dtags" "-Wl,-rpath-link,$ROCM_PATH/lib")
  unset LD_RUN_PATH

  HIP_CMAKE_ARGS=(
    --no-warn-unused-cli
    -DCMAKE_C_COMPILER="$CC_PROGRAM"
    -DCMAKE_CXX_COMPILER="$CXX_PROGRAM"
    -DCMAKE_HIP_COMPILER="$HIP_CLANG"
    -DCMAKE_HIP_COMPILER_ROCM_ROOT="$ROCM_PATH"
    -DCMAKE_HIP_COMPILER_LAUNCHER="$guard_lib/hip_cuid.sh"
    -DCMAKE_HIP_ARCHITECTURES="$CMAKE_HIP_ARCHITECTURES"
    -DGPU_TARGETS="$CMAKE_HIP_ARCHITECTURES"
    -DAMDGPU_TARGETS="$CMAKE_HIP_ARCHITECTURES"
    -DCMAKE_C_FLAGS="${CC_OPTIONS[*]} ${CFLAGS:-} ${maps[*]}"
    -DCMAKE_CXX_FLAGS="${CXX_OPTIONS[*]} ${CXXFLAGS:-} ${maps[*]}"
    -DCMAKE_HIP_FLAGS="--rocm-path=$ROCM_PATH $HIP_HOST_FLAGS ${maps[*]}"
    -DCMAKE_EXE_LINKER_FLAGS="${link_flags[*]}"
    -DCMAKE_SHARED_LINKER_FLAGS="${link_flags[*]}"
    -DCMAKE_MODULE_LINKER_FLAGS="${link_flags[*]}"
    -DCMAKE_PREFIX_PATH="$PREFIX;$ROCM_PATH"
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON
  )
  ((${#CC_LAUNCHER[@]} == 0)) || HIP_CMAKE_ARGS+=(-DCMAKE_C_COMPILER_LAUNCHER="$(join_list "${CC_LAUNCHER[@]}")")
  ((${#CXX_LAUNCHER[@]} == 0)) || HIP_CMAKE_ARGS+=(-DCMAKE_CXX_COMPILER_LAUNCHER="$(join_list "${CXX_LAUNCHER[@]}")")
}

# Adds to the caller's maps. CMake gives flags to a shell, which takes the quotes away.
map_path() { # FROM TO
  local map=-ffile-prefix-map=$1=$2
  [[ ! $map =~ [[:space:]] ]] || map=\"$map\"
  maps+=("$map")
}

join_list() {
  local IFS=';'
  printf '%s' "$*"
}

# check_baked_arch BUILD_DIR: the compile commands name rocm_arch, no other target, and no HIP unit goes
# without (CMake left alone compiles for a target of its own choice).
check_baked_arch() {
  local file=${1:-}/compile_commands.json baked without
  local fix="make the project take the arch from CMAKE_HIP_ARCHITECTURES alone"
  [[ -r $file ]] ||
    guard_fail 66 baked-arch "there are no compile commands" "no $file" "a build folder of CMake" \
      "configure with HIP_CMAKE_ARGS, and give check_baked_arch that folder"
  baked=$(LC_ALL=C grep -o -E -e "--(offload|cuda-gpu)-arch=[^\" \\']*" -- "$file" | LC_ALL=C sort -u) || baked=''
  baked=${baked//--offload-arch=/}
  baked=${baked//--cuda-gpu-arch=/}
  [[ -n $baked ]] || guard_fail 66 baked-arch "no unit is compiled for a GPU" "no --offload-arch in $file" "${rocm_arch:-}" "$fix"
  [[ $baked == "${rocm_arch:-}" ]] ||
    guard_fail 66 baked-arch "units are compiled for other targets" "${baked//$'\n'/, }" "${rocm_arch:-}" "$fix"
  without=$(LC_ALL=C grep -E -e '"command": .* -x hip( |")' -- "$file" | LC_ALL=C grep -c -v -E -e '--(offload|cuda-gpu)-arch=') || true
  ((without == 0)) || guard_fail 66 baked-arch "HIP units name no target" "$without in $file" "${rocm_arch:-} in each" "$fix"
}
