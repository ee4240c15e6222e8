"""Every file format with GPU code: the samples, and files built byte by byte."""

from __future__ import annotations

import lzma
import struct
import time
import zlib

import pytest
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
    raw_sample_bundle,
    read,
    target_bundle,
    with_flags,
    wrappers,
)

BITCODE = b"BC\xc0\xde" + b"\0" * 60
GFX942 = code_object("gfx942")
GFX90A = code_object("gfx90a")


@pytest.mark.parametrize(
    ("name", "kind", "targets"),
    [
        ("ccob_v1_zlib.co", "compressed bundle", ["gfx90a", "gfx942"]),
        ("ccob_v1_zstd.co", "compressed bundle", ["gfx90a", "gfx942"]),
        ("ccob_v3_zlib.co", "compressed bundle", ["gfx90a", "gfx942"]),
        ("ccob_v3_zstd.co", "compressed bundle", ["gfx90a", "gfx942"]),
        ("mini21_ccob_v2.so", "host binary", ["gfx942"]),
        ("mini21_newdrv.so", "host binary", ["gfx942"]),
        ("mini21_generic94.so", "host binary", ["gfx9-4-generic"]),
        ("mini21_gfx950.so", "host binary", ["gfx950"]),
        ("triton_add_gfx950.hsaco", "code object", ["gfx950"]),
        ("synthetic.aks2", "aks2", ["gfx942", "gfx942"]),
        ("synthetic.kpack", "kpack", ["gfx90a", "gfx942"]),
    ],
)
def test_samples(name: str, kind: str, targets: list[str]) -> None:
    found_kind, found, findings = read(name, (DATA / name).read_bytes())
    assert (found_kind, found, findings.faults) == (kind, targets, [])


@pytest.mark.parametrize(
    ("name", "targets", "what", "offset", "wanted"),
    [
        ("bad_bundle_trunc.co", [], "leaves the file", 0x1000, "0x1800"),
        ("bad_ccob_hash.co", ["gfx90a", "gfx942"], "does not match its hash", 0, "72caba7a2afba7f1"),
        ("bad_ccob_size.co", [], "unpacks to another size", 0x18, "8216 bytes"),
    ],
)
def test_damaged_samples(name: str, targets: list[str], what: str, offset: int, wanted: str) -> None:
    _, found, findings = read(name, (DATA / name).read_bytes())
    assert found == targets
    first = findings.faults[0]
    assert first.damage
    assert what in first.what
    assert first.offset == offset
    assert wanted in str(first.wanted)
    assert first.found
    assert first.fix


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("method", ["zlib", "zstd"])
def test_compressed_bundles(version: int, method: str) -> None:
    packed = compressed(raw_sample_bundle(), version, method)
    _, targets, findings = read("x.co", packed + b"\0" * 100 + packed)
    assert targets == ["gfx90a", "gfx90a", "gfx942", "gfx942"]
    assert not findings.faults


@pytest.mark.parametrize("gap", [0, 1, 7, 16, 4096, 2_000_000])
def test_bundles_follow_each_other_at_any_distance(gap: int) -> None:
    parts = [target_bundle("gfx90a"), compressed(target_bundle("gfx942")), target_bundle("gfx942")]
    _, targets, findings = read("x.hipfb", (b"\0" * gap).join(parts))
    assert targets == ["gfx90a", "gfx942", "gfx942"]
    assert not findings.faults


