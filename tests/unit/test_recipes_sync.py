"""Every recipe of the project: generated files in step, and equal outputs from both recipe formats."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from rattler import MatchSpec
from rattler_build import JinjaConfig, PlatformConfig, RenderConfig, Stage0Recipe, VariantConfig
from typer.testing import CliRunner

from channel_tools.cli.recipes import app
from channel_tools.model.errors import ChannelToolsError, OutOfSyncError, RecipeError
from channel_tools.recipe_v0 import check, generate, sync
from tests.unit.test_recipe_v0 import DATA, Variant, read_as_conda_build, variants_of

ROOT = Path(__file__).resolve().parents[2]
MATRIX = ROOT / "variants" / "conda_build_config.yaml"
RECIPES = sorted((ROOT / "recipes").glob("*/recipe.yaml"))
REQUIREMENTS = ("build", "host", "run", "run_constraints")
EXPORTS = {
    "strong": "strong",
    "weak": "weak",
    "noarch": "noarch",
    "strong_constraints": "strong_constrains",
    "weak_constraints": "weak_constrains",
}


@pytest.fixture(scope="module", params=RECIPES, ids=lambda path: path.parent.name)
def recipe(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture(scope="module")
def meta(recipe: Path) -> str:
    return generate(recipe)


def test_there_are_recipes() -> None:
    assert {"amdgpu-arch", "rocm-userspace", "rocm-canary", "vllm-rocm"} <= {p.parent.name for p in RECIPES}


def test_each_recipe_reads_the_one_matrix(recipe: Path) -> None:
    assert (recipe.parent / "conda_build_config.yaml").resolve() == MATRIX


def test_committed_files_are_in_step() -> None:
    check(ROOT / "recipes")


def test_both_formats_give_the_same_outputs(recipe: Path, meta: str) -> None:
    v1 = [rattler_record(output) for output in rattler_outputs(recipe)]
    v0 = [conda_build_record(read_as_conda_build(meta, variant)) for variant in variants_of(meta, MATRIX)]
    assert len(v0) == len({json.dumps(record) for record in v0}), "two variants give one package"
    assert sorted(v0, key=json.dumps) == sorted(v1, key=json.dumps)


def test_both_formats_use_the_same_keys(recipe: Path, meta: str) -> None:
    used = {key for output in rattler_outputs(recipe) for key in output.variant if not key.startswith("__")}
    reduced = variants_of(meta, MATRIX)
    rows = {tuple(sorted((key, row[key]) for key in used - {"target_platform"})) for row in reduced}
    assert len(rows) == len(reduced)


def test_first_pass_reads(meta: str) -> None:
    recipe = read_as_conda_build(meta, None)
    assert recipe["package"]["version"]
    for specs in recipe.get("requirements", {}).values():
        for spec in specs or ():
            MatchSpec(spec)
            assert not re.search(r"[=<>]$|\s\.|\s$", spec), spec


def rattler_outputs(recipe: Path) -> list[Any]:
    platform = PlatformConfig(target_platform="linux-64")
    variants = VariantConfig.from_files_with_context([MATRIX], JinjaConfig(platform=platform))
    return list(Stage0Recipe.from_file(recipe).render(variants, RenderConfig(platform=platform)))


def rattler_record(output: Any) -> dict[str, Any]:
    recipe = output.recipe.to_dict()
    requirements, exports = recipe["requirements"], recipe["requirements"].get("run_exports", {})
    ignored = requirements.get("ignore_run_exports", {})
    return {
        "name": recipe["package"]["name"],
        "version": recipe["package"]["version"],
        "number": recipe["build"].get("number", 0),
        "string": without_hash(recipe["build"]["string"]),
        "requirements": {kind: specs(requirements.get(kind)) for kind in REQUIREMENTS},
        "run_exports": {kind: specs(exports.get(kind)) for kind in EXPORTS},
        "ignored": [specs(ignored.get("by_name")), specs(ignored.get("from_package"))],
        "sources": [
            as_list(source.get("url", source.get("path"))) for source in as_list(recipe.get("source"))
        ],
        "sha256": [source.get("sha256") for source in as_list(recipe.get("source"))],
        "patches": [as_list(source.get("patches")) for source in as_list(recipe.get("source"))],
        "env": recipe["build"]["script"].get("env", {}) if script_is_map(recipe) else {},
        "relocation": recipe["build"].get("dynamic_linking", {}).get("binary_relocation", True),
        "missing_dso": recipe["build"].get("dynamic_linking", {}).get("missing_dso_allowlist", []),
        "imports": [m for test in recipe.get("tests", []) for m in test.get("python", {}).get("imports", [])],
        "license_file": as_list(recipe["about"].get("license_file")),
        "summary": recipe["about"].get("summary"),
        "extra": recipe.get("extra", {}),
    }


def script_is_map(recipe: dict[str, Any]) -> bool:
    return isinstance(recipe["build"].get("script"), dict)


def conda_build_record(recipe: dict[str, Any]) -> dict[str, Any]:
    build, requirements = recipe["build"], recipe.get("requirements", {})
    exports = build.get("run_exports", {})
    exports = exports if isinstance(exports, dict) else {"weak": exports}
    sources = as_list(recipe.get("source"))
    return {
        "name": recipe["package"]["name"],
        "version": recipe["package"]["version"],
        "number": int(build.get("number", 0)),
        "string": without_hash(build["string"]),
        "requirements": {
            kind: specs(requirements.get(kind.replace("constraints", "constrained"))) for kind in REQUIREMENTS
        },
        "run_exports": {v1: specs(exports.get(v0)) for v1, v0 in EXPORTS.items()},
        "ignored": [specs(build.get("ignore_run_exports")), specs(build.get("ignore_run_exports_from"))],
        "sources": [as_list(source.get("url", source.get("path"))) for source in sources],
        "sha256": [source.get("sha256") for source in sources],
        "patches": [as_list(source.get("patches")) for source in sources],
        # Neither engine exports an empty value.
        "env": dict(item.split("=", 1) for item in build.get("script_env", []) if not item.endswith("=")),
        "relocation": build.get("binary_relocation", True),
        "missing_dso": build.get("missing_dso_whitelist", []),
        "imports": recipe.get("test", {}).get("imports", []),
        "license_file": as_list(recipe["about"].get("license_file")),
        "summary": recipe["about"].get("summary"),
        "extra": recipe.get("extra", {}),
    }


def without_hash(build: str) -> str:
    return re.sub(r"(?<![0-9a-z])h[0-9a-f]{7}(?=_)", "h#", build)


def as_list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def specs(listed: list[Any] | None) -> list[str]:
    """Requirements as a sorted list of what they mean; a pin stays as it is written."""
    found = []
    for spec in listed or ():
        if isinstance(spec, dict):
            ((kind, pin),) = spec.items()
            bounds = "exact" if pin.get("exact") else f"{pin.get('lower_bound')} {pin.get('upper_bound')}"
            found.append(f"{kind.removeprefix('pin_')} {pin['name']} {bounds}")
        else:
            found.append(str(MatchSpec(spec)) if not spec.endswith(" *") else spec.removesuffix(" *"))
    return sorted(found)


# --- sync and check


@pytest.fixture
def recipes_dir(tmp_path: Path) -> Path:
    """Two recipes without a meta.yaml, and a folder that is none."""
    folder = tmp_path / "recipes"
    for name in ("amdgpu-arch", "canary"):
        (folder / name).mkdir(parents=True)
        shutil.copy(DATA / name / "recipe.yaml", folder / name)
        shutil.copy(DATA / "conda_build_config.yaml", folder / name)
    (folder / "notes").mkdir()
    return folder


def test_sync_writes_what_differs_and_then_nothing(recipes_dir: Path) -> None:
    metas = [recipes_dir / "amdgpu-arch" / "meta.yaml", recipes_dir / "canary" / "meta.yaml"]
    assert sync(recipes_dir) == metas
    check(recipes_dir)
    assert metas[1].read_text() == generate(recipes_dir / "canary" / "recipe.yaml")
    assert metas[1].stat().st_mode & 0o777 == 0o644
    metas[1].write_text(metas[1].read_text() + "# more\n")
    assert sync(recipes_dir) == [metas[1]]
    assert sync(recipes_dir) == []
    assert sorted(path.name for path in recipes_dir.glob("*/*") if path.name.startswith(".")) == []


def test_check_names_file_and_line(recipes_dir: Path) -> None:
    with pytest.raises(OutOfSyncError, match="missing"):
        check(recipes_dir)
    sync(recipes_dir)
    meta = recipes_dir / "canary" / "meta.yaml"
    lines = meta.read_text().splitlines(keepends=True)
    line = lines.index("  number: {{ number }}\n")
    lines[line] = "  number: 7\n"
    meta.write_text("".join(lines))
    with pytest.raises(OutOfSyncError) as caught:
        check(recipes_dir)
    assert caught.value.where == f"{meta}:{line + 1}"
    assert caught.value.found == "'  number: 7'"
    assert caught.value.wanted == "'  number: {{ number }}'"


def test_check_finds_a_cut_file_and_a_file_without_recipe(recipes_dir: Path) -> None:
    sync(recipes_dir)
    meta = recipes_dir / "canary" / "meta.yaml"
    text = meta.read_text()
    meta.write_text("".join(text.splitlines(keepends=True)[:5]))
    with pytest.raises(OutOfSyncError) as caught:
        check(recipes_dir)
    assert (caught.value.where, caught.value.found) == (f"{meta}:6", "end of the file")
    meta.write_text(text.removesuffix("\n"))
    with pytest.raises(OutOfSyncError, match="differs"):
        check(recipes_dir)
    meta.write_text(text)
    stray = recipes_dir / "notes" / "meta.yaml"
    stray.write_text("package:\n")
    with pytest.raises(OutOfSyncError, match=r"no recipe\.yaml"):
        check(recipes_dir)
    assert sync(recipes_dir) == []
    assert stray.exists()


def test_one_recipe_in_error_leaves_all_files_alone(recipes_dir: Path) -> None:
    (recipes_dir / "canary" / "recipe.yaml").write_text("schema_version: 1\noutputs:\n")
    with pytest.raises(RecipeError, match=r"recipe\.yaml:2: outputs"):
        sync(recipes_dir)
    assert list(recipes_dir.glob("*/meta.yaml")) == []


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no recipe"):
        check(tmp_path)


def run(*arguments: str | Path) -> tuple[int, str]:
    """Exit code as the command rocm-channel gives it, and what the command prints."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, ChannelToolsError):
        return result.exception.exit_code, result.stdout
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_commands(recipes_dir: Path) -> None:
    code, output = run("sync", "--dry-run", "--recipes-dir", recipes_dir)
    assert (code, "+++ canary/meta.yaml (generated)" in output) == (0, True)
    assert list(recipes_dir.glob("*/meta.yaml")) == []

    code, output = run("check", "--json", "--recipes-dir", recipes_dir)
    report = json.loads(output)
    assert (code, report["version"], report["in_sync"]) == (12, 1, False)
    assert [Path(one["where"]).parent.name for one in report["differences"]] == ["amdgpu-arch", "canary"]
    assert run("check", "--recipes-dir", recipes_dir) == (12, "")

    code, output = run("sync", "--json", "--recipes-dir", recipes_dir)
    report = json.loads(output)
    assert (code, report["version"], report["dry_run"], len(report["changed"])) == (0, 1, False, 2)
    assert report["changed"][0]["path"] == str(recipes_dir / "amdgpu-arch" / "meta.yaml")

    assert run("sync", "--recipes-dir", recipes_dir) == (0, "every meta.yaml is up to date\n")
    assert run("check", "--recipes-dir", recipes_dir) == (0, "every meta.yaml is up to date\n")
    assert json.loads(run("check", "--json", "--recipes-dir", recipes_dir)[1])["in_sync"] is True


def test_a_new_arch_is_an_edit_of_the_matrix_alone(tmp_path: Path, recipe: Path, meta: str) -> None:
    matrix = tmp_path / "conda_build_config.yaml"
    text = MATRIX.read_text()
    text = text.replace('  - "gfx942"\n', '  - "gfx942"\n  - "gfx950"\n', 1)
    matrix.write_text(text.replace('  - "9.4.2"\n', '  - "9.4.2"\n  - "9.5.0"\n', 1))
    shutil.copy(recipe, tmp_path)
    assert generate(tmp_path / "recipe.yaml") == meta
    grown: list[Variant] = variants_of(meta, matrix)
    before = len(variants_of(meta, MATRIX))
    assert len(grown) == (before * 3 // 2 if "v_rocm_arch" in meta else before)
