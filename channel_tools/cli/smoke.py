"""``rocm-channel smoke``: does the GPU compute, is it right, and does the GPU do it?"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import options
from channel_tools.cli.gpus import Output, Prefix, SourceNames, keep, source_names

if TYPE_CHECKING:
    from channel_tools.cli.gpu_display import GpuDisplay
    from channel_tools.diagnose.smoke.smoke import Plan, Smoke, Watcher
    from channel_tools.diagnose.smoke.step_runner import Outcome

_COLOURS = {"passed": "green", "skipped": "yellow"}
_WORD_COLOURS = {"used": "green", "cannot tell": "yellow", "also used": "yellow"}


def smoke(
    steps: Annotated[
        list[str] | None, typer.Option("--step", help="canary, torch, triton or vllm; may be repeated.")
    ] = None,
    prefix: Prefix = None,
    gpu: Annotated[
        int | None, typer.Option("--gpu", min=0, help="HIP's number of the GPU to use (default: the first).")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, max=3600, help="How long a step keeps the GPU busy.")
    ] = 6.0,
    interval: Annotated[
        float, typer.Option("--interval", min=0.05, max=60, help="Seconds from one reading to the next.")
    ] = 0.5,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", min=1, help="Seconds that one step may take.")
    ] = None,
    baseline: Annotated[
        float, typer.Option("--baseline", min=0, max=600, help="Seconds of readings before the first step.")
    ] = 5.0,
    source: SourceNames = None,
    output: Output = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Steps that were skipped fail, and a verdict that cannot be told."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be run.")] = False,
    json_: options.Json = False,
) -> None:
    """Run small programs on the GPU, compare with the CPU, and judge by its sensors whether it worked.

    Exit code 0: a step ran, none failed, and the GPU was used or cannot be told; 83: anything else.
    """
    from channel_tools.cli.gpu_display import GpuDisplay
    from channel_tools.diagnose.doctor.hosts import open_host
    from channel_tools.diagnose.smoke import smoke as runner
    from channel_tools.diagnose.smoke.devices import read_devices, visible
    from channel_tools.diagnose.smoke.sampler import Opened, open_source
    from channel_tools.diagnose.smoke.step_runner import STEPS, Child
    from channel_tools.model.files import check_writable

    known = [step.name for step in STEPS]
    for name in steps or ():
        if name not in known:
            raise typer.BadParameter(f"is one of {', '.join(known)}", param_hint="--step")
    names = source_names(source)
    python = runner.interpreter(prefix, Path(sys.executable))
    host = open_host(None)
    opened = Opened(None, (), read_devices(host)) if dry_run else open_source(host, python, names)
    environ = runner.step_environment(os.environ, python, gpu)
    seen = visible(opened.devices, environ)
    if gpu is not None and opened.devices and not seen:
        left = len(visible(opened.devices, {**environ, "HIP_VISIBLE_DEVICES": ""}))
        raise typer.BadParameter(f"{gpu}: programs see {left} GPUs here, from 0 on", param_hint="--gpu")
    if output is not None and not dry_run:
        check_writable(output)
    child = Child(python, environ, seconds, time_limit, output.absolute() if output else None)
    chosen = [step for step in STEPS if not steps or step.name in steps]
    plan = runner.Plan(child, seen[0] if seen else None, chosen, baseline, interval)
    if dry_run:
        _print_plan(plan, names, as_json=json_)
        return
    with GpuDisplay(opened.devices, "", quiet=json_) as display:
        result = runner.run(plan, opened, _watcher(display))
    if output is not None:
        head = f"smoke: {result.verdict.word}", result.verdict.reason
        keep(output, result.recording, result.to_json(), head, plan.asked)
    if json_:
        options.print_json(result.to_json())
    else:
        _print(result, output)
    failed = result.failure(strict=strict)
    if failed and json_:
        raise SystemExit(failed.exit_code)
    if failed:
        raise failed


def _watcher(display: GpuDisplay) -> Watcher:
    from rich.text import Text

    from channel_tools.diagnose.smoke.smoke import Watcher

    def ended(outcome: Outcome) -> None:
        word = Text(f"{outcome.status:<9}", style=_COLOURS.get(outcome.status, "red"))
        detail = f": {outcome.reason}" if outcome.reason else ""
        display.line(word + Text(f" {outcome.name} ({outcome.seconds:.1f} s){detail}"))

    return Watcher(display.sampled, lambda name: display.titled(f"running {name}"), ended)


def _print_plan(plan: Plan, sources: list[str], *, as_json: bool) -> None:
    steps = [step.name for step in plan.steps]
    asked = plan.asked.title if plan.asked else "none: no GPU can be seen"
    if as_json:
        names = {"steps": steps, "python": str(plan.child.python), "gpu": asked, "sources": sources}
        options.print_json({"version": 1, "dry_run": True, **names})
        return
    typer.echo(f"steps:   {', '.join(steps)}\npython:  {plan.child.python}\nGPU:     {asked}")
    typer.echo(f"sources: {', '.join(sources)}")


def _print(result: Smoke, output: Path | None) -> None:
    from channel_tools.cli.gpu_display import print_recording, printed, verdict_table

    for outcome in result.outcomes:
        for check in outcome.checks:
            mark = "ok" if check["passed"] else "FAILED"
            typer.echo(printed(f"  {outcome.name}: {check['name']}: {mark} {check['detail']}".rstrip()))
        for line in outcome.last_lines:
            typer.echo(printed(f"  {outcome.name} | {line}"))
    if result.verdict.gpus:
        print_recording(verdict_table(result.verdict), result.recording)
    colour = _WORD_COLOURS.get(result.verdict.word, "red")
    word = typer.style(result.verdict.word, fg=colour, bold=True)
    typer.echo(f"{word}: {printed(result.verdict.reason)}")
    recording = result.recording
    if recording.source:
        gaps = f", {recording.failures} reads failed ({recording.last_failure})" if recording.failures else ""
        typer.echo(printed(f"{len(recording.samples)} samples by {recording.source}{gaps}"))
    if output is not None:
        typer.echo(printed(f"kept in {output}"))