def test_ids_keep_their_spelling_and_must_fit_the_flags() -> None:
    flagged = with_flags(GFX942, 0xE4C)
    _, targets, findings = read("x.co", bundle([(device_id("gfx942:xnack-:sramecc+"), flagged)]))
    assert targets == ["gfx942:xnack-:sramecc+"]
    assert not findings.faults
    for label, content, actual in (
        ("gfx942", GFX90A, "gfx90a"),
        ("gfx942", flagged, "gfx942:sramecc+:xnack-"),
        ("gfx942:xnack+", GFX942, "gfx942"),
    ):
        _, targets, findings = read("x.co", bundle([(device_id(label), content)]))
        assert targets == [label]
        (fault,) = findings.faults
        assert not fault.damage
        assert f"labelled {label} is built for {actual}" in fault.what


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (compressed(raw_sample_bundle(), 2) + b"rest", "no offload bundle"),
        (b"CCOB" + struct.pack("<HH", 4, 1) + b"\0" * 40, "unknown kind"),
        (b"CCOB" + struct.pack("<HH", 2, 2) + b"\0" * 40, "unknown kind"),
        (b"CCOB" + struct.pack("<HHII", 2, 1, 10, 10) + b"\0" * 40, "total size"),
        (b"CCOB" + struct.pack("<HHII", 2, 1, 1 << 30, 10) + b"\0" * 40, "leaves the file"),
        (
            b"CCOB" + struct.pack("<HHI", 1, 0, 1 << 31) + b"\0" * 8 + b"\x78\x9c",
            "more than this reader takes",
        ),
        (compressed(b"no bundle" * 9), "holds no bundle"),
        (compressed(raw_sample_bundle() + b"\1"), "more data after the bundle"),
        (BUNDLE_MAGIC, "number of bundle entries"),
        (BUNDLE_MAGIC + struct.pack("<Q", 1 << 40), "number of bundle entries"),
        (BUNDLE_MAGIC + struct.pack("<QQQQ", 1, 0, 0, 1 << 40), "length of the id"),
        (BUNDLE_MAGIC + struct.pack("<QQQQ", 1, 0, 0, 4) + b"what", "bundle entry id"),
        (bundle([(device_id("gfx942"), b"text, not code" * 9)]), "is no code object"),
        (bundle([(device_id("gfx942"), b"")]), "is no code object"),
        (bundle([(device_id("gfx942"), GFX942[:2000])]), "section table is cut off"),
        (bundle([(device_id("gfx942"), GFX942), (device_id("gfx942"), GFX942)]), "two entries of one id"),
        (b"", "not what its name says"),
        (b"# a text", "not what its name says"),
    ],
)
def test_damaged_bundles(data: bytes, what: str) -> None:
    _, _, findings = read("x.co", data)
    assert [fault for fault in findings.faults if fault.damage and what in fault.what], findings.faults


def test_entries_may_not_overlap() -> None:
    raw = bytearray(target_bundle("gfx90a", "gfx942"))
    last_entry = raw.rindex(b"hipv4-") - 24
    struct.pack_into("<Q", raw, last_entry, 4096)
    _, _, findings = read("x.co", bytes(raw))
    assert any("lies over another part" in fault.what for fault in findings.faults)


def test_zlib_data_that_goes_on_past_its_size_is_not_unpacked() -> None:
    bomb = zlib.compress(b"\0" * 50_000_000)
    data = b"CCOB" + struct.pack("<HHII", 2, 0, 24 + len(bomb), 4096) + b"\0" * 8 + bomb
    _, _, findings = read("x.co", data)
    assert "more than 4096 bytes" in str(findings.faults[0].found)


def test_host_library_with_bundles() -> None:
    kind, targets, findings = read(
        "lib/libx.so", host_library(target_bundle("gfx90a"), target_bundle("gfx942"))
    )
    assert (kind, targets, findings.faults) == ("host binary", ["gfx90a", "gfx942"], [])


@pytest.mark.parametrize(("bundles", "wrapper_count"), [(1, 2), (2, 1), (1, 0)])
def test_each_wrapper_has_its_bundle(bundles: int, wrapper_count: int) -> None:
    data = host_library(*[target_bundle("gfx942")] * bundles, wrapper_count=wrapper_count)
    _, _, findings = read("libx.so", data)
    (fault,) = findings.faults
    assert fault.damage
    assert fault.found == str(bundles)
    assert str(wrapper_count) in str(fault.wanted)


def test_linked_with_rdc_one_bundle_serves_all_wrappers() -> None:
    rdc = {".hip_gpubin_handle": b"\0" * 8}
    assert not read("libx.so", host_library(target_bundle("gfx942"), wrapper_count=3, **rdc))[2].faults
    assert read("libx.so", host_library(wrapper_count=3, **rdc))[2].faults


def test_code_kept_in_a_kpack_leaves_an_empty_section() -> None:
    data = elf(
        {".hip_fatbin": b"\0" * 4096, ".hipFatBinSegment": wrappers(2, b"KPIH")}, nobits=[".hip_fatbin"]
    )
    _, targets, findings = read("libx.so", data)
    assert not targets
    assert not findings.faults


def test_wrapper_of_unknown_magic_is_damage() -> None:
    data = elf({".hip_fatbin": target_bundle("gfx942"), ".hipFatBinSegment": wrappers(1, b"XXXX")})
    assert any("wrapper" in fault.what for fault in read("libx.so", data)[2].faults)


