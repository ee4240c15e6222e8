"""The generator of meta.yaml: same meaning as hand-written files, for each variant, as conda-build reads it.

conda-build is not on the Python index.  :func:`read_as_conda_build` does what conda-build 24.9 does with a
meta.yaml before it solves anything: selectors, Jinja, selectors again, YAML 1.1 with numbers as text.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channel_tools.model.errors import RecipeError
from channel_tools.model.matrix import read_matrix
from channel_tools.recipe_v0 import generate
from channel_tools.recipe_v0.conda_build import is_selector_line, used_keys

DATA = Path(__file__).resolve().parents[1] / "data" / "recipe_v0"
# conda-build's own pattern: [...] at the end of a line, or behind a #.
SELECTOR = re.compile(r"(.+?)\s*(#.*)?\[([^\[\]]+)\](?(2)[^\(\)]*)$")
Variant = dict[str, str]


class NeverFails(jinja2.Undefined):
    """conda-build's undefined of the first pass: empty text, whatever is done with it."""

    def _again(self, *_: object, **__: object) -> NeverFails:
        return NeverFails(name=self._undefined_name)

    __add__ = __radd__ = __sub__ = __rsub__ = __call__ = __getitem__ = _again  # type: ignore[assignment]
    __lt__ = __le__ = __gt__ = __ge__ = _again  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._again()

    def __str__(self) -> str:
        return ""

    def __int__(self) -> int:
        return 0


class NumbersAreText(yaml.SafeLoader):
    """YAML 1.1 without numbers and dates, as conda-build loads recipes."""


NumbersAreText.yaml_implicit_resolvers = {
    char: resolvers
    for char, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    if char not in "0123456789"
}


def without_selectors(text: str) -> str:
    """The text as conda-build goes on with it; a line that is a selector is an error of the test."""
    kept = [line.rstrip() for line in text.splitlines() if not line.lstrip().startswith("#")]
    assert [line for line in kept if SELECTOR.match(line)] == []
    return "\n".join(kept) + "\n"


def read_as_conda_build(text: str, variant: Variant | None, environ: dict[str, str] | None = None) -> Any:
    """The recipe as a dictionary; ``variant`` None is the first pass, where no variant key is defined."""
    known = variant or {}

    def pin(kind: str) -> Any:
        def pinned(name: str, min_pin: str = "x.x.x.x.x.x", max_pin: str = "x", exact: bool = False) -> str:
            return f"{kind} {name} exact" if exact else f"{kind} {name} {min_pin} {max_pin}"

        return pinned

    def package(kind: str, default: str) -> Any:
        def of(language: str) -> str:
            name = known.get(f"{language}_{kind}", default)
            version = known.get(f"{language}_{kind}_version")
            return f"{name}_linux-64" + (f" {version}.*" if version else "")

        return of

    env = jinja2.Environment(undefined=NeverFails if variant is None else jinja2.StrictUndefined)
    env.globals.update(
        known,
        linux=True,
        unix=True,
        osx=False,
        win=False,
        environ=environ or {},
        PKG_HASH="1234567",
        compiler=package("compiler", "gcc"),
        stdlib=package("stdlib", "sysroot"),
        pin_subpackage=pin("subpackage"),
        pin_compatible=pin("compatible"),
    )
    rendered = env.from_string(without_selectors(text)).render()
    return without_nones(yaml.load(without_selectors(rendered), Loader=NumbersAreText))


def without_nones(value: Any) -> Any:
    """Leaves out empty lists, as conda-build does when it reads a field."""
    if isinstance(value, dict):
        return {key: without_nones(item) for key, item in value.items() if item is not None}
    return [without_nones(item) for item in value] if isinstance(value, list) else value


def variants_of(text: str, matrix_path: Path) -> list[Variant]:
    """The variants that conda-build makes of a meta.yaml: one for each combination of its used keys."""
    matrix = read_matrix(matrix_path)
    used = used_keys(text, matrix.keys) - ignored_keys(text)
    seen: dict[tuple[tuple[str, str], ...], Variant] = {}
    for row in matrix.rows():
        seen.setdefault(tuple(sorted((key, row[key]) for key in used)), row)
    return list(seen.values())


def ignored_keys(text: str) -> frozenset[str]:
    found = re.search(r"^  force_ignore_keys:\n((?:    - \S+\n)+)", text, re.MULTILINE)
    return frozenset(re.findall(r"- (\S+)", found[1])) if found else frozenset()


def conda_build_hash(text: str, variant: Variant) -> str:
    """The hash that conda-build 24.9 gives a package: of its used keys, less those in the build string."""
    used = (used_keys(text, variant) - ignored_keys(text) - {"python"}) | {"target_platform"}
    contents = {key: {"target_platform": "linux-64", **variant}[key] for key in used}
    return hashlib.sha1(json.dumps(contents, sort_keys=True).encode()).hexdigest()[:7]


