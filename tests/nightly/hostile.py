"""Files that somebody made to exhaust a reader: small on disk, endless when believed."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import zstandard

from tests.unit.test_verify_support import (
    BUNDLE_MAGIC,
    DATA,
    archive,
    bundle,
    code_object,
    compressed,
    device_id,
    elf,
    host_library,
    tar_bytes,
    target_bundle,
)

_MIB: Final = 1 << 20


def _zip(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return buffer.getvalue()


def _zeros(compress: Callable[[bytes], bytes], mib: int) -> bytes:
    """Compressed zeros, in pieces of one MiB (zlib and zstd streams may be flushed and go on)."""
    piece = compress(bytes(_MIB))
    return piece * mib


def _frame(window_log: int, *parts: bytes | int) -> bytes:
    """A zstd frame of stored bytes and, 4 bytes for each 128 KiB, of so many MiB of zeros."""
    blocks = []
    for part in parts:
        if isinstance(part, int):
            blocks += [struct.pack("<I", 131072 << 3 | 1 << 1)[:3] + b"\0"] * (8 * part)
        else:
            pieces = (part[start : start + 131072] for start in range(0, len(part), 131072))
            blocks += [struct.pack("<I", len(piece) << 3)[:3] + piece for piece in pieces]
    last = struct.pack("<I", 1)[:3]
    return b"\x28\xb5\x2f\xfd" + bytes((0, (window_log - 10) << 3)) + b"".join(blocks) + last


def _rle_frame(mib: int) -> bytes:
    return _frame(31, mib)


def _windows(levels: int) -> bytes:
    """Archives in archives, each of which needs the largest window that conda's packages have, and fills it.

    Noise makes the whole large enough to be allowed that much.
    """
    inner = compressed(target_bundle("gfx942")) + bytes(64) + random.Random(2).randbytes(4 * _MIB)
    for level in range(levels):
        info = tarfile.TarInfo(f"{level}.tar.zst" if level else "x.co")
        info.size = len(inner)
        member = info.tobuf(tarfile.GNU_FORMAT) + inner + bytes(-len(inner) % 512)
        inner = _frame(27, _tar_start(140), 140, member, 1)
    return inner


def _xz_of_four_gib(raw: bytes) -> bytes:
    """An xz stream whose header asks for a dictionary of 4 GiB."""
    packed = bytearray(lzma.compress(raw, preset=0))
    size = (packed[12] + 1) * 4
    header = packed[12 : 12 + size - 4]
    place = header.index(b"\x21\x01") + 2
    header[place] = 40
    packed[12 : 12 + size] = header + struct.pack("<I", zlib.crc32(header))
    return bytes(packed)


def _one_body_for_all(count: int) -> bytes:
    """A zip file whose entries all point at the same compressed MiB."""
    data = bytearray(_zip({"a": bytes(_MIB)}))
    central = data.index(b"PK\1\2")
    end = data.index(b"PK\5\6")
    entry = data[central:end]
    result = data[:central] + entry * count + data[end:]
    end = len(data[:central]) + len(entry) * count
    struct.pack_into("<HHI", result, end + 8, count, count, len(entry) * count)
    return bytes(result)


def _sections_over_each_other(name: bytes, count: int, size: int) -> bytes:
    data = bytearray(elf({name.decode(): target_bundle("gfx942").ljust(size, b"\0")}))
    (table,) = struct.unpack_from("<Q", data, 0x28)
    first = data[table + 64 : table + 128]
    rest = data[table + 128 :]
    data[table + 64 :] = first * count + rest
    struct.pack_into("<HH", data, 0x3C, count + 2, count + 1)
    return bytes(data)


def _headers(header: bytes, count: int) -> bytes:
    return elf({".rodata": header * count + bytes(_MIB)})


def _claims_everything() -> bytes:
    header = bytearray(code_object("gfx942")[:64])
    struct.pack_into("<Q", header, 0x28, 600_000)
    struct.pack_into("<HHH", header, 0x3A, 64, 60_000, 1)
    return bytes(header)


def _big_bundle(mib: int) -> bytes:
    """A sound compressed bundle that grows just less than what a reader may refuse (2,000 times)."""
    noise = random.Random(1).randbytes(mib * 600)
    return compressed(bundle([(device_id("gfx942"), code_object("gfx942") + bytes(mib * _MIB) + noise)]))


def _thousand_entries() -> bytes:
    names = [f"hip-amdgcn-amd-amdhsa--gfx942:{n}" for n in range(1000)]
    table = b"".join(struct.pack("<QQQ", 0x10000, 1 << 20, len(n)) + n.encode() for n in names)
    return (BUNDLE_MAGIC + struct.pack("<Q", len(names)) + table).ljust(0x10000, b"\0") + bytes(1 << 20)


def _kpack(toc: bytes) -> bytes:
    return b"KPAK" + struct.pack("<IQ", 1, 64) + bytes(48) + toc


def _tar_of_many(count: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for number in range(count):
            made.addfile(tarfile.TarInfo(f"lib/{number}.so"))
    return buffer.getvalue()


def _tar_start(mib: int) -> bytes:
    """The header of a member of that size."""
    info = tarfile.TarInfo("lib/x.bin")
    info.size = mib * _MIB
    return info.tobuf(tarfile.GNU_FORMAT)


def _nested(levels: int) -> bytes:
    data = _zip({"x.bin": bytes(8 * _MIB)})
    for level in range(levels):
        data = _zip({f"{level}-{copy}.zip": data for copy in range(10)})
    return data


def _dynamic(changes: dict[int, int], *, verneed: bytes = b"") -> bytes:
    """A real library whose dynamic entries are changed, and the start of its table of needed versions."""
    data = bytearray((DATA / "mini21_ccob_v2.so").read_bytes())
    (table,) = struct.unpack_from("<Q", data, 0x20)
    (count,) = struct.unpack_from("<H", data, 0x38)
    for segment in range(table, table + 56 * count, 56):
        kind, _, place, _, _, size = struct.unpack_from("<IIQQQQ", data, segment)
        if kind != 2:
            continue
        for entry in range(place, place + size, 16):
            tag, value = struct.unpack_from("<QQ", data, entry)
            if tag in changes:
                struct.pack_into("<Q", data, entry + 8, changes[tag])
            if tag == 0x6FFFFFFE:  # DT_VERNEED; in this library addresses and offsets agree there
                data[value : value + len(verneed)] = verneed
    return bytes(data)


def _sparse(path: Path) -> None:
    path.write_bytes(host_library(target_bundle("gfx942")))
    os.truncate(path, 512 * _MIB)


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "loop").symlink_to(path)
    (path / "gone.so").symlink_to("nothing")
    os.mkfifo(path / "pipe.so")
    deep = path / "/".join("d" * 100 for _ in range(20))
    deep.mkdir(parents=True)
    (deep / "x.co").write_bytes(target_bundle("gfx942"))


def _conda(pkg: bytes) -> bytes:
    info = zstandard.compress(tar_bytes({"info/index.json": b"{}"}))
    return _zip(
        {"metadata.json": b"{}", "pkg-a-1-0.tar.zst": pkg, "info-a-1-0.tar.zst": info}, zipfile.ZIP_STORED
    )


_FILES: Final[dict[str, Callable[[], bytes]]] = {
    "zeros.co": lambda: compressed(bytes(300 * _MIB)),
    "grows.co": lambda: _big_bundle(200),
    "in_library.so": lambda: host_library(*[_big_bundle(100)] * 4),
    "window.co": lambda: b"CCOB" + struct.pack("<HHI8s", 1, 1, 400 * _MIB, b"") + _rle_frame(400),
    "window.tar.zst": lambda: zstandard.compress(_tar_start(4000)) + _rle_frame(4000),
    "window.conda": lambda: _conda(_rle_frame(4000)),
    "window_later.conda": lambda: _conda(zstandard.compress(_tar_start(4000)) + _rle_frame(4000)),
    "windows.tar.zst": lambda: _windows(3),
    "windows.conda": lambda: _conda(_windows(2)),
    "frames.tar.zst": lambda: zstandard.compress(_tar_start(3000)) + _zeros(zstandard.compress, 3000),
    "members.tar.zst": lambda: zstandard.compress(_tar_of_many(20_000)),
    "zeros.tar.gz": lambda: gzip.compress(_tar_start(1000)) + _zeros(gzip.compress, 1000),
    "zeros.zip": lambda: _zip({"lib/x.so": b"\x7fELF" + bytes(600 * _MIB)}),
    "zeros.whl": lambda: _zip({"a-1.dist-info/METADATA": bytes(300 * _MIB), "x.so": host_library()}),
    "one_body.zip": lambda: _one_body_for_all(5000),
    "nested.zip": lambda: _nested(4),
    "dictionary.tar.xz": lambda: _xz_of_four_gib(tar_bytes({"x.co": target_bundle("gfx942")})),
    "dictionary.aks2": lambda: b"AKS2" + struct.pack("<III", 64, 1, 24) + _xz_of_four_gib(bytes(64)),
    "sections.so": lambda: _sections_over_each_other(b".rodata", 60_000, _MIB),
    "fatbins.so": lambda: _sections_over_each_other(b".hip_fatbin", 60_000, _MIB),
    "headers.so": lambda: _headers(_claims_everything(), 20_000),
    "bundles.so": lambda: _headers(_thousand_entries()[:200], 20_000),
    "ccobs.so": lambda: _headers(
        b"CCOB\2\0\1\0" + struct.pack("<II8s", 4096, 1 << 20, b"") + _rle_frame(1)[:40], 20_000
    ),
    "offload.so": lambda: _headers(b"\x10\xff\x10\xad" + struct.pack("<IQQQ", 2, _MIB, 32, 4096), 20_000),
    "entries.co": _thousand_entries,
    "members.a": lambda: archive({f"{n}.o": b"\x7fELF" for n in range(30_000)}),
    "versions.so": lambda: _dynamic({0x6FFFFFFF: 4096}, verneed=struct.pack("<HHIII", 1, 65535, 1, 16, 0)),
    "version_loop.so": lambda: _dynamic(
        {0x6FFFFFFF: 4096}, verneed=struct.pack("<HHIIIIHHII", 1, 65535, 1, 16, 16, 0, 0, 0, 1, 0)
    ),
    "strings.so": lambda: _dynamic({10: 1 << 40, 5: 0}),
    "symbols.so": lambda: _dynamic({6: 0, 4: 0, 0x6FFFFEF5: 0}),
    "nesting.kpack": lambda: _kpack(b"\x91" * 500_000),
    "items.kpack": lambda: _kpack(b"\xdd\x00\x0f\x00\x00" + b"\x80" * 0xF0000),
    "blobs.kpack": lambda: _kpack(
        b"\x82\xa3toc\x81\xa1a\x81\xa6gfx942\x81\xa7ordinal\x00\xa5blobs\xdd\x00\x04\x00\x00"
        + b"\x82\xa6offset\x00\xa4size\xce\x00\x10\x00\x00" * 0x40000
    ),
}


def _written(make: Callable[[], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(make())


HOSTILE: Final[dict[str, Callable[[Path], object]]] = {
    **{name: _written(make) for name, make in _FILES.items()},
    "sparse.so": _sparse,
    "folder": _folder,
}
"""Name, and what makes it at a path."""
