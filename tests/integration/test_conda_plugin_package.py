"""The conda plugin as a wheel and as a conda package: built here, installed, and loaded as conda does.

conda, pip, setuptools and Python come from no channel that this machine reaches; packages that stand for them
lead to the Python of the tests, and to the stand-in of ``tests/data/conda_plugin_api``.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pluggy
import pytest
from conda_package_streaming.package_streaming import stream_conda_component
from rattler_build import Stage0Recipe

from channel_tools import rattler_process
from channel_tools.build.record import read_records
from channel_tools.verify import verify_path
from tests.integration.helpers import ROOT, answer, make_project, rocm_channel
from tests.integration.tiny_packages import tiny_package
from tests.unit.conda_plugin_support import API, FACTS, LATE, PLUGIN, run_python

VERSION = platform.python_version()
SITE = f"lib/python{VERSION.rpartition('.')[0]}/site-packages"
OURS = ["amdgpu", "amdgpu_arch", "rocm_userspace"]
LOAD = """
from conda.plugins.manager import CondaPluginManager
manager = CondaPluginManager()
count = manager.load_entrypoints("conda")
manager.check_pending()
print(count, *(package.name for package in manager.get_hook_results("virtual_packages")))
"""


def project() -> dict[str, Any]:
    data: dict[str, Any] = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    return data


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with the setuptools of the tests, from a copy, with no index."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(PLUGIN, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "--wheel-dir", folder, folder / "source"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("*.whl")
    return Path(made)


def test_the_wheel_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    assert wheel.name == f"conda_amdgpu_arch-{project()['version']}-py3-none-any.whl"
    assert verify_path(wheel).verdict == "pass"
    venv.create(tmp_path / "env", with_pip=False)
    python = str(tmp_path / "env" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--quiet", str(wheel)]
    installed = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "pluggy").symlink_to(Path(pluggy.__file__).parent)
    assert run_python(LOAD, python=python, path=(API, beside)).split() == ["1", *OURS]
    found = subprocess.run(
        [python, "-m", "conda_amdgpu_arch"],
        env={"CONDA_OVERRIDE_AMDGPU": "0", "CONDA_OVERRIDE_AMDGPU_ARCH": "9.4.2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines()[:2] == ["__amdgpu=0=0", "__amdgpu_arch=9.4.2=0"]
    refused = subprocess.run(
        [python, "-m", "conda_amdgpu_arch"],
        env={"CONDA_OVERRIDE_AMDGPU_ARCH": "gfx90a"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1 and refused.stderr.startswith("CONDA_OVERRIDE_AMDGPU_ARCH is 'gfx90a'")


def test_recipe_and_distribution_say_the_same() -> None:
    data = project()
    assert data["dependencies"] == [], "conda itself is on no Python index"
    ((name, value),) = data["entry-points"][FACTS["hook"]["entry_points"]].items()
    assert EntryPoint(name, value, "conda").module == "conda_amdgpu_arch.plugin"
    assert (PLUGIN / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    recipe = Stage0Recipe.from_file(ROOT / "recipes" / "conda-amdgpu-arch" / "recipe.yaml").to_dict()
    assert recipe["context"]["version"] == data["version"]
    python = f"python {data['requires-python']}"
    assert python in recipe["requirements"]["host"] and python in recipe["requirements"]["run"]
    oldest = f"conda >={FACTS['release'][0]['since']}"
    assert oldest in recipe["requirements"]["run"]


def stand_ins(channel: Path) -> str:
    """A channel with packages for the Python, pip, setuptools and conda of the tests; returns its URL."""
    for subdir in ("linux-64", "noarch"):
        (channel / subdir).mkdir(parents=True)
    wrapper = (
        "#!/bin/sh\n"
        'home=$(cd "$(dirname "$0")/.." && pwd)\n'
        f"export PYTHONPATH=$home/{SITE} PIP_PREFIX=$home STAND_IN_CONDA={LATE[-1]}\n"
        f'exec {sys.executable} "$@"\n'
    )
    conda = {
        f"{SITE}/{path.relative_to(API)}": path.read_text()
        for path in API.rglob("*")
        if path.suffix in (".py", ".toml")
    }
    packages: list[tuple[str, str, dict[str, str]]] = [
        ("python", VERSION, {"bin/python": wrapper}),
        ("pip", "26", {}),
        ("setuptools", "80", {}),
        ("conda", "26.5.0", conda),
    ]
    bridges = [
        {"name": name, "version": version, "files": files, "depends": [], "strong": []}
        for name, version, files in packages
    ]
    rattler_process.call("assemble", {"output": str(channel), "bridges": bridges, "before": str(channel)})
    return channel.as_uri()


def files_of(package: Path) -> list[str]:
    return [member.name for _, member in stream_conda_component(package, component="pkg")]


CONDA_BUILD = """#!/bin/sh
while [ "$1" != --output-folder ]; do shift; done
mkdir -p "$2/noarch" && cp "$LEAVE" "$2/noarch/"
"""


def test_conda_build_leaves_it_in_noarch(tmp_path: Path) -> None:
    """conda-build cannot run here; a program in its place leaves a package where conda-build would."""
    mine = make_project(tmp_path / "project")
    made = tiny_package(
        tmp_path, "conda-amdgpu-arch", project()["version"], "py_0", subdir="noarch", files={"a": b""}
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "conda").write_text(CONDA_BUILD)
    (tmp_path / "bin" / "conda").chmod(0o755)
    words = ("build", "conda-amdgpu-arch", "--engine", "conda-build", "-c", "conda-forge", "--json")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = rocm_channel(
        *words, "--channel", mine / "channel", ROCM_CHANNEL_ROOT=str(mine), PATH=path, LEAVE=str(made)
    )
    (built,) = answer(done)["packages"]
    assert built["status"] == "built"
    assert (mine / "channel" / "noarch" / made.name).read_bytes() == made.read_bytes()


def test_the_package_is_built_tested_and_installed(tmp_path: Path) -> None:
    mine = make_project(tmp_path / "project")
    shutil.copytree(PLUGIN, mine / "conda_plugin")
    url, channel = stand_ins(tmp_path / "stand-ins"), mine / "channel"
    words = ("build", "conda-amdgpu-arch", "--toolchain", "conda", "-c", url, "--channel", channel, "--json")
    (built,) = answer(rocm_channel(*words, ROCM_CHANNEL_ROOT=str(mine)))["packages"]
    assert (built["status"], built["package"]) == (
        "built",
        f"conda-amdgpu-arch-{project()['version']}-py_0",
    )
    package = channel / "noarch" / f"{built['package']}.conda"
    assert package.is_file() and verify_path(package).verdict == "pass"
    # A path of the build would be in direct_url.json.
    members = [name for name in files_of(package) if ".dist-info/" in name]
    assert any(name.endswith("entry_points.txt") for name in members)
    assert not any(name.endswith("direct_url.json") for name in members)
    assert [record["file"] for record in read_records(channel)] == [package.name]

    state = ("plan", "conda-amdgpu-arch", "--channel", channel, "--toolchain", "conda", "-c", url, "--json")
    (node,) = answer(rocm_channel(*state, ROCM_CHANNEL_ROOT=str(mine)))["nodes"]
    assert node["state"] == "built"
    with (mine / "conda_plugin/conda_amdgpu_arch/detect.py").open("a") as source:
        source.write("# changed\n")
    (node,) = answer(rocm_channel(*state, ROCM_CHANNEL_ROOT=str(mine)))["nodes"]
    assert node["state"] == "stale", "the source lies outside of the recipe's folder"

    prefix = tmp_path / "base"
    payload = {
        "channels": [channel.as_uri(), url],
        "specs": ["conda-amdgpu-arch"],
        "virtual": [],
        "prefix": str(prefix),
    }
    names = {record["name"] for record in rattler_process.call("solve", payload)}
    assert names == {"conda-amdgpu-arch", "conda", "python"}
    # The Python of the tests has plugins for conda, too.
    assert run_python(LOAD, python=str(prefix / "bin" / "python")).split()[1:] == OURS
