"""The command `verify`: tables, JSON and exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from channel_tools.cli.verify import verify
from channel_tools.verify.policy_file import PolicyError
from tests.unit.test_verify_support import (
    DATA,
    code_object,
    conda_info,
    host_library,
    target_bundle,
    write_conda,
)

app = typer.Typer()
app.command()(verify)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_CHANNEL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    info = conda_info(["gfx942"], "rocm72_gfx942_h0_0", rocm_version="7.2")
    return write_conda(tmp_path / "canary.conda", {"lib/x.so": host_library(target_bundle("gfx942"))}, info)


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    files = {"lib/x.so": host_library(target_bundle("gfx90a"))}
    return write_conda(tmp_path / "wrong.conda", files, conda_info(["gfx942"], rocm_version="7.2"))


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout


def test_table_of_a_good_package(package: Path) -> None:
    code, text = run(package)
    assert code == 0
    assert text.splitlines()[1].split() == [
        *("canary", "1.0", "rocm72_gfx942_h0_0"),
        *("gfx942", "7.2", text.splitlines()[1].split()[5], "kB", "gfx942", "pass"),
    ]


def test_faults_stand_below_the_table_with_what_to_do(package: Path, wrong: Path) -> None:
    code, text = run(package, wrong)
    assert code == 30
    _, below, comparison = text.split("\n\n")
    assert f"{wrong}: lib/x.so: code for gfx90a" in below
    assert "found: gfx90a" in below
    assert "expected: gfx942" in below
    assert "do: build it again" in below
    assert str(package) not in below
    assert comparison.startswith(f"{package} -> {wrong}")


def test_the_worst_comes_first(package: Path, wrong: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.conda"
    cut.write_bytes(package.read_bytes()[:-40])
    code, text = run(package, wrong, cut)
    assert code == 30
    rows = text.partition("\n\n")[0].splitlines()
    verdicts = [row.split()[-1] for row in rows if row.startswith(("canary", str(tmp_path)))]
    assert verdicts == ["fail", "fail", "pass"]
    assert rows[1].startswith(str(cut))
    assert "->" not in text, "three are not compared"


def test_one_line_a_file_that_fails_or_holds_code(tmp_path: Path) -> None:
    files = {
        "lib/a.so": host_library(target_bundle("gfx942")),
        "lib/b.so": host_library(target_bundle("gfx90a", "gfx942")),
        "lib/c.so": host_library(target_bundle("gfx942"))[:-50],
        "lib/host.so": host_library(),
        "share/t_gfx90a.dat": b"x",
    }
    code, text = run(write_conda(tmp_path / "x.conda", files, conda_info(["gfx942"])))
    assert code == 30
    rows = [line.split() for line in text.partition("\n\n")[0].splitlines() if line.startswith("  ")]
    assert [row[0] for row in rows] == ["lib/c.so", "lib/b.so", "share/t_gfx90a.dat", "lib/a.so"]
    assert " ".join(rows[1]).endswith("gfx90a, gfx942 code for gfx90a")
    assert "(named for gfx90a)" in " ".join(rows[2])
    assert "policy: the package's metadata" in text


def test_the_same_fault_of_many_files_is_told_once(tmp_path: Path) -> None:
    files = {f"lib/x{number}.so": host_library(target_bundle("gfx90a")) for number in range(60)}
    _, text = run(write_conda(tmp_path / "x.conda", files, conda_info(["gfx942"])))
    below = text.partition("\n\n")[2]
    assert below.count(": code for gfx90a") == 1
    assert "and 57 more: code for gfx90a" in below
    assert "  and 20 more: see --json" in text


def test_damage_has_an_exit_code_of_its_own() -> None:
    code, text = run(DATA / "bad_bundle_trunc.co")
    assert code == 31
    assert "bad_bundle_trunc.co at 0x1000: bundle entry" in text
    assert "expected: an end at or before 0x1800" in text


def test_json(package: Path, wrong: Path) -> None:
    code, text = run(package, wrong, "--json", "--want", "gfx942")
    result = json.loads(text)
    assert code == 30
    assert result["version"] == 1
    assert result["verdict"] == "fail"
    assert result["want"] == ["gfx942"]
    good, bad = result["packages"]
    assert (good["verdict"], good["name"], good["rocm_version"], good["declared"]) == (
        "pass",
        "canary",
        "7.2",
        ["gfx942"],
    )
    assert (bad["verdict"], bad["targets"], bad["damaged"]) == ("fail", ["gfx90a"], False)
    assert [(file["path"], file["targets"]) for file in result["files"]] == [
        ("lib/x.so", ["gfx942"]),
        ("lib/x.so", ["gfx90a"]),
    ]
    assert result["files"][0]["faults"] == []
    assert "gfx90a" in result["files"][1]["faults"][0]


def test_two_builds_of_a_package_are_compared(package: Path, wrong: Path, tmp_path: Path) -> None:
    _, text = run(package, wrong)
    assert f"{package} -> {wrong}" in text
    assert "targets - gfx942" in text and "targets + gfx90a" in text
    code, text = run("--diff", wrong, package)
    assert code == 30
    assert "package or file" not in text
    assert "code for gfx90a" in text, "a build that fails says so in a comparison, too"
    _, text = run("--diff", package, package)
    assert text.splitlines()[:2] == [f"{package} -> {package}", "  no difference"]
    _, text = run("--json", package, wrong)
    assert json.loads(text)["comparison"]["targets"] == {"only_left": ["gfx942"], "only_right": ["gfx90a"]}
    other = tmp_path / "x.so"
    other.write_bytes(host_library(target_bundle("gfx942")))
    _, text = run("--json", package, other)
    assert "comparison" not in json.loads(text)
    _, text = run("--json", "--diff", package, other)
    assert json.loads(text)["comparison"]["targets"] == {"only_left": [], "only_right": []}


def test_policy(package: Path, tmp_path: Path) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text("targets = ['gfx90a']\n")
    code, text = run(package, "--policy", policy)
    assert code == 30
    assert "expected: gfx90a, as the policy says" in text
    assert f"policy: the package's metadata, {policy}" in text
    policy.write_text("target = ['gfx90a']\n")
    result = CliRunner().invoke(app, [str(package), "--policy", str(policy)])
    assert isinstance(result.exception, PolicyError)


def test_sarif_goes_to_a_file_or_to_standard_output(package: Path, wrong: Path, tmp_path: Path) -> None:
    code, text = run(package, wrong, "--sarif", tmp_path / "out.sarif")
    assert code == 30
    assert "package or file" in text
    kept = json.loads((tmp_path / "out.sarif").read_text())
    code, text = run(package, wrong, "--sarif", "-")
    assert code == 30
    assert json.loads(text) == kept
    assert {result["ruleId"] for result in kept["runs"][0]["results"]} == {"surplus-target", "missing-target"}
    code, text = run(package, "--json", "--sarif", tmp_path / "good.sarif")
    assert (code, json.loads(text)["verdict"]) == (0, "pass")


def test_scan_finds_code_in_files_of_no_known_kind(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"data" * 100 + code_object("gfx942") + b"more")
    _, text = run(path, "--json")
    assert json.loads(text)["files"] == []
    _, text = run(path, "--json", "--scan")
    (file,) = json.loads(text)["files"]
    assert (file["kind"], file["targets"]) == ("data", ["gfx942"])


def test_the_second_run_reads_nothing(package: Path, tmp_path: Path) -> None:
    first = run(package, "--json")
    (entry,) = (tmp_path / "cache" / "verify").iterdir()
    written = entry.stat().st_mtime_ns
    os.utime(entry, ns=(1, 1))
    assert run(package, "--json") == first
    assert entry.stat().st_mtime_ns > 1, "it was used"
    entry.unlink()
    _, without = run(package, "--json", "--no-cache")
    assert list((tmp_path / "cache" / "verify").iterdir()) == []
    one, other = json.loads(first[1]), json.loads(without)
    assert (one["packages"][0].pop("sha256"), other["packages"][0].pop("sha256"))[1] is None
    assert one == other
    assert written


def test_channel_folder(tmp_path: Path, package: Path) -> None:
    code, text = run(tmp_path, "--json")
    assert code == 0
    assert [entry["path"] for entry in json.loads(text)["packages"]] == [str(package)]


def test_folder_lists_its_files(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(host_library(target_bundle("gfx90a", "gfx942")))
    code, text = run(tmp_path)
    assert code == 0
    assert any(line.split()[0] == "x.so" and "gfx90a, gfx942" in line for line in text.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no/such/path"], "no such file or folder"),
        ([".", "--want", "sm_90"], "no GPU target"),
        ([], "paths"),
        (["--diff", "."], "takes two"),
        (["--json", "--sarif", "-", "."], "one of the two"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.output
