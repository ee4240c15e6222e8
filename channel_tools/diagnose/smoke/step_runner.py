"""The step programs of ``rocm-channel smoke``: which there are, and running one in a child process.

What happens to a step (a crash, a hang, a wrong result) is what is looked for, and never ends this process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from channel_tools.model.clock import elapsed
from channel_tools.model.errors import ToolMissingError

PROGRAMS: Final = Path(__file__).parent / "steps"
_TAIL: Final = 12
_LOG_BYTES: Final = 64 << 10

Status = Literal["passed", "failed", "crashed", "timed out", "skipped"]


@dataclass(frozen=True)
class Step:
    """One program.

    :param limit: seconds after which it is ended; generous, since a first start compiles and fills caches
    """

    name: str
    program: Path
    limit: float


STEPS: Final = (
    Step("canary", PROGRAMS / "canary_step.py", 120),
    Step("torch", PROGRAMS / "torch_step.py", 600),
    Step("triton", PROGRAMS / "triton_step.py", 600),
    Step("vllm", PROGRAMS / "vllm_step.py", 1200),
)


@dataclass(frozen=True)
class Outcome:
    """What became of a step."""

    name: str
    status: Status
    reason: str
    seconds: float
    checks: tuple[Mapping[str, Any], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    gpu_seconds: float = 0.0
    last_lines: tuple[str, ...] = ()
    log: str | None = None

    @property
    def bad(self) -> bool:
        return self.status not in ("passed", "skipped")


@dataclass(frozen=True)
class Child:
    """How a step is run.

    :param python: interpreter of the environment under test
    :param environ: its environment variables
    :param work_seconds: how long it keeps the GPU busy
    :param limit: seconds it may take; None: its own limit
    :param logs: folder for what it prints; None: it is not kept
    """

    python: Path
    environ: Mapping[str, str]
    work_seconds: float
    limit: float | None = None
    logs: Path | None = None


def run_step(step: Step, child: Child) -> Outcome:
    """Run one step to its end, or to its time limit."""
    limit = step.limit if child.limit is None else child.limit
    start = elapsed()
    with tempfile.TemporaryDirectory(prefix="rocm-channel-smoke-") as name:
        result = Path(name) / "result.json"
        log = (child.logs or Path(name)) / f"{step.name}.log"
        code = _run_program(step, child, result, log, limit)
        took = elapsed() - start
        last = _last_lines(log)
        said = _read_result(result)
    kept = str(log) if child.logs else None
    if code is None:
        return Outcome(
            step.name, "timed out", f"not done after {limit:.0f} s", took, last_lines=last, log=kept
        )
    status, reason = _status(code, said)
    return Outcome(
        step.name,
        status,
        reason,
        took,
        tuple(said.get("checks", ())),
        said.get("facts", {}),
        float(said.get("gpu_seconds", 0.0)),
        last if status in ("failed", "crashed") else (),
        kept,
    )


def _run_program(step: Step, child: Child, result: Path, log: Path, limit: float) -> int | None:
    """The exit code, negative for a signal; None when the time was over. Nothing of it is left running."""
    command: list[str | Path] = [child.python, "-B", step.program, "--result", result]
    command += ["--seconds", f"{child.work_seconds:g}"]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stream:
        try:
            process = subprocess.Popen(
                command,
                env={**child.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolMissingError(
                f"cannot be run: {error.strerror}",
                where=child.python,
                wanted="the Python of an environment",
                fix="give another one with --prefix",
            ) from error
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _status(code: int, said: Mapping[str, Any]) -> tuple[Status, str]:
    status, reason = said.get("status"), str(said.get("reason", ""))
    if code < 0:
        name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
        after = f", after it had {status}" if status else ""
        return "crashed", f"ended by {name}{after}"
    if status in ("passed", "failed", "skipped"):
        if code and status == "passed":
            return "crashed", f"passed, and then ended with exit code {code}"
        return status, reason
    return "crashed", f"ended with exit code {code} and without a result"


def _read_result(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _last_lines(log: Path) -> tuple[str, ...]:
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _LOG_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ()
    lines = [line.rpartition("\r")[2].rstrip() for line in text.split("\n")]
    return tuple(line[:400] for line in lines if line.strip())[-_TAIL:]
