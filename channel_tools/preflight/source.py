"""The recipe's real source, staged once for later runs.

Only the first source of a recipe is needed: what the others hold is copied, not compiled.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from channel_tools.model.files import locked, storage_errors
from channel_tools.model.project import Project
from channel_tools.sources.fetch import Fetcher
from channel_tools.sources.needed import Output
from channel_tools.sources.stage import stage
from channel_tools.sources.store import Store


def staged_source(output: Output, project: Project) -> Path:
    """A patched tree in the cache. Recipes and variants with the same source and patches share one.

    :raises SourceError: the source cannot be had
    :raises PatchError: a patch does not fit
    """
    output = replace(output, entries=output.entries[:1])
    place = project.cache / "preflight" / f"{output.package}-{output.version}-{_digest(output)}"
    with storage_errors(place.parent):
        place.parent.mkdir(parents=True, exist_ok=True)
    with locked(place.parent / f".{place.name}.lock"):
        if not place.is_dir():
            stage(output, place, Fetcher(Store.of(project)))
    return place


def describe(output: Output) -> str:
    """``vllm-0.16.0.tar.gz with 0001-cap-optimisation-at-O2.patch``."""
    entry = output.entries[0]
    patches = ", ".join(path.name for path in output.patch_files(entry)) or "no patch"
    return f"{entry.name or entry.path} with {patches}"


def _digest(output: Output) -> str:
    digest = hashlib.sha256()
    for entry in output.entries:
        digest.update(json.dumps([entry.sha256, entry.path, entry.target_directory]).encode())
        for patch in output.patch_files(entry):
            digest.update(patch.name.encode() + b"\0" + patch.read_bytes())
    return digest.hexdigest()[:16]
