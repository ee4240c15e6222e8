#!/usr/bin/env bash
# The ROCm root, its release, and its HIP compiler.

readonly SDK_MARKER=.rocm-channel-sdk

# guard_rocm: ROCM_PATH is a ROCm root of release rocm_version (first line of .info/version, X.Y of X.Y.Z or
# X.Y.Z-BUILD; no other file is taken for it), or, with hip_sdk=debian, an SDK made by rocm_sdk.sh.
# Exports ROCM_PATH (no slash at its end), ROCM_HOME, HIP_CLANG, HIP_CLANG_PATH; sets ROCM_KIND and
# ROCM_RELEASE for the evidence.
guard_rocm() {
  check_rocm_root
  case ${hip_sdk:-rocm} in
  rocm) check_rocm_release ;;
  debian) check_debian_sdk ;;
  *) guard_fail 62 rocm "hip_sdk has no such value" "$hip_sdk" "rocm or debian" "correct hip_sdk in the variant files" ;;
  esac
  find_hip_compiler
  export ROCM_PATH ROCM_HOME=$ROCM_PATH HIP_CLANG HIP_CLANG_PATH=${HIP_CLANG%/*}
}

check_rocm_root() {
  local given=${ROCM_PATH:-} fix="set ROCM_PATH to the folder of ROCm, as /opt/rocm"
  [[ -n $given ]] || guard_fail 62 rocm "ROCM_PATH is not set" "" "the folder of ROCm" "$fix"
  while [[ $given == */ && $given != / ]]; do
    given=${given%/}
  done
  [[ $given == /* ]] || guard_fail 62 rocm "ROCM_PATH is not absolute" "$given" "a path that begins with /" "$fix"
  # Build systems pass it on in flag strings, which they split.
  [[ ! $given =~ [^[:alnum:]/._+@~-] ]] ||
    guard_fail 62 rocm "ROCM_PATH holds a character that compiler flags cannot carry" "$given" \
      "letters, digits and / . _ + @ ~ -" "make a link without it, and set ROCM_PATH to the link"
  [[ -d $given ]] || guard_fail 62 rocm "ROCM_PATH is not a folder" "$given" "the folder of ROCm" "$fix, or install ROCm"
  [[ -r $given/include/hip/hip_version.h ]] ||
    guard_fail 62 rocm "ROCM_PATH is no ROCm root" "no include/hip/hip_version.h in $given" "a ROCm with HIP's headers" "$fix"
  ROCM_PATH=$given
}

check_rocm_release() {
  local wanted=${rocm_version:-} text=''
  [[ $wanted =~ ^[0-9]+\.[0-9]+$ ]] ||
    guard_fail 62 rocm "rocm_version is no ROCm release" "$wanted" "X.Y" "pass one rocm file of variants/ to the build"
  [[ ! -e $ROCM_PATH/$SDK_MARKER ]] ||
    guard_fail 62 rocm "ROCM_PATH is an SDK of Debian packages" "$ROCM_PATH" "ROCm $wanted" \
      "set ROCM_PATH to ROCm $wanted, or build with hip_sdk=debian"
  [[ -r $ROCM_PATH/.info/version ]] ||
    guard_fail 62 rocm "the release of ROCM_PATH is unknown" "no file $ROCM_PATH/.info/version" "ROCm $wanted" \
      "install ROCm's package rocm-core, which holds it"
  read -r text <"$ROCM_PATH/.info/version" || true
  text=${text%$'\r'}
  [[ $text =~ ^([0-9]+\.[0-9]+)(\.[0-9]+)*([-+~].*)?$ ]] ||
    guard_fail 62 rocm "$ROCM_PATH/.info/version cannot be read" "$text" "X.Y.Z" "install ROCm's package rocm-core again"
  [[ ${BASH_REMATCH[1]} == "$wanted" ]] ||
    guard_fail 62 rocm "ROCM_PATH is another release of ROCm" "$text in $ROCM_PATH" "$wanted" \
      "set ROCM_PATH to ROCm $wanted, or build the variant of ROCm ${BASH_REMATCH[1]}"
  found_root rocm "$text"
}

check_debian_sdk() {
  local key value hip='' suite=''
  [[ -r $ROCM_PATH/$SDK_MARKER ]] ||
    guard_fail 62 rocm "hip_sdk is debian and ROCM_PATH is not" "no $SDK_MARKER in $ROCM_PATH" "a root made by rocm_sdk.sh" \
      "run build_scripts/rocm_sdk.sh DEST and set ROCM_PATH to DEST, or build with hip_sdk=rocm"
  while IFS='=' read -r key value; do
    case $key in
    hip) hip=$value ;;
    suite) suite=$value ;;
    esac
  done <"$ROCM_PATH/$SDK_MARKER"
  found_root debian "$hip"
  guard_say rocm "$ROCM_PATH is an SDK of Debian packages (HIP ${hip:-unknown}, ${suite:-unknown}), not ROCm ${rocm_version:-}"
}

# For record_evidence.
found_root() { # KIND RELEASE
  # shellcheck disable=SC2034
  ROCM_KIND=$1 ROCM_RELEASE=$2
}

find_hip_compiler() {
  local compiler
  if [[ -n ${HIP_CLANG_PATH:-} ]]; then
    compiler=${HIP_CLANG_PATH%/}/clang++
    [[ -x $compiler ]] ||
      guard_fail 62 rocm "HIP_CLANG_PATH holds no HIP compiler" "no $compiler" "a folder with clang++" "correct HIP_CLANG_PATH, or unset it"
  else
    compiler=$ROCM_PATH/lib/llvm/bin/clang++
    [[ -x $compiler ]] || compiler=$ROCM_PATH/llvm/bin/clang++
    [[ -x $compiler ]] ||
      guard_fail 62 rocm "ROCM_PATH holds no HIP compiler" "neither lib/llvm/bin/clang++ nor llvm/bin/clang++ in $ROCM_PATH" \
        "ROCm's clang++" "install ROCm's LLVM, or set HIP_CLANG_PATH to the folder of another clang++"
  fi
  guard_output "$compiler" --version && [[ $REPLY == *"clang version"* ]] ||
    guard_fail 62 rocm "the HIP compiler does not run" "$compiler: ${REPLY%%$'\n'*}" "clang++" "install ROCm's LLVM again"
  guard_output "$compiler" -print-targets && [[ $REPLY == *amdgcn* ]] ||
    guard_fail 62 rocm "the HIP compiler makes no AMD GPU code" "$compiler" "clang++ with the target amdgcn" \
      "set HIP_CLANG_PATH to the folder of ROCm's clang++"
  HIP_CLANG=$compiler
}
