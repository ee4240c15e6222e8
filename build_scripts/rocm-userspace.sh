#!/usr/bin/env bash
# Installs the link to the host's ROCm libraries and the scripts that conda sources on activation.
set -euo pipefail

shells="$RECIPE_DIR/shells"
for action in activate deactivate; do
  mkdir -p "$PREFIX/etc/conda/$action.d"
  for shell in sh csh fish; do
    sed "s/@ROCM_VERSION@/$rocm_version/g" "$shells/$action.$shell" >"$PREFIX/etc/conda/$action.d/rocm-userspace.$shell"
  done
done

mkdir -p "$PREFIX/lib" "$PREFIX/share/rocm-channel"
ln -s /opt/rocm/lib "$PREFIX/lib/rocm-host"
printf '%s\n' "$rocm_version" >"$PREFIX/share/rocm-channel/rocm-userspace"
