"""From hits to findings: conditions of rules, and which finding comes first.

Order of findings:

1. what is wrong before what is harmless;
2. causes before findings that only follow from one of them (``consequences``);
3. errors before mere signs (confidence ``possible``), and before what only checks of a configuration show;
4. by event, the earlier one first: findings within :data:`EVENT_LINES` lines of the first one are one event;
5. in an event the more specific rule first (``order``), then the earlier line, then the name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from channel_tools.diagnose.anchors import anchors_of
from channel_tools.diagnose.context import Facts
from channel_tools.diagnose.matcher import Hit, Probe
from channel_tools.diagnose.rules import Rule, Wording
from channel_tools.diagnose.scratch import Scratch

EVENT_LINES: Final = 25
SHOWN_LINES: Final = 5
NOT_AFTER_LINES: Final = 6
_WAITING: Final = 100
_KEPT_LINES: Final = 200
_OFTEN: Final = 100_000


@dataclass(frozen=True)
class Line:
    """A line of the log, as evidence; ``number`` counts from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class Finding:
    """A rule that a log matches.

    :ivar lines: the first lines that show it
    :ivar count: how many lines do, or at least do
    :ivar check: all these lines are output of a configuration's checks, which may fail
    :ivar follows: the id of the rule whose finding this is only a consequence of
    """

    rule: Rule
    lines: tuple[Line, ...]
    count: int
    check: bool = False
    follows: str | None = None

    @property
    def first(self) -> int:
        return self.lines[0].number


@dataclass
class _Seen:
    """Lines that match one wording, its neighbour included."""

    wording: Wording
    lines: list[Line] = field(default_factory=list)
    count: int = 0
    _neighbour: Line | None = None
    _barred: int | None = None
    _waiting: deque[Line] = field(default_factory=lambda: deque(maxlen=_WAITING))

    def probes(self) -> Iterator[Probe]:
        wording = self.wording
        anchors = wording.anchors or anchors_of(wording.regex)
        yield Probe(wording.regex, anchors, self._main, span=wording.lines)
        if wording.near:
            yield Probe(
                wording.near, wording.near_anchors or anchors_of(wording.near), self._near, limit=_OFTEN
            )
        if wording.not_after:
            yield Probe(wording.not_after, anchors_of(wording.not_after), self._bar, limit=_OFTEN)

    def _main(self, hit: Hit) -> None:
        line = Line(hit.line, hit.text)
        if self._barred is not None and line.number - self._barred <= NOT_AFTER_LINES:
            return
        if self.wording.near is None:
            self._add(line)
        elif self._neighbour and line.number - self._neighbour.number <= self.wording.within:
            self._add(line, self._neighbour)
        else:
            self._waiting.append(line)

    def _near(self, hit: Hit) -> None:
        self._neighbour = Line(hit.line, hit.text)
        while self._waiting:
            line = self._waiting.popleft()
            if hit.line - line.number <= self.wording.within:
                self._add(line, self._neighbour)

    def _bar(self, hit: Hit) -> None:
        self._barred = hit.line

    def _add(self, *lines: Line) -> None:
        self.count += 1
        if len(self.lines) < _KEPT_LINES:
            self.lines += [line for line in lines if line not in self.lines]


class Candidate:
    """A rule on its way through a log."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._seen = [_Seen(wording) for wording in rule.match]
        self._present = [False] * len(rule.context.present)
        self._absent = False

    def probes(self) -> Iterator[Probe]:
        for seen in self._seen:
            yield from seen.probes()
        for index, regex in enumerate(self.rule.context.present):
            yield Probe(regex, anchors_of(regex), lambda _, at=index: self._mark(at), limit=1)  # type: ignore[misc]
        for regex in self.rule.context.absent:
            yield Probe(regex, anchors_of(regex), lambda _: self._rule_out(), limit=1)

    def finding(self, facts: Facts, scratch: Scratch) -> Finding | None:
        """What came of it, once the log has ended."""
        numbered = {line.number: line for seen in self._seen for line in seen.lines}
        if not numbered or self._absent or not all(self._present) or not self._fits(facts):
            return None
        lines = [line for _, line in sorted(numbered.items())]
        real = [line for line in lines if not scratch.covers(line.number)]
        if scratch.configured and not real:
            return None
        count = max(len(lines), *(seen.count for seen in self._seen))
        return Finding(self.rule, tuple((real or lines)[:SHOWN_LINES]), count, check=not real)

    def _fits(self, facts: Facts) -> bool:
        context = self.rule.context
        gpus = facts.gpus()
        return (
            (not context.gpu or not gpus.isdisjoint(context.gpu))
            and gpus.isdisjoint(context.gpu_not)
            and all(facts.has_version(tool, wanted) for tool, wanted in context.versions.items())
        )

    def _mark(self, index: int) -> None:
        self._present[index] = True

    def _rule_out(self) -> None:
        self._absent = True


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """Best first; see the top of this module."""
    findings = [replace(finding, follows=_cause_of(finding, findings)) for finding in findings]
    findings.sort(key=lambda finding: (_group(finding), finding.first))
    result: list[Finding] = []
    while findings:
        head = findings[0]
        event = [
            finding
            for finding in findings
            if _group(finding) == _group(head) and finding.first - head.first <= EVENT_LINES
        ]
        result += sorted(event, key=lambda finding: (-finding.rule.order, finding.first, finding.rule.id))
        findings = [finding for finding in findings if finding not in event]
    return result


def _group(finding: Finding) -> tuple[bool, bool, bool]:
    sign = finding.check or finding.rule.confidence == "possible"
    return finding.rule.harmless, finding.follows is not None, sign


def _cause_of(finding: Finding, findings: Sequence[Finding]) -> str | None:
    """The rule of an earlier finding that brings this one about, if there is one."""
    for other in findings:
        names = other.rule.consequences
        if (
            other.rule.id != finding.rule.id
            and (finding.rule.id in names or finding.rule.category in names)
            and other.first <= finding.first + EVENT_LINES
            and finding.rule.id not in _ids_that_cause(other, findings)
        ):
            return other.rule.id
    return None


def _ids_that_cause(finding: Finding, findings: Sequence[Finding]) -> set[str]:
    return {
        other.rule.id
        for other in findings
        if finding.rule.id in other.rule.consequences or finding.rule.category in other.rule.consequences
    }
