"""What was read of a package is kept; what is judged is judged each time."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from channel_tools.verify import reading_cache, verify_path
from channel_tools.verify.reading_cache import ReadingCache, default_folder
from channel_tools.verify.report import Report
from tests.unit.test_verify_support import DATA, conda_info, host_library, target_bundle, write_conda

LIB942 = host_library(target_bundle("gfx942"))


@pytest.fixture
def cache(tmp_path: Path) -> ReadingCache:
    return ReadingCache(tmp_path / "cache")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    files = {
        "lib/x.so": LIB942,
        "lib/real.so": (DATA / "mini21_ccob_v2.so").read_bytes(),
        "share/a_gfx942.dat": b"\x82",
        "share/rocm-channel/canary/build.json": '{"gcc_version": "11.3.0", "x": "\u00e9"}'.encode(),
    }
    return write_conda(tmp_path / "x.conda", files, conda_info(["gfx942"]))


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write_conda(tmp_path / "good.conda", {"lib/x.so": LIB942}, conda_info(["gfx942"]))


def entries(cache: ReadingCache) -> list[Path]:
    return sorted(cache.folder.iterdir()) if cache.folder.exists() else []


class Reads:
    """Counts the files that a verification reads."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def verify(self, path: Path, cache: ReadingCache | None, **options: object) -> Report:
        self.names = []
        return verify_path(path, cache=cache, progress=self.names.append, **options)  # type: ignore[arg-type]


def test_the_second_time_nothing_is_read_and_the_report_is_the_same(
    cache: ReadingCache, package: Path
) -> None:
    reads = Reads()
    plain = reads.verify(package, None)
    assert plain.sha256 is None
    first = reads.verify(package, cache)
    assert reads.names
    second = reads.verify(package, cache)
    assert reads.names == []
    assert second == first
    assert second.inventory == first.inventory == plain.inventory
    assert second.sha256 is not None
    assert second.digest() == plain.digest()
    assert len(entries(cache)) == 1


def test_an_entry_is_found_by_content_wherever_the_package_lies(
    cache: ReadingCache, package: Path, tmp_path: Path
) -> None:
    reads = Reads()
    reads.verify(package, cache)
    moved = Path(shutil.copy(package, tmp_path / "moved.conda"))
    report = reads.verify(moved, cache)
    assert reads.names == []
    assert report.path == str(moved)


def test_other_bytes_of_the_same_size_are_read(cache: ReadingCache, package: Path) -> None:
    reads = Reads()
    reads.verify(package, cache)
    data = bytearray(package.read_bytes())
    data[len(data) // 2] ^= 1
    package.write_bytes(data)
    report = reads.verify(package, cache)
    assert reads.names
    assert report.verdict == "fail"


def test_want_and_policy_are_judged_anew(cache: ReadingCache, good: Path, tmp_path: Path) -> None:
    reads = Reads()
    assert reads.verify(good, cache).verdict == "pass"
    assert reads.verify(good, cache, want=frozenset({"gfx90a"})).verdict == "fail"
    policy = tmp_path / "p.toml"
    policy.write_text("targets = ['gfx90a']\n")
    assert reads.verify(good, cache, policy=policy).verdict == "fail"
    assert reads.names == []


def test_a_scan_is_another_reading(cache: ReadingCache, package: Path) -> None:
    reads = Reads()
    reads.verify(package, cache)
    reads.verify(package, cache, scan=True)
    assert reads.names
    assert len(entries(cache)) == 2


def test_code_that_changed_reads_again(
    cache: ReadingCache, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads()
    reads.verify(package, cache)
    monkeypatch.setattr(reading_cache, "_readers_digest", lambda: "0" * 64)
    reads.verify(package, cache)
    assert reads.names


@pytest.mark.parametrize("damage", [b"", b"text", None, "cut", "flip", "shape"])
def test_an_entry_that_cannot_be_read_is_not_there(
    cache: ReadingCache, package: Path, damage: bytes | str | None
) -> None:
    import zstandard

    reads = Reads()
    first = reads.verify(package, cache)
    (entry,) = entries(cache)
    data = entry.read_bytes()
    if damage is None:
        entry.unlink()
        entry.mkdir()
    elif damage == "cut":
        entry.write_bytes(data[:-20])
    elif damage == "flip":
        entry.write_bytes(data[:200] + bytes([data[200] ^ 4]) + data[201:])
    elif damage == "shape":
        entry.write_bytes(zstandard.compress(b'{"kind": "conda package", "files": 7}'))
    else:
        assert isinstance(damage, bytes)
        entry.write_bytes(damage)
    assert reads.verify(package, cache) == first
    assert reads.names
    if damage is not None:
        reads.verify(package, cache)
        assert reads.names == [], "the good entry took the place of the bad one"


def test_damaged_packages_are_not_kept(cache: ReadingCache, package: Path) -> None:
    package.write_bytes(package.read_bytes()[:-30])
    assert verify_path(package, cache=cache).verdict == "fail"
    assert entries(cache) == []


def test_a_package_that_changes_while_it_is_read_is_not_kept(cache: ReadingCache, package: Path) -> None:
    def touch(_name: str) -> None:
        os.utime(package, ns=(1, 1))

    verify_path(package, cache=cache, progress=touch)
    assert entries(cache) == []


def test_a_folder_that_cannot_be_written_does_not_matter(good: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert verify_path(good, cache=ReadingCache(tmp_path / "file" / "cache")).verdict == "pass"


def test_files_and_folders_are_not_kept(cache: ReadingCache, tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(LIB942)
    for path in (tmp_path / "x.so", tmp_path):
        assert verify_path(path, cache=cache).sha256 is None
    assert entries(cache) == []


def test_what_was_not_used_for_longest_goes(
    cache: ReadingCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_cache, "_MAX_ENTRIES", 3)
    packages = []
    for number in range(5):
        info = conda_info(["gfx942"])
        made = write_conda(tmp_path / f"{number}.conda", {"x.so": LIB942, "n": b"x" * number}, info)
        packages.append(made)
        verify_path(made, cache=cache)
        for age, entry in enumerate(sorted(entries(cache), key=lambda e: e.stat().st_mtime_ns, reverse=True)):
            os.utime(entry, ns=(10**9 * (1000 - age), 10**9 * (1000 - age)))
    assert len(entries(cache)) == 3
    reads = Reads()
    reads.verify(packages[4], cache)
    assert reads.names == []
    reads.verify(packages[0], cache)
    assert reads.names


def test_nothing_half_written_is_left(cache: ReadingCache, package: Path) -> None:
    verify_path(package, cache=cache)
    (entry,) = entries(cache)
    assert entry.name.endswith(".json.zst")
    assert stat.S_IMODE(entry.stat().st_mode) == 0o644


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repo_root: Path) -> None:
    monkeypatch.setenv("ROCM_CHANNEL_CACHE", str(tmp_path))
    assert default_folder() == tmp_path / "verify"
    monkeypatch.delenv("ROCM_CHANNEL_CACHE")
    monkeypatch.setenv("ROCM_CHANNEL_ROOT", str(repo_root))
    assert default_folder() == repo_root / ".cache" / "verify"
    monkeypatch.setenv("ROCM_CHANNEL_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr("channel_tools.model.project.project_root", _no_project)
    assert default_folder() == tmp_path / "xdg" / "rocm-channel" / "verify"


def _no_project() -> Path:
    from channel_tools.model.errors import RecipeError

    raise RecipeError("none")
