"""2,000 damaged files: a reader may find a fault or other targets, but never raises and never hangs."""

from __future__ import annotations

import random
import struct
import time

import pytest

from tests.unit.test_verify_support import DATA, archive, host_library, read, target_bundle

ROUNDS = 2000
BATCHES = 8
INTERESTING = (0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)


def inputs() -> list[tuple[str, bytes]]:
    made = [
        ("libx.so", host_library(target_bundle("gfx90a"), target_bundle("gfx942"))),
        ("libx.a", archive({"a.o": host_library(target_bundle("gfx942")), "b.o": target_bundle("gfx90a")})),
    ]
    files = sorted(path for path in DATA.iterdir() if path.suffix != ".md")
    return made + [(path.name, path.read_bytes()) for path in files]


def mutate(data: bytes, dice: random.Random) -> bytes:
    """Cut it, flip bits, overwrite a 4 or 8 byte field with a number to trip over, or zero a part."""
    changed = bytearray(data)
    match dice.randrange(4):
        case 0:
            del changed[dice.randrange(len(changed)) :]
        case 1:
            for _ in range(dice.randint(1, 8)):
                changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
        case 2:
            # Headers lie at the start and, in ELF files, at the end.
            near_start = dice.random() < 0.7
            area = min(256, len(changed) - 8)
            place = dice.randrange(area) if near_start else len(changed) - 8 - dice.randrange(area)
            layout = dice.choice(["<I", "<Q"])
            value = dice.choice(INTERESTING) & (0xFFFFFFFF if layout == "<I" else (1 << 64) - 1)
            struct.pack_into(layout, changed, place, value)
        case _:
            start = dice.randrange(len(changed))
            end = min(len(changed), start + dice.randint(1, 4096))
            changed[start:end] = bytes(end - start)
    return bytes(changed)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_input_never_raises(batch: int) -> None:
    dice = random.Random(batch)
    choices = inputs()
    started = time.monotonic()
    faulty = 0
    for number in range(ROUNDS // BATCHES):
        name, data = choices[number % len(choices)]
        _, targets, findings = read(name, mutate(data, dice))
        faulty += bool(findings.faults)
        assert all(isinstance(target, str) for target in targets)
        assert all(str(fault) and fault.wanted for fault in findings.faults)
    assert faulty > ROUNDS // BATCHES // 4
    assert time.monotonic() - started < 15 / BATCHES * 4
