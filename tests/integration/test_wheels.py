"""The wheel index as pip takes it: by name over HTTP and from folders, one arch at a time."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channel_tools.channel.folder import FolderChannel
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.wheels import rewrite as wheel_rewrite
from channel_tools.channel.wheels.check import Candidate, check_wheel
from channel_tools.channel.wheels.file import read_wheel
from channel_tools.channel.wheels.index import WheelIndex
from channel_tools.channel.wheels.versions import local_facts, with_local
from channel_tools.client.env_check.check import check_environment
from channel_tools.client.host import Host
from channel_tools.model.arch import Arch
from channel_tools.model.errors import (
    ChannelError,
    ChannelToolsError,
    DamagedFileError,
    StorageError,
    VerifyError,
)
from channel_tools.verify import verify_path
from tests.integration.clang_hip import SHARED, compile_hip, offload, write_source
from tests.integration.helpers import ROOT, rocm_channel
from tests.integration.s3 import S3Server, s3_server  # noqa: F401
from tests.integration.tiny_wheels import tiny_wheel
from tests.unit.web import listening

GFX942 = Host((Arch("gfx942", "9.4.2"),), "7.2", None)
JSON_TYPE = "application/vnd.pypi.simple.v1+json"
FILE = "hip_demo-1.0+rocm72.{}-py3-none-linux_x86_64.whl"
KEY = "rocm72/{0}/wheels/" + FILE.replace("{}", "{0}")


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A library with GPU code for each arch, and one for both."""
    folder = tmp_path_factory.mktemp("code")
    source = write_source(folder)
    sets = {"gfx90a": ("gfx90a",), "gfx942": ("gfx942",), "both": ("gfx90a", "gfx942")}
    return {
        name: compile_hip(source, folder / f"{name}.so", *SHARED, *offload(*archs)).read_bytes()
        for name, archs in sets.items()
    }


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROCM_CHANNEL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def demo_wheel(folder: Path, binary: bytes, version: str = "1.0", **more: Any) -> Path:
    files = {"hip_demo/__init__.py": f"version = {version!r}\n".encode(), "hip_demo/libdemo.so": binary}
    return tiny_wheel(folder, "hip_demo", version, {**files, **more.pop("files", {})}, **more)


def add(folder: Path, *wheels: Path, rocm: str | None = "7.2") -> Any:
    index = WheelIndex(FolderStore(folder), "tests")
    return index.add([check_wheel(wheel, rocm=rocm) for wheel in wheels])


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, bytes]) -> Path:
    """Both archs, of the same wheel name."""
    root = tmp_path_factory.mktemp("index")
    for arch in ("gfx90a", "gfx942"):
        wheel = demo_wheel(root / f"built-{arch}", binaries[arch])
        assert add(root / "index", wheel).stored == [KEY.format(arch)]
    return root / "index"


@dataclass
class Web:
    url: str = ""
    asked: list[str] = field(default_factory=list)

    def of(self, suffix: str) -> list[str]:
        return [path for path in self.asked if path.endswith(suffix)]


