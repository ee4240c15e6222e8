"""``rocm-channel smoke`` with stand-ins: programs as steps, an ``amd-smi`` that plays the sensors."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from channel_tools.diagnose.smoke.devices import Device
from channel_tools.diagnose.smoke.sampler import Opened
from channel_tools.diagnose.smoke.sampler_readings import Reading
from channel_tools.diagnose.smoke.smoke import Plan, Smoke, run
from channel_tools.diagnose.smoke.step_runner import PROGRAMS, STEPS, Child, Outcome, Step, run_step
from tests.unit.gpu_hosts import PlayedSource

PYTHON = Path(sys.executable)

# amd-smi as it answers in JSON: the GPU whose number stands in the file `busy` works.
AMD_SMI = """\
#!{python} -SE
import json, pathlib, sys
busy = pathlib.Path({state!r}).read_text()
if sys.argv[1] == "list":
    print(json.dumps([{{"gpu": gpu, "bdf": f"0000:{{gpu + 1:02x}}:00.0"}} for gpu in range(2)]))
else:
    print(json.dumps([
        {{"gpu": gpu, "power_usage": {{"value": 600 if str(gpu) == busy else 140, "unit": "W"}},
          "gfx": {{"value": 97 if str(gpu) == busy else 0, "unit": "%"}}, "gfx_clk": "N/A",
          "vram_used": {{"value": 4000 if str(gpu) == busy else 280, "unit": "MB"}},
          "vram_total": {{"value": 196592, "unit": "MB"}}}} for gpu in range(2)]))
