"""``rocm-channel stage``: staged trees against the engine's own, and the real vLLM with our patches."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from channel_tools.model.matrix import read_matrix
from channel_tools.model.project import Project
from channel_tools.sources.fetch import Fetcher
from channel_tools.sources.needed import needed_sources
from channel_tools.sources.store import Store
from tests.integration.helpers import ROOT, answer, make_project, rocm_channel
from tests.integration.test_sources import sha256

PATCH = """Say it loud.
--- a/words/hello.txt
+++ b/words/hello.txt
@@ -1,3 +1,3 @@
 one
-hello
+HELLO
 three
"""
RECIPE = """schema_version: 1
package:
  name: thing
  version: "1"
source:
  - url: {address}/thing.tar.gz
    sha256: {thing}
    patches:
      - patches/0001-loud.patch
  - url: {address}/two.tar.gz
    sha256: {two}
    target_directory: more/two
  - url: {address}/named.tar.gz
    sha256: {named}
    file_name: kept.tar.gz
  - url: {address}/plain.txt
    sha256: {plain}
    target_directory: more
  - path: beside
    target_directory: beside
build:
  number: 0
  script:
    - mkdir -p $PREFIX/tree
    - cp -a . $PREFIX/tree/
  dynamic_linking:
    binary_relocation: false
"""


def packed(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755 if content.startswith("#!") else 0o644
            tar.addfile(info, io.BytesIO(content.encode()))
    return path


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_MIRROR", raising=False)


@pytest.fixture
def thing(tmp_path: Path) -> Path:
    """A project with one recipe of all kinds of sources; their addresses are files of this host."""
    files = tmp_path / "files"
    files.mkdir()
    words = {"t/words/hello.txt": "one\nhello\nthree\n", "t/run": "#!/bin/sh\n"}
    made = {
        "thing": packed(files / "thing.tar.gz", words),
        "two": packed(files / "two.tar.gz", {"a/x": "x\n", "b": "b\n"}),
        "named": packed(files / "named.tar.gz", {"t/x": "x\n"}),
        "plain": files / "plain.txt",
    }
    made["plain"].write_text("plain\n")
    (tmp_path / "variants").mkdir()
    (tmp_path / "variants" / "conda_build_config.yaml").symlink_to(
        ROOT / "variants" / "conda_build_config.yaml"
    )
    recipe = tmp_path / "recipes" / "thing"
    (recipe / "patches").mkdir(parents=True)
    (recipe / "beside").mkdir()
    (recipe / "beside" / "note").write_text("note\n")
    (recipe / "patches" / "0001-loud.patch").write_text(PATCH)
    digests = {name: sha256(path) for name, path in made.items()}
    (recipe / "recipe.yaml").write_text(RECIPE.format(address=files.as_uri(), **digests))
    return tmp_path


def stage(project: Path, *words: object, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    return rocm_channel(
        *("stage", *words),
        cwd=project,
        ROCM_CHANNEL_ROOT=str(project),
        ROCM_CHANNEL_CACHE=str(cache or project / "cache"),
    )


def listing(folder: Path, leave_out: set[str]) -> dict[str, tuple[str, bool]]:
    """Each file's content and whether it can be run."""
    return {
        str(path.relative_to(folder)): (path.read_text(errors="replace"), os.access(path, os.X_OK))
        for path in folder.rglob("*")
        if path.is_file() and path.name not in leave_out
    }


ENGINE = """
import sys
from pathlib import Path
from rattler_build import PlatformConfig, RenderConfig, Stage0Recipe, VariantConfig
config = RenderConfig(platform=PlatformConfig(target_platform="linux-64"))
(output,) = Stage0Recipe.from_file(Path("recipes/thing/recipe.yaml")).render(VariantConfig({}), config)
print(output.run_build(output_dir="out", channels=[], package_format="conda:1").packages[0])
"""


