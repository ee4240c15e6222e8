"""The doctor on recorded hosts: what each check says of a host that is right, and of one that is not."""

from __future__ import annotations

import filecmp
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from channel_tools.cli.main import app
from channel_tools.diagnose.doctor import doctor
from channel_tools.diagnose.doctor.checks import Context, Status
from channel_tools.diagnose.doctor.data import check_texts, doctor_data
from channel_tools.diagnose.doctor.docs import table
from channel_tools.diagnose.doctor.gpus import read_gpus, target_name
from channel_tools.diagnose.doctor.hosts import open_host
from channel_tools.model.matrix import read_matrix
from tests.unit import doctor_hosts

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted({*doctor_hosts.BASES, *doctor_hosts.variants()})
PASSING, FAILING = {"ok"}, {"warning", "error"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hosts")
    for name in NAMES:
        doctor_hosts.make(name, folder)
    return folder


@cache
def statuses_of(host: Path) -> dict[str, str]:
    return statuses(host)


def statuses(host: Path) -> dict[str, str]:
    """Status of every check, by the checks themselves: nothing is caught."""
    opened = open_host(host)
    context = Context(opened, doctor.active_prefix(opened), doctor_data())
    return {one.id: one.run(context).status.word for one in doctor.all_checks().values()}


# --- the hosts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_checks_say_what_is_expected(recorded: Path, name: str) -> None:
    expected = doctor_hosts.variants().get(name, {}).get("expect", {})
    found = statuses_of(recorded / name)
    assert {check: found[check] for check in expected} == expected


@pytest.mark.parametrize("name", ["mi250x-node", "mi300x-node"])
def test_a_good_node_has_nothing_to_say(recorded: Path, name: str) -> None:
    assert set(statuses_of(recorded / name).values()) == PASSING


def test_a_fault_is_told_by_the_checks_that_are_about_it(recorded: Path) -> None:
    others = {}
    for name, change in doctor_hosts.variants().items():
        if change.get("base") in ("mi250x-node", "mi300x-node"):
            failing = {check for check, status in statuses_of(recorded / name).items() if status in FAILING}
            others[name] = failing - set(change["expect"])
    assert {name: checks for name, checks in others.items() if checks} == {}


def test_every_check_has_a_passing_and_a_failing_host(recorded: Path) -> None:
    seen: dict[str, set[str]] = defaultdict(set)
    for name in NAMES:
        for check, status in statuses_of(recorded / name).items():
            seen[check].add(status)
    assert set(seen) == set(check_texts())
    assert [check for check, found in seen.items() if not found & PASSING] == []
    assert [check for check, found in seen.items() if not found & FAILING] == []


def test_warnings_and_errors_say_what_to_do(recorded: Path) -> None:
    for name in NAMES:
        for result in doctor.examine(open_host(recorded / name)):
            told = result.to_json()
            assert told["found"] and told["wanted"] and told["why"], (name, told)
            if result.status >= Status.WARNING:
                assert told["fix"], (name, told)
                assert "\n" not in told["found"] + told["fix"]


def test_the_hosts_in_the_tree_are_those_that_are_made(recorded: Path) -> None:
    for name in doctor_hosts.BASES:
        kept, made = doctor_hosts.HOSTS / name, recorded / name
        here, there = (
            sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) for folder in (kept, made)
        )
        assert here == there, "run: python -m tests.unit.doctor_hosts"
        files = [path for path in here if (kept / path).is_file() and not (kept / path).is_symlink()]
        assert filecmp.cmpfiles(kept, made, files, shallow=False)[0] == files


# --- GPUs -----------------------------------------------------------------------------------------


