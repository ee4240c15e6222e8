"""``rocm-channel build``: build packages for the matrix, verify them, add them to a channel."""

from __future__ import annotations

import os
import shlex
from typing import Annotated, Any

import typer

from channel_tools.build.builder import Builder, Outcome, available_memory_mib, parallel_builds
from channel_tools.build.engines import ENGINES, Settings, channels_for, check_engine, invocation
from channel_tools.build.failures import explained
from channel_tools.build.plan import MISSING, Plan, make_plan
from channel_tools.build.toolchain import Toolchain, choose, prepare_host_tools, require_rocm
from channel_tools.channel.folder import FolderChannel
from channel_tools.cli import options
from channel_tools.cli.live import Display
from channel_tools.model.errors import BuildFailedError, DependencyError
from channel_tools.model.project import Project

LEVEL_DEVELOP, LEVEL_RELEASE = 3, 9


def build(
    recipes: Annotated[list[str], typer.Argument(help="Packages to build; what they need is built too.")],
    archs: options.Archs = None,
    releases: options.Releases = None,
    pythons: options.Pythons = None,
    channel: options.Channel = options.DEFAULT_CHANNEL,
    engine: Annotated[str, typer.Option("--engine", help="rattler, conda-build or mambabuild.")] = "rattler",
    tool_channels: options.ToolChannels = None,
    toolchain: options.ToolchainKind = None,
    rocm_path: options.RocmPath = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Builds at once.")] = None,
    release: Annotated[bool, typer.Option("--release", help="Compress for publishing (zstd 9).")] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Build what a failure does not touch.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build what the channel has too, and replace it there.")
    ] = False,
    no_test: Annotated[bool, typer.Option("--no-test", help="Do not run the packages' own tests.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be run.")] = False,
    json_: options.Json = False,
) -> None:
    """Build packages in graph order; verify each; add what passes to the channel."""
    options.check_toolchain(toolchain)
    if engine not in ENGINES:
        raise typer.BadParameter(f"is one of {', '.join(ENGINES)}", param_hint="--engine")
    project = Project.find()
    matrix = options.selected_matrix(project, archs, releases, pythons)
    chosen = choose(project, options.channel_urls(tool_channels), toolchain, rocm_path)
    plan = make_plan(project, matrix, chosen, FolderChannel(channel.absolute())).select(recipes)
    work = [step for step in plan.steps if step.state == MISSING or rebuild]
    if chosen.kind == "host":
        tools_url = project.host_tools.resolve().as_uri()
        if not dry_run and work:
            tools_url = prepare_host_tools(project, matrix).url
        chosen = Toolchain(chosen.kind, (tools_url, *chosen.channels), chosen.rocm_path)
    if not dry_run and work:
        check_engine(engine)
        if any("hip_sdk" in step.node.variant for step in work):
            chosen = Toolchain(chosen.kind, chosen.channels, require_rocm(chosen, project))
    cpus, memory = len(os.sched_getaffinity(0)), available_memory_mib()
    at_once = jobs or parallel_builds(plan, cpus, memory)
    settings = Settings(
        project=project,
        toolchain=chosen,
        channel=FolderChannel(channel.absolute()),
        engine=engine,
        level=LEVEL_RELEASE if release else LEVEL_DEVELOP,
        threads=cpus if release else 1,
        cpus=max(1, cpus // at_once),
        memory_mib=memory // at_once,
        test=not no_test,
    )
    if dry_run:
        _show(plan, settings, rebuild, json_)
        return
    with Display(chosen.describe() if work else None, quiet=json_) as display:
        builder = Builder(settings, at_once, display.update, keep_going, rebuild)
        outcomes = builder.run(plan)
    if json_:
        options.print_json({"version": 1, "packages": [_outcome_json(o) for o in outcomes]})
    else:
        display.summary(outcomes)
    failed = next((o for o in outcomes if o.error is not None), None)
    if failed is not None and failed.error is not None:
        if isinstance(failed.error, BuildFailedError | DependencyError):
            log = project.logs / f"{failed.step.node.stem}.log"
            if lines := explained(log):
                failed.error.add_note("\n".join(["", f"explain {log}", *lines]))
        raise failed.error


def _show(plan: Plan, settings: Settings, rebuild: bool, json_: bool) -> None:
    commands = []
    for step in plan.steps:
        if step.state != MISSING and not rebuild:
            continue
        run = invocation(step.node, settings, settings.project.logs / f"{step.node.stem}.log", write=False)
        if settings.engine == "rattler":
            words = ["rattler", str(step.node.recipe), "--variant", step.node.stem]
            words += [word for url in channels_for(step.node, settings) for word in ("-c", url)]
        else:
            words = run.command
        commands.append({"package": step.node.stem, "command": words})
    if json_:
        options.print_json({"version": 1, "commands": commands})
        return
    for command in commands:
        typer.echo(shlex.join(command["command"]))


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "package": outcome.step.node.stem,
        "status": outcome.status,
        "seconds": round(outcome.seconds, 1),
        "targets": sorted(outcome.report.targets()) if outcome.report else None,
        "error": options.error_json(outcome.error) if outcome.error else None,
    }
