"""Staging: the sources of one variant, unpacked and patched as for a build, in a folder to look into."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.build.patches import PatchReport, apply_patch
from channel_tools.model.errors import RecipeError, StorageError
from channel_tools.model.files import storage_errors, write_text_whole
from channel_tools.sources.fetch import Fetched, Fetcher
from channel_tools.sources.needed import Entry, Output, sources_of
from channel_tools.sources.unpack import Unpacked, is_archive, merge, unpack

REPORT = ".rocm-channel-stage.json"

Listener = Callable[[str], None]


@dataclass(frozen=True)
class StagedSource:
    """One source in the staged tree. ``unpacked`` is ``None`` for a copied file or folder."""

    entry: Entry
    place: str
    unpacked: Unpacked | None
    patches: tuple[PatchReport, ...]

    @property
    def name(self) -> str:
        return self.entry.name or str(self.entry.path)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sha256": self.entry.sha256 or None,
            "place": self.place,
            "target_directory": self.entry.target_directory or ".",
            "files": self.unpacked.files if self.unpacked else None,
            "links": self.unpacked.links if self.unpacked else None,
            "patches": [report.to_json() for report in self.patches],
        }


@dataclass(frozen=True)
class Staged:
    """A staged tree. ``missing`` were not to be had, and are not in it."""

    output: Output
    folder: Path
    sources: tuple[StagedSource, ...]
    missing: tuple[Fetched, ...]

    @property
    def warnings(self) -> list[str]:
        """Patches that fit at another line than their own."""
        return [line for source in self.sources for report in source.patches for line in report.warnings]

    def to_json(self) -> dict[str, Any]:
        return {
            "package": self.output.package,
            "stem": self.output.stem,
            "variant": dict(self.output.variant),
            "folder": str(self.folder),
            "sources": [source.to_json() for source in self.sources],
            "missing": [fetched.source.name for fetched in self.missing],
            "warnings": self.warnings,
        }


def distinct(outputs: Iterable[Output]) -> list[Output]:
    """One output for each set of sources and patches; GPU archs mostly share them."""
    found: dict[Any, Output] = {}
    for output in outputs:
        found.setdefault((output.package, output.entries), output)
    return list(found.values())


def stage(
    output: Output,
    folder: Path,
    fetcher: Fetcher,
    *,
    partial: bool = False,
    force: bool = False,
    listen: Listener = lambda text: None,
) -> Staged:
    """Fetch, check, unpack and patch the sources of ``output`` into ``folder``.

    The tree is made beside ``folder``, and renamed when it is whole.

    :param partial: leave out sources that cannot be had
    :param force: replace a tree that was staged there before
    :param listen: called with what is being done
    :raises SourceError: a source cannot be had
    :raises PatchError: a patch does not fit without fuzz
    :raises RecipeError: the recipe has no source, or its sources overlap
    :raises DamagedFileError: an archive cannot be unpacked, or would leave its folder
    :raises StorageError: ``folder`` is there already, or cannot be written
    """
    if not output.entries:
        raise RecipeError(
            "has no source to stage",
            where=output.recipe / "recipe.yaml",
            fix="nothing to do: its build takes what the build host has",
        )
    _check_free(folder, force)
    fetched = {result.source.sha256: result for result in fetcher.run(sources_of([output]))}
    missing = {sha256: result for sha256, result in fetched.items() if result.error is not None}
    for result in missing.values():
        if result.error is not None and not partial:
            result.error.fix = f"{result.error.fix}; --partial stages the other sources"
            raise result.error
    with storage_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        tree = work / "tree"
        sources = tuple(
            _place(output, entry, fetched.get(entry.sha256), tree, fetcher, listen)
            for entry in output.entries
            if entry.sha256 not in missing
        )
        staged = Staged(output, folder, sources, tuple(missing.values()))
        report = {"version": 1, **staged.to_json()}
        write_text_whole(tree / REPORT, json.dumps(report, indent=1) + "\n")
        with storage_errors(folder):
            if folder.exists():
                folder.rename(work / "before")
            tree.rename(folder)
        return staged
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _check_free(folder: Path, force: bool) -> None:
    """Only a staged tree may be replaced, and only when that is wanted."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise StorageError("is a file", where=folder, fix="choose another folder")
    if not (folder / REPORT).is_file():
        if any(folder.iterdir()):
            raise StorageError(
                "holds something else than a staged tree", where=folder, fix="choose another folder"
            )
    elif not force:
        raise StorageError(
            "is a staged tree already", where=folder, fix="--force replaces it, with every change made in it"
        )


def _place(
    output: Output, entry: Entry, fetched: Fetched | None, tree: Path, fetcher: Fetcher, listen: Listener
) -> StagedSource:
    """Bring one source to its place in the tree, and patch it there."""
    target = tree / entry.target_directory
    if not target.resolve().is_relative_to(tree.resolve()):
        raise RecipeError(
            "target_directory leads out of the source folder",
            where=output.recipe / "recipe.yaml",
            found=entry.target_directory,
        )
    unpacked = None
    if fetched is None:
        listen(f"copying {entry.path}")
        _copy_folder(output.recipe / str(entry.path), entry, target, tree)
        place = "recipe"
    else:
        place = fetched.place
        file = fetcher.store.path(entry.sha256)
        if entry.file_name is None and is_archive(entry.name):
            listen(f"unpacking {entry.name}")
            unpacked = unpack(file, entry.name, target, _adding(fetcher, entry.name, file.stat().st_size))
        else:
            with storage_errors(target):
                target.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target / (entry.file_name or entry.name))
    reports = []
    for patch in output.patch_files(entry):
        listen(f"applying {patch.name}")
        reports.append(apply_patch(target, patch))
    return StagedSource(entry, place, unpacked, tuple(reports))


def _adding(fetcher: Fetcher, name: str, size: int) -> Callable[[int], None]:
    """The fetcher's listener for pieces of a file, which it wants as a running sum."""
    there = 0

    def listen(count: int) -> None:
        nonlocal there
        there += count
        fetcher.listen(name, there, size)

    return listen


def _copy_folder(source: Path, entry: Entry, target: Path, tree: Path) -> None:
    if not source.exists():
        raise RecipeError("a source beside the recipe is not there", where=source)
    with storage_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        if source.is_file():
            shutil.copy2(source, target / (entry.file_name or source.name))
            return
        copy = Path(tempfile.mkdtemp(prefix=".copy.", dir=tree.parent)) / "copy"
        shutil.copytree(source, copy, symlinks=True)
    merge(copy, target, str(entry.path))
