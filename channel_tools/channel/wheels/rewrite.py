"""Giving a wheel another version: new METADATA, RECORD, folder and file name, and nothing else.

Compressed bytes are copied as they are, so a large wheel takes as long as it takes to copy, and what comes
out does not depend on this host's zlib. The layout of a zip file is that of PKWARE's APPNOTE, sections 4.3.7
(local header), 4.3.12 (central directory), 4.3.14 to 4.3.16 (its end) and 4.5.3 (zip64).
"""

from __future__ import annotations

import csv
import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from channel_tools.channel.wheels.file import SIGNATURES, Wheel, read_record, record_digest
from channel_tools.model.errors import ChannelError, DamagedFileError
from channel_tools.model.files import written_whole

ZIP64_FROM: Final = 0xFFFFFFFF
"""Sizes and offsets from here on stand in zip64 fields."""

_IN_ZIP64: Final = 0xFFFFFFFF
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
_END: Final = struct.Struct("<4s4H2IH")
_END64: Final = struct.Struct("<4sQ2H2I4Q")
_LOCATOR: Final = struct.Struct("<4sIQI")
_MANY: Final = 0xFFFF
_ENCRYPTED, _UTF8 = 1, 1 << 11
_UNIX: Final = 3 << 8
_CHUNK: Final = 1 << 20


def rewrite(wheel: Wheel, version: str, target: Path) -> bytes:
    """Write the wheel with another version to ``target``.

    :returns: the new METADATA
    :raises ChannelError: it is signed, so that nobody but its signer can change it
    :raises DamagedFileError: a part of the zip file is not what its directory says
    :raises StorageError: ``target`` cannot be written
    """
    if wheel.signed:
        raise ChannelError(
            "is signed, and another version would make the signature wrong",
            where=wheel.path,
            found=" or ".join(SIGNATURES),
            fix="build it with a version that names ROCm and arch, as 0.1.0+rocm72.gfx942",
        )
    folders = wheel.folders(version)
    metadata = _with_version(wheel.metadata, version)
    info = folders[wheel.info]
    record = _with_paths(wheel.record, folders, f"{info}/METADATA", metadata, f"{info}/RECORD")
    new = {f"{wheel.info}/METADATA": metadata, f"{wheel.info}/RECORD": record}
    with (
        written_whole(target) as temporary,
        wheel.path.open("rb") as source,
        temporary.open("wb") as out,
        zipfile.ZipFile(source) as archive,
    ):
        _copy(wheel.path, source, archive, out, folders, new)
    return metadata


def _with_version(metadata: bytes, version: str) -> bytes:
    head, gap, body = _split(metadata)
    lines = head.split(b"\n")
    for index, line in enumerate(lines):
        if line.lower().startswith(b"version:"):
            end = b"\r" if line.endswith(b"\r") else b""
            lines[index] = b"Version: " + version.encode() + end
    return b"\n".join(lines) + gap + body


def _split(metadata: bytes) -> tuple[bytes, bytes, bytes]:
    """Headers, the blank line, and the description."""
    places = [(place, gap) for gap in (b"\n\n", b"\r\n\r\n") if (place := metadata.find(gap)) >= 0]
    if not places:
        return metadata, b"", b""
    place, gap = min(places)
    return metadata[:place], gap, metadata[place + len(gap) :]


def _moved(path: str, folders: Mapping[str, str]) -> str:
    first, slash, rest = path.partition("/")
    return f"{folders.get(first, first)}{slash}{rest}"


def _with_paths(
    record: bytes, folders: Mapping[str, str], metadata_path: str, metadata: bytes, own_path: str
) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in read_record(record):
        path = _moved(row[0], folders)
        if path == metadata_path:
            digest = record_digest(hashlib.sha256(metadata).digest())
            row = [path, f"sha256={digest}", str(len(metadata))]
        writer.writerow([path, "", ""] if path == own_path else [path, *row[1:]])
    return text.getvalue().encode()


