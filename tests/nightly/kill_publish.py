"""Publishers killed at every step and at random moments, on a folder and on S3.

    python -m tests.nightly.kill_publish [--runs N] [--seed 1] [--store folder|s3|both]

By default 600 runs on a folder and 400 on S3: that is each step, before it, after it and, on a folder, within
it; the rest dies while it undoes a failure, or at a random time. The first broken promise ends the script.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.integration.faults import make_stage
from tests.integration.kill_runs import FolderBench, S3Bench, run_all
from tests.integration.s3 import start_s3

RUNS = {"folder": 600, "S3": 400}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, help="for each store")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=("folder", "s3", "both"), default="both")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kill-publish-") as scratch:
        folder = Path(scratch)
        stage = make_stage(folder / "packages")
        benches: list[tuple[str, FolderBench]] = []
        if options.store in ("folder", "both"):
            benches.append(("folder", FolderBench(stage, folder / "folder")))
        if options.store in ("s3", "both"):
            server = start_s3()
            os.environ.update(server.environment)
            benches.append(("S3", S3Bench(stage, folder / "s3", server)))
        for name, bench in benches:
            start = time.monotonic()
            seen = run_all(bench, options.runs or RUNS[name], options.seed, partial(print, f"{name}:"))
            print(f"{name}: {time.monotonic() - start:.0f} s")
            for what, count in sorted(seen.items()):
                print(f"{name}: {count:5}  {what}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
