"""How the benchmarks measure: the things that are compared take turns, so that all see the same machine."""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from channel_tools.verify.parallel import cores


@dataclass(frozen=True)
class Settings:
    """``small``: inputs of some MB instead of GB, for a look whether the script works."""

    small: bool
    runs: int


@dataclass(frozen=True)
class Goal:
    """A ratio and what it should be."""

    name: str
    ratio: float
    wanted: str
    reached: bool


def settings(description: str | None, arguments: Sequence[str] | None = None) -> Settings:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--small", action="store_true", help="small inputs: does the script work?")
    parser.add_argument("--runs", type=int, default=7, help="turns that each thing gets (default: 7)")
    parsed = parser.parse_args(arguments)
    return Settings(parsed.small, parsed.runs)


def turns(runs: int, things: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Seconds of each thing in each turn, after one turn that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in things}
    for turn in range(runs + 1):
        for name, thing in things.items():
            started = time.perf_counter()
            thing()
            if turn:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def ratio(seconds: Mapping[str, list[float]], left: str, right: str) -> float:
    """Median of left / right, turn by turn."""
    return statistics.median(one / other for one, other in zip(seconds[left], seconds[right], strict=True))


def print_table(title: str, seconds: Mapping[str, list[float]], size: int | None = None) -> None:
    """One row a thing: median, lowest and highest seconds; ``size`` in bytes gives GB/s."""
    width = max(map(len, seconds))
    print(f"\n{title}")
    for name, values in seconds.items():
        middle = statistics.median(values)
        speed = f"{size / 1e9 / middle:9.2f} GB/s" if size else ""
        print(f"  {name:<{width}}  {middle:8.3f} s  ({min(values):.3f} to {max(values):.3f}){speed}")


def print_goals(goals: Sequence[Goal]) -> None:
    width = max(len(goal.name) for goal in goals)
    for goal in goals:
        verdict = "reached" if goal.reached else "NOT reached"
        print(f"  {goal.name:<{width}}  {goal.ratio:8.2f}  wanted: {goal.wanted}: {verdict}")


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder for inputs, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="rocm-channel-bench-") as folder:
        yield Path(folder)


def machine() -> str:
    """Processor, cores and Python, for the top of a report."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{model}, {cores()} cores, Python {platform.python_version()}"
