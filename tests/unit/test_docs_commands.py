"""Every `rocm-channel` command that docs and CI recipes show exists, with the options that they give it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from channel_tools.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / name for name in ("README.md", ".gitlab-ci.yml", ".github/workflows/publish.yml")),
]
FENCE = re.compile(r"^```(?:sh|bash|text)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(rocm-channel [^`]+)`")


def commands(text: str) -> Iterator[str]:
    """Lines of code blocks and of recipes, and what stands between backticks."""
    blocks = FENCE.findall(text)
    for block in blocks or [text]:
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r"(?:\s*(?:- )?(?:run: )?)(rocm-channel .*)", line)
            if found:
                yield re.split(r"\s+# | > | \|| &&", found[1])[0].strip()
    yield from (match.replace("\n", " ") for match in INLINE.findall(FENCE.sub("", text)) if blocks)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path) -> None:
    wrong = [f"{line}: {fault}" for line in commands(page.read_text()) if (fault := _fault(line))]
    assert wrong == []


def test_the_new_pages_show_commands() -> None:
    shown = {line.split()[1] for name in ("channel", "access", "attestations") for line in _lines(name)}
    wanted = {
        "channel",
        "publish",
        "promote",
        "yank",
        "unyank",
        "prune",
        "audit",
        "diff",
        "attest",
        "install",
    }
    assert wanted <= shown


def _lines(name: str) -> list[str]:
    return list(commands((ROOT / "docs" / f"{name}.md").read_text()))


def _fault(line: str) -> str | None:
    words = shlex.split(line)[1:]
    if words[0].startswith("-"):
        return None
    command: Any = typer.main.get_command(app)
    while words and hasattr(command, "get_command"):
        if re.fullmatch(r"[A-Z.]+|\.\.\.", words[0]):
            return None
        found = command.get_command(None, words[0].rstrip(","))
        if found is None:
            return f"there is no command {words[0]}"
        command, words = found, words[1:]
    known = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for word in words:
        option = re.match(r"--?[a-z][a-z-]*", word)
        if option and option[0] not in known and word != "--help":
            return f"there is no option {option[0]}"
    return None


@pytest.mark.parametrize(
    "line", ["rocm-channel publisch x", "rocm-channel yank ch x --reson y", "rocm-channel channel mend x"]
)
def test_a_command_that_is_none_is_found(line: str) -> None:
    assert _fault(line)


@pytest.mark.parametrize("page", [page for page in PAGES if page.suffix == ".md"], ids=lambda page: page.name)
def test_links_and_data_in_pages(page: Path) -> None:
    """Links to files and to sections of pages lead somewhere; JSON is JSON."""
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:]*(?:#[^)]*)?)\)", text):
        name, _, section = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        if section:
            titles = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
            anchors |= set(re.findall(r'<a id="([^"]+)">', file.read_text()))
            assert section in anchors, target
    for block in re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        json.loads(block)
