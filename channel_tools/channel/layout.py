"""Where things lie in a channel.

As conda clients read it::

    linux-64/  noarch/               every package, but no declared build
    label/gfx942/linux-64/           the declared build of amdgpu-arch for that arch, nothing else
    label/rocm-7.2/linux-64/         the declared build of rocm-userspace for that release
    label/gfx942-rocm7.2/linux-64/   both, so that one more ``-c`` is all a user types

Beside that::

    channel.json          what the channel is: see :mod:`channel_tools.channel.settings`
    yanked.json           yanked builds with their reasons
    releases/<id>.json    one manifest a release, never changed
    records/<file>.json   build records, of channels that `rocm-channel build` fills
    index.html            the channel page
    wheels/               a wheel index, where one was put beside the packages
    .channel/             lease, journal and what a transaction keeps to undo it; no client reads it

Routing is by build string: a declared build in the main channel would give every client every arch.
"""

from __future__ import annotations

SUBDIRS = ("linux-64", "noarch")
SUFFIXES = (".conda", ".tar.bz2")
INDEX_FILES = ("repodata.json", "repodata.json.zst", "repodata_shards.msgpack.zst", "run_exports.json")
PATCH_FILE = "patch_instructions.json"
ARCH_PACKAGE = "amdgpu-arch"
ROCM_PACKAGE = "rocm-userspace"
SETTINGS_KEY = "channel.json"
YANKED_KEY = "yanked.json"
PAGE_KEY = "index.html"
RELEASES = "releases/"
CONTROL = ".channel/"
LEASE_KEY = ".channel/lease.json"
JOURNAL_KEY = ".channel/journal.json"


def arch_label(target: str) -> str:
    return target


def rocm_label(release: str) -> str:
    return f"rocm-{release}"


def combined_label(target: str, release: str) -> str:
    return f"{target}-rocm{release}"


def label_prefix(label: str | None) -> str:
    """Key prefix of a label; of the main channel for None."""
    return "" if label is None else f"label/{label}/"


def subdir_key(label: str | None, subdir: str) -> str:
    """Key of a subdir without a final ``/``: ``linux-64``, ``label/gfx942/linux-64``."""
    return f"{label_prefix(label)}{subdir}"


def label_of(key: str) -> str | None:
    """Label that a key of :func:`subdir_key`, or of a file below it, belongs to."""
    parts = key.split("/")
    return parts[1] if parts[0] == "label" and len(parts) > 2 else None


def is_subdir(key: str) -> bool:
    """Is it the key of a subdir of the channel or of a label, not of something else that lies in there?"""
    parts = key.split("/")
    return (parts[2:] if parts[0] == "label" else parts) in ([subdir] for subdir in SUBDIRS)


def is_package(key: str) -> bool:
    """Is it the key of a package, in a subdir of the channel or of a label?"""
    subdir, _, name = key.rpartition("/")
    return name.endswith(SUFFIXES) and is_subdir(subdir)