@dataclass(frozen=True)
class _Entry:
    """One file of the new archive; sizes and ``offset`` in bytes."""

    name: bytes
    flags: int
    method: int
    time: int
    date: int
    crc: int
    packed: int
    size: int
    attributes: int
    offset: int

    def local(self) -> bytes:
        big = max(self.packed, self.size) >= ZIP64_FROM
        extra = struct.pack("<2H2Q", 1, 16, self.size, self.packed) if big else b""
        sizes = (_IN_ZIP64, _IN_ZIP64) if big else (self.packed, self.size)
        fields = (45 if big else 20, self.flags, self.method, self.time, self.date, self.crc)
        return _LOCAL.pack(b"PK\3\4", *fields, *sizes, len(self.name), len(extra)) + self.name + extra

    def central(self) -> bytes:
        """In the zip64 field stand only those numbers that do not fit, in this order."""
        numbers = (self.size, self.packed, self.offset)
        big = [number for number in numbers if number >= ZIP64_FROM]
        extra = struct.pack(f"<2H{len(big)}Q", 1, 8 * len(big), *big) if big else b""
        size, packed, offset = (_IN_ZIP64 if number >= ZIP64_FROM else number for number in numbers)
        version = 45 if big else 20
        fields = (_UNIX | version, version, self.flags, self.method, self.time, self.date, self.crc)
        rest = (packed, size, len(self.name), len(extra), 0, 0, 0, self.attributes, offset)
        return _CENTRAL.pack(b"PK\1\2", *fields, *rest) + self.name + extra


def _copy(
    path: Path,
    source: IO[bytes],
    archive: zipfile.ZipFile,
    out: IO[bytes],
    folders: Mapping[str, str],
    new: Mapping[str, bytes],
) -> None:
    entries = []
    for info in archive.infolist():
        name = _moved(info.filename, folders)
        data = new.get(info.filename)
        if info.flag_bits & _ENCRYPTED:
            raise DamagedFileError("holds an encrypted file", where=path, found=info.filename)
        year, month, day, hour, minute, second = info.date_time
        entry = _Entry(
            name=name.encode(),
            flags=0 if name.isascii() else _UTF8,
            method=info.compress_type if data is None else zipfile.ZIP_STORED,
            time=hour << 11 | minute << 5 | second // 2,
            date=(year - 1980) << 9 | month << 5 | day,
            crc=info.CRC if data is None else zlib.crc32(data),
            packed=info.compress_size if data is None else len(data),
            size=info.file_size if data is None else len(data),
            attributes=info.external_attr,
            offset=out.tell(),
        )
        out.write(entry.local())
        for piece in _packed(path, source, info) if data is None else (data,):
            out.write(piece)
        entries.append(entry)
    _write_directory(out, entries)


def _packed(path: Path, source: IO[bytes], info: zipfile.ZipInfo) -> Iterator[bytes]:
    """The bytes of one file as they are in the archive."""
    source.seek(info.header_offset)
    header = source.read(_LOCAL.size)
    if len(header) != _LOCAL.size or not header.startswith(b"PK\3\4"):
        raise DamagedFileError("is damaged", where=path, found=f"no header of {info.filename}")
    *_, name_size, extra_size = _LOCAL.unpack(header)
    source.seek(name_size + extra_size, io.SEEK_CUR)
    left = info.compress_size
    while left:
        piece = source.read(min(left, _CHUNK))
        if not piece:
            raise DamagedFileError("ends early", where=path, found=f"{left} bytes less of {info.filename}")
        left -= len(piece)
        yield piece


def _write_directory(out: IO[bytes], entries: list[_Entry]) -> None:
    start = out.tell()
    for entry in entries:
        out.write(entry.central())
    end = out.tell()
    count, size = len(entries), end - start
    big = count >= _MANY or max(size, start) >= ZIP64_FROM
    if big:
        out.write(_END64.pack(b"PK\6\6", _END64.size - 12, _UNIX | 45, 45, 0, 0, count, count, size, start))
        out.write(_LOCATOR.pack(b"PK\6\7", 0, end, 1))
    numbers = (_MANY, _MANY, _IN_ZIP64, _IN_ZIP64) if big else (count, count, size, start)
    out.write(_END.pack(b"PK\5\6", 0, 0, *numbers, 0))
