"""Files that pass once are read with the same result as files on disk, and in one pass."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import zstandard

from channel_tools.verify import Report, containers, files, sweep, verify_path
from channel_tools.verify.source import DamageError
from channel_tools.verify.streams import Limits
from tests.nightly.mutations import damaged
from tests.unit.passing_support import check_same, passing_source
from tests.unit.test_verify_formats import aks2, kpack, offload_binary
from tests.unit.test_verify_support import (
    DATA,
    archive,
    bundle,
    code_object,
    compressed,
    conda_info,
    device_id,
    elf,
    host_library,
    tar_bytes,
    target_bundle,
    write_conda,
)

GFX942 = code_object("gfx942")
GFX90A = code_object("gfx90a")


def large_bundle(seed: int, size: int = 30_000) -> bytes:
    """Two code objects, and bitcode of some size on both sides of them."""
    dice = random.Random(seed)
    noise = [(device_id(target), b"BC\xc0\xde" + dice.randbytes(size)) for target in ("gfx1030", "gfx1100")]
    return bundle([noise[0], (device_id("gfx90a"), GFX90A), (device_id("gfx942"), GFX942), noise[1]])


def made_files() -> dict[str, bytes]:
    dice = random.Random(0)
    mixed = [large_bundle(1), compressed(large_bundle(2)), compressed(large_bundle(3), 1, "zlib")]
    scattered = {
        ".rodata": dice.randbytes(50_000) + GFX942 + dice.randbytes(5) + GFX90A + dice.randbytes(40_000),
        ".data": compressed(target_bundle("gfx90a")) + dice.randbytes(3000) + b"CCOB\2\0\1\0" + bytes(99),
        ".llvm.offloading": offload_binary(2, "gfx942", GFX942),
    }
    return {
        "bundles.so": host_library(*mixed, large_bundle(4), **scattered),
        "damaged.so": host_library(large_bundle(1)[:40_000], compressed(large_bundle(2)), **scattered),
        "few_wrappers.so": host_library(large_bundle(1), large_bundle(2), wrapper_count=1),
        "loose.hipfb": b"".join(part + bytes(77) for part in mixed),
        "lib.a": archive(
            {f"{n}.o": host_library(large_bundle(n), compressed(large_bundle(n))) for n in range(4)}
        ),
        "flash.aks2": aks2(GFX942, b"", GFX90A),
        "plain.kpack": kpack("none", ("gfx942", GFX942), ("gfx90a", GFX90A)),
        "packed.kpack": kpack("zstd-per-kernel", ("gfx942", GFX942), ("gfx90a", GFX90A)),
        "offload.bin": offload_binary(1, "gfx942", GFX942) + offload_binary(3, "gfx90a", GFX90A, packed=True),
        "blank.so": elf({".hip_fatbin": bytes(70_000), ".data": dice.randbytes(50_000)}),
    }


MADE = made_files()
SAMPLES = {path.name: path.read_bytes() for path in sorted(DATA.iterdir()) if path.suffix != ".md"}


@pytest.fixture(autouse=True)
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep as little of these small files as is kept of large ones."""
    monkeypatch.setattr(sweep, "KEPT_START", 2000)
    monkeypatch.setattr(sweep, "KEPT_DATA_END", 100)
    monkeypatch.setattr(files, "_IN_MEMORY", 3000)


@pytest.mark.parametrize("name", [*SAMPLES, *MADE])
@pytest.mark.parametrize(("piece", "ring"), [(1 << 18, 16 << 20), (4096, 20_000), (1000, 5000), (100, 700)])
def test_same_result_as_on_disk(name: str, piece: int, ring: int) -> None:
    data = {**SAMPLES, **MADE}[name]
    check_same(name, data, piece=piece, ring=ring)
    check_same(name, data, piece=piece, ring=ring, notes=0)


@pytest.mark.parametrize("name", ["bundles.so", "few_wrappers.so", "loose.hipfb", "lib.a", "flash.aks2"])
def test_one_pass_is_enough(name: str) -> None:
    data = MADE[name]
    assert check_same(name, data, piece=4096, ring=20_000) == 1
    # Where nothing is kept, each member of an archive takes a pass more.
    assert check_same(name, data, piece=4096, ring=20_000, notes=0) <= (5 if name == "lib.a" else 2)


def test_many_bundles_take_one_pass() -> None:
    library = host_library(*(large_bundle(n, 5000) for n in range(120)))
    assert len(library) > 2_000_000
    assert check_same("libx.so", library, piece=4096, ring=20_000) == 1
    # Where nothing may be kept, the second pass knows the sections and needs to keep nothing.
    assert check_same("libx.so", library, piece=4096, ring=20_000, notes=0) == 2


