"""Threads that unpack, hash and search: results in order, errors where they belong, nothing left running."""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from channel_tools.verify import bundles, parallel, search, verify_path
from channel_tools.verify.containers import open_regular
from channel_tools.verify.embedded import read_embedded
from channel_tools.verify.findings import Findings
from channel_tools.verify.parts import Parts
from channel_tools.verify.source import Source
from channel_tools.verify.streams import Stream
from tests.unit.passing_support import read_passing
from tests.unit.test_verify_support import (
    bundle,
    code_object,
    compressed,
    device_id,
    host_library,
    read,
    target_bundle,
)


def test_work_may_submit_work_and_wait_for_it() -> None:
    def tree(depth: int) -> int:
        if not depth:
            return 1
        return sum(task.result() for task in [parallel.submit(lambda: tree(depth - 1)) for _ in range(3)])

    assert [task.result() for task in [parallel.submit(lambda: tree(4)) for _ in range(4)]] == [81] * 4


def test_errors_come_to_who_asks_for_the_result() -> None:
    task = parallel.submit(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        task.result()


def test_room_is_given_out_once() -> None:
    room = parallel.Room(100)
    used = highest = 0
    lock = threading.Lock()

    def work(size: int) -> None:
        nonlocal used, highest
        with room.take(size):
            with lock:
                used += size
                highest = max(highest, used)
            time.sleep(0.002)
            with lock:
                used -= size

    threads = [threading.Thread(target=work, args=(size,)) for size in (30, 60, 10, 90, 50) * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 60 <= highest <= 100
    with room.take(5000):  # more than there is, for one alone
        pass


def test_chunks_made_ahead_are_the_same() -> None:
    chunks = [bytes([number]) for number in range(200)]
    assert list(parallel.ahead(iter(chunks))) == chunks
    assert list(parallel.ahead(iter(()))) == []


def test_an_error_ahead_comes_after_what_was_made_before_it() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"a"
        yield b"b"
        raise EOFError("cut")

    made = parallel.ahead(chunks())
    assert [next(made), next(made)] == [b"a", b"b"]
    with pytest.raises(EOFError, match="cut"):
        next(made)
    stream = Stream("x", parallel.ahead(chunks()))
    assert stream.read(2) == b"ab"
    for _ in range(3):  # a stream that failed does not look like one that ended
        with pytest.raises(Exception, match="cut"):
            stream.read(1)


def test_a_stream_that_is_given_up_ends_its_thread_and_its_source() -> None:
    closed = threading.Event()

    def chunks() -> Iterator[bytes]:
        try:
            while True:
                yield bytes(1000)
        finally:
            closed.set()

    before = threading.active_count()
    made = parallel.ahead(chunks())
    next(made)
    assert threading.active_count() == before + 1
    made.close()  # type: ignore[attr-defined]
    assert closed.wait(5)
    assert threading.active_count() == before


def test_findings_keep_the_order_of_the_file() -> None:
    findings = Findings("x")
    parts = Parts(findings)
    dice = random.Random(1)

    def reader(name: str, delay: float) -> None:
        def work(part: Findings) -> None:
            time.sleep(delay)
            with part.keep_damage():
                raise Source.of_bytes("x", b"").damage(name, 0)

        (parts.later if dice.random() < 0.7 else parts.then)(work)

    for number in range(40):
        if number % 5 == 0:
            parts.here().add_damage(Source.of_bytes("x", b"").damage(str(number), 0))
        else:
            reader(str(number), dice.random() / 200)
    parts.finish()
    assert [fault.what for fault in findings.faults] == [str(number) for number in range(40)]


def mixed_bundles(count: int) -> list[bytes]:
    dice = random.Random(count)
    raw = [
        bundle(
            [
                (device_id("gfx1030"), b"BC\xc0\xde" + dice.randbytes(9000)),
                (device_id("gfx942"), code_object("gfx942")),
            ]
        ),
        target_bundle("gfx90a"),
    ]
    forms = [
        lambda data: data,
        compressed,
        lambda data: compressed(data, 3, "zlib"),
        lambda data: compressed(data, 1),
    ]
    return [dice.choice(forms)(dice.choice(raw)) for _ in range(count)]


def test_many_compressed_bundles_are_read_as_one_by_one() -> None:
    parts = mixed_bundles(60)
    parts[20] = parts[20][:-1] + b"?" if parts[20].startswith(b"CCOB") else parts[20]
    damaged = bytearray(compressed(target_bundle("gfx942")))
    struct.pack_into("<Q", damaged, 16, 1)
    parts[30:30] = [bytes(damaged), compressed(b"no bundle" * 100)]
    whole = b"".join(part + bytes(7) for part in parts)
    together = Findings("x.hipfb")
    count = bundles.read_bundles(Source.of_bytes("x.hipfb", whole), together)
    alone = Findings("x.hipfb")
    source = Source.of_bytes("x.hipfb", whole)
    position = alone_count = 0
    while (position := source.skip_zeros(position)) < source.size:
        with alone.keep_damage():
            position = bundles.read_bundle(source, position, alone)
            alone_count += 1
    assert (count, together) == (alone_count, alone)
    assert len(together.faults) >= 2
    _, _, passing, passes = read_passing("x.hipfb", whole, piece=4096, ring=20_000)
    assert passing == together
    assert passes == 1


def scattered_code(size: int, places: list[int]) -> bytes:
    data = bytearray(random.Random(2).randbytes(size))
    for place in places:
        part = (code_object("gfx942"), target_bundle("gfx90a"), compressed(target_bundle("gfx942")))[
            place % 3
        ]
        data[place : place + len(part)] = part
    return bytes(data)


def test_search_finds_code_at_any_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_PIECE", 4096)
    monkeypatch.setattr(search, "_BLOCK", 16384)
    edges = [4096 * n - offset for n, offset in ((5, 1), (20, 23), (40, 24), (60, 95), (80, 96), (100, 97))]
    places = [0, *edges, 500_000, 524_287, 600_000 - len(compressed(target_bundle("gfx942")))]
    data = scattered_code(600_000, places)
    path = tmp_path / "x.bin"
    path.write_bytes(data)
    with open_regular(path) as source:
        found = Findings("x")
        read_embedded(source, [], found)
    expected = [target for place in sorted(places) for target in (("gfx942", "gfx90a", "gfx942")[place % 3],)]
    assert [code.target for code in found.objects] == expected
    assert not found.faults
    # Outside what is known already, and no further than its start.
    for known in ([(0, 100_000)], [(90_000, 700_000)], [(1, 4), (80_000, 80_001)]):
        with open_regular(path) as source:
            part = Findings("x")
            read_embedded(source, known, part)
        slow = Findings("x")
        read_embedded(Source.of_bytes("x", data), known, slow)
        assert part.objects == slow.objects
        assert len(part.objects) < len(found.objects)


def test_marks_that_overlap_are_all_seen() -> None:
    """The end of one mark is the start of the next: a search that goes on behind the first misses it."""
    real = target_bundle("gfx942")
    for before in (b"__CLANG_OFFLOAD_BUNDLE", b"CCO", b"\x7fELF\x02\x01\x01", b"\x10\xff", b"CCOB\2\0CC"):
        found = Findings("x")
        read_embedded(Source.of_bytes("x", before + real), [], found)
        assert [code.target for code in found.objects] == ["gfx942"], before


def test_files_of_a_folder_are_read_by_many_threads_in_order(tmp_path: Path) -> None:
    for number in range(120):
        data = compressed(target_bundle("gfx942" if number % 2 else "gfx90a"))
        (tmp_path / f"k{number:03}.co").write_bytes(data if number % 10 else data[:-1])
    (tmp_path / "lib.so").write_bytes(host_library(*mixed_bundles(30)))
    report = verify_path(tmp_path)
    assert [file.path for file in report.files] == sorted(path.name for path in tmp_path.iterdir())
    for number, file in enumerate(report.files[:120]):
        assert bool(file.faults) == (number % 10 == 0)
        assert file.targets == (() if file.faults else ("gfx942" if number % 2 else "gfx90a",))


def test_threads_are_there_once(tmp_path: Path) -> None:
    for _ in range(3):
        read("x.hipfb", b"".join(mixed_bundles(30)))
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("verify")]
    assert len(names) <= parallel.cores()
