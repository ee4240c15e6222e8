"""Inputs of the benchmarks: libraries full of GPU code that no compiler had to make.

A code object here is a sound ELF file with the sections that lld gives it. Its ``.text`` is drawn from a
stock of 8-byte words, so that zstd packs it four to five times, as it packs the kernels of rocBLAS.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

import zstandard

ARCHS = {
    "gfx900": 0x2C,
    "gfx906": 0x2F,
    "gfx908": 0x30,
    "gfx90a": 0x53F,
    "gfx942": 0x54C,
    "gfx1010": 0x33,
    "gfx1030": 0x36,
    "gfx1100": 0x41,
    "gfx1101": 0x46,
    "gfx1200": 0x48,
}
"""Ten processors and ``e_flags`` for them."""

PAGE = 4096
BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_WORDS = 6000


def padded(data: bytes, align: int = PAGE) -> bytes:
    return data + bytes(-len(data) % align)


@cache
def code(size: int, seed: int) -> bytes:
    """``size`` bytes that look like machine code to a compressor."""
    dice = random.Random(seed)
    return b"".join(dice.choices(_instructions(), k=size // 20))[:size].ljust(size, b"\0")


@cache
def _instructions() -> list[bytes]:
    """Runs of one to six words, some of them much more common than others."""
    dice = random.Random(0)
    words = [dice.randbytes(8) for _ in range(_WORDS)]
    weights = [1 / (rank + 12) for rank in range(_WORDS)]
    return [b"".join(dice.choices(words, weights, k=dice.randint(1, 6))) for _ in range(_WORDS)]


def elf(sections: list[tuple[str, int, bytes]], *, machine: int, flags: int = 0, ident: bytes = b"") -> bytes:
    """An ELF file: (name, type, data) of each section, the section table at the end."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _, _ in sections) + b".shstrtab\0"
    body = bytearray(64)
    table = bytes(64)
    for name, kind, data in [*sections, (".shstrtab", 3, names)]:
        body += bytes(-len(body) % (PAGE if name == ".hip_fatbin" else 16))
        place = names.index(name.encode() + b"\0")
        table += struct.pack("<IIQQQQIIQQ", place, kind, 2, 0, len(body), len(data), 0, 0, 1, 0)
        body += data
    body += bytes(-len(body) % 8)
    count = len(table) // 64
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01" + ident,
        3,
        machine,
        1,
        0,
        0,
        len(body),
        flags,
        64,
        56,
        0,
        64,
        count,
        count - 1,
    )
    body[:64] = header
    return bytes(body + table)


def code_object(arch: str, size: int, seed: int) -> bytes:
    """A code object of about ``size`` bytes."""
    names = [".note", ".dynsym", ".gnu.hash", ".hash", ".dynstr", ".rodata"]
    sections = [(name, 1, bytes(64)) for name in names]
    sections.append((".text", 1, code(size, seed)))
    sections += [(name, 1, bytes(256)) for name in (".dynamic", ".comment", ".symtab", ".strtab")]
    return elf(sections, machine=224, flags=ARCHS[arch], ident=bytes((64, 3)))


def bundle(object_size: int, seed: int = 0) -> bytes:
    """A bundle with a code object of about ``object_size`` bytes for each of the ten archs."""
    objects = [(f"hipv4-amdgcn-amd-amdhsa--{arch}", arch) for arch in ARCHS]
    entries: list[tuple[str, bytes]] = [("host-x86_64-unknown-linux--", b"")]
    entries += [(name, code_object(arch, object_size, seed + at)) for at, (name, arch) in enumerate(objects)]
    table = BUNDLE_MAGIC + struct.pack("<Q", len(entries))
    place = PAGE
    body = b""
    parts = []
    for name, data in entries:
        table += struct.pack("<QQQ", place, len(data), len(name)) + name.encode()
        parts.append(padded(data))
        place += len(parts[-1])
    body = b"".join(parts)
    return padded(table) + body