@pytest.mark.parametrize("batch", range(4))
def test_damaged_files_have_the_same_faults(batch: int) -> None:
    dice = random.Random(batch)
    choices = list({**SAMPLES, **MADE}.items())
    for number in range(120):
        name, data = choices[(batch + number * 4) % len(choices)]
        piece, ring = dice.choice([(500, 3000), (4096, 20_000), (1 << 16, 1 << 20)])
        check_same(name, damaged(data, dice), piece=piece, ring=ring)


def test_reads_at_any_place() -> None:
    data = random.Random(3).randbytes(200_000)
    source, passes = passing_source("x", data, piece=1000, ring=8000, notes=5000)
    dice = random.Random(4)
    for _ in range(12):
        start, size = dice.randrange(len(data)), dice.randrange(20_000)
        assert source.peek(start, size) == data[start : start + size]
    assert b"".join(source.chunks()) == data
    assert 2 < passes.opened < 20
    with pytest.raises(DamageError, match="again and again"):
        for _ in range(500):
            source.peek(0, 100_000)
            source.peek(190_000, 9000)


def test_what_shall_be_kept_is_kept() -> None:
    data = random.Random(5).randbytes(300_000)
    source, passes = passing_source("x", data, piece=1000, ring=4000, notes=0)
    source.peek(10_000, 10)
    for start, end in ((8000, 9000), (50_000, 60_000), (59_000, 70_000), (299_000, 400_000)):
        source.keep(start, end)
    source.pass_on()
    assert source.peek(50_000, 20_000) == data[50_000:70_000]
    assert source.peek(8000, 1000) == data[8000:9000]
    assert source.peek(297_000, 9000) == data[297_000:]
    assert passes.opened == 1
    assert source.peek(100_000, 5) == data[100_000:100_005]
    assert source.peek(297_000, 3000) == data[297_000:]  # the end of the first pass stays
    assert passes.opened == 2


def test_stream_that_ends_early_is_damage() -> None:
    source, _ = passing_source("x.so", MADE["bundles.so"], piece=1000)
    cut, passes = passing_source("x.so", MADE["bundles.so"], piece=1000)
    passes.data = passes.data[:50_000]
    assert source.peek(60_000, 4)
    with pytest.raises(DamageError, match=r"ends after 50000 of \d+ bytes"):
        cut.peek(60_000, 4)


def tar_gz(data: bytes) -> bytes:
    return gzip.compress(data, 1)


def tar_zst(data: bytes) -> bytes:
    half = len(data) // 2
    return zstandard.compress(data[:half]) + zstandard.compress(data[half:])


def tar_xz(data: bytes) -> bytes:
    return lzma.compress(data, preset=0) + bytes(8)


