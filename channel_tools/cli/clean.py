"""``rocm-channel clean``: removes what went stale when arch, ROCm or compiler changed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options

if TYPE_CHECKING:
    from channel_tools.diagnose.cleaning.clean import Stale
    from channel_tools.diagnose.cleaning.items import Item


def clean(
    trees: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[SOURCE_TREES]...", parser=given.path, help="Source trees to look into."),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option("--arch", help="The arch to build for: CMake caches of another one are stale."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List only.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json_: options.Json = False,
) -> None:
    """List leftovers of builds, cached wheels of vllm, triton and torch, and kernel caches; remove them.

    Of source trees: build, dist, *.egg-info, __pycache__, and CMake caches of another arch. Nothing else is
    touched, no link is followed, and nothing is removed without an answer, or --yes.
    """
    from channel_tools.diagnose.cleaning.clean import find_stale, to_json
    from channel_tools.diagnose.cleaning.items import remove
    from channel_tools.diagnose.doctor.hosts import LiveHost
    from channel_tools.model.arch import is_plain_target
    from channel_tools.model.errors import StorageError

    if arch is not None and not is_plain_target(arch):
        raise typer.BadParameter("is a GPU target, as gfx942", param_hint="--arch")
    if json_ and not (yes or dry_run):
        raise typer.BadParameter("cannot ask: give --dry-run or --yes", param_hint="--json")
    for tree in trees or ():
        if not tree.is_dir():
            raise typer.BadParameter(f"{tree}: no such folder", param_hint="SOURCE_TREES")
    host = LiveHost()
    stale = find_stale(host, [str(tree.resolve()) for tree in trees or ()], arch)
    if not json_:
        _print(stale)
    removed: list[Item] = []
    left: list[str] = []
    for item, _ in stale.items if _agreed(stale, dry_run, yes) else ():
        try:
            remove(host, item)
            removed.append(item)
        except StorageError as error:  # the others may go all the same
            left.append(f"{error.where} {error.what}")
    if json_:
        options.print_json(to_json(stale, removed))
    elif removed:
        typer.echo(f"removed {_size(sum(size for item, size in stale.items if item in removed))}")
    if left:
        raise StorageError(
            f"{len(left)} of {len(stale.items)} are still there, wholly or in part",
            found="; ".join(left),
            fix="remove them as their owner",
        )


def _agreed(stale: Stale, dry_run: bool, yes: bool) -> bool:
    if dry_run or not stale.items:
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise typer.BadParameter("cannot ask without a terminal: give --dry-run or --yes", param_hint="clean")
    return typer.confirm(f"remove these {len(stale.items)}, {_size(stale.total)}?")


def _print(stale: Stale) -> None:
    from channel_tools.verify.source import printable

    for item, size in stale.items:
        entries = f" ({len(item.parts)} in it)" if item.parts else ""
        typer.echo(f"{_size(size):>10}  {item.kind:<16} {printable(item.path)}{entries}")
        typer.echo(f"{'':>12}{printable(item.reason)}")
    for kept in stale.kept:
        typer.echo(f"{'kept':>10}  {printable(kept.path)}: {printable(kept.reason)}")
    if not stale.items:
        typer.echo("nothing is stale")


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
