"""The ``tests`` section: v0 has one test, which does what all of v1's do."""

from __future__ import annotations

import re
from functools import partial

from channel_tools.recipe_v0.document import Block, Choice, Item
from channel_tools.recipe_v0.expressions import parse_condition
from channel_tools.recipe_v0.fields import Reader, as_list, is_conditional
from channel_tools.recipe_v0.names import Expression, Text
from channel_tools.recipe_v0.nodes import Mapping, Node, Sequence, refusal
from channel_tools.recipe_v0.recipe import Recipe
from channel_tools.recipe_v0.requirements_section import specs


def tests_section(recipe: Recipe, node: Node) -> None:
    if not isinstance(node, Sequence):
        raise refusal(node, "a block list must stand here", wanted="- script: ...")
    for key, items in _test_parts(recipe.read, node.items).items():
        unique = [item for index, item in enumerate(items) if item not in items[:index]]
        recipe.add("test", key, Block(tuple(unique if key != "commands" else items)))


_TEST_KEYS = ("requires", "files", "source_files", "imports", "commands")


def _test_parts(reader: Reader, nodes: tuple[Node, ...]) -> dict[str, list[Item]]:
    parts: dict[str, list[Item]] = {key: [] for key in _TEST_KEYS}
    for node in nodes:
        for key, items in (_test_choice if is_conditional(node) else _one_test)(reader, node).items():
            parts[key] += items
    return parts


def _test_choice(reader: Reader, node: Node) -> dict[str, list[Item]]:
    parts = reader.mapping(node, ("if", "then", "else"))
    test, then, otherwise = parts.get("if"), parts.get("then"), parts.get("else")
    if test is None or then is None:
        raise refusal(node, "a choice has 'if' and 'then'", found=", ".join(parts.keys()))
    condition = parse_condition(reader.scalar(test), reader.names)
    yes = _test_parts(reader, as_list(then).items)
    no = _test_parts(reader, as_list(otherwise).items if otherwise is not None else ())
    result: dict[str, list[Item]] = {}
    for key in _TEST_KEYS:
        if yes[key]:
            result[key] = [Choice(condition, tuple(yes[key]), tuple(no[key]))]
        elif no[key]:
            result[key] = [Choice(Expression(f"not ({condition.code})"), tuple(no[key]))]
    return result


def _one_test(reader: Reader, node: Node) -> dict[str, list[Item]]:
    test = reader.mapping(node, ("script", "requirements", "files", "python", "package_contents"))
    readers = {"script": _script_test, "python": _python_test, "package_contents": _contents_test}
    kinds = [key for key in test.keys() if key in readers]  # noqa: SIM118 - a method of Mapping
    if len(kinds) != 1:
        raise refusal(node, f"a test has one of {', '.join(readers)}", found=", ".join(test.keys()))
    if kinds != ["script"] and len(test.entries) > 1:
        raise refusal(node, "only a script test has requirements or files")
    return readers[kinds[0]](reader, test)


def _script_test(reader: Reader, test: Mapping) -> dict[str, list[Item]]:
    script, requirements, files = test.get("script"), test.get("requirements"), test.get("files")
    assert script is not None
    parts: dict[str, list[Item]] = {"commands": list(reader.commands(script))}
    if requirements is not None:
        run = reader.mapping(requirements, ("run",)).get("run")
        parts["requires"] = [] if run is None else list(specs(reader, run))
    if files is not None:
        lists = reader.mapping(files, ("source", "recipe"))
        for v1, v0 in (("source", "source_files"), ("recipe", "files")):
            value = lists.get(v1)
            if value is not None:
                parts[v0] = list(reader.texts(value))
    return parts


def _python_test(reader: Reader, test: Mapping) -> dict[str, list[Item]]:
    node = test.get("python")
    assert node is not None
    python = reader.mapping(node, ("imports", "pip_check"))
    imports, pip_check = python.get("imports"), python.get("pip_check")
    if imports is None:
        raise refusal(node, "a python test imports something", wanted="imports: with one '- module' a line")
    parts: dict[str, list[Item]] = {"imports": list(reader.texts(imports))}
    if pip_check is None or reader.flag(pip_check):
        parts |= {"requires": [Text(("pip",))], "commands": [Text(("pip check",))]}
    return parts


def _contents_test(reader: Reader, test: Mapping) -> dict[str, list[Item]]:
    """Shell tests that files are there, or not; rattler-build's patterns have no like in the shell."""
    node = test.get("package_contents")
    assert node is not None
    contents = reader.mapping(node, ("files", "bin", "include"))
    commands: list[Item] = []
    for name, value in contents.entries:
        folder = "" if name.text == "files" else f"{name.text}/"
        if name.text == "files" and isinstance(value, Mapping):
            files = reader.mapping(value, ("exists", "not_exists"))
            for key, listed in files.entries:
                test_command = "test -e" if key.text == "exists" else "test ! -e"
                commands += reader.items(listed, partial(_file_test, reader, test_command, folder))
        else:
            commands += reader.items(value, partial(_file_test, reader, "test -e", folder))
    return {"commands": commands}


def _file_test(reader: Reader, command: str, folder: str, node: Node) -> list[Item]:
    text = reader.line(node)
    for piece in text.pieces:
        trouble = re.search(r"[^A-Za-z0-9_./+ -]", piece) if isinstance(piece, str) else None
        if trouble:
            raise refusal(node, "only names without patterns can be tested", found=trouble.group())
    return [Text((f'{command} "$PREFIX/{folder}', *text.pieces, '"'))]
