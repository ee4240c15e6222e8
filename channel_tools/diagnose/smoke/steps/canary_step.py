# mypy: ignore-errors
"""Runs ``rocm-canary run``: three small kernels, each compared with the CPU."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from report import FailedError, SkippedError, options, step

MEANING = {
    3: "no AMD GPU can be seen",
    4: "this rocm-canary holds no code for the GPU",
    5: "the HIP runtime cannot be loaded",
    6: "a HIP call failed",
    7: "a result differs from the CPU",
    8: "the installation of rocm-canary is damaged",
}


def find():
    own = Path(sys.prefix, "bin", "rocm-canary")
    return own if os.access(own, os.X_OK) else shutil.which("rocm-canary")


def main():
    arguments = options(__doc__)
    with step(arguments.result) as report:
        program = find()
        if program is None:
            raise SkippedError(f"rocm-canary is not installed in {sys.prefix}")
        done = subprocess.run([program, "run", "--json"], capture_output=True, text=True)
        print(done.stdout, done.stderr, sep="\n", flush=True)
        if done.returncode < 0:
            raise FailedError(f"rocm-canary was ended by signal {-done.returncode}")
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            raise FailedError(f"rocm-canary ended with {done.returncode} and no JSON") from None
        if done.returncode:
            said = answer.get("error", "")
            raise FailedError(f"{MEANING.get(done.returncode, f'exit code {done.returncode}')}: {said}")
        report.facts.update(
            target=answer["target"], gpu=answer["device"]["name"], hip_runtime=answer["hip_runtime_version"]
        )
        for kernel in answer["kernels"]:
            report.check(
                kernel["name"],
                kernel["equal_to_cpu"],
                f"{kernel['rate']:.3g} {kernel['unit']}, equal to the CPU",
            )
            report.gpu_seconds += kernel["seconds"]


if __name__ == "__main__":
    main()
