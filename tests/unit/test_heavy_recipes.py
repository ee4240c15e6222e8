"""LLVM, Triton, PyTorch, vLLM, AMD SMI and the aliases over the whole matrix, as rattler-build reads them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import rattler_build as engine
from rattler import BuildString, MatchSpec, PackageRecord

from channel_tools.build.nodes import render_all
from channel_tools.model.matrix import Matrix, read_matrix

ROOT = Path(__file__).resolve().parents[2]
MATRIX = read_matrix(ROOT / "variants" / "conda_build_config.yaml")
RECIPES = ("triton-llvm", "triton-rocm", "pytorch-rocm", "vllm-rocm", "amdsmi")
# Packages without files or a build script: conda-forge's names for ours.
ALIASES = ("pytorch", "triton")
EVERY = (*RECIPES, *ALIASES)
STACKS = [row for row in MATRIX.rows() if row["selection"] == "declared"]

PER_ARCH = {"rocm_arch", "rocm_isa", "rocm_version"}
COMPILED = {"cxx_compiler_version", "c_stdlib_version", "toolchain"}
USED = {
    "triton-llvm": COMPILED | {"triton_llvm_version", "triton_llvm_commit", "triton_llvm_sha256"},
    "triton-rocm": COMPILED | {"triton_version", "triton_sha256", "triton_llvm_version", "python"},
    "pytorch-rocm": COMPILED
    | PER_ARCH
    | {"pytorch_version", "pytorch_sha256", "triton_version", "python", "hip_sdk"},
    "vllm-rocm": COMPILED
    | PER_ARCH
    | {"vllm_version", "vllm_sha256", "triton_kernels_version", "triton_kernels_sha256"}
    | {"pytorch_version", "triton_version", "python", "hip_sdk"},
    "amdsmi": {"rocm_version", "python", "toolchain", "hip_sdk"},
    "pytorch": {"rocm_version", "rocm_arch", "pytorch_version", "python"},
    "triton": {"triton_version", "python"},
}
UNUSED = {
    "triton-llvm": PER_ARCH | {"python", "hip_sdk", "triton_version"},
    "triton-rocm": PER_ARCH | {"hip_sdk", "pytorch_version"},
    "pytorch-rocm": {"vllm_version", "triton_llvm_version", "selection"},
    "vllm-rocm": {"pytorch_sha256", "triton_sha256", "triton_llvm_version", "selection"},
    "amdsmi": {"rocm_arch", "rocm_isa", "cxx_compiler_version", "pytorch_version"},
    "pytorch": COMPILED | {"pytorch_sha256", "triton_version", "vllm_version", "selection"},
    "triton": COMPILED | PER_ARCH | {"triton_sha256", "pytorch_version", "selection"},
}
BUILD_STRINGS = {
    "triton-llvm": r"h[0-9a-f]{7}_\d+",
    "triton-rocm": r"py312_h[0-9a-f]{7}_\d+",
    "pytorch-rocm": r"rocm(70|72)_(gfx90a|gfx942)_py312_h[0-9a-f]{7}_\d+",
    "vllm-rocm": r"rocm(70|72)_(gfx90a|gfx942)_py312_h[0-9a-f]{7}_\d+",
    "amdsmi": r"rocm(70|72)_py312_h[0-9a-f]{7}_\d+",
    "pytorch": r"rocm(70|72)_(gfx90a|gfx942)_py312_h[0-9a-f]{7}_\d+",
    "triton": r"rocm_py312_h[0-9a-f]{7}_\d+",
}


@dataclass(frozen=True)
class Output:
    """One rendered output: the recipe as a dictionary, and the matrix keys that it uses."""

    recipe: Mapping[str, Any]
    variant: Mapping[str, str]

    @property
    def build(self) -> str:
        return str(self.recipe["build"]["string"])

    @property
    def sources(self) -> list[Mapping[str, Any]]:
        found = self.recipe.get("source", [])
        return found if isinstance(found, list) else [found]

    def specs(self, section: str) -> list[str]:
        return [entry for entry in self.recipe["requirements"].get(section, []) if isinstance(entry, str)]

    def imports(self) -> list[str]:
        return [name for test in self.recipe["tests"] for name in test.get("python", {}).get("imports", [])]

    def commands(self) -> list[str]:
        return [line for test in self.recipe["tests"] for line in script_lines(test.get("script", []))]


def script_lines(script: Any) -> list[str]:
    content = script.get("content", []) if isinstance(script, Mapping) else script
    return [content] if isinstance(content, str) else list(content)


def render(name: str, matrix: Matrix = MATRIX) -> list[Output]:
    config = engine.VariantConfig(
        {key: list(values) for key, values in matrix.values.items()},
        zip_keys=[list(group) for group in matrix.zip_groups],
    )
    platform = engine.PlatformConfig(target_platform="linux-64")
    recipe = engine.Stage0Recipe.from_file(ROOT / "recipes" / name / "recipe.yaml")
    rendered = recipe.render(config, engine.RenderConfig(platform=platform))
    return [
        Output(one.recipe.to_dict(), {k: str(v) for k, v in one.variant.items() if k in matrix.keys})
        for one in rendered
    ]


def package(name: str, version: str, build: str) -> PackageRecord:
    return PackageRecord(name, version, BuildString(build), 0, "linux-64")


def vllm(version: str) -> list[Output]:
    return [output for output in render("vllm-rocm") if output.variant["vllm_version"] == version]


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        *[("triton-llvm", 2), ("triton-rocm", 2), ("pytorch-rocm", 4), ("vllm-rocm", 4), ("amdsmi", 2)],
        *[("pytorch", 4), ("triton", 2)],
    ],
)
def test_number_and_names_of_outputs(name: str, outputs: int) -> None:
    builds = [f"{o.recipe['package']['version']}-{o.build}" for o in render(name)]
    assert len(builds) == len(set(builds)) == outputs
    for output in render(name):
        assert re.fullmatch(BUILD_STRINGS[name], output.build), output.build
        if "rocm_arch" in output.variant:
            release = output.variant["rocm_version"].replace(".", "")
            assert output.build.startswith(f"rocm{release}_{output.variant['rocm_arch']}_")


@pytest.mark.parametrize("name", EVERY)
def test_each_package_depends_on_the_keys_that_make_it_and_no_other(name: str) -> None:
    for output in render(name):
        assert USED[name] <= set(output.variant), "a key that makes the package is not in its hash"
        assert not UNUSED[name] & set(output.variant), "a key that does not make the package is in its hash"


@pytest.mark.parametrize("row", STACKS, ids=lambda row: f"{row['rocm_version']}-{row['rocm_arch']}")
def test_every_combination_of_the_matrix_has_every_package(row: dict[str, str]) -> None:
    for name in EVERY:
        fitting = [o for o in render(name) if all(row[key] == value for key, value in o.variant.items())]
        assert len(fitting) == 1, f"{name}: {[o.build for o in fitting]}"


def test_values_of_two_stacks_never_meet() -> None:
    columns = {row["rocm_version"]: row for row in STACKS}
    for name in EVERY:
        for output in render(name):
            used = {k: v for k, v in output.variant.items() if k not in ("rocm_arch", "rocm_isa")}
            assert any(all(row[key] == value for key, value in used.items()) for row in columns.values())


def with_arch(target: str, isa: str) -> Matrix:
    values = dict(MATRIX.values)
    values["rocm_arch"] += (target,)
    values["rocm_isa"] += (isa,)
    return Matrix(MATRIX.path, values, MATRIX.zip_groups)


def with_release(release: str, **changed: str) -> Matrix:
    """The matrix with one more column, a copy of the last but for ``changed``."""
    values = dict(MATRIX.values)
    group = next(group for group in MATRIX.zip_groups if "rocm_version" in group)
    for key in group:
        values[key] += ({"rocm_version": release, **changed}.get(key, values[key][-1]),)
    return Matrix(MATRIX.path, values, MATRIX.zip_groups)


def test_a_new_arch_is_an_edit_of_the_matrix_alone() -> None:
    counts = {name: len(render(name, with_arch("gfx950", "9.5.0"))) for name in EVERY}
    per_arch = {"pytorch-rocm": 6, "vllm-rocm": 6, "pytorch": 6}
    assert counts == {"triton-llvm": 2, "triton-rocm": 2, "amdsmi": 2, "triton": 2, **per_arch}
    for name in EVERY:
        text = (ROOT / "recipes" / name / "recipe.yaml").read_text()
        script = ROOT / "build_scripts" / f"{name}.sh"
        text += script.read_text() if name in RECIPES else ""
        assert not re.search(r"gfx\d", text), f"{name} names a GPU arch"


def test_a_release_with_the_same_triton_builds_no_second_triton() -> None:
    matrix = with_release("7.1")
    counts = {name: len(render(name, matrix)) for name in EVERY}
    per_release = {"pytorch-rocm": 6, "vllm-rocm": 6, "amdsmi": 3, "pytorch": 6}
    assert counts == {"triton-llvm": 2, "triton-rocm": 2, "triton": 2, **per_release}


def test_a_newer_vllm_takes_the_newer_lists() -> None:
    matrix = with_release("7.3", vllm_version="0.32.0")
    (output, *_) = [o for o in render("vllm-rocm", matrix) if o.variant["vllm_version"] == "0.32.0"]
    assert "vllm._moe_C_stable_libtorch" in output.imports()


@pytest.mark.parametrize("toolchain", [{"toolchain": "host"}, {"hip_sdk": "debian"}])
def test_a_build_with_host_tools_never_has_the_name_of_a_real_one(toolchain: dict[str, str]) -> None:
    for name in ("pytorch-rocm", "vllm-rocm", "amdsmi"):
        real = {output.build for output in render(name)}
        other = {output.build for output in render(name, MATRIX.overridden(toolchain))}
        assert not real & other


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "amdsmi"])
def test_sources_are_pinned_and_mirrored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_MIRROR", raising=False)
    plain = render(name)
    monkeypatch.setenv("SOURCE_MIRROR", "https://mirror.invalid/sources")
    mirrored = render(name)
    assert [o.build for o in plain] == [o.build for o in mirrored], "the mirror must not be in the hash"
    checksums = {sha for key, values in MATRIX.values.items() if key.endswith("_sha256") for sha in values}
    for output, without in zip(mirrored, plain, strict=True):
        for source, unmirrored in zip(output.sources, without.sources, strict=True):
            assert source["sha256"] in checksums
            first, second = source["url"]
            assert second.startswith("https://github.com/")
            assert first == f"https://mirror.invalid/sources/{second.rsplit('/', 1)[1]}", "one flat folder"
            assert unmirrored["url"][0].startswith("file:///no-source-mirror/"), "no mirror: fail at once"


def test_vllm_gets_the_kernels_of_the_triton_release_that_it_pins() -> None:
    for output in render("vllm-rocm"):
        main, kernels = output.sources
        version = output.variant["vllm_version"]
        assert main["url"][1].endswith(f"/v{version}/vllm-{version}.tar.gz")
        assert kernels["url"][1].endswith(f"/triton-{output.variant['triton_kernels_version']}.tar.gz")
        assert kernels["target_directory"] == "triton-kernels"


def test_needs_between_the_packages() -> None:
    nodes = render_all([path.parent for path in (ROOT / "recipes").glob("*/recipe.yaml")], MATRIX)
    by_stem = {node.stem: node for node in nodes}
    wanted = {
        "triton-llvm": set(),
        "triton-rocm": {"triton-llvm", "rocm-userspace"},
        "pytorch-rocm": {"amdgpu-arch", "rocm-userspace", "triton-rocm"},
        "vllm-rocm": {"amdgpu-arch", "rocm-userspace", "amdsmi", *("pytorch-rocm", "triton-rocm"), *ALIASES},
        "amdsmi": {"rocm-userspace"},
        "pytorch": {"pytorch-rocm"},
        "triton": {"triton-rocm"},
    }
    for node in nodes:
        if node.package not in wanted:
            continue
        needed = [by_stem[stem] for stem in node.needs]
        assert {other.package for other in needed} == wanted[node.package], node.stem
        for other in needed:
            shared = set(node.variant) & set(other.variant)
            assert all(node.variant[key] == other.variant[key] for key in shared), (node.stem, other.stem)
            made = package(other.package, other.version, other.build)
            asked = [MatchSpec(spec) for spec in node.requires if spec.split()[0] == other.package]
            assert asked and all(spec.matches(made) for spec in asked), (
                f"{other.stem} is not what {asked} asks for"
            )


def test_every_spec_is_one_that_rattler_reads_strictly() -> None:
    for name in EVERY:
        for output in render(name):
            exports = output.recipe["requirements"].get("run_exports", {})
            sections = [output.specs(section) for section in ("host", "run", "run_constraints")]
            for spec in itertools.chain(*sections, *exports.values()):
                MatchSpec(spec, strict=True)


def test_device_code_comes_with_its_arch_and_release() -> None:
    for name in ("pytorch-rocm", "vllm-rocm"):
        for output in render(name):
            assert f"amdgpu-arch =={output.variant['rocm_isa']}" in output.specs("host")
            assert f"rocm-userspace {output.variant['rocm_version']}.*" in output.specs("host")
            assert output.recipe["extra"]["gfx_targets"] == [output.variant["rocm_arch"]]
            assert "libstdcxx >=12" in output.specs("run")


def test_libstdcxx_is_never_held_down() -> None:
    newest = package("libstdcxx", "16.1.0", "h0_0")
    for name in RECIPES:
        for output in render(name):
            for spec in (*output.specs("host"), *output.specs("run")):
                if spec.startswith("libstdcxx"):
                    assert MatchSpec(spec, strict=True).matches(newest), spec


@pytest.mark.parametrize(
    ("name", "foreign", "build"),
    [
        ("triton-rocm", "triton", "cuda129py312h9f3a4d2_0"),
        ("pytorch-rocm", "pytorch", "cuda129_mkl_py312_h1a2b3c4_300"),
        ("pytorch-rocm", "pytorch", "cpu_mkl_py312_h1a2b3c4_100"),
        # Should conda-forge build for ROCm one day: many archs in one package, so none in the build string.
        ("pytorch-rocm", "pytorch", "rocm72_mkl_py312_h1a2b3c4_300"),
        ("triton-rocm", "triton", "rocm72_py312_h1a2b3c4_0"),
        ("vllm-rocm", "vllm", "cuda129_py312h1a2b3c4_0"),
    ],
)
def test_conda_forge_s_package_with_the_same_files_is_refused(name: str, foreign: str, build: str) -> None:
    for output in render(name):
        (spec,) = [spec for spec in output.specs("run_constraints") if spec.split()[0] == foreign]
        refused = package(foreign, output.recipe["package"]["version"], build)
        assert not MatchSpec(spec, strict=True).matches(refused)


@pytest.mark.parametrize("name", ["pytorch-rocm", "vllm-rocm"])
@pytest.mark.parametrize("foreign", ["libtorch", "pytorch-cpu", "pytorch-gpu"])
def test_every_other_pytorch_of_conda_forge_is_refused(name: str, foreign: str) -> None:
    for output in render(name):
        (spec,) = [spec for spec in output.specs("run_constraints") if spec.split()[0] == foreign]
        record = package(foreign, output.variant["pytorch_version"], "cuda129_mkl_h1a2b3c4_300")
        assert not MatchSpec(spec, strict=True).matches(record)


@pytest.mark.parametrize(("alias", "name"), [("pytorch", "pytorch-rocm"), ("triton", "triton-rocm")])
def test_an_alias_and_the_package_that_it_stands_for_accept_each_other_and_no_other_variant(
    alias: str, name: str
) -> None:
    for output in render(alias):
        assert "source" not in output.recipe and not script_lines(output.recipe["build"].get("script", []))
        version = output.recipe["package"]["version"]
        (needed,) = output.specs("run")
        assert needed.split()[0] == name
        for other in render(name):
            same = all(output.variant.get(key, value) == value for key, value in other.variant.items())
            real = package(name, other.recipe["package"]["version"], other.build)
            assert MatchSpec(needed, strict=True).matches(real) == same, (needed, other.build)
            (constraint,) = [s for s in other.specs("run_constraints") if s.split()[0] == alias]
            accepted = MatchSpec(constraint, strict=True).matches(package(alias, version, output.build))
            assert accepted == same, (constraint, output.build)
            raised = re.sub(r"h[0-9a-f]{7}_0$", "h0000000_1", other.build)
            newer = package(name, other.recipe["package"]["version"], raised)
            assert MatchSpec(needed, strict=True).matches(newer) == same, "a newer build of it fits as well"


def test_vllm_names_the_aliases_that_its_requirements_need() -> None:
    for output in render("vllm-rocm"):
        for alias in ALIASES:
            (spec,) = [spec for spec in output.specs("run") if spec.split()[0] == alias]
            fitting = [
                o
                for o in render(alias)
                if MatchSpec(spec, strict=True).matches(
                    package(alias, o.recipe["package"]["version"], o.build)
                )
            ]
            assert len(fitting) == 1
            assert all(output.variant[key] == value for key, value in fitting[0].variant.items())


def test_triton_asks_for_no_release_of_rocm() -> None:
    for output in render("triton-rocm"):
        assert "rocm-userspace" in output.specs("run")
        assert not any(spec.startswith("rocm-userspace") for spec in output.specs("host"))


NEW_MODULES = {"_C_stable_libtorch", "_moe_C_stable_libtorch", "spinloop", "fs_io_C"}


@pytest.mark.parametrize(("version", "modules"), [("0.16.0", {"_moe_C"}), ("0.26.0", NEW_MODULES)])
def test_vllm_is_tested_by_the_modules_that_the_version_has(version: str, modules: set[str]) -> None:
    for output in vllm(version):
        every = {"_C", "_rocm_C", "cumem_allocator"} | modules
        assert set(output.imports()) == {"vllm", *(f"vllm.{module}" for module in every)}


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("triton-rocm", "python tests/aot_compile.py"),
        (
            "pytorch-rocm",
            "python tests/check_torch.py --version ${{ pytorch_version }} --rocm ${{ rocm_version }}"
            " --arch ${{ rocm_arch }} --triton ${{ triton_version }}",
        ),
        ("vllm-rocm", "python tests/check_vllm.py --version ${{ vllm_version }} --arch ${{ rocm_arch }}"),
    ],
)
def test_an_installed_package_is_asked_what_it_was_built_for(name: str, command: str) -> None:
    # The engine fills these in when it runs the test.
    assert all(output.commands()[0] == command for output in render(name))
    assert name == "pytorch-rocm" or all(len(output.commands()) == 1 for output in render(name))


def test_a_cmake_project_uses_the_installed_torch() -> None:
    for output in render("pytorch-rocm"):
        arch, configure, build, run = output.commands()[1:]
        assert arch == "export PYTORCH_ROCM_ARCH=${{ rocm_arch }}", "LoadHIP.cmake looks for a GPU without"
        assert "cmake -S tests/consumer" in configure and "torch.utils.cmake_prefix_path" in configure
        assert (build, run) == ("cmake --build consumer", "./consumer/consumer")


@pytest.mark.parametrize("name", RECIPES)
def test_files_that_a_recipe_names_are_there_and_no_others(name: str) -> None:
    folder = ROOT / "recipes" / name
    config = folder / "conda_build_config.yaml"
    assert config.is_symlink() and config.resolve() == MATRIX.path.resolve()
    outputs = render(name)
    named = {Path(patch).name for o in outputs for source in o.sources for patch in source.get("patches", [])}
    assert named == {path.name for path in folder.glob("patches/*")}
    tests = {
        entry
        for output in outputs
        for test in output.recipe["tests"]
        for entry in test.get("files", {}).get("recipe", [])
    }
    assert tests == {str(path.relative_to(folder)) for path in folder.glob("tests/**/*") if path.is_file()}
    (line,) = script_lines(outputs[0].recipe["build"]["script"])
    assert line == f'bash "${{RECIPE_DIR}}/../../build_scripts/{name}.sh"'
    assert (ROOT / "build_scripts" / f"{name}.sh").is_file()


@pytest.mark.parametrize(
    "patch", sorted((ROOT / "recipes").glob("*/patches/*.patch")), ids=lambda path: path.name
)
def test_a_patch_says_why(patch: Path) -> None:
    assert re.match(r"\d{4}-", patch.name)
    header, diff = patch.read_text().split("\n--- ", 1)
    title, empty, *reason = header.splitlines()
    assert title and not empty and len(" ".join(reason)) > 100, "a title, an empty line, and why"
    assert "\n+++ b/" in diff


def test_torch_is_built_without_a_download_of_its_own() -> None:
    script = (ROOT / "build_scripts" / "pytorch-rocm.sh").read_text()
    for option in (
        "USE_FLASH_ATTENTION",
        "USE_MEM_EFF_ATTENTION",
        "USE_NNPACK",
        "USE_FBGEMM_GENAI",
        "USE_CUDA",
    ):
        assert re.search(rf"^export .*\b{option}=0\b", script, re.MULTILINE), option
    assert "guard_network" in script


def test_build_scripts_call_what_the_guards_offer() -> None:
    library = "\n".join(path.read_text() for path in (ROOT / "build_scripts" / "lib").glob("*.sh"))
    calls = re.compile(
        r"\b(guard_\w+|check_\w+|record_evidence|hip_cmake_args|append_cmake_args|read_compiler)\b(?!=)"
    )
    for name in RECIPES:
        script = (ROOT / "build_scripts" / f"{name}.sh").read_text()
        code = "\n".join(line for line in script.splitlines() if not line.lstrip().startswith("#"))
        defined = set(re.findall(r"^(\w+)\(\)", library + "\n" + code, re.MULTILINE))
        assert set(calls.findall(code)) <= defined


def test_each_guard_has_an_exit_code_of_its_own() -> None:
    codes: dict[str, set[str]] = {}
    for path in (ROOT / "build_scripts").rglob("*.sh"):
        for code, name in re.findall(r"guard_fail (\d+) ([a-z-]+)", path.read_text()):
            codes.setdefault(name, set()).add(code)
    assert all(len(found) == 1 for found in codes.values()), codes
    numbers = [int(*found) for found in codes.values()]
    assert len(set(numbers)) == len(numbers) and all(60 <= number <= 79 for number in numbers)
