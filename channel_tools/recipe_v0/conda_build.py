"""What conda-build 24.x reads from the text of a ``meta.yaml``, before and beside YAML.

Source of the rules: conda-build 24.9, ``metadata.py`` (selectors, version control) and ``variants.py``
(used keys), restated here.  conda-build 26.x reads in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# A selector is [...] at the end of a line, or anywhere behind a #, unless () follows it.
_SELECTOR_AT_END = re.compile(r".+?\s*\[[^\[\]]+\]$")
_SELECTOR_IN_COMMENT = re.compile(r".+?\s*#.*\[[^\[\]]+\][^()]*$")
# Variant keys that conda-build has of its own: without a version, numpy in host is its default release.
DEFAULT_KEYS = frozenset({"python", "numpy", "perl", "lua", "r_base"})
_MISLEADING_WORDS = {
    "conda-build would download the source to render a recipe with this word": re.compile(
        r"(?:GIT|SVN|HG)_[^.\s'\"]+|load_setup_py_data|load_setuptools|load_file_regex|load_file_data"
    ),
    "conda-build would take this word for the requirements section": re.compile(r"requirements:"),
}


def is_selector_line(line: str) -> bool:
    """Whether conda-build takes a part of this line for a selector, and may drop the line."""
    line = line.rstrip()
    if line.lstrip().startswith("#"):
        return False
    return bool(_SELECTOR_AT_END.match(line) or _SELECTOR_IN_COMMENT.match(line))


def word_that_misleads(text: str) -> tuple[str, str] | None:
    """A word that conda-build acts on wherever it stands in a recipe, and what it does."""
    for effect, pattern in _MISLEADING_WORDS.items():
        found = pattern.search(text)
        if found:
            return found.group(), effect
    return None


def used_keys(text: str, keys: Iterable[str]) -> frozenset[str]:
    """The variant keys that conda-build finds used in the text of a ``meta.yaml``.

    It looks for them line by line: in ``{{ key ... }}``, in ``{% if %}``, ``{% for %}`` and ``{% set %}``
    (as a part of any word there), as a list item that is the key and nothing else, and for a compiler's or
    a stdlib's keys in the call of that function.
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return frozenset(key for key in keys if any(_uses(line, key) for line in lines))


def _uses(line: str, key: str) -> bool:
    call = re.fullmatch(r"(.*?)_(compiler|stdlib)(_version)?", key)
    if not call and key not in line.replace("-", "_"):
        return False
    name = re.escape(key)
    item = "[-_]".join(re.escape(part) for part in key.split("_"))
    patterns = [
        rf"\{{\s*(?:pin_[a-z]+\(\s*['\"])?{name}[^'\"]*\}}\}}",
        rf"^\s+-\s+{item}\s*(?:\s[\[#]|$)",
        rf"(?:^|[^{{])\{{%\s*(?:el)?if\s.*{name}[^%]*%\}}",
        rf"(?:^|[^{{])\{{%\s*for\s.*\sin\s*{name}[^%]*%\}}",
        rf"(?:^|[^{{])\{{%\s*set\s.*=\s*.*{name}[^%]*%\}}",
    ]
    if call:
        patterns.append(rf"\{{\s*{call[2]}\(['\"]{re.escape(call[1])}['\"][^{{]*\}}")
    return any(re.search(pattern, line) for pattern in patterns)
