#!/usr/bin/env bash
# One GPU arch, and the same one for every library that reads it.

# The names under which build systems look for the arch. Whoever sets one of them only is ignored by the rest.
readonly ARCH_VARIABLES=(
  PYTORCH_ROCM_ARCH
  GPU_TARGETS
  AMDGPU_TARGETS
  GPU_ARCHS
  CMAKE_HIP_ARCHITECTURES
  HIP_ARCHITECTURES
  HCC_AMDGPU_TARGET
  SUPPORTED_TARGETS
  AOTRITON_TARGET_ARCH
  AITER_ROCM_ARCH
  MORI_GPU_ARCHS
  CONDA_FORGE_DEFAULT_ROCM_GPU_TARGETS
)

# guard_arch: rocm_arch is one target without features, and the ISA version rocm_isa is its own.
# Exports ARCH_VARIABLES, whatever they held before.
guard_arch() {
  local arch=${rocm_arch:-} isa=${rocm_isa:-} decoded name
  local one="one GPU target without features" choose="pass one arch file of variants/ to the build"
  [[ -n $arch ]] || guard_fail 61 arch "rocm_arch is not set" "" "$one" "$choose"
  case $arch in
  *[\;,[:space:]]*) guard_fail 61 arch "rocm_arch names more than one target" "$arch" "$one" "$choose" ;;
  *:*) guard_fail 61 arch "rocm_arch carries target features" "$arch" "$one" "name the target alone: ${arch%%:*}" ;;
  esac
  gfx_to_isa "$arch" || guard_fail 61 arch "rocm_arch is no GPU target" "$arch" "gfx and three or four digits" "$choose"
  decoded=$REPLY
  [[ -n $isa ]] ||
    guard_fail 61 arch "rocm_isa is not set" "" "$decoded (of $arch)" "zip rocm_isa with rocm_arch in variants/conda_build_config.yaml"
  [[ $isa == "$decoded" ]] ||
    guard_fail 61 arch "rocm_isa is not the ISA version of $arch" "$isa" "$decoded" "correct the pair in variants/conda_build_config.yaml"
  for name in "${ARCH_VARIABLES[@]}"; do
    export "$name=$arch"
  done
}

# REPLY: the ISA version of a target. The last two digits are minor and stepping in hexadecimal, the rest is
# the major version in decimal (LLVM's AMDGPU usage guide, "Processors").
gfx_to_isa() {
  [[ $1 =~ ^gfx([123456789][0123456789]?)([0123456789abcdef])([0123456789abcdef])$ ]] || return 1
  REPLY=${BASH_REMATCH[1]}.$((16#${BASH_REMATCH[2]})).$((16#${BASH_REMATCH[3]}))
}
