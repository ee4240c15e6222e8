"""Compressed bundles on all cores, against plain zstd decompression of the same frames on the same cores.

Each bundle's hash is MD5 of what it unpacks to, and must be checked. MD5 takes longer than zstd here, so the
floor is zstd and MD5 together on these cores; verify without the hash shows what is left of zstd's speed.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from unittest import mock

import zstandard

from benchmarks.inputs import bundle, compressed, library
from benchmarks.measure import Goal, Settings, print_goals, print_table, ratio, settings, turns, workspace
from channel_tools.verify import verify_path
from channel_tools.verify.parallel import cores

BUNDLES = 66
OBJECT_SIZE = 1_550_000
_HEADER = 24
_PIECE = 1 << 19


class _NoHash:
    """Stands in for MD5, to show its cost."""

    def update(self, _data: bytes) -> None: ...

    def digest(self) -> bytes:
        return bytes(16)


def on_all_cores(work: Callable[[int], None], count: int) -> None:
    """Call ``work`` with each number, one thread a core, whoever is free."""
    numbers = iter(range(count))

    def run() -> None:
        for number in numbers:
            work(number)

    threads = [threading.Thread(target=run) for _ in range(cores())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def plain(frame: bytes, *, with_hash: bool) -> None:
    reader = zstandard.ZstdDecompressor(max_window_size=2**31).stream_reader(frame)
    md5 = hashlib.md5(usedforsecurity=False)
    while piece := reader.read(_PIECE):
        if with_hash:
            md5.update(piece)


def run(how: Settings) -> list[Goal]:
    size = OBJECT_SIZE // (20 if how.small else 1)
    raw = bundle(size)
    packed = compressed(raw)
    frame = packed[_HEADER:]
    total = len(raw) * BUNDLES
    with workspace() as folder:
        path = folder / "libx.so"
        with path.open("wb") as file:
            library([packed] * BUNDLES).write(file)

        def verify() -> None:
            report = verify_path(path)
            assert sum(found.objects for found in report.files) == BUNDLES * 10
            assert report.verdict == "pass"

        def verify_unhashed() -> None:
            with mock.patch("hashlib.md5", lambda **_: _NoHash()):
                report = verify_path(path)
            assert sum(found.objects for found in report.files) == BUNDLES * 10

        seconds = turns(
            how.runs,
            {
                "verify": verify,
                "verify without the hash": verify_unhashed,
                "plain zstd": lambda: on_all_cores(lambda _: plain(frame, with_hash=False), BUNDLES),
                "plain zstd and MD5: the floor": lambda: on_all_cores(
                    lambda _: plain(frame, with_hash=True), BUNDLES
                ),
            },
        )
    print_table(
        f"{BUNDLES} compressed bundles, {len(packed) * BUNDLES / 1e9:.2f} GB that hold {total / 1e9:.2f} GB, "
        f"{cores()} cores",
        seconds,
        total,
    )
    speed = ratio(seconds, "plain zstd", "verify")
    unhashed = ratio(seconds, "plain zstd", "verify without the hash")
    floor = ratio(seconds, "plain zstd and MD5: the floor", "verify")
    limit = ratio(seconds, "plain zstd", "plain zstd and MD5: the floor")
    goals = [
        Goal("verify, of plain zstd", speed, f"0.85 (the floor with MD5: {limit:.2f})", speed >= 0.85),
        Goal("without the hash, of plain zstd", unhashed, "0.85", unhashed >= 0.85),
        Goal("verify, of zstd and MD5", floor, "0.85", floor >= 0.85),
    ]
    print_goals(goals)
    return goals


def main(arguments: Sequence[str] | None = None) -> None:
    run(settings(__doc__, arguments))


if __name__ == "__main__":
    main()
