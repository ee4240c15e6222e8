# Sourced by conda in fish; it must never fail.
function _rocm_userspace_release
    if test -r "$argv[1]/.info/version"
        sed -n '1s/^\([0-9]*\.[0-9]*\).*/\1/p' "$argv[1]/.info/version" 2>/dev/null
    end
    true
end

if test -z "$ROCM_PATH"
    set -l root ""
    if test -d /opt/rocm
        set root /opt/rocm
    end
    if test "$(_rocm_userspace_release /opt/rocm)" != "@ROCM_VERSION@"
        set -l other (find /opt -maxdepth 1 \( -name 'rocm-@ROCM_VERSION@' -o -name 'rocm-@ROCM_VERSION@.*' \) 2>/dev/null | sort | tail -n 1)
        if test -n "$other"
            set root $other
        end
    end
    if test -n "$root"
        set -gx ROCM_PATH $root
        set -gx ROCM_USERSPACE_SET_ROCM_PATH $root
    end
end

if test -n "$ROCM_PATH"; and test -z "$ROCM_USERSPACE_WARNED"
    set -l found (_rocm_userspace_release "$ROCM_PATH")
    if test -n "$found"; and test "$found" != "@ROCM_VERSION@"
        echo "rocm-userspace: ROCM_PATH=$ROCM_PATH is ROCm $found, and this environment is built for ROCm @ROCM_VERSION@" >&2
        set -gx ROCM_USERSPACE_WARNED 1
    end
end

functions -e _rocm_userspace_release
true
