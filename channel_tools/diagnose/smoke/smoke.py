"""The steps of ``rocm-channel smoke``: programs that use the GPU, while a sampler looks whether it works.

A step runs in a child process with the Python of the environment under test. What happens to it (a crash, a
hang, a wrong result) is what is looked for, and never ends this process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from channel_tools.diagnose.smoke.devices import Device
from channel_tools.diagnose.smoke.recording import Recording
from channel_tools.diagnose.smoke.sampler import Opened, Sampler
from channel_tools.diagnose.smoke.sampler_readings import Sample
from channel_tools.diagnose.smoke.step_runner import STEPS, Child, Outcome, Step, run_step
from channel_tools.diagnose.smoke.verdict import BASELINE, Verdict, judge
from channel_tools.model.errors import SmokeError, ToolMissingError

BASELINE_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Smoke:
    """A whole run."""

    outcomes: tuple[Outcome, ...]
    verdict: Verdict
    recording: Recording
    asked: Device | None

    def failure(self, *, strict: bool = False) -> SmokeError | None:
        """The error that the run ends with, if it ends with one.

        :param strict: a verdict that cannot be told, and steps that were skipped, are errors too
        """
        bad = [one for one in self.outcomes if one.bad or (strict and one.status == "skipped")]
        unclear = strict and self.verdict.word == "cannot tell"
        nothing = all(one.status == "skipped" for one in self.outcomes)
        if nothing:
            return SmokeError(
                "nothing was tried: no step can be run in this environment",
                found="; ".join(one.reason for one in self.outcomes),
                fix="give an environment that has the packages with --prefix",
            )
        if not bad and not self.verdict.bad and not unclear:
            return None
        found = [f"{one.name} {one.status}: {one.reason}" for one in bad]
        if self.verdict.bad or unclear:
            found.append(f"{self.verdict.word}: {self.verdict.reason}")
        logs = [one.log for one in bad if one.log]
        return SmokeError(
            "the GPU or its software does not work as it should",
            found="; ".join(found),
            fix=f"rocm-channel explain {logs[0]}" if logs else "rocm-channel doctor use",
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "version": 1,
            "bad": self.failure() is not None,
            **self.verdict.to_json(),
            "asked": self.asked.to_json() if self.asked else None,
            "steps": [asdict(one) for one in self.outcomes],
            "sampler": self.recording.head(),
        }


@dataclass(frozen=True)
class Plan:
    """What a run does.

    :param child: how a step is run
    :param asked: the GPU that the steps are to use
    :param interval: seconds from one reading to the next
    """

    child: Child
    asked: Device | None
    steps: Sequence[Step] = STEPS
    baseline_seconds: float = BASELINE_SECONDS
    interval: float = 0.5


@dataclass
class Watcher:
    """Who is told how a run goes: each sample, each step that begins, each that ended."""

    sampled: Callable[[Sample], None] = lambda sample: None
    begun: Callable[[str], None] = lambda name: None
    ended: Callable[[Outcome], None] = lambda outcome: None


def interpreter(prefix: Path | None, own: Path) -> Path:
    """The Python of an environment; our own without one.

    :raises ToolMissingError: the environment has none
    """
    if prefix is None:
        return own
    found = prefix.absolute() / "bin" / "python"
    if not os.access(found, os.X_OK):
        raise ToolMissingError(
            "there is no Python, which runs the steps",
            where=found,
            fix="give the prefix of an environment that has one, or install python into this one",
        )
    return found


def step_environment(environ: Mapping[str, str], python: Path, gpu: int | None) -> dict[str, str]:
    """The environment of a step: programs of its prefix come first, and the GPU asked for is chosen."""
    result = {**environ, "PATH": f"{python.parent}:{environ.get('PATH', '/usr/bin:/bin')}"}
    if gpu is not None:
        result["HIP_VISIBLE_DEVICES"] = str(gpu)
        result.pop("CUDA_VISIBLE_DEVICES", None)
    return result


def run(plan: Plan, opened: Opened, watcher: Watcher | None = None) -> Smoke:
    """Run the steps one after the other, with samples before and meanwhile."""
    watcher = watcher or Watcher()
    outcomes: list[Outcome] = []
    ended: float | None = None
    with _sampling(plan, opened, watcher) as sampler:
        if sampler is not None:
            sampler.phase = BASELINE
            watcher.begun(BASELINE)
            time.sleep(plan.baseline_seconds)
        for step in plan.steps:
            if sampler is not None:
                sampler.phase = step.name
            watcher.begun(step.name)
            outcomes.append(run_step(step, plan.child))
            if sampler is not None:
                sampler.phase = ""
                ended = sampler.seconds()
            watcher.ended(outcomes[-1])
    recording = Recording(
        opened.devices,
        opened.source.name if opened.source else "",
        opened.refused,
        tuple(sampler.samples) if sampler else (),
        sampler.failures if sampler else 0,
        sampler.last_failure if sampler else "",
    )
    passed = [one.gpu_seconds for one in outcomes if one.status == "passed"]
    tried = any(one.status != "skipped" for one in outcomes)
    failed = any(one.bad for one in outcomes)
    if tried:
        verdict = judge(
            opened.devices,
            plan.asked,
            recording.samples,
            gpu_seconds=sum(passed) if passed and not failed else None,
            ended=ended,
            no_source=recording.last_failure or opened.reasons,
        )
    else:
        verdict = Verdict("cannot tell", "no step could be run in this environment", ())
    return Smoke(tuple(outcomes), verdict, recording, plan.asked)


@contextmanager
def _sampling(plan: Plan, opened: Opened, watcher: Watcher) -> Iterator[Sampler | None]:
    if opened.source is None:
        yield None
        return
    sampler = Sampler(opened.source, opened.devices, plan.interval, watcher.sampled)
    sampler.start()
    try:
        yield sampler
    finally:
        sampler.stop()
