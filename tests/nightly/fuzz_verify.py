"""Damaged input in bulk: ``python -m tests.nightly.fuzz_verify``, 20,000 files and more in a few minutes.

Each case is a sound file or package, damaged by chance or on purpose, and verified as the command does it. No
case may raise, take longer than ``--seconds``, need more memory than the bound that the reader promises, or
pass for other targets than it holds; nor may a file read other on the disk than passing out of an archive.
One case in a hundred may lose targets where none are asked for: a file whose first bytes are gone is of no
known kind. Exit code 1 where something of this happens; ``--case N`` does one case again, ``--keep`` leaves
its file.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from channel_tools.verify import Report, containers, verify_path
from channel_tools.verify.compare import compare
from channel_tools.verify.sarif import to_sarif
from tests.nightly.hostile import HOSTILE
from tests.nightly.mutations import Mutated, mutate
from tests.nightly.seeds import Seed, compiled_seeds, container_seeds, written_seeds
from tests.nightly.two_ways import difference, spread_library
from tests.unit.test_verify_support import conda_info, write_conda, write_wheel

ROOT: Final = Path(__file__).resolve().parents[2]
BOUND_MIB: Final = containers.MEMORY_BOUND_MIB
"""Peak memory of one verification, Python and its libraries included."""
_CHUNK: Final = 500
TWO_WAYS: Final = 0.2
"""Share of the cases in which a file is read in two ways, before the case itself."""
MAX_SILENT: Final = 0.01
"""Share of the cases that may lose targets and pass where none are wanted."""
SHOWN: Final = 20
_ADDRESS_SPACE: Final = 16 << 30


class HangError(BaseException):
    """Not an Exception, so that no reader takes it for bad input."""


@dataclass
class Result:
    """What came of some cases: ``problems`` are (case, what went wrong), ``silent`` (case, what was done)."""

    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    problems: list[tuple[int, str]] = field(default_factory=list)
    silent: list[tuple[int, str]] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)
    peak_mib: tuple[int, int] = (0, -1)

    def add(self, other: Result) -> None:
        self.cases += other.cases
        self.outcomes += other.outcomes
        self.problems += other.problems
        self.silent += other.silent
        self.slowest = max(self.slowest, other.slowest)
        self.peak_mib = max(self.peak_mib, other.peak_mib)

    @classmethod
    def from_json(cls, text: str) -> Result:
        raw = json.loads(text)
        return cls(
            raw["cases"],
            Counter(raw["outcomes"]),
            [(case, what) for case, what in raw["problems"]],
            [(case, what) for case, what in raw["silent"]],
            tuple(raw["slowest"]),
            tuple(raw["peak_mib"]),
        )


class Fuzzer:
    """Makes the cases of one seed number and judges how they end."""

    def __init__(self, seed: int, seconds: float, folder: Path, corpus: Path) -> None:
        self._seed = seed
        self._seconds = seconds
        self._folder = folder
        self._seeds = read_corpus(corpus)
        self._contents = [made.data for made in self._seeds if len(made.data) < 100_000]
        self._sound: dict[str, Report] = {}
        self._hostile = list(HOSTILE)

    def run(self, case: int, result: Result, keep: Path | None = None) -> None:
        """Make the case of that number, verify it and note in ``result`` what came of it."""
        result.cases += 1
        for rest in self._folder.iterdir():
            _remove(rest)
        started = time.monotonic()
        try:
            path, origin, steps, scan = self._make(case)
            if keep:
                shutil.copytree(path, keep / path.name) if path.is_dir() else shutil.copy(path, keep)
            started = time.monotonic()
            with time_limit(self._seconds):
                report = verify_path(path, scan=scan)
                told = check_report(report)
                if origin:
                    compare(self._report_of(origin), report)
            if told:
                result.problems.append((case, told))
            result.outcomes[self._outcome(case, origin, steps, path, report, result)] += 1
        except HangError:
            result.problems.append((case, f"took longer than {self._seconds} s"))
        except Exception:  # any exception is what this looks for
            result.problems.append((case, traceback.format_exc(limit=-4)))
        result.slowest = max(result.slowest, (time.monotonic() - started, case))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        if peak > result.peak_mib[0]:
            result.peak_mib = (peak, case)
            if peak > BOUND_MIB:
                result.problems.append((case, f"needs {peak} MiB, more than {BOUND_MIB}"))

    def _make(self, case: int) -> tuple[Path, Seed | None, tuple[str, ...], bool]:
        if case < len(self._hostile):
            name = self._hostile[case]
            path = self._folder / name
            made_elsewhere(name, path)
            return path, None, ("hostile",), False
        dice = random.Random(f"{self._seed}/{case}")
        origin = dice.choice(self._seeds)
        if not origin.container and dice.random() < TWO_WAYS:
            self._check_two_ways(origin, dice)
        made = mutate(origin.name, origin.data, self._contents, dice)
        path = self._folder / made.name.rpartition("/")[2]
        steps = made.steps
        wrap = dice.random()
        if not origin.container and wrap < 0.2:
            files = {f"lib/{made.name}": made.data}
            steps = (*steps, "wrapped")
            if wrap < 0.1:
                path = write_conda(self._folder / "x.conda", files, conda_info(["gfx90a", "gfx942"]))
            else:
                path = write_wheel(self._folder / "x.whl", files)
        elif wrap > 0.95:
            (self._folder / "folder" / "sub").mkdir(parents=True)
            (self._folder / "folder" / "sub" / path.name).write_bytes(made.data)
            path = self._folder / "folder"
        else:
            path.write_bytes(made.data)
        return path, origin, steps, dice.random() < 0.2

    def _check_two_ways(self, origin: Seed, dice: random.Random) -> None:
        """As it lies on the disk, and as it passes out of an archive."""
        name, data = origin.name, origin.data
        if dice.random() < 0.4:
            name, data = "spread.so", spread_library(dice)
        made = mutate(name, data, self._contents, dice) if dice.random() < 0.9 else Mutated(name, data, ())
        with tempfile.TemporaryDirectory(dir=self._folder) as folder, time_limit(2 * self._seconds):
            told = difference(name, made.data, Path(folder))
        if told:
            raise AssertionError(f"{name}, {made.steps}: {told}")

    def _report_of(self, origin: Seed) -> Report:
        if origin.name not in self._sound:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, origin.name)
                path.write_bytes(origin.data)
                self._sound[origin.name] = verify_path(path)
        return self._sound[origin.name]

    def _outcome(
        self,
        case: int,
        origin: Seed | None,
        steps: tuple[str, ...],
        path: Path,
        report: Report,
        result: Result,
    ) -> str:
        if origin is None:
            return "hostile, refused" if report.verdict == "fail" else "hostile, read"
        if report.damaged:
            return "damage found"
        before = self._report_of(origin)
        lost = set(before.targets()) - set(report.targets())
        if report.verdict == "fail":
            return "wrong content found"
        if not lost:
            return "nothing lost"
        if verify_path(path, frozenset(before.targets())).verdict == "pass":
            result.problems.append((case, f"passes with {report.targets()}, wanted {before.targets()}"))
        result.silent.append((case, f"{origin.name}: {' '.join(steps)}"))
        return "lost, told only with --want"


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise HangError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def check_report(report: Report) -> str | None:
    """What is wrong with the report itself; None for a good one."""
    lines = report.all_faults()
    if not all(line.isprintable() for line in lines):
        return f"a fault that a terminal would obey: {lines}"
    for _, fault in report.located_faults():
        if not (fault.what and fault.wanted):
            return f"a fault that does not say what was expected: {fault}"
    if bool(lines) != (report.verdict == "fail"):
        return f"verdict {report.verdict} with {len(lines)} faults"
    json.dumps([report.to_json(), to_sarif([report])])
    return None


def made_elsewhere(name: str, path: Path) -> None:
    """Make a hostile file in a process of its own: making it may take more memory than reading it."""
    maker = multiprocessing.get_context("spawn").Process(target=make_hostile, args=(name, path))
    maker.start()
    maker.join()
    if maker.exitcode:
        raise RuntimeError(f"{name} was not made: {maker.exitcode}")


def make_hostile(name: str, path: Path) -> None:
    HOSTILE[name](path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def write_corpus(folder: Path) -> bool:
    """Write all seeds into a folder; were compilers at hand for the compiled ones?"""
    compiled = compiled_seeds()
    files = written_seeds() + compiled
    for seed in files + container_seeds(files):
        (folder / f"{'c' if seed.container else 'f'}-{seed.name}").write_bytes(seed.data)
    return bool(compiled)


def read_corpus(folder: Path) -> list[Seed]:
    return [
        Seed(path.name[2:], path.read_bytes(), path.name.startswith("c-"))
        for path in sorted(folder.iterdir())
    ]


def work(options: argparse.Namespace) -> None:
    """In a process of its own: some cases, and their result as JSON on stdout."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    result = Result()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        fuzzer = Fuzzer(options.seed, options.seconds, Path(scratch), options.corpus)
        for case in range(options.first, options.first + options.cases):
            options.progress.write_text(str(case))
            fuzzer.run(case, result, options.keep)
    print(json.dumps(vars(result)))


