"""``rocm-channel env``: look after an installed environment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options

if TYPE_CHECKING:
    from channel_tools.client.env_check.check import EnvironmentCheck

app = typer.Typer(
    help="Look after an installed environment.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def _env() -> None: ...


@app.command("check")
def check(
    prefix: Annotated[
        Path,
        typer.Argument(
            metavar="PREFIX",
            parser=given.path,
            help="Folder of the environment: of conda, or of `python -m venv`.",
        ),
    ],
    arch: Annotated[
        str | None, typer.Option("--arch", help="GPU target it is for, when that is not this host's GPU.")
    ] = None,
    rocm: Annotated[
        str | None, typer.Option("--rocm", help="ROCm release it is for, when that is not this host's.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Read no contents: neither hashes nor GPU code.")
    ] = False,
    json_: options.Json = False,
) -> None:
    """Is an environment what was installed, for one GPU arch, and for this host? Changes nothing.

    Exit code 0: nothing is wrong; 53: something is, or the folder is no environment.
    """
    from channel_tools.cli.progress import ByteBars
    from channel_tools.client.env_check.check import check_environment
    from channel_tools.client.host import detect_host
    from channel_tools.model import arch as registry
    from channel_tools.model.errors import EnvironmentCheckError

    if arch is not None and registry.lookup(arch) is None:
        raise typer.BadParameter(f"{arch} is no AMD GPU target, such as gfx942", param_hint="--arch")
    if rocm is not None and re.fullmatch(r"\d+\.\d+", rocm) is None:
        raise typer.BadParameter(f"{rocm} is no ROCm release, such as 7.2", param_hint="--rocm")
    with ByteBars(quiet=json_) as bars:
        found = check_environment(
            prefix, detect_host(), arch=arch, rocm=rocm, quick=quick, progress=bars.update
        )
    if json_:
        options.print_json(found.to_json())
    else:
        _print(found)
    if found.findings:
        raise SystemExit(EnvironmentCheckError.exit_code)


def _print(found: EnvironmentCheck) -> None:
    for finding in found.findings:
        typer.echo("\n".join(finding.lines()))
    for note in found.notes:
        typer.echo(f"note: {note}")
    archs = sorted({arch for one in found.ours for arch in one.archs})
    releases = sorted({one.rocm for one in found.ours if one.rocm})
    about = ", ".join([*archs, *(f"ROCm {release}" for release in releases)]) or "no GPU arch"
    read = f"{found.looked.read / 1e6:.1f} MB read" if not found.quick else "contents not read"
    state = f"{len(found.findings)} things are wrong" if len(found.findings) != 1 else "one thing is wrong"
    typer.echo(
        f"{found.prefix.path}: conda packages: {len(found.prefix.records)}, "
        f"Python distributions: {len(found.prefix.distributions)}, {about}; "
        f"{len(found.looked.actual)} files, {read}: {state if found.findings else 'nothing is wrong'}"
    )