def test_gpus_are_those_of_rocm_bootstrap(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rocm_bootstrap import _platform, detect_gpus

    for name in NAMES:
        host = open_host(recorded / name)
        nodes = host.path("/sys/class/kfd/kfd/topology/nodes")
        monkeypatch.setattr(_platform, "KFD_TOPOLOGY", nodes)
        monkeypatch.setattr(_platform, "run_clinfo", lambda: "")
        theirs = {(gpu.node_id, gpu.target.name) for gpu in detect_gpus()}
        assert {(gpu.node, gpu.target) for gpu in read_gpus(host, ())} == theirs


def test_target_names_are_those_of_the_registry() -> None:
    from rocm_bootstrap import ALL_TARGETS

    for target in ALL_TARGETS:
        if "-" in target.name:  # gfx1250-strict has the number of gfx1250
            continue
        assert target_name(target.gfx_target_version) == target.name


def test_compute_units(recorded: Path) -> None:
    for name, units in (("mi300x-node", 304), ("mi250x-node", 110), ("laptop", 12)):
        assert {gpu.compute_units for gpu in read_gpus(open_host(recorded / name), ())} == {units}


# --- data -----------------------------------------------------------------------------------------


def test_tables_follow_the_matrix_and_the_guards() -> None:
    data = doctor_data()
    matrix = read_matrix(ROOT / "variants" / "conda_build_config.yaml")
    assert sorted(data.archs) == sorted(set(matrix.values["rocm_arch"]))
    assert sorted(data.rocm) == sorted(set(matrix.values["rocm_version"]))
    assert {str(data.gcc_major)} == set(matrix.values["cxx_compiler_version"])
    script = (ROOT / "build_scripts/lib/arch.sh").read_text()
    names = re.search(r"ARCH_VARIABLES=\((.*?)\)", script, re.DOTALL)
    assert names and list(data.arch_variables) == names[1].split()


def test_the_page_lists_every_check() -> None:
    assert table() in (ROOT / "docs/doctor.md").read_text(), (
        "paste: python -m channel_tools.diagnose.doctor.docs"
    )


def test_sources_have_the_form_of_reports() -> None:
    for identity, about in check_texts().items():
        for source in about.sources:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+|[A-Z][\w ,.]+|vLLM [\w ,.]+", source), (
                identity,
                source,
            )


# --- the command ----------------------------------------------------------------------------------


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "channel_tools", "doctor", *arguments],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        check=False,
    )


def test_a_bare_root_takes_less_than_two_seconds(tmp_path: Path) -> None:
    for root in (tmp_path, doctor_hosts.HOSTS / "container"):
        start = time.monotonic()
        done = command("--root", root)
        assert time.monotonic() - start < 2
        assert done.returncode == 80, done.stderr
        assert "Traceback" not in done.stderr


