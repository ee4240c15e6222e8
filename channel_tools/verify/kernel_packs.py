"""Packs of kernels that lie beside a library: AOTriton's ``.aks2`` and ROCm's ``.kpack``.

Formats: ``packed_kernel.cc`` of https://github.com/ROCm/aotriton (v2src), and ``rocm_kpack`` of
https://github.com/ROCm/rocm-systems (shared/kpack).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from channel_tools.verify import unpack
from channel_tools.verify.findings import Findings
from channel_tools.verify.images import read_bare, read_image, record
from channel_tools.verify.msgpack import unpack_msgpack
from channel_tools.verify.parts import Parts
from channel_tools.verify.source import Memory, Source

AKS2_MAGIC: Final = b"AKS2"
KPACK_MAGIC: Final = b"KPAK"

_AKS2_HEADER = struct.Struct("<4xIII")
# Shared memory, threads, offset, size, length of the name; a form without threads is read as well.
_AKS2_ENTRIES: Final = (struct.Struct("<IIIII"), struct.Struct("<IIII"))
_KPACK_HEADER = struct.Struct("<4xIQ")
_U32 = struct.Struct("<I")
_MAX_DIRECTORY: Final = 4 << 20
_MAX_TOC: Final = 16 << 20
_WRONG_SHAPE: Final = (TypeError, KeyError, AttributeError, ValueError, OverflowError)


def read_aks2(source: Source, findings: Findings) -> None:
    """Read an AOTriton kernel storage (version 2): a header, then one xz stream of directory and kernels."""
    with findings.keep_damage():
        raw_size, count, directory_size = source.unpack(_AKS2_HEADER, 0, "AKS2 header")
        body = source.window(_AKS2_HEADER.size, source.size - _AKS2_HEADER.size, "AKS2 body")
        raw = unpack.xz(body, raw_size, "AKS2 body", f"{source.name} (unpacked)")
        inner = Findings(findings.name)
        with inner.keep_damage():
            _read_kernels(raw.source, count, directory_size, inner)
        raw.finish()
        findings.extend(inner)


def _read_kernels(raw: Source, count: int, directory_size: int, findings: Findings) -> None:
    table = raw.window(0, directory_size, "AKS2 directory")
    if directory_size > _MAX_DIRECTORY:
        raise raw.damage(
            "AKS2 directory", 0, found=f"{directory_size} bytes", wanted=f"at most {_MAX_DIRECTORY} bytes"
        )
    directory = Source.of_bytes(raw.name, table.read(0, directory_size, "AKS2 directory"))
    kernels = raw.window(directory_size, raw.size - directory_size, "AKS2 kernels")
    images = _aks2_images(directory, count)
    _check_sum(kernels, [size for _, size in images])
    for offset, size in sorted(images):
        if size:  # tuning may leave a kernel out
            with findings.keep_damage():
                read_bare(kernels.window(offset, size, "AKS2 kernel"), findings)


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
        toc_size = source.size - toc_offset
        raw_toc = source.window(toc_offset, toc_size, "kpack table of contents")
        data = raw_toc.read(0, toc_size, "kpack table of contents")
        toc_source = Source(source.name, Memory(data, raw_toc.place(0)), toc_size, raw_toc.place(0))
        toc = unpack_msgpack(toc_source)
        labels = _labels(toc, toc_source)
        blobs = _blobs(toc, source, toc_source)
        if blobs is None:
            for target in sorted({target for targets in labels.values() for target in targets}):
                record(toc_source.window(0, 0, "kpack kernel"), target, findings)
            return
        _read_blobs(blobs, labels, later=source.shared, findings=findings)
        if labels:
            ordinal = min(labels)
            raise toc_source.damage(
                f"kpack kernel for {', '.join(sorted(labels[ordinal]))}",
                0,
                found=f"number {ordinal}",
                wanted="the number of one of the blobs of this pack",
            )


def _read_blobs(
    blobs: Iterator[tuple[int, _Blob]], labels: dict[int, set[str]], *, later: bool, findings: Findings
) -> None:
    """Read each blob; of ``labels`` there remain those of no blob.

    :raises DamageError: a blob that leaves the file
    """
    parts = Parts(findings)
    try:
        for ordinal, blob in blobs:
            read = partial(_read_blob, blob, sorted(labels.pop(ordinal, ())))
            if later and blob.packed:
                parts.later(read)
            else:
                read(parts.here())
    finally:
        parts.finish()


@dataclass(frozen=True)
class _Blob:
    """One kernel's place in a pack, as it lies there."""

    source: Source
    packed: bool


