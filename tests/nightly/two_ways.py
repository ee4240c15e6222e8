"""One file read in two ways, from the disk and as it passes out of an archive: both must say the same."""

from __future__ import annotations

import functools
import random
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from channel_tools.verify import Report, containers, sweep, verify_path
from channel_tools.verify.passing import Passing
from tests.unit.test_verify_support import code_object, compressed, elf, target_bundle, wrappers

_RING: Final = 1 << 20
_KEPT_START: Final = 1 << 16


def spread_library(dice: random.Random) -> bytes:
    """A library of up to 4 MiB whose code lies far apart, in any order, some of it in plain data."""
    gfx942, gfx90a = code_object("gfx942"), code_object("gfx90a")

    def filler() -> bytes:
        size = dice.choice((1000, 300_000, 1 << 20))
        return dice.choice((bytes(size), b"\1" * size, dice.randbytes(1000) * (size // 1000)))

    fatbin = target_bundle("gfx942") + bytes(dice.choice((0, 4096))) + compressed(target_bundle("gfx90a"))
    sections = [
        (".hip_fatbin", fatbin),
        (".hipFatBinSegment", wrappers(2)),
        (".rodata", filler() + gfx942 + filler()),
        (".data", gfx90a + filler()),
        (".text", filler()),
        (".comment", b"GCC: (GNU) 11.3.0\0"),
    ]
    dice.shuffle(sections)
    return elf(dict(sections))


def difference(name: str, data: bytes, folder: Path) -> str | None:
    """What the two ways say differently of a file; None where they agree.

    :param folder: an empty folder
    """
    plain = folder / "plain"
    plain.mkdir()
    (plain / name).write_bytes(data)
    archive = folder / "passing.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as made:
        made.add(plain / name, arcname=name)
    on_disk = _said(verify_path(plain))
    shutil.rmtree(plain)
    with small_limits():
        passing = _said(verify_path(archive))
    if on_disk == passing:
        return None
    return f"on disk: {_only(on_disk, passing)}; passing: {_only(passing, on_disk)}"


@contextmanager
def small_limits() -> Iterator[None]:
    """Members pass although they would fit into memory, and little of them is kept."""
    passing = functools.partial(Passing, ring=_RING)
    with (
        patch.object(containers, "_IN_MEMORY", -1),
        patch.object(containers, "Passing", passing),
        patch.object(sweep, "KEPT_START", _KEPT_START),
    ):
        yield


def _said(report: Report) -> list[tuple[Any, ...]]:
    """What a report says of its files, faults by their kind.

    The words for a compressed bundle that runs out of its section depend on how far the reader could see.
    What is said of the whole names the container, and is left out.
    """
    return [
        (
            file.path,
            file.kind,
            file.targets,
            file.objects,
            sorted({(fault.damage, fault.rule) for fault in file.faults}),
            str(file.linkage),
        )
        for file in report.files
    ]


def _only(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> str:
    return str([entry for entry in left if entry not in right])[:1500]
