"""The ``build`` section: number, string, skip, script, linking, prefixes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from channel_tools.recipe_v0.document import Bare, Block, Choice, Entry, Item
from channel_tools.recipe_v0.expressions import parse_condition
from channel_tools.recipe_v0.fields import Reader, as_list
from channel_tools.recipe_v0.names import Expression, Text
from channel_tools.recipe_v0.nodes import Mapping, Node, refusal
from channel_tools.recipe_v0.recipe import Recipe

_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELL_TROUBLE = re.compile(r'[$`"\\\n]')


def build_section(recipe: Recipe, node: Node) -> None:
    build = recipe.read.mapping(
        node,
        (
            "number",
            "string",
            "skip",
            "noarch",
            "script",
            "merge_build_and_host_envs",
            "always_include_files",
            "always_copy_files",
            "variant",
            "python",
            "dynamic_linking",
            "prefix_detection",
        ),
    )
    for name, value in build.entries:
        match name.text:
            case "number":
                recipe.add("build", "number", recipe.read.number(value))
            case "string":
                recipe.add("build", "string", recipe.read.line(value, ("hash",)))
            case "skip":
                recipe.sections.setdefault("build", []).extend(_skip(recipe.read, value))
            case "noarch":
                recipe.noarch = True
                recipe.add("build", "noarch", Text((recipe.read.word(value, ("generic", "python")),)))
            case "script":
                _script(recipe, value)
            case "merge_build_and_host_envs":
                recipe.add("build", "merge_build_host", Bare(recipe.read.flag(value)))
            case "always_include_files":
                recipe.add("build", "always_include_files", Block(recipe.read.texts(value)))
            case "always_copy_files":
                recipe.add("build", "no_link", Block(recipe.read.texts(value)))
            case "variant":
                _variant(recipe, value)
            case "python":
                _python(recipe, value)
            case "dynamic_linking":
                _dynamic_linking(recipe, value)
            case "prefix_detection":
                _prefix_detection(recipe, value)


def _skip(reader: Reader, node: Node) -> list[Item]:
    """``skip: true`` between ``{% if %}``: a selector would compare variant values as numbers."""
    entry = Entry("skip", Bare(True))
    tests = []
    for item in as_list(node).items:
        scalar = reader.scalar(item)
        if scalar.plain and scalar.text in ("true", "false"):
            if scalar.text == "true":
                return [entry]
            continue
        tests.append(parse_condition(scalar, reader.names))
    if not tests:
        return []
    code = " or ".join(test.code if len(tests) == 1 else f"({test.code})" for test in tests)
    return [Choice(Expression(code), (entry,))]


def _script(recipe: Recipe, node: Node) -> None:
    if not isinstance(node, Mapping):
        recipe.add("build", "script", Block(recipe.read.commands(node)))
        return
    script = recipe.read.mapping(node, ("env", "content"))
    environment = script.get("env")
    if environment is not None:
        recipe.add("build", "script_env", Block(tuple(_environment(recipe.read, environment))))
    content = script.get("content")
    if content is not None:
        recipe.add("build", "script", Block(recipe.read.commands(content)))


def _environment(reader: Reader, node: Node) -> Iterable[Text]:
    """``NAME=value`` items; conda-build writes each as ``export NAME="value"`` into a shell script."""
    if not isinstance(node, Mapping):
        raise refusal(node, "a map must stand here", wanted="one 'NAME: value' a line")
    for name, value in node.entries:
        if not _ENVIRONMENT_NAME.fullmatch(name.text):
            raise refusal(name, "this is not the name of an environment variable")
        text = reader.line(value)
        for piece in text.pieces:
            trouble = _SHELL_TROUBLE.search(piece) if isinstance(piece, str) else None
            if trouble:
                raise refusal(
                    value,
                    "conda-build puts this value between double quotes of a shell script",
                    found=trouble.group(),
                    fix="set it in the build script",
                )
        yield Text((f"{name.text}=", *text.pieces))


def _variant(recipe: Recipe, node: Node) -> None:
    variant = recipe.read.mapping(node, ("use_keys", "ignore_keys"))
    for name, listed in variant.entries:
        keys = [(item, recipe.read.literal(item)) for item in as_list(listed).items]
        for item, key in keys:
            if key not in recipe.names.variant_keys:
                raise refusal(item, f"'{key}' is no key of the variant file")
        if name.text == "use_keys":
            recipe.names.counted.update(key for _, key in keys)
            recipe.add("build", "force_use_keys", Block(recipe.read.texts(listed)))
        else:
            recipe.names.ignored.update(key for _, key in keys)


def _python(recipe: Recipe, node: Node) -> None:
    python = recipe.read.mapping(node, ("entry_points", "skip_pyc_compilation"))
    for v1, v0 in (("entry_points", "entry_points"), ("skip_pyc_compilation", "skip_compile_pyc")):
        value = python.get(v1)
        if value is not None:
            recipe.add("build", v0, Block(recipe.read.texts(value)))


def _dynamic_linking(recipe: Recipe, node: Node) -> None:
    known = (
        "binary_relocation",
        "rpaths",
        "missing_dso_allowlist",
        "rpath_allowlist",
        "overlinking_behavior",
        "overdepending_behavior",
    )
    for name, value in recipe.read.mapping(node, known).entries:
        match name.text:
            case "binary_relocation":
                recipe.add("build", "binary_relocation", recipe.read.flag_or_texts(value))
            case "rpaths":
                recipe.add("build", "rpaths", Block(recipe.read.texts(value)))
            case "missing_dso_allowlist" | "rpath_allowlist":
                # conda-build before 26.5 knows the one word only, 27.3 will know the other only.
                stem = {"missing_dso_allowlist": "missing_dso", "rpath_allowlist": "runpath"}[name.text]
                for ending in ("whitelist", "allowlist"):
                    recipe.add("build", f"{stem}_{ending}", Block(recipe.read.texts(value)))
            case "overlinking_behavior" | "overdepending_behavior":
                key = "error_" + name.text.removesuffix("_behavior")
                recipe.add("build", key, Bare(recipe.read.word(value, ("error", "ignore")) == "error"))


def _prefix_detection(recipe: Recipe, node: Node) -> None:
    detection = recipe.read.mapping(node, ("ignore", "ignore_binary_files", "force_file_type"))
    ignore, binary = detection.get("ignore"), detection.get("ignore_binary_files")
    if ignore is not None:
        recipe.add("build", "ignore_prefix_files", recipe.read.flag_or_texts(ignore))
    if binary is not None:
        recipe.add("build", "detect_binary_files_with_prefix", Bare(not recipe.read.flag(binary)))
    forced = detection.get("force_file_type")
    if forced is not None:
        types = recipe.read.mapping(forced, ("text", "binary"))
        for v1, v0 in (("text", "has_prefix_files"), ("binary", "binary_has_prefix_files")):
            value = types.get(v1)
            if value is not None:
                recipe.add("build", v0, Block(recipe.read.texts(value)))