"""

# rocm-canary as it answers in JSON, on the GPU that the test says.
CANARY = """\
#!{python} -SE
import json, os, pathlib, time
state = pathlib.Path({state!r})
state.write_text({gpu})
time.sleep({seconds})
state.write_text("")
kernel = {{"name": "matmul", "rate": 1.5, "unit": "TFLOP/s", "seconds": {claimed}, "equal_to_cpu": True}}
answer = {{"status": 0, "hip_runtime_version": "7.2", "target": "gfx942", "kernels": [kernel]}}
answer["device"] = {{"number": 0, "name": "stand-in", "arch": "gfx942"}}
print(json.dumps(answer if {code} == 0 else {{"status": {code}, "error": "said so"}}))
raise SystemExit({code})
"""


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


FAST = ("--step", "canary", "--baseline", "0.4", "--interval", "0.1")


class Host:
    """A folder that plays the environment under test, and a PATH with its amd-smi."""

    def __init__(
        self, folder: Path, gpu: str = "''", *, seconds: float = 0.9, claimed: float = 5.0, code: int = 0
    ):
        self.folder = folder
        state = folder / "busy"
        state.write_text("", encoding="utf-8")
        fields = {"python": sys.executable, "state": str(state), "gpu": gpu, "seconds": seconds}
        program(folder / "path" / "amd-smi", AMD_SMI.format(**fields))
        canary = CANARY.format(**fields, claimed=claimed, code=code)
        program(folder / "path" / "rocm-canary", canary)

    def smoke(self, *options: object, **environ: str) -> subprocess.CompletedProcess[str]:
        names = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
        clean = {key: value for key, value in os.environ.items() if key not in names}
        path = f"{self.folder / 'path'}:{os.environ['PATH']}"
        return subprocess.run(
            [sys.executable, "-m", "channel_tools", "smoke", *FAST, *map(str, options)],
            env={**clean, "PATH": path, **environ},
            capture_output=True,
            text=True,
            check=False,
        )


ASKED = "os.environ.get('HIP_VISIBLE_DEVICES', '0')"


def test_used(tmp_path: Path) -> None:
    result = Host(tmp_path, ASKED).smoke("--gpu", "1", "--output", tmp_path / "kept")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "used: GPU 1 0000:02:00.0: 140 W before, 600 W at most, load up to 97 %" in result.stdout
    assert "canary: matmul: ok 1.5 TFLOP/s, equal to the CPU" in result.stdout
    report = json.loads((tmp_path / "kept" / "report.json").read_text(encoding="utf-8"))
    assert report["verdict"] == "used" and report["asked"]["index"] == 1 and not report["bad"]
    assert [one["verdict"] for one in report["gpus"]] == ["idle", "used"]
    assert report["sampler"]["source"] == "amd-smi"
    kept = sorted(one.name for one in (tmp_path / "kept").iterdir())
    assert kept == ["canary.log", "plot.png", "report.json", "samples.jsonl"]


def test_idle(tmp_path: Path) -> None:
    result = Host(tmp_path).smoke("--json")
    assert result.returncode == 83
    data = json.loads(result.stdout)
    assert (data["version"], data["verdict"], data["bad"]) == (1, "idle", True)
    assert data["steps"][0]["status"] == "passed", "what the program says of itself is not what is judged"


def test_wrong_gpu(tmp_path: Path) -> None:
    result = Host(tmp_path, "'1'").smoke(HIP_VISIBLE_DEVICES="0")
    assert result.returncode == 83
    assert "wrong GPU used: GPU 0 0000:01:00.0 was asked for and did nothing; GPU 1" in result.stdout
    assert "Traceback" not in result.stderr


def test_work_too_short_to_be_seen(tmp_path: Path) -> None:
    host = Host(tmp_path, seconds=0.5, claimed=0.001)
    assert host.smoke().returncode == 0
    strict = host.smoke("--strict")
    assert strict.returncode == 83 and "cannot tell" in strict.stderr


@pytest.mark.parametrize(
    ("code", "reason"), [(4, "holds no code for the GPU: said so"), (7, "differs from the CPU")]
)
def test_a_canary_that_fails(tmp_path: Path, code: int, reason: str) -> None:
    result = Host(tmp_path, seconds=0.1, code=code).smoke("--output", tmp_path / "kept", "--baseline", 0)
    assert result.returncode == 83
    assert reason in result.stderr
    assert f"rocm-channel explain {tmp_path / 'kept' / 'canary.log'}" in result.stderr


def test_a_number_that_no_gpu_has(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for gpu, hidden, left in (("2", {}, 2), ("1", {"ROCR_VISIBLE_DEVICES": "1"}, 1)):
        result = host.smoke("--gpu", gpu, **hidden)
        assert result.returncode == 2 and f"programs see {left} GPUs" in result.stderr


def test_no_reading_and_no_package(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for name in ("amd-smi", "rocm-canary"):
        (tmp_path / "path" / name).unlink()
    result = host.smoke("--json")
    data = json.loads(result.stdout)
    assert result.returncode == 83, "a run that tried nothing is no pass"
    assert (
        data["steps"][0]["status"] == "skipped"
        and "rocm-canary is not installed" in data["steps"][0]["reason"]
    )
    assert data["verdict"] == "cannot tell"


def test_dry_run_runs_nothing(tmp_path: Path) -> None:
    result = Host(tmp_path).smoke("--dry-run", "--output", tmp_path / "kept")
    assert result.returncode == 0 and "steps:   canary" in result.stdout
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_step_too(tmp_path: Path, number: signal.Signals) -> None:
    Host(tmp_path, "str(os.getpid())", seconds=60)
    process = subprocess.Popen(
        [sys.executable, "-m", "channel_tools", "smoke", "--baseline", "0", "--step", "canary"],
        env={**os.environ, "PATH": f"{tmp_path / 'path'}:{os.environ['PATH']}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 15
    while not (child := (tmp_path / "busy").read_text(encoding="utf-8")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130 and "interrupted" in err
    assert not running(int(child))


# --- steps ---


def step(folder: Path, text: str) -> Step:
    path = folder / "step.py"
    head = "import json, os, signal, sys, time\nresult = sys.argv[sys.argv.index('--result') + 1]\n"
    path.write_text(head + textwrap.dedent(text), encoding="utf-8")
    return Step("torch", path, 20)


def child(**changes: Any) -> Child:
    return Child(**{"python": PYTHON, "environ": os.environ, "work_seconds": 0.1, **changes})


def say(status: str, **more: object) -> str:
    return f"open(result, 'w').write(json.dumps({{'status': {status!r}, **{more!r}}}))\n"


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        (say("passed", gpu_seconds=3.5), "passed", ""),
        (say("skipped", reason="no torch"), "skipped", "no torch"),
        (say("failed", reason="wrong product"), "failed", "wrong product"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed", "ended by SIGSEGV"),
        (say("passed") + "os.kill(os.getpid(), signal.SIGABRT)", "crashed", "SIGABRT, after it had passed"),
        (say("passed") + "sys.exit(3)", "crashed", "passed, and then ended with exit code 3"),
        ("raise ValueError('deep')", "crashed", "exit code 1 and without a result"),
        ("open(result, 'w').write('{')", "crashed", "without a result"),
        ("pass", "crashed", "exit code 0 and without a result"),
    ],
)
def test_how_a_step_may_end(tmp_path: Path, text: str, status: str, reason: str) -> None:
    outcome = run_step(step(tmp_path, text), child())
    assert outcome.status == status and reason in outcome.reason
    assert outcome.bad == (status not in ("passed", "skipped"))
    if "deep" in text:
        assert outcome.last_lines[-1] == "ValueError: deep"


def test_a_step_that_hangs_is_ended_with_all_that_it_began(tmp_path: Path) -> None:
    text = """
    import subprocess
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    print(other.pid, flush=True)
    time.sleep(60)
    """
    outcome = run_step(step(tmp_path, text), child(limit=1.5, logs=tmp_path))
    assert (outcome.status, outcome.log) == ("timed out", str(tmp_path / "torch.log"))
    assert not running(int(outcome.last_lines[-1]))


def running(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True


def test_what_a_passed_step_left_running_is_ended(tmp_path: Path) -> None:
    text = """
    import subprocess
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    open(result, "w").write(json.dumps({"status": "passed", "facts": {"left": other.pid}}))
    """
    outcome = run_step(step(tmp_path, text), child())
    assert outcome.status == "passed"
    assert not running(int(outcome.facts["left"]))


def test_a_log_of_one_long_line_with_progress(tmp_path: Path) -> None:
    text = "print('\\r'.join(f'{n} %' for n in range(200000)), end='')\nprint('\\xff\\n' * 3)\nsys.exit(1)\n"
    outcome = run_step(step(tmp_path, text), child())
    assert outcome.last_lines[0] == "199999 %ÿ" and len(outcome.last_lines) == 3


def test_steps_and_sampler_together(tmp_path: Path) -> None:
    begun: list[str] = []

    def play(_: int) -> list[Reading]:
        on = begun[-1:] == ["torch"]
        return [Reading(0, power_watts=600.0 if on else 140.0, busy_percent=97.0 if on else 0.0)]

    from channel_tools.diagnose.smoke.smoke import Watcher

    ended: list[Outcome] = []
    source = PlayedSource(play)
    text = "time.sleep(0.6)\n" + say("passed", gpu_seconds=9.0)
    plan = Plan(child(), Device(0, "gfx942"), [step(tmp_path, text)], 0.3, 0.05)
    watcher = Watcher(begun=begun.append, ended=ended.append)
    result = run(plan, Opened(source, (("amdsmi", "not there"),), (Device(0, "gfx942"),)), watcher)
    assert isinstance(result, Smoke) and result.verdict.word == "used" and source.closed
    assert begun == ["baseline", "torch"] and [one.status for one in ended] == ["passed"]
    assert [name for name, *_ in result.recording.spans()] == ["baseline", "torch"]
    assert result.failure() is None and result.failure(strict=True) is None


# --- the programs themselves ---


def test_the_programs_compile_and_bring_no_import_of_ours() -> None:
    for path in PROGRAMS.glob("*.py"):
        compile(path.read_text(encoding="utf-8"), str(path), "exec")
    assert {one.program.name for one in STEPS} <= {path.name for path in PROGRAMS.glob("*.py")}
    assert not any(
        "channel_tools import" in path.read_text(encoding="utf-8") for path in PROGRAMS.glob("*.py")
    )


@pytest.mark.parametrize("one", STEPS, ids=[one.name for one in STEPS])
def test_a_step_whose_package_is_missing_is_skipped(one: Step) -> None:
    package = {"torch": "torch", "triton": "triton", "vllm": "vllm"}.get(one.name)
    installed = (
        package and subprocess.run([PYTHON, "-c", f"import {package}"], capture_output=True).returncode == 0
    )
    if installed:
        pytest.skip(f"{package} is installed here")
    outcome = run_step(one, child(environ={**os.environ, "PATH": "/usr/bin:/bin"}))
    assert outcome.status == "skipped" and "is not installed in" in outcome.reason


def test_the_half_of_the_torch_step_that_needs_no_gpu(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    result = tmp_path / "result.json"
    command = [PYTHON, PROGRAMS / "torch_step.py", "--device", "cpu", "--result", result, "--seconds", "0.1"]
    subprocess.run(command, check=True)
    assert json.loads(result.read_text(encoding="utf-8"))["status"] == "passed"


@pytest.mark.parametrize("text", ["\x7fELF", "#!/no/such/interpreter\n"])
def test_a_python_that_cannot_be_run(tmp_path: Path, text: str) -> None:
    program(tmp_path / "env" / "bin" / "python", text)
    result = Host(tmp_path).smoke("--prefix", tmp_path / "env", "--json")
    assert (result.returncode, result.stdout) == (13, "")
    assert f"{tmp_path / 'env' / 'bin' / 'python'}: cannot be run" in result.stderr
