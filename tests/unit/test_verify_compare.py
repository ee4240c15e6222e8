"""What differs between two builds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from channel_tools.verify import Report, text, verify_path
from channel_tools.verify.compare import Change, Comparison, Sides, compare
from tests.unit.test_verify_support import (
    DATA,
    bundle,
    code_object,
    conda_info,
    device_id,
    host_library,
    target_bundle,
    write_conda,
    write_wheel,
)

LIB942 = host_library(target_bundle("gfx942"))
LIB90A = host_library(target_bundle("gfx90a"))
TWICE942 = host_library(
    bundle([(device_id("gfx942"), code_object("gfx942"))]),
    bundle([(device_id("gfx942"), code_object("gfx942"))]),
)


def build(
    path: Path, files: Mapping[str, bytes], *, extra: dict[str, Any] | None = None, **index: Any
) -> Report:
    """A conda package whose paths.json says what is in it, as engines write it."""
    info = conda_info([], **(extra or {}))
    info["info/index.json"] = json.dumps(json.loads(info["info/index.json"]) | index).encode()
    paths = [
        {"_path": name, "path_type": "hardlink", "sha256": sha256(data).hexdigest()}
        for name, data in files.items()
    ]
    info["info/paths.json"] = json.dumps({"paths": paths}).encode()
    return verify_path(write_conda(path, files, info))


def lines(made: Comparison) -> str:
    return "\n".join(text.comparison(made))


def test_two_equal_builds(tmp_path: Path) -> None:
    files = {"lib/x.so": LIB942, "share/a": b"a"}
    made = compare(build(tmp_path / "a.conda", files), build(tmp_path / "b.conda", files))
    assert made.equal
    assert made.by_content
    assert "no difference" in lines(made)
    assert made.to_json()["equal"] is True


def test_targets_files_dependencies_and_metadata(tmp_path: Path) -> None:
    left = build(
        tmp_path / "a.conda",
        {"lib/x.so": LIB90A, "lib/old.txt": b"1234", "share/same": b"s"},
        build="rocm70_gfx90a_h0_0",
        depends=["amdgpu-arch ==9.0.10", "libgcc >=11"],
        extra={"rocm_version": "7.0"},
    )
    right = build(
        tmp_path / "b.conda",
        {"lib/x.so": LIB942, "lib/new.txt": b"12", "share/same": b"s"},
        build="rocm72_gfx942_h0_0",
        depends=["amdgpu-arch ==9.4.2", "libgcc >=11"],
        extra={"rocm_version": "7.2"},
    )
    made = compare(left, right)
    assert made.targets == Sides(("gfx90a",), ("gfx942",))
    assert made.depends == Sides(("amdgpu-arch ==9.0.10",), ("amdgpu-arch ==9.4.2",))
    assert made.files == Sides(("lib/old.txt",), ("lib/new.txt",))
    assert made.sizes == {"lib/old.txt": 4, "lib/new.txt": 2}
    assert Change("rocm_version", "7.0", "7.2") in made.metadata
    assert Change("build", "rocm70_gfx90a_h0_0", "rocm72_gfx942_h0_0") in made.metadata
    (changed,) = made.changed
    assert changed.path == "lib/x.so"
    assert Change("targets", ["gfx90a"], ["gfx942"]) in changed.changes
    shown = lines(made)
    for expected in (
        "targets - gfx90a",
        "targets + gfx942",
        "file + lib/new.txt (2 bytes)",
        "depends - amdgpu",
    ):
        assert expected in shown


def test_the_same_size_with_other_content(tmp_path: Path) -> None:
    made = compare(
        build(tmp_path / "a.conda", {"share/x": b"1234"}), build(tmp_path / "b.conda", {"share/x": b"1235"})
    )
    assert [change.what for change in made.changed[0].changes] == ["content"]
    assert "share/x: other content of the same size" in lines(made)


def test_without_digests_it_says_that_bytes_were_not_compared(tmp_path: Path) -> None:
    one = verify_path(write_wheel(tmp_path / "a.whl", {"x/x.so": LIB942, "x/y": b"1234"}))
    two = verify_path(write_wheel(tmp_path / "b.whl", {"x/x.so": TWICE942, "x/y": b"1235"}))
    made = compare(one, two)
    assert not made.by_content
    assert "not compared byte by byte" in lines(made)
    (changed,) = made.changed
    assert changed.path == "x/x.so"
    assert Change("objects", 1, 2) in changed.changes


def test_linkage_of_real_libraries() -> None:
    """Two single files: they are compared with each other, whatever their names."""
    made = compare(verify_path(DATA / "mini21_ccob_v2.so"), verify_path(DATA / "mini21_gfx950.so"))
    assert made.targets == Sides(("gfx942",), ("gfx950",))
    (changed,) = made.changed
    assert {"size", "targets"} <= {change.what for change in changed.changes}
    assert made.files == Sides()


def test_symbols_libraries_and_run_paths(tmp_path: Path) -> None:
    report = verify_path(DATA / "mini21_ccob_v2.so")
    (file,) = report.files
    assert file.linkage is not None
    assert file.linkage.symbols > 0
    other = replace(
        file.linkage,
        needed=("libz.so.1",),
        runpath=("$ORIGIN",),
        needs={"libc.so.6": ("GLIBC_2.99",)},
        symbol_digest="0" * 64,
    )
    made = compare(report, replace(report, files=(replace(file, linkage=other),)))
    (changed,) = made.changed
    found = {change.what: (change.left, change.right) for change in changed.changes}
    assert found["needed"][1] == ["libz.so.1"]
    assert found["runpath"][1] == ["$ORIGIN"]
    assert found["newest symbol versions"][1] == {"GLIBC": "2.99"}
    assert found["exported symbols"] == (file.linkage.symbols, file.linkage.symbols)
    assert f"other exported symbols ({file.linkage.symbols} in both)" in lines(made)


def commands(*lines: str) -> bytes:
    return json.dumps([{"file": f"{n}.cpp", "command": line} for n, line in enumerate(lines)]).encode()


def test_flags_are_counted_by_unit(tmp_path: Path) -> None:
    """The last -O of a command is the one that counts."""

    def made(name: str, *lines: str) -> Report:
        record = {"share/rocm-channel/canary/compile_commands.json": commands(*lines)}
        return build(tmp_path / name, {"lib/x.so": LIB942, **record})

    left = made("a.conda", "cc -O3 -O2 -I/a -c 0.cpp", "cc -O2 -Wall -c 1.cpp")
    right = made("b.conda", "cc -O2 -O3 -I/b -c 0.cpp", "cc -O2 -c 1.cpp", "cc -O2 -c 2.cpp")
    comparison = compare(left, right)
    assert comparison.flags == (
        Change("units", 2, 3),
        Change("-O3", 0, 1),
        Change("-Wall", 1, 0),
        Change("-c", 2, 3),
    )
    assert "flag -O3: in 0 -> 1 units" in lines(comparison)
    assert compare(left, made("c.conda", "nonsense '")).flags[0] == Change("units", 2, 0)


def test_json_is_plain_data(tmp_path: Path) -> None:
    left = build(tmp_path / "a.conda", {"lib/x.so": LIB90A})
    right = build(tmp_path / "b.conda", {"lib/x.so": LIB942, "lib/y": b""})
    data = json.loads(json.dumps(compare(left, right).to_json()))
    assert data["equal"] is False
    assert data["files"] == {"only_left": [], "only_right": ["lib/y"]}
    assert data["changed"][0]["path"] == "lib/x.so"
