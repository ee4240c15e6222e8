"""No package names a folder of the host that built it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conda_package_streaming.package_streaming import stream_conda_component

from channel_tools.build.local_addresses import without_local_addresses
from channel_tools.channel.index.records import record_of
from channel_tools.model.errors import DamagedFileError

BUILD = """
import json, os, sys
from pathlib import Path
from rattler_build import Stage0Recipe
folder = Path(sys.argv[1])
recipe = {
    "package": {"name": "x", "version": "1"},
    "source": {"url": [(folder / "source.txt").as_uri(), "https://example.org/source.txt"],
               "sha256": sys.argv[2], "file_name": "source.txt"},
    "build": {"string": "0", "script": ["mkdir -p $PREFIX/share; cp source.txt $PREFIX/share/x"]},
    "about": {"license": "BSD-3-Clause"},
}
Stage0Recipe.from_dict(recipe, recipe_dir=folder).run_build(
    output_dir=folder / "out", channels=[(folder / "my channel").as_uri()], package_format="conda:1")
os._exit(0)
"""


def members(package: Path, component: str) -> dict[str, bytes]:
    found = {}
    for tar, member in stream_conda_component(str(package), component=component):
        stream = tar.extractfile(member)
        found[member.name] = stream.read() if stream else b""
    return found


def test_addresses_of_channels_and_sources_are_taken_out(tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("content\n")
    for subdir in ("linux-64", "noarch"):
        (tmp_path / "my channel" / subdir).mkdir(parents=True)
        (tmp_path / "my channel" / subdir / "repodata.json").write_text('{"packages": {}}')
    digest = "434728a410a78f56fc1b5899c3593436e61ab0c731e9072d95e96db290205e53"
    done = subprocess.run([sys.executable, "-c", BUILD, tmp_path, digest], capture_output=True, text=True)
    package = tmp_path / "out" / "linux-64" / "x-1-0.conda"
    assert package.is_file(), done.stdout + done.stderr
    before, files = members(package, "info"), members(package, "pkg")
    assert any(b"file:" in content for content in before.values())

    assert without_local_addresses(package)
    after = members(package, "info")
    assert after.keys() == before.keys()
    assert not [name for name, content in after.items() if b"file:" in content]
    assert json.loads(after["info/about.json"])["channels"] == []
    assert b"https://example.org/source.txt" in after["info/recipe/rendered_recipe.yaml"]
    assert {name for name in after if after[name] != before[name]} == {
        "info/about.json",
        "info/recipe/recipe.yaml",
        "info/recipe/rendered_recipe.yaml",
    }
    assert members(package, "pkg") == files
    assert record_of(package)["name"] == "x"

    whole = package.read_bytes()
    assert not without_local_addresses(package)
    assert package.read_bytes() == whole


def test_what_is_no_package_is_one_error(tmp_path: Path) -> None:
    package = tmp_path / "x-1-0.conda"
    package.write_bytes(b"PK nothing")
    with pytest.raises(DamagedFileError, match="cannot be read"):
        without_local_addresses(package)
