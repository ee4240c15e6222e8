"""``rocm-channel watch`` on recorded hosts: what it prints, keeps, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from channel_tools.cli.main import app
from channel_tools.diagnose.smoke.recording import read_samples
from channel_tools.diagnose.smoke.sampler_programs import LIST, MONITOR, ROCM_SMI
from tests.unit.gpu_hosts import MI250X, MI300X, SMI, Card, recorded_host, write_sysfs

RUNNER = CliRunner()


@pytest.fixture
def mi250x(tmp_path: Path) -> Path:
    cards = [Card(237, 97, 9216), Card(0, 96, 9100), Card(92, 0, 10), Card(0, 0, 10)]
    return write_sysfs(tmp_path / "host", MI250X, cards, range(4))


def watch(*options: object) -> Any:
    return RUNNER.invoke(app, ["watch", "--seconds", "0.3", "--interval", "0.1", *map(str, options)])


def test_json(mi250x: Path) -> None:
    result = watch("--root", mi250x, "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert (data["version"], data["source"], len(data["gpus"])) == (1, "sysfs", 4)
    assert data["samples"] == len(data["readings"]) >= 2
    assert [row["power_watts"] and row["power_watts"]["most"] for row in data["summary"]] == [
        237,
        None,
        92,
        None,
    ]
    assert [one["source"] for one in data["refused"]] == ["amdsmi", "amd-smi", "rocm-smi"]


def test_text_and_files(mi250x: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    result = watch("--root", mi250x, "--output", kept)
    assert result.exit_code == 0, result.output
    assert f"GPU 0 gfx90a {MI250X[0]}" in result.stdout
    assert "237, 237 W" in result.stdout and "9.0, 9.0 GiB" in result.stdout
    assert "GPU 0 power" in result.stdout and "samples by sysfs" in result.stdout
    samples = read_samples((kept / "samples.jsonl").read_text(encoding="utf-8").splitlines())
    assert len(samples) >= 2 and samples[0].readings[0].busy_percent == 97
    report = json.loads((kept / "report.json").read_text(encoding="utf-8"))
    assert report["version"] == 1 and "readings" not in report
    assert (kept / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_rest_is_kept(
    mi250x: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    result = watch("--root", mi250x, "--output", tmp_path / "kept")
    assert result.exit_code == 0, result.output
    assert "matplotlib is not installed" in result.output
    assert sorted(one.name for one in (tmp_path / "kept").iterdir()) == ["report.json", "samples.jsonl"]


def test_a_source_may_be_chosen(tmp_path: Path) -> None:
    texts = {
        " ".join(MONITOR): "amd-smi-monitor-mi300x-7.2.json",
        " ".join(LIST): "amd-smi-list-mi300x.json",
        " ".join(ROCM_SMI): "rocm-smi-mi300x-7.0.json",
    }
    programs = {name: (SMI / file).read_text(encoding="utf-8") for name, file in texts.items()}
    host = recorded_host(tmp_path, programs)
    data = json.loads(watch("--root", host, "--json").stdout)
    assert data["source"] == "amd-smi" and data["gpus"][0]["address"] == MI300X[0]
    data = json.loads(watch("--root", host, "--source", "sysfs", "--source", "rocm-smi", "--json").stdout)
    assert data["source"] == "rocm-smi", "the order is fixed, whatever the order of the options"
    refused = watch("--root", host, "--source", "sysfs")
    assert refused.exit_code != 0


def test_no_source_is_one_message(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "channel_tools", "watch", "--root", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 13
    assert "no source of GPU readings works" in result.stderr and "Traceback" not in result.stderr
    for name in ("amdsmi", "amd-smi", "rocm-smi", "sysfs"):
        assert f"{name}: " in result.stderr


@pytest.mark.parametrize("options", [["--source", "nvml"], ["--interval", "0"], ["--prefix", "/nowhere"]])
def test_wrong_usage(mi250x: Path, options: list[str]) -> None:
    assert watch("--root", mi250x, *options).exit_code != 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_is_an_end_like_any_other(mi250x: Path, tmp_path: Path, number: signal.Signals) -> None:
    kept = tmp_path / "kept"
    command = [sys.executable, "-m", "channel_tools", "watch", "--root", mi250x, "--output", kept, "--json"]
    process = subprocess.Popen(
        [*command, "--interval", "0.05"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(2.0)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    data = json.loads(out)
    assert data["samples"] > 3 and data["summary"][0]["busy_percent"]["most"] == 97
    assert (kept / "samples.jsonl").exists() and (kept / "report.json").exists()


def test_the_live_table_on_a_terminal(mi250x: Path) -> None:
    command = [sys.executable, "-m", "channel_tools", "watch", "--root", str(mi250x), "--seconds", "1"]
    program = f"import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn({command!r})))"
    shown = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    live, _, end = shown.stdout.partition("mean, most")
    assert "readings by sysfs, Ctrl-C ends" in live and "237 W" in live and "9.0 / 64.0 GiB" in live
    assert "samples by sysfs" in end


@pytest.mark.parametrize("charset", ["ascii", "iso8859-1", "utf-8"])
def test_output_for_any_character_set(mi250x: Path, charset: str) -> None:
    arguments = ["watch", "--seconds", "0.1", "--interval", "0.05", "--root", str(mi250x)]
    done = CliRunner(charset=charset).invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert ("46 °C" in done.stdout) is (charset != "ascii")
    assert ("█" if charset == "utf-8" else "|@@@") in done.stdout


@pytest.mark.parametrize(("kind", "columns"), [("dumb", 80), ("xterm", 40), ("xterm", 80), ("xterm", 200)])
def test_terminals_of_any_kind_and_width(mi250x: Path, kind: str, columns: int) -> None:
    arguments = ["watch", "--seconds", "0.1", "--interval", "0.05", "--root", str(mi250x)]
    terminal = {"TTY_COMPATIBLE": "1", "COLUMNS": str(columns), "TERM": kind, "NO_COLOR": "1"}
    done = RUNNER.invoke(app, arguments, env=terminal)
    assert done.exit_code == 0, done.output
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    assert max(map(len, plain.splitlines())) <= max(columns, 46), "eight blocks beside names and numbers"
    assert "\x1b[3" not in done.stdout and (kind == "xterm" or plain == done.stdout)


def test_a_log_has_whole_lines(mi250x: Path) -> None:
    lines = watch("--root", mi250x).stdout.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    assert sum(line.startswith("GPU 0 gfx90a 0000:29:00.0 ") for line in lines) == 1


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e300"])
@pytest.mark.parametrize("option", ["--seconds", "--interval"])
def test_times_that_are_none(mi250x: Path, option: str, value: str) -> None:
    done = RUNNER.invoke(app, ["watch", "--root", str(mi250x), "--seconds", "0.1", option, value])
    assert done.exit_code == 2 and option in done.output


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    done = watch("--root", tmp_path / "none")
    assert done.exit_code == 2 and "--root" in done.output
