"""``explain``: from a log to the causes that are known, or at least to the first errors in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from channel_tools.diagnose.context import Facts
from channel_tools.diagnose.findings import Candidate, Finding, ranked
from channel_tools.diagnose.first_errors import FirstError, FirstErrors
from channel_tools.diagnose.matcher import Scanner
from channel_tools.diagnose.reader import Log, open_log
from channel_tools.diagnose.rules import Rule, all_rules
from channel_tools.diagnose.scratch import Scratch


@dataclass(frozen=True)
class Explanation:
    """What a log says.

    :ivar findings: best first
    :ivar errors: the first lines that look like errors, whether a rule explains them or not
    :ivar context: versions and GPU targets that the log names
    :ivar size: bytes, after unpacking
    :ivar truncated: why the log could not be read to its end
    """

    findings: tuple[Finding, ...]
    errors: tuple[FirstError, ...]
    context: dict[str, list[str]]
    lines: int
    size: int
    truncated: str | None = None

    @property
    def verdict(self) -> str:
        """``explained``; ``unknown``: errors, no known cause; ``signs``: no error, a look pays; ``clean``."""
        wrong = [finding.rule for finding in self.findings if not finding.rule.harmless]
        if wrong and (self.errors or any(_is_error(finding) for finding in self.findings)):
            return "explained"
        if self.errors:
            return "unknown"
        return "signs" if wrong else "clean"


def _is_error(finding: Finding) -> bool:
    return not (finding.rule.harmless or finding.check or finding.rule.confidence == "possible")


def explain_file(path: Path, rules: Sequence[Rule] | None = None) -> Explanation:
    """:raises ChannelToolsError: the file cannot be opened"""
    with open_log(path) as log:
        return _explain(log, rules)


def explain_stream(stream: IO[bytes], rules: Sequence[Rule] | None = None) -> Explanation:
    """A log as it comes, as from standard input."""
    return _explain(Log(stream), rules)


def explain_blocks(blocks: Iterable[bytes], rules: Sequence[Rule] | None = None) -> Explanation:
    """A log in pieces; where they are cut makes no difference."""
    candidates = [Candidate(rule) for rule in (all_rules() if rules is None else rules)]
    facts, scratch, errors = Facts(), Scratch(), FirstErrors()
    probes = [probe for candidate in candidates for probe in candidate.probes()]
    scanner = Scanner([*probes, *facts.probes(), *scratch.probes(), *errors.probes()])
    scanner.scan(blocks)
    found = [finding for candidate in candidates if (finding := candidate.finding(facts, scratch))]
    return Explanation(
        tuple(ranked(found)), errors.first(scratch), facts.summary(), scanner.lines, scanner.size
    )


def _explain(log: Log, rules: Sequence[Rule] | None) -> Explanation:
    explanation = explain_blocks(log.blocks(), rules)
    return replace(explanation, truncated=log.truncated)
