"""``rocm-channel verify``: which GPUs are these binaries built for, and is that what they declare?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from channel_tools.verify import Report

_QUIET_SECONDS = 2.0
_FILES_SHOWN = 40


def verify(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Packages, channel folders, wheels, archives, prefixes, folders or single files."
        ),
    ],
    want: Annotated[
        str | None,
        typer.Option("--want", help="The GPU targets that must be there, and no others: gfx90a,gfx942."),
    ] = None,
    json_: options.Json = False,
) -> None:
    """Read every ELF file, archive, bundle and code object, and compare the GPU targets in them.

    Without --want a conda package must hold exactly what it declares; anything else is listed.
    Exit code 0: pass; 30: other targets than declared or wanted; 31: damaged files are all that is wrong.
    """
    from channel_tools import verify as verifier
    from channel_tools.verify.report import to_json

    try:
        expected = None if want is None else verifier.parse_want(want)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--want") from error
    for path in paths:
        if not path.exists():
            raise typer.BadParameter(f"{path}: no such file or folder", param_hint="PATHS")
    packages = [package for path in paths for package in verifier.packages_under(path)]
    with _progress(len(packages)) as listen:
        reports = [verifier.verify_path(package, expected, progress=listen) for package in packages]
    if json_:
        options.print_json(to_json(reports))
    else:
        _print_table(reports)
    code = verifier.exit_code(reports)
    if code:
        raise SystemExit(code)


@contextmanager
def _progress(packages: int) -> Iterator[Callable[[str], None] | None]:
    """Show the file at hand on a terminal, once the work takes longer than a glance."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield None
        return
    start = time.monotonic()
    status = console.status("reading")
    running = False

    def listen(name: str) -> None:
        nonlocal running
        if not running and time.monotonic() - start > _QUIET_SECONDS:
            status.start()
            running = True
        if running:
            status.update(
                Text(f"reading {name}" if packages == 1 else f"{packages} packages: reading {name}")
            )

    try:
        yield listen
    finally:
        status.stop()


def _print_table(reports: Sequence[Report]) -> None:
    from rich.console import Console
    from rich.filesize import decimal
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    table = Table(box=None, pad_edge=False)
    for title in ("package or file", "declared", "ROCm", "size", "targets found", "verdict"):
        table.add_column(title, overflow="fold", justify="right" if title == "size" else "left")
    for report in reports:
        colour = "green" if report.verdict == "pass" else "red"
        table.add_row(
            escape(_title(report)),
            ", ".join(report.declared) or "-",
            (report.package.rocm_version if report.package else None) or "-",
            decimal(report.size),
            escape(", ".join(report.targets())) or "none",
            f"[{colour}]{report.verdict}[/]",
        )
        if report.package is None and report.kind != "file":
            with_code = [file for file in report.files if file.targets]
            for file in with_code[:_FILES_SHOWN]:
                targets = escape(", ".join(file.targets))
                table.add_row(f"  {escape(file.path)}", "", "", decimal(file.size), targets, "")
            if len(with_code) > _FILES_SHOWN:
                table.add_row(f"  and {len(with_code) - _FILES_SHOWN} more: see --json")
    console.print(table)
    for report in reports:
        if report.verdict == "fail":
            _print_faults(report)


def _print_faults(report: Report) -> None:
    typer.echo("")
    for path, fault in report.located_faults():
        place = "" if fault.offset is None else f" at {fault.offset:#x}"
        typer.echo(f"{path}{place}: {fault.what}")
        for label, text in (("found", fault.found), ("expected", fault.wanted), ("do", fault.fix)):
            if text:
                typer.echo(f"  {label}: {text}")


def _title(report: Report) -> str:
    package = report.package
    if package is None or not package.name:
        return report.path
    return " ".join(part for part in (package.name, package.version, package.build) if part)
