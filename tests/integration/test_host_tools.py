"""Bridge packages of this host's own tools: found versions, idempotence, and use through the real engine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from channel_tools.build.host_tools import find_bridges, make_host_tools
from channel_tools.channel.folder import FolderChannel
from channel_tools.model.errors import ToolMissingError
from tests.integration.helpers import answer, make_project, rocm_channel

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

RECIPE = """\
schema_version: 1
context:
  number: 0
package:
  name: bridged
  version: "1"
build:
  number: ${{ number }}
  string: py${{ python | replace(".", "") }}_h${{ hash }}_${{ number }}
  script:
    - test "$($CXX -dumpversion)" = ${{ cxx_compiler_version }}
    - cmake --version
    - ninja --version
    - git --version
    - site="$PREFIX/lib/python${{ python }}/site-packages"
    - mkdir -p "$site"
    - python -c 'import sys; print("version =", sys.version_info[:2])' > "$site/bridged.py"
requirements:
  build:
    - ${{ compiler('cxx') }}
    - ${{ stdlib('c') }}
    - cmake
    - ninja
    - git
  host:
    - python
  run:
    - python
tests:
  - script:
      - python -c "import bridged; print(bridged.version)"
about:
  summary: uses every kind of bridge
  license: BSD-3-Clause
"""


def test_versions_are_those_of_the_programs(tmp_path: Path) -> None:
    tools = make_host_tools(tmp_path / "tools", "11", (PYTHON,))
    assert tools.fresh
    versions = {record["name"]: record["version"] for record in FolderChannel(tools.channel).records()}
    gxx = subprocess.run(["g++-11", "-dumpfullversion"], capture_output=True, text=True, check=True)
    assert versions["gxx_linux-64"] == versions["gcc_linux-64"] == gxx.stdout.strip()
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert versions["sysroot_linux-64"] == tools.glibc
    assert int(versions["libstdcxx"].split(".")[0]) >= 11
    runs = {r["name"]: set(r["depends"]) for r in FolderChannel(tools.channel).records()}
    assert runs["gxx_linux-64"] == {f"gcc_linux-64 =={gxx.stdout.strip()}"}
    before = (tools.channel / "linux-64" / "repodata.json").stat()
    assert not make_host_tools(tmp_path / "tools", "11", (PYTHON,)).fresh
    assert (tools.channel / "linux-64" / "repodata.json").stat() == before


def test_a_bridge_is_made_again_when_the_host_has_another_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_host_tools(tmp_path / "tools", "11")
    before = {path.name: path.read_bytes() for path in first.channel.glob("linux-64/*.conda")}
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "git").write_text("#!/bin/sh\necho git version 99.1.2\n")
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    again = make_host_tools(tmp_path / "tools", "11")
    assert again.fresh
    versions = {record["name"]: record["version"] for record in FolderChannel(again.channel).records()}
    assert versions["git"] == "99.1.2"
    after = {path.name: path.read_bytes() for path in again.channel.glob("linux-64/*.conda")}
    kept = {name: content for name, content in before.items() if not name.startswith("git-")}
    assert kept.items() < after.items(), "what is the same keeps its bytes, so locks and caches hold"


def test_another_content_has_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("one", "two"):
        programs = tmp_path / folder
        programs.mkdir()
        (programs / "git").write_text("#!/bin/sh\necho git version 99.1.2\n")
        (programs / "git").chmod(0o755)
        with monkeypatch.context() as patch:
            patch.setenv("PATH", str(programs), prepend=":")
            make_host_tools(tmp_path / f"tools-{folder}", "11")
    names = [
        {path.name for path in tmp_path.glob(f"tools-{folder}/linux-64/git-*")} for folder in ("one", "two")
    ]
    assert len(names[0] | names[1]) == 2
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_all_that_is_missing_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissingError) as missing:
        find_bridges("11", "2.36")
    for word in ("gcc-11", "pkg-config", "git", "apt-get install"):
        assert word in str(missing.value)


def test_a_shim_that_starts_nothing_is_no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\necho 'python3.99: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert "python" not in {bridge.name for bridge in find_bridges("11", "2.36", ("3.99",))}


def test_a_recipe_builds_with_compilers_tools_and_python_of_the_host(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    shutil.rmtree(project / "recipes")
    folder = project / "recipes" / "bridged"
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(RECIPE)
    matrix = project / "variants" / "conda_build_config.yaml"
    matrix.write_text(matrix.read_text().replace('python:\n  - "3.12"', f'python:\n  - "{PYTHON}"'))
    words = ("build", "bridged", "--rocm", "7.2", "--channel", project / "channel", "--json")
    cache = str(tmp_path / "cache")
    built = answer(rocm_channel(*words, ROCM_CHANNEL_ROOT=str(project), ROCM_CHANNEL_CACHE=cache))
    assert [p["status"] for p in built["packages"]] == ["built"]
    log = next((project / "logs").glob("bridged-*.log")).read_text()
    assert f"({sys.version_info.major}, {sys.version_info.minor})" in log, "its test imported the module"
