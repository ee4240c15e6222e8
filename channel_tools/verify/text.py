"""Reports and comparisons as text for people, worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from channel_tools.verify.compare import Change, Comparison, Sides
from channel_tools.verify.findings import Fault
from channel_tools.verify.report import FileReport, Report, file_state, worst_first

if TYPE_CHECKING:
    from rich.table import Table

_FILES_SHOWN: Final = 40
_PATHS_SHOWN: Final = 3
_LINES_SHOWN: Final = 40
_COLOURS: Final = {"good": "green", "pass": "green", "fail": "red", "damaged": "red"}


def table(reports: Sequence[Report]) -> Table:
    """A row for each package, and below it one for each file that fails, then for each with code."""
    from rich.filesize import decimal
    from rich.markup import escape
    from rich.table import Table

    made = Table(box=None, pad_edge=False)
    for title in ("package or file", "declared", "ROCm", "size", "targets found", "verdict"):
        made.add_column(title, overflow="fold", justify="right" if title == "size" else "left")
    for report in sorted(reports, key=_badness, reverse=True):
        colour = _COLOURS[report.verdict]
        made.add_row(
            escape(report.title),
            ", ".join(report.declared) or "-",
            (report.package.rocm_version if report.package else None) or "-",
            decimal(report.size),
            escape(", ".join(report.targets())) or "none",
            f"[{colour}]{report.verdict}[/]",
        )
        if report.kind == "file":
            continue
        files = list(worst_first(report))
        for file in files[:_FILES_SHOWN]:
            colour = _COLOURS[file_state(file)]
            made.add_row(
                f"  {escape(file.path)}",
                "",
                "",
                decimal(file.size),
                escape(", ".join(file.targets)) or _named(file),
                f"[{colour}]{escape(_why(file))}[/]",
            )
        if len(files) > _FILES_SHOWN:
            made.add_row(f"  and {len(files) - _FILES_SHOWN} more: see --json")
    return made


def notes(reports: Sequence[Report]) -> Iterator[str]:
    """What the packages were held against, what is known of their compilation, what was accepted."""
    used: dict[str, int] = {}
    for report in reports:
        if report.policy:
            line = f"policy: {', '.join(report.policy.sources)}"
            if report.evidence:
                line += f"; flags: {report.evidence}"
            used[line] = used.get(line, 0) + 1
    for line, count in used.items():
        yield line if len(reports) == 1 else f"{line} ({count} of {len(reports)})"
    for report in reports:
        for taken in report.accepted:
            place = f"{report.path}: {taken.path}" if taken.path else report.path
            yield f"accepted by the policy: {place}: {taken.fault.what} ({taken.reason})"


def faults(report: Report) -> Iterator[str]:
    """Each fault with what was found, expected and what to do, damage first; the same of many files once."""
    inside = "" if report.kind == "file" else f"{report.path}: "
    located = [("", report.path, fault) for fault in report.faults]
    located += [(inside, file.path, fault) for file in report.files for fault in file.faults]
    groups: dict[tuple[str, Fault], list[tuple[str, Fault]]] = {}
    for container, path, fault in sorted(located, key=lambda item: not item[2].damage):
        groups.setdefault((container, replace(fault, offset=None)), []).append((path, fault))
    for (container, fault), group in groups.items():
        yield f"{container}{_places(group)}: {fault.what}"
        for label, text in (("found", fault.found), ("expected", fault.wanted), ("do", fault.fix)):
            if text:
                yield f"  {label}: {text}"


def comparison(made: Comparison) -> Iterator[str]:
    """What differs between two builds, ``-`` for what only the first has, ``+`` for the second."""
    yield f"{made.left} -> {made.right}"
    if made.equal:
        yield "  no difference"
    for change in made.metadata:
        yield _line(change.what, change)
    yield from _sides("targets", made.targets)
    if made.size:
        yield _line("size", made.size)
    yield from _sides("depends", made.depends)
    yield from _sides("file", made.files, made.sizes)
    for file in made.changed[:_LINES_SHOWN]:
        yield f"  {file.path}: {'; '.join(_change(change) for change in file.changes)}"
    if len(made.changed) > _LINES_SHOWN:
        yield f"  and {len(made.changed) - _LINES_SHOWN} more files: see --json"
    for change in made.flags[:_LINES_SHOWN]:
        yield f"  flag {change.what}: in {change.left} -> {change.right} units"
    if not made.by_content:
        yield "  (files of equal size were not compared byte by byte)"


def _badness(report: Report) -> int:
    return 2 if report.damaged else int(report.verdict == "fail")


def _why(file: FileReport) -> str:
    if not file.faults:
        return ""
    first = min(file.faults, key=lambda fault: not fault.damage)
    more = f" (and {len(file.faults) - 1} more)" if len(file.faults) > 1 else ""
    return f"{first.what}{more}"


def _named(file: FileReport) -> str:
    return f"(named for {', '.join(file.named)})" if file.named else "none"


def _places(group: Sequence[tuple[str, Fault]]) -> str:
    shown = [
        path if fault.offset is None else f"{path} at {fault.offset:#x}"
        for path, fault in group[:_PATHS_SHOWN]
    ]
    more = len(group) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _line(what: str, change: Change) -> str:
    return f"  {what}: {_value(change.what, change.left)} -> {_value(change.what, change.right)}"


def _change(change: Change) -> str:
    if change.what == "content":
        return "other content of the same size"
    if change.what == "exported symbols" and change.left == change.right:
        return f"other exported symbols ({change.left} in both)"
    return f"{change.what} {_value(change.what, change.left)} -> {_value(change.what, change.right)}"


def _value(what: str, value: Any) -> str:
    if what == "size":
        from rich.filesize import decimal

        return decimal(value)
    if isinstance(value, dict):
        value = [f"{key} {item}" for key, item in value.items()]
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _sides(what: str, sides: Sides, sizes: Any = None) -> Iterator[str]:
    for sign, names in (("-", sides.only_left), ("+", sides.only_right)):
        for name in names[:_LINES_SHOWN]:
            yield f"  {what} {sign} {name}" + (f" ({_value('size', sizes[name])})" if sizes else "")
        if len(names) > _LINES_SHOWN:
            yield f"  {what} {sign} {len(names) - _LINES_SHOWN} more: see --json"
