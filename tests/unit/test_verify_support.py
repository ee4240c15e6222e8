"""Builders for the tests of channel_tools.verify: bundles, ELF files and packages, byte by byte.

They know the formats by themselves, so that a mistake in the reader cannot hide in them.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

from channel_tools.verify.files import HEAD_SIZE, kind_of, read_file
from channel_tools.verify.findings import Findings
from channel_tools.verify.source import Source

DATA = Path(__file__).parent.parent / "data" / "code_objects"
HOST_ID = "host-x86_64-unknown-linux--"
BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"


def raw_sample_bundle() -> bytes:
    """The plain bundle with gfx90a and gfx942 that all packed samples hold."""
    return zlib.decompress((DATA / "ccob_v1_zlib.co").read_bytes()[20:])


def code_object(arch: str) -> bytes:
    """A real code object of clang 19 for gfx90a or gfx942, code object version 5."""
    raw = raw_sample_bundle()
    (count,) = struct.unpack_from("<Q", raw, 24)
    position = 32
    for _ in range(count):
        offset, size, length = struct.unpack_from("<QQQ", raw, position)
        name = raw[position + 24 : position + 24 + length].decode()
        if name.endswith(f"--{arch}"):
            return raw[offset : offset + size]
        position += 24 + length
    raise LookupError(arch)


def with_flags(elf: bytes, flags: int, abi_version: int | None = None) -> bytes:
    """The ELF file with other e_flags."""
    changed = bytearray(elf)
    struct.pack_into("<I", changed, 0x30, flags)
    if abi_version is not None:
        changed[8] = abi_version
    return bytes(changed)


def device_id(target: str) -> str:
    return f"hipv4-amdgcn-amd-amdhsa--{target}"


def bundle(entries: Sequence[tuple[str, bytes]], align: int = 4096) -> bytes:
    """A plain bundle; the host entry that clang puts first is added."""
    everything = [(HOST_ID, b""), *entries]
    table_size = 32 + sum(24 + len(name) for name, _ in everything)
    table = BUNDLE_MAGIC + struct.pack("<Q", len(everything))
    body = bytearray(-(-table_size // align) * align)
    for name, data in everything:
        body += b"\0" * (-len(body) % align)
        table += struct.pack("<QQQ", len(body), len(data), len(name)) + name.encode()
        body += data
    body[:table_size] = table
    return bytes(body)


def target_bundle(*targets: str) -> bytes:
    return bundle([(device_id(target), code_object(target)) for target in targets])


def compressed(raw: bytes, version: int = 2, method: str = "zstd") -> bytes:
    packed = zlib.compress(raw) if method == "zlib" else zstandard.ZstdCompressor(level=3).compress(raw)
    digest = hashlib.md5(raw, usedforsecurity=False).digest()[:8]
    header = b"CCOB" + struct.pack("<HH", version, int(method == "zstd"))
    if version == 1:
        return header + struct.pack("<I", len(raw)) + digest + packed
    layout, size = ("<II", 24) if version == 2 else ("<QQ", 32)
    return header + struct.pack(layout, size + len(packed), len(raw)) + digest + packed


def wrappers(count: int, magic: bytes = b"FPIH") -> bytes:
    return struct.pack("<4sIQQ", magic, 1, 0, 0) * count


def elf(sections: Mapping[str, bytes], kind: int = 3, machine: int = 62, nobits: Sequence[str] = ()) -> bytes:
    """A host ELF file with these sections, the section table at its end."""
    names = b"\0"
    body = bytearray(64)
    headers = [struct.pack("<IIQQQQIIQQ", *([0] * 10))]
    for name, data in sections.items():
        body += b"\0" * (-len(body) % 16)
        section_type = 8 if name in nobits else 1
        headers.append(
            struct.pack("<IIQQQQIIQQ", len(names), section_type, 2, 0, len(body), len(data), 0, 0, 1, 0)
        )
        names += name.encode() + b"\0"
        if name not in nobits:
            body += data
    strings_name = len(names)
    names += b".shstrtab\0"
    headers.append(struct.pack("<IIQQQQIIQQ", strings_name, 3, 0, 0, len(body), len(names), 0, 0, 1, 0))
    body += names
    body += b"\0" * (-len(body) % 8)
    struct.pack_into(
        "<16sHHIQQQIHHHHHH",
        body,
        0,
        b"\x7fELF\x02\x01\x01",
        kind,
        machine,
        1,
        0,
        0,
        len(body),
        0,
        64,
        56,
        0,
        64,
        len(headers),
        len(headers) - 1,
    )
    return bytes(body) + b"".join(headers)


def host_library(*bundles: bytes, wrapper_count: int | None = None, **extra: bytes) -> bytes:
    """A shared library whose .hip_fatbin holds these bundles, each aligned to 4096."""
    fatbin = b"".join(part.ljust(-(-len(part) // 4096) * 4096, b"\0") for part in bundles)
    count = len(bundles) if wrapper_count is None else wrapper_count
    return elf({".text": b"\xc3", ".hip_fatbin": fatbin, ".hipFatBinSegment": wrappers(count), **extra})


def archive(members: Mapping[str, bytes]) -> bytes:
    """A static archive in GNU form."""
    long_names = b"".join(name.encode() + b"/\n" for name in members if len(name) > 15)
    result = b"!<arch>\n"
    if long_names:
        result += _ar_member("//", long_names)
    for name, data in members.items():
        short = f"{name}/" if len(name) <= 15 else f"/{long_names.index(name.encode() + b'/')}"
        result += _ar_member(short, data)
    return result


def _ar_member(name: str, data: bytes) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}".encode() + b"`\n"
    return header + data + b"\n" * (len(data) % 2)


def read(name: str, data: bytes) -> tuple[str | None, list[str], Findings]:
    """Read one file: its kind, its targets sorted (one for each object), and all findings."""
    findings = Findings(name)
    kind = kind_of(name, data[:HEAD_SIZE])
    if kind is not None:
        kind = read_file(Source.of_bytes(name, data), kind, findings)
    return kind, sorted(found.target for found in findings.objects), findings


def tar_bytes(files: Mapping[str, bytes], extra: Sequence[tarfile.TarInfo] = ()) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in extra:
            tar.addfile(info)
    return buffer.getvalue()


def conda_info(
    gfx_targets: Sequence[str] | None = ("gfx942",),
    build: str = "h0_0",
    depends: Sequence[str] = (),
    **extra: Any,
) -> dict[str, bytes]:
    if gfx_targets is not None:
        extra = {"gfx_targets": list(gfx_targets), **extra}
    index = {
        "name": "canary",
        "version": "1.0",
        "build": build,
        "build_number": 0,
        "subdir": "linux-64",
        "depends": list(depends),
    }
    return {
        "info/index.json": json.dumps(index).encode(),
        "info/about.json": json.dumps({"extra": extra}).encode(),
    }


def write_conda(
    path: Path, files: Mapping[str, bytes], info: Mapping[str, bytes], extra: Sequence[tarfile.TarInfo] = ()
) -> Path:
    pack = zstandard.ZstdCompressor(level=3).compress
    with zipfile.ZipFile(path, "w") as archive_file:
        archive_file.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
        archive_file.writestr("pkg-canary-1.0-h0_0.tar.zst", pack(tar_bytes(files, extra)))
        archive_file.writestr("info-canary-1.0-h0_0.tar.zst", pack(tar_bytes(info)))
    return path


def write_tar_bz2(path: Path, files: Mapping[str, bytes], info: Mapping[str, bytes]) -> Path:
    path.write_bytes(bz2.compress(tar_bytes({**info, **files})))
    return path


def write_wheel(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive_file:
        archive_file.writestr(
            "canary-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: canary\nVersion: 1.0\n"
        )
        for name, data in files.items():
            archive_file.writestr(name, data)
    return path
