"""``deps`` and ``bump`` on vLLM's real source distributions, and on recipes that were made wrong."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

from channel_tools.cli.bump import bump
from channel_tools.cli.deps import deps
from channel_tools.model.errors import ChannelToolsError, RequirementsError
from channel_tools.model.matrix import read_matrix
from channel_tools.model.project import Project
from channel_tools.model.tar import tarfile
from channel_tools.requirements.obtain import listed_sha256, obtain
from tests.integration.helpers import ROOT, make_project

pytestmark = pytest.mark.network

MATRIX = read_matrix(ROOT / "variants" / "conda_build_config.yaml")
SHA256 = dict(zip(MATRIX.values["vllm_version"], MATRIX.values["vllm_sha256"], strict=True))
NEW = "0.27.0"
NEW_SHA256 = "862671641625d6cfb7aaab98a5386126738b59ca50e5d01ca539a4e32f63ffcb"

app = typer.Typer()
app.command("deps")(deps)
app.command("bump")(bump)


@dataclass(frozen=True)
class Done:
    """What a command printed, and the error that ended it."""

    text: str
    error: ChannelToolsError | None

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def run(*words: object) -> Done:
    result = CliRunner().invoke(app, list(map(str, words)))
    error = result.exception
    assert error is None or isinstance(error, ChannelToolsError), result.exception
    return Done(result.stdout, error)


@pytest.fixture(scope="module")
def sdists() -> dict[str, Path]:
    """Archives by release, in the store of the checkout; the new one by the sha256 that the index lists."""
    project = Project(ROOT)
    wanted = {**SHA256, NEW: NEW_SHA256}
    assert listed_sha256(f"vllm-{NEW}.tar.gz") == NEW_SHA256
    return {version: obtain(project, f"vllm-{version}.tar.gz", sha256) for version, sha256 in wanted.items()}


@pytest.fixture(scope="module")
def slim(sdists: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same as folders, with what lists, CMake and setup.py say and nothing else."""
    folder = tmp_path_factory.mktemp("slim")
    wanted = re.compile(r"PKG-INFO|pyproject\.toml|setup\.py|CMakeLists\.txt|(requirements|cmake)/.+")
    for archive in sdists.values():
        with tarfile.open(archive) as tar:
            for member in tar:
                if wanted.fullmatch(member.name.partition("/")[2]):
                    tar.extract(member, folder, filter="data")
    return {version: folder / f"vllm-{version}" for version in sdists}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with copies of recipes, variants and scripts, and the checkout's store of sources."""
    monkeypatch.setenv("ROCM_CHANNEL_ROOT", str(make_project(tmp_path / "project")))
    monkeypatch.setenv("ROCM_CHANNEL_CACHE", str(ROOT / ".cache"))
    return tmp_path / "project"


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROCM_CHANNEL_ROOT", str(ROOT))
    monkeypatch.setenv("ROCM_CHANNEL_CACHE", str(ROOT / ".cache"))
    return ROOT


# --- deps


def test_every_requirement_of_both_releases_is_mapped_or_left_out(
    checkout: Path, sdists: dict[str, Path]
) -> None:
    done = run("deps", "vllm-rocm", "--json")
    assert done.error is None
    report = done.json
    assert report["version"] == 1 and report["ok"] is True
    outputs = {output["package_version"]: output for output in report["outputs"]}
    assert set(outputs) == set(SHA256)
    for version, output in outputs.items():
        assert output["source"]["sha256"] == SHA256[version]
        assert output["archs"] == list(MATRIX.values["rocm_arch"]) and not output["differences"]
        rows = output["requirements"]
        assert len(rows) == output["counts"]["mapped"] + output["counts"]["left out"] > 75
        assert all(len(row["reason"]) > 20 for row in rows if row["verdict"] == "left out")
        by_name = {(row["role"], row["name"]): row for row in rows}
        assert by_name["build", "torch"]["conda"] == "pytorch-rocm"
        assert by_name["build", "triton"]["section"] == "run"
        assert by_name["run", "opencv-python-headless"]["conda"] == "opencv"
        assert by_name["run", "model-hosting-container-standards"]["verdict"] == "left out"


def test_no_line_of_the_lists_is_passed_over(checkout: Path, slim: dict[str, Path]) -> None:
    """Read the lists once more, in the plainest way: as many names as the command reports."""
    for version in SHA256:
        source = slim[version]
        rows = run("deps", "vllm-rocm", "--json", "--source", source).json["outputs"][0]["requirements"]
        text = "".join(
            (source / "requirements" / name).read_text() + "\n" for name in ("common.txt", "rocm.txt")
        )
        lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines()]
        names = {canonicalize_name(Requirement(line).name) for line in lines if line and line[0] != "-"}
        assert {row["name"] for row in rows if row["role"] == "run"} == names