def stem(recipe: Any, package_hash: str = "1234567") -> str:
    package = recipe["package"]
    return (
        f"{package['name']}-{package['version']}-{recipe['build']['string'].replace('1234567', package_hash)}"
    )


@pytest.mark.parametrize("name", ["amdgpu-arch", "canary"])
class TestGolden:
    def test_each_variant_means_what_the_built_recipe_meant(self, name: str) -> None:
        text = generate(DATA / name / "recipe.yaml")
        golden = (DATA / name / "meta.golden.yaml").read_text()
        rows = read_matrix(DATA / "conda_build_config.yaml").rows()
        assert len(rows) == 8
        for row in rows:
            assert read_as_conda_build(text, row) == read_as_conda_build(golden, row)

    def test_outputs_and_hashes_are_those_that_the_engines_listed(self, name: str) -> None:
        text = generate(DATA / name / "recipe.yaml")
        listed = (DATA / name / "outputs.txt").read_text().split()
        variants = variants_of(text, DATA / "conda_build_config.yaml")
        stems = [stem(read_as_conda_build(text, row), conda_build_hash(text, row)) for row in variants]
        assert sorted(stems) == listed

    def test_first_pass_has_whole_requirements(self, name: str) -> None:
        recipe = read_as_conda_build(generate(DATA / name / "recipe.yaml"), None)
        for specs in recipe["requirements"].values():
            assert not [spec for spec in specs or () if re.search(r" \.\*|[=<>]$| $", spec)]

    def test_output_is_deterministic_and_says_where_it_is_from(self, name: str) -> None:
        text = generate(DATA / name / "recipe.yaml")
        assert text == generate(DATA / name / "recipe.yaml")
        assert text.startswith(
            "# Generated from recipe.yaml by `rocm-channel recipes sync`; edit recipe.yaml"
        )


# --- single constructs


HEAD = "schema_version: 1\npackage:\n  name: foo\n  version: '1.0'\n"
KEYS = frozenset(
    {"python", "rocm", "rocm_arch", "c_compiler", "c_compiler_version", "c_stdlib", "c_stdlib_version"}
)
ROW = {
    "python": "3.12",
    "rocm": "7.10",
    "rocm_arch": "gfx90a",
    "c_compiler": "gcc",
    "c_compiler_version": "11",
    "c_stdlib": "sysroot",
    "c_stdlib_version": "2.34",
}


@pytest.fixture
def recipe(tmp_path: Path) -> Any:
    """Writes a recipe (without its first four lines) and gives the text of its meta.yaml."""

    def generated(body: str, head: str = HEAD) -> str:
        path = tmp_path / "recipe.yaml"
        path.write_text(head + body, encoding="utf-8")
        return generate(path, KEYS)

    return generated


def test_source(recipe: Any) -> None:
    text = recipe(
        "source:\n"
        "  - url:\n"
        '      - ${{ env.get("SOURCE_MIRROR", default="https://m.example") }}/a-${{ rocm }}.tar.gz\n'
        "      - https://u.example/a.tar.gz\n"
        "    sha256: 0000000000000000000000000000000000000000000000000000000000001e10\n"
        "    target_directory: a\n"
        "    file_name: b.tgz\n"
        "    patches:\n"
        "      - patches/0001-x.patch\n"
        "      - if: rocm == '7.10'\n"
        "        then: patches/0002-y.patch\n"
        "  - path: ../src\n"
        "    use_gitignore: false\n"
    )
    sources = [
        {
            "url": ["https://m.example/a-7.10.tar.gz", "https://u.example/a.tar.gz"],
            "sha256": "0000000000000000000000000000000000000000000000000000000000001e10",
            "folder": "a",
            "fn": "b.tgz",
            "patches": ["patches/0001-x.patch", "patches/0002-y.patch"],
        },
        {"path": "../src"},
    ]
    assert read_as_conda_build(text, ROW)["source"] == sources
    mirrored = read_as_conda_build(text, ROW, {"SOURCE_MIRROR": "file:///m"})
    assert mirrored["source"][0]["url"][0] == "file:///m/a-7.10.tar.gz"