def test_rdc_objects_name_their_target_in_the_section() -> None:
    data = elf(
        {
            "__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx942": BITCODE,
            "__CLANG_OFFLOAD_BUNDLE__host-x86_64-pc-linux-gnu-": b"\0",
            ".hipFatBinSegment": wrappers(1),
        },
        kind=1,
    )
    assert read("x.o", data)[:2] == ("host object", ["gfx942"])
    assert not read("x.o", data)[2].faults


def offload_binary(version: int, target: str, image: bytes, *, packed: bool = False) -> bytes:
    header_size = 40 if version == 3 else 32
    strings = b"triple\0amdgcn-amd-amdhsa\0arch\0" + target.encode() + b"\0"
    string_size = 16 if version == 1 else 24
    string_table = header_size + 40
    text = string_table + 2 * string_size
    places = ((text, text + 7, 17), (text + 25, text + 30, len(target)))
    table = b"".join(struct.pack("<QQQ", *place)[:string_size] for place in places)
    image_at = text + len(strings)
    entry = struct.pack("<HHIQQQQ", 1, 4, 0, string_table, 2, image_at, len(image))
    body = entry + table + strings + image
    count = 40 if version == 1 else 1
    size = header_size + len(body)
    if packed:
        body = zstandard.compress(body)
    header = struct.pack("<4sIQQQ", b"\x10\xff\x10\xad", version, header_size + len(body), header_size, count)
    if version == 3:
        header += struct.pack("<Q", size if packed else 0)
    return header + body


