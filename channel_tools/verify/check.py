"""Verify a package, archive, folder or file: read every file in it, then compare with what is declared."""

from __future__ import annotations

from pathlib import Path

from channel_tools.model.errors import VerifyError
from channel_tools.model.package import SUFFIXES
from channel_tools.verify import package_info
from channel_tools.verify.judge import judge
from channel_tools.verify.reading import Progress, read_path
from channel_tools.verify.reading_cache import ReadingCache
from channel_tools.verify.report import Report
from channel_tools.verify.streams import Limits
from channel_tools.verify.targets import Target


def parse_want(text: str) -> frozenset[str]:
    """Read ``gfx90a,gfx942``.

    :raises ValueError: an empty list, or a word that is no GPU target
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise ValueError(f"{text!r} names no GPU target: wanted names such as gfx90a,gfx942")
    return frozenset(str(Target.parse(word)) for word in words)


def packages_under(path: Path) -> list[Path]:
    """The packages of a channel folder, sorted; ``[path]`` for everything else.

    A channel is a folder with conda packages in itself or in a platform folder below, or with an index.

    :raises VerifyError: a channel without a package
    """
    if not path.is_dir() or (path / "conda-meta").is_dir() or (path / package_info.INDEX).is_file():
        return [path]
    levels = (path, *(child for child in sorted(path.iterdir()) if child.is_dir() and not child.is_symlink()))
    marks = (*SUFFIXES, "repodata.json", "channeldata.json")
    if not any(entry.name.endswith(marks) for level in levels for entry in level.iterdir()):
        return [path]
    packages = sorted(found for found in path.rglob("*") if found.name.endswith(SUFFIXES) and found.is_file())
    if not packages:
        raise VerifyError("a channel without a package", where=path, wanted="at least one package")
    return packages


def verify_path(
    path: Path,
    want: frozenset[str] | None = None,
    *,
    progress: Progress | None = None,
    limits: Limits | None = None,
    policy: Path | None = None,
    scan: bool = False,
    cache: ReadingCache | None = None,
) -> Report:
    """Read every file of ``path`` and compare its GPU code with ``want``, or with what the package declares.

    The union of the targets must equal the expected set, and each file's targets must be a subset of it;
    targets compare as text, so ``gfx942:xnack-`` is not ``gfx942``. With neither ``want`` nor a declaration
    a conda package with device code fails; anything else is only listed, and damage alone fails it.

    A conda package that declares a target, or has a file in ``policies/``, is held against its policy, too:
    linkage, how it was compiled, modules, sizes. Anything else is only with ``policy``.

    :param path: a conda package, wheel, zip, tar, folder, prefix or single file
    :param progress: called with the name of each file that is read
    :param policy: a policy file in place of the one in ``policies/``
    :param scan: look for code objects in files of no known kind, too
    :param cache: where readings are kept: the same bytes are not read twice
    :raises VerifyError: no such path
    :raises PolicyError: a policy that cannot be used
    """
    if not path.exists():
        raise VerifyError("no such file or folder", where=path, fix="check the path")
    bounds = limits or Limits()
    if cache is None or limits is not None or not cache.suits(path):
        return judge(read_path(path, progress=progress, limits=bounds, scan=scan), want, policy, None)
    kept = cache.read(path, scan, lambda: read_path(path, progress=progress, limits=bounds, scan=scan))
    return judge(kept.reading, want, policy, kept.sha256)
