"""From the shell to the first word of the command, against an empty Python program."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.measure import Goal, Settings, print_goals, print_table, settings, turns

LIMIT = 0.25


def run(how: Settings) -> list[Goal]:
    def command(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

    seconds = turns(
        max(how.runs, 7),
        {
            "rocm-channel --version": lambda: command("-m", "channel_tools", "--version"),
            "rocm-channel verify --help": lambda: command("-m", "channel_tools", "verify", "--help"),
            "python -c pass": lambda: command("-c", "pass"),
        },
    )
    print_table("Start-up", seconds)
    goals = []
    for name in list(seconds)[:2]:
        middle = statistics.median(seconds[name])
        goals.append(Goal(f"{name}, seconds", middle, f"less than {LIMIT}", middle < LIMIT))
    print_goals(goals)
    return goals


def main(arguments: Sequence[str] | None = None) -> None:
    run(settings(__doc__, arguments))


if __name__ == "__main__":
    main()
