"""Every kind of GPU code in files that compilers made: alone, in containers, and as LLVM's tools see it.

With ``ROCM_CHANNEL_SAMPLES=<folder with MANIFEST.tsv>`` the samples of that folder are read as well.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import lzma
import os
import re
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import zstandard

from channel_tools.verify import verify_path
from tests.integration.clang_hip import code_only_policy
from tests.integration.helpers import rocm_channel
from tests.integration.sample_files import MORE, SAMPLES, Sample, make_samples
from tests.unit.test_verify_support import (
    conda_info,
    tar_bytes,
    write_conda,
    write_tar_bz2,
    write_wheel,
)

ALL = SAMPLES | MORE
SOUND = {name: sample for name, sample in ALL.items() if sample.fault is None}
GIVEN = os.environ.get("ROCM_CHANNEL_SAMPLES")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory, sdk_root: Path) -> Path:
    return make_samples(tmp_path_factory.mktemp("samples"), tmp_path_factory.mktemp("work"), sdk_root)


def check_sample(path: Path, sample: Sample) -> None:
    report = verify_path(path)
    (file,) = report.files
    assert (file.targets, file.objects, file.kind) == (sample.targets, sample.objects, sample.kind)
    assert (report.verdict, report.damaged) == (("fail", True) if sample.fault else ("pass", False))
    if sample.fault:
        first = file.faults[0]
        assert sample.fault in first.what
        assert first.offset == sample.fault_at
        assert first.found
        assert first.wanted
        assert first.fix
        assert str(path) in report.all_faults()[0]
    else:
        assert report.all_faults() == []


@pytest.mark.parametrize("name", ALL)
def test_every_sample(samples: Path, name: str) -> None:
    check_sample(samples / name, ALL[name])


@pytest.mark.skipif(not GIVEN, reason="ROCM_CHANNEL_SAMPLES names no folder with other samples")
def test_given_samples() -> None:
    folder = Path(str(GIVEN))
    with (folder / "MANIFEST.tsv").open(newline="") as manifest:
        rows = {row["file"]: row for row in csv.DictReader(manifest, delimiter="\t")}
    assert set(rows) == set(SAMPLES)
    for name, row in rows.items():
        content = (folder / name).read_bytes()
        assert len(content) == int(row["size"])
        assert hashlib.sha256(content).hexdigest().startswith(row["sha256_16"])
        sample = SAMPLES[name]
        assert ("error" in row["expected_targets"]) == bool(sample.fault)
        told, _, _ = row["expected_targets"].partition(" ")
        assert ",".join(sample.targets) == ("" if told.startswith("(") else told)
        check_sample(folder / name, sample)


def test_the_command_says_the_same(samples: Path) -> None:
    done = rocm_channel("verify", "--json", samples)
    assert done.returncode == 31, done.stderr
    report = json.loads(done.stdout)
    assert (report["version"], report["verdict"]) == (1, "fail")
    found = {file["path"]: file for file in report["files"]}
    assert set(found) == set(ALL)
    for name, sample in ALL.items():
        assert found[name]["targets"] == list(sample.targets)
        assert bool(found[name]["faults"]) == bool(sample.fault)
    table = rocm_channel("verify", samples)
    assert table.returncode == 31
    lines = table.stdout.splitlines()
    for name, sample in ALL.items():
        if sample.fault:
            told = [line for line in lines if name in line and sample.fault in line]
            assert any(f"{sample.fault_at:#x}" in line for line in told)


def test_a_scan_counts_nothing_twice(samples: Path) -> None:
    """``--scan`` looks into files of no known kind; what is known is read as ever."""
    found = {file.path: file for file in verify_path(samples, scan=True).files}
    for name, sample in ALL.items():
        assert (found[name].targets, found[name].objects) == (sample.targets, sample.objects)


Files = Mapping[str, bytes]
Maker = Callable[[Path, Files], Path]


def _packed(pack: Callable[[bytes], bytes]) -> Maker:
    def make(path: Path, files: Files) -> Path:
        path.write_bytes(pack(tar_bytes(files)))
        return path

    return make


def _zip(path: Path, files: Files) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def _folder(path: Path, files: Files) -> Path:
    for name, data in files.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return path


def _prefix(path: Path, files: Files) -> Path:
    return _folder(path, {**files, "conda-meta/history": b""})


def _wheel_in_conda(path: Path, files: Files) -> Path:
    wheel = write_wheel(path.with_suffix(".whl"), files)
    return write_conda(path, {"share/inner.whl": wheel.read_bytes()}, _info())


def _info() -> dict[str, bytes]:
    return conda_info(sorted({target for sample in SOUND.values() for target in sample.targets}))


CONTAINERS: dict[str, tuple[str, Maker]] = {
    "x.conda": ("conda package", lambda path, files: write_conda(path, files, _info())),
    "x.tar.bz2": ("conda package", lambda path, files: write_tar_bz2(path, files, _info())),
    "x.whl": ("wheel", write_wheel),
    "x.zip": ("zip", _zip),
    "x.tar": ("tar", _packed(bytes)),
    "x.tar.gz": ("tar", _packed(gzip.compress)),
    "x.tar.xz": ("tar", _packed(lambda data: lzma.compress(data, preset=0))),
    "x.tar.zst": ("tar", _packed(zstandard.compress)),
    "folder": ("folder", _folder),
    "prefix": ("prefix", _prefix),
    "nested.conda": ("conda package", _wheel_in_conda),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_samples_in_every_container(samples: Path, tmp_path: Path, container: str) -> None:
    kind, make = CONTAINERS[container]
    files = {f"lib/{name}": (samples / name).read_bytes() for name in SOUND}
    report = verify_path(make(tmp_path / container, files), policy=code_only_policy(tmp_path))
    assert report.kind == kind
    assert report.all_faults() == []
    found = {file.path.rpartition("/")[2]: file for file in report.files}
    assert set(found) == set(SOUND)
    for name, sample in SOUND.items():
        assert (found[name].targets, found[name].objects) == (sample.targets, sample.objects)


@pytest.mark.parametrize("container", ["x.conda", "x.tar.bz2", "x.whl", "folder", "nested.conda"])
@pytest.mark.parametrize("name", [name for name in ALL if name not in SOUND])
def test_damage_is_found_in_every_container(samples: Path, tmp_path: Path, container: str, name: str) -> None:
    _, make = CONTAINERS[container]
    report = verify_path(make(tmp_path / container, {f"lib/{name}": (samples / name).read_bytes()}))
    damage = [line for line in report.all_faults() if str(ALL[name].fault) in line]
    assert damage
    assert name in damage[0]
    assert report.damaged


# What LLVM's tools make of the samples. Each view gives the targets that the tool names, one for each code
# object, or None where it ends in an error.

View = Callable[[Path, Path], list[str] | None]


def _output(*words: str | Path) -> str | None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def _bundle_in(path: Path, work: Path) -> Path:
    """The section with the bundles where there is one: the bundler finds nothing in a linked library."""
    if path.read_bytes()[:4] != b"\x7fELF":
        return path
    fatbin = work / "fatbin"
    dumped = _output("llvm-objcopy-19", f"--dump-section=.hip_fatbin={fatbin}", path, work / "copy")
    return path if dumped is None else fatbin


def _bundler_ids(bundle: Path) -> list[str] | None:
    kind = "a" if bundle.suffix == ".a" else "o"
    listed = _output("clang-offload-bundler-19", f"--type={kind}", "--list", f"--input={bundle}")
    return None if listed is None else [line for line in listed.split() if not line.startswith("host")]


def bundler_view(path: Path, work: Path) -> list[str] | None:
    ids = _bundler_ids(_bundle_in(path, work))
    return None if ids is None else [bundle_id.partition("--")[2] for bundle_id in ids]


def readelf_view(path: Path, work: Path) -> list[str] | None:
    bundle = _bundle_in(path, work)
    ids = _bundler_ids(bundle)
    images = []
    for number, bundle_id in enumerate(ids or []):
        image = work / f"{number}.hsaco"
        command = ("clang-offload-bundler-19", "--type=o", "--unbundle", f"--input={bundle}")
        if _output(*command, f"--targets={bundle_id}", f"--output={image}") is None:
            return None
        images.append(image)
    headers = [_output("llvm-readelf-19", "-h", image) for image in images or [path]]
    if None in headers:
        return None
    return [target for header in headers for target in _flags_targets(str(header))]


def _flags_targets(header: str) -> list[str]:
    """Of ``Flags: 0xE4C, gfx942, xnack-, sramecc+``: a feature without a sign is any setting."""
    match = re.search(r"Flags:\s+0x[0-9A-F]+, (gfx[^\n]*)", header)
    if not match:
        return []
    processor, *features = match[1].split(", ")
    return [":".join([processor, *sorted(word for word in features if word[-1] in "+-")])]


def objdump_view(path: Path, work: Path) -> list[str] | None:
    printed = _output("llvm-objdump-19", "--offloading", path)
    return None if printed is None else re.findall(r"^arch +(\S+)$", printed, re.MULTILINE)


VIEWS: dict[str, View] = {
    "clang-offload-bundler": bundler_view,
    "llvm-readelf": readelf_view,
    "llvm-objdump": objdump_view,
}

_CUT = ("bad_bundle_trunc.co", "bad_ccob_size.co")
_VERSION_3 = ("ccob_v3_zlib.co", "ccob_v3_zstd.co")
_PACKS = ("synthetic.aks2", "synthetic.kpack")
_ARCHIVES = ("libmulti.a", "newdriver.a")
_SEVERAL = ("multi_mixed_bfd.so", "multi_tu_both.so")
_BARE = tuple(name for name, sample in ALL.items() if sample.kind == "code object")
_NEW_OBJECTS = ("newdriver_rdc.o", "offload_packager.bin")

UNREADABLE: dict[str, dict[str, tuple[str, ...]]] = {
    "clang-offload-bundler": {
        "crashes on a bundle that is cut off, refuses one of a wrong size": _CUT,
        "does not know version 3 of compressed bundles": _VERSION_3,
        "lists the first bundle of a section only": _SEVERAL,
        "finds nothing in archives of objects with .hip_fatbin or .llvm.offloading": _ARCHIVES,
        "reads bundles only: no bare code objects, packs, offload binaries": (
            *_BARE,
            *_PACKS,
            *_NEW_OBJECTS,
        ),
        "finds a section by its name only": ("mini_without_sections.so",),
    },
    "llvm-readelf": {
        "needs the code object, which the bundler does not give": (
            *(*_CUT, *_VERSION_3, *_SEVERAL, *_ARCHIVES, *_PACKS, *_NEW_OBJECTS),
            "mini_without_sections.so",
        ),
        "reads ELF headers: relocatable device code is LLVM bitcode": ("rdc_old.o",),
        "has no name for gfx950 and gfx9-4-generic": (
            "mini21_generic94.so",
            "mini21_gfx950.so",
            "triton_add_gfx950.hsaco",
        ),
    },
    "llvm-objdump": {
        "shows what lies in .llvm.offloading; bundles, packs and .hip_fatbin are nothing to it": tuple(
            name for name in ALL if name not in _NEW_OBJECTS
        ),
    },
}
ACCEPTS_DAMAGE = {"bad_ccob_hash.co": "the bundler does not check the hash"}


@pytest.mark.parametrize("tool", VIEWS)
@pytest.mark.parametrize("name", ALL)
def test_agreement_with_llvm(samples: Path, tmp_path: Path, tool: str, name: str) -> None:
    """The same targets as often as we find them; where a tool cannot tell, the list above says why."""
    seen = VIEWS[tool](samples / name, tmp_path)
    (ours,) = verify_path(samples / name).files
    agrees = seen is not None and (tuple(sorted(set(seen))), len(seen)) == (ours.targets, ours.objects)
    reasons = [reason for reason, names in UNREADABLE[tool].items() if name in names]
    assert len(reasons) <= 1
    assert agrees == (not reasons), f"{tool} sees {seen}, we {ours.targets}; listed: {reasons or 'readable'}"


def test_damage_that_the_bundler_takes_for_sound(samples: Path, tmp_path: Path) -> None:
    for name, reason in ACCEPTS_DAMAGE.items():
        assert bundler_view(samples / name, tmp_path) == list(ALL[name].targets), reason
        assert verify_path(samples / name).damaged
