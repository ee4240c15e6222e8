"""The rules of explain: each rule's own examples, the schema, and what the rules say."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from channel_tools.cli.main import COMMANDS
from channel_tools.diagnose import explain_docs
from channel_tools.diagnose.anchors import anchors_of
from channel_tools.diagnose.explain import explain_blocks
from channel_tools.diagnose.rules import CATEGORIES, Rule, all_rules, read_rules
from channel_tools.model.errors import RuleError

RULES = all_rules()
DATA = Path(__file__).parents[1] / "data" / "explain"
CLEAN = sorted((DATA / "clean").glob("*.log"))
PREFIXES = ("", "#12 345.6 ", "2026-11-30T01:02:03.0000000Z ", " │ │ ", "(EngineCore pid=7) ", "\x1b[31m")


def found(text: str) -> list[str]:
    return [finding.rule.id for finding in explain_blocks([text.encode()]).findings]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_positive_examples_put_the_rule_first_and_negative_ones_do_not_fire_it(rule: Rule) -> None:
    for text in rule.examples.positive:
        assert found(text)[:1] == [rule.id], text
    for text in rule.examples.negative:
        assert rule.id not in found(text), text


def test_near_misses_are_taken_for_what_a_person_agreed_to() -> None:
    """Which rule comes first for each near miss, if any: ``near_misses.json`` was read line by line."""
    agreed = json.loads((DATA / "near_misses.json").read_text(encoding="utf-8"))
    first = {text: (found(text) or [None])[0] for rule in RULES for text in rule.examples.negative}
    assert first == agreed


@pytest.mark.parametrize("prefix", PREFIXES, ids=repr)
def test_examples_are_found_behind_what_runners_put_before_lines(prefix: str) -> None:
    """Container builds, CI runners, rattler-build and servers prefix each line."""
    lost = []
    for rule in RULES:
        text = rule.examples.positive[0]
        if any("^" in wording.regex for wording in rule.match) or "\n" in text:
            continue
        if found(prefix + text)[:1] != [rule.id]:
            lost.append(rule.id)
    assert lost == []


def test_each_family_has_rules() -> None:
    assert {rule.category for rule in RULES} == set(CATEGORIES)
    assert len(RULES) >= 80 and sum(len(rule.match) for rule in RULES) >= 100


def test_commands_in_fixes_are_commands_of_this_program() -> None:
    planned = {"doctor", "clean", "smoke", "watch"}  # of the same release
    for rule in RULES:
        for line in (*rule.fix, *rule.fix_plain, rule.cause):
            for name in re.findall(r"rocm-channel ([a-z][a-z-]+)", line):
                assert name in {*COMMANDS, *planned}, (rule.id, line)


def test_folk_rules_that_are_wrong_are_no_causes() -> None:
    said = " ".join(f"{rule.cause} {' '.join(rule.fix)}" for rule in RULES)
    assert "generic arch" not in said
    assert not re.search(r"export HIP_PATH=/opt/rocm", said)
    assert not re.search(r"(?:GCC 12|GCC 13)[^.]*(?:is|are) not supported", said)


@pytest.mark.parametrize("path", CLEAN, ids=lambda path: path.stem)
def test_nothing_is_wrong_in_a_clean_log(path: Path) -> None:
    explanation = explain_blocks([path.read_bytes()])
    assert explanation.verdict == "clean"
    assert explanation.findings == () and explanation.errors == ()


def test_there_are_five_clean_logs() -> None:
    assert len(CLEAN) >= 5


def test_the_page_is_as_the_rules_say() -> None:
    assert explain_docs.PAGE.read_text(encoding="utf-8") == explain_docs.page(), (
        "run: python -m channel_tools.diagnose.explain_docs"
    )


def test_the_page_has_each_rule_once() -> None:
    text = explain_docs.page()
    anchors = re.findall(r'<a id="([\w-]+)"></a>', text)
    assert sorted(anchors) == sorted(rule.id for rule in RULES)
    assert set(re.findall(r"\]\(#([\w-]+)\) \|", text)) == set(anchors)


@pytest.mark.parametrize(
    ("regex", "anchors"),
    [
        (r"undefined reference to .*@GLIBC_2\.\d+", ("undefined reference to ",)),
        (r"plain text|other (?:group) words", ("plain text", "other ")),
        (r"aaaa\.bbbb\(c\)", ("aaaa.bbbb(c)",)),
        (r"colou?r of things", ("r of things",)),
        (r"(?i)any Case", ()),
        (r"(?:only|groups)", ()),
        (r"long enough|\d+", ()),
        (r"ends with plus+", ("ends with plus",)),
        (r"[a-z]{3} after a class", (" after a class",)),
    ],
)
def test_anchors(regex: str, anchors: tuple[str, ...]) -> None:
    assert anchors_of(regex) == anchors


def test_lines_that_match_hold_an_anchor() -> None:
    """On all examples: an expression that matches a line is always tried on it."""
    lines = {
        line
        for rule in RULES
        for text in (*rule.examples.positive, *rule.examples.negative)
        for line in text.split("\n")
    }
    for rule in RULES:
        for wording in rule.match:
            for regex, given in ((wording.regex, wording.anchors), (wording.near, wording.near_anchors)):
                if regex is None or wording.lines > 1:
                    continue
                anchors = given or anchors_of(regex)
                for line in lines:
                    if re.search(regex, line):
                        assert any(anchor in line for anchor in anchors), (rule.id, regex, line)


GOOD = """
category = "missing lib"
[[rule]]
id = "one"
title = "t"
cause = "c"
fix = ["f"]
confidence = "sure"
match = [{ regex = 'some plain text' }]
sources = ["a/b#1"]
examples = { positive = ["some plain text"], negative = ["no"] }
"""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("some plain text' }", "a.b' }"), "no plain text"),
        (("some plain text' }", "some (plain' }"), "no regular expression"),
        (('"sure"', '"certain"'), "confidence"),
        (('"a/b#1"', '"somebody said so"'), "document:"),
        (('id = "one"', 'id = "One"'), "id"),
        (('title = "t"', 'title = "t"\ntypo = 1'), "typo"),
        (('negative = ["no"]', "negative = []"), "negative"),
        (('"missing lib"', '"another family"'), "category"),
        (('sources = ["a/b#1"]', 'sources = ["a/b#1"]\nconsequences = ["two"]'), "consequence"),
        (('sources = ["a/b#1"]', 'sources = ["a/b#1"]\ncontext = { versions = { gcc = "new" } }'), "range"),
        (("category", "= category"), "cannot be read"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_rule_file_with_a_fault_is_refused_with_its_place(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(GOOD)
    assert [rule.id for rule in read_rules([path])] == ["one"]
    assert change[0] in GOOD
    path.write_text(GOOD.replace(change[0], change[1], 1))
    with pytest.raises(RuleError) as caught:
        read_rules([path])
    assert says in str(caught.value)


def test_an_id_may_occur_once(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(GOOD)
    (tmp_path / "b.toml").write_text(GOOD)
    with pytest.raises(RuleError, match="share an id"):
        read_rules(sorted(tmp_path.glob("*.toml")))


def test_conflicting_specificity_is_seen() -> None:
    """Two rules of one family never have the same words and the same order."""
    words: dict[tuple[str, int], list[str]] = defaultdict(list)
    for rule in RULES:
        for wording in rule.match:
            words[(wording.regex, rule.order)].append(rule.id)
    assert [ids for ids in words.values() if len(ids) > 1] == []
