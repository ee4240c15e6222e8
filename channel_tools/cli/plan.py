"""``rocm-channel plan``: every package times every variant, in build order."""

from __future__ import annotations

from typing import Annotated

import typer

from channel_tools.build.plan import Plan, make_plan
from channel_tools.build.toolchain import choose
from channel_tools.channel.folder import FolderChannel
from channel_tools.cli import options
from channel_tools.model.project import Project


def plan(
    recipes: Annotated[
        list[str] | None, typer.Argument(help="Only these packages and what they need.")
    ] = None,
    archs: options.Archs = None,
    releases: options.Releases = None,
    pythons: options.Pythons = None,
    channel: options.Channel = options.DEFAULT_CHANNEL,
    tool_channels: options.ToolChannels = None,
    toolchain: options.ToolchainKind = None,
    rocm_path: options.RocmPath = None,
    json_: options.Json = False,
) -> None:
    """Show what there is to build, what each build needs, and what the channel has."""
    options.check_toolchain(toolchain)
    project = Project.find()
    matrix = options.selected_matrix(project, archs, releases, pythons)
    chosen = choose(project, options.channel_urls(tool_channels), toolchain, rocm_path)
    steps = make_plan(project, matrix, chosen, FolderChannel(channel))
    if recipes:
        steps = steps.select(recipes)
    if json_:
        options.print_json(steps.to_json())
    else:
        _print_tree(steps)


def _print_tree(plan: Plan) -> None:
    from rich.console import Console
    from rich.tree import Tree

    colours = {"missing": "yellow", "built": "green", "stale": "magenta"}
    console = Console(highlight=False)
    recipes: dict[str, Tree] = {}
    root = Tree("in build order")
    for step in plan.steps:
        node = step.node
        if node.package not in recipes:
            recipes[node.package] = root.add(node.package)
        state = f"[{colours[step.state]}]{step.state}[/]"
        branch = recipes[node.package].add(f"{node.version} {node.build}  {state}")
        for need in node.needs:
            branch.add(f"[dim]{need}[/]")
    console.print(root)
    counts = {state: sum(step.state == state for step in plan.steps) for state in colours}
    console.print(", ".join(f"{count} {state}" for state, count in counts.items() if count))
    if counts["stale"]:
        console.print(
            "stale: built from other inputs; raise the build number in recipe.yaml, or build --rebuild"
        )
