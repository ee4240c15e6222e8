"""LLVM's offload binaries: what the new offload driver puts into ``.llvm.offloading`` sections.

Format: ``OffloadBinary.h`` of https://github.com/llvm/llvm-project (llvm/include/llvm/Object). Version 1
(LLVM 14 to 21) holds one image; version 2 a table of them; version 3 may be compressed after its header.
All offsets count from the binary's own start.
"""

from __future__ import annotations

import struct
from typing import Final

from channel_tools.verify import unpack
from channel_tools.verify.findings import Findings
from channel_tools.verify.images import read_image
from channel_tools.verify.source import Source, printable

MAGIC: Final = b"\x10\xff\x10\xad"

_MAX_ENTRIES: Final = 4096
_MAX_HEADER: Final = 4096
_MAX_PADDING: Final = 15
_MAX_STRINGS: Final = 256
_MAX_STRING: Final = 4096
_HEADER = struct.Struct("<4xIQQQ")
_INFLATED_SIZE = struct.Struct("<Q")
_ENTRY = struct.Struct("<HHIQQQQ")
_STRING_V1 = struct.Struct("<QQ")
_STRING = struct.Struct("<QQQ")
_METADATA_ONLY: Final = 1


def read_offload_binaries(source: Source, findings: Findings) -> int:
    """Read every offload binary of a section or file; return how many there are.

    Each is padded to 8 bytes, so more zeros than that are one that was overwritten.
    """
    count = end = 0
    with findings.keep_damage():
        while (position := source.skip_zeros(end)) < source.size:
            _check_padding(source, end, position)
            end = read_offload_binary(source, position, findings)
            count += 1
        _check_padding(source, end, position)
    return count


def _check_padding(source: Source, start: int, end: int) -> None:
    if end - start > _MAX_PADDING:
        raise source.damage(
            "zeros where an offload binary should be",
            start,
            found=f"{end - start} bytes",
            wanted=f"at most {_MAX_PADDING} bytes of padding",
        )


def read_offload_binary(source: Source, offset: int, findings: Findings) -> int:
    """Read one offload binary; return the offset after it.

    :raises DamageError: none starts here, or its header contradicts itself
    """
    if source.peek(offset, 4) != MAGIC:
        raise source.damage(
            "no offload binary where one should start",
            offset,
            found=source.peek(offset, 4).hex(" "),
            wanted=MAGIC.hex(" "),
        )
    version, size, entries_offset, count = source.unpack(_HEADER, offset, "header of an offload binary")
    if version not in (1, 2, 3) or size < _HEADER.size + _ENTRY.size * (version < 3):
        raise source.damage(
            "header of an offload binary",
            offset + 4,
            found=f"version {version}, size {size}",
            wanted="version 1 to 3 and room for an entry",
        )
    count = 1 if version == 1 else count
    binary = source.window(offset, size, "offload binary")
    inflated = 0
    if version == 3:
        (inflated,) = binary.unpack(_INFLATED_SIZE, _HEADER.size, "header of an offload binary")
    with findings.keep_damage():
        if inflated:
            raw = _inflate(binary, entries_offset, inflated)
            inner = Findings(findings.name)
            _read_entries(raw.source, entries_offset, count, version, inner)
            raw.finish()
            findings.extend(inner)
        else:
            _read_entries(binary, entries_offset, count, version, findings)
    return offset + size


def _inflate(binary: Source, entries_offset: int, inflated: int) -> unpack.Unpacked:
    if entries_offset > _MAX_HEADER or inflated < entries_offset:
        raise binary.damage(
            "header of a compressed offload binary",
            16,
            found=f"entries at {entries_offset}, {inflated} bytes unpacked",
            wanted=f"entries at {_MAX_HEADER} at most, and more bytes than that",
        )
    header = binary.read(0, entries_offset, "header of an offload binary")
    body = binary.window(entries_offset, binary.size - entries_offset, "body of a compressed offload binary")
    unpack_it = unpack.zstd if body.peek(0, 4) == unpack.ZSTD_MAGIC else unpack.zlib_stream
    name = f"{binary.name} (unpacked from {binary.place(0):#x})"
    return unpack_it(body, inflated, "compressed offload binary", name, header)


def _read_entries(binary: Source, offset: int, count: int, version: int, findings: Findings) -> None:
    """Read the table first, then the images in their order: a file may pass but once."""
    images: list[tuple[Source, str | None]] = []
    tables = Findings(findings.name)
    with tables.keep_damage():
        if not 0 < count <= _MAX_ENTRIES:
            raise binary.damage(
                "number of images of an offload binary", 24, found=str(count), wanted=f"1 to {_MAX_ENTRIES}"
            )
        for index in range(count):
            images.append(_read_entry(binary, offset + index * _ENTRY.size, version))
        _check_end(binary, max(window.place(window.size) for window, _ in images) - binary.place(0))
    for window, label in sorted(images, key=lambda image: image[0].place(0)):
        if label is not None:
            read_image(window, label, findings)
    findings.extend(tables)


def _check_end(binary: Source, end: int) -> None:
    """The images come last: what is behind them would be passed over."""
    if binary.size - end > _MAX_PADDING:
        raise binary.damage(
            "an offload binary is longer than what it holds",
            end,
            found=f"{binary.size - end} bytes behind its last image",
            wanted=f"at most {_MAX_PADDING} bytes of padding",
        )


def _read_entry(binary: Source, offset: int, version: int) -> tuple[Source, str | None]:
    """Image and label of an entry; the label is None for one that has no image."""
    fields = binary.unpack(_ENTRY, offset, "entry of an offload binary")
    _image_kind, _producer, flags, strings, string_count, image, image_size = fields
    if string_count > _MAX_STRINGS:
        raise binary.damage(
            "number of strings of an offload binary",
            offset + 16,
            found=str(string_count),
            wanted=f"at most {_MAX_STRINGS}",
        )
    layout = _STRING_V1 if version == 1 else _STRING
    texts: dict[str, str] = {}
    for index in range(string_count):
        key, value, *_ = binary.unpack(layout, strings + index * layout.size, "string of an offload binary")
        texts[_string(binary, key)] = _string(binary, value)
    window = binary.window(image, image_size, "image of an offload binary")
    if version > 1 and flags & _METADATA_ONLY:
        return window, None
    if "triple" not in texts or "arch" not in texts:
        raise binary.damage(
            "an offload binary does not say what it is for",
            offset,
            found=", ".join(sorted(texts)) or "no strings",
            wanted="the strings triple and arch",
        )
    return window, texts["arch"] or texts["triple"]


def _string(binary: Source, offset: int) -> str:
    raw, zero, _ = binary.peek(offset, _MAX_STRING).partition(b"\0")
    if not zero:
        raise binary.damage(
            "string of an offload binary",
            min(offset, binary.size),
            found="no end",
            wanted=f"a zero byte within {_MAX_STRING} bytes",
        )
    return printable(raw)
