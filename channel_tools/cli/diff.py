"""``rocm-channel diff``: what two channels differ in."""

from __future__ import annotations

from typing import Annotated

import typer

from channel_tools.cli import options
from channel_tools.cli.care import Address, tell


def diff(
    channel_a: Address,
    channel_b: Address,
    arch: Annotated[
        str | None, typer.Option("--arch", help="Only packages for this GPU target, and those for any.")
    ] = None,
    json_: options.Json = False,
) -> None:
    """List packages that one channel has alone, that differ in content, or that one has yanked, by GPU arch.

    The exit code is 0 whatever is found.
    """
    from channel_tools.channel.care.compare import compare
    from channel_tools.channel.stores.opening import open_store

    a, b = open_store(channel_a), open_store(channel_b)
    found = compare(a, b, arch)
    if arch is not None and arch not in found.by_arch():
        tell(f"note: neither channel has a package for {arch}")
    if json_:
        options.print_json({"version": 1, "a": a.address, "b": b.address, **found.to_json()})
        return
    typer.echo(f"- {a.address}")
    typer.echo(f"+ {b.address}")
    for target, differences in found.by_arch().items():
        typer.echo(f"{target}: {found.same.get(target, 0)} the same, {len(differences)} differ")
        for one in differences:
            if one.kind == "only":
                typer.echo(f"  {'-' if one.b is None else '+'} {one.key}{_yanked(one.a, one.b)}")
            elif one.kind == "yanked":
                typer.echo(f"  ~ {one.key}: yanked in {a.address if one.a == 'yanked' else b.address} only")
            else:
                typer.echo(f"  ! {one.key}: other content ({(one.a or '')[:12]} and {(one.b or '')[:12]})")
    if not found.by_arch():
        typer.echo("neither has a package")


def _yanked(*said: str | None) -> str:
    return " (yanked)" if "yanked" in said else ""