@pytest.mark.parametrize(("version", "packed"), [(1, False), (2, False), (3, False), (3, True)])
def test_offload_binaries_of_the_new_driver(version: int, packed: bool) -> None:
    one = offload_binary(version, "gfx942", GFX942, packed=packed)
    two = offload_binary(version, "gfx90a", BITCODE, packed=packed)
    section = one.ljust(-(-len(one) // 8) * 8, b"\0") + two
    for name, data in (("x.o", elf({".llvm.offloading": section}, kind=1)), ("x.bin", section)):
        _, targets, findings = read(name, data)
        assert targets == ["gfx90a", "gfx942"]
        assert not findings.faults
    _, _, findings = read("x.bin", offload_binary(version, "gfx90a", GFX942, packed=packed))
    assert "built for gfx942" in findings.faults[0].what


def test_bare_code_objects_name_their_target_in_the_flags() -> None:
    assert read("x.hsaco", with_flags(GFX942, 0xE4C))[:2] == ("code object", ["gfx942:sramecc+:xnack-"])
    _, targets, findings = read("x.hsaco", with_flags(GFX942, 0x5FF))
    assert not targets
    assert findings.faults[0].offset == 0x30
    assert read("x.hsaco", with_flags(GFX942, 0x54C, abi_version=9))[2].faults


def test_code_objects_in_plain_data_are_found() -> None:
    data = elf(
        {".rodata": b"\1" * 33 + GFX942 + b"\1" * 5 + GFX90A, ".data": compressed(target_bundle("gfx90a"))}
    )
    _, targets, findings = read("libx.so", data)
    assert targets == ["gfx90a", "gfx90a", "gfx942"]
    assert not findings.faults


def test_bundles_are_found_where_the_section_table_is_gone() -> None:
    data = bytearray(host_library(target_bundle("gfx90a")))
    struct.pack_into("<Q", data, 0x28, 0)
    struct.pack_into("<HHH", data, 0x3A, 0, 0, 0)
    assert read("libx.so", bytes(data))[1] == ["gfx90a"]


def test_texts_that_a_compiler_holds_are_no_code() -> None:
    texts = (
        BUNDLE_MAGIC + b"\0__CLANG_OFFLOAD_BUNDLE____START__\0" + b"CCOB\0" + b"\x10\xff\x10\xad" + b"\0" * 99
    )
    _, targets, findings = read(
        "libclang.so", elf({".rodata": texts + b"\x7fELF\x02\x01\x01\x40" + b"\7" * 99})
    )
    assert not targets
    assert not findings.faults


def test_headers_that_lie_over_each_other_do_not_make_a_long_read() -> None:
    """Each of 10,000 headers claims a section table of 60,000 entries, the rest of the file."""
    header = bytearray(GFX942[:64])
    struct.pack_into("<Q", header, 0x28, 1_000_000)
    struct.pack_into("<HHH", header, 0x3A, 64, 60_000, 1)
    started = time.monotonic()
    _, _, findings = read("libx.so", elf({".rodata": bytes(header) * 10_000 + bytes(6_000_000)}))
    assert 0 < len(findings.faults) < 50
    assert time.monotonic() - started < 5
    fatbin = target_bundle("gfx942") * 3
    sections = {f".hip_fatbin.{number}": fatbin for number in range(3)}
    data = bytearray(elf(sections))
    (table,) = struct.unpack_from("<Q", data, 0x28)
    for number in range(1, 4):
        struct.pack_into("<QQ", data, table + 64 * number + 0x18, 64, table - 64)
    assert any("overlap" in fault.what for fault in read("libx.so", bytes(data))[2].faults)


def test_static_archives() -> None:
    members = {
        "a.o": host_library(target_bundle("gfx90a")),
        "a_member_with_a_long_name.o": host_library(target_bundle("gfx942")),
        "text.txt": b"odd",
    }
    kind, targets, findings = read("libx.a", archive(members))
    assert (kind, targets, findings.faults) == ("static archive", ["gfx90a", "gfx942"], [])
    members["a.o"] = host_library(target_bundle("gfx90a"), wrapper_count=2)
    assert read("libx.a", archive(members))[2].faults[0].what.startswith("a.o: ")
    whole = archive(members)
    assert any("leaves the file" in fault.what for fault in read("libx.a", whole[:-700])[2].faults)


def test_archive_with_names_as_bsd_writes_them() -> None:
    body = b"a member.o\0\0" + host_library(target_bundle("gfx942"))
    header = f"{'#1/12':<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(body):<10}`\n".encode()
    assert read("libx.a", b"!<arch>\n" + header + body)[1] == ["gfx942"]


def test_a_thin_archive_is_refused_by_name() -> None:
    _, _, findings = read("libx.a", b"!<thin>\n" + archive({"a.o": b"x"})[8:])
    (fault,) = findings.faults
    assert "thin archive" in fault.what
    assert not fault.damage
    assert "ar rcs" in str(fault.fix)


def aks2(*images: bytes) -> bytes:
    directory = b""
    for index, image in enumerate(images):
        offset = sum(map(len, images[:index]))
        directory += struct.pack("<IIIII", 0, 256, offset, len(image), 3) + b"k%d\0" % index
    raw = directory + b"".join(images)
    return b"AKS2" + struct.pack("<III", len(raw), len(images), len(directory)) + lzma.compress(raw)


def test_aotriton_storage_as_its_packer_writes_it() -> None:
    _, targets, findings = read("flash.aks2", aks2(GFX942, b"", GFX90A))
    assert targets == ["gfx90a", "gfx942"]
    assert not findings.faults
    assert read("flash.aks2", aks2(GFX942)[:-40])[2].faults
    wrong_size = bytearray(aks2(GFX942))
    struct.pack_into("<I", wrong_size, 12, 7)
    assert "directory" in read("flash.aks2", bytes(wrong_size))[2].faults[0].what.lower()


def packed_map(value: object) -> bytes:
    """MessagePack of maps, lists, short texts and numbers."""
    if isinstance(value, dict):
        return bytes([0x80 + len(value)]) + b"".join(packed_map(k) + packed_map(v) for k, v in value.items())
    if isinstance(value, list):
        return bytes([0x90 + len(value)]) + b"".join(map(packed_map, value))
    if isinstance(value, str):
        return b"\xd9" + bytes([len(value)]) + value.encode()
    assert isinstance(value, int)
    return b"\xcf" + struct.pack(">Q", value)


def kpack(scheme: str, *kernels: tuple[str, bytes]) -> bytes:
    toc: dict[str, object] = {"compression_scheme": scheme}
    toc["toc"] = {
        "lib/libx.so": {target: {"type": "hsaco", "ordinal": n} for n, (target, _) in enumerate(kernels)}
    }
    if scheme == "none":
        body = b"".join(data for _, data in kernels)
        places = [(64 + sum(len(d) for _, d in kernels[:n]), len(kernels[n][1])) for n in range(len(kernels))]
        toc["blobs"] = [{"offset": offset, "size": size} for offset, size in places]
    else:
        frames = [zstandard.compress(data) for _, data in kernels]
        body = struct.pack("<I", len(frames)) + b"".join(struct.pack("<I", len(f)) + f for f in frames)
        toc |= {"zstd_offset": 64, "zstd_size": len(body)}
    header = b"KPAK" + struct.pack("<IQ", 1, 64 + len(body))
    return header.ljust(64, b"\0") + body + packed_map(toc)


@pytest.mark.parametrize("scheme", ["none", "zstd-per-kernel"])
def test_rocm_kernel_packs(scheme: str) -> None:
    good = kpack(scheme, ("gfx90a", GFX90A), ("gfx942", GFX942))
    assert read("blas.kpack", good)[1:2] == (["gfx90a", "gfx942"],)
    assert not read("blas.kpack", good)[2].faults
    swapped = kpack(scheme, ("gfx942", GFX90A))
    assert "built for gfx90a" in read("blas.kpack", swapped)[2].faults[0].what
    assert read("blas.kpack", good[:-9])[2].faults
    assert read("blas.kpack", kpack("lz4", ("gfx942", GFX942)))[2].faults


def test_files_of_other_kinds_are_passed_over() -> None:
    assert read("readme.txt", b"some text")[0] is None
    assert read("libx.so", b"/* GNU ld script */ INPUT(libx.so.1)")[0] is None
    elf32 = bytearray(b"\x7fELF\x01\x01\x01".ljust(52, b"\0"))
    struct.pack_into("<H", elf32, 40, 52)
    kind, _, findings = read("lib32.so", bytes(elf32))
    assert kind == "elf of another class"
    assert not findings.faults


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("libx.so", b""),
        ("libx.so.1.2", b"\0" * 900),
        ("k.hsaco", b"\0ELF" + GFX942[4:]),
        ("libx.so", b"\x7fEL\0" + host_library()[4:]),
        ("libx.so", host_library(target_bundle("gfx942"))[:-64]),
        ("libx.so", b"\x7fELF\x01" + host_library()[5:]),
        ("x", b"\x7fELF"),
    ],
)
def test_damaged_files_are_never_passed_over(name: str, data: bytes) -> None:
    _, _, findings = read(name, data)
    assert findings.faults
    assert all(fault.damage and fault.wanted for fault in findings.faults)


