"""The search for code in bytes of no known kind, against plain searches of the same file on the same cores.

verify looks for all first bytes of code in one pass. Plain are: Python's own search for one of them in mapped
memory, a process a core; libc's ``memmem`` for one, threads; and libc's ``memchr`` for one byte that is
nowhere, which is little more than reading the file: no search can be faster.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.measure import Goal, Settings, print_goals, print_table, ratio, settings, turns, workspace
from channel_tools.verify.containers import open_regular
from channel_tools.verify.embedded import read_embedded
from channel_tools.verify.findings import Findings
from channel_tools.verify.parallel import cores

NEEDLE = b"\x7fELF\x02\x01\x01\x40"
NOWHERE = 0xF5
_PIECE = 1 << 19


def write_noise(path: Path, mib: int) -> None:
    """Random bytes without one of them."""
    block = random.Random(0).randbytes(min(mib, 64) << 20).replace(bytes([NOWHERE]), b"\0")
    with path.open("wb") as file:
        for _ in range(max(1, mib // 64)):
            file.write(block)


def verify(path: Path) -> None:
    with open_regular(path) as source:
        findings = Findings(path.name)
        read_embedded(source, [], findings)
    assert not findings.objects


def in_processes(path: Path, needle: bytes) -> None:
    """``mmap.find`` of a part of the file in each of as many processes as there are cores."""
    size = path.stat().st_size
    children = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        for number in range(cores()):
            child = os.fork()
            if not child:
                start, end = (size * part // cores() for part in (number, number + 1))
                os._exit(0 if mapped.find(needle, start, end) < 0 else 1)
            children.append(child)
        for child in children:
            _, status = os.waitpid(child, 0)
            assert status == 0


def in_threads(path: Path, search: Callable[[int, int], object]) -> None:
    """``search`` over each piece of the file, at an address in memory; one thread a core."""
    descriptor = os.open(path, os.O_RDONLY)
    places = iter(range(0, path.stat().st_size, _PIECE))

    def run() -> None:
        buffer = ctypes.create_string_buffer(_PIECE)
        view = memoryview(buffer)
        address = ctypes.addressof(buffer)
        for place in places:
            search(address, os.preadv(descriptor, [view], place))

    threads = [threading.Thread(target=run) for _ in range(cores())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(descriptor)


def run(how: Settings) -> list[Goal]:
    libc = ctypes.CDLL(None)
    libc.memchr.restype = libc.memmem.restype = ctypes.c_void_p
    libc.memchr.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    libc.memmem.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]

    def memmem(address: int, size: int) -> object:
        return libc.memmem(address, size, NEEDLE, len(NEEDLE))

    def memchr(address: int, size: int) -> object:
        return libc.memchr(address, NOWHERE, size)

    with workspace() as folder:
        path = folder / "noise.bin"
        write_noise(path, 64 if how.small else 2048)
        size = path.stat().st_size
        seconds = turns(
            how.runs,
            {
                "verify: eight patterns": lambda: verify(path),
                "mmap.find, one pattern, processes": lambda: in_processes(path, NEEDLE),
                "memmem, one pattern, threads": lambda: in_threads(path, memmem),
                "memchr, one byte, threads: the floor": lambda: in_threads(path, memchr),
            },
        )
    print_table(f"Search of {size / 1e9:.2f} GB without code, {cores()} cores", seconds, size)
    names = list(seconds)
    goals = []
    for name, title in ((names[1], "mmap.find"), (names[2], "memmem"), (names[3], "memchr")):
        speed = ratio(seconds, name, names[0])
        goals.append(Goal(f"verify, of {title}", speed, "0.85", speed >= 0.85))
    print_goals(goals)
    return goals


def main(arguments: Sequence[str] | None = None) -> None:
    run(settings(__doc__, arguments))


if __name__ == "__main__":
    main()