def compressed(raw: bytes, level: int = 3) -> bytes:
    """The bundle as clang 19 compresses it: CCOB version 2, zstd."""
    packed = zstandard.ZstdCompressor(level=level, threads=-1).compress(raw)
    digest = hashlib.md5(raw, usedforsecurity=False).digest()[:8]
    return b"CCOB" + struct.pack("<HHII", 2, 1, 24 + len(packed), len(raw)) + digest + packed


@dataclass(frozen=True)
class Library:
    """A shared library of ``size`` bytes, as the parts that follow each other in it."""

    parts: list[bytes]

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))

    def write(self, file: IO[bytes]) -> None:
        for part in self.parts:
            file.write(part)


def library(bundles: list[bytes], text: Iterable[bytes] = ()) -> Library:
    """A host library with these bundles in ``.hip_fatbin``, a wrapper for each, and ``text`` before them."""
    head = elf([(".text", 1, b"\xc3")], machine=62)
    text = list(text)
    text_size = sum(map(len, text))
    fatbin_size = sum(map(len, bundles))
    wrappers = struct.pack("<4sIQQ", b"FPIH", 1, 0, 0) * len(bundles)
    comment = b"GCC: (GNU) 11.4.0\0"
    names = b"\0.text\0.hip_fatbin\0.hipFatBinSegment\0.comment\0.shstrtab\0"
    start = PAGE
    sections = []
    place = start
    sizes = {
        b".text": text_size,
        b".hip_fatbin": fatbin_size,
        b".hipFatBinSegment": len(wrappers),
        b".comment": len(comment),
        b".shstrtab": len(names),
    }
    tail = b""
    for name, size in sizes.items():
        kind = 3 if name == b".shstrtab" else 1
        flags = 0 if name in (b".comment", b".shstrtab") else 2  # llvm-objcopy takes no names that are loaded
        sections.append(
            struct.pack("<IIQQQQIIQQ", names.index(name), kind, flags, 0, place, size, 0, 0, 1, 0)
        )
        place += size
    tail = wrappers + comment + names
    pad = bytes(-place % 8)
    header = bytearray(head[:64])
    struct.pack_into("<Q", header, 0x28, place + len(pad))
    struct.pack_into("<HHH", header, 0x3A, 64, len(sections) + 1, len(sections))
    table = bytes(64) + b"".join(sections)
    return Library([bytes(header).ljust(PAGE, b"\0"), *text, *bundles, tail + pad + table])


class _Reader(io.RawIOBase):
    """The parts of a library as a file."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts: Iterator[bytes] = iter(parts)
        self._part = b""
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while self._at == len(self._part):
            part = next(self._parts, None)
            if part is None:
                return 0
            self._part, self._at = part, 0
        data = memoryview(self._part)[self._at : self._at + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def write_conda(path: Path, files: dict[str, Library], level: int = 3) -> None:
    """A conda package that declares the ten archs."""
    index = {
        "name": "bench",
        "version": "1.0",
        "build": "h0_0",
        "build_number": 0,
        "subdir": "linux-64",
        "depends": [],
    }
    about = {"extra": {"gfx_targets": sorted(ARCHS)}}
    info = {
        f"info/{name}.json": Library([json.dumps(content).encode()])
        for name, content in (("index", index), ("about", about))
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
        for name, content in (("pkg", files), ("info", info)):
            compressor = zstandard.ZstdCompressor(level=level, threads=-1)
            with (
                archive.open(f"{name}-bench-1.0-h0_0.tar.zst", "w", force_zip64=True) as raw,
                compressor.stream_writer(raw, closefd=False) as packed,
                tarfile.open(fileobj=packed, mode="w|") as tar,
            ):
                for member, library_ in content.items():
                    entry = tarfile.TarInfo(member)
                    entry.size = library_.size
                    tar.addfile(entry, io.BufferedReader(_Reader(library_.parts), 1 << 20))
