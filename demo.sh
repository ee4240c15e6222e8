#!/usr/bin/env bash
# The whole way of a package on this machine's own tools: build, verify, publish to a folder, install by
# arch. What is there already is not made again. `make demo` runs it with .venv on PATH.
#   CHANNEL (default: channel)  where builds go;  DEMO (default: demo)  channel, prefixes and wheels
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

channel=${CHANNEL:-channel}
demo=${DEMO:-demo}
internal=$demo/internal
cache=${ROCM_CHANNEL_CACHE:-.cache}
wheel_arch=gfx942

step() { printf '\n== %s\n' "$1"; }
shown() {
  printf '$ %s\n' "$*"
  "$@"
}

# Run a command that must be refused with this exit code.
refused() {
  local expected=$1 status=0
  shift
  printf '$ %s\n' "$*"
  "$@" || status=$?
  if [[ $status != "$expected" ]]; then
    echo "demo: expected exit code $expected, got $status" >&2
    exit 1
  fi
  echo "(refused, exit code $status)"
}

step "an SDK root and bridge packages for this machine's own tools (no AMD GPU, no ROCm needed)"
shown bash build_scripts/rocm_sdk.sh "$cache/sdk"
shown rocm-channel host-tools >/dev/null

if [[ ! -d $channel && -d $internal ]]; then
  echo "$channel is gone: $internal goes, too, because a channel takes no other content under a name it has."
  rm -rf "$internal"
fi

step "rocm-canary for two GPU archs and two ROCm releases, from source"
echo "The SDK is HIP 5.7.1 from Debian, not ROCm 7: this shows the way, and nothing here has run on a GPU."
shown rocm-channel build rocm-canary --toolchain host --rocm-path "$cache/sdk" --channel "$channel"

step "published as one release: all of the matrix or nothing, read back as each kind of consumer"
if [[ ! -f $internal/channel.json ]]; then
  shown rocm-channel channel init "$internal" --name internal --toolchain host \
    --dependency-channel "file://$(realpath "$cache")/host-tools"
fi
shown rocm-channel publish "$channel" --channel "$internal"
shown rocm-channel audit "$internal"

step "installed for each arch, as on a login node or in a container build"
for arch in gfx90a gfx942; do
  shown rocm-channel install --channel "$internal" -c "$cache/host-tools" \
    --arch "$arch" --rocm 7.2 --prefix "$demo/$arch" rocm-canary
  shown env -i "$demo/$arch/bin/rocm-canary" info
  shown rocm-channel env check "$demo/$arch" --arch "$arch" --rocm 7.2
done

step "the same library as a Python wheel, for $wheel_arch"
shown bash build_scripts/rocm-canary-wheel.sh "$wheel_arch" "$cache/sdk" "$demo/wheels"
shown rocm-channel wheels "$demo"/wheels/*.whl --rocm 7.2 --to "$demo/wheel-index"

step "a machine without an AMD GPU, and one with a GPU that nothing is built for"
refused 50 env ROCM_BOOTSTRAP_DISABLE_DETECTION=1 \
  rocm-channel install --channel "$internal" --rocm 7.2 --dry-run rocm-canary
refused 50 env ROCM_BOOTSTRAP_FORCE_GFX_ARCH=gfx1100 \
  rocm-channel install --channel "$internal" --rocm 7.2 --dry-run rocm-canary

step "what was made, read from the binaries"
rocm-channel verify "$internal/linux-64" "$demo"/wheels/*.whl
echo "The channel's page: $internal/index.html"
