"""``rocm-channel verify``: which GPUs are these binaries built for, and is that what they declare?"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from channel_tools.verify import Report
    from channel_tools.verify.compare import Comparison

_QUIET_SECONDS = 2.0


def verify(
    paths: Annotated[
        list[Path],
        typer.Argument(
            parser=given.path,
            help="Packages, channel folders, wheels, archives, prefixes, folders or single files.",
        ),
    ],
    want: Annotated[
        str | None,
        typer.Option("--want", help="The GPU targets that must be there, and no others: gfx90a,gfx942."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy", parser=given.path, help="Policy file, in place of the one that comes for the package."
        ),
    ] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show what differs between two builds, and nothing else.")
    ] = False,
    scan: Annotated[
        bool, typer.Option("--scan", help="Look for GPU code in files of no known kind, too.")
    ] = False,
    sarif: Annotated[
        str | None, typer.Option("--sarif", metavar="FILE|-", help="Write SARIF 2.1.0 for CI systems.")
    ] = None,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Keep what was read of a package for the next time.")
    ] = True,
    json_: options.Json = False,
) -> None:
    """Read every ELF file, archive, bundle and code object, and compare the GPU targets in them.

    Without --want a conda package must hold exactly what it declares and follow its policy; anything else is
    listed. Two builds of one package are compared as well.
    Exit code 0: pass; 30: other targets than declared or wanted, or against the policy; 31: damaged files are
    all that is wrong; 32: a policy that cannot be used.
    """
    from channel_tools import verify as verifier
    from channel_tools.verify.compare import compare
    from channel_tools.verify.reading_cache import ReadingCache, default_folder

    try:
        expected = None if want is None else verifier.parse_want(want)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--want") from error
    for path in paths:
        if not path.exists():
            raise typer.BadParameter(f"{path}: no such file or folder", param_hint="PATHS")
    if json_ and sarif == "-":
        raise typer.BadParameter("standard output can hold one of the two", param_hint="--json, --sarif -")
    packages = [package for path in paths for package in verifier.packages_under(path)]
    two = len(packages) == len(paths) == 2
    if diff and not two:
        raise typer.BadParameter("takes two packages, archives, folders or files", param_hint="--diff")
    kept = ReadingCache(default_folder()) if cache else None
    with _progress(len(packages)) as listen:
        reports = [
            verifier.verify_path(package, expected, progress=listen, policy=policy, scan=scan, cache=kept)
            for package in packages
        ]
    comparison = compare(*reports) if diff or (two and _same_package(reports)) else None
    _print(reports, comparison, diff=diff, as_json=json_, sarif=sarif)
    code = verifier.exit_code(reports)
    if code:
        raise SystemExit(code)


def _same_package(reports: Sequence[Report]) -> bool:
    names = {report.package.name if report.package else "" for report in reports}
    return len(names) == 1 and names != {""}


def _print(
    reports: Sequence[Report], comparison: Comparison | None, *, diff: bool, as_json: bool, sarif: str | None
) -> None:
    if sarif is not None:
        from channel_tools.model.files import write_text_whole
        from channel_tools.verify.sarif import to_sarif

        if sarif == "-":
            options.print_json(to_sarif(reports))
            return
        write_text_whole(Path(sarif), json.dumps(to_sarif(reports), indent=1) + "\n")
    if as_json:
        from channel_tools.verify.report import to_json

        result = to_json(reports)
        if comparison:
            result["comparison"] = comparison.to_json()
        options.print_json(result)
    else:
        _print_text(reports, comparison, diff=diff)


def _print_text(reports: Sequence[Report], comparison: Comparison | None, *, diff: bool) -> None:
    from channel_tools.cli.progress import print_table
    from channel_tools.verify import text

    failed = [report for report in reports if report.verdict == "fail"]
    if not diff:
        print_table(text.table(reports))
        for line in text.notes(reports):
            typer.echo(line)
    for report in failed:
        typer.echo("")
        for line in text.faults(report):
            typer.echo(line)
    if comparison:
        if failed or not diff:
            typer.echo("")
        for line in text.comparison(comparison):
            typer.echo(line)


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
