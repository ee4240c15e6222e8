"""Packs of kernels that lie beside a library: AOTriton's ``.aks2`` and ROCm's ``.kpack``.

Formats: ``packed_kernel.cc`` of https://github.com/ROCm/aotriton (v2src), and ``rocm_kpack`` of
https://github.com/ROCm/rocm-systems (shared/kpack).
"""

from __future__ import annotations

import struct
from typing import Any, Final

from channel_tools.verify import unpack
from channel_tools.verify.findings import Findings
from channel_tools.verify.images import read_bare, read_image, record
from channel_tools.verify.msgpack import unpack_msgpack
from channel_tools.verify.source import Source

AKS2_MAGIC: Final = b"AKS2"
KPACK_MAGIC: Final = b"KPAK"

_AKS2_HEADER = struct.Struct("<4xIII")
# Shared memory, threads, offset, size, length of the name; a form without threads is read as well.
_AKS2_ENTRIES: Final = (struct.Struct("<IIIII"), struct.Struct("<IIII"))
_KPACK_HEADER = struct.Struct("<4xIQ")
_U32 = struct.Struct("<I")
_MAX_TOC: Final = 64 << 20


def read_aks2(source: Source, findings: Findings) -> None:
    """Read an AOTriton kernel storage (version 2): a header, then one xz stream of directory and kernels."""
    with findings.keep_damage():
        raw_size, count, directory_size = source.unpack(_AKS2_HEADER, 0, "AKS2 header")
        body = source.window(_AKS2_HEADER.size, source.size - _AKS2_HEADER.size, "AKS2 body")
        raw, _ = unpack.xz(body, raw_size, "AKS2 body")
        inner = Source.of_bytes(f"{source.name} (unpacked)", raw)
        directory = inner.window(0, directory_size, "AKS2 directory")
        kernels = inner.window(directory_size, inner.size - directory_size, "AKS2 kernels")
        images = _aks2_images(directory, count)
        _check_sum(kernels, [size for _, size in images])
        for index, (offset, size) in enumerate(images):
            if size:  # tuning may leave a kernel out
                with findings.keep_damage():
                    read_bare(kernels.window(offset, size, f"AKS2 kernel {index}"), findings)


def _check_sum(area: Source, sizes: list[int]) -> None:
    """Parts that share bytes would make a small file a long read."""
    if sum(sizes) > area.size:
        raise area.damage(
            "kernels of a pack overlap", 0, found=f"{sum(sizes)} bytes", wanted=f"at most {area.size}"
        )


def _aks2_images(directory: Source, count: int) -> list[tuple[int, int]]:
    """Offset and size of each image, by the form of entries that fills the directory exactly."""
    ends = []
    for layout in _AKS2_ENTRIES:
        images: list[tuple[int, int]] = []
        position = 0
        while len(images) < count and position + layout.size <= directory.size:
            *_, offset, size, name_size = directory.unpack(layout, position, "AKS2 entry")
            position += layout.size + name_size
            images.append((offset, size))
        if len(images) == count and position == directory.size:
            return images
        ends.append(position)
    raise directory.damage(
        "AKS2 directory",
        0,
        found=f"{count} entries that end at {' or '.join(map(str, ends))}",
        wanted=f"an end at {directory.size}",
    )


def read_kpack(source: Source, findings: Findings) -> None:
    """Read a ``.kpack``: blobs, and a table of contents that says which blob is for which target."""
    with findings.keep_damage():
        version, toc_offset = source.unpack(_KPACK_HEADER, 0, "kpack header")
        if version != 1:
            raise source.damage("kpack version", 4, found=str(version), wanted="1")
        if not _KPACK_HEADER.size <= toc_offset < source.size or source.size - toc_offset > _MAX_TOC:
            raise source.damage(
                "kpack table of contents", 8, found=f"offset {toc_offset:#x}", wanted="an offset in the file"
            )
        toc_source = source.window(toc_offset, source.size - toc_offset, "kpack table of contents")
        toc = unpack_msgpack(toc_source)
        kernels = _kernels(toc, toc_source)
        blobs = _blobs(toc, source, toc_source)
        for target, ordinal in sorted(set(kernels)):
            if blobs is None:
                record(toc_source.window(0, 0, "kpack kernel"), target, findings)
            elif not 0 <= ordinal < len(blobs):
                raise toc_source.damage(
                    f"kpack kernel for {target}",
                    0,
                    found=f"number {ordinal}",
                    wanted=f"0 to {len(blobs) - 1}, the blobs of this pack",
                )
            else:
                read_image(blobs[ordinal], target, findings)


def _kernels(toc: Any, source: Source) -> list[tuple[str, int]]:
    """Target and blob number of each kernel, from ``toc: {binary: {target: {ordinal: n}}}``."""
    try:
        return [
            (str(target), int(kernel["ordinal"]))
            for targets in toc["toc"].values()
            for target, kernel in targets.items()
        ]
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise source.damage(
            "kpack table of contents", 0, found=repr(error), wanted="toc: {binary: {target: {ordinal: n}}}"
        ) from error


def _blobs(toc: Any, source: Source, toc_source: Source) -> list[Source] | None:
    """The blobs, unpacked; None for a pack that lists none (then only the table says what it is for)."""
    scheme = toc.get("compression_scheme", "none")
    try:
        if scheme == "none":
            places = [(int(blob["offset"]), int(blob["size"])) for blob in toc["blobs"]]
            _check_sum(source, [size for _, size in places])
            return [source.window(start, size, "kpack blob") for start, size in places] or None
        if scheme == "zstd-per-kernel":
            area = source.window(int(toc["zstd_offset"]), int(toc["zstd_size"]), "kpack blobs")
            return _zstd_blobs(area)
    except (TypeError, KeyError, ValueError) as error:
        raise toc_source.damage(
            "kpack table of contents", 0, found=repr(error), wanted="the places of the blobs"
        ) from error
    raise toc_source.damage("kpack compression", 0, found=repr(scheme), wanted="none or zstd-per-kernel")


def _zstd_blobs(area: Source) -> list[Source]:
    import zstandard

    (count,) = area.unpack(_U32, 0, "number of kpack blobs")
    position = _U32.size
    blobs = []
    for index in range(count):
        (size,) = area.unpack(_U32, position, f"size of kpack blob {index}")
        position += _U32.size
        frame = area.window(position, size, f"kpack blob {index}")
        position += size
        try:
            expected = zstandard.frame_content_size(frame.peek(0, 64))
        except zstandard.ZstdError:
            expected = -1
        if expected < 0:
            raise frame.damage(
                f"kpack blob {index}", 0, found=frame.peek(0, 8).hex(" "), wanted="a zstd frame with its size"
            )
        raw, _ = unpack.zstd(frame, expected, f"kpack blob {index}")
        blobs.append(Source.of_bytes(f"{area.name} (blob {index})", raw))
    return blobs
