"""Writes ``docs/troubleshooting.md`` from the rules: ``python -m channel_tools.diagnose.explain_docs``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from channel_tools.diagnose.report import shown
from channel_tools.diagnose.rules import CATEGORIES, Rule, all_rules
from channel_tools.model.files import write_text_whole

PAGE: Final = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
_LONGEST: Final = 110

_HEAD: Final = """\
# From an error line to its cause

This page is made from `channel_tools/diagnose/rules/*.toml`, by
`python -m channel_tools.diagnose.explain_docs`. `rocm-channel explain` finds these causes in a log by itself:

```sh
rocm-channel explain logs/vllm-rocm-0.26.0-rocm72_gfx942.log   # hundreds of MB; gzip, xz, bzip2, zstd, too
dmesg | rocm-channel explain -                                 # a traceback, a solver's message, a kernel log
rocm-channel explain --json LOG                                # version, verdict, findings, errors, context
rocm-channel explain --require LOG                             # ends with 82 if no known cause is found
```

`rocm-channel build` does so when a build fails. Each finding has its lines, cause, fix, source, and how sure
it is: *sure* (these words have one cause), *likely*, or *a sign* (no error yet). Nothing here was tried on a
GPU.

What comes first: what is wrong before what is harmless; causes before what only follows from them; errors
before signs, and before failed checks of a configuration; the earlier event (lines within 25 of its first)
before later ones; in one event the more specific rule. A log without a known cause gives its first error
lines, and what to try. A rule is tried on the first 100,000 short lines (fewer long ones) that hold its
words, and counts its first 1,000 hits.
"""

_RULES: Final = """\
## How a rule is written

One file a family. `rocm-channel` reads them with a schema: an unknown key or an expression that no plain text
leads to is an error with file and rule. Tests run every example: a positive one must put its rule first, a
negative one (a near miss) must not fire it.

"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "".join(_index()), "".join(_families()), _RULES, "".join(_keys())]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _index() -> Iterator[str]:
    yield "## Index by error line\n\n| line (an example) | cause |\n| --- | --- |\n"
    lines = sorted(
        {(_example(text), rule.id, rule.title) for rule in all_rules() for text in rule.examples.positive},
        key=lambda entry: (entry[0].strip("` ").lower(), entry[1]),
    )
    for line, name, title in lines:
        yield f"| {line} | [{_cell(title)}](#{name}) |\n"


def _families() -> Iterator[str]:
    for category in CATEGORIES:
        yield f"## {category[0].upper()}{category[1:]}\n\n"
        for rule in all_rules():
            if rule.category == category:
                yield from _rule(rule)


def _rule(rule: Rule) -> Iterator[str]:
    sureness = "a sign" if rule.confidence == "possible" else rule.confidence
    yield f'### <a id="{rule.id}"></a>{_sentence(rule.title)}\n\n'
    yield f"`{rule.id}`, {sureness}{', harmless' if rule.harmless else ''}. {rule.cause}\n\n"
    yield "```sh\n" + "".join(f"{line}\n" for line in rule.fix) + "```\n\n"
    if rule.fix_plain:
        yield (
            "With plain pip and CMake:\n\n```sh\n"
            + "".join(f"{line}\n" for line in rule.fix_plain)
            + "```\n\n"
        )
    yield f"From: {', '.join(rule.sources)}.\n\n"


def _keys() -> Iterator[str]:
    from channel_tools.diagnose.rules import Context, Examples, Wording

    yield "| key | meaning |\n| --- | --- |\n"
    for model, prefix in ((Rule, ""), (Wording, "match."), (Context, "context."), (Examples, "examples.")):
        for name, info in model.model_fields.items():
            if info.description:
                yield f"| `{prefix}{name}` | {_cell(info.description)} |\n"


def _example(text: str) -> str:
    """The most telling line of an example as a table cell."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = shown(max(lines, key=len))
    line = line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
    fence = "``" if "`" in line else "`"
    pad = " " if "`" in line else ""
    return f"{fence}{pad}{line.replace('|', chr(92) + '|')}{pad}{fence}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _sentence(title: str) -> str:
    return title[0].upper() + title[1:]


if __name__ == "__main__":
    write_text_whole(PAGE, page())
