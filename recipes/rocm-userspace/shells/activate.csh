# Sourced by conda in csh and tcsh; it must never fail.
if (! $?ROCM_PATH) then
  set _rocm_userspace_root = `sh -c 'r=; v=; [ -d /opt/rocm ] && r=/opt/rocm; [ -r /opt/rocm/.info/version ] && v=$(sed -n "1s/^\([0-9]*\.[0-9]*\).*/\1/p" /opt/rocm/.info/version); if [ "$v" != "@ROCM_VERSION@" ]; then o=$(find /opt -maxdepth 1 -name "rocm-@ROCM_VERSION@" -o -maxdepth 1 -name "rocm-@ROCM_VERSION@.*" | sort | tail -n 1); [ -n "$o" ] && r=$o; fi; echo "$r"'`
  if ("$_rocm_userspace_root" != "") then
    setenv ROCM_PATH "$_rocm_userspace_root"
    setenv ROCM_USERSPACE_SET_ROCM_PATH "$_rocm_userspace_root"
  endif
  unset _rocm_userspace_root
endif
if ($?ROCM_PATH && ! $?ROCM_USERSPACE_WARNED) then
  set _rocm_userspace_found = ""
  if (-r "$ROCM_PATH/.info/version") then
    set _rocm_userspace_found = `sed -n '1s/^\([0-9]*\.[0-9]*\).*/\1/p' "$ROCM_PATH/.info/version"`
  endif
  if ("$_rocm_userspace_found" != "" && "$_rocm_userspace_found" != "@ROCM_VERSION@") then
    sh -c 'echo "rocm-userspace: ROCM_PATH=$1 is ROCm $2, and this environment is built for ROCm @ROCM_VERSION@" >&2' sh "$ROCM_PATH" "$_rocm_userspace_found"
    setenv ROCM_USERSPACE_WARNED 1
  endif
  unset _rocm_userspace_found
endif
