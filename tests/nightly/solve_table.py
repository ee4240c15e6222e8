"""``python -m tests.nightly.solve_table``: prints what each kind of machine gets, as a Markdown table.

Solved with py-rattler alone, both as ``rocm-channel install`` asks and as a plain client does that puts the
label in front. Exit code 1 when a solve that must be right is not.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import product
from pathlib import Path

from tests.integration.solve_cases import DECLARED, DETECTED, PRIORITIES, SCENES, WAYS, Case, solve_all
from tests.integration.solve_cases import cases as all_cases
from tests.integration.test_solve_matrix import known_fault, wrong


def main() -> int:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="solve-table-") as folder:
        answers = solve_all(Path(folder), all_cases())
    bad = 0
    for scene in SCENES:
        print(f"\n### {scene.title}: `{' '.join(scene.specs)}`\n")
        columns = list(product(WAYS, PRIORITIES))
        print(
            "| GPU of the host | declared |" + "".join(f" {way}, {priority} |" for way, priority in columns)
        )
        print("| --- | --- |" + " --- |" * len(columns))
        for detected, declared in product(DETECTED, DECLARED):
            cells = []
            for way, priority in columns:
                case = Case(scene, detected, declared, priority, way)
                fault = wrong(case, answers[case])
                bad += fault is not None and not known_fault(case)
                cells.append(answers[case].short + (" **wrong**" if fault else ""))
            print(f"| {detected or 'none'} | {declared or 'nothing'} | {' | '.join(cells)} |")
    took = time.perf_counter() - start
    print(f"\n{len(answers)} solves with py-rattler in {took:.1f} s; {bad} faults that the docs do not name")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
