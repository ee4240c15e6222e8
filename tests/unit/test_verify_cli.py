"""The command `verify`: tables, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from channel_tools.cli.verify import verify
from tests.unit.test_verify_support import (
    DATA,
    conda_info,
    host_library,
    target_bundle,
    write_conda,
)

app = typer.Typer()
app.command()(verify)


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
    below = text.partition("\n\n")[2]
    assert f"{wrong}: lib/x.so: code for gfx90a" in below
    assert "found: gfx90a" in below
    assert "expected: gfx942" in below
    assert "do: build it again" in below
    assert str(package) not in below


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
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.output
