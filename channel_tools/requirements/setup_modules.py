"""The extension modules that a ``setup.py`` builds, read from its syntax tree; nothing of it runs.

vLLM appends to ``ext_modules`` under conditions such as ``if _is_hip():``. Functions of that file that do
nothing but return an expression are followed, so a new condition needs no change here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class _Unknown:
    """A value that cannot be told from the file."""


UNKNOWN = _Unknown()


@dataclass(frozen=True)
class Module:
    """One extension module. ``optional``: setup.py does without its library; ``certain``: see below.

    A module whose condition cannot be told is listed with ``certain`` false.
    """

    name: str
    optional: bool
    certain: bool


def extension_modules(text: str, known: Mapping[str, Any]) -> tuple[Module, ...]:
    """Modules in order of their names.

    :param known: values of names and dotted names, as ``{"torch.version.cuda": None}``
    :raises SyntaxError: text that is no Python
    """
    tree = ast.parse(text)
    reader = _Reader(dict(known), {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)})
    return tuple(sorted(set(reader.modules(tree.body, True)), key=lambda module: module.name))


@dataclass
class _Reader:
    known: dict[str, Any]
    functions: Mapping[str, ast.FunctionDef]
    _calls: list[str] = field(default_factory=list)

    def modules(self, body: Sequence[ast.stmt], certain: bool) -> Iterator[Module]:
        for statement in body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
                if isinstance(target, ast.Name) and target.id not in self.known:
                    self.known[target.id] = self.value(statement.value)
            elif isinstance(statement, ast.If):
                value = self.value(statement.test)
                sure = certain and not isinstance(value, _Unknown)
                if isinstance(value, _Unknown) or value:
                    yield from self.modules(statement.body, sure)
                if isinstance(value, _Unknown) or not value:
                    yield from self.modules(statement.orelse, sure)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                yield from self._appended(statement.value, certain)

    def _appended(self, call: ast.Call, certain: bool) -> Iterator[Module]:
        if _dotted(call.func) not in ("ext_modules.append", "ext_modules.extend"):
            return
        for node in ast.walk(call):
            if isinstance(node, ast.Call) and node is not call:
                words = {word.arg: self.value(word.value) for word in node.keywords}
                name = words.get("name") or (self.value(node.args[0]) if node.args else None)
                if isinstance(name, str):
                    yield Module(name, words.get("optional") is True, certain)

    def value(self, node: ast.expr) -> Any:
        """The value of an expression, or :data:`UNKNOWN`."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name() | ast.Attribute():
                return self.known.get(_dotted(node), UNKNOWN)
            case ast.Tuple(elts=elements):
                values = [self.value(element) for element in elements]
                return UNKNOWN if UNKNOWN in values else tuple(values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                found = self.value(operand)
                return found if found is UNKNOWN else not found
            case ast.BoolOp(op=operator, values=parts):
                return self._joined(isinstance(operator, ast.Or), parts)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return _compare(self.value(left), operator, self.value(right))
            case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if name in self.functions:
                return self._returned(name)
        return UNKNOWN

    def _joined(self, any_: bool, parts: Sequence[ast.expr]) -> Any:
        values = [self.value(part) for part in parts]
        truths = [UNKNOWN if value is UNKNOWN else bool(value) for value in values]
        if any_ in truths:
            return any_
        return UNKNOWN if UNKNOWN in truths else not any_

    def _returned(self, name: str) -> Any:
        if name in self._calls:
            return UNKNOWN
        self._calls.append(name)
        before = dict(self.known)
        try:
            for statement in self.functions[name].body:
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    self.known[statement.targets[0].id] = self.value(statement.value)
                elif isinstance(statement, ast.Return) and statement.value is not None:
                    return self.value(statement.value)
                elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                    return UNKNOWN
            return None
        finally:
            self.known = before
            self._calls.pop()


def _compare(left: Any, operator: ast.cmpop, right: Any) -> Any:
    if UNKNOWN in (left, right):
        return UNKNOWN
    try:
        match operator:
            case ast.Eq():
                return left == right
            case ast.NotEq():
                return left != right
            case ast.Is():
                return left is right
            case ast.IsNot():
                return left is not right
            case ast.GtE():
                return left >= right
            case ast.Gt():
                return left > right
            case ast.LtE():
                return left <= right
            case ast.Lt():
                return left < right
            case ast.In():
                return left in right
    except TypeError:
        pass
    return UNKNOWN


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_dotted(value)}.{name}"
    return "?"
