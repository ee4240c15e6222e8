"""``explain`` on a log of 500 MB: MB/s of processor time, peak memory, and ``grep -E`` for comparison.

The log is made of pieces as builds print them (compile commands, progress bars, colours, warnings, archives'
listings), the same each time, with one real error in its middle and thousands that follow from it.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Goal, Settings, print_goals, print_table, settings, turns, workspace

SIZE = 500_000_000
SMALL = 20_000_000
WANTED_MB_S = 100
WANTED_RSS_MIB = 256
GREP_SHARE = 100
CAUSE = (
    "/opt/rocm/llvm/bin/clang++: error: cannot find ROCm device library; provide its path via '--rocm-path'\n"
)
RULE = "device-library-not-found"

_EXPLAIN = """
import json, resource, sys, time
from pathlib import Path
from channel_tools.diagnose import report
from channel_tools.diagnose.explain import explain_file
from channel_tools.diagnose.rules import all_rules
all_rules()
start = time.process_time()
found = explain_file(Path(sys.argv[1]))
seconds = time.process_time() - start
print(json.dumps({"seconds": seconds, "first": found.findings[0].rule.id, "lines": found.lines,
                  "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def pieces(seed: int) -> Iterator[str]:
    """Endless pieces of a build's log."""
    dice = random.Random(seed)
    words = ["attention", "gemm", "layernorm", "rope", "cache", "quant", "moe", "reduce", "copy", "softmax"]
    number = 0
    while True:
        number += 1
        name = f"{dice.choice(words)}_{dice.choice(words)}_{number}"
        includes = " ".join(
            f"-I/build/{dice.choice(words)}/include/{at}" for at in range(dice.randint(5, 40))
        )
        yield (
            f"[{number}/99999] /opt/rocm/lib/llvm/bin/clang++ -DUSE_ROCM -D__HIP_PLATFORM_AMD__=1 {includes} "
            f"-O2 -DNDEBUG -std=c++20 --offload-arch=gfx942 -fPIC -MD -MT {name}.hip.o -o {name}.hip.o "
            f"-x hip -c /build/csrc/{name}.hip\n"
        )
        place = f"/build/csrc/{name}.hip:{dice.randint(1, 900)}:7"
        yield f"{place}: \x1b[0;1;35mwarning: \x1b[0m\x1b[1munused variable '{name}' [-Wunused]\x1b[0m\n"
        yield f"    {number} |   int {name} = 0;\n      |       ^~~~\n"
        if number % 50 == 0:
            yield "".join(f"\r   ---- {at}/100 MB 12.3 MB/s eta 0:00:0{at % 10}" for at in range(60)) + "\n"
        if number % 40 == 0:
            yield "".join(
                f"  |- lib/python3.12/site-packages/vllm/{w}/{name}.py ({number} B)\n" for w in words
            )
        if number % 500 == 0:
            yield dice.randbytes(20_000).decode("latin-1") + "\n"


def write_log(path: Path, size: int) -> None:
    with path.open("w", encoding="utf-8", errors="replace", newline="") as log:
        written = 0
        failed = False
        for piece in pieces(1):
            log.write(piece)
            written += len(piece)
            if written > size / 2 and not failed:
                failed = True
                log.write(CAUSE + "a.hip:1:1: error: use of undeclared identifier 'blockIdx'\n" * 5000)
            if written > size:
                break


def grep_patterns(path: Path) -> int:
    """Write the rules' expressions in a form that ``grep -E`` takes; how many there are."""
    from channel_tools.diagnose.rules import all_rules

    patterns = []
    for rule in all_rules():
        for wording in rule.match:
            text = wording.regex.replace("(?:", "(").replace(r"\d", "[0-9]").replace(r"\W", "[^A-Za-z0-9_]")
            text = text.replace("*?", "*").replace(r"\S", "[^ ]")
            text = re.sub(r"\.\{0,\d+\}", ".*", text)  # counted repeats make grep slower by orders
            if "(?" not in text:
                patterns.append(text)
    path.write_text("\n".join(patterns) + "\n", encoding="utf-8")
    return len(patterns)


def run(how: Settings) -> None:
    with workspace() as folder:
        log, patterns = folder / "build.log", folder / "patterns"
        write_log(log, SMALL if how.small else SIZE)
        count = grep_patterns(patterns)
        size = log.stat().st_size
        answers = []

        def explain() -> None:
            done = _pinned([sys.executable, "-c", _EXPLAIN, str(log)])
            answers.append(json.loads(done))

        part = folder / "part.log"
        with log.open("rb") as whole:
            part.write_bytes(whole.read(size // GREP_SHARE))

        def grep() -> None:
            _pinned(["grep", "-a", "-c", "-E", "-f", str(patterns), str(part)])

        runs = min(how.runs, 3)
        seconds = turns(runs, {"explain": explain, "cat": lambda: _pinned(["cat", str(log)])})
        grepped = GREP_SHARE * turns(1, {"grep": grep})["grep"][0]
        seconds["explain"] = [answer["seconds"] for answer in answers[1:]]
        print_table(f"a log of {size / 1e6:.0f} MB, one core", seconds, size)
        print(f"  grep -a -E -f with {count} expressions: {grepped:.1f} s, from 1/{GREP_SHARE} of the log")
        assert {answer["first"] for answer in answers} == {RULE}, answers
        middle = sorted(seconds["explain"])[len(seconds["explain"]) // 2]
        rss = max(answer["rss_mib"] for answer in answers)
        speed = size / 1e6 / middle
        print_goals(
            [
                Goal("MB/s of processor time", speed, f"{WANTED_MB_S} or more", speed >= WANTED_MB_S),
                Goal("peak memory, MiB", rss, f"{WANTED_RSS_MIB} or less", rss <= WANTED_RSS_MIB),
                Goal("time / time of grep -E", middle / grepped, "1 or less", middle <= grepped),
            ]
        )


def _pinned(command: list[str]) -> str:
    """Run a program on one processor; its output."""
    one = min(os.sched_getaffinity(0))
    with tempfile.TemporaryFile() as output:
        subprocess.run(
            command,
            stdout=output,
            check=False,
            preexec_fn=lambda: os.sched_setaffinity(0, {one}),
            env={**os.environ, "LC_ALL": "C"},
        )
        output.seek(0)
        return output.read(1 << 16).decode(errors="replace")


if __name__ == "__main__":
    run(settings(__doc__))
