"""What ``explain`` found, as text and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from channel_tools.diagnose.explain import Explanation
from channel_tools.diagnose.findings import Finding
from channel_tools.diagnose.first_errors import FirstError

WIDTH: Final = 100
_LINE: Final = 300
_OTHERS: Final = 4


def to_json(explanation: Explanation) -> dict[str, Any]:
    """``version`` 1; ``findings`` best first; ``errors`` in the order of the log."""
    return {
        "version": 1,
        "verdict": explanation.verdict,
        "findings": [_finding_json(finding) for finding in explanation.findings],
        "errors": [
            {"number": error.number, "text": shown(error.text), "kind": error.kind, "try": error.attempt}
            for error in explanation.errors
        ],
        "context": explanation.context,
        "log": {
            "lines": explanation.lines,
            "bytes": explanation.size,
            "truncated": explanation.truncated,
        },
    }


def text(explanation: Explanation, *, every: bool = False) -> Iterator[str]:
    """Lines for a terminal: the first finding whole, the others in short unless ``every``."""
    wrong = [finding for finding in explanation.findings if not finding.rule.harmless]
    harmless = [finding for finding in explanation.findings if finding.rule.harmless]
    if explanation.truncated:
        yield f"the log could be read to line {explanation.lines} only: {explanation.truncated}"
    if explanation.verdict == "signs":
        yield f"no error found in {explanation.lines} lines; worth a look:"
        yield ""
    if wrong:
        yield from _whole(wrong[0])
        for finding in wrong[1 : None if every else 1 + _OTHERS]:
            yield ""
            yield from _whole(finding) if every else _short(finding)
        if explanation.errors and all(finding.rule.confidence == "possible" for finding in wrong):
            yield ""
            yield "that is possible only; the first lines that look like errors:"
            yield from _errors(explanation.errors)
    elif explanation.errors:
        yield "no known cause was found; the first lines that look like errors:"
        yield from _errors(explanation.errors)
    else:
        yield f"nothing wrong found in {explanation.lines} lines"
    for finding in harmless:
        yield ""
        yield f"harmless: {finding.rule.title} ({_places(finding)})"
        yield from _wrapped(finding.rule.cause, "  ")
    if explanation.context and (wrong or explanation.errors):
        yield ""
        seen = "; ".join(f"{tool} {', '.join(names)}" for tool, names in explanation.context.items())
        yield from _wrapped(f"the log names: {seen}", "")


def shown(line: str) -> str:
    """A line of a log as it can be printed: no control characters, and not too long."""
    clean = "".join(char if char.isprintable() else " " for char in line)
    return clean if len(clean) <= _LINE else clean[: _LINE - 3] + "..."


def _whole(finding: Finding) -> Iterator[str]:
    rule = finding.rule
    sureness: str = "possible, not more" if rule.confidence == "possible" else rule.confidence
    if finding.check:
        sureness += "; seen in a check of the configuration only, which may fail"
    yield f"{rule.title} [{rule.category}; {sureness}]"
    yield from _evidence(finding)
    yield "  why:"
    yield from _wrapped(rule.cause, "    ")
    yield "  fix:"
    yield from (f"    {line}" for line in rule.fix)
    if rule.fix_plain:
        yield "  fix with plain pip and CMake:"
        yield from (f"    {line}" for line in rule.fix_plain)
    yield from _wrapped(f"rule {rule.id}; from: {', '.join(rule.sources)}", "  ")


def _short(finding: Finding) -> Iterator[str]:
    follows = f", follows from {finding.follows}" if finding.follows else ""
    yield f"also: {finding.rule.title} [{finding.rule.category}] ({_places(finding)}{follows})"
    yield from _wrapped(finding.rule.fix[0], "    ")


def _evidence(finding: Finding) -> Iterator[str]:
    for line in finding.lines:
        yield f"  line {line.number}: {shown(line.text)}"
    if finding.count > len(finding.lines):
        yield f"  and on {finding.count - len(finding.lines)} more lines at least"


def _places(finding: Finding) -> str:
    return f"line {finding.lines[0].number}" + (f" and {finding.count - 1} more" if finding.count > 1 else "")


def _errors(errors: tuple[FirstError, ...]) -> Iterator[str]:
    for error in errors:
        yield f"  line {error.number}: {shown(error.text)}"
    yield "  what to try:"
    for attempt in dict.fromkeys(f"{error.kind}: {error.attempt}" for error in errors):
        yield from _wrapped(attempt, "    ")


def _wrapped(words: str, indent: str) -> list[str]:
    return textwrap.wrap(
        words,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _finding_json(finding: Finding) -> dict[str, Any]:
    rule = finding.rule
    return {
        "rule": rule.id,
        "category": rule.category,
        "title": rule.title,
        "cause": rule.cause,
        "fix": list(rule.fix),
        "fix_plain": list(rule.fix_plain),
        "lines": [{"number": line.number, "text": shown(line.text)} for line in finding.lines],
        "count": finding.count,
        "check": finding.check,
        "harmless": rule.harmless,
        "confidence": rule.confidence,
        "follows": finding.follows,
        "sources": list(rule.sources),
    }
