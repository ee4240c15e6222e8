"""A ``.conda`` of 1 GB, against only unpacking it: the same zstd stream, read to its end and thrown away."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Sequence
from pathlib import Path

import zstandard

from benchmarks.inputs import ARCHS, Library, bundle, code_object, library, write_conda
from benchmarks.measure import Goal, Settings, print_goals, print_table, ratio, settings, turns, workspace
from channel_tools.verify import verify_path

_PIECE = 1 << 20


def one_library(scale: int) -> dict[str, Library]:
    """A package that is one large library."""
    return {"lib/libx.so": library([bundle(1_550_000 // scale)] * 66)}


def many_files(scale: int) -> dict[str, Library]:
    """Libraries of two sizes, kernels in files of their own, and files that are no code."""
    large, small = bundle(700_000 // scale), bundle(20_000, 50)
    arch = next(iter(ARCHS))
    kernels = [Library([code_object(arch, 400_000 // scale, seed)]) for seed in range(100, 116)]
    texts = [Library([random.Random(seed).randbytes(20_000).hex().encode()]) for seed in range(40)]
    return {
        **{f"lib/libbig{n}.so": library([large] * 22) for n in range(3)},
        **{f"lib/lib{n}.so": library([small] * 15) for n in range(60)},
        **{f"lib/rocblas/library/Kernels{n}.hsaco": kernels[n % 16] for n in range(800)},
        **{f"lib/python3.12/site-packages/x/{n}.py": texts[n % 40] for n in range(1500)},
    }


def unpack_only(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".tar.zst"):
                with archive.open(name) as raw:
                    reader = zstandard.ZstdDecompressor(max_window_size=2**31).stream_reader(raw)
                    while reader.read(_PIECE):
                        pass


def check(path: Path) -> None:
    report = verify_path(path)
    assert report.verdict == "pass", report.all_faults()[:3]
    assert len(report.targets()) == len(ARCHS)


def run(how: Settings) -> list[Goal]:
    scale = 20 if how.small else 1
    one, many = one_library(scale), many_files(scale)
    goals = [compare("one library", one, how), compare(f"{len(many)} files", many, how)]
    print_goals(goals)
    return goals


def compare(title: str, files: dict[str, Library], how: Settings) -> Goal:
    size = sum(file.size for file in files.values())
    with workspace() as folder:
        path = folder / "bench-1.0-h0_0.conda"
        write_conda(path, files)
        packed = path.stat().st_size
        seconds = turns(how.runs, {"verify": lambda: check(path), "only unpacked": lambda: unpack_only(path)})
    print_table(f".conda of {packed / 1e6:.0f} MB with {size / 1e9:.2f} GB: {title}", seconds, size)
    slower = ratio(seconds, "verify", "only unpacked")
    return Goal(f"verify / only unpacked, {title}", slower, "at most 1.25", slower <= 1.25)


def main(arguments: Sequence[str] | None = None) -> None:
    run(settings(__doc__, arguments))


if __name__ == "__main__":
    main()
