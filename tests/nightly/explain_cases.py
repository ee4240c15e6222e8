"""How often ``explain`` finds the recorded family of public fault reports.

    python -m tests.nightly.explain_cases CASES.jsonl [--all]

The file has one report a line, as JSON with at least ``id``, ``category``, ``error_lines`` (a list),
``error_lines_exact`` and ``rule_kind``. Only exact lines of faults that a log shows count; ``--all`` lists
the others as well. Ends with 1 if less than 90 % of those that count are found, or a wrong rule came first.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from channel_tools.diagnose.explain import Explanation, explain_blocks

WANTED = 0.9
FOUND, WRONG, NOTHING = "found", "wrong first", "nothing"


def verdict(case: dict[str, Any], explanation: Explanation) -> str:
    if not explanation.findings:
        return NOTHING
    return FOUND if explanation.findings[0].rule.category == case["category"] else WRONG


def explain_case(case: dict[str, Any]) -> Explanation:
    text = "\n".join(case["error_lines"]) + "\n"
    return explain_blocks([text.encode()])


def counts(case: dict[str, Any]) -> bool:
    """Whether the report is fit for the score: the lines as they were, of a fault that a log shows."""
    return case["error_lines_exact"] is True and case["rule_kind"] == "log regex"


def print_table(cases: list[dict[str, Any]]) -> Counter[str]:
    """Print misses, then a row a family; the sum of all families."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        explanation = explain_case(case)
        result = verdict(case, explanation)
        table[case["category"]][result] += 1
        if result != FOUND:
            ids = ", ".join(finding.rule.id for finding in explanation.findings) or "-"
            print(f"{result:<12} {case['id']:<9} {case['category']:<45} {ids}")
    total: Counter[str] = Counter()
    print(f"\n{'family':<45} {FOUND:>6} {WRONG:>12} {NOTHING:>8}")
    for family, row in sorted(table.items()):
        total += row
        print(f"{family:<45} {row[FOUND]:>6} {row[WRONG]:>12} {row[NOTHING]:>8}")
    print(f"{'all':<45} {total[FOUND]:>6} {total[WRONG]:>12} {total[NOTHING]:>8}")
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("cases", type=Path, help="JSON lines")
    parser.add_argument("--all", action="store_true", help="also list reports that do not count")
    arguments = parser.parse_args()
    cases = [json.loads(line) for line in arguments.cases.read_text(encoding="utf-8").splitlines() if line]
    total = print_table([case for case in cases if counts(case)])
    if arguments.all:
        print("\nReports that do not count (shortened lines, or faults that no log shows):")
        print_table([case for case in cases if not counts(case)])
    share = total[FOUND] / max(1, total.total())
    print(f"\nfound {share:.1%}, wrong first {total[WRONG]}")
    return 0 if share >= WANTED and not total[WRONG] else 1


if __name__ == "__main__":
    sys.exit(main())
