"""How fast `rocm-channel verify` reads, as ratios within one run.

    python -m benchmarks.verify_speed [--small] [--keep DIR]

Makes its inputs (about 4 GB of disk; --small: 400 MB), measures each pair in turn several times, prints the
medians and the ratio, and removes the inputs. Everything is read from the page cache.
"""

from __future__ import annotations

import argparse
import hashlib
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import zstandard

from benchmarks import inputs

CORES = len(os.sched_getaffinity(0))
NEEDLE = b"\x7fELF\x02\x01\x01\x40"


def verify(path: Path, scan: bool = False) -> Callable[[], None]:
    def run() -> None:
        from channel_tools.verify import verify_path

        report = verify_path(path, scan=scan)
        assert not any(fault.damage for _, fault in report.located_faults()), report.all_faults()[:3]

    return run


def pair(name: str, ours: Callable[[], None], other: Callable[[], None], other_name: str, runs: int) -> float:
    """Time both in turn; print medians and the median of the ratios ours/other."""
    ours(), other()
    rows = []
    for _ in range(runs):
        start = time.perf_counter()
        ours()
        middle = time.perf_counter()
        other()
        rows.append((middle - start, time.perf_counter() - middle))
    ratio = statistics.median(a / b for a, b in rows)
    mine, theirs = (statistics.median(column) for column in zip(*rows, strict=True))
    print(f"{name:<46} {mine:8.3f} s   {other_name:<42} {theirs:8.3f} s   ratio {ratio:6.3f}", flush=True)
    return ratio


def fat_library(folder: Path, megabytes: int) -> Path:
    path = folder / f"fat-{megabytes}.so"
    made = [inputs.bundle(megabytes * 1_000_000 // 660, seed) for seed in range(3)]
    with path.open("wb") as file:
        inputs.library([made[at % 3] for at in range(66)]).write(file)
    return path


def with_llvm(path: Path, folder: Path) -> Callable[[], None]:
    section = folder / "section.bin"

    def run() -> None:
        dump = ["llvm-objcopy-19", f"--dump-section=.hip_fatbin={section}", str(path), "/dev/null"]
        subprocess.run(dump, check=True)
        listing = ["clang-offload-bundler-19", "--list", "--type=o", f"--input={section}"]
        subprocess.run(listing, check=True, stdout=subprocess.DEVNULL)
        section.unlink()

    return run


def decompress(packed: list[bytes], hashed: bool) -> Callable[[], None]:
    """The same zstd frames with the same cores, and nothing else (or MD5 of what comes out)."""

    def one(data: bytes) -> None:
        raw = zstandard.ZstdDecompressor(max_window_size=2**31).decompress(data[24:])
        if hashed:
            hashlib.md5(raw, usedforsecurity=False).digest()

    def run() -> None:
        with ThreadPoolExecutor(CORES) as pool:
            list(pool.map(one, packed))

    return run


def _find(path: str, start: int, size: int) -> int:
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        count, place = 0, mapped.find(NEEDLE, start, start + size)
        while place >= 0:
            count, place = count + 1, mapped.find(NEEDLE, place + 1, start + size)
        return count


def one_pass(path: Path) -> Callable[[], None]:
    """One search for one string over the bytes, with all cores."""
    size = path.stat().st_size
    step = -(-size // CORES)

    def run() -> None:
        with ProcessPoolExecutor(CORES) as pool:
            list(pool.map(_find, [str(path)] * CORES, range(0, size, step), [step] * CORES))

    return run


def only_decompress(path: Path) -> Callable[[], None]:
    """The zstd stream of the files in a .conda, in one process."""

    def run() -> None:
        import zipfile

        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.filename.endswith(".tar.zst"):
                    with archive.open(info) as raw:
                        reader = zstandard.ZstdDecompressor(max_window_size=2**31).stream_reader(raw)
                        while reader.read(1 << 20):
                            pass

    return run


def start_up(*words: str) -> float:
    times = []
    for _ in range(9):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "channel_tools", *words], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(folder: Path, megabytes: int, runs: int) -> None:
    print(f"{CORES} cores, Python {sys.version.split()[0]}, inputs of {megabytes} MB\n")
    one, two = fat_library(folder, megabytes), fat_library(folder, 2 * megabytes)
    pair(
        "fat library, headers only",
        verify(one),
        with_llvm(one, folder),
        "llvm-objcopy and clang-offload-bundler",
        runs,
    )
    pair("fat library of twice the bytes", verify(two), verify(one), "the one above, as many bundles", runs)
    two.unlink()

    raw = [inputs.bundle(megabytes * 1_000_000 // 660, seed) for seed in range(3)]
    packed = [inputs.compressed(bundle) for bundle in raw]
    frames = [packed[at % 3] for at in range(66)]
    compressed = folder / "compressed.so"
    with compressed.open("wb") as file:
        inputs.library(frames).write(file)
    pair(
        "compressed bundles, hash checked", verify(compressed), decompress(frames, False), "zstd alone", runs
    )
    pair(
        "compressed bundles, hash checked", verify(compressed), decompress(frames, True), "zstd and MD5", runs
    )
    compressed.unlink()

    data = folder / "data.bin"
    with data.open("wb") as file:
        for seed in range(megabytes // 50):
            file.write(inputs.code(50_000_000, seed % 4))
    pair(
        "--scan of a file of no known kind",
        verify(data, scan=True),
        one_pass(data),
        "one search for one string",
        runs,
    )
    data.unlink()

    conda = folder / "bench-1.0-h0_0.conda"
    libraries = {f"lib/lib{at}.so": inputs.library([raw[at % 3] for _ in range(11)]) for at in range(6)}
    inputs.write_conda(conda, libraries)
    pair(
        f".conda of {conda.stat().st_size // 1_000_000} MB packed",
        verify(conda),
        only_decompress(conda),
        "decompressing it",
        runs,
    )
    for words in (("--version",), ("verify", "--help")):
        print(f"start: rocm-channel {' '.join(words):<26} {start_up(*words):8.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="a tenth of the bytes")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="folder for the inputs")
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp(prefix="rocm-channel-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        measure(folder, 105 if given.small else 1050, given.runs)
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
