"""``rocm-channel sources`` as a user runs it, and rattler-build with the store for a mirror."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.helpers import ROOT, answer, rocm_channel
from tests.unit.web import Page, Web, serve


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Bench:
    """A project whose recipes take two archives from a server of this host; nothing else is asked."""

    root: Path
    web: Web
    archives: Path

    @property
    def environ(self) -> dict[str, str]:
        return {
            "ROCM_CHANNEL_ROOT": str(self.root),
            "ROCM_CHANNEL_CACHE": str(self.root / "cache"),
            "NO_PROXY": "127.0.0.1",
        }

    def run(self, *words: object, **environ: str) -> subprocess.CompletedProcess[str]:
        return rocm_channel("sources", *words, cwd=self.root, **{**self.environ, **environ})

    def add_recipe(self, package: str, archive: str) -> None:
        (self.root / "recipes" / package).mkdir(parents=True)
        mirror = '${{ env.get("SOURCE_MIRROR", default="file:///no-source-mirror") }}'
        (self.root / "recipes" / package / "recipe.yaml").write_text(f"""schema_version: 1
package:
  name: {package}
  version: "1"
source:
  - url:
      - {mirror}/{archive}
      - {self.web.address}/{archive}
    sha256: {sha256(self.archives / archive)}
build:
  number: 0
  script:
    - cp content $PREFIX/{package}
