"""Packages, archives and folders: what is in them is compared with what they declare."""

from __future__ import annotations

import bz2
import io
import json
import os
import random
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from channel_tools.model.errors import VerifyError
from channel_tools.verify import Report, containers, exit_code, packages_under, parse_want, verify_path
from channel_tools.verify.streams import Limits
from tests.unit.test_verify_support import (
    DATA,
    archive,
    bundle,
    code_object,
    compressed,
    conda_info,
    device_id,
    host_library,
    tar_bytes,
    target_bundle,
    with_flags,
    write_conda,
    write_tar_bz2,
    write_wheel,
)

LIB942 = host_library(target_bundle("gfx942"))
LIB90A = host_library(target_bundle("gfx90a"))
BOTH = host_library(target_bundle("gfx90a", "gfx942"))
PLAIN = host_library()
GFX942 = frozenset({"gfx942"})


def make_conda(folder: Path, files: dict[str, bytes], info: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    return write_conda(folder / "canary-1.0-h0_0.conda", files, info)


def make_tar_bz2(folder: Path, files: dict[str, bytes], info: dict[str, bytes]) -> Path:
    return write_tar_bz2(folder / "canary-1.0-h0_0.tar.bz2", files, info)


def make_extracted(folder: Path, files: dict[str, bytes], info: dict[str, bytes]) -> Path:
    root = folder / "extracted"
    for name, data in {**files, **info}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


Maker = Callable[[Path, dict[str, bytes], dict[str, bytes]], Path]
each_form = pytest.mark.parametrize("make", [make_conda, make_tar_bz2, make_extracted])


def faults(report: Report) -> str:
    return "\n".join(report.all_faults())


@each_form
def test_package_with_exactly_its_declared_target_passes(tmp_path: Path, make: Maker) -> None:
    info = conda_info(
        ["gfx942"],
        "rocm72_gfx942_hdeadbeef_0",
        ["amdgpu-arch ==9.4.2", "rocm-userspace 7.2.*"],
        rocm_arch="gfx942",
        rocm_version="7.2",
    )
    files = {"lib/libx.so": LIB942, "lib/k.hsaco": code_object("gfx942"), "lib/libhost.so": PLAIN}
    report = verify_path(make(tmp_path, files, info))
    assert report.all_faults() == []
    assert report.verdict == "pass"
    assert report.targets() == report.declared == ("gfx942",)
    assert report.package is not None
    assert (report.package.name, report.package.version) == ("canary", "1.0")
    assert report.package.build == "rocm72_gfx942_hdeadbeef_0"
    assert report.package.rocm_version == "7.2"
    assert [(file.path, file.targets, file.objects) for file in report.files if file.targets] == [
        ("lib/k.hsaco", ("gfx942",), 1),
        ("lib/libx.so", ("gfx942",), 1),
    ]
    assert exit_code([report]) == 0


@each_form
@pytest.mark.parametrize(
    ("files", "gfx_targets", "what"),
    [
        ({"lib/libx.so": LIB90A}, ["gfx942"], ["code for gfx90a", "no code for gfx942"]),
        ({"lib/libx.so": BOTH}, ["gfx942"], ["lib/libx.so: code for gfx90a"]),
        (
            {"lib/libx.so": LIB942, "lib/k.hsaco": code_object("gfx90a")},
            ["gfx942"],
            ["lib/k.hsaco: code for gfx90a"],
        ),
        ({"lib/libx.so": LIB942}, ["gfx90a", "gfx942"], ["no code for gfx90a"]),
        ({"lib/libx.so": PLAIN}, ["gfx942"], ["no GPU code at all"]),
        ({}, ["gfx942"], ["no GPU code at all"]),
        ({"lib/libx.so": LIB942}, None, ["declares no target"]),
        ({"lib/libx.so": LIB942}, [], ["declares no target"]),
    ],
)
def test_package_with_other_code_than_declared_fails(
    tmp_path: Path, make: Maker, files: dict[str, bytes], gfx_targets: list[str] | None, what: list[str]
) -> None:
    report = verify_path(make(tmp_path, files, conda_info(gfx_targets)))
    assert report.verdict == "fail"
    assert not report.damaged
    for words in what:
        assert words in faults(report)
    assert all(fault.fix for _, fault in report.located_faults())
    assert exit_code([report]) == VerifyError.exit_code == 30


def test_feature_settings_are_a_fault_of_their_own(tmp_path: Path) -> None:
    library = host_library(bundle([(device_id("gfx942:xnack-"), with_flags(code_object("gfx942"), 0x64C))]))
    report = verify_path(make_conda(tmp_path, {"lib/libx.so": library}, conda_info(["gfx942"])))
    (line,) = report.all_faults()
    assert "one setting of gfx942 only" in line
    assert "found: gfx942:xnack-" in line
    declared = verify_path(make_conda(tmp_path, {"lib/libx.so": library}, conda_info(["gfx942:xnack-"])))
    assert declared.verdict == "pass"


def test_package_without_code_and_without_targets_passes(tmp_path: Path) -> None:
    report = verify_path(make_conda(tmp_path, {"lib/libhost.so": PLAIN, "a.txt": b"text"}, conda_info(None)))
    assert report.verdict == "pass"
    assert report.targets() == ()


def test_arch_alone_does_not_promise_code(tmp_path: Path) -> None:
    """As amdgpu-arch itself: its variant names an arch, and it holds no code."""
    info = conda_info(None, "gfx942_detected_0", rocm_arch="gfx942")
    report = verify_path(make_conda(tmp_path, {"share/x": b"x"}, info))
    assert report.verdict == "pass"
    assert report.declared == ("gfx942",)


@pytest.mark.parametrize(
    ("build", "depends", "extra"),
    [
        ("rocm72_gfx942_h0_0", [], {}),
        ("h0_0", ["amdgpu-arch ==9.4.2"], {}),
        ("h0_0", ["amdgpu-arch 9.4.2.*"], {}),
        ("h0_0", [], {"rocm_arch": "gfx942"}),
        ("h0_0", [], {"gfx_targets": "gfx942"}),
        ("h0_0", [], {"gfx_targets": ["gfx942"]}),
    ],
)
def test_places_that_declare_a_target(
    tmp_path: Path, build: str, depends: list[str], extra: dict[str, object]
) -> None:
    info = {**conda_info(None, build, depends), "info/about.json": json.dumps({"extra": extra}).encode()}
    assert verify_path(make_conda(tmp_path, {"lib/x.so": LIB942}, info)).verdict == "pass"
    assert "code for gfx90a" in faults(verify_path(make_conda(tmp_path, {"lib/x.so": LIB90A}, info)))


def test_package_that_contradicts_itself_fails(tmp_path: Path) -> None:
    info = conda_info(["gfx942"], "rocm72_gfx90a_h0_0", ["amdgpu-arch ==9.0.10"])
    report = verify_path(make_conda(tmp_path, {"lib/x.so": LIB942}, info))
    (line,) = report.all_faults()
    assert "contradicts itself" in line
    assert "build string: gfx90a" in line
    assert "dependency on amdgpu-arch: gfx90a" in line


def test_want_overrides_nothing_but_must_agree(tmp_path: Path) -> None:
    package = make_conda(tmp_path, {"lib/x.so": LIB942}, conda_info(["gfx942"]))
    assert verify_path(package, GFX942).verdict == "pass"
    report = verify_path(package, frozenset({"gfx90a"}))
    assert "declares other targets than wanted" in faults(report)
    assert "code for gfx942" in faults(report)


def test_want_text() -> None:
    assert parse_want(" gfx90a, gfx942") == {"gfx90a", "gfx942"}
    assert parse_want("gfx942:xnack-:sramecc+") == {"gfx942:sramecc+:xnack-"}
    for text in ("", ",", "gfx942,all"):
        with pytest.raises(ValueError, match="no GPU target"):
            parse_want(text)


def test_wheels_and_folders_are_listed_or_compared_with_want(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "canary-1.0-py3-none-any.whl", {"canary/x.so": LIB942})
    folder = make_extracted(tmp_path, {"lib/x.so": LIB942}, {})
    for path, kind in ((wheel, "wheel"), (folder, "folder")):
        listed = verify_path(path)
        assert (listed.kind, listed.verdict, listed.targets()) == (kind, "pass", ("gfx942",))
        assert verify_path(path, GFX942).verdict == "pass"
        assert verify_path(path, frozenset({"gfx90a"})).verdict == "fail"
        assert verify_path(path, frozenset({"gfx90a", "gfx942"})).verdict == "fail"
    assert verify_path(wheel).package.name == "canary"  # type: ignore[union-attr]
    none = write_wheel(tmp_path / "none-1.0-py3-none-any.whl", {"x.py": b"pass"})
    assert "no GPU code at all" in faults(verify_path(none, GFX942))


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.bz2", "tar.xz", "tar.zst", "bin"])
def test_tar_files_are_known_by_content(tmp_path: Path, suffix: str) -> None:
    plain = tar_bytes({"lib/x.so": LIB942})
    path = tmp_path / f"x.{suffix}"
    if suffix == "tar.zst":
        path.write_bytes(zstandard.compress(plain[:20_000]) + zstandard.compress(plain[20_000:]))
    elif suffix in ("tar", "bin"):
        path.write_bytes(plain)
    else:
        with tarfile.open(path, f"w:{suffix.removeprefix('tar.')}") as tar:  # type: ignore[call-overload]
            info = tarfile.TarInfo("lib/x.so")
            info.size = len(LIB942)
            tar.addfile(info, io.BytesIO(LIB942))
    report = verify_path(path, GFX942)
    assert (report.kind, report.verdict) == ("tar", "pass")


def test_archives_inside_archives_are_read(tmp_path: Path) -> None:
    inner = write_wheel(tmp_path / "inner.whl", {"canary/x.so": LIB90A}).read_bytes()
    files = {"share/w.whl": inner, "share/t.bin": zstandard.compress(tar_bytes({"y.so": LIB90A}))}
    report = verify_path(make_conda(tmp_path, {**files, "lib/x.so": LIB942}, conda_info(["gfx942"])))
    assert "share/w.whl!canary/x.so: code for gfx90a" in faults(report)
    assert "share/t.bin!y.so: code for gfx90a" in faults(report)
    broken = {
        "share/broken.zip": b"PK\x03\x04 not a zip",
        "share/notes.gz": b"\x1f\x8bnot gzip",
        "lib/x.so": LIB942,
    }
    assert verify_path(make_conda(tmp_path, broken, conda_info(["gfx942"]))).verdict == "pass"


def test_packages_that_cannot_be_opened_are_faults_wherever_they_lie(tmp_path: Path) -> None:
    """Wheels and conda packages anywhere; other archives in a plain folder only."""
    inside = tmp_path / "folder"
    inside.mkdir()
    for name in ("x.whl", "x.conda", "x.tar.bz2", "x.zip"):
        whole = write_wheel(tmp_path / "w.whl", {"x.so": LIB942}).read_bytes()
        (inside / name).write_bytes(whole[:-10])
        report = verify_path(inside)
        assert [file.path for file in report.files] == [name]
        assert exit_code([report]) == 31
        (inside / name).unlink()
        packed = verify_path(make_conda(tmp_path, {f"share/{name}": whole[:-10]}, conda_info(None)))
        assert exit_code([packed]) == (31 if name in ("x.whl", "x.conda") else 0)


def test_reading_ends_after_many_damaged_files(tmp_path: Path) -> None:
    cut = compressed(target_bundle("gfx942"))[:-9]
    for name, data in (("x{}.so", b"\0"), ("x{}.co", cut)):
        files = {f"lib/{name.format(number)}": data for number in range(1200)}
        for make in (make_conda, make_extracted):
            report = verify_path(make(tmp_path / name, files, conda_info(None)))
            assert exit_code([report]) == 31
            assert len(report.files) == 1000
            assert faults(report).count("too many damaged files: the rest was not read") == 1


def test_many_compressed_files_are_read_by_threads_in_any_order(tmp_path: Path) -> None:
    good, bad = compressed(target_bundle("gfx942")), compressed(target_bundle("gfx90a"))
    files = {f"lib/k{number:03}.co": bad if number % 50 == 7 else good for number in range(200)}
    for make in (make_conda, make_tar_bz2, make_extracted):
        report = verify_path(make(tmp_path, files, conda_info(["gfx942"])))
        assert [file.path for file in report.files] == sorted(files)
        wrong = [file.path for file in report.files if file.faults]
        assert wrong == ["lib/k007.co", "lib/k057.co", "lib/k107.co", "lib/k157.co"]
        assert report.targets() == ("gfx90a", "gfx942")


def test_an_archive_too_deep_to_be_read_does_not_pass(tmp_path: Path) -> None:
    data = LIB90A
    for depth in range(6):
        data = write_wheel(tmp_path / "made.whl", {"x.so" if depth == 0 else "x.whl": data}).read_bytes()
    (tmp_path / "deep.whl").write_bytes(data)
    report = verify_path(tmp_path / "deep.whl")
    assert "too deep" in faults(report)
    assert report.damaged


def test_single_files(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(LIB942)
    assert (verify_path(path).kind, verify_path(path).targets()) == ("file", ("gfx942",))
    assert verify_path(path).files[0].path == str(path)
    link = tmp_path / "link.so"
    link.symlink_to(path)
    assert verify_path(link).targets() == ("gfx942",)
    with pytest.raises(VerifyError, match="no such file"):
        verify_path(tmp_path / "absent")


def test_folder_does_not_follow_links_nor_wait_for_pipes(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "gfx90a.so").write_bytes(LIB90A)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "x.so").write_bytes(LIB942)
    (inside / "file.so").symlink_to(outside / "gfx90a.so")
    (inside / "folder").symlink_to(outside)
    (inside / "loop").symlink_to(inside)
    assert verify_path(inside, GFX942).verdict == "pass"
    os.mkfifo(inside / "pipe.so")
    report = verify_path(inside, GFX942)
    assert "pipe.so: not a file" in faults(report)


def test_names_are_fit_for_a_terminal(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff\x1b[31m.so")).write_bytes(LIB90A)
    files = {"lib/\x1b]0;x.so": host_library(bundle([(device_id("gfx\x1b[0m"), code_object("gfx942"))]))}
    for report in (
        verify_path(tmp_path, GFX942),
        verify_path(make_conda(tmp_path, files, conda_info(["gfx942"]))),
    ):
        assert report.verdict == "fail"
        assert all(line.isprintable() for line in report.all_faults())


def test_prefix_is_told_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "x.so").write_bytes(BOTH)
    report = verify_path(tmp_path)
    assert (report.kind, report.targets(), report.verdict) == ("prefix", ("gfx90a", "gfx942"), "pass")


@pytest.mark.parametrize(
    "name", ["../x.so", "/etc/x.so", "lib/../../x.so", "..", "C:\\x.so", "lib\\..\\..\\x.so"]
)
def test_paths_that_leave_the_archive_are_faults(tmp_path: Path, name: str) -> None:
    conda = make_conda(tmp_path, {name: LIB942}, conda_info(["gfx942"]))
    tar = make_tar_bz2(tmp_path, {name: LIB942}, conda_info(["gfx942"]))
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr(name, LIB942)
    before = sorted(tmp_path.rglob("*"))
    for path in (conda, tar, wheel):
        report = verify_path(path)
        assert "must not be unpacked" in faults(report)
        assert exit_code([report]) == 31
    assert sorted(tmp_path.rglob("*")) == before


def test_a_path_that_is_there_twice_is_read_twice(tmp_path: Path) -> None:
    """The last one wins when it is unpacked; neither may hold other code."""
    path = tmp_path / "x.tar.bz2"
    for first, second in ((LIB90A, LIB942), (LIB942, LIB90A)):
        double = tar_bytes({"lib/x.so": first})[: 512 + -(-len(first) // 512) * 512]
        path.write_bytes(bz2.compress(double + tar_bytes({"lib/x.so": second, **conda_info(["gfx942"])})))
        report = verify_path(path)
        assert [file.path for file in report.files] == ["lib/x.so", "lib/x.so"]
        assert "lib/x.so: code for gfx90a" in faults(report)


def test_links_in_archives(tmp_path: Path) -> None:
    """Symbolic links may lead anywhere (rocm-host does) and are not followed; hard links must stay inside."""
    symlink = tarfile.TarInfo("lib/rocm-host")
    symlink.type, symlink.linkname = tarfile.SYMTYPE, "/opt/rocm/lib"
    hard = tarfile.TarInfo("lib/y.so")
    hard.type, hard.linkname = tarfile.LNKTYPE, "lib/x.so"
    path = tmp_path / "canary-1.0-h0_0.conda"
    good = write_conda(path, {"lib/x.so": LIB942}, conda_info(["gfx942"]), [symlink, hard])
    assert verify_path(good).verdict == "pass"
    hard.linkname = "../../x.so"
    assert "must not be unpacked" in faults(verify_path(write_conda(path, {}, conda_info(None), [hard])))
    device = tarfile.TarInfo("dev/null")
    device.type = tarfile.CHRTYPE
    assert "neither file" in faults(verify_path(write_conda(path, {}, conda_info(None), [device])))
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        entry = zipfile.ZipInfo("x.so")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        made.writestr(entry, "/etc/passwd")
    assert verify_path(wheel).files == ()


def test_bombs_are_not_unpacked(tmp_path: Path) -> None:
    limits = Limits(members=50, growth=50, free=1 << 20)
    zeros = bytes(20 << 20)
    wheel = write_wheel(tmp_path / "bomb.whl", {"zeros.bin": zeros})
    conda = make_conda(tmp_path, {"zeros.bin": zeros}, conda_info(None))
    nested = write_wheel(tmp_path / "nested.whl", {"inner.zip": wheel.read_bytes()})
    for path in (wheel, conda, nested):
        report = verify_path(path, limits=limits)
        assert "archive bomb" in faults(report)
        assert exit_code([report]) == 31
    many = write_wheel(tmp_path / "many.whl", {f"f{number}": b"x" for number in range(60)})
    assert "too many entries" in faults(verify_path(many, limits=limits))
    sparse = tmp_path / "big.tar"
    header = tarfile.TarInfo("zeros.so")
    header.size = 1 << 62
    sparse.write_bytes(header.tobuf(format=tarfile.GNU_FORMAT) + zeros[:1024])
    assert verify_path(sparse).verdict == "fail"


@pytest.mark.parametrize("kept", [0, 3, 30, 100, 300, 1000, -2000, -100, -23, -1])
def test_archives_that_end_early(tmp_path: Path, kept: int) -> None:
    info = conda_info(["gfx942"])
    for path in (
        make_conda(tmp_path, {"lib/x.so": LIB942}, info),
        make_tar_bz2(tmp_path, {"lib/x.so": LIB942}, info),
        write_wheel(tmp_path / "x.whl", {"x.so": LIB942}),
    ):
        whole = path.read_bytes()
        path.write_bytes(whole[:kept])
        report = verify_path(path)
        assert report.verdict == "fail"
        assert exit_code([report]) == 31, faults(report)


def test_payload_cut_before_it_was_packed(tmp_path: Path) -> None:
    """A full disk during the build: the outer zip is sound, the tar in it ends early."""
    tar = tar_bytes({"lib/x.so": LIB942, "lib/y.so": LIB942})
    second_member = 512 + -(-len(LIB942) // 512) * 512
    packed = zstandard.ZstdCompressor().compress
    for payload in (packed(tar)[:-50], packed(tar[:second_member]), packed(tar[: second_member + 900]), b""):
        path = tmp_path / "canary-1.0-h0_0.conda"
        with zipfile.ZipFile(path, "w") as made:
            made.writestr("metadata.json", "{}")
            made.writestr("info-canary-1.0-h0_0.tar.zst", packed(tar_bytes(conda_info(["gfx942"]))))
            made.writestr("pkg-canary-1.0-h0_0.tar.zst", payload)
        report = verify_path(path)
        assert exit_code([report]) == 31, (len(payload), faults(report))


def test_tar_with_a_broken_header_in_the_middle(tmp_path: Path) -> None:
    tar = bytearray(tar_bytes({"a.txt": b"text", "lib/x.so": LIB90A}))
    tar[1024 + 148] ^= 0xFF
    path = tmp_path / "x.tar"
    path.write_bytes(tar)
    report = verify_path(path)
    assert "end mark" in faults(report)


def test_flipped_byte_in_a_stored_part_is_noticed(tmp_path: Path) -> None:
    path = make_conda(tmp_path, {"share/data.bin": random.Random(1).randbytes(50_000)}, conda_info(None))
    whole = bytearray(path.read_bytes())
    whole[30_000] ^= 1
    path.write_bytes(whole)
    assert exit_code([verify_path(path)]) == 31


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.conda", b"text"),
        ("x.conda", b""),
        ("x.whl", b"PK\x05\x06"),
        ("x.tar.bz2", bz2.compress(b"not a tar file")),
        ("x.zip", b"\x7fEL"),
    ],
)
def test_archives_that_are_none(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert exit_code([verify_path(tmp_path / name)]) == 31


def test_conda_package_without_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "x-1-0.conda"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("pkg-x-1-0.tar.zst", zstandard.compress(tar_bytes({})))
    assert "parts of a .conda package" in faults(verify_path(path))
    assert "no conda package" in faults(verify_path(make_conda(tmp_path, {}, {})))


@pytest.mark.parametrize(
    "about", [b"{", b"[]", b'{"extra": 7}', b'{"extra": {"gfx_targets": [1]}}', b"[" * 5000]
)
def test_metadata_that_cannot_be_read(tmp_path: Path, about: bytes) -> None:
    info = {**conda_info(None), "info/about.json": about}
    report = verify_path(make_conda(tmp_path, {"lib/x.so": LIB942}, info))
    assert report.verdict == "fail"
    index = {**conda_info(None), "info/index.json": json.dumps({"name": 3}).encode()}
    assert "has no name" in faults(verify_path(make_conda(tmp_path, {}, index)))


def test_damage_does_not_bring_follow_up_faults(tmp_path: Path) -> None:
    files = {"lib/x.so": LIB942[:-100], "lib/bad.co": (DATA / "bad_bundle_trunc.co").read_bytes()}
    report = verify_path(make_conda(tmp_path, files, conda_info(["gfx942"])))
    assert exit_code([report]) == 31
    mixed = {**files, "lib/y.so": LIB90A}
    assert exit_code([verify_path(make_conda(tmp_path, mixed, conda_info(["gfx942"])))]) == 30


def test_big_members_pass_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_IN_MEMORY", 1000)
    files = {"lib/x.so": LIB942, "lib/x.a": archive({"x.o": LIB942})}
    assert verify_path(make_conda(tmp_path, files, conda_info(["gfx942"]))).verdict == "pass"


def test_channel_folder_gives_its_packages(tmp_path: Path) -> None:
    subdir = tmp_path / "linux-64"
    subdir.mkdir()
    (subdir / "repodata.json").write_text("{}")
    with pytest.raises(VerifyError, match="without a package"):
        packages_under(tmp_path)
    package = make_conda(subdir, {"lib/x.so": LIB942}, conda_info(["gfx942"]))
    label = tmp_path / "label" / "gfx942" / "linux-64"
    label.mkdir(parents=True)
    labelled = make_tar_bz2(label, {}, conda_info(None))
    assert packages_under(tmp_path) == [labelled, package]
    assert packages_under(package) == [package]
    plain = make_extracted(tmp_path, {"lib/x.so": LIB942}, {})
    assert packages_under(plain) == [plain]


def test_damaged_packages_never_raise(tmp_path: Path) -> None:
    """300 packages with flipped bits, cut ends and overwritten fields."""
    dice = random.Random(7)
    path = tmp_path / "canary-1.0-h0_0.conda"
    made = [
        make_conda(tmp_path, {"lib/x.so": LIB942}, conda_info(["gfx942"])).read_bytes(),
        make_tar_bz2(tmp_path, {"lib/x.so": LIB942}, conda_info(["gfx942"])).read_bytes(),
        write_wheel(tmp_path / "w.whl", {"x.so": LIB942}).read_bytes(),
        tar_bytes({**conda_info(["gfx942"]), "lib/x.so": LIB942}),
    ]
    for number in range(300):
        data = bytearray(made[number % len(made)])
        for _ in range(dice.randint(1, 3)):
            place = dice.randrange(len(data) - 4)
            if dice.random() < 0.5:
                data[place] ^= 1 << dice.randrange(8)
            else:
                struct.pack_into("<I", data, place, dice.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF]))
        path.write_bytes(data if dice.random() < 0.8 else data[: dice.randrange(len(data))])
        report = verify_path(path)
        assert report.verdict in ("pass", "fail")
