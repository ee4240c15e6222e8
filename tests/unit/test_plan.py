"""The plan over the project's real recipes: what there is, what needs what, what a new arch adds."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from channel_tools.build.nodes import Node, render_all, spec_name
from channel_tools.build.plan import make_plan
from channel_tools.build.toolchain import Toolchain
from channel_tools.channel.folder import FolderChannel
from channel_tools.model.errors import RecipeError
from channel_tools.model.matrix import read_matrix
from channel_tools.model.project import Project

CONDA = Toolchain("conda", ("conda-forge",), None)


@pytest.fixture(scope="module")
def nodes(repo_root: Path) -> list[Node]:
    project = Project(repo_root)
    return render_all(project.recipe_folders(), read_matrix(project.matrix_file))


def test_every_package_has_its_variants(nodes: list[Node]) -> None:
    count = Counter(node.package for node in nodes)
    per_arch_and_release = ("rocm-canary", "pytorch-rocm", "vllm-rocm")
    assert {name: count[name] for name in per_arch_and_release} == dict.fromkeys(per_arch_and_release, 4)
    assert count["amdgpu-arch"] == 4, "two archs, detected and declared"
    assert count["rocm-userspace"] == 4, "two releases, detected and declared"
    assert count["triton-rocm"] == count["triton-llvm"] == 2, "one a Triton release, whatever the arch"
    assert len({node.stem for node in nodes}) == len(nodes)


def test_packages_with_device_code_name_arch_and_release_in_their_build_string(nodes: list[Node]) -> None:
    for node in nodes:
        if node.package in ("rocm-canary", "pytorch-rocm", "vllm-rocm"):
            release = node.variant["rocm_version"].replace(".", "")
            assert node.build.startswith(f"rocm{release}_{node.variant['rocm_arch']}_"), node.stem
        if node.package in ("triton-rocm", "triton-llvm"):
            assert "rocm_arch" not in node.variant


def test_needs_stay_in_one_arch_and_one_release(nodes: list[Node]) -> None:
    by_stem = {node.stem: node for node in nodes}
    vllm = [node for node in nodes if node.package == "vllm-rocm"]
    for node in vllm:
        needed = [by_stem[stem] for stem in node.needs]
        assert {"amdgpu-arch", "rocm-userspace", "pytorch-rocm", "triton-rocm"} <= {n.package for n in needed}
        for other in needed:
            for key in ("rocm_arch", "rocm_version"):
                assert other.variant.get(key, node.variant[key]) == node.variant[key]
            if other.package == "triton-rocm":
                assert other.version == {"7.0": "3.5.1", "7.2": "3.6.0"}[node.variant["rocm_version"]]


def test_order_puts_needs_first(nodes: list[Node]) -> None:
    seen: set[str] = set()
    for node in nodes:
        assert set(node.needs) <= seen, node.stem
        seen.add(node.stem)


@pytest.mark.parametrize(("target", "isa"), [("gfx1100", "11.0.0"), ("gfx908", "9.0.8"), ("gfx950", "9.5.0")])
def test_a_new_arch_is_an_edit_of_variants_alone(
    repo_root: Path, tmp_path: Path, nodes: list[Node], target: str, isa: str
) -> None:
    variants = tmp_path / "conda_build_config.yaml"
    text = (repo_root / "variants" / "conda_build_config.yaml").read_text()
    variants.write_text(
        text.replace('  - "gfx942"\n', f'  - "gfx942"\n  - "{target}"\n').replace(
            '  - "9.4.2"\n', f'  - "9.4.2"\n  - "{isa}"\n'
        )
    )
    more = render_all(Project(repo_root).recipe_folders(), read_matrix(variants))
    old = {node.stem for node in nodes}
    assert old < {node.stem for node in more}, "the archs that were there keep their hashes"
    new = Counter(node.package for node in more if node.stem not in old)
    assert all(n.variant["rocm_arch"] == target for n in more if n.stem not in old)
    assert new["rocm-canary"] == new["pytorch-rocm"] == new["vllm-rocm"] == 2
    assert new["amdgpu-arch"] == 2
    assert new["triton-rocm"] == 0


def test_a_host_build_shares_no_hash_with_the_real_one(repo_root: Path, nodes: list[Node]) -> None:
    matrix = read_matrix(repo_root / "variants" / "conda_build_config.yaml")
    host = matrix.overridden({"toolchain": "host", "hip_sdk": "debian", "c_stdlib_version": "2.36"})
    built_by_compilers = {node.stem for node in nodes if "toolchain" in node.variant}
    hosts = {node.stem for node in render_all(Project(repo_root).recipe_folders(), host)}
    assert built_by_compilers and not built_by_compilers & hosts


def test_json_has_the_documented_keys_and_all_recipes(repo_root: Path, tmp_path: Path) -> None:
    project = Project(repo_root)
    matrix = read_matrix(project.matrix_file)
    data = make_plan(project, matrix, CONDA, FolderChannel(tmp_path / "none")).to_json()
    assert data["version"] == 1
    for node in data["nodes"]:
        assert set(node) == {"package", "version", "build", "variant", "needs", "state"}
        assert node["state"] == "missing"
    assert {node["package"] for node in data["nodes"]} == {path.name for path in project.recipe_folders()}


def test_selecting_takes_what_is_needed_along(repo_root: Path, tmp_path: Path) -> None:
    project = Project(repo_root)
    plan = make_plan(project, read_matrix(project.matrix_file), CONDA, FolderChannel(tmp_path / "none"))
    assert {s.node.package for s in plan.select(["rocm-canary"]).steps} == {
        "rocm-canary",
        "amdgpu-arch",
        "rocm-userspace",
    }
    with pytest.raises(RecipeError, match="no recipe vllm"):
        plan.select(["vllm"])


def test_a_broken_recipe_is_one_clear_error(repo_root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(repo_root / "recipes" / "amdgpu-arch", folder, symlinks=True)
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("${{ rocm_isa }}", "${{ no_such_key }}", 1))
    with pytest.raises(RecipeError) as refused:
        render_all([folder], read_matrix(repo_root / "variants" / "conda_build_config.yaml"))
    assert str(recipe) in str(refused.value)
    assert "undefined" in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("rocm-userspace 7.2.*", "rocm-userspace"),
        ("amdgpu-arch==9.4.2", "amdgpu-arch"),
        ("a::b >=1", "b"),
        ("c", "c"),
    ],
)
def test_spec_name(spec: str, name: str) -> None:
    assert spec_name(spec) == name