def test_build(recipe: Any) -> None:
    text = recipe(
        "build:\n"
        "  number: ${{ rocm | int + 100 }}\n"
        '  string: rocm${{ rocm | replace(".", "") }}_py${{ python | replace(".", "") }}_h${{ hash }}_0\n'
        "  noarch: python\n"
        "  script:\n"
        "    env:\n"
        "      A: 1\n"
        '      B: ${{ env.get("B", default="") }}\n'
        "    content: |\n"
        "      for f in a; do\n"
        "\n"
        '        echo "$f" [b]  # [c]\n'
        "      done\n"
        "  always_include_files:\n    - lib/x\n"
        "  always_copy_files:\n    - lib/y\n"
        "  merge_build_and_host_envs: true\n"
        "  variant:\n    use_keys:\n      - rocm_arch\n"
        "  python:\n"
        "    entry_points:\n      - a = b:c\n"
        "    skip_pyc_compilation:\n      - lib/z\n"
        "  dynamic_linking:\n"
        "    binary_relocation: false\n"
        "    rpaths:\n      - lib/\n"
        "    missing_dso_allowlist:\n      - '*libamdhip64.so*'\n"
        "    rpath_allowlist:\n      - /opt/rocm/lib\n"
        "    overlinking_behavior: error\n"
        "    overdepending_behavior: ignore\n"
        "  prefix_detection:\n"
        "    ignore:\n      - '*.hsaco'\n"
        "    ignore_binary_files: true\n"
        "    force_file_type:\n      text:\n        - t\n      binary:\n        - b\n"
    )
    assert read_as_conda_build(text, ROW)["build"] == {
        "number": "107",
        "string": "rocm710_py312_h1234567_0",
        "noarch": "python",
        "script_env": ["A=1", "B="],
        "script": ["for f in a; do", "", '  echo "$f" [b]  # [c]', "done"],
        "always_include_files": ["lib/x"],
        "no_link": ["lib/y"],
        "merge_build_host": True,
        "force_use_keys": ["rocm_arch"],
        "entry_points": ["a = b:c"],
        "skip_compile_pyc": ["lib/z"],
        "binary_relocation": False,
        "rpaths": ["lib/"],
        "missing_dso_whitelist": ["*libamdhip64.so*"],
        "missing_dso_allowlist": ["*libamdhip64.so*"],
        "runpath_whitelist": ["/opt/rocm/lib"],
        "runpath_allowlist": ["/opt/rocm/lib"],
        "error_overlinking": True,
        "error_overdepending": False,
        "ignore_prefix_files": ["*.hsaco"],
        "detect_binary_files_with_prefix": False,
        "has_prefix_files": ["t"],
        "binary_has_prefix_files": ["b"],
    }
    assert used_keys(text, KEYS) == {"rocm", "python", "rocm_arch"}
    assert "h{{ PKG_HASH }}" in text


def test_requirements(recipe: Any) -> None:
    text = recipe(
        "requirements:\n"
        "  build:\n"
        "    - ${{ compiler('c') }}\n"
        "    - ${{ stdlib('c') }}\n"
        "    - if: linux and not win\n"
        "      then:\n        - patchelf\n"
        "      else: nothing\n"
        "  host:\n"
        "    - python\n"
        "    - rocm-userspace ${{ rocm }}.*\n"
        "    - amdgpu-arch ==${{ rocm[0:3] }} ${{ rocm_arch }}_*\n"
        "  run:\n"
        "    - python\n"
        '    - ${{ pin_compatible("numpy", upper_bound="x.x", lower_bound="x") }}\n'
        "  run_constraints:\n"
        "    - triton <0a0\n"
        "  run_exports:\n"
        "    strong:\n      - ${{ pin_subpackage('foo', exact=true) }}\n"
        '    weak_constraints:\n      - ${{ pin_subpackage("foo", upper_bound=None) }}\n'
        "  ignore_run_exports:\n"
        "    by_name:\n      - libgcc\n"
        "    from_package:\n      - ${{ compiler('c') }}\n"
    )
    read = read_as_conda_build(text, ROW)
    assert read["requirements"] == {
        "build": ["gcc_linux-64 11.*", "sysroot_linux-64 2.34.*", "patchelf"],
        "host": ["python", "rocm-userspace 7.10.*", "amdgpu-arch ==7.1 gfx90a_*"],
        "run": ["python", "compatible numpy x x.x"],
        "run_constrained": ["triton <0a0"],
    }
    assert read["build"] == {
        "run_exports": {
            "strong": ["subpackage foo exact"],
            "weak_constrains": ["subpackage foo x.x.x.x.x.x None"],
        },
        "ignore_run_exports": ["libgcc"],
        "ignore_run_exports_from": ["gcc_linux-64 11.*"],
    }
    assert used_keys(text, KEYS) == KEYS
    assert re.search(r"^    - python$", text, re.MULTILINE)