@contextmanager
def serve(folder: Path, *, as_json: bool = False) -> Iterator[Web]:
    """The files of a folder; ``as_json`` answers who takes it with the JSON pages, as docs/pip.md says."""
    web = Web()

    class Handler(SimpleHTTPRequestHandler):
        extensions_map = {".html": "text/html", ".json": JSON_TYPE, "": "application/octet-stream"}  # noqa: RUF012

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Nothing on the terminal."""

        def do_GET(self) -> None:
            web.asked.append(self.path)
            if as_json and self.path.endswith("/") and JSON_TYPE in self.headers.get("Accept", ""):
                self.path += "index.json"
            super().do_GET()

    with listening(partial(Handler, directory=str(folder))) as web.url:
        yield web


def venv(path: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
    return path


def pip(prefix: Path, *arguments: object, cache: Path | None = None, code: int = 0) -> str:
    """The pip of the tests for that environment; only the index that is given to it."""
    where = ["--cache-dir", cache] if cache else ["--no-cache-dir"]
    command = [sys.executable, "-m", "pip", "--python", prefix / "bin" / "python", "--isolated"]
    command += ["--disable-pip-version-check", *where, *arguments]
    variables = {
        **os.environ,
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "PIP_CONFIG_FILE": os.devnull,
    }
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def site(prefix: Path) -> Path:
    (found,) = prefix.glob("lib/python3*/site-packages")
    return found


def installed(prefix: Path, name: str = "hip-demo") -> tuple[str, set[str]]:
    """Version, and the GPU targets in the files."""
    (one,) = importlib.metadata.distributions(name=name, path=[str(site(prefix))])
    return one.version, set(verify_path(site(prefix)).targets())


@pytest.mark.parametrize("as_json", [False, True])
def test_pip_installs_by_name_and_asks_for_the_metadata_first(
    index: Path, tmp_path: Path, as_json: bool
) -> None:
    prefix = venv(tmp_path / "env")
    with serve(index, as_json=as_json) as web:
        pip(prefix, "install", "--index-url", f"{web.url}/rocm72/gfx942/simple/", "hip-demo")
    assert installed(prefix) == ("1.0+rocm72.gfx942", {"gfx942"})
    assert [path.rpartition("/")[2] for path in web.asked] == [
        "",
        FILE.format("gfx942").replace("+", "%2B") + ".metadata",
        FILE.format("gfx942").replace("+", "%2B"),
    ]


def test_pip_believes_the_metadata_only_with_its_hash(index: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", index, copy], check=True)
    (metadata,) = copy.glob("rocm72/gfx942/wheels/*.metadata")
    metadata.write_bytes(metadata.read_bytes() + b"more\n")
    with serve(copy) as web:
        url = f"{web.url}/rocm72/gfx942/simple/"
        output = pip(venv(tmp_path / "env"), "install", "--index-url", url, "hip-demo", code=1)
    assert "hash" in output.lower() and not web.of(".whl")


def test_pip_leaves_a_wheel_for_another_python_where_it_is(
    tmp_path: Path, binaries: dict[str, bytes]
) -> None:
    old = demo_wheel(tmp_path, binaries["gfx942"])
    new = demo_wheel(tmp_path, binaries["gfx942"], "2.0", headers="Requires-Python: >=3.99\n")
    add(tmp_path / "index", old, new)
    prefix = venv(tmp_path / "env")
    with serve(tmp_path / "index") as web:
        pip(prefix, "install", "--index-url", f"{web.url}/rocm72/gfx942/simple/", "hip-demo")
    assert installed(prefix)[0] == "1.0+rocm72.gfx942"
    assert not [path for path in web.asked if "hip_demo-2.0" in path]


@pytest.mark.parametrize("way", ["index", "find-links"])
def test_pip_installs_from_a_folder(index: Path, tmp_path: Path, way: str) -> None:
    root = index / "rocm72" / "gfx90a"
    words = {
        "index": ("--index-url", (root / "simple").as_uri() + "/"),
        "find-links": ("--no-index", "--find-links", root / "wheels"),
    }
    prefix = venv(tmp_path / "env")
    pip(prefix, "install", *words[way], "hip-demo")
    assert installed(prefix) == ("1.0+rocm72.gfx90a", {"gfx90a"})


def test_one_pip_cache_for_both_archs_and_the_wrong_one_only_for_who_asks(
    index: Path, tmp_path: Path
) -> None:
    cache, prefix = tmp_path / "cache", venv(tmp_path / "env")
    with serve(index) as web:
        urls = {arch: f"{web.url}/rocm72/{arch}/simple/" for arch in ("gfx90a", "gfx942")}
        pip(prefix, "install", "--index-url", urls["gfx90a"], "hip-demo", cache=cache)
        assert installed(prefix) == ("1.0+rocm72.gfx90a", {"gfx90a"})
        wrong = check_environment(prefix, GFX942, environ={})
        assert [one.kind for one in wrong.findings] == ["arch-other"]
        assert "pip install --index-url" in str(wrong.findings[0].fix)
        assert check_environment(prefix, GFX942, arch="gfx90a", environ={}).findings == ()
        satisfied = pip(prefix, "install", "--index-url", urls["gfx942"], "hip-demo", cache=cache)
        assert "already satisfied" in satisfied, (
            "pip does not know archs: docs/pip.md says to name the version"
        )
        spec = str(wrong.findings[0].fix).split("'")[1]
        assert spec == "hip-demo==1.0+rocm72.gfx942"
        pip(prefix, "install", "--index-url", urls["gfx942"], spec, cache=cache)
        assert installed(prefix) == ("1.0+rocm72.gfx942", {"gfx942"})
        assert check_environment(prefix, GFX942, environ={}).findings == ()
        second = venv(tmp_path / "second")
        before = len(web.of(".whl"))
        pip(second, "install", "--index-url", urls["gfx942"], "hip-demo", cache=cache)
        assert installed(second) == ("1.0+rocm72.gfx942", {"gfx942"})
        assert len(web.of(".whl")) <= before + 1
        third, missing = venv(tmp_path / "third"), spec.replace("gfx942", "gfx90a")
        assert "gfx90a" in pip(third, "install", "--index-url", urls["gfx942"], missing, code=1)


def test_code_of_another_arch_under_the_right_name_is_found(index: Path, tmp_path: Path) -> None:
    """A cache that somebody mixed up by hand: the name says gfx942, the binary is for gfx90a."""
    prefix = venv(tmp_path / "env")
    pip(prefix, "install", "--no-index", "--find-links", index / "rocm72/gfx942/wheels", "hip-demo")
    with zipfile.ZipFile(index / KEY.format("gfx90a")) as archive:
        (site(prefix) / "hip_demo" / "libdemo.so").write_bytes(archive.read("hip_demo/libdemo.so"))
    kinds = {one.kind for one in check_environment(prefix, GFX942, environ={}).findings}
    assert kinds == {"code-other", "file-altered"}


def test_only_the_version_of_a_wheel_is_changed(index: Path, binaries: dict[str, bytes]) -> None:
    old = index.parent / "built-gfx942" / "hip_demo-1.0-py3-none-linux_x86_64.whl"
    new = read_wheel(index / KEY.format("gfx942"))
    assert (new.version, new.info) == ("1.0+rocm72.gfx942", "hip_demo-1.0+rocm72.gfx942.dist-info")
    assert b"Version: 1.0+rocm72.gfx942\n" in new.metadata and b"\n\nVersion: not a header\n" in new.metadata
    assert new.metadata.replace(b"+rocm72.gfx942", b"") == read_wheel(old).metadata
    with zipfile.ZipFile(old) as before, zipfile.ZipFile(new.path) as after:
        assert after.testzip() is None
        assert [info.filename.replace("+rocm72.gfx942", "") for info in after.infolist()] == before.namelist()
        for one, other in zip(before.infolist(), after.infolist(), strict=True):
            assert (one.date_time, one.external_attr) == (other.date_time, other.external_attr)
            if not one.filename.endswith(("METADATA", "RECORD")):
                assert (one.CRC, one.compress_size) == (other.CRC, other.compress_size)
        assert after.read("hip_demo/libdemo.so") == binaries["gfx942"]
    metadata = Path(f"{new.path}.metadata")
    assert metadata.read_bytes() == new.metadata


@pytest.mark.parametrize("limit", [0, 400, 1 << 32])
def test_large_wheels_are_zip64(
    tmp_path: Path, binaries: dict[str, bytes], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheel_rewrite, "ZIP64_FROM", limit)
    data = {"hip_demo-1.0.data/scripts/ünicode": b"#!python\n", "hip_demo/empty": b""}
    wheel = read_wheel(demo_wheel(tmp_path, binaries["gfx942"], files=data))
    target = tmp_path / "out" / wheel.file_name("1.0+rocm72.gfx942")
    wheel_rewrite.rewrite(wheel, "1.0+rocm72.gfx942", target)
    assert read_wheel(target).version == "1.0+rocm72.gfx942"
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
        assert "hip_demo-1.0+rocm72.gfx942.data/scripts/ünicode" in archive.namelist()
    listed = subprocess.run(["unzip", "-tqq", target], capture_output=True, text=True, check=False)
    assert listed.returncode == 0, listed.stdout + listed.stderr


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_ino, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and ".channel" not in path.parts
    }


def test_adding_again_changes_nothing_and_other_content_is_refused(
    tmp_path: Path, binaries: dict[str, bytes]
) -> None:
    root = tmp_path / "index"
    wheel = demo_wheel(tmp_path / "one", binaries["gfx942"])
    add(root, wheel)
    before = files(root)
    again = add(root, wheel)
    assert (again.stored, again.pages, again.there) == ([], [], [KEY.format("gfx942")])
    stored = root / KEY.format("gfx942")
    assert add(root, stored, rocm=None).pages == [], "what an index gave fits in again"
    other = demo_wheel(tmp_path / "two", binaries["gfx942"], files={"hip_demo/more.py": b""})
    with pytest.raises(ChannelError, match="other content") as error:
        add(root, other)
    assert "build tag" in str(error.value) and files(root) == before


def test_wheels_that_are_refused(tmp_path: Path, binaries: dict[str, bytes]) -> None:
    def refused(error: type[ChannelToolsError], text: str, wheel: Path, **options: Any) -> None:
        with pytest.raises(error, match=text) as raised:
            check_wheel(wheel, **{"rocm": "7.2", **options})
        assert str(wheel) in str(raised.value)

    good = binaries["gfx942"]
    refused(VerifyError, "no GPU code", tiny_wheel(tmp_path / "a", "plain"))
    refused(VerifyError, "several archs", demo_wheel(tmp_path / "b", binaries["both"]))
    both = {"hip_demo/libother.so": binaries["gfx90a"]}
    refused(VerifyError, "several archs", demo_wheel(tmp_path / "c", good, files=both))
    wheel = demo_wheel(tmp_path / "d", good)
    refused(VerifyError, "another arch than is asked for", wheel, arch="gfx90a")
    refused(ChannelError, "does not say for which ROCm", wheel, rocm=None)
    with pytest.raises(ChannelError, match="is no ROCm release"):
        check_wheel(wheel, rocm="seven")
    said = demo_wheel(tmp_path / "e", good, "1.0+rocm7.0")
    refused(ChannelError, "another ROCm release than 7.2", said)
    refused(
        VerifyError, "named by its version", demo_wheel(tmp_path / "f", good, "1.0+rocm72.gfx90a"), rocm=None
    )
    refused(DamagedFileError, "not what RECORD says", demo_wheel(tmp_path / "g", good, wrong_record=True))
    refused(ChannelError, "contradicts itself", demo_wheel(tmp_path / "h", good, metadata_version="1.1"))
    cut = demo_wheel(tmp_path / "i", good)
    cut.write_bytes(cut.read_bytes()[:-100])
    refused(DamagedFileError, "cannot be read as a wheel", cut)
    odd = wheel.rename(wheel.with_name("demo.whl"))
    refused(ChannelError, "is no file name of a wheel", odd)
    hollow = demo_wheel(tmp_path / "j", good[: len(good) // 2])
    refused(DamagedFileError, "damaged", hollow)


def test_a_record_of_foreign_text_is_refused(tmp_path: Path) -> None:
    for number, record in enumerate((b"a" * 200_000 + b",,\n", b"\0", b"\xff,\n", b'"', b"a\n", b"")):
        wheel = tiny_wheel(tmp_path / str(number), "plain")
        with zipfile.ZipFile(wheel) as archive:
            content = {entry.filename: archive.read(entry) for entry in archive.infolist()}
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, data in content.items():
                archive.writestr(name, record if name.endswith("/RECORD") else data)
        with pytest.raises(DamagedFileError):
            read_wheel(wheel)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(st.tuples(st.integers(0, 1 << 12), st.integers(0, 255)), max_size=8),
    cut=st.one_of(st.none(), st.integers(0, 1 << 12)),
)
def test_a_damaged_wheel_is_read_or_refused(
    tmp_path: Path, edits: list[tuple[int, int]], cut: int | None
) -> None:
    wheel = tiny_wheel(tmp_path, "plain", files={"plain/__init__.py": b"some = 'text'\n" * 50})
    content = bytearray(wheel.read_bytes())
    for at, value in edits:
        content[at % len(content)] = value
    wheel.write_bytes(content[:cut])
    try:
        read_wheel(wheel)
    except (DamagedFileError, ChannelError):
        return


def test_a_signed_wheel_is_taken_as_it_is_or_not_at_all(tmp_path: Path, binaries: dict[str, bytes]) -> None:
    signature = {"RECORD.jws": b"{}"}
    with pytest.raises(ChannelError, match="is signed"):
        add(tmp_path / "index", demo_wheel(tmp_path, binaries["gfx942"], info_files=signature))
    assert not list((tmp_path / "index").rglob("*.whl"))
    whole = demo_wheel(tmp_path, binaries["gfx942"], "1.0+rocm7.2.gfx942", info_files=signature)
    changes = add(tmp_path / "index", whole, rocm=None)
    assert (tmp_path / "index" / changes.stored[0]).read_bytes() == whole.read_bytes()


def test_the_release_that_a_version_names() -> None:
    cases: list[tuple[str, str | None, tuple[str, ...]]] = [
        ("2.11.0+rocm72.gfx942", "7.2", ("gfx942",)),
        ("2.11.0+rocm7.14.gfx90a", "7.14", ("gfx90a",)),
        ("2.11.0+rocm714", None, ()),
        ("2.11.0+git1234.rocm7.0", "7.0", ()),
        ("2.11.0+cu128", None, ()),
        ("2.11.0", None, ()),
        ("not a version", None, ()),
    ]
    for version, release, archs in cases:
        facts = local_facts(version)
        assert (facts.release, facts.archs) == (release, archs)
    assert local_facts("1+rocm714").is_of("7.14") and local_facts("1+rocm700").is_of("7.0")
    assert not local_facts("1+rocm72").is_of("7.0") and not local_facts("1+rocm7.14").is_of("7.1")
    assert with_local("1.0", "7.14", "gfx90a") == "1.0+rocm714.gfx90a"
    assert with_local("1.0+git9.rocm7.0", "7.0", "gfx942") == "1.0+git9.rocm7.0.gfx942"
    assert with_local("1.0+rocm72.gfx942", "7.2", "gfx942") == "1.0+rocm72.gfx942"


def test_a_yanked_wheel_is_for_who_pins_it(tmp_path: Path, binaries: dict[str, bytes]) -> None:
    root = tmp_path / "index"
    add(root, *(demo_wheel(tmp_path, binaries["gfx942"], version) for version in ("1.0", "1.1")))
    store = WheelIndex(FolderStore(root), "tests")
    bad = "hip_demo-1.1+rocm72.gfx942-py3-none-linux_x86_64.whl"
    assert store.yank(bad, 'wrong "results" & worse', dry_run=True).pages and "yanked=" not in page(root)
    store.yank(bad, 'wrong "results" & worse')
    url = (root / "rocm72/gfx942/simple").as_uri() + "/"
    first, second, third = (venv(tmp_path / name) for name in ("first", "second", "third"))
    pip(first, "install", "--index-url", url, "hip-demo")
    assert installed(first)[0] == "1.0+rocm72.gfx942"
    assert 'wrong "results" & worse' in pip(
        second, "install", "--index-url", url, "hip-demo==1.1+rocm72.gfx942"
    )
    store.yank(bad, None)
    pip(third, "install", "--index-url", url, "hip-demo")
    assert installed(third)[0] == "1.1+rocm72.gfx942"
    with pytest.raises(ChannelError, match="no index has this wheel"):
        store.yank("other-1.0-py3-none-any.whl", "x")


def page(root: Path) -> str:
    return (root / "rocm72/gfx942/simple/hip-demo/index.html").read_text()


def test_a_writer_that_died_is_completed_by_the_next(tmp_path: Path, binaries: dict[str, bytes]) -> None:
    wheel = demo_wheel(tmp_path, binaries["gfx942"])
    whole = tmp_path / "whole"
    add(whole, wheel)
    wanted = {key: content for key, (_, content) in files(whole).items()}

    class Dying(FolderStore):
        left = 0

        def replace(self, key: str, content: bytes, *, expect: str | None, cache: str) -> str:
            if not key.startswith(".channel/"):
                if self.left == 0:
                    raise StorageError("cannot be written", where=key)
                self.left -= 1
            return super().replace(key, content, expect=expect, cache=cache)

    for writes in range(6):
        root = tmp_path / f"index-{writes}"
        store = Dying(root)
        store.left = writes
        with pytest.raises(StorageError):
            WheelIndex(store, "tests").add([check_wheel(wheel, rocm="7.2")])
        add(root, wheel)
        assert {key: content for key, (_, content) in files(root).items()} == wanted


def test_two_writers_at_once(tmp_path: Path, binaries: dict[str, bytes]) -> None:
    root, errors = tmp_path / "index", []

    def write(candidate: Candidate) -> None:
        try:
            WheelIndex(FolderStore(root), "tests").add([candidate])
        except BaseException as error:
            errors.append(error)

    wheels = [
        check_wheel(demo_wheel(tmp_path / f"{arch}{version}", binaries[arch], version), rocm="7.2")
        for arch in ("gfx90a", "gfx942")
        for version in ("1.0", "1.1")
    ]
    threads = [threading.Thread(target=write, args=(one,)) for one in wheels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert json.loads((root / "wheels.json").read_text())["indexes"] == [
        {"arch": "gfx90a", "rocm": "7.2"},
        {"arch": "gfx942", "rocm": "7.2"},
    ]
    for arch in ("gfx90a", "gfx942"):
        listed = json.loads((root / f"rocm72/{arch}/simple/hip-demo/index.json").read_text())
        assert listed["versions"] == [f"1.0+rocm72.{arch}", f"1.1+rocm72.{arch}"]


def test_other_places_are_left_alone(tmp_path: Path, binaries: dict[str, bytes]) -> None:
    wheel = demo_wheel(tmp_path, binaries["gfx942"])
    channel = FolderChannel(tmp_path / "channel")
    channel.init()
    with pytest.raises(ChannelError, match="is a conda channel"):
        add(channel.path, wheel)
    assert add(channel.path / "wheels", wheel).stored
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    with pytest.raises(ChannelError, match="is not ours"):
        add(tmp_path / "site", wheel)


def test_in_a_bucket(s3_server: S3Server, tmp_path: Path, binaries: dict[str, bytes]) -> None:  # noqa: F811
    store = s3_server.store("pip")
    address = store.address
    for arch in ("gfx90a", "gfx942"):
        wheel = demo_wheel(tmp_path / arch, binaries[arch])
        words = ("wheels", wheel, "--to", address, "--rocm", "7.2", "--json")
        done = rocm_channel(*words, **s3_server.environment)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["stored"] == [KEY.format(arch)]
    bucket, _, prefix = address.removeprefix("s3://").partition("/")
    head = s3_server.client().head_object(
        Bucket=bucket, Key=f"{prefix}/rocm72/gfx942/simple/hip-demo/index.html"
    )
    assert head["ContentType"].startswith("text/html")
    stored = s3_server.client().head_object(Bucket=bucket, Key=f"{prefix}/{KEY.format('gfx942')}")
    assert "immutable" in stored["CacheControl"]
    objects = f"arn:aws:s3:::{bucket}/*"
    readable = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": objects}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [readable]})
    s3_server.client().put_bucket_policy(Bucket=bucket, Policy=policy)
    env = venv(tmp_path / "env")
    url = f"{s3_server.endpoint}/{bucket}/{prefix}/rocm72/gfx942/simple/hip-demo/index.html"
    pip(env, "install", "--no-index", "--find-links", url, "hip-demo")
    assert installed(env) == ("1.0+rocm72.gfx942", {"gfx942"})


def test_the_command(tmp_path: Path, binaries: dict[str, bytes]) -> None:
    root = tmp_path / "index"
    built = demo_wheel(tmp_path / "built", binaries["gfx942"]).parent
    dry = rocm_channel("wheels", built, "--to", root, "--rocm", "7.2", "--dry-run", "--json")
    assert dry.returncode == 0 and json.loads(dry.stdout)["stored"] == [KEY.format("gfx942")]
    assert not root.exists()
    url = "https://wheels.example.com/"
    done = rocm_channel("wheels", built, "--to", root, "--rocm", "7.2", "--url", url)
    assert done.returncode == 0 and "its own code still says 1.0" in done.stderr, done.stderr
    top = (root / "index.html").read_text()
    assert "pip install --index-url https://wheels.example.com/rocm72/gfx942/simple/ hip-demo" in top
    again = rocm_channel("wheels", built, "--to", root, "--rocm", "7.2")
    assert "nothing to do" in again.stdout and (root / "index.html").read_text() == top
    demo_wheel(built, binaries["both"], "2.0")
    tiny_wheel(built, "plain")
    wrong = rocm_channel("wheels", built, "--to", root, "--rocm", "7.2")
    assert wrong.returncode == 30 and "several archs" in wrong.stderr and "no GPU code" in wrong.stderr
    file = FILE.format("gfx942")
    assert rocm_channel("wheels", "--to", root, "--yank", file).returncode == 2
    assert rocm_channel("wheels", "--to", root, "--yank", file, "--reason", "bad").returncode == 0
    assert 'data-yanked="bad"' in page(root)
    assert rocm_channel("wheels", "--to", root, "--unyank", file).returncode == 0
    assert "data-yanked" not in page(root)
    assert rocm_channel("wheels", "--to", root).returncode == 2


def test_pages_say_what_the_files_are(index: Path) -> None:
    data = json.loads((index / "rocm72/gfx942/simple/hip-demo/index.json").read_text())
    (file,) = data["files"]
    stored = index / KEY.format("gfx942")
    assert file["hashes"]["sha256"] == hashlib.sha256(stored.read_bytes()).hexdigest()
    assert file["size"] == stored.stat().st_size and file["requires-python"] == ">=3.9"
    metadata = hashlib.sha256(Path(f"{stored}.metadata").read_bytes()).hexdigest()
    assert file["core-metadata"] == {"sha256": metadata} and file["yanked"] is False
    html = page(index)
    assert f"#sha256={file['hashes']['sha256']}" in html and "%2Brocm72.gfx942" in html
    assert html.count(f"sha256={metadata}") == 2 and 'data-requires-python="&gt;=3.9"' in html
    root = json.loads((index / "rocm72/gfx942/simple/index.json").read_text())
    assert root["projects"] == [{"name": "hip-demo"}] and root["meta"] == {"api-version": "1.1"}
    top = (index / "index.html").read_text()
    assert all(f'href="rocm72/{arch}/simple/index.html"' in top for arch in ("gfx90a", "gfx942"))


def canary_wheels(folder: Path, sdk: Path, *archs: str) -> dict[str, Path]:
    """The canary's wheel for each arch, built by the script."""
    found = {}
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for arch in archs:
        words = ["bash", ROOT / "build_scripts/rocm-canary-wheel.sh", arch, sdk, folder / arch]
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, env={**os.environ, "PATH": tools}
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (found[arch],) = (folder / arch).glob("*.whl")
    return found