@pytest.mark.parametrize("python", ["3.11", "3.13"])
def test_other_pythons_of_the_matrix_are_right_as_well(
    project: Path, sdists: dict[str, Path], python: str
) -> None:
    matrix = project / "variants" / "conda_build_config.yaml"
    matrix.write_text(matrix.read_text().replace('  - "3.12"\n', f'  - "3.12"\n  - "{python}"\n'))
    report = run("deps", "vllm-rocm", "--json").json
    assert report["ok"] is True and len(report["outputs"]) == 4
    asked = {
        output["python"]: {row["name"] for row in output["requirements"]} for output in report["outputs"]
    }
    assert ("six" in asked[python]) == (python == "3.13"), "its marker says from 3.12 on"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


Change = Callable[[Path, Path], None]


def in_recipe(old: str, new: str) -> Change:
    return lambda recipe, source: edit(recipe / "recipe.yaml", old, new)


def in_data(old: str, new: str) -> Change:
    return lambda recipe, source: edit(recipe / "requirements.toml", old, new)


def in_list(name: str, old: str, new: str) -> Change:
    return lambda recipe, source: edit(source / "requirements" / name, old, new)


@pytest.mark.parametrize(
    ("change", "kind", "name"),
    [
        (in_recipe("    - msgspec\n", ""), "new", "msgspec"),
        (in_recipe("    - msgspec\n", "    - msgspec\n    - flask\n"), "dropped", "flask"),
        (in_recipe(">=0.2.1,<1.0.0", ">=0.2.1"), "range", "xgrammar"),
        (in_recipe("numba ==0.65.0", "numba ==0.61.2"), "range", "numba"),
        (in_recipe("setuptools-rust >=1.9.0", "setuptools-rust"), "range", "setuptools-rust"),
        (in_recipe("grpcio >=1.78.0", "grpcio >=1.70.0"), "range", "grpcio"),
        (in_recipe("    - msgspec\n", "    - msgspec\n    - timm\n"), "contradiction", "timm"),
        (in_data('names = ["amd-quark"]', 'names = ["amd-quark-2"]'), "new", "amd-quark"),
        (in_data('extras = ["standard"]', 'extras = ["all"]'), "extra", "fastapi"),
        (in_list("common.txt", "msgspec\n", "msgspec\nbrand-new>=1\n"), "new", "brand-new"),
        (in_list("common.txt", "msgspec\n", ""), "dropped", "msgspec"),
        (in_list("common.txt", "mcp\n", "mcp >= 2\n"), "range", "mcp"),
        (in_list("rocm.txt", "grpcio==1.78.0", "grpcio==1.80.0"), "range", "grpcio"),
        (in_list("rocm.txt", "datasets\n", "datasets[audio]\n"), "extra", "datasets"),
        (in_list("rocm.txt", "-r common.txt", "-r common.txt\n-r kv_connectors_rocm.txt"), "new", "lm-eval"),
        (in_list("build/rocm.txt", "torch==2.11.0", "torch==2.12.0"), "range", "torch"),
        (in_list("build/rocm.txt", "wheel\n", "wheel\nscikit-build-core\n"), "new", "scikit-build-core"),
    ],
)
def test_what_is_new_dropped_or_changed_ends_the_command(
    project: Path, slim: dict[str, Path], tmp_path: Path, change: Change, kind: str, name: str
) -> None:
    source = tmp_path / "vllm-0.26.0"
    shutil.copytree(slim["0.26.0"], source)
    change(project / "recipes" / "vllm-rocm", source)
    done = run("deps", "vllm-rocm", "--json", "--source", source)
    assert isinstance(done.error, RequirementsError) and done.error.exit_code == 16
    (output,) = done.json["outputs"]
    assert done.json["ok"] is False
    found = [(d["kind"], d["name"]) for d in output["differences"]]
    assert any(k == kind and n.startswith(name) for k, n in found), found


def test_a_later_release_is_compared_with_the_newest_stack(checkout: Path, slim: dict[str, Path]) -> None:
    done = run("deps", "vllm-rocm", "--json", "--source", slim[NEW])
    assert done.error is not None and done.error.exit_code == 16
    (output,) = done.json["outputs"]
    assert (output["package_version"], output["rocm_version"]) == (NEW, "7.2")
    assert {(d["kind"], d["name"]) for d in output["differences"]} == {
        ("range", "torch"),
        ("range", "mistral-common"),
    }
    torch = next(d for d in output["differences"] if d["name"] == "torch")
    assert "no version" in torch["what"], "upstream's two lists of the build name two releases of torch"
    assert "  range: mistral-common has another range" in run("deps", "vllm-rocm", "--source", slim[NEW]).text


