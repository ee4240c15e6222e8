"""The expressions of a v1 recipe, checked one by one and written as Jinja for conda-build 24.x.

conda-build reads a recipe first with every variant key undefined, then once for each variant.  So a
variant key ``x`` is never used as it is: ``{% set v_x = x or "0" %}`` stands at the top of ``meta.yaml``
and expressions use ``v_x``.  conda-build also finds the used keys in these lines, by text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from jinja2 import Environment, TemplateSyntaxError, nodes

from channel_tools.recipe_v0.names import Expression, Names, Text, constant
from channel_tools.recipe_v0.nodes import Mapping, Place, Scalar, refusal

PLATFORMS = frozenset({"linux", "osx", "win", "unix"})
REQUIREMENT_CALLS = frozenset({"compiler", "stdlib", "pin_subpackage", "pin_compatible"})
# Names that mean something else in conda-build's Jinja.
_RESERVED = PLATFORMS | REQUIREMENT_CALLS | {"env", "environ", "hash", "PKG_HASH", "os", "time", "datetime"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIN = re.compile(r"x(\.x)*")
_FILTERS = {"replace": 2, "lower": 0, "upper": 0, "int": 0}
_COMPARISONS = {"eq": "==", "ne": "!=", "in": "in", "notin": "not in"}


def define_context(names: Names, context: Mapping) -> None:
    """Takes the recipe's context; a value may use variant keys and the values above it.

    :raises RecipeError: for a list or map, a name that is taken, an unsupported expression
    """
    for name, value in context.entries:
        if not _NAME.fullmatch(name.text):
            raise refusal(name, "this is not a name that Jinja knows", wanted="letters, digits and _")
        if name.text in _RESERVED or name.text in names.variant_keys:
            raise refusal(name, "this name is taken by a variant key or by conda-build", fix="rename it")
        if name.text.startswith("v_") and name.text[2:] in names.variant_keys:
            raise refusal(name, "meta.yaml uses this name for a variant key", fix="rename it")
        if not isinstance(value, Scalar):
            raise refusal(value, "a context value is one plain value")
        names.context[name.text] = _context_value(names, value)


def _context_value(names: Names, value: Scalar) -> Expression:
    if "${{" not in value.text:
        typed = value.typed()
        if typed is None:
            raise refusal(value, "this context value is empty", fix="delete it or give it a value")
        return Expression(constant(typed, value))
    text = parse_text(value, names)
    if text.expression is not None:
        return text.expression
    parts = [constant(piece, value) if isinstance(piece, str) else f"({piece.code})" for piece in text.pieces]
    found = [piece for piece in text.pieces if isinstance(piece, Expression)]
    return Expression(" ~ ".join(parts), frozenset().union(*(piece.variants for piece in found)))


def parse_condition(node: Scalar, names: Names) -> Expression:
    """The condition of an ``if:`` or of a ``skip:`` item, which is an expression without ``${{ }}``."""
    if "${{" in node.text:
        raise refusal(node, "a condition is an expression by itself", fix="write it without ${{ }}")
    return _Converter(node.place, names, frozenset()).convert(node.text)


def parse_text(node: Scalar, names: Names, calls: Iterable[str] = ()) -> Text:
    """Splits a value into literal text and expressions.

    :param calls: the functions that this place allows, of :data:`REQUIREMENT_CALLS` and ``hash``; each of
        them must be the whole value (``hash`` must follow an ``h``)
    :raises RecipeError: for every expression outside the supported subset
    """
    if "${{" not in node.text:
        return Text((node.text,) if node.text else ())
    for mark in ("{%", "{#"):
        if mark in node.text:
            raise refusal(node, "rattler-build takes this for Jinja", found=mark)
    converter = _Converter(node.place, names, frozenset(calls))
    pieces: list[str | Expression] = []
    rest = node.text
    while rest:
        literal, opening, rest = rest.partition("${{")
        if literal:
            pieces.append(literal)
        if opening:
            code, rest = _split_expression(node, rest)
            pieces.append(converter.convert(code))
    _check_calls(node, pieces)
    return Text(tuple(pieces))


def _split_expression(node: Scalar, rest: str) -> tuple[str, str]:
    """The expression at the start of ``rest`` and what follows its ``}}``, which quotes may hide."""
    quote = ""
    for index, char in enumerate(rest):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif rest.startswith("}}", index):
            return rest[:index], rest[index + 2 :]
    raise refusal(node, "this ${{ has no }}", found=rest.strip())


def _check_calls(node: Scalar, pieces: list[str | Expression]) -> None:
    for index, piece in enumerate(pieces):
        if isinstance(piece, str):
            continue
        if piece.code == "PKG_HASH":
            before = pieces[index - 1] if index else ""
            if not (isinstance(before, str) and before.endswith("h")):
                raise refusal(node, "conda-build knows the hash only after an h", wanted="h${{ hash }}")
        elif piece.calls and len(pieces) > 1:
            raise refusal(node, "this function must be the whole value", found=", ".join(sorted(piece.calls)))


class _Converter:
    def __init__(self, place: Place, names: Names, calls: frozenset[str]) -> None:
        self._place = place
        self._names = names
        self._allowed = calls

    def convert(self, code: str) -> Expression:
        """An expression of v1 as one of conda-build's Jinja."""
        self._code = code.strip()
        if "\n" in self._code:
            raise self._refuse("an expression stands on one line")
        try:
            body = Environment().parse(f"{{{{ {self._code} }}}}").body
        except TemplateSyntaxError as error:
            raise self._refuse(f"this expression cannot be read ({error.message})") from None
        output = body[0] if len(body) == 1 else None
        if not isinstance(output, nodes.Output) or len(output.nodes) != 1:
            raise self._refuse("this is not one expression")
        if "hash" in self._allowed and output.nodes[0] == nodes.Name("hash", "load"):
            return Expression("PKG_HASH")
        return self._convert(output.nodes[0])

    def _refuse(self, what: str, *, wanted: str | None = None) -> Exception:
        return refusal(self._place, what, found=self._code, wanted=wanted)

    def _convert(self, node: nodes.Node) -> Expression:
        match node:
            case nodes.Const():
                return self._constant(node)
            case nodes.Name():
                return self._name(node.name)
            case nodes.Filter(node=nodes.Expr()):
                return self._filter(node)
            case nodes.Getitem():
                return self._getitem(node)
            case nodes.Call():
                return self._call(node)
            case nodes.Compare():
                return self._compare(node)
            case nodes.CondExpr(expr2=nodes.Expr()):
                parts = [self._operand(part) for part in (node.expr1, node.test, node.expr2) if part]
                return self._join("{} if {} else {}", parts)
            case nodes.And() | nodes.Or() | nodes.Add() | nodes.Sub():
                operands = [self._operand(node.left), self._operand(node.right)]
                return self._join(f"{{}} {_operator(node)} {{}}", operands)
            case nodes.Not():
                return self._join("not {}", [self._operand(node.node)])
            case nodes.Concat():
                operands = [self._operand(part) for part in node.nodes]
                return self._join(" ~ ".join("{}" for _ in operands), operands)
        raise self._refuse(
            f"this kind of expression is not supported ({type(node).__name__})",
            wanted="names, text, replace/lower/upper/int, [i:j], ==, !=, in, and, or, not, ~, +, -, if-else",
        )

    def _operand(self, node: nodes.Node) -> Expression:
        converted = self._convert(node)
        if isinstance(node, nodes.Const | nodes.Name | nodes.Filter | nodes.Getitem | nodes.Call):
            return converted
        return Expression(f"({converted.code})", converted.variants, converted.calls)

    def _join(self, form: str, parts: list[Expression]) -> Expression:
        if any(part.calls for part in parts):
            raise self._refuse("this function must be the whole value")
        variants: frozenset[str] = frozenset().union(*(part.variants for part in parts))
        return Expression(form.format(*(part.code for part in parts)), variants)

    def _constant(self, node: nodes.Const) -> Expression:
        if not isinstance(node.value, str | int | bool):
            raise self._refuse("this constant is not supported", wanted="text, a whole number or true/false")
        return Expression(constant(node.value, self._place))

    def _name(self, name: str) -> Expression:
        if name in PLATFORMS:
            self._names.platforms.append(self._place)
            return Expression(name)
        if name in self._names.context:
            return Expression(name, self._names.context[name].variants)
        if name in self._names.variant_keys:
            self._names.used.add(name)
            return Expression(f"v_{name}", frozenset({name}))
        if name == "hash":
            raise self._refuse("the hash can stand in build.string only, by itself", wanted="h${{ hash }}")
        known = sorted([*self._names.context, *self._names.variant_keys])
        raise self._refuse(f"unknown name '{name}'", wanted=f"one of {', '.join(known)}")

    def _filter(self, node: nodes.Filter) -> Expression:
        arguments = [*node.args, *node.kwargs, *filter(None, (node.dyn_args, node.dyn_kwargs))]
        if node.name not in _FILTERS:
            raise self._refuse(f"unsupported filter '{node.name}'", wanted=f"one of {', '.join(_FILTERS)}")
        if len(arguments) != _FILTERS[node.name] or not all(isinstance(a, nodes.Const) for a in arguments):
            raise self._refuse(f"filter '{node.name}' takes {_FILTERS[node.name]} constants")
        assert node.node is not None
        texts = [self._constant(a).code for a in arguments if isinstance(a, nodes.Const)]
        call = f"{node.name}({', '.join(texts)})" if texts else node.name
        return self._join(f"{{}} | {call}", [self._operand(node.node)])

    def _getitem(self, node: nodes.Getitem) -> Expression:
        inner = self._operand(node.node)
        target = f"({inner.code})" if isinstance(node.node, nodes.Filter) else inner.code
        match node.arg:
            case nodes.Slice(start=start, stop=stop, step=None):
                index = f"{self._bound(start)}:{self._bound(stop)}"
            case bound:
                index = self._bound(bound)
        if index in ("", ":"):
            raise self._refuse("an index is a whole number")
        code = f"{target}[{index}]"
        # Of the first pass's "0", a slice may leave nothing, and "pkg ==" is not a requirement.
        code = f'({code} or "0")' if inner.variants else code
        return self._join("{}", [Expression(code, inner.variants, inner.calls)])

    def _bound(self, node: nodes.Node | None) -> str:
        match node:
            case None:
                return ""
            case nodes.Const(value=int() as value):
                return str(value)
            case nodes.Neg(node=nodes.Const(value=int() as value)):
                return f"-{value}"
        raise self._refuse("an index is a whole number")

    def _compare(self, node: nodes.Compare) -> Expression:
        operand = node.ops[0]
        if len(node.ops) != 1 or operand.op not in _COMPARISONS:
            raise self._refuse("only ==, != and in compare; engines order versions differently")
        left, right = self._operand(node.expr), self._compared(operand)
        for part, other in ((node.expr, operand.expr), (operand.expr, node.expr)):
            names_key = isinstance(other, nodes.Name) and other.name in self._names.variant_keys
            if names_key and isinstance(part, nodes.Const) and not isinstance(part.value, str):
                raise self._refuse("variant values are text", wanted=f'"{part.value}"')
        return self._join(f"{{}} {_COMPARISONS[operand.op]} {{}}", [left, right])

    def _compared(self, operand: nodes.Operand) -> Expression:
        if isinstance(operand.expr, nodes.List) and operand.op in ("in", "notin"):
            items = operand.expr.items
            if items and all(isinstance(item, nodes.Const) for item in items):
                codes = [self._constant(item).code for item in items if isinstance(item, nodes.Const)]
                return Expression(f"[{', '.join(codes)}]")
            raise self._refuse("'in' takes a list of constants")
        return self._operand(operand.expr)

    def _call(self, node: nodes.Call) -> Expression:
        if node.dyn_args or node.dyn_kwargs:
            raise self._refuse("* and ** are not supported")
        match node.node:
            case nodes.Getattr(node=nodes.Name(name="env"), attr="get"):
                return self._environment(node)
            case nodes.Name(name=name) if name in REQUIREMENT_CALLS:
                if name not in self._allowed:
                    raise self._refuse(f"{name}() can stand in requirements only")
                return self._pin(name, node) if name.startswith("pin_") else self._compiler(name, node)
            case nodes.Name(name=name):
                raise self._refuse(f"unsupported function '{name}'")
        raise self._refuse("unsupported function", wanted='env.get("NAME", default="value")')

    def _environment(self, node: nodes.Call) -> Expression:
        keywords = {keyword.key: keyword.value for keyword in node.kwargs}
        name = _only_constant(node)
        if not isinstance(name, str) or not _NAME.fullmatch(name) or list(keywords) != ["default"]:
            raise self._refuse("unsupported form of env.get", wanted='env.get("NAME", default="value")')
        default = self._operand(keywords["default"])
        return self._join(f'environ.get("{name}", {{}})', [default])

    def _compiler(self, name: str, node: nodes.Call) -> Expression:
        language = _only_constant(node)
        if not isinstance(language, str) or not re.fullmatch(r"[a-z0-9]+", language) or node.kwargs:
            raise self._refuse(f"unsupported form of {name}()", wanted=f"{name}('c')")
        keys = self._names.variant_keys.intersection((f"{language}_{name}", f"{language}_{name}_version"))
        self._names.counted.update(keys)
        return Expression(f"{name}('{language}')", keys, frozenset({name}))

    def _pin(self, name: str, node: nodes.Call) -> Expression:
        if len(node.args) != 1:
            raise self._refuse(f"{name}() takes the package name, and bounds by name")
        package = self._operand(node.args[0])
        arguments = [package.code]
        for keyword in node.kwargs:
            value = keyword.value.value if isinstance(keyword.value, nodes.Const) else ...
            match keyword.key, value:
                case "exact", bool():
                    arguments.append(f"exact={value}")
                case "lower_bound" | "upper_bound", None:
                    arguments.append(f"{_PIN_NAMES[keyword.key]}=None")
                case "lower_bound" | "upper_bound", str() if _PIN.fullmatch(value):
                    arguments.append(f'{_PIN_NAMES[keyword.key]}="{value}"')
                case _:
                    raise self._refuse(
                        f"unsupported argument '{keyword.key}' of {name}()",
                        wanted='lower_bound="x.x", upper_bound="x.x" or None, exact=true',
                    )
        return Expression(f"{name}({', '.join(arguments)})", package.variants, frozenset({name}))


_PIN_NAMES = {"lower_bound": "min_pin", "upper_bound": "max_pin"}


def _only_constant(call: nodes.Call) -> object:
    """The one positional argument of a call, if it is a constant."""
    only = call.args[0] if len(call.args) == 1 else None
    return only.value if isinstance(only, nodes.Const) else None


def _operator(node: nodes.Node) -> str:
    return {"And": "and", "Or": "or", "Add": "+", "Sub": "-"}[type(node).__name__]
