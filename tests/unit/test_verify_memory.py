"""Memory stays below the bound that containers.py states, whatever the sizes in the input."""

from __future__ import annotations

import io
import json
import lzma
import random
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import pytest
import zstandard

from channel_tools.verify import findings, search
from channel_tools.verify.containers import MEMORY_BOUND_MIB
from tests.unit.passing_support import read_passing
from tests.unit.test_verify_support import (
    archive,
    bundle,
    code_object,
    compressed,
    conda_info,
    device_id,
    elf,
    host_library,
    read,
    tar_bytes,
    wrappers,
)

MIB = 1 << 20
ROOT = Path(__file__).resolve().parents[2]
READ = """
import json, re, sys, time
from pathlib import Path
from channel_tools.verify import verify_path
started = time.monotonic()
report = verify_path(Path(sys.argv[1]), scan=True)
print(json.dumps({
    "mib": int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024,
    "seconds": time.monotonic() - started,
    "targets": report.targets(),
    "objects": sum(file.objects for file in report.files),
    "faults": report.all_faults(),
}))
"""


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def large_object(size: int) -> bytes:
    """A code object, and zeros behind it."""
    return code_object("gfx942") + bytes(size)


def large_library(bundles: int, mib: int) -> list[bytes]:
    """A library as parts: so many bundles of so many MiB, some noise, and its section table at the end."""
    whole = bundle([(device_id("gfx942"), large_object(mib * MIB))])
    whole += bytes(-len(whole) % 4096)
    # What does not pack makes the package large enough for what it holds.
    small = elf({".rodata": noise(4 * MIB), ".hip_fatbin": b"?", ".hipFatBinSegment": wrappers(bundles)})
    data = bytearray(small)
    (table,) = struct.unpack_from("<Q", data, 0x28)
    headers = bytearray(data[table:])
    place = -(-table // 4096) * 4096
    struct.pack_into("<QQ", headers, 2 * 64 + 0x18, place, bundles * len(whole))
    struct.pack_into("<Q", data, 0x28, place + bundles * len(whole))
    return [bytes(data[:table]).ljust(place, b"\0"), *[whole] * bundles, bytes(headers)]


class Parts(io.RawIOBase):
    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = (part for part in parts if part)
        self._part = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._part:
            self._part = memoryview(next(self._parts, b""))
        size = min(len(buffer), len(self._part))
        buffer[:size] = self._part[:size]
        self._part = self._part[size:]
        return size


def write_tar(file: IO[bytes], name: str, parts: list[bytes]) -> None:
    with tarfile.open(fileobj=file, mode="w|", bufsize=MIB) as tar:
        info = tarfile.TarInfo(name)
        info.size = sum(map(len, parts))
        tar.addfile(info, io.BufferedReader(Parts(parts), MIB))


def conda(path: Path, name: str, parts: list[bytes]) -> None:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
        with (
            made.open("pkg-x-1.0-h0_0.tar.zst", "w") as raw,
            zstandard.ZstdCompressor(level=1).stream_writer(raw, closefd=False) as packed,
        ):
            write_tar(packed, name, parts)
        info = tar_bytes(conda_info(("gfx942",)))
        made.writestr("info-x-1.0-h0_0.tar.zst", zstandard.compress(info))


def large_conda(path: Path) -> None:
    conda(path, "lib/libx.so", large_library(68, 16))


def large_wheel(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        made.writestr("x-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1\n")
        with made.open("x/libx.so", "w") as file:
            for part in large_library(34, 16):
                file.write(part)


def large_archive(path: Path) -> None:
    """A static archive with members of 24 MiB and of 400 MiB."""
    header = "{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n"
    parts = [b"!<arch>\n"]
    for name, library in (("a.o/", large_library(1, 24)), ("b.o/", large_library(25, 16))) * 2:
        size = sum(map(len, library))
        parts += [header.format(name, 0, 0, 0, 100644, size).encode(), *library, b"\n" * (size % 2)]
    conda(path, "lib/libx.a", parts)


def nested_wheel(path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("x-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1\n")
        with made.open("x/libx.so", "w") as file:
            for part in large_library(12, 16):
                file.write(part)
    conda(path, "share/x-1-py3-none-any.whl", [buffer.getvalue()])


def large_ccob(path: Path) -> None:
    """Bundles of 100 MiB each, compressed, in a library that passes once."""
    raw = bundle([(device_id("gfx942"), large_object(99 * MIB) + noise(MIB))])
    packed = compressed(raw)
    library = host_library(*[packed] * 4, **{".data": noise(40 * MIB)})
    conda(path, "lib/libx.so", [library])


def largest_window(path: Path) -> None:
    """zstd with a window of 128 MiB, as ``--ultra -22`` and ``--long=27`` make it."""
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=27, enable_ldm=True)
    with (
        path.open("wb") as raw,
        zstandard.ZstdCompressor(compression_params=parameters).stream_writer(raw) as packed,
    ):
        write_tar(packed, "lib/libx.so", large_library(20, 16))


def long_headers(path: Path) -> None:
    """A tar header that claims names of 2 GiB."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2 << 30
    path.write_bytes(zstandard.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(300 * MIB)) + noise(MIB))


def large_directory(path: Path) -> None:
    """A zip file of 400,000 entries."""
    name = b"x" * 4
    fields = [20, 20, 0, 0, 0, 0, 0, 0, 0, len(name), 0, 0, 0, 0, 0, 0]
    entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", *fields) + name
    count = 400_000
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, count * len(entry), 30, 0)
    path.write_bytes(b"PK\3\4" + bytes(26) + entry * count + end)


def many_sections(path: Path) -> None:
    count = 260_000
    names = b"\0.a\0"
    header = struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, 64, 1, 0, 0, 1, 0)
    strings = struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    first = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, count, count - 1, 0, 0, 0)
    data = bytearray(elf({}))
    data[64:] = names.ljust(64, b"\0")
    struct.pack_into("<Q", data, 0x28, len(data))
    struct.pack_into("<HHH", data, 0x3A, 64, 0, 0xFFFF)
    path.write_bytes(bytes(data) + first + header * (count - 2) + strings + b"CCOB\2\0\1\0")


def many_kernels(path: Path) -> None:
    """An AKS2 pack whose directory has a million entries."""
    raw = struct.pack("<IIIII", 0, 0, 0, 0, 0) * 1_000_000
    packed = lzma.compress(raw, preset=0)
    path.write_bytes(b"AKS2" + struct.pack("<III", len(raw), 1_000_000, len(raw)) + packed + noise(100_000))


def many_members(path: Path) -> None:
    path.write_bytes(archive({f"{n}.o": b"\x7fELF\0" for n in range(20_000)}))


SOUND: dict[str, tuple[Callable[[Path], None], int]] = {
    "large-1.0-h0_0.conda": (large_conda, 68),
    "large.whl": (large_wheel, 34),
    "archive-1.0-h0_0.conda": (large_archive, 52),
    "nested-1.0-h0_0.conda": (nested_wheel, 12),
    "ccob-1.0-h0_0.conda": (large_ccob, 4),
    "window.tar.zst": (largest_window, 20),
}
HOSTILE: dict[str, tuple[Callable[[Path], None], str | None]] = {
    "headers.tar.zst": (long_headers, "tar header"),
    "directory.zip": (large_directory, "directory of a zip archive"),
    "sections.so": (many_sections, None),
    "kernels.aks2": (many_kernels, "AKS2 directory"),
    "members.a": (many_members, "cut off"),
}


def verify(path: Path) -> dict[str, object]:
    """Peak memory is that of the new program: what getrusage gives counts this one's before exec, too."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    result: dict[str, object] = json.loads(done.stdout)
    return result


@pytest.fixture
def large_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose files are gone at once after the test."""
    yield tmp_path
    for path in tmp_path.iterdir():
        path.unlink()


@pytest.mark.parametrize("name", SOUND)
def test_large_members(name: str, large_folder: Path) -> None:
    make, objects = SOUND[name]
    path = large_folder / name
    make(path)
    result = verify(path)
    assert result["faults"] == []
    assert result["targets"] == ["gfx942"]
    assert result["objects"] == objects
    assert isinstance(result["mib"], float)
    assert result["mib"] < MEMORY_BOUND_MIB


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name: str, large_folder: Path) -> None:
    make, fault = HOSTILE[name]
    path = large_folder / name
    make(path)
    result = verify(path)
    assert isinstance(result["faults"], list)
    assert fault is None or any(fault in line for line in result["faults"])
    assert isinstance(result["mib"], float)
    assert result["mib"] < MEMORY_BOUND_MIB
    assert isinstance(result["seconds"], float)
    assert result["seconds"] < 20


def test_number_of_objects_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MAX_OBJECTS", 100)
    header = bytearray(code_object("gfx942")[:64])
    struct.pack_into("<Q", header, 0x28, 0)
    struct.pack_into("<HHHH", header, 0x38, 0, 0, 0, 0)
    for count, good in ((100, True), (150, False)):
        _, targets, found = read("x.so", elf({".data": bytes(header) * count}))
        assert targets == ["gfx942"] * 100
        assert good == (not found.faults)
    assert "more code objects" in found.faults[0].what


def test_search_for_nothing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each first byte of code costs a look at what follows."""
    monkeypatch.setattr(search, "_MAX_MARKS", 1000)
    marks = elf({".data": b"CCOB\2\0\x09\0" * 2000})
    assert not read("x.so", elf({".data": b"CCOB\2\0\x09\0" * 900}))[2].faults
    for _, _, found in (read("x.so", marks), read_passing("x.so", marks)[:3]):
        assert "first bytes of GPU code" in found.faults[-1].what


def test_packages_take_far_less_than_the_bound(large_folder: Path) -> None:
    """The bound is for archives in archives, each with the largest window, and for files made to be large."""
    path = large_folder / "x-1.0-h0_0.conda"
    conda(path, "lib/libx.so", large_library(10, 16))
    result = verify(path)
    assert isinstance(result["mib"], float)
    assert result["mib"] < MEMORY_BOUND_MIB / 3