def check_canary(tmp_path: Path, wheels: dict[str, Path]) -> None:
    for wheel in wheels.values():
        done = rocm_channel("wheels", wheel, "--to", tmp_path / "index", "--rocm", "7.2")
        assert done.returncode == 0, done.stderr
        assert "needs libamdhip64.so.5, which is not what ROCm 7.2 has" in done.stderr
    with serve(tmp_path / "index") as web:
        for arch in wheels:
            env = venv(tmp_path / arch)
            url = f"{web.url}/rocm72/{arch}/simple/"
            pip(env, "install", "--index-url", url, "rocm-canary", cache=tmp_path / "cache")
            assert installed(env, "rocm-canary") == (f"0.1.0+rocm72.{arch}", {arch})
            said = subprocess.run(
                [env / "bin/rocm-canary", "info"], capture_output=True, text=True, check=True
            )
            assert f" {arch}" in said.stdout
            found = {one.kind for one in check_environment(env, Host((), None, None), arch="gfx942").findings}
            assert found == (set() if arch == "gfx942" else {"arch-other"})


def test_the_canary_for_both_archs(tmp_path: Path, sdk_root: Path) -> None:
    check_canary(tmp_path, canary_wheels(tmp_path / "built", sdk_root, "gfx90a", "gfx942"))
