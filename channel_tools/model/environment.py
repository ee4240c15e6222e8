"""Every environment variable that ``rocm-channel`` reads, in one place.

Variables of other programs (``CONDA_OVERRIDE_*``, ``PIP_*``, proxies, certificates) keep their own meaning
and are read by those programs.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLES = {
    "ROCM_CHANNEL_ROOT": "folder with recipes/ and variants/ (default: the one around the current folder)",
    "ROCM_CHANNEL_CACHE": "folder for the SDK root, the host-tools channel and what verify has read "
    "(default: <root>/.cache)",
    "XDG_CACHE_HOME": "folder for caches where there is no checkout (default: ~/.cache)",
    "ROCM_CHANNEL_CPUS": "processors that one build may use (set for each build by `rocm-channel build`)",
    "ROCM_CHANNEL_MEMORY_MIB": "memory in MiB that one build may use (set for each build)",
    "ROCM_PATH": "root of the ROCm installation (default: /opt/rocm)",
    "ROCM_CHANNEL_TRACEBACK": "1: show where in the code an internal error was raised, without credentials",
    "MAX_JOBS": "compiler jobs of one build; overrides what processors and memory allow",
    "SOURCE_MIRROR": "address that recipes try first for their sources; not part of any hash",
    "HIP_CLANG_PATH": "folder of the HIP compiler when it is not in ROCm's lib/llvm/bin",
    "ROCM_BOOTSTRAP_FORCE_GFX_ARCH": "GPU targets to assume instead of looking (rocm-bootstrap)",
    "ROCM_BOOTSTRAP_DISABLE_DETECTION": "1: look for no GPU (rocm-bootstrap)",
    "ROCM_CHANNEL_TRUST_CONFIG": "trust configuration of the Sigstore instance to sign with "
    "(default: the public one)",
    "ROCM_CHANNEL_TRUSTED_ROOT": "trusted_root.json that attestations are checked with (default: the public "
    "instance's, built into py-rattler)",
    "CONDARC": "conda's configuration file, read for names of channels after ~/.condarc and the others",
    "CONDA_ROOT": "conda's folder, whose .condarc is read for names of channels",
    "XDG_CONFIG_HOME": "folder whose conda/.condarc is read for names of channels (default: ~/.config)",
    "SIGSTORE_ID_TOKEN": "OIDC token to sign with; without it, the CI system is asked for one",
    "RATTLER_AUTH_FILE": "credentials of rattler, rattler-build and pixi for channels and uploads",
    "PREFIX_API_KEY": "credential of uploads to prefix.dev",
    "ANACONDA_API_KEY": "credential of uploads to anaconda.org",
    "ARTIFACTORY_TOKEN": "credential of uploads to Artifactory",
    "QUETZ_API_KEY": "credential of uploads to quetz",
    "CLOUDSMITH_API_KEY": "credential of uploads to Cloudsmith",
    "DEBIAN_MIRROR": "Debian mirror for the SDK root and GCC 11 when the machine's apt sources name none",
}


def read(name: str) -> str | None:
    """Value of one of :data:`VARIABLES`; ``None`` when unset or empty."""
    if name not in VARIABLES:
        raise KeyError(name)
    return os.environ.get(name) or None


def read_path(name: str) -> Path | None:
    """Value of one of :data:`VARIABLES` as a path."""
    value = read(name)
    return None if value is None else Path(value).expanduser()
