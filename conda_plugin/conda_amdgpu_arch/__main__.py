"""``python -m conda_amdgpu_arch``: the virtual packages of this machine, one a line; needs no conda."""

from __future__ import annotations

import sys

from conda_amdgpu_arch.overrides import OverrideError, present_packages

if __name__ == "__main__":
    try:
        for name, version in present_packages():
            print(f"__{name}={version}=0")
    except OverrideError as error:
        sys.exit(str(error))