""")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.delenv("SOURCE_MIRROR", raising=False)
    (tmp_path / "variants").mkdir()
    (tmp_path / "variants" / "conda_build_config.yaml").symlink_to(
        ROOT / "variants" / "conda_build_config.yaml"
    )
    (tmp_path / "archives").mkdir()
    with serve() as web:
        bench = Bench(tmp_path, web, tmp_path / "archives")
        for number, package in enumerate(("one", "two")):
            content = tmp_path / "content"
            content.write_bytes(random.Random(number).randbytes(3 << 20))
            archive = bench.archives / f"{package}.tar.gz"
            with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
                tar.add(content, f"{package}-1/content")
            web.add(f"/{archive.name}", Page(archive.read_bytes()))
            bench.add_recipe(package, archive.name)
        yield bench


def test_list_fetch_verify_and_mirror(bench: Bench, tmp_path: Path) -> None:
    listed = answer(bench.run("list", "--json"))
    assert [(s["name"], s["state"]) for s in listed["sources"]] == [
        ("one.tar.gz", "missing"),
        ("two.tar.gz", "missing"),
    ]
    assert listed["sources"][0]["urls"] == [f"{bench.web.address}/one.tar.gz"]
    assert listed["sources"][0]["needed_by"][0]["package"] == "one"

    would = answer(bench.run("fetch", "two", "--dry-run", "--json"))
    assert [s["name"] for s in would["sources"]] == ["two.tar.gz"] and bench.web.asked == []

    fetched = answer(bench.run("fetch", "--json"))
    assert [(s["status"], s["place"]) for s in fetched["sources"]] == [("fetched", "url")] * 2
    said = bench.run("fetch")
    assert said.returncode == 0 and "2 kept" in said.stdout

    done = bench.run("verify")
    assert done.returncode == 0 and done.stdout.count("ok ") == 2

    mirrored = answer(bench.run("mirror", tmp_path / "stick", "--json"))
    assert mirrored["source_mirror"] == (tmp_path / "stick").as_uri()
    checked = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path / "stick", capture_output=True)
    assert checked.returncode == 0 and checked.stdout.count(b": OK") == 2


def test_a_table_for_people(bench: Bench) -> None:
    done = bench.run("list")
    assert done.returncode == 0
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("one.tar.gz"))
    assert "missing" in line and "one 1" in line and f"{bench.web.address}/one.tar.gz" in done.stdout


def test_one_error_a_file_and_the_others_come(bench: Bench) -> None:
    del bench.web.pages["/one.tar.gz"]
    done = bench.run("fetch")
    assert done.returncode == 14 and "1 fetched, 1 failed" in done.stdout
    assert done.stderr.count("error:") == 1 and "HTTP 404" in done.stderr and "Traceback" not in done.stderr
    result = bench.run("fetch", "--json")
    sources = {s["name"]: s for s in json.loads(result.stdout)["sources"]}
    assert result.returncode == 14 and sources["two.tar.gz"]["status"] == "kept"
    assert sources["one.tar.gz"]["error"]["exit_code"] == 14
    done = bench.run("verify")
    assert done.returncode == 14 and "no one.tar.gz" in done.stderr
    assert bench.run("mirror", bench.root / "stick").returncode == 14
    assert (bench.root / "stick" / "two.tar.gz").is_file()


def test_another_file_than_the_recipe_names(bench: Bench) -> None:
    bench.web.pages["/one.tar.gz"].content = b"something else"
    done = bench.run("fetch", "one")
    assert done.returncode == 14
    for value in (hashlib.sha256(b"something else").hexdigest(), sha256(bench.archives / "one.tar.gz")):
        assert value in done.stderr
    (kept,) = (bench.root / "cache" / "sources" / "rejected").iterdir()
    assert kept.read_bytes() == b"something else"


def test_a_damaged_store(bench: Bench) -> None:
    assert bench.run("fetch").returncode == 0
    stored = bench.root / "cache" / "sources" / "mirror" / "one.tar.gz"
    stored.resolve().chmod(0o644)
    stored.resolve().write_bytes(b"rot")
    dry = bench.run("verify", "--dry-run")
    assert dry.returncode == 31 and stored.is_file()
    done = bench.run("verify")
    assert done.returncode == 31 and hashlib.sha256(b"rot").hexdigest() in done.stderr
    assert not stored.exists()
    assert bench.run("fetch").returncode == 0 and stored.is_file()


def test_ctrl_c_keeps_what_has_come(bench: Bench) -> None:
    page = bench.web.pages["/one.tar.gz"]
    page.pause_s = 0.1
    part = bench.root / "cache" / "sources" / "sha256"
    environ = {**os.environ, **bench.environ}
    with subprocess.Popen(
        [sys.executable, "-m", "channel_tools", "sources", "fetch", "one"],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 20
        while not any(p.stat().st_size > 200_000 for p in part.rglob("*.part")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        said, _ = process.communicate(timeout=20)
    assert process.returncode == 130 and "Traceback" not in said, said
    assert time.monotonic() - begun < 5
    (kept,) = part.rglob("*.part")
    size = kept.stat().st_size
    assert 200_000 < size < len(page.content)

    page.pause_s = 0
    bench.web.asked.clear()
    assert bench.run("fetch", "one").returncode == 0
    assert bench.web.ranges() == [f"bytes={size}-"]


def test_two_processes_fetch_one_file_once(bench: Bench) -> None:
    bench.web.pages["/one.tar.gz"].pause_s = 0.01
    environ = {**os.environ, **bench.environ}
    command = [sys.executable, "-m", "channel_tools", "sources", "fetch", "one", "--json"]
    running = [
        subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    answers = [json.loads(process.communicate(timeout=30)[0]) for process in running]
    assert sorted(said["sources"][0]["status"] for said in answers) == ["fetched", "kept"]
    assert len(bench.web.asked) == 1


BUILD = """
import os, sys
from pathlib import Path
from rattler_build import PlatformConfig, RenderConfig, Stage0Recipe, VariantConfig
from channel_tools.model.project import Project
from channel_tools.sources.store import Store
project = Project.find()
os.environ["SOURCE_MIRROR"] = Store.of(project).mirror_url()
config = RenderConfig(platform=PlatformConfig(target_platform="linux-64"))
(output,) = Stage0Recipe.from_file(Path("recipes/one/recipe.yaml")).render(VariantConfig({}), config)
print(output.recipe.to_dict()["build"]["string"])
print(output.run_build(output_dir=sys.argv[1], channels=[], package_format="conda:1").packages[0])
"""


def test_an_engine_builds_from_the_store_alone(bench: Bench) -> None:
    """rattler-build follows the view's links, and the mirror is no part of the hash."""
    assert bench.run("fetch").returncode == 0
    with_network = answer(bench.run("list", "--json"))["sources"][0]["needed_by"][0]["stem"]
    bench.web.pages.clear()
    bench.web.asked.clear()
    environ = {**os.environ, **bench.environ}
    done = subprocess.run(
        [sys.executable, "-c", BUILD, "out"],
        cwd=bench.root,
        env={**environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    build, package = done.stdout.split()[-2:]
    assert with_network == f"one-1-{build}" and Path(bench.root / package).is_file()
    assert bench.web.asked == []
