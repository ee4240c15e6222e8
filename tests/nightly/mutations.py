"""Damage for files with GPU code: at random, and aimed at lengths, counts, offsets, names and hashes.

Containers and compressed parts are also taken apart, damaged inside, and put together again with sound sizes
and checksums, so that damage gets past the outer layer. The layouts are written down here a second time, so
that a mistake of the reader is not repeated.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import zstandard

from tests.unit.test_verify_support import BUNDLE_MAGIC, compressed

MAX_SIZE: Final = 4 << 20
"""Bytes of a mutated file."""

Field = tuple[int, int]
"""Offset and size in bytes of a number in a file."""

_ELF: Final = b"\x7fELF\x02\x01"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_XZ: Final = b"\xfd7zXZ\x00"
_NUMBERS: Final = (
    0,
    1,
    2,
    3,
    7,
    0x7F,
    0xFF,
    0x1000,
    0x7FFF,
    0xFFFF,
    1 << 20,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
)
_BIG_NUMBERS: Final = (1 << 32, 1 << 40, (1 << 62) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 16, (1 << 64) - 1)
_TEXTS: Final = (
    b"gfx942",
    b"gfx90a",
    b"gfx942:xnack+",
    b"gfx999",
    b"../../etc/passwd",
    b"/absolute",
    b"\0",
    b"\xff\xfe",
    b"\x1b[31m",
    b"__CLANG_OFFLOAD_BUNDLE__",
    b"CCOB\2\0\1\0",
    b"\x10\xff\x10\xad",
    b"\x7fELF\x02\x01\x01\x40",
    b".hip_fatbin",
    b"hipv4-amdgcn-amd-amdhsa--",
    b"%s%n{0}\\",
)


@dataclass(frozen=True)
class Mutated:
    """A damaged file, and what was done to it."""

    name: str
    data: bytes
    steps: tuple[str, ...]


def mutate(name: str, data: bytes, others: Sequence[bytes], dice: random.Random) -> Mutated:
    """Damage a file in one to three ways.

    :param others: files to splice parts of
    """
    steps: list[str] = []
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        data, step = _mutate_once(data, others, dice, depth=0)
        data = data[:MAX_SIZE]
        steps.append(step)
    if dice.random() < 0.05:
        name = dice.choice(
            ("x.so", "x.co", "x.hsaco", "x.a", "x.o", "x", "x.conda", "x.whl", "x.kpack", "x.bin")
        )
    return Mutated(name, data, tuple(steps))


def damaged(data: bytes, dice: random.Random) -> bytes:
    """The file, damaged in one to three ways."""
    return mutate("", data, [data], dice).data


def _mutate_once(data: bytes, others: Sequence[bytes], dice: random.Random, depth: int) -> tuple[bytes, str]:
    inside = _opener(data)
    if inside and depth < 6 and dice.random() < 0.6:
        try:
            changed, step = inside(data, others, dice, depth)
        except _CANNOT_OPEN:
            pass  # an earlier step broke it
        else:
            return changed, step
    if dice.random() < 0.55:
        fields = list(_fields(data))
        if fields:
            return _change_field(data, fields, dice)
    return _change_bytes(data, others, dice)


# Numbers of the formats


def _fields(data: bytes) -> Iterator[Field]:
    if data.startswith(_ELF):
        yield from _elf_fields(data)
    elif data.startswith(BUNDLE_MAGIC):
        yield from _bundle_fields(data)
    elif data.startswith(b"CCOB"):
        yield from ((4, 2), (6, 2), (8, 4), (8, 8), (12, 4), (16, 8), (24, 8))
    elif data.startswith(b"\x10\xff\x10\xad"):
        yield (4, 4)
        yield from ((offset, 8) for offset in range(8, 40, 8))
        yield from ((offset, 8) for offset in range(40, min(len(data), 160), 8))
    elif data.startswith((b"AKS2", b"KPAK")):
        yield from ((offset, 4) for offset in range(4, 32, 4))
        yield (8, 8)
    elif data.startswith(b"PK"):
        yield from _zip_fields(data)


def _elf_fields(data: bytes) -> Iterator[Field]:
    yield from ((0x10, 2), (0x12, 2), (0x14, 4), (0x20, 8), (0x28, 8), (0x30, 4))
    yield from ((offset, 2) for offset in range(0x34, 0x40, 2))
    yield from ((offset, 1) for offset in range(4, 9))
    if len(data) < 64:
        return
    segments, sections = struct.unpack_from("<QQ", data, 0x20)
    _, _, segment_count, _, section_count, _ = struct.unpack_from("<HHHHHH", data, 0x34)
    for number in range(min(section_count, 80)):
        start = sections + 64 * number
        yield from ((start + offset, 4) for offset in (0, 4, 40, 44))
        yield from ((start + offset, 8) for offset in (8, 16, 24, 32, 48, 56))
    for number in range(min(segment_count, 40)):
        start = segments + 56 * number
        yield from ((start + offset, 4) for offset in (0, 4))
        yield from ((start + offset, 8) for offset in range(8, 56, 8))
        if data[start : start + 4] == b"\2\0\0\0" and start + 56 <= len(data):  # PT_DYNAMIC: tags, values
            (place, _, _, size) = struct.unpack_from("<QQQQ", data, start + 8)
            yield from ((offset, 8) for offset in range(place, place + min(size, 1024), 8))


def _bundle_fields(data: bytes) -> Iterator[Field]:
    yield (24, 8)
    position = 32
    (count,) = struct.unpack_from("<Q", data.ljust(32, b"\0"), 24)
    for _ in range(min(count, 20)):
        if position + 24 > len(data):
            return
        yield from ((position + offset, 8) for offset in (0, 8, 16))
        position += 24 + struct.unpack_from("<Q", data, position + 16)[0]


def _zip_fields(data: bytes) -> Iterator[Field]:
    for magic, layout in (
        (b"PK\3\4", ((4, 2), (6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2))),
        (b"PK\1\2", ((8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (38, 4), (42, 4))),
        (b"PK\5\6", ((4, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2))),
    ):
        start = data.find(magic)
        for _ in range(20):
            if start < 0:
                break
            yield from ((start + offset, size) for offset, size in layout)
            start = data.find(magic, start + 4)


def _change_field(data: bytes, fields: list[Field], dice: random.Random) -> tuple[bytes, str]:
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        offset, size = dice.choice(fields)
        if offset + size > len(changed):
            continue
        old = int.from_bytes(changed[offset : offset + size], "little")
        match dice.randrange(5):
            case 0:
                new = old + dice.choice((-16, -8, -1, 1, 8, 16, 64, 4096))
            case 1:
                new = dice.choice((old * 2, old // 2, old << 8, old ^ (1 << dice.randrange(8 * size))))
            case 2:
                new = len(data) + dice.choice((-64, -1, 0, 1, 64))
            case 3:
                other, other_size = dice.choice(fields)
                new = int.from_bytes(changed[other : other + other_size], "little")
            case _:
                new = dice.choice(_NUMBERS + _BIG_NUMBERS)
        changed[offset : offset + size] = (new % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(changed), "number"


# Bytes, whatever they mean


def _change_bytes(data: bytes, others: Sequence[bytes], dice: random.Random) -> tuple[bytes, str]:
    changed = bytearray(data)
    size = len(changed)
    start = dice.randrange(size + 1)
    part = dice.choice((1, 8, 64, 512, 4096, 65536))
    step = dice.choice(
        (
            "cut",
            "flip",
            "flip",
            "overwrite",
            "zeros",
            "noise",
            "delete",
            "double",
            "text",
            "splice",
            "append",
            "move",
        )
    )
    match step:
        case "cut":
            del changed[start:]
        case "flip":
            for _ in range(dice.randint(1, 8) if size else 0):
                changed[dice.randrange(min(size, dice.choice((64, 4096, size))))] ^= 1 << dice.randrange(8)
        case "overwrite":
            width = dice.choice((1, 2, 4, 8))
            number = dice.choice(_NUMBERS + _BIG_NUMBERS) % (1 << 8 * width)
            changed[start : start + width] = number.to_bytes(width, dice.choice(("little", "big")))
        case "zeros":
            changed[start : start + part] = bytes(len(changed[start : start + part]))
        case "noise":
            changed[start : start + part] = dice.randbytes(len(changed[start : start + part]))
        case "delete":
            del changed[start : start + part]
        case "double":
            changed[start:start] = changed[start : start + part] * dice.choice((1, 1, 2, 50))
        case "text":
            text = dice.choice(_TEXTS)
            changed[start : start + dice.choice((0, len(text)))] = text
        case "splice":
            other = dice.choice(others)
            cut = dice.choice((start, dice.randrange(len(other) + 1)))
            changed[start:] = other[cut:]
        case "append":
            changed += bytes(dice.choice((0, 0, 1, 4096))) + dice.choice(others)
        case "move":
            block = changed[start : start + part]
            del changed[start : start + part]
            place = dice.randrange(len(changed) + 1)
            changed[place:place] = block
    return bytes(changed), step


# Inside what is packed

_CANNOT_OPEN: Final = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    zstandard.ZstdError,
)
Inside = Callable[[bytes, Sequence[bytes], random.Random, int], tuple[bytes, str]]


def _opener(data: bytes) -> Inside | None:
    for start, opener in _OPENERS.items():
        if data.startswith(start):
            return opener
    return _in_tar if data[257:262] == b"ustar" else None


def _in_compressed_bundle(
    data: bytes, others: Sequence[bytes], dice: random.Random, depth: int
) -> tuple[bytes, str]:
    version, method = struct.unpack_from("<HH", data, 4)
    payload = data[{1: 20, 2: 24, 3: 32}[version] :]
    unpacker = zstandard.ZstdDecompressor().decompressobj() if method else zlib.decompressobj()
    raw, step = _mutate_once(unpacker.decompress(payload)[:MAX_SIZE], others, dice, depth + 1)
    packed = compressed(raw[:MAX_SIZE], dice.choice((1, 2, 3)), dice.choice(("zlib", "zstd")))
    packed += unpacker.unused_data
    return packed, f"bundle/{step}"


def _in_aks2(data: bytes, others: Sequence[bytes], dice: random.Random, depth: int) -> tuple[bytes, str]:
    _, count, directory = struct.unpack_from("<III", data, 4)
    raw = bytearray(lzma.LZMADecompressor().decompress(data[16:], MAX_SIZE))
    if dice.random() < 0.5:
        place = dice.randrange(0, max(directory - 4, 1))
        struct.pack_into("<I", raw, place, dice.choice(_NUMBERS))
        step = "number"
    else:
        changed, step = _mutate_once(bytes(raw), others, dice, depth + 1)
        raw = bytearray(changed[:MAX_SIZE])
    return b"AKS2" + struct.pack("<III", len(raw), count, directory) + lzma.compress(bytes(raw), preset=0), (
        f"aks2/{step}"
    )


def _in_archive(data: bytes, others: Sequence[bytes], dice: random.Random, depth: int) -> tuple[bytes, str]:
    """One member of a static archive, its header made to fit, or a field of a header."""
    headers = []
    position = 8
    while position + 60 <= len(data):
        size = int(data[position + 48 : position + 58])
        headers.append((position, size))
        position += 60 + size + size % 2
    start, size = dice.choice(headers)
    head, body = data[start : start + 60], data[start + 60 : start + 60 + size]
    if dice.random() < 0.3:
        field, width = dice.choice(((0, 16), (48, 10), (58, 2)))
        text = dice.choice(
            (b"/99999", b"#1/12", b"#1/-4", b"//", b"/", b"9999999999", b"-1", b"0", b"1e3", b"\0")
        )
        head = head[:field] + text[:width].ljust(width) + head[field + width :]
        return data[:start] + head + data[start + 60 :], "ar/header"
    body, step = _mutate_once(body, others, dice, depth + 1)
    body = body[:MAX_SIZE]
    head = head[:48] + str(len(body)).encode().ljust(10) + head[58:]
    rest = data[start + 60 + size + size % 2 :]
    return data[:start] + head + body + b"\n" * (len(body) % 2) + rest, f"ar/{step}"


def _in_zip(data: bytes, others: Sequence[bytes], dice: random.Random, depth: int) -> tuple[bytes, str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {
            info.filename: archive.read(info) for info in archive.infolist() if info.file_size <= MAX_SIZE
        }
    name = dice.choice(sorted(files))
    match dice.randrange(6):
        case 0:
            files[dice.choice(("../x.so", "/x.so", "a\\..\\x.so", name + "/", "x" * 3000))] = files[name]
            step = "name"
        case 1:
            del files[name]
            step = "without"
        case _:
            files[name], step = _mutate_once(files[name], others, dice, depth + 1)
    method = dice.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for entry, content in files.items():
            archive.writestr(entry, content)
    return buffer.getvalue(), f"zip/{step}"


def _in_tar(data: bytes, others: Sequence[bytes], dice: random.Random, depth: int) -> tuple[bytes, str]:
    """A header, its checksum made to fit, or a member."""
    headers = []
    position = 0
    while data[position + 257 : position + 262] == b"ustar":
        size = int(data[position + 124 : position + 135].strip(b" \0") or b"0", 8)
        headers.append((position, size))
        position += 512 + -(-size // 512) * 512
    start, size = dice.choice(headers)
    header = bytearray(data[start : start + 512])
    body = data[start + 512 : start + 512 + size]
    if dice.random() < 0.4:
        step = "header"
        match dice.randrange(4):
            case 0:
                header[156] = dice.choice(b"0123456789xgLKSDV\0")
            case 1:
                number = dice.choice((0, 1, size + 1, size + 512, 1 << 20, (1 << 33) - 1))
                header[124:136] = b"%011o\0" % number
            case 2:
                header[124:136] = b"\x80" + dice.choice((1 << 40, 1 << 62, (1 << 87) - 1)).to_bytes(11, "big")
            case _:
                text = dice.choice(_TEXTS)
                field = dice.choice((0, 157, 345))
                header[field : field + len(text)] = text
    else:
        body, step = _mutate_once(body, others, dice, depth + 1)
        body = body[:MAX_SIZE]
        header[124:136] = b"%011o\0" % len(body)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    padding = bytes(-len(body) % 512)
    rest = data[start + 512 + -(-size // 512) * 512 :]
    return data[:start] + bytes(header) + body + padding + rest, f"tar/{step}"


def _packed(unpack: Callable[[bytes], bytes], pack: Callable[[bytes], bytes], name: str) -> Inside:
    def inside(data: bytes, others: Sequence[bytes], dice: random.Random, depth: int) -> tuple[bytes, str]:
        changed, step = _mutate_once(unpack(data), others, dice, depth)
        return pack(changed[:MAX_SIZE]), f"{name}/{step}"

    return inside


def _unzstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj().decompress(data)[:MAX_SIZE]


def _in_elf(data: bytes, others: Sequence[bytes], dice: random.Random, depth: int) -> tuple[bytes, str]:
    """A section in its place, so that all offsets stay true."""
    (sections,) = struct.unpack_from("<Q", data, 0x28)
    (count,) = struct.unpack_from("<H", data, 0x3C)
    spans = []
    for number in range(1, count):
        offset, size = struct.unpack_from("<QQ", data, sections + 64 * number + 24)
        if size and data[offset : offset + 4] in (b"__CL", b"CCOB", b"\x10\xff\x10\xad", b"FPIH", b"HIPF"):
            spans.append((offset, size))
    offset, size = dice.choice(spans)
    changed, step = _mutate_once(data[offset : offset + size], others, dice, depth + 1)
    return data[:offset] + changed[:size].ljust(size, b"\0") + data[offset + size :], f"section/{step}"


_OPENERS: Final[Mapping[bytes, Inside]] = {
    b"CCOB": _in_compressed_bundle,
    b"AKS2": _in_aks2,
    b"!<arch>\n": _in_archive,
    b"PK\3\4": _in_zip,
    _ELF: _in_elf,
    _ZSTD: _packed(_unzstd, zstandard.ZstdCompressor(level=1).compress, "zstd"),
    b"BZh": _packed(lambda data: bz2.BZ2Decompressor().decompress(data, MAX_SIZE), bz2.compress, "bzip2"),
    b"\x1f\x8b": _packed(
        lambda data: zlib.decompressobj(31).decompress(data, MAX_SIZE), gzip.compress, "gzip"
    ),
    _XZ: _packed(
        lambda data: lzma.LZMADecompressor().decompress(data, MAX_SIZE),
        lambda data: lzma.compress(data, preset=0),
        "xz",
    ),
}
