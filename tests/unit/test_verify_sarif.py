"""Reports as SARIF 2.1.0, and what is kept of a report beside a package."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from channel_tools.verify import verify_path
from channel_tools.verify.catalogue import CATALOGUE
from channel_tools.verify.report import Report, to_json
from channel_tools.verify.sarif import to_sarif
from tests.unit.test_verify_support import DATA, conda_info, host_library, target_bundle, write_conda

LIB942 = host_library(target_bundle("gfx942"))
LIB90A = host_library(target_bundle("gfx90a"))


@pytest.fixture
def reports(tmp_path: Path) -> list[Report]:
    """One that passes, one with other code and a broken file, a folder, a damaged single file."""
    good = write_conda(tmp_path / "good.conda", {"lib/x.so": LIB942}, conda_info(["gfx942"]))
    files = {"lib/a file.so": LIB90A, "lib/y.so": LIB942[:-50], "lib/z.so": LIB942}
    bad = write_conda(tmp_path / "bad #1.conda", files, conda_info(["gfx942"]))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "k.hsaco").write_bytes(b"no code")
    return [verify_path(path) for path in (good, bad, folder, DATA / "bad_bundle_trunc.co")]


def run_of(log: dict[str, Any]) -> dict[str, Any]:
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def test_what_the_schema_requires(reports: list[Report]) -> None:
    """The required properties, types and patterns of sarif-schema-2.1.0.json for all objects used."""
    log = to_sarif(reports)
    assert set(log) == {"$schema", "version", "runs"}
    run = run_of(json.loads(json.dumps(log)))
    driver = run["tool"]["driver"]
    assert driver["name"] and re.fullmatch(r"\d+\.\d+\.\d+", driver["semanticVersion"])
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids))
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"] and rule["fullDescription"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
    for artifact in run["artifacts"]:
        check_uri(artifact["location"]["uri"])
        assert artifact.get("length", 0) >= 0
        assert -1 <= artifact.get("parentIndex", -1) < len(run["artifacts"])
        assert set(artifact.get("roles", [])) <= {"analysisTarget", "directory"}
    assert run["results"]
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] == "error"
        assert result["message"]["text"]
        assert all(isinstance(value, str) for value in result["partialFingerprints"].values())
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        place = physical["artifactLocation"]
        assert run["artifacts"][place["index"]]["location"]["uri"] == place["uri"]
        assert physical.get("region", {"byteOffset": 0})["byteOffset"] >= 0
        assert location["logicalLocations"][0]["fullyQualifiedName"]


def check_uri(uri: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9/._~%!@+=,:-]+", uri), uri
    parts = urlsplit(uri)
    assert parts.scheme in ("", "file")
    assert not parts.netloc and not parts.query and not parts.fragment


def test_a_result_for_each_fault_at_its_file(reports: list[Report]) -> None:
    run = run_of(to_sarif(reports))
    found = []
    for result in run["results"]:
        index = result["locations"][0]["physicalLocation"]["artifactLocation"]["index"]
        path = unquote(run["artifacts"][index]["location"]["uri"])
        parent = run["artifacts"][index].get("parentIndex")
        holder = None if parent is None else unquote(run["artifacts"][parent]["location"]["uri"])
        found.append((result["ruleId"], path.rpartition("/")[2], (holder or "").rpartition("/")[2]))
    assert sorted(found) == [
        ("damage", "bad_bundle_trunc.co", ""),
        ("damage", "bad_bundle_trunc.co", ""),
        ("damage", "k.hsaco", ""),
        ("damage", "y.so", "bad #1.conda"),
        ("surplus-target", "a file.so", "bad #1.conda"),
    ]
    assert len(run["results"]) == sum(len(report.located_faults()) for report in reports)
    offsets = [r["locations"][0]["physicalLocation"].get("region") for r in run["results"]]
    assert {"byteOffset": 0x1000} in offsets


def test_a_package_that_passes_is_an_artifact_without_a_result(tmp_path: Path) -> None:
    good = write_conda(tmp_path / "good.conda", {"lib/x.so": LIB942}, conda_info(["gfx942"]))
    report = verify_path(good)
    run = run_of(to_sarif([report]))
    assert run["results"] == []
    (artifact,) = run["artifacts"]
    assert artifact["properties"]["verdict"] == "pass"
    assert artifact["properties"]["reportDigest"] == report.digest()
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(CATALOGUE)


def test_more_results_than_ci_systems_take_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"lib/x{number}.so": LIB90A for number in range(10)}
    path = write_conda(tmp_path / "x.conda", files, conda_info(["gfx942"]))
    monkeypatch.setattr("channel_tools.verify.sarif._MAX_RESULTS", 6)
    run = run_of(to_sarif([verify_path(path)]))
    assert (len(run["results"]), run["properties"]["omittedResults"]) == (6, 5)


def test_fingerprints_do_not_depend_on_the_place(tmp_path: Path) -> None:
    prints = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        path = write_conda(tmp_path / folder / "x.conda", {"lib/x.so": LIB90A}, conda_info(["gfx942"]))
        results = run_of(to_sarif([verify_path(path)]))["results"]
        prints.append([result["partialFingerprints"] for result in results])
    assert prints[0] == prints[1]
    assert len(prints[0]) == len({str(entry) for entry in prints[0]}) == 2


def test_relative_paths_stay_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("x.conda", "a:b.conda"):
        write_conda(Path(name), {"lib/x.so": LIB90A}, conda_info(["gfx942"]))
    uris = [
        run_of(to_sarif([verify_path(Path(name))]))["artifacts"][0]["location"]["uri"]
        for name in ("x.conda", "a:b.conda")
    ]
    assert uris == ["x.conda", "./a:b.conda"]


def test_the_digest_is_the_same_on_every_machine(tmp_path: Path) -> None:
    path = write_conda(tmp_path / "x.conda", {"lib/x.so": LIB90A}, conda_info(["gfx942"]))
    (tmp_path / "deep" / "er").mkdir(parents=True)
    copy = Path(shutil.copy(path, tmp_path / "deep" / "er"))
    one, other = verify_path(path), verify_path(copy)
    assert one.all_faults() != other.all_faults()
    assert re.fullmatch(r"[0-9a-f]{64}", one.digest())
    assert one.digest() == other.digest()
    for file in ("x.co", "y.so"):
        (tmp_path / file).write_bytes(b"no ELF\0")
        (tmp_path / "deep" / file).write_bytes(b"no ELF\0")
        assert verify_path(tmp_path / file).digest() == verify_path(tmp_path / "deep" / file).digest()


def test_the_digest_covers_findings_want_and_policy(tmp_path: Path) -> None:
    path = write_conda(tmp_path / "x.conda", {"lib/x.so": LIB942}, conda_info(["gfx942"]))
    policy = tmp_path / "p.toml"
    policy.write_text("[budget]\npackage_mib = 99\n")
    digests = [
        verify_path(path).digest(),
        verify_path(path, frozenset({"gfx942"})).digest(),
        verify_path(path, policy=policy).digest(),
    ]
    write_conda(path, {"lib/y.so": LIB942}, conda_info(["gfx942"]))
    digests.append(verify_path(path).digest())
    assert len(set(digests)) == 4


def test_the_summary_is_small_and_names_no_folder(tmp_path: Path) -> None:
    files = {f"lib/x{number}.so": LIB90A for number in range(60)}
    path = write_conda(tmp_path / "x.conda", files, conda_info(["gfx942"]))
    report = verify_path(path)
    summary = report.summary()
    assert summary["verdict"] == "fail"
    assert summary["digest"] == report.digest()
    assert summary["targets"] == ["gfx90a"]
    assert (summary["files_with_code"], summary["objects"]) == (60, 60)
    assert (summary["fault_count"], len(summary["faults"])) == (61, 20)
    assert summary["policy"]["sources"] == ["the package's metadata"]
    assert str(tmp_path) not in json.dumps(summary)


def test_recorded_commands_are_cut_in_the_report_and_whole_in_the_digest() -> None:
    report = verify_path(DATA / "mini21_ccob_v2.so")
    (file,) = report.files
    assert file.linkage is not None

    def recorded(last: str) -> Report:
        linkage = replace(file.linkage, flags=(*["cc -O2 -c x.c"] * 30, last))  # type: ignore[type-var]
        return replace(report, files=(replace(file, linkage=linkage),))

    shown = recorded("cc -O3 -c y.c").to_json()["files"][0]["linkage"]
    assert (len(shown["flags"]), shown["flag_lines"]) == (20, 31)
    assert recorded("cc -O3 -c y.c").digest() != recorded("cc -O2 -c y.c").digest()


def test_faults_in_parts_say_what_the_lines_say(reports: list[Report]) -> None:
    for file in to_json(reports)["files"]:
        assert len(file["details"]) == len(file["faults"])
        for line, parts in zip(file["faults"], file["details"], strict=True):
            assert parts["rule"] in CATALOGUE
            assert parts["what"] in line
            assert parts["do"] in line