def test_a_staged_tree_is_what_the_engine_makes_of_the_recipe(thing: Path) -> None:
    from conda_package_streaming.extract import extract

    staged = answer(stage(thing, "thing", "--json"))["staged"][0]
    assert [source["patches"] for source in staged["sources"] if source["patches"]] == [
        [
            {
                "patch": "0001-loud.patch",
                "hunks": [{"file": "words/hello.txt", "hunk": 1, "line": 1, "offset": 0}],
            }
        ]
    ]
    assert staged["warnings"] == [] and staged["missing"] == []
    folder = Path(staged["folder"])
    assert folder == thing / "work" / "stage" / staged["stem"]

    done = subprocess.run(
        [sys.executable, "-c", ENGINE], cwd=thing, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    extract(thing / done.stdout.split()[-1], thing / "package")
    engines_own = {".source_info.json", "build_env.sh", "conda_build.log", "conda_build.sh"}
    theirs = listing(thing / "package" / "tree", engines_own)
    assert listing(folder, {".rocm-channel-stage.json"}) == theirs
    assert theirs["words/hello.txt"][0] == "one\nHELLO\nthree\n" and "kept.tar.gz" in theirs


def test_a_staged_tree_is_replaced_only_when_that_is_wanted(thing: Path) -> None:
    assert stage(thing, "thing", "--into", "tree").returncode == 0
    (thing / "tree" / "mine").write_text("work of a day")
    refused = stage(thing, "thing", "--into", "tree")
    assert refused.returncode == 41 and "--force" in refused.stderr and (thing / "tree" / "mine").exists()
    assert stage(thing, "thing", "--into", "tree", "--force").returncode == 0
    assert not (thing / "tree" / "mine").exists()
    refused = stage(thing, "thing", "--into", "files", "--force")
    assert refused.returncode == 41 and (thing / "files" / "plain.txt").exists()
    assert not list(thing.glob(".tree*")), "no leftovers"


def test_what_cannot_be_had_is_left_out_only_when_that_is_wanted(thing: Path) -> None:
    (thing / "files" / "two.tar.gz").unlink()
    refused = stage(thing, "thing", "--into", "tree")
    assert refused.returncode == 14 and "--partial" in refused.stderr and not (thing / "tree").exists()
    done = stage(thing, "thing", "--into", "tree", "--partial")
    assert done.returncode == 0 and "left out" in done.stderr and "two.tar.gz" in done.stderr
    report = json.loads((thing / "tree" / ".rocm-channel-stage.json").read_text())
    assert report["missing"] == ["two.tar.gz"] and (thing / "tree" / "more" / "plain.txt").exists()


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("@@ -1,3 +1,3 @@\n one", "@@ -1,3 +1,3 @@\n two", 15, ["fuzz", "- two", "+ one", "line 1"]),
        ("-hello", "-hullo", 15, ["is rejected", "- hullo", "+ hello", "words/hello.txt, lines 1 to 3"]),
        ("@@ -1,3 +1,3 @@", "@@ -9,3 +9,3 @@", 0, ["8 lines above line 9"]),
        ("b/words", "b/none", 15, ["names two files"]),
    ],
)
def test_patches_that_do_not_fit_say_why(
    thing: Path, old: str, new: str, code: int, words: list[str]
) -> None:
    patch = thing / "recipes" / "thing" / "patches" / "0001-loud.patch"
    assert old in PATCH
    patch.write_text(PATCH.replace(old, new))
    done = stage(thing, "thing", "--into", "tree")
    assert done.returncode == code, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert (thing / "tree").exists() == (code == 0) and "Traceback" not in done.stderr


def test_a_recipe_without_sources_and_an_unknown_one(thing: Path) -> None:
    (thing / "recipes" / "thing" / "recipe.yaml").write_text(
        "schema_version: 1\npackage:\n  name: thing\n  version: 1\nbuild:\n  script:\n    - 'true'\n"
    )
    assert stage(thing, "thing").returncode == 11
    assert stage(thing, "other").returncode == 11


# --- the real vLLM


VLLM = [
    source
    for source in needed_sources(Project(ROOT), read_matrix(ROOT / "variants" / "conda_build_config.yaml"))
    if source.name.startswith("vllm-")
]


@pytest.fixture(scope="module")
def real_cache() -> Path:
    """The checkout's cache with the two source distributions, fetched once from wherever they can be had."""
    cache = ROOT / ".cache"
    results = Fetcher(Store(cache / "sources")).run(VLLM)
    assert [result.error for result in results] == [None, None]
    return cache


@pytest.mark.network
def test_the_patches_of_vllm_fit_both_releases_without_fuzz_and_offset(
    tmp_path: Path, real_cache: Path
) -> None:
    """What else the recipe needs comes from GitHub only, so this takes it where it is, and does without."""
    project = make_project(tmp_path / "project")
    done = stage(project, "vllm-rocm", "--offline", "--partial", "--json", cache=real_cache)
    staged = answer(done)["staged"]
    matrix = read_matrix(project / "variants" / "conda_build_config.yaml")
    assert [tree["stem"].split("-")[2] for tree in staged] == list(matrix.values["vllm_version"])
    for tree in staged:
        source = tree["sources"][0]
        patches = [report["patch"] for report in source["patches"]]
        assert "0001-cap-optimisation-at-O2.patch" in patches and len(patches) >= 2
        assert {hunk["offset"] for report in source["patches"] for hunk in report["hunks"]} == {0}
        assert tree["warnings"] == [] and source["files"] > 1000
        text = (Path(tree["folder"]) / "CMakeLists.txt").read_text()
        assert text.count("cmake_language(DEFER CALL vllm_cap_optimisation)") == 1
        assert not [p for p in Path(tree["folder"]).rglob("*") if p.suffix in (".rej", ".orig")]


@pytest.mark.network
def test_a_wrong_patch_for_vllm_shows_what_the_file_has(tmp_path: Path, real_cache: Path) -> None:
    project = make_project(tmp_path / "project")
    patch = project / "recipes" / "vllm-rocm" / "patches" / "0001-cap-optimisation-at-O2.patch"
    patch.write_text(patch.read_text().replace("VERSION 3.26)", "VERSION 3.21)"))
    words = ("vllm-rocm", "--rocm", "7.0", "--offline", "--partial", "--into", project / "tree")
    done = stage(project, *words, cache=real_cache)
    assert done.returncode == 15 and not (project / "tree").exists()
    for line in (
        "0001-cap-optimisation-at-O2.patch:",
        "CMakeLists.txt, lines 1 to 5",
        "- cmake_minimum_required(VERSION 3.21)",
        "+ cmake_minimum_required(VERSION 3.26)",
    ):
        assert line in done.stderr, done.stderr
