"""Readers of single fields of a v1 recipe: what stands where one value, a list or a map may stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from channel_tools.recipe_v0.document import Bare, Block, Choice, Entry, Item, Table
from channel_tools.recipe_v0.expressions import parse_condition, parse_text
from channel_tools.recipe_v0.names import Names, Text
from channel_tools.recipe_v0.nodes import Mapping, Node, Scalar, Sequence, refusal


@dataclass(frozen=True)
class Reader:
    """Reads fields; ``names`` collects which variant keys they use."""

    names: Names

    def mapping(self, node: Node, known: Iterable[str]) -> Mapping:
        """A map that has none but the known keys."""
        known = tuple(known)
        if not isinstance(node, Mapping):
            raise refusal(node, "a map must stand here", wanted=", ".join(known))
        for name, _ in node.entries:
            if name.text not in known:
                raise refusal(name, "this key is not supported", wanted=f"one of {', '.join(known)}")
        return node

    def scalar(self, node: Node) -> Scalar:
        if not isinstance(node, Scalar):
            raise refusal(node, "one value must stand here", found="a list or map")
        if node.text == "" and node.plain:
            raise refusal(node, "this value is empty", fix='delete the key, or write ""')
        return node

    def text(self, node: Node, calls: Iterable[str] = ()) -> Text:
        return parse_text(self.scalar(node), self.names, calls)

    def line(self, node: Node, calls: Iterable[str] = ()) -> Text:
        """A text of one line."""
        if "\n" in self.scalar(node).text:
            raise refusal(node, "this value must be one line")
        return self.text(node, calls)

    def literal(self, node: Node) -> str:
        """A text without expressions."""
        text = self.line(node).literal
        if text is None:
            raise refusal(node, "no expression can stand here")
        return text

    def flag(self, node: Node) -> bool:
        scalar = self.scalar(node)
        if not scalar.plain or scalar.text not in ("true", "false"):
            raise refusal(node, "true or false must stand here", found=scalar.text)
        return scalar.text == "true"

    def word(self, node: Node, words: Iterable[str]) -> str:
        words = tuple(words)
        text = self.literal(node)
        if text not in words:
            raise refusal(node, "unsupported value", found=text, wanted=" or ".join(words))
        return text

    def number(self, node: Node) -> Bare:
        """A whole number, or one expression that gives one."""
        scalar = self.scalar(node)
        if "${{" in scalar.text:
            expression = self.text(scalar).expression
            if expression is not None:
                return Bare(expression)
        else:
            value = scalar.typed()
            if isinstance(value, int) and not isinstance(value, bool):
                return Bare(value)
        raise refusal(node, "a whole number must stand here", found=scalar.text)

    def items(self, node: Node, read: Callable[[Node], Iterable[Item]]) -> tuple[Item, ...]:
        """The items of a block list; ``if``/``then``/``else`` items become choices.

        :param read: turns one item into the items that replace it
        """
        if not isinstance(node, Sequence):
            raise refusal(node, "a block list must stand here", wanted="one '- item' a line")
        found: list[Item] = []
        for item in node.items:
            if is_conditional(item):
                choice = self.conditional(item, lambda part: self.items(as_list(part), read))
                found += [choice] if choice else []
            else:
                found += read(item)
        return tuple(found)

    def conditional(self, node: Node, read: Callable[[Node], tuple[Item, ...]]) -> Choice | None:
        """The choice of an ``if``/``then``/``else`` map, unless it holds nothing."""
        parts = self.mapping(node, ("if", "then", "else"))
        test, then, otherwise = parts.get("if"), parts.get("then"), parts.get("else")
        if test is None or then is None:
            raise refusal(node, "a choice has 'if' and 'then'", found=", ".join(parts.keys()))
        condition = parse_condition(self.scalar(test), self.names)
        choice = Choice(condition, read(then), read(otherwise) if otherwise is not None else ())
        return choice if choice.then or choice.otherwise else None

    def texts(self, node: Node, calls: Iterable[str] = ()) -> tuple[Item, ...]:
        return self.items(node, lambda item: [self.line(item, calls)])

    def flag_or_texts(self, node: Node) -> Bare | Block:
        return Block(self.texts(node)) if isinstance(node, Sequence) else Bare(self.flag(node))

    def commands(self, node: Node) -> tuple[Item, ...]:
        """Lines of shell text: a list, or one text of any number of lines."""
        if isinstance(node, Sequence):
            return self.items(node, self._command_lines)
        return tuple(self._command_lines(node))

    def _command_lines(self, node: Node) -> list[Item]:
        scalar = self.scalar(node)
        for mark in ("{%", "{#"):
            if mark in scalar.text:
                raise refusal(
                    node,
                    "rattler-build takes this for Jinja, also in ${#array[@]}",
                    found=mark,
                    fix="put it into a script file",
                )
        lines = scalar.text.removesuffix("\n").split("\n")
        return [parse_text(Scalar(scalar.place, line, plain=False), self.names) for line in lines]

    def plain(self, node: Node) -> Text | Bare | Block | Table:
        """Any value of ``extra``: text, numbers, true/false, and lists and maps of them."""
        match node:
            case Scalar():
                if "${{" in node.text:
                    return self.text(node)
                value = node.typed()
                if value is None:
                    raise refusal(node, "this value is empty", fix='delete the key, or write ""')
                return self.text(node) if isinstance(value, str) else Bare(value)
            case Sequence():
                return Block(self.items(node, lambda item: [self.plain(item)]))
            case Mapping():
                for name, _ in node.entries:
                    if "${{" in name.text:
                        raise refusal(name, "no expression can stand in a key")
                return Table(tuple(Entry(name.text, self.plain(value)) for name, value in node.entries))


def is_conditional(node: Node) -> bool:
    return isinstance(node, Mapping) and "if" in node.keys()  # noqa: SIM118 - a method of Mapping


def as_list(node: Node) -> Sequence:
    """A node where one item or a list of them may stand."""
    return node if isinstance(node, Sequence) else Sequence(node.place, (node,))
