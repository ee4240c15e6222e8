"""``rocm-channel host-tools``: bridge packages for this host's own compilers and tools."""

from __future__ import annotations

from channel_tools.build.toolchain import prepare_host_tools
from channel_tools.cli.options import Json, load_matrix, print_json
from channel_tools.model.project import Project


def host_tools(json_: Json = False) -> None:
    """Make the local channel of bridge packages, or leave it when it is up to date."""
    import typer

    project = Project.find()
    tools = prepare_host_tools(project, load_matrix(project))
    if json_:
        bridges = [{"name": bridge.name, "version": bridge.version} for bridge in tools.bridges]
        print_json({"version": 1, "channel": str(tools.channel), "fresh": tools.fresh, "bridges": bridges})
        return
    typer.echo(f"{tools.channel}: {'made' if tools.fresh else 'up to date'}")
    for bridge in tools.bridges:
        typer.echo(f"  {bridge.name:<18} {bridge.version}")