def test_tests_become_one(recipe: Any) -> None:
    text = recipe(
        "tests:\n"
        "  - script:\n"
        '      - test "$(a)" = ${{ rocm }}\n'
        "    requirements:\n      run:\n        - pytest\n        - python\n"
        "    files:\n"
        "      source:\n        - tests/\n"
        "      recipe:\n        - t.py\n"
        "  - python:\n      imports:\n        - foo\n"
        "  - python:\n      pip_check: false\n      imports:\n        - bar\n"
        "  - if: rocm_arch == 'gfx90a'\n"
        "    then:\n"
        "      - script: b\n"
        "      - package_contents:\n"
        "          files:\n"
        "            exists:\n              - a/b\n"
        "            not_exists:\n              - c\n"
        "          bin:\n            - d\n"
        "    else:\n"
        "      - python:\n          imports:\n            - other\n"
    )
    first = {
        "requires": ["pytest", "python", "pip"],
        "files": ["t.py"],
        "source_files": ["tests/"],
        "imports": ["foo", "bar"],
        "commands": [
            'test "$(a)" = 7.10',
            "pip check",
            "b",
            'test -e "$PREFIX/a/b"',
            'test ! -e "$PREFIX/c"',
            'test -e "$PREFIX/bin/d"',
        ],
    }
    assert read_as_conda_build(text, ROW)["test"] == first
    other = read_as_conda_build(text, {**ROW, "rocm_arch": "gfx942"})["test"]
    assert other["commands"] == ['test "$(a)" = 7.10', "pip check", "pip check"]
    assert other["imports"] == ["foo", "bar", "other"]
    # "- python" of the test's requirements is no use of the key python.
    assert "python" in ignored_keys(text)


def test_about_and_extra(recipe: Any) -> None:
    text = recipe(
        "about:\n"
        "  homepage: https://h.example\n"
        "  repository: https://r.example\n"
        "  documentation: https://d.example\n"
        "  license: MIT\n"
        "  license_file:\n    - LICENSE\n    - 'on'\n"
        "  summary: for ${{ rocm_arch }}\n"
        "  description: |\n    two\n      lines, 100%\n"
        "extra:\n"
        "  i: 12\n"
        "  b: true\n"
        "  s: 'true'\n"
        "  list:\n"
        "    - ${{ rocm_arch }}\n"
        "    - deep:\n        deeper:\n          - '1'\n"
        "    -\n      - nested\n"
        "  none:\n    empty: []\n    nothing: {}\n"
    )
    read = read_as_conda_build(text, ROW)
    assert read["about"] == {
        "home": "https://h.example",
        "dev_url": "https://r.example",
        "doc_url": "https://d.example",
        "license": "MIT",
        "license_file": ["LICENSE", "on"],
        "summary": "for gfx90a",
        "description": "two\n  lines, 100%\n",
    }
    nested = ["gfx90a", {"deep": {"deeper": ["1"]}}, ["nested"]]
    assert read["extra"] == {
        "i": "12",
        "b": True,
        "s": "true",
        "list": nested,
        "none": {"empty": [], "nothing": {}},
    }


@pytest.mark.parametrize(
    ("skip", "skipped"),
    [
        ("  skip: true\n", (True, True)),
        ("  skip: false\n", (False, False)),
        ("  skip: rocm == '7.10'\n", (True, False)),
        ("  skip:\n    - win\n    - rocm != '7.10' and linux\n", (False, True)),
        ("  skip:\n    - not linux\n    - rocm in ['7.10', '7.2']\n", (True, True)),
    ],
)
def test_skip_is_decided_for_each_variant(recipe: Any, skip: str, skipped: tuple[bool, bool]) -> None:
    text = recipe(f"build:\n  number: 0\n{skip}")
    variants = (ROW, {**ROW, "rocm": "7.2"})
    assert tuple(read_as_conda_build(text, v)["build"].get("skip", False) for v in variants) == skipped
    assert ("rocm" in skip) == ("rocm" in used_keys(text, KEYS))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("rocm", "7.10"),
        ('rocm | replace(".", "")', "710"),
        ("(rocm_arch | upper)[3:]", "90A"),
        ("rocm[:-1]", "7.1"),
        ("rocm[0]", "7"),
        ('"a" if rocm == "7.10" else "b"', "a"),
        ('"a" if rocm in ["7.2", "7.3"] else "b"', "b"),
        ('"a" if not linux or rocm != "7.10" else rocm ~ "-" ~ number', "7.10-3"),
        ('"a" if not (rocm == "7.2" or linux) else "b"', "b"),
        ("(rocm ~ rocm_arch) | upper", "7.10GFX90A"),
        ("number - (number - 1)", "1"),
        ("number + 1", "4"),
        ("rocm | int - 1", "6"),
        ("both", "7.10-gfx90a-3"),
        ("short", "710"),
        ("either", "x7y"),
        ('env.get("HOME_OF", default=short)', "710"),
        ('plain or "z"', "it's"),
        ('"say ${{" ~ rocm', None),
    ],
)
def test_expressions(recipe: Any, expression: str, value: str | None) -> None:
    context = (
        "context:\n"
        "  number: 3\n"
        "  plain: it's\n"
        '  short: ${{ rocm | replace(".", "") }}\n'
        "  both: ${{ rocm }}-${{ rocm_arch }}-${{ number }}\n"
        "  either: x${{ 7 if linux else 8 }}y\n"
    )
    body = f"{context}build:\n  script:\n    - echo <${{{{ {expression} }}}}>\n"
    if value is None:
        with pytest.raises(RecipeError, match="cannot stand in a text"):
            recipe(body)
        return
    text = recipe(body)
    assert read_as_conda_build(text, ROW)["build"]["script"] == [f"echo <{value}>"]
    assert read_as_conda_build(text, None)["build"]["script"]