def _read_blob(blob: _Blob, targets: list[str], findings: Findings) -> None:
    with findings.keep_damage():
        if not blob.packed:
            _read_images(blob.source, targets, findings)
            return
        raw = _unpack_blob(blob.source)
        inner = Findings(findings.name)
        _read_images(raw.source, targets, inner)
        raw.finish()
        findings.extend(inner)


def _read_images(source: Source, targets: list[str], findings: Findings) -> None:
    for target in targets:
        read_image(source, target, findings)


def _unpack_blob(frame: Source) -> unpack.Unpacked:
    import zstandard

    try:
        expected = zstandard.frame_content_size(frame.peek(0, 64))
    except zstandard.ZstdError:
        expected = -1
    if expected < 0:
        raise frame.damage(
            "kpack blob", 0, found=frame.peek(0, 8).hex(" "), wanted="a zstd frame with its size"
        )
    name = f"{frame.name} (unpacked from {frame.place(0):#x})"
    return unpack.zstd(frame, expected, "kpack blob", name)


def _labels(toc: Any, source: Source) -> dict[int, set[str]]:
    """Targets of each blob by its number, from ``toc: {binary: {target: {ordinal: n}}}``."""
    labels: dict[int, set[str]] = {}
    try:
        for targets in toc["toc"].values():
            for target, kernel in targets.items():
                labels.setdefault(int(kernel["ordinal"]), set()).add(str(target))
    except _WRONG_SHAPE as error:
        raise source.damage(
            "kpack table of contents", 0, found=repr(error), wanted="toc: {binary: {target: {ordinal: n}}}"
        ) from error
    return labels


def _blobs(toc: Any, source: Source, toc_source: Source) -> Iterator[tuple[int, _Blob]] | None:
    """Number and place of each blob, in their order in the file; None for a pack that lists none.

    Of such a pack the table alone says what it is for.
    """
    scheme = toc.get("compression_scheme", "none")
    try:
        if scheme == "none":
            places = [(int(blob["offset"]), int(blob["size"])) for blob in toc["blobs"]]
            _check_sum(source, [size for _, size in places])
            numbers = sorted(range(len(places)), key=places.__getitem__)
            windows = ((number, source.window(*places[number], "kpack blob")) for number in numbers)
            return ((number, _Blob(window, packed=False)) for number, window in windows) if places else None
        if scheme == "zstd-per-kernel":
            area = source.window(int(toc["zstd_offset"]), int(toc["zstd_size"]), "kpack blobs")
            return _packed_blobs(area)
    except _WRONG_SHAPE as error:
        raise toc_source.damage(
            "kpack table of contents", 0, found=repr(error), wanted="the places of the blobs"
        ) from error
    raise toc_source.damage("kpack compression", 0, found=repr(scheme), wanted="none or zstd-per-kernel")


def _packed_blobs(area: Source) -> Iterator[tuple[int, _Blob]]:
    (count,) = area.unpack(_U32, 0, "number of kpack blobs")
    position = _U32.size
    for index in range(count):
        (size,) = area.unpack(_U32, position, f"size of kpack blob {index}")
        position += _U32.size
        yield index, _Blob(area.window(position, size, f"kpack blob {index}"), packed=True)
        position += size