# Damage that once hid code in silence; the fuzz test found each.


@pytest.mark.parametrize("name", ["/", "//", "/SYM64/", "__.SYMDEF"])
@pytest.mark.parametrize("position", [0, 1])
def test_code_is_no_index_of_an_archive(name: str, position: int) -> None:
    members = {"a.o": host_library(target_bundle("gfx90a")), "b.o": host_library(target_bundle("gfx942"))}
    data = bytearray(archive(members))
    start = 8 + position * (60 + len(members["a.o"]))
    assert bytes(data[start : start + 4]) == (b"a.o/", b"b.o/")[position]
    data[start : start + 16] = name.encode().ljust(16)
    _, targets, findings = read("libx.a", bytes(data))
    assert findings.faults or targets == ["gfx90a", "gfx942"]


def test_a_member_that_is_not_what_its_name_says() -> None:
    broken = b"\x7fEL\0" + host_library(target_bundle("gfx942"))[4:]
    _, _, findings = read("libx.a", archive({"a.o": host_library(target_bundle("gfx90a")), "b.o": broken}))
    assert any(fault.damage and "b.o" in fault.what for fault in findings.faults)


@pytest.mark.parametrize(
    "section", ["__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx942", ".llvm.offloading"]
)
def test_device_code_cannot_be_left_out_of_an_object(section: str) -> None:
    content = offload_binary(1, "gfx942", BITCODE) if section == ".llvm.offloading" else BITCODE
    assert read("x.o", elf({section: content}, kind=1))[1] == ["gfx942"]
    assert read("x.o", elf({section: content}, kind=1, nobits=[section]))[2].faults


def test_no_offload_binary_hides_another() -> None:
    one, two = (offload_binary(1, target, GFX942).ljust(5000, b"\0") for target in ("gfx942", "gfx90a"))
    (size,) = struct.unpack_from("<Q", one, 8)
    gone = one[: -(-size // 8) * 8] + bytes(len(two))
    assert read("x.o", elf({".llvm.offloading": gone}, kind=1))[2].faults
    grown = bytearray(one + two)
    struct.pack_into("<Q", grown, 8, len(grown))
    assert read("x.o", elf({".llvm.offloading": bytes(grown)}, kind=1))[2].faults