def test_an_image_tells_nothing_of_gpus(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    found = {one.check.id: one.status for one in doctor.examine(open_host(tmp_path), ["use"])}
    assert [name for name, status in found.items() if status >= Status.WARNING] == ["rocm-userspace"]
    assert found["driver"] == found["gpus"] == Status.SKIPPED


def test_this_host(tmp_path: Path) -> None:
    start = time.monotonic()
    done = command("--json")
    assert time.monotonic() - start < 4
    assert done.returncode in (0, 80), done.stderr
    assert not [one for one in json.loads(done.stdout)["checks"] if "the check failed" in one["found"]]


KEYS = {"id", "scope", "title", "status", "found", "wanted", "why", "fix", "sources"}


def test_json(recorded: Path) -> None:
    done = command("use", "--json", "--root", recorded / "laptop")
    assert done.returncode == 80
    assert done.stderr == ""
    report: dict[str, Any] = json.loads(done.stdout)
    assert set(report) == {"version", "status", "counts", "checks"}
    assert (report["version"], report["status"]) == (1, "error")
    assert {one["scope"] for one in report["checks"]} == {"use"}
    assert all(set(one) == KEYS for one in report["checks"])
    assert sum(report["counts"].values()) == len(report["checks"])


@pytest.mark.parametrize(
    ("host", "arguments", "code"),
    [
        ("mi300x-node", [], 0),
        ("mi300x-node", ["build", "--strict"], 0),
        ("numa-balancing-on", [], 0),
        ("numa-balancing-on", ["--strict"], 81),
        ("numa-balancing-on", ["build", "--strict"], 0),
        ("clang-15", ["build"], 80),
        ("clang-15", ["use", "--strict"], 0),
        ("mi300x-node", ["--prefix", "/home/lena/envs/none"], 2),
        ("mi300x-node", ["neither"], 2),
    ],
)
def test_exit_codes(recorded: Path, host: str, arguments: list[str], code: int) -> None:
    done = command(*arguments, "--root", recorded / host)
    assert done.returncode == code, done.stdout + done.stderr


def test_clang_15_is_refused_with_the_reason(recorded: Path) -> None:
    done = command("build", "--root", recorded / "clang-15")
    assert "Clang 15, which does not know gfx942 and --gcc-install-dir" in done.stdout
    assert "1 error: hip-compiler" in done.stderr


@pytest.mark.parametrize("columns", ["40", "80", "300"])
def test_advice_fits_the_terminal(recorded: Path, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    done = CliRunner().invoke(app, ["doctor", "use", "--root", str(recorded / "laptop")])
    advice = [line for line in done.stdout.splitlines() if line.startswith("           ")]
    advice = [line for line in advice if " " in line.strip()]  # a word that is longer stays whole
    assert len(advice) > 10
    assert max(map(len, advice)) <= {"40": 40, "80": 80, "300": 129}[columns]


def test_containers_are_told_numbers(recorded: Path) -> None:
    done = command("use", "--root", recorded / "container-with-image-groups")
    assert "--group-add 993" in done.stdout


def test_output_is_fit_for_a_terminal(recorded: Path) -> None:
    host = open_host(recorded / "mi300x-node")
    host.environ = {**host.environ, "HIP_PATH": "/x\x1b[31m\udcff\n/hip"}
    found = {one.check.id: one.outcome.found for one in doctor.examine(host)}
    assert found["hip-path"] == r"HIP_PATH=/x\x1b[31m\xff\n/hip"


def test_access_lists_count_on_this_host(recorded: Path) -> None:
    host = open_host(recorded / "not-in-group")
    assert host.opens("/dev/kfd") is None
    host.opens = lambda path: True  # type: ignore[method-assign]
    found = {one.check.id: one.status for one in doctor.examine(host, ["use"])}
    assert (found["kfd-access"], found["render-access"]) == (Status.OK, Status.OK)
    live = open_host(None)
    assert live.opens("/dev/null") is True
    assert live.opens("/dev/no-such-device") is False


def test_another_prefix_is_judged(recorded: Path) -> None:
    host = open_host(recorded / "environment-of-another-arch")
    given = {one.check.id: one for one in doctor.examine(host, ["use"], "/home/lena")}
    assert given["package-archs"].status == Status.SKIPPED


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"environs": {}}', "environs: "),
        ('{"devices": {"/dev/kfd": {"mode": "999", "uid": 0, "gid": 0}}}', "devices./dev/kfd.mode: "),
        ("{", "JSON"),
        ("[]", "object"),
    ],
)
def test_a_record_that_cannot_be_read(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "host.json").write_text(text)
    done = command("--root", tmp_path)
    assert done.returncode == 13
    assert "the record of the host cannot be read" in done.stderr and found in done.stderr
    keys = re.search(r"see the keys in (\S+)", done.stderr)
    assert keys and (ROOT / keys[1]).is_file()


def test_links_do_not_leave_the_root(tmp_path: Path) -> None:
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/rocm").symlink_to("/usr")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "up").symlink_to("../../../../etc/passwd")
    host = open_host(tmp_path)
    assert host.real("/opt/rocm") is None
    assert host.real("/loop") is None
    assert host.text("/up") is None
    assert host.names("/opt") == ["rocm"]


