#!/usr/bin/env bash
# Compiler launcher that makes HIP objects reproducible.
#
# clang names a symbol in each object after a hash of the source's absolute path, so that two checkouts give
# different device code. This gives it a hash of the package's name and the object's path below SRC_DIR
# instead (below the working folder where that is elsewhere), as unique within a link and the same everywhere.
set -euo pipefail

object='' previous='' compiles='' named=''
for argument in "$@"; do
  case $argument in
  -c) compiles=yes ;;
  -cuid=* | -fuse-cuid=*) named=yes ;;
  -o?*) [[ $previous == -o ]] || object=${argument#-o} ;;
  esac
  [[ $previous != -o ]] || object=$argument
  previous=$argument
done

if [[ -n $compiles && -n $object && -z $named ]]; then
  [[ $object == /* ]] || object=$PWD/$object
  for folder in "${SRC_DIR:-$PWD}" "$PWD"; do
    if [[ $object == "$folder"/* ]]; then
      object=${object#"$folder"/}
      break
    fi
  done
  hash=$(printf '%s' "${PKG_NAME:-}/$object" | sha256sum)
  set -- "$@" "-cuid=${hash:0:16}"
fi
exec "$@"