class Worker:
    """One such process, and what became of it."""

    def __init__(self, options: argparse.Namespace, first: int, cases: int, corpus: Path) -> None:
        self._progress = corpus.parent / f"progress-{first}"
        self._progress.write_text(str(first))
        self._seconds = options.seconds
        self._cases = cases
        words: list[Any] = [sys.executable, "-m", "tests.nightly.fuzz_verify", "--worker"]
        words += ["--first", first, "--cases", cases, "--seed", options.seed, "--seconds", options.seconds]
        words += ["--corpus", corpus, "--progress", self._progress]
        words += ["--keep", options.keep] if options.keep else []
        self._process = subprocess.Popen(
            [str(word) for word in words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def done(self) -> bool:
        """Has it ended? One that is silent for too long is ended here."""
        if self._process.poll() is not None:
            return True
        if time.time() - self._progress.stat().st_mtime > 3 * self._seconds + 30:
            self._process.kill()
        return False

    def result(self) -> Result:
        stdout, stderr = self._process.communicate()
        if self._process.returncode == 0:
            return Result.from_json(stdout)
        case = int(self._progress.read_text() or 0)
        how = f"the process ended with {self._process.returncode}: {stderr[-500:]}"
        return Result(cases=self._cases, problems=[(case, how)])


def run_all(options: argparse.Namespace, corpus: Path) -> Result:
    total = Result()
    starts = list(range(options.first, options.first + options.cases, _CHUNK))
    running: list[Worker] = []
    shown = 0
    while starts or running:
        while starts and len(running) < options.jobs:
            first = starts.pop(0)
            size = min(_CHUNK, options.first + options.cases - first)
            running.append(Worker(options, first, size, corpus))
        time.sleep(0.05)
        for worker in [worker for worker in running if worker.done()]:
            running.remove(worker)
            total.add(worker.result())
        if total.cases - shown >= 5000:
            shown = total.cases
            print(f"  {total.cases} cases, {len(total.problems)} problems", flush=True)
    return total


def print_summary(total: Result, seconds: float, compiled: bool) -> None:
    print(
        f"{total.cases} cases in {seconds:.0f} s{'' if compiled else ' (no compilers: written seeds only)'}"
    )
    for outcome, number in total.outcomes.most_common():
        print(f"  {number:7} {outcome}")
    print(f"  slowest {total.slowest[0]:.2f} s (case {total.slowest[1]})")
    print(f"  memory {total.peak_mib[0]} MiB at most (case {total.peak_mib[1]}), bound {BOUND_MIB} MiB")
    for case, what in total.silent[:SHOWN]:
        print(f"  lost without --want: case {case}, {what}")
    for case, problem in total.problems[:SHOWN]:
        print(f"PROBLEM in case {case}: {problem}")
    print(f"{len(total.problems)} problems")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000 + len(HOSTILE))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=30.0, help="for one case")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="this case alone")
    parser.add_argument("--keep", type=Path, help="folder for the files of the cases")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--progress", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None:
        options.first, options.cases = options.case, 1
    return options


def main() -> int:
    options = parse_options()
    if options.worker:
        work(options)
        return 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-corpus-") as scratch:
        corpus = Path(scratch, "corpus")
        corpus.mkdir()
        compiled = write_corpus(corpus)
        total = run_all(options, corpus)
    print_summary(total, time.monotonic() - started, compiled)
    complete = total.cases == options.cases
    return 0 if complete and not total.problems and len(total.silent) <= total.cases * MAX_SILENT else 1


if __name__ == "__main__":
    sys.exit(main())
