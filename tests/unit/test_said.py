"""What the command line says besides results: near misses of commands, steps, tables, and failing output."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from channel_tools.cli import progress
from channel_tools.model.errors import ChannelToolsError
from tests.integration.helpers import ROOT, rocm_channel


def steps(terminal: bool) -> tuple[progress.Steps, io.StringIO]:
    made, out = progress.Steps(), io.StringIO()
    made._console = Console(file=out, force_terminal=terminal, width=80)
    made._status = made._console.status("")
    return made, out


def test_a_log_gets_the_first_of_each_row_and_every_other_line(monkeypatch: pytest.MonkeyPatch) -> None:
    made, out = steps(terminal=False)
    clock = iter((100.0, 101.0, 109.0, 120.0, 121.0))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with made:
        for line in ("storing a (1 of 4)", "storing b (2 of 4)", "waiting: [x]", "storing c (3 of 4)"):
            made.say(line)
        made.say("storing d (4 of 4)")
        made.say("done")
    assert out.getvalue().splitlines() == ["storing a (1 of 4)", "waiting: [x]", "storing d (4 of 4)", "done"]


def test_a_terminal_keeps_what_does_not_count() -> None:
    made, out = steps(terminal=True)
    with made:
        made.say("storing a (1 of 2)")
        made.say("reading")
        made.say("storing b (2 of 2)")
    erase = "\x1b[2K"
    assert f"{erase}reading\n" in out.getvalue() and out.getvalue().endswith(erase)


def test_tables_in_files_are_whole_and_have_no_blanks_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", "last", box=None, pad_edge=False)
    table.add_row("x" * 150, "")
    progress.print_table(table)
    assert capsys.readouterr().out.splitlines()[1] == "x" * 150


def test_lines_of_one_detail_stay_together() -> None:
    error = ChannelToolsError("is wrong", where="x", found="one\ntwo", fix="mend it")
    assert str(error).splitlines() == ["x: is wrong", "  found: one", "    two", "  fix: mend it"]


def test_a_near_miss_of_a_command_is_named() -> None:
    done = rocm_channel("pubish", "x")
    assert done.returncode == 2 and "Did you mean 'publish'?" in done.stderr
    assert "Did you mean" not in rocm_channel("zzz").stderr


def test_each_command_fits_into_its_line() -> None:
    shown = rocm_channel("--help", COLUMNS="80").stdout.partition("Commands:")[2]
    assert "publish     Verify a release" in shown and "..." not in shown


def test_a_full_disk_is_one_message() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "channel_tools", "variants"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (41, "error: the output: cannot be written: the disk is full\n")


def test_no_color() -> None:
    ours, theirs = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "channel_tools", "doctor", "use", "--root", "tests/data/hosts/mi300x-node"],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1", "TERM": "xterm"},
        stdout=theirs,
        check=False,
    )
    os.close(theirs)
    shown = os.read(ours, 4096)
    os.close(ours)
    assert b"To use" in shown and b"\x1b" not in shown
