"""One real translation unit of vLLM, from source distribution to GPU code for one arch, and verified.

    python tests/nightly/vllm_unit.py [--arch gfx942] [--unit libtorch_stable/activation_kernels]

vLLM's own CMake configuration (as ``rocm-channel preflight`` makes it), its own hipify step, its own build
rule for the object. Not in CI: the headers are big, and one unit is a sample. What is not the real thing is
the toolchain: clang 19 and HIP 5.7.1 of Debian for ROCm 7, and PyTorch's headers out of its macOS wheel, put
through PyTorch's own hipify as a ROCm build does it. The object is compiled and looked at; it is not linked
to a PyTorch for ROCm, and runs nowhere.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from channel_tools.build.toolchain import choose, require_rocm
from channel_tools.model.errors import ChannelToolsError
from channel_tools.model.matrix import read_matrix
from channel_tools.model.project import Project
from channel_tools.preflight import Report, requests, run_preflight
from channel_tools.preflight.torch_files import Wheel, fetch_wheel

ROOT = Path(__file__).resolve().parents[2]
# The stack whose units use PyTorch's stable interface: they need few of PyTorch's headers.
ROCM = "7.2"
UNIT = "libtorch_stable/activation_kernels"
# Headers that a ROCm build of PyTorch puts through hipify, as far as such units include them.
HIPIFIED = ("torch/csrc/stable/*", "torch/csrc/inductor/aoti_torch/c/*")
_HIPIFY = """
import sys
from torch.utils.hipify.hipify_python import hipify

source, target, *patterns = sys.argv[1:]
hipify(project_directory=source, output_directory=target, includes=[f"{source}/{p}" for p in patterns],
       extensions=(".h",), is_pytorch_extension=False, show_progress=False)
"""


class StepError(Exception):
    """A program that ended with a failure."""


@contextmanager
def timed(name: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"  {time.monotonic() - started:6.1f} s  {name}", flush=True)


def run(*command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StepError(f"{command[0]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def configure(project: Project, arch: str, folder: Path) -> Report:
    matrix = read_matrix(project.matrix_file).restricted({"rocm_version": [ROCM], "rocm_arch": [arch]})
    rocm = require_rocm(choose(project, (), "host"), project)
    (request, *_) = requests(project, "vllm-rocm", matrix, "Release", rocm, Path(sys.executable), keep=folder)
    report = run_preflight(request)
    if report.faults:
        raise StepError("\n".join(report.lines()))
    return report


def add_headers(project: Project, site: Path, folder: Path) -> None:
    """PyTorch's headers, hipified, where the configuration looks for them."""
    version = (
        read_matrix(project.matrix_file).restricted({"rocm_version": [ROCM]}).values["pytorch_version"][0]
    )
    with zipfile.ZipFile(fetch_wheel(Wheel.of(version), project.cache / "sources")) as wheel:
        wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith("torch/include/")])
    include = site / "torch" / "include"
    # hipify copies the whole tree where there is none, and then changes the files of the patterns.
    shutil.rmtree(include)
    run(
        *(sys.executable, "-c", _HIPIFY, folder / "torch" / "include", include, *HIPIFIED),
        env={"PYTHONPATH": str(site)},
    )


def compile_unit(build: Path, unit: str, headers: Path) -> Path:
    units = json.loads((build / "compile_commands.json").read_text())
    objects = [one["output"] for one in units if one["file"].endswith(f"/{unit}.hip")]
    if len(objects) != 1:
        known = sorted(one["file"].partition("/csrc/")[2] for one in units if one["file"].endswith(".hip"))
        raise StepError(f"no unit {unit}; there are {', '.join(known)}")
    # Behind everything that the command itself names.
    run("ninja", "-C", build, objects[0], env={"CPLUS_INCLUDE_PATH": str(headers)})
    return build / objects[0]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--unit", default=UNIT, help="below csrc/, without suffix")
    parser.add_argument("--folder", type=Path, help="new folder that is kept (default: a temporary one)")
    given = parser.parse_args()
    project = Project(ROOT)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="vllm-unit.") as temporary:
        folder = given.folder or Path(temporary) / "work"
        try:
            with timed("headers of rocThrust, hipCUB and hipBLAS"):
                headers = project.cache / "hip-headers"
                run("bash", ROOT / "tests" / "nightly" / "hip_headers.sh", headers)
            with timed("configure vLLM"):
                report = configure(project, given.arch, folder)
            print(f"           {report.title}, {report.units} units")
            with timed("headers of PyTorch, hipified"):
                add_headers(project, folder / "site", folder / "wheel")
            build = folder / "_configured"
            # vLLM's rules run Python, which finds PyTorch there as at configure.
            os.environ["PYTHONPATH"] = os.pathsep.join([str(folder / "site"), sysconfig.get_path("purelib")])
            os.environ["PKG_NAME"] = report.package
            with timed("hipify vLLM (its own target hipify_all)"):
                run("ninja", "-C", build, "hipify_all")
            with timed(f"compile {given.unit} (its own build rule)"):
                made = compile_unit(build, given.unit, headers / "usr" / "include")
            with timed(f"rocm-channel verify --want {given.arch}"):
                command = (sys.executable, "-m", "channel_tools", "verify", "--want", given.arch, "--json")
                said = run(*command, made)
        except (StepError, ChannelToolsError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        (file,) = json.loads(said)["files"]
        print(f"ok: {made.name}, {made.stat().st_size} bytes, code for {', '.join(file['targets'])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