def test_another_archive_under_the_name_of_a_release_is_refused(
    checkout: Path, slim: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "vllm-0.26.0"
    shutil.copytree(slim["0.26.0"], folder)
    archive = tmp_path / "vllm-0.26.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, "vllm-0.26.0")
    done = run("deps", "vllm-rocm", "--source", archive)
    assert done.error is not None and SHA256["0.26.0"] in str(done.error)

    (folder / "PKG-INFO").write_text("Name: other\nVersion: 1.0\n")
    done = run("deps", "vllm-rocm", "--source", folder)
    assert done.error is not None and "other 1.0" in str(done.error)


@pytest.mark.parametrize(("recipe", "message"), [("amdsmi", "requirements.toml"), ("vllm", "no recipe vllm")])
def test_a_recipe_that_deps_does_not_know(checkout: Path, recipe: str, message: str) -> None:
    done = run("deps", recipe)
    assert done.error is not None and message in str(done.error)


# --- bump


def test_the_report_on_a_new_release_is_true(checkout: Path, sdists: dict[str, Path]) -> None:
    """What stands in 0.27.0 was looked up by hand in its files and in a comparison with 0.26.0."""
    done = run("bump", "vllm", NEW, "--dry-run", "--json")
    assert done.error is None
    report = done.json
    assert report["dry_run"] is True and report["stack"]["rocm_version"] == "7.2"
    assert report["matrix"] == {
        "vllm_version": {"before": "0.26.0", "after": NEW},
        "vllm_sha256": {"before": SHA256["0.26.0"], "after": NEW_SHA256},
    }
    assert [(p["patch"], p["state"]) for p in report["patches"]] == [
        ("0001-cap-optimisation-at-O2.patch", "fits"),
        ("0002-serve-without-sagemaker-standards-0.26.patch", "fits"),
    ]
    assert report["torch"]["matrix"] == "2.11.0" and report["torch"]["stable_abi"] == "2.11"
    assert [said["value"] for said in report["torch"]["upstream"]] == ["2.13.0", "2.11.0", "2.13.0"]
    assert (
        [said["value"] for said in report["triton"]["upstream"]] == [report["triton"]["matrix"]] == ["3.6.0"]
    )
    assert report["modules"]["new"] == report["modules"]["dropped"] == []
    assert {module["name"] for module in report["modules"]["all"]} == {
        *("vllm._C", "vllm._C_stable_libtorch", "vllm._moe_C_stable_libtorch", "vllm._rocm_C"),
        *("vllm.cumem_allocator", "vllm.fs_io_C", "vllm.spinloop", "vllm.triton_kernels"),
    }
    (before,), (after,) = report["downloads"]["before"], report["downloads"]["after"]
    assert (before["address"], before["revision"]) == ("https://github.com/triton-lang/triton.git", "v3.5.1")
    assert after["address"] == "https://github.com/ROCm/triton.git"
    assert after["revision"] == "0f380657dbf3ee86eb57558ff71df24f03b5d4e7"
    assert report["downloads"]["left"] == [], "the build script switches it off"
    assert {(c["role"], c["name"], c["change"]) for c in report["requirements"]} == {
        ("build", "torch", "changed"),
        ("run", "mistral-common", "changed"),
    }
    compilers = report["compilers"]
    assert compilers["least_gcc"] == "11.3" and compilers["matrix_gcc"] == "11"
    assert compilers["cxx_standard"] == {"before": "20", "after": "20"}
    assert "gfx1250" in report["archs"]["supported"] and report["archs"]["missing"] == []
    assert report["requires_python"] == {"before": ">=3.10,<3.15", "after": ">=3.10,<3.15"}
    assert report["no_licences"] == []
    left = "\n".join(report["left"])
    assert "torch" in left and "triton_kernels" in left and "mistral-common" in left and "GCC" not in left
    assert SHA256["0.26.0"] in (ROOT / "variants" / "conda_build_config.yaml").read_text()


def test_the_report_as_text_says_the_same(checkout: Path, sdists: dict[str, Path]) -> None:
    text = run("bump", "vllm", NEW, "--dry-run", "--source", sdists[NEW]).text
    for line in (
        "vllm-rocm: 0.26.0 -> 0.27.0, ROCm 7.2",
        "  vllm_version: 0.26.0 -> 0.27.0",
        "  0001-cap-optimisation-at-O2.patch: fits",
        "  new: gfx1250",
        "  changed (run): mistral-common[image] >=1.11.5 -> mistral-common[image] >=1.11.6",
    ):
        assert line in text.splitlines()
    assert "(not written)" in text


def test_from_one_stack_to_the_next_modules_compilers_and_lists_change(
    checkout: Path, sdists: dict[str, Path]
) -> None:
    report = run("bump", "vllm", "0.26.0", "--rocm", "7.0", "--dry-run", "--json").json
    assert report["matrix"]["vllm_version"] == {"before": "0.16.0", "after": "0.26.0"}
    assert report["modules"]["dropped"] == ["vllm._moe_C"]
    assert report["modules"]["new"] == [
        *("vllm._C_stable_libtorch", "vllm._moe_C_stable_libtorch", "vllm.fs_io_C", "vllm.spinloop")
    ]
    assert report["compilers"]["cxx_standard"] == {"before": "17", "after": "20"}
    changes = {(c["name"], c["change"]) for c in report["requirements"] if c["role"] == "run"}
    assert {("ray", "dropped"), ("tilelang", "new"), ("transformers", "changed")} <= changes
    left = "\n".join(report["left"])
    assert "build with torch 2.11 or newer" in left, "the stack of ROCm 7.0 has 2.9.1"
    assert "triton_kernels_version to 3.5.1" in left
    built = {module["name"] for module in report["modules"]["all"] if not module["optional"]}
    assert built == set(report["modules"]["policy"]) == set(report["modules"]["imported"]) - {"vllm"}
    assert "import tests" not in left and "[[modules]]" not in left


def test_without_dry_run_two_values_of_the_matrix_change(project: Path, sdists: dict[str, Path]) -> None:
    matrix = project / "variants" / "conda_build_config.yaml"
    before = matrix.read_text().splitlines()
    report = run("bump", "vllm", NEW, "--rocm", "7.2", "--source", sdists[NEW], "--json").json
    assert report["dry_run"] is False
    after = matrix.read_text().splitlines()
    changed = [new.strip() for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [f'- "{NEW}"', f'- "{NEW_SHA256}"']
    assert read_matrix(matrix).values["vllm_version"] == ("0.16.0", NEW)
    assert not [path for path in matrix.parent.iterdir() if path.name.startswith(".")]

    again = run("bump", "vllm", NEW, "--rocm", "7.2", "--source", sdists[NEW])
    assert again.error is not None and "already" in str(again.error)


def test_a_patch_that_no_longer_applies_is_shown_with_what_is_there(
    project: Path, sdists: dict[str, Path]
) -> None:
    (patch,) = (project / "recipes" / "vllm-rocm" / "patches").glob("0001-*")
    text = patch.read_text()
    context = next(line for line in text.splitlines() if line.startswith(" ") and line.strip())
    patch.write_text(text.replace(context, f"{context} of another release"))
    report = run("bump", "vllm", NEW, "--dry-run", "--json", "--source", sdists[NEW]).json
    first = report["patches"][0]
    assert first["state"] == "rejected" and context.strip() in "\n".join(first["notes"])
    assert any(line.startswith(f"make patch {patch.name} anew") for line in report["left"])


def test_a_module_that_the_recipe_does_not_import_is_left_to_a_person(
    project: Path, slim: dict[str, Path]
) -> None:
    edit(project / "recipes" / "vllm-rocm" / "recipe.yaml", "            - vllm.spinloop\n", "")
    report = run("bump", "vllm", NEW, "--dry-run", "--json", "--source", slim[NEW]).json
    assert "add vllm.spinloop to the import tests of recipe.yaml" in report["left"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pytorch", "2.12.0"), "no recipe with a requirements.toml is built from pytorch"),
        (("vllm", "0.999.0"), "does not give the sha256"),
        (("vllm", NEW, "--rocm", "6.4"), "no stack of ROCm 6.4"),
        (("vllm", "0.28.0", "--source", "{new}"), "is another release"),
        (("vllm", NEW, "--source", "missing.tar.gz"), "there is no source distribution"),
    ],
)
def test_what_bump_cannot_do_is_one_clear_error(
    checkout: Path, sdists: dict[str, Path], words: tuple[str, ...], message: str
) -> None:
    done = run("bump", *(word.format(new=sdists[NEW]) for word in words), "--dry-run")
    assert done.error is not None and message in str(done.error)


def test_a_folder_gives_a_report_but_no_sha256_to_write(project: Path, slim: dict[str, Path]) -> None:
    assert run("bump", "vllm", NEW, "--dry-run", "--source", slim[NEW]).error is None
    before = (project / "variants" / "conda_build_config.yaml").read_bytes()
    done = run("bump", "vllm", NEW, "--source", slim[NEW])
    assert done.error is not None and "sha256" in str(done.error)
    assert (project / "variants" / "conda_build_config.yaml").read_bytes() == before
