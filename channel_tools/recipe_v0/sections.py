"""The sections of a v1 recipe, and what each of their keys becomes in ``meta.yaml``.

Source of the key names: the v1 recipe format (rattler-build 0.73) and conda-build 24.9 ``FIELDS``.
"""

from __future__ import annotations

from channel_tools.recipe_v0.build_section import build_section
from channel_tools.recipe_v0.conda_build import word_that_misleads
from channel_tools.recipe_v0.document import Block, Entry, Item, Table
from channel_tools.recipe_v0.expressions import define_context
from channel_tools.recipe_v0.fields import Reader, as_list
from channel_tools.recipe_v0.names import Names
from channel_tools.recipe_v0.nodes import Mapping, Node, Scalar, Sequence, refusal
from channel_tools.recipe_v0.recipe import Recipe
from channel_tools.recipe_v0.requirements_section import requirements_section
from channel_tools.recipe_v0.tests_section import tests_section

_ABOUT = {
    "homepage": "home",
    "repository": "dev_url",
    "documentation": "doc_url",
    "license": "license",
    "license_file": "license_file",
    "summary": "summary",
    "description": "description",
}
# Written into extra by conda-build itself.
_EXTRA_TAKEN = {"final", "parent_recipe", "copy_test_source_files"}


def translate(root: Mapping, variant_keys: frozenset[str]) -> Recipe:
    """The v0 recipe of a v1 tree.

    :raises RecipeError: at the first key, value or expression outside the supported subset
    """
    recipe = Recipe(Names(variant_keys))
    sections = {
        "package": _package,
        "source": _source,
        "build": build_section,
        "requirements": requirements_section,
        "tests": tests_section,
        "about": _about,
        "extra": _extra,
    }
    recipe.read.mapping(root, ("schema_version", "context", *sections))
    schema = root.get("schema_version")
    if schema is None or not isinstance(schema, Scalar) or schema.text != "1":
        raise refusal(schema or root, "this is not a recipe of schema 1", wanted="schema_version: 1")
    context = root.get("context")
    if context is not None:
        if not isinstance(context, Mapping):
            raise refusal(context, "a map must stand here", wanted="one 'name: value' a line")
        define_context(recipe.names, context)
    if root.get("package") is None:
        raise refusal(root, "the recipe has no package", wanted="package: with name and version")
    for name, section in sections.items():
        node = root.get(name)
        if node is not None:
            section(recipe, node)
    if recipe.noarch and recipe.names.platforms:
        raise refusal(recipe.names.platforms[0], "conda-build knows no platform in a noarch recipe")
    return recipe


def _package(recipe: Recipe, node: Node) -> None:
    package = recipe.read.mapping(node, ("name", "version"))
    for key in ("name", "version"):
        value = package.get(key)
        if value is None:
            raise refusal(node, f"the package has no {key}")
        recipe.add("package", key, recipe.read.line(value))


def _source(recipe: Recipe, node: Node) -> None:
    items = recipe.read.items(as_list(node), lambda item: [_one_source(recipe.read, item)])
    if items:
        recipe.sections["source"] = list(items)


def _one_source(reader: Reader, node: Node) -> Table:
    known = ("url", "path", "sha256", "md5", "file_name", "target_directory", "patches", "use_gitignore")
    source = reader.mapping(node, known)
    url, path = source.get("url"), source.get("path")
    if (url is None) == (path is None):
        raise refusal(node, "a source has a url or a path", found=", ".join(source.keys()))
    entries: list[Item] = []
    if url is not None:
        if source.get("sha256") is None and source.get("md5") is None:
            raise refusal(url, "a source without a checksum is not reproducible", fix="add sha256")
        urls = Block(reader.texts(url)) if isinstance(url, Sequence) else reader.line(url)
        entries.append(Entry("url", urls))
    if path is not None:
        entries.append(Entry("path", reader.line(path)))
    renamed = {"sha256": "sha256", "md5": "md5", "file_name": "fn", "target_directory": "folder"}
    for v1, v0 in renamed.items():
        value = source.get(v1)
        if value is not None:
            entries.append(Entry(v0, reader.line(value)))
    patches = source.get("patches")
    if patches is not None and (items := reader.texts(patches)):
        entries.append(Entry("patches", Block(items)))
    gitignore = source.get("use_gitignore")
    if gitignore is not None and reader.flag(gitignore):
        raise refusal(gitignore, "conda-build copies ignored files, too", wanted="use_gitignore: false")
    return Table(tuple(entries))


def _about(recipe: Recipe, node: Node) -> None:
    for name, value in recipe.read.mapping(node, _ABOUT).entries:
        if name.text == "license_file" and isinstance(value, Sequence):
            recipe.add("about", "license_file", Block(recipe.read.texts(value)))
        else:
            recipe.add("about", _ABOUT[name.text], recipe.read.text(value))


def _extra(recipe: Recipe, node: Node) -> None:
    if not isinstance(node, Mapping):
        raise refusal(node, "a map must stand here", wanted="one 'key: value' a line")
    for name, value in node.entries:
        if name.text in _EXTRA_TAKEN:
            raise refusal(name, "conda-build writes this key itself", fix="rename it")
        recipe.add("extra", name.text, recipe.read.plain(value))


def check_words(root: Node) -> None:
    """Refuses words that conda-build acts on wherever they stand.

    :raises RecipeError: at the first of them
    """
    match root:
        case Scalar():
            misleading = word_that_misleads(root.text)
            if misleading:
                word, effect = misleading
                raise refusal(root, effect, found=word, fix="put it into the build script")
        case Sequence(items=items):
            for item in items:
                check_words(item)
        case Mapping(entries=entries):
            for name, value in entries:
                check_words(name)
                check_words(value)
