"""A fat library, uncompressed: headers only, against LLVM's way, and whether more code takes more time.

LLVM's way is what a user does: ``llvm-objcopy`` cuts the section out, ``clang-offload-bundler --list`` reads
it (the first of its bundles; it does not look at the others).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.inputs import bundle, library
from benchmarks.measure import Goal, Settings, print_goals, print_table, ratio, settings, turns, workspace
from channel_tools.verify import verify_path

BUNDLES = 66
"""As many as rocBLAS has."""
OBJECT_SIZE = 1_550_000


def tool(name: str) -> str | None:
    return shutil.which(f"{name}-19") or shutil.which(name)


def llvm(folder: Path, path: Path) -> None:
    section = folder / "section"
    objcopy, bundler = tool("llvm-objcopy"), tool("clang-offload-bundler")
    assert objcopy
    assert bundler
    dump = f"--dump-section=.hip_fatbin={section}"
    subprocess.run([objcopy, dump, path, "/dev/null"], check=True)
    subprocess.run(
        [bundler, "--list", "--type=o", f"--input={section}"], check=True, stdout=subprocess.DEVNULL
    )
    section.unlink()


def command(path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "channel_tools", "verify", str(path)], check=True, stdout=subprocess.DEVNULL
    )


def check(path: Path) -> None:
    report = verify_path(path)
    assert report.verdict == "pass"
    assert sum(file.objects for file in report.files) == BUNDLES * 10


def run(how: Settings) -> list[Goal]:
    size = OBJECT_SIZE // (100 if how.small else 1)
    with workspace() as folder:
        paths = {}
        for name, factor in (("1", 1), ("2", 2)):
            paths[name] = folder / f"lib{name}.so"
            whole = library([bundle(size * factor)] * BUNDLES)
            with paths[name].open("wb") as file:
                whole.write(file)
        one, two = paths["1"], paths["2"]
        gigabytes = one.stat().st_size / 1e9
        things = {
            "whole command": lambda: command(one),
            "whole command, twice the code": lambda: command(two),
            "in a running Python": lambda: check(one),
            "in a running Python, twice the code": lambda: check(two),
        }
        if tool("llvm-objcopy") and tool("clang-offload-bundler"):
            things["LLVM"] = lambda: llvm(folder, one)
            things["LLVM, twice the code"] = lambda: llvm(folder, two)
        seconds = turns(how.runs, things)
    print_table(f"Fat library, {gigabytes:.2f} GB, {BUNDLES} bundles of ten archs", seconds)
    growth = ratio(seconds, "in a running Python, twice the code", "in a running Python")
    goals = [Goal("twice the code / once the code", growth, "1 (at most 1.15)", growth <= 1.15)]
    for ours, theirs in (
        ("in a running Python", "LLVM"),
        ("whole command", "LLVM"),
        ("whole command, twice the code", "LLVM, twice the code"),
    ):
        if theirs in seconds:
            faster = ratio(seconds, theirs, ours)
            goals.append(Goal(f"LLVM / {ours}", faster, "at least 20", faster >= 20))
    print_goals(goals)
    return goals


def main(arguments: Sequence[str] | None = None) -> None:
    run(settings(__doc__, arguments))


if __name__ == "__main__":
    main()