def test_programs_that_hang_are_ended(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 60 & wait\n")
    slow.chmod(0o755)
    start = time.monotonic()
    assert open_host(None).run(str(slow)) is None
    assert time.monotonic() - start < 5


# --- damaged hosts --------------------------------------------------------------------------------


def _garbled(content: bytes, dice: random.Random) -> bytes:
    """The same text with other numbers, without an end, or with letters changed."""
    kind = dice.randrange(3)
    if kind == 0:
        number = dice.choice([b"0", b"9" * 30, b"9" * 5000, "\u0663".encode(), b"-1", b"1e9", b""])
        return re.sub(rb"[0-9]+", lambda _: number, content)
    if kind == 1:
        return content[: dice.randint(0, len(content))]
    changed = bytearray(content)
    for _ in range(min(len(changed), 5)):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


TURNS = int(os.environ.get("DOCTOR_FUZZ_TURNS", "10"))


def _damage(root: Path, dice: random.Random) -> None:
    paths = [path for path in sorted(root.rglob("*")) if path.name != "host.json"]
    for path in dice.sample(paths, min(len(paths), dice.randint(1, 25))):
        if not path.is_symlink() and not path.exists():
            continue
        kind = dice.randrange(9)
        if path.is_dir() and not path.is_symlink():
            if kind < 2:
                shutil.rmtree(path)
            continue
        content = path.read_bytes() if path.is_file() else b""
        path.unlink()
        if kind > 6:
            path.write_bytes(_garbled(content, dice))
        elif kind == 1:
            path.write_bytes(dice.randbytes(dice.randint(0, 300)))
        elif kind == 2:
            path.mkdir()
        elif kind == 3:
            path.symlink_to(dice.choice(["/", ".", path.name, "/nowhere", "/etc/group"]))
        elif kind == 4:
            path.write_text(
                dice.choice(["9" * 5000, "{", "[" * 3000, "a: b\n:\n", "0\n" * 9, "²٣\n", "null"])
            )
        elif kind == 5:
            os.mkfifo(path)


@pytest.mark.parametrize("name", doctor_hosts.BASES)
def test_damaged_hosts_break_no_check(tmp_path: Path, name: str) -> None:
    dice = random.Random(name)
    for turn in range(TURNS):
        host = tmp_path / str(turn)
        shutil.copytree(doctor_hosts.HOSTS / name, host, symlinks=True)
        _damage(host / "root", dice)
        record = json.loads((host / "host.json").read_text())
        for output in record["programs"].values():
            if dice.randrange(3) == 0:
                output["text"] = _garbled(output["text"].encode(), dice).decode("utf-8", "replace")
        (host / "host.json").write_text(json.dumps(record))
        assert set(statuses(host)) == set(check_texts())
        shutil.rmtree(host)


@pytest.mark.parametrize(
    "value", ["", " ", "/", "\0", "\n", "'", "9" * 5000, "[", "a=b;c", "-1", "\udcff", "/" * 5000]
)
def test_odd_variables_break_no_check(value: str) -> None:
    host = open_host(doctor_hosts.HOSTS / "mi300x-node")
    names = [*host.environ, *doctor_data().arch_variables]
    names += [
        "CC",
        "CXX",
        "MAX_JOBS",
        "CMAKE_ARGS",
        "TMPDIR",
        "ROCM_PATH",
        "HIP_PATH",
        "HIP_CLANG_PATH",
        "LC_ALL",
    ]
    names += [
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "CUDA_VISIBLE_DEVICES",
        "HSA_XNACK",
        "LD_LIBRARY_PATH",
    ]
    names += [
        "HSA_OVERRIDE_GFX_VERSION",
        "CONDA_OVERRIDE_AMDGPU",
        "CONDA_OVERRIDE_AMDGPU_ARCH",
        "PIP_CACHE_DIR",
    ]
    names += [
        "ROCM_BOOTSTRAP_FORCE_GFX_ARCH",
        "PYTHONUSERBASE",
        "CONDA_BLD_PATH",
        "VIRTUAL_ENV",
        "XDG_CACHE_HOME",
    ]
    given = host.environ
    for start in range(6):
        host.environ = {**given, **dict.fromkeys(names[start::6], value)}
        context = Context(host, doctor.active_prefix(host), doctor_data())
        for one in doctor.all_checks().values():
            one.run(context)
