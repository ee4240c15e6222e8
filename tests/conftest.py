"""Fixtures that several test files share, and the time that each file took."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Under nohup, or in the background of a shell, the tests and what they start would notice no Ctrl-C.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The checkout under test."""
    return ROOT


@pytest.fixture(scope="session")
def sdk_root() -> Path:
    """A ROCm-like root with headers, device libraries and a stub libamdhip64; made once for the checkout."""
    given = os.environ.get("ROCM_CHANNEL_TEST_SDK")
    if given:
        return Path(given)
    sdk = ROOT / ".cache" / "sdk"
    done = subprocess.run(
        ["bash", ROOT / "build_scripts" / "rocm_sdk.sh", sdk], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return sdk


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    seconds: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.split("::")[0]] += report.duration
    terminalreporter.section("time of each suite")
    for name, total in sorted(seconds.items(), key=lambda item: -item[1]):
        terminalreporter.line(f"{total:7.1f} s  {name}")