def test_a_slice_is_never_empty_on_the_first_pass(recipe: Any) -> None:
    text = recipe("requirements:\n  host:\n    - pkg ==${{ rocm[2:] }}\n")
    assert read_as_conda_build(text, ROW)["requirements"]["host"] == ["pkg ==10"]
    assert read_as_conda_build(text, None)["requirements"]["host"] == ["pkg ==0"]


def test_a_key_that_only_looks_used_is_ignored(recipe: Any) -> None:
    text = recipe("build:\n  script:\n    - echo ${{ c_stdlib_version }}\n")
    assert used_keys(text, KEYS) == {"c_stdlib", "c_stdlib_version"}
    assert ignored_keys(text) == {"c_stdlib"}


def test_ignored_keys_of_the_recipe_join_the_mistaken_ones(recipe: Any) -> None:
    text = recipe(
        "build:\n  variant:\n    ignore_keys:\n      - rocm_arch\n"
        "  script:\n    - echo ${{ c_stdlib_version }} ${{ rocm_arch }}\n"
    )
    assert ignored_keys(text) == {"c_stdlib", "rocm", "rocm_arch"}
    assert text.count("force_ignore_keys") == 1


def test_a_package_with_a_default_in_conda_build_stays_unpinned(recipe: Any) -> None:
    text = recipe("requirements:\n  host:\n    - python\n    - numpy\n  run:\n    - python\n    - numpy\n")
    read = read_as_conda_build(text, ROW)
    # "- numpy" alone would get conda-build's default release in host, and its hash.
    assert read["requirements"] == {"host": ["python", "numpy *"], "run": ["python", "numpy"]}
    assert ignored_keys(text) == {"numpy"}


def test_an_empty_list_is_left_out(recipe: Any) -> None:
    assert "requirements" not in recipe("requirements:\n  run: []\n")


# --- YAML 1.1 and selectors

TRAPS = [
    *("yes", "No", "on", "OFF", "y", "N", "true", "False", "null", "~", "Null", "=", "<<", "none"),
    *("3.10", "010", "0o7", "1e10", "0x1F", "1_000", "12:30:45", "2024-01-01", ".5", "+1", "-1", "-", ".inf"),
    *(
        "a: b",
        "a #b",
        "a:",
        "- x",
        "? x",
        "*x",
        "&x",
        "!x",
        "@x",
        "`x",
        "%x",
        "|",
        ">",
        "{a}",
        "[a]",
        "{a: b",
    ),
    *(
        "{{ x }}",
        "{% if %}",
        "{# c #}",
        "a {",
        "#",
        "# [x]",
        "a # [linux] b",
        "a[0]",
        "x # a [b] (c)",
        "[ -f x ]",
    ),
    *(
        "",
        " a",
        "a ",
        "a\tb",
        "caf\u00e9",
        "\U0001f600",
        "a'b",
        'a"b',
        "a\\nb",
        "$X",
        "${X[0]}",
        "\x07",
        "'",
        '"',
    ),
]


@pytest.mark.parametrize("trap", TRAPS)
def test_text_stays_text(recipe: Any, trap: str) -> None:
    quoted = json.dumps(trap, ensure_ascii=False)
    text = recipe(f"about:\n  summary: {quoted}\nextra:\n  {quoted}: x\n  list:\n    - {quoted}\n")
    for number_resolver in (NumbersAreText, yaml.SafeLoader):
        read = yaml.load(jinja2.Template(without_selectors(text)).render(), Loader=number_resolver)
        assert read["about"]["summary"] == trap
        assert read["extra"] == {trap: "x", "list": [trap]}


@pytest.mark.parametrize(
    "line", [*TRAPS, "a [b]", "  - x  # [y]", "# [z]", "a [b] c", "a # b [c] (d)", "[a]", "[] x"]
)
def test_selector_lines_are_those_of_conda_build(line: str) -> None:
    comment = line.lstrip().startswith("#")
    assert is_selector_line(line) == (not comment and bool(SELECTOR.match(line.rstrip())))


# --- what is not supported


