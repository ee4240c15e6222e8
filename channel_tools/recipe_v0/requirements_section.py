"""The ``requirements`` section; run exports move to ``build`` in v0."""

from __future__ import annotations

import re

from channel_tools.recipe_v0.conda_build import DEFAULT_KEYS
from channel_tools.recipe_v0.document import Block, Entry, Item, Table
from channel_tools.recipe_v0.expressions import REQUIREMENT_CALLS
from channel_tools.recipe_v0.fields import Reader
from channel_tools.recipe_v0.names import Text
from channel_tools.recipe_v0.nodes import Node, Sequence, refusal
from channel_tools.recipe_v0.recipe import Recipe

_RUN_EXPORTS = {
    "strong": "strong",
    "weak": "weak",
    "noarch": "noarch",
    "strong_constraints": "strong_constrains",
    "weak_constraints": "weak_constrains",
}
_FIXED_SPEC = re.compile(r"[A-Za-z0-9_.-]+( [^\s]*[^\s=<>!~,|]( [^\s]+)?)?")


def requirements_section(recipe: Recipe, node: Node) -> None:
    requirements = recipe.read.mapping(
        node, ("build", "host", "run", "run_constraints", "run_exports", "ignore_run_exports")
    )
    for v1 in ("build", "host", "run", "run_constraints"):
        value = requirements.get(v1)
        if value is not None:
            v0 = v1.replace("constraints", "constrained")
            recipe.add("requirements", v0, Block(specs(recipe.read, value, pinned=v1 in ("build", "host"))))
    exports = requirements.get("run_exports")
    if exports is not None:
        _run_exports(recipe, exports)
    ignored = requirements.get("ignore_run_exports")
    if ignored is not None:
        lists = recipe.read.mapping(ignored, ("by_name", "from_package"))
        for v1, v0 in (("by_name", "ignore_run_exports"), ("from_package", "ignore_run_exports_from")):
            value = lists.get(v1)
            if value is not None:
                recipe.add("build", v0, Block(specs(recipe.read, value)))


def _run_exports(recipe: Recipe, node: Node) -> None:
    if isinstance(node, Sequence):
        recipe.add("build", "run_exports", Block(specs(recipe.read, node)))
        return
    kinds = recipe.read.mapping(node, _RUN_EXPORTS)
    entries = [
        Entry(_RUN_EXPORTS[name.text], Block(items))
        for name, value in kinds.entries
        if (items := specs(recipe.read, value))
    ]
    recipe.add("build", "run_exports", Table(tuple(entries)))


def specs(reader: Reader, node: Node, *, pinned: bool = False) -> tuple[Item, ...]:
    """Requirements.

    :param pinned: whether a package without a version has the one of the variant key of its name
    """
    return reader.items(node, lambda item: [_spec(reader, item, pinned)])


def _spec(reader: Reader, node: Node, pinned: bool) -> Text:
    """A requirement; it must be one on the first pass too, when each variant value is "0"."""
    text = reader.line(node, REQUIREMENT_CALLS)
    if text.expression is not None and text.expression.calls:
        return text
    spec = reader.names.first_pass(text)
    if not _FIXED_SPEC.fullmatch(spec):
        raise refusal(
            node,
            "conda-build does not read this as a requirement",
            found=spec,
            wanted="'name', 'name VERSION' or 'name VERSION BUILD', without a space after an operator",
        )
    key = spec.replace("-", "_").lower()
    if pinned and key in reader.names.variant_keys:
        if text.literal is None:
            raise refusal(node, "conda-build pins only what is named in full", found=spec, wanted=f"- {spec}")
        reader.names.counted.add(key)
    elif pinned and key in DEFAULT_KEYS:
        return Text((*text.pieces, " *"))
    return text