def zip_bytes(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return buffer.getvalue()


FILES = {f"lib/{name}": data for name, data in {**SAMPLES, **MADE}.items()}
WHEEL = {"x-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: x\nVersion: 1\n", **FILES}
CONTAINERS: dict[str, Callable[[Mapping[str, bytes]], bytes]] = {
    "x.tar": tar_bytes,
    "x.tar.gz": lambda members: tar_gz(tar_bytes(members)),
    "x.tar.bz2": lambda members: bz2.compress(tar_bytes(members)),
    "x.tar.xz": lambda members: tar_xz(tar_bytes(members)),
    "x.tar.zst": lambda members: tar_zst(tar_bytes(members)),
    "x.zip": zip_bytes,
    "stored.zip": lambda members: zip_bytes(members, zipfile.ZIP_STORED),
    "bzip2.zip": lambda members: zip_bytes(members, zipfile.ZIP_BZIP2),
}


def essence(report: Report, prefix: str = "") -> list[tuple[object, ...]]:
    """What was found in each file, but for the container's own path."""
    return [
        (file.path.removeprefix(prefix), file.kind, file.targets, file.objects, file.faults)
        for file in report.files
        if file.path.startswith(prefix)
    ]


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    root = tmp_path_factory.mktemp("files")
    (root / "lib").mkdir()
    for name, data in FILES.items():
        (root / name).write_bytes(data)
    return essence(verify_path(root))


@pytest.mark.parametrize("limit", [0, 1 << 25])
@pytest.mark.parametrize("name", CONTAINERS)
def test_same_result_from_every_container(
    name: str, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_disk: list[tuple[object, ...]]
) -> None:
    monkeypatch.setattr(containers, "_IN_MEMORY", limit)
    path = tmp_path / name
    path.write_bytes(CONTAINERS[name](FILES))
    assert essence(verify_path(path)) == on_disk


@pytest.mark.parametrize("limit", [0, 1 << 25])
def test_same_result_from_packages_and_what_is_nested_in_them(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_disk: list[tuple[object, ...]]
) -> None:
    monkeypatch.setattr(containers, "_IN_MEMORY", limit)
    nested = {
        "share/x-1-py3-none-any.whl": zip_bytes(WHEEL),
        "share/stored.whl": zip_bytes(WHEEL, zipfile.ZIP_STORED),
        "share/x.tar.zst": tar_zst(tar_bytes(FILES)),
    }
    report = verify_path(write_conda(tmp_path / "x-1.0-h0_0.conda", {**FILES, **nested}, conda_info(None)))
    assert essence(report)[: len(on_disk)] == on_disk
    for name in nested:
        assert essence(report, f"{name}!") == on_disk


def test_links_are_told(tmp_path: Path) -> None:
    links = [tarfile.TarInfo("lib/libx.so"), tarfile.TarInfo("lib/hard.so")]
    links[0].type, links[0].linkname = tarfile.SYMTYPE, "libx.so.1"
    links[1].type, links[1].linkname = tarfile.LNKTYPE, "lib/libx.so.1"
    (tmp_path / "x.tar").write_bytes(tar_bytes({"lib/libx.so.1": MADE["bundles.so"]}, links))
    found: dict[str, str] = {}
    budget = containers.Budget("x", 1 << 20, Limits())
    with containers.open_regular(tmp_path / "x.tar") as source:
        members = list(containers.container_members("x", "tar", source, budget, found.__setitem__))
    assert found == {"lib/libx.so": "libx.so.1", "lib/hard.so": "lib/libx.so.1"}
    assert [member.path for member in members] == ["lib/libx.so.1"]
    (tmp_path / "there").symlink_to("x.tar")
    list(containers.folder_members(tmp_path, budget, found.__setitem__))
    assert found["there"] == "x.tar"


def test_sparse_entries_are_filled(tmp_path: Path) -> None:
    library = bytearray(host_library(large_bundle(1)))
    (tmp_path / "x.so").write_bytes(library)
    with (tmp_path / "x.so").open("r+b") as file:  # holes at its end: code would fill them
        file.truncate(len(library) + (1 << 20))
    tar = subprocess.run(["tar", "-cSf", "-", "x.so"], cwd=tmp_path, capture_output=True, check=True).stdout
    assert len(tar) < len(library) + (1 << 19)
    (tmp_path / "x.tar").write_bytes(tar)
    assert essence(verify_path(tmp_path / "x.tar")) == essence(verify_path(tmp_path))[:1]


def test_cut_packages_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_IN_MEMORY", 0)
    dice = random.Random(8)
    for name, make in CONTAINERS.items():
        data = make(FILES)
        for _ in range(2):
            path = tmp_path / f"cut-{name}"
            path.write_bytes(data[: dice.randrange(600, len(data) - 1100)])
            report = verify_path(path)
            assert report.verdict == "fail"
            assert report.damaged
    whole = write_conda(tmp_path / "whole.conda", FILES, conda_info(None)).read_bytes()
    for place in (len(whole) // 3, len(whole) // 2):
        changed = bytearray(whole)
        changed[place : place + 40] = bytes(40)
        (tmp_path / "changed.conda").write_bytes(changed)
        assert verify_path(tmp_path / "changed.conda").damaged


def test_unpacking_again_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each library has its wrappers' section in a place that is known at its end only."""
    monkeypatch.setattr(containers, "_IN_MEMORY", 0)
    monkeypatch.setattr("channel_tools.verify.passing.RING", 4096)
    monkeypatch.setattr("channel_tools.verify.passing.MAX_NOTES", 0)
    dice = random.Random(9)
    library = elf({".hipFatBinSegment": b"XXXX" + bytes(20), ".data": dice.randbytes(700_000)})
    padding = dice.randbytes(3_000_000)
    data = tar_bytes({"lib/first.bin": padding, **{f"lib/{n}.so": library for n in range(40)}})
    (tmp_path / "x.tar.zst").write_bytes(tar_zst(data))
    small = Limits(free=1 << 20)
    report = verify_path(tmp_path / "x.tar.zst", limits=small)
    assert any("again" in line for line in report.all_faults())


def test_threads_end_with_the_stream_that_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.zst"
    path.write_bytes(tar_zst(tar_bytes({"x.bin": random.Random(1).randbytes(30 << 20)})))
    before = threading.active_count()
    with containers.open_regular(path) as source:
        members = containers.container_members("x", "tar", source, containers.Budget("x", 1 << 25, Limits()))
        next(members)
        assert threading.active_count() == before + 1
        members.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_nothing_is_written_to_disk(tmp_path: Path) -> None:
    """Not even where a temporary folder is there: any file opened for writing ends the process."""
    package = write_conda(
        tmp_path / "x-1.0-h0_0.conda",
        {**FILES, "lib/large.so": host_library(*[large_bundle(1, 4 << 20)] * 5), "x.whl": zip_bytes(WHEEL)},
        conda_info(None),
    )
    code = """
import sys, os
def hook(event, arguments):
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        os.write(2, repr(arguments).encode()); os._exit(9)
    if event in ("os.mkdir", "os.rename", "tempfile.mkstemp", "tempfile.mkdtemp"):
        os.write(2, event.encode()); os._exit(9)
from pathlib import Path
from channel_tools.verify import verify_path
sys.dont_write_bytecode = True
sys.addaudithook(hook)
report = verify_path(Path(sys.argv[1]), scan=True)
print(len(report.files), sum(file.objects for file in report.files))
"""
    nowhere = str(tmp_path / "nothing")
    done = subprocess.run(
        [sys.executable, "-c", code, str(package)],
        env={**os.environ, "TMPDIR": nowhere, "TMP": nowhere, "TEMP": nowhere, "HOME": nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files_read, objects = map(int, done.stdout.split())
    assert files_read > 2 * len(FILES)
    assert objects > 40
    assert tempfile.gettempdir() != nowhere


def test_lying_sizes_in_a_zip_are_damage(tmp_path: Path) -> None:
    data = bytearray(zip_bytes({"lib/x.so": MADE["bundles.so"]}))
    central = data.rindex(b"PK\1\2")
    for size in (100, 1 << 31):
        struct.pack_into("<I", data, central + 24, size)
        (tmp_path / "x.zip").write_bytes(data)
        assert verify_path(tmp_path / "x.zip").damaged


def thin_archive(folder: Path, name: str, members: Mapping[str, bytes]) -> Path:
    """As ``ar rcsT`` writes it: all names in the table, no content."""
    table = b"".join(member.encode() + b"/\n" for member in members)
    table += b"\n" * (len(table) % 2)
    data = b"!<thin>\n" + f"{'//':<48}{len(table):<10}`\n".encode() + table
    for member, content in members.items():
        place = f"/{table.index(member.encode() + b'/')}"
        data += f"{place:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        (folder / member).parent.mkdir(exist_ok=True, parents=True)
        (folder / member).write_bytes(content)
    (folder / name).write_bytes(data)
    return folder / name


def test_members_of_a_thin_archive_are_read_where_they_lie(tmp_path: Path) -> None:
    members = {"a.o": host_library(target_bundle("gfx90a")), "x/b.o": host_library(target_bundle("gfx942"))}
    path = thin_archive(tmp_path, "lib.a", members)
    alone = verify_path(path)
    assert (alone.verdict, alone.targets()) == ("pass", ("gfx90a", "gfx942"))
    together = verify_path(tmp_path)
    assert together.verdict == "pass"
    assert {file.path: file.targets for file in together.files}["lib.a"] == ("gfx90a", "gfx942")
    (tmp_path / "x/b.o").write_bytes(members["x/b.o"].replace(b"FPIH", b"XXXX"))
    assert any("x/b.o: " in line for line in verify_path(path).all_faults())
    (tmp_path / "x/b.o").unlink()
    assert verify_path(path).damaged


def test_members_of_a_thin_archive_outside_its_folder_are_not_opened(tmp_path: Path) -> None:
    content = host_library(target_bundle("gfx942"))
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link.o").symlink_to(tmp_path / "a.o")
    for name in ("../a.o", str(tmp_path / "a.o")):
        path = thin_archive(inside, "lib.a", {name: content})
        assert verify_path(path).damaged
        assert verify_path(inside).damaged
        assert not verify_path(tmp_path).damaged
    (inside / "lib.a").write_bytes((inside / "lib.a").read_bytes()[:8])
    path = thin_archive(inside, "linked.a", {"y.o": content})
    path.write_bytes(path.read_bytes().replace(b"y.o/", b"link.o/\n"[:4]))
    assert verify_path(path).damaged


def test_a_thin_archive_that_names_itself(tmp_path: Path) -> None:
    path = thin_archive(tmp_path, "x.a", {"lib.a": b""})
    (tmp_path / "lib.a").write_bytes(path.read_bytes())
    size = len(path.read_bytes())
    path = tmp_path / "lib.a"
    path.write_bytes(path.read_bytes().replace(b"100644  0   ", f"100644  {size:<4}".encode()))
    report = verify_path(path)
    assert any("thin archive" in line for line in report.all_faults())
