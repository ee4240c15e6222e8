# Sourced by conda in sh, bash, dash and zsh, with or without `set -eu`; it must never fail.
_rocm_userspace_release() {
  if [ -r "$1/.info/version" ]; then
    sed -n '1s/^\([0-9]*\.[0-9]*\).*/\1/p' "$1/.info/version" 2>/dev/null || :
  fi
}

if [ -z "${ROCM_PATH:-}" ]; then
  _rocm_userspace_root=
  if [ -d /opt/rocm ]; then
    _rocm_userspace_root=/opt/rocm
  fi
  if [ "$(_rocm_userspace_release /opt/rocm)" != "@ROCM_VERSION@" ]; then
    # find, not a glob: zsh stops at a glob that matches nothing.
    _rocm_userspace_other=$(find /opt -maxdepth 1 \( -name 'rocm-@ROCM_VERSION@' -o -name 'rocm-@ROCM_VERSION@.*' \) 2>/dev/null | sort | tail -n 1) || :
    if [ -n "${_rocm_userspace_other}" ]; then
      _rocm_userspace_root=${_rocm_userspace_other}
    fi
    unset _rocm_userspace_other
  fi
  if [ -n "${_rocm_userspace_root}" ]; then
    export ROCM_PATH="${_rocm_userspace_root}"
    export ROCM_USERSPACE_SET_ROCM_PATH="${_rocm_userspace_root}"
  fi
  unset _rocm_userspace_root
fi

if [ -n "${ROCM_PATH:-}" ] && [ -z "${ROCM_USERSPACE_WARNED:-}" ]; then
  _rocm_userspace_found=$(_rocm_userspace_release "${ROCM_PATH}") || :
  if [ -n "${_rocm_userspace_found}" ] && [ "${_rocm_userspace_found}" != "@ROCM_VERSION@" ]; then
    echo "rocm-userspace: ROCM_PATH=${ROCM_PATH} is ROCm ${_rocm_userspace_found}, and this environment is built for ROCm @ROCM_VERSION@" >&2 || :
    export ROCM_USERSPACE_WARNED=1
  fi
  unset _rocm_userspace_found
fi

unset -f _rocm_userspace_release