@pytest.mark.parametrize(
    ("body", "line", "key", "message"),
    [
        ("outputs:\n  - package:\n", 5, "outputs", "key is not supported"),
        ("context:\n  a: ${{ unknown }}\n", 6, "context.a", "unknown name 'unknown'"),
        ("context:\n  a: 1.10\n", 6, "context.a", "without quotes"),
        ("context:\n  a:\n    - 1\n", 6, "context.a", "one plain value"),
        ("context:\n  rocm: 1\n", 6, "context.rocm", "taken"),
        ("context:\n  v_rocm: 1\n", 6, "context.v_rocm", "for a variant key"),
        ("context:\n  linux: 1\n", 6, "context.linux", "taken"),
        ("context:\n  a: '[x]'\n", 6, "context.a", "cannot stand"),
        ("build:\n  nubmer: 0\n", 6, "build.nubmer", "key is not supported"),
        ("build:\n  number: 1.5\n", 6, "build.number", "without quotes"),
        ("build:\n  string: x${{ hash }}\n", 6, "build.string", "only after an h"),
        ("build:\n  string: h${{ hash | upper }}\n", 6, "build.string", "by itself"),
        ("about:\n  summary: h${{ hash }}\n", 6, "about.summary", "build.string only"),
        ("build:\n  files:\n    - lib/**\n", 6, "build.files", "key is not supported"),
        ("build:\n  noarch: perl\n", 6, "build.noarch", "unsupported value"),
        ("build:\n  skip:\n    - rocm > '7.2'\n", 7, "build.skip[0]", "order versions"),
        ("build:\n  noarch: generic\n  skip:\n    - win\n", 8, "build.skip[0]", "noarch recipe"),
        ("build:\n  skip:\n    - ${{ win }}\n", 7, "build.skip[0]", "by itself"),
        ("build:\n  skip:\n    - rocm == 7\n", 7, "build.skip[0]", "variant values are text"),
        ("build:\n  script:\n    file: x.sh\n", 7, "build.script.file", "key is not supported"),
        ("build:\n  script:\n    - echo ${#a[@]}\n", 7, "build.script[0]", "takes this for Jinja"),
        ("build:\n  script:\n    - echo {% x %}\n", 7, "build.script[0]", "takes this for Jinja"),
        ("build:\n  script:\n    env:\n      A: $HOME\n", 8, "build.script.env.A", "double quotes"),
        ("build:\n  script:\n    env:\n      a-b: x\n", 8, "build.script.env.a-b", "environment variable"),
        ("build:\n  script:\n    - [a, b]\n", 7, "build.script[0]", "flow lists"),
        ("build:\n  script: {env: 1}\n", 6, "build.script", "flow maps"),
        ("build:\n  script:\n    - a\n      b\n", 7, "build.script[0]", "several lines"),
        ("build:\n  script:\n    - GIT_X=1 a\n", 7, "build.script[0]", "download the source"),
        ("build:\n  script:\n    - 'echo requirements: x'\n", 7, "build.script[0]", "requirements section"),
        (
            "build:\n  variant:\n    use_keys:\n      - nokey\n",
            8,
            "build.variant.use_keys[0]",
            "no key of the",
        ),
        (
            "build:\n  dynamic_linking:\n    binary_relocation: maybe\n",
            7,
            "binary_relocation",
            "true or false",
        ),
        ("source:\n  git: https://x\n", 6, "source.git", "key is not supported"),
        ("source:\n  url: https://x\n", 6, "source.url", "checksum"),
        ("source:\n  - path: x\n    use_gitignore: true\n", 7, "source[0].use_gitignore", "ignored files"),
        ("requirements:\n  host: python\n", 6, "requirements.host", "block list"),
        ("context:\n  p: python\nrequirements:\n  host:\n    - ${{ p }}\n", 9, "host[0]", "named in full"),
        ("requirements:\n  run:\n    - a == 1\n", 7, "requirements.run[0]", "as a requirement"),
        ("requirements:\n  run:\n    - a >=\n", 7, "requirements.run[0]", "as a requirement"),
        ("requirements:\n  run:\n    - conda-forge::a\n", 7, "requirements.run[0]", "as a requirement"),
        ("requirements:\n  run:\n    - if: linux\n      than: a\n", 8, "run[0].than", "key is not supported"),
        ("requirements:\n  run:\n    - if: linux\n", 7, "requirements.run[0]", "'if' and 'then'"),
        (
            "requirements:\n  run:\n    - if: linux\n      then:\n        - ${{ q }}\n",
            9,
            "run[0].then[0]",
            "'q'",
        ),
        ("requirements:\n  run:\n    - a ${{ compiler('c') }}\n", 7, "run[0]", "the whole value"),
        ("requirements:\n  run:\n    - ${{ compiler(rocm) }}\n", 7, "run[0]", "unsupported form"),
        (
            "requirements:\n  run:\n    - ${{ pin_subpackage('a', upper_bound='2') }}\n",
            7,
            "run[0]",
            "argument",
        ),
        ("requirements:\n  run:\n    - ${{ cdt('a') }}\n", 7, "run[0]", "unsupported function 'cdt'"),
        ("about:\n  summary: ${{ compiler('c') }}\n", 6, "about.summary", "requirements only"),
        ("about:\n  summary: ${{ load_from_file('x') }}\n", 6, "about.summary", "unsupported function"),
        ("about:\n  summary: ${{ rocm | split('.') }}\n", 6, "about.summary", "unsupported filter 'split'"),
        ("about:\n  summary: ${{ rocm.upper() }}\n", 6, "about.summary", "unsupported function"),
        ("about:\n  summary: ${{ env.get('X') }}\n", 6, "about.summary", "env.get"),
        ("about:\n  summary: ${{ env.get('X', 'y') }}\n", 6, "about.summary", "env.get"),
        ("about:\n  summary: ${{ env['X'] }}\n", 6, "about.summary", "unknown name 'env'"),
        ("about:\n  summary: ${{ 'a' if linux }}\n", 6, "about.summary", "kind of expression"),
        ("about:\n  summary: ${{ rocm is defined }}\n", 6, "about.summary", "kind of expression"),
        ("about:\n  summary: ${{ rocm\n", 6, "about.summary", "no }}"),
        ("about:\n  summary: ${{ }}\n", 6, "about.summary", "expression"),
        ("about:\n  summary: ${{ rocm }} {% x %}\n", 6, "about.summary", "takes this for Jinja"),
        ("about:\n  license_url: x\n", 6, "about.license_url", "key is not supported"),
        ("about:\n  summary:\n", 6, "about.summary", "empty"),
        ("about:\n  summary: &a x\n", 6, "about.summary", "anchors"),
        ("about:\n  summary: !!str x\n", 6, "about.summary", "tags"),
        ("about:\n  license: a\n  license: b\n", 7, "about.license", "twice"),
        ("tests:\n  - perl:\n      uses:\n        - x\n", 6, "tests[0].perl", "key is not supported"),
        (
            "tests:\n  - package_contents:\n      files:\n        - '*.so'\n",
            8,
            "files[0]",
            "without patterns",
        ),
        (
            "tests:\n  - python:\n      imports:\n        - a\n      python_version: '3'\n",
            9,
            "python_version",
            "key is",
        ),
        ("extra:\n  final: true\n", 6, "extra.final", "itself"),
        ("extra:\n  a: 1.10\n", 6, "extra.a", "without quotes"),
        ("extra:\n  a: 0755\n", 6, "extra.a", "without quotes"),
        ("--- x\n", 5, "", "one YAML document"),
    ],
)
def test_unsupported(recipe: Any, body: str, line: int, key: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        recipe(body)
    assert caught.value.where == f"{tmp_path / 'recipe.yaml'}:{line}"
    assert key in caught.value.what.partition(":")[0]
    assert message in caught.value.what


def test_not_a_recipe(recipe: Any, tmp_path: Path) -> None:
    for head, message in (
        ("schema_version: 2\n", "schema 1"),
        ("- a\n", "a recipe is a map"),
        ("a: [\n", "not YAML"),
        ("", "empty"),
        ("a: \x80\n", "not YAML"),
        ("schema_version: 1\n", "no package"),
        ("schema_version: 1\npackage:\n  name: a\n", "no version"),
    ):
        with pytest.raises(RecipeError, match=message):
            recipe("", head)
    with pytest.raises(RecipeError, match="cannot be read"):
        generate(tmp_path / "absent.yaml", KEYS)


# --- any recipe of the subset

VARIANTS = [
    {**ROW, "rocm": rocm, "rocm_arch": arch} for rocm in ("7.2", "7.10") for arch in ("gfx90a", "gfx942")
]
CONTEXT = {"number": "0", "label": "it's-${{ rocm }}"}
EXPRESSIONS = {
    "rocm": lambda v: v["rocm"],
    'rocm | replace(".", "")': lambda v: v["rocm"].replace(".", ""),
    "rocm_arch[3:]": lambda v: v["rocm_arch"][3:],
    "rocm_arch | upper": lambda v: v["rocm_arch"].upper(),
    "label": lambda v: f"it's-{v['rocm']}",
    "number": lambda v: "0",
    'rocm_arch if rocm == "7.2" else label': lambda v: (
        v["rocm_arch"] if v["rocm"] == "7.2" else f"it's-{v['rocm']}"
    ),
    'env.get("UNSET_HERE", default="d e")': lambda v: "d e",
}
SPECIAL = "[]{}#:%'\"\\$ -*&!|>@`,?=~"
characters = st.one_of(
    st.sampled_from(SPECIAL), st.characters(max_codepoint=0x24F, exclude_categories=("Cc",))
)
literals = st.text(characters, max_size=12).filter(lambda text: "${{" not in text)
shell_literals = literals.filter(lambda text: "{%" not in text and "{#" not in text)


def templates(literal: st.SearchStrategy[str]) -> st.SearchStrategy[list[str | tuple[str]]]:
    """Values as lists of literal text and, in a tuple, of an expression."""
    return st.lists(st.one_of(literal, st.sampled_from([(e,) for e in EXPRESSIONS])), max_size=4).filter(
        valid
    )


def valid(pieces: list[str | tuple[str]]) -> bool:
    source = template_source(pieces)
    whole = "".join(piece for piece in pieces if isinstance(piece, str))
    opened = source.count("${{") == sum(isinstance(piece, tuple) for piece in pieces)
    return opened and not re.search(r"\{[%#]", source) and not re.search(r"(?:GIT|SVN|HG)_", whole)


def template_source(pieces: list[str | tuple[str]]) -> str:
    return "".join(piece if isinstance(piece, str) else f"${{{{ {piece[0]} }}}}" for piece in pieces)


def template_value(pieces: list[str | tuple[str]], variant: Variant) -> str:
    return "".join(piece if isinstance(piece, str) else EXPRESSIONS[piece[0]](variant) for piece in pieces)


def yaml_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


CONDITIONS = {
    "linux": lambda v: True,
    'rocm == "7.2"': lambda v: v["rocm"] == "7.2",
    'rocm_arch != "gfx942" and not win': lambda v: v["rocm_arch"] != "gfx942",
}
conditions = st.sampled_from(list(CONDITIONS.items()))
plain_items = templates(shell_literals)
items = st.lists(
    st.one_of(plain_items, st.tuples(conditions, st.lists(plain_items, min_size=1, max_size=2), plain_items)),
    min_size=1,
    max_size=4,
)


def list_source(listed: list[Any], indent: str) -> str:
    lines = []
    for item in listed:
        if isinstance(item, tuple):
            (test, _), then, otherwise = item
            lines.append(f"{indent}- if: {test}\n{indent}  then:")
            lines += [f"{indent}    - {yaml_text(template_source(part))}" for part in then]
            lines.append(f"{indent}  else: {yaml_text(template_source(otherwise))}")
        else:
            lines.append(f"{indent}- {yaml_text(template_source(item))}")
    return "\n".join(lines) + "\n"


def list_value(listed: list[Any], variant: Variant) -> list[str]:
    values: list[str] = []
    for item in listed:
        if isinstance(item, tuple):
            (_, holds), then, otherwise = item
            values += [template_value(part, variant) for part in (then if holds(variant) else [otherwise])]
        else:
            values.append(template_value(item, variant))
    return values


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    script=items,
    commands=items,
    summary=templates(literals),
    extra=st.dictionaries(literals, templates(literals)),
)
def test_any_recipe_means_the_same(
    script: list[Any],
    commands: list[Any],
    summary: list[Any],
    extra: dict[str, list[Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-recipe.yaml"
    extra = {key: value for key, value in extra.items() if key not in ("x", "final")}
    extra_lines = [
        f"  {yaml_text(key)}: {yaml_text(template_source(value))}\n" for key, value in extra.items()
    ]
    path.write_text(
        "schema_version: 1\ncontext:\n"
        + "".join(f"  {name}: {value}\n" for name, value in CONTEXT.items())
        + "package:\n  name: foo\n  version: ${{ rocm }}\nbuild:\n"
        + '  string: r${{ rocm | replace(".", "") }}_${{ rocm_arch }}_h${{ hash }}_${{ number }}\n'
        + f"  script:\n{list_source(script, '    ')}"
        + f"tests:\n  - script:\n{list_source(commands, '      ')}"
        + f"about:\n  summary: {yaml_text(template_source(summary))}\nextra:\n  x: y\n{''.join(extra_lines)}",
        encoding="utf-8",
    )
    text = generate(path, KEYS)
    first = read_as_conda_build(text, None)
    assert first["package"] == {"name": "foo", "version": "0"}
    stems = set()
    for variant in VARIANTS:
        read = read_as_conda_build(text, variant)
        assert read["build"]["script"] == list_value(script, variant)
        assert read["test"]["commands"] == list_value(commands, variant)
        assert read["about"]["summary"] == template_value(summary, variant)
        assert read["extra"] == {"x": "y"} | {
            key: template_value(value, variant) for key, value in extra.items()
        }
        stems.add(stem(read))
    assert len(stems) == len(VARIANTS)
    assert used_keys(text, KEYS) - ignored_keys(text) == {"rocm", "rocm_arch"}
