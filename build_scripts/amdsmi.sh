#!/usr/bin/env bash
# The Python interface of AMD SMI, as this host's ROCm brings it.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/guards.sh
. "$here/lib/guards.sh"

cd "$SRC_DIR"
guard_rocm
guard_stale
guard_network

source=$ROCM_PATH/share/amd_smi
[[ -d $source/amdsmi ]] ||
  guard_fail 73 amdsmi "this ROCm has no Python interface of AMD SMI" "no $source/amdsmi" "ROCm's package amd-smi-lib" \
    "install amd-smi-lib of ROCm ${rocm_version:-}"
# pip writes into the source folder. Links are followed: amdsmi/libamd_smi.so may be one, and is left out, so
# that the library of the ROCm at run time is loaded (ROCM_PATH, or /opt/rocm).
cp -rL "$source" interface
rm -f interface/amdsmi/libamd_smi.so*
"$PYTHON" -m pip install ./interface --no-build-isolation --no-deps --no-cache-dir -vv

for text in "$source"/LICENSE* "$source"/amdsmi/LICENSE* "$ROCM_PATH"/share/doc/amd-smi-lib/LICENSE* "$ROCM_PATH"/share/doc/amd_smi/LICENSE*; do
  [[ ! -f $text ]] || cp "$text" LICENSE
done
[[ -f LICENSE ]] ||
  guard_fail 73 amdsmi "no licence of AMD SMI is found" "none in share/amd_smi and share/doc of $ROCM_PATH" "LICENSE" \
    "see where this ROCm keeps it"
record_evidence
