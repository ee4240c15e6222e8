"""What a recipe may name, and the texts and expressions that are made of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from jinja2 import Environment

from channel_tools.recipe_v0.nodes import Node, Place, refusal

# A text constant is written into Jinja, and its value into quoted YAML: these would end one of them, or
# make conda-build take the line for a selector.
_CONSTANT_TROUBLE = re.compile(r'[\[\]{}#"\\\x00-\x1f\x7f]')


@dataclass(frozen=True)
class Expression:
    """One Jinja expression of ``meta.yaml``.

    :param code: its text, without the braces
    :param variants: the variant keys that it depends on
    :param calls: the functions of :data:`REQUIREMENT_CALLS` that it calls
    """

    code: str
    variants: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Text:
    """A text value: literal text (with every character meant) and expressions, in turn."""

    pieces: tuple[str | Expression, ...]

    @property
    def literal(self) -> str | None:
        """The text, when no expression is in it."""
        if any(isinstance(piece, Expression) for piece in self.pieces):
            return None
        return "".join(piece for piece in self.pieces if isinstance(piece, str))

    @property
    def expression(self) -> Expression | None:
        """The expression, when the value is one expression and nothing else."""
        only = self.pieces[0] if len(self.pieces) == 1 else None
        return only if isinstance(only, Expression) else None


@dataclass
class Names:
    """What a recipe may name: variant keys and context values; and which of the variant keys it uses.

    ``used`` are the keys that expressions read, ``counted`` those that rattler-build counts as used without
    an expression: a compiler's, and those that are the name of a package without a version in build or host.
    ``ignored`` are the keys that the recipe leaves out of its variants, ``platforms`` the places that ask for
    the platform.
    """

    variant_keys: frozenset[str]
    context: dict[str, Expression] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    ignored: set[str] = field(default_factory=set)
    platforms: list[Place] = field(default_factory=list)

    def header(self) -> list[str]:
        """The ``{% set %}`` lines at the top of ``meta.yaml``."""
        keys = [f'{{% set v_{key} = {key} or "0" %}}' for key in sorted(self.used)]
        values = [f"{{% set {name} = {value.code} %}}" for name, value in self.context.items()]
        return keys + values

    def first_pass(self, text: Text) -> str:
        """The value of a text while conda-build knows no variant key yet; of a text without functions."""
        header = "".join(self.header())

        def value(code: str) -> str:
            template = Environment().from_string(f"{header}{{{{ {code} }}}}")
            return template.render(environ={}, linux=True, unix=True)

        return "".join(piece if isinstance(piece, str) else value(piece.code) for piece in text.pieces)


def constant(value: str | int | bool, at: Node | Place) -> str:
    """A constant as Jinja writes it.

    :raises RecipeError: for text that would not survive the way through Jinja and quoted YAML
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    trouble = _CONSTANT_TROUBLE.search(value)
    if trouble:
        raise refusal(
            at,
            "this character cannot stand in a text of an expression or of the context",
            found=trouble.group(),
            fix="write the text where it is used, outside ${{ }}",
        )
    return f'"{value}"'
