"""The values that ``CONDA_OVERRIDE_*`` may have, and the same for a conda that leaves them to its plugins.

Since 25.11, conda reads these variables itself and asks :data:`CHECKS` about the value. For older ones,
:func:`present_packages` does all of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from conda_amdgpu_arch.detect import RELEASE, ROOT, Host, find_host


class OverrideError(ValueError):
    """A variable has a value that cannot be meant."""


def check_amdgpu(value: str) -> str:
    """
    :raises OverrideError: not 0
    """
    if value != "0":
        raise OverrideError(
            f"CONDA_OVERRIDE_AMDGPU is {value!r}; write 0 for a machine with an AMD GPU, nothing for none"
        )
    return value


def check_isa(value: str) -> str:
    """The ISA version, its three numbers as they are compared: ``9.0.10``.

    :raises OverrideError: not three decimal numbers
    """
    if not re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", value):
        gfx = re.fullmatch(r"(?:gfx)?([0-9]+)([0-9a-f])([0-9a-f])", value)
        hint = ".".join((gfx[1], *(str(int(digit, 16)) for digit in gfx.groups()[1:]))) if gfx else "9.4.2"
        raise OverrideError(
            f"CONDA_OVERRIDE_AMDGPU_ARCH is {value!r}; write three decimal numbers, as {hint}"
        )
    return ".".join(str(int(number)) for number in value.split("."))


def check_rocm(value: str) -> str:
    """The release as X.Y: a patch release is left out, since packages name the release only.

    :raises OverrideError: no release
    """
    match = RELEASE.match(value)
    if match is None:
        raise OverrideError(f"CONDA_OVERRIDE_ROCM_USERSPACE is {value!r}; write a release, as 7.2")
    return match[1]


CHECKS = {"amdgpu": check_amdgpu, "amdgpu_arch": check_isa, "rocm_userspace": check_rocm}


def present_packages(
    environ: Mapping[str, str] = os.environ, host: Host | None = None
) -> Iterator[tuple[str, str]]:
    """Name (without underscores) and version of each virtual package that is present.

    :param host: looked for, when not given
    :raises OverrideError: one of the variables has a value that cannot be meant
    """
    host = host or find_host(ROOT, environ)
    found = {
        "amdgpu": "0" if host.present else None,
        "amdgpu_arch": host.isa,
        "rocm_userspace": host.rocm,
    }
    for name, check in CHECKS.items():
        value = environ.get(f"CONDA_OVERRIDE_{name.upper()}")
        if value is not None:
            found[name] = check(value.strip()) if value.strip() else None
    if found["amdgpu"] is None:
        found["amdgpu_arch"] = None
    for name, version in found.items():
        if version is not None:
            yield name, version
