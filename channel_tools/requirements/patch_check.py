"""Whether a recipe's patches still fit a release."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.build.patches import apply_patch, read_patch
from channel_tools.model.errors import PatchError
from channel_tools.requirements.sdist import Sdist


@dataclass(frozen=True)
class PatchCheck:
    """One patch: ``fits`` at its lines, fits at other lines (``moved``), or is ``rejected``.

    ``notes``: the hunks that moved; or what is rejected, and the context found in its place.
    """

    patch: Path
    state: str
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"patch": self.patch.name, "state": self.state, "notes": list(self.notes)}


FITS, MOVED, REJECTED = "fits", "moved", "rejected"


def touched(patches: Iterable[Path]) -> frozenset[str]:
    """Paths in the source tree that patches change.

    :raises PatchError: a patch that is no unified diff
    """
    return frozenset(change.path for patch in patches for change in read_patch(patch))


def check_patches(sdist: Sdist, patches: tuple[Path, ...]) -> tuple[PatchCheck, ...]:
    """Apply patches one after the other, without fuzz, to files of a release read with :func:`touched`."""
    files, found = sdist.files, []
    with tempfile.TemporaryDirectory(prefix="rocm-channel-patches-") as scratch:
        for name in touched(patches) & files.keys():
            file = Path(scratch, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(files[name].encode("utf-8", "surrogateescape"))
        for patch in patches:
            try:
                report = apply_patch(Path(scratch), patch)
            except PatchError as error:
                notes = filter(None, (error.what, error.found))
                found.append(PatchCheck(patch, REJECTED, tuple(notes)))
            else:
                found.append(PatchCheck(patch, MOVED if report.warnings else FITS, tuple(report.warnings)))
    return tuple(found)
