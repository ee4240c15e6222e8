"""What the conda plugin finds on recorded machines, and that py-rattler and our own tools find the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from channel_tools.client import host as client_host
from tests.unit.conda_plugin_support import PLUGIN, ROOT, detect_module, expected_records
from tests.unit.kfd_hosts import NAMES, close, make_host


@pytest.fixture
def detect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from detect_module(monkeypatch)


@pytest.mark.parametrize(
    ("devices", "isa"),
    [
        ([(110, "90010"), (304, "90402")], "9.4.2"),
        ([(304, "90402"), (110, "90010")], "9.4.2"),
        ([(104, "90010"), (96, "110000")], "9.0.10"),
        ([(32, "110002"), (32, "110003")], "11.0.3"),
        ([(32, "90010"), (32, "90009")], "9.0.10"),
        ([(32, "100300"), (32, "90402")], "10.3.0"),
        ([(None, "120001"), (1, "90010")], "9.0.10"),
        ([(None, "90010"), (None, "90402")], "9.4.2"),
        ([(256, "90500")], "9.5.0"),
        ([(64, "120500")], "12.5.0"),
        ([(64, "121015")], "12.10.15"),
    ],
)
def test_the_gpu_with_most_compute_units(
    detect: Any, tmp_path: Path, devices: list[tuple[int | None, str]], isa: str
) -> None:
    for number, (units, version) in enumerate(devices, 1):
        node = tmp_path / detect.KFD_NODES / str(number)
        node.mkdir(parents=True)
        simds = "" if units is None else f"simd_count {units * 4}\n"
        (node / "properties").write_text(f"{simds}simd_per_cu 4\ngfx_target_version {version}\n")
    assert detect.find_host(tmp_path, {}).isa == isa


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0" * 100,
        "gfx_target_version\n",
        "gfx_target_version -90402\n",
        "gfx_target_version 0x16112\n",
        "gfx_target_version 90402 90402\n",
        f"gfx_target_version {'9' * 5000}\n",
        "gfx_target_version ٩٠٤٠٢\n",
        "simd_count 1216\nsimd_per_cu 4\n",
        "max_gfx_target_version 90402\n",
    ],
)
def test_a_file_that_names_no_gpu(detect: Any, tmp_path: Path, text: str) -> None:
    node = tmp_path / detect.KFD_NODES / "1"
    node.mkdir(parents=True)
    (node / "properties").write_bytes(text.encode())
    assert detect.find_host(tmp_path, {}) == detect.Host(False, None, None)


def test_a_partition_counts_for_itself(detect: Any, tmp_path: Path) -> None:
    make_host("mi300x-cpx", tmp_path)
    gpus = detect.kfd_gpus(tmp_path)
    assert len(gpus) == 64 and {gpu.compute_units for gpu in gpus} == {38}
    assert {gpu.isa for gpu in gpus} == {(9, 4, 2)}


def test_rights_of_files_that_stop_a_user(detect: Any) -> None:
    """As a user who is not root: closed files and folders, not methods that say so."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        root = Path(name)
        make_host("w7900-mi210", root)
        nodes = root / detect.KFD_NODES
        (nodes / "2" / "properties").chmod(0)
        (root / "opt/rocm/.info").mkdir(parents=True)
        (root / "opt/rocm/.info/version").write_text("7.2.0\n")
        (root / "opt/rocm/.info").chmod(0)
        root.chmod(0o755)
        with user_who_is_not_root():
            found = detect.find_host(root, {})
        assert found == detect.Host(True, "11.0.0", None)
        nodes.chmod(0)
        with user_who_is_not_root():
            assert detect.find_host(root, {}) == detect.Host(True, None, None)
            (root / "sys/class/drm/card0/device").is_dir()
        (root / "sys/class/drm").chmod(0)
        with user_who_is_not_root():
            assert detect.find_host(root, {}) == detect.Host(False, None, None)
        for folder in (nodes, root / "sys/class/drm", root / "opt/rocm/.info"):
            folder.chmod(0o755)


class user_who_is_not_root:  # noqa: N801 - reads as what it does
    def __enter__(self) -> None:
        self.was = os.geteuid()
        if self.was == 0:
            os.seteuid(65534)

    def __exit__(self, *_: object) -> None:
        os.seteuid(self.was)


@pytest.mark.parametrize(
    "name", sorted(set(NAMES) - {"closed", "container", "container-without-gpu", "renamed"})
)
def test_rocm_bootstrap_sees_the_same_gpus(
    detect: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It lists all; which of them is ``__amdgpu_arch`` is decided here.

    Left out: machines with files that cannot be read, where it raises, and nodes that have no number, which
    it does not look at.
    """
    from rocm_bootstrap import _platform, detect_gfx_targets

    make_host(name, tmp_path)
    monkeypatch.setattr(_platform, "KFD_TOPOLOGY", tmp_path / detect.KFD_NODES)
    monkeypatch.setattr(_platform, "run_clinfo", lambda: "")
    theirs = {(target.major, target.minor, target.stepping) for target in detect_gfx_targets()}
    assert theirs == {gpu.isa for gpu in detect.kfd_gpus(tmp_path)}


VERSIONS = {
    "7.2.3-123\n": "7.2",
    "7.0\n": "7.0",
    "7.14.0a20260101": "7.14",
    "10.0.0+build": "10.0",
    "7.2.3 extra\n": "7.2",
    "": None,
    "\n": None,
    "7\n": None,
    "rocm-7.2": None,
    "7.2rc1": None,
}


@pytest.mark.parametrize("text", VERSIONS)
def test_rocm_release_as_rocm_channel_reads_it(detect: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / ".info").mkdir()
    (tmp_path / ".info/version").write_text(text)
    assert detect.find_rocm(tmp_path / "none", {"ROCM_PATH": str(tmp_path)}) == VERSIONS[text]
    assert client_host.read_release(tmp_path) == VERSIONS[text]


ROOTS: list[tuple[list[str], str | None, str | None]] = [
    ([], None, None),
    (["rocm=7.2.0"], None, "7.2"),
    (["rocm=7.0.1", "rocm-7.2.0=7.2.0"], None, "7.0"),
    (["rocm-7.2.0=7.2.0", "rocm-7.10.0=7.10.0", "rocm-7.9.1=7.9.1"], None, "7.10"),
    (["rocm", "rocm-7.0.2=7.0.2"], None, "7.0"),
    (["rocm=7.0.1", "mine=7.2.0"], "mine", "7.2"),
    (["rocm=7.0.1", "mine"], "mine", "7.0"),
    (["rocm=7.0.1"], "absent", "7.0"),
    (["rocm-old=6.0.0"], None, None),
]


def make_roots(root: Path, roots: list[str]) -> None:
    for each in roots:
        name, _, version = each.partition("=")
        (root / "opt" / name / ".info").mkdir(parents=True)
        if version:
            (root / "opt" / name / ".info/version").write_text(version + "\n")


@pytest.mark.parametrize(("roots", "named", "release"), ROOTS)
def test_rocm_roots_in_their_order(
    detect: Any, tmp_path: Path, roots: list[str], named: str | None, release: str | None
) -> None:
    make_roots(tmp_path, roots)
    environ = {"ROCM_PATH": str(tmp_path / "opt" / named)} if named else {}
    assert detect.find_rocm(tmp_path, environ) == release


@pytest.mark.parametrize("odd", ["folder", "binary", "loop", "closed", "home"])
def test_rocm_that_cannot_be_read(
    detect: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    info = tmp_path / "opt/rocm/.info"
    info.mkdir(parents=True)
    version, environ = info / "version", {"ROCM_PATH": "\0"}
    match odd:
        case "folder":
            version.mkdir()
        case "binary":
            version.write_bytes(bytes(range(128, 256)))
        case "loop":
            version.symlink_to("version")
        case "closed":
            version.write_text("7.2.0")
            close([version], monkeypatch)
        case "home":
            environ = {"ROCM_PATH": "~nobody-of-that-name/rocm"}
    assert detect.find_rocm(tmp_path, environ) is None


# Beside other programs, on a machine whose kernel seems to show this: in a mount namespace of their own

IN_PLACE = """
import json, os, sys
from conda_amdgpu_arch.detect import find_host
ours = find_host(environ={})
from rattler import VirtualPackage
found = [p.into_generic() for p in VirtualPackage.detect()]
versions = {p.name.normalized: str(p.version) for p in found}
print(json.dumps([ours, versions.get("__amdgpu"), versions.get("__amdgpu_arch")]), flush=True)
os._exit(0)
"""


def in_namespace(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    command = [*unshare, "sh", "-euc", script, "sh", *words]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CONDA_OVERRIDE")}
    environ["PYTHONPATH"] = os.pathsep.join((str(PLUGIN), str(ROOT)))
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environ)


needs_namespace = pytest.mark.skipif(
    sys.platform != "linux" or in_namespace("mount -t tmpfs none /sys").returncode != 0,
    reason="this machine lets nobody mount anything, not even for a process alone",
)


@needs_namespace
@pytest.mark.parametrize("name", NAMES)
def test_py_rattler_finds_the_same(tmp_path: Path, name: str) -> None:
    """Root may read everything, so what is closed is there as something that cannot be read by anybody."""
    for path in make_host(name, tmp_path):
        if path.is_dir():
            path.rmdir()
            path.write_text("")
        else:
            path.unlink()
            path.mkdir()
    (tmp_path / "sys").mkdir(exist_ok=True)
    script = 'mount --bind "$1" /sys; exec "$2" -c "$3"'
    done = in_namespace(script, str(tmp_path / "sys"), sys.executable, IN_PLACE)
    assert done.returncode == 0, done.stderr
    (present, isa, _), theirs, their_isa = json.loads(done.stdout)
    records = expected_records(name)
    assert ({"__amdgpu": "0"} if present else {}) | ({"__amdgpu_arch": isa} if isa else {}) == records
    assert (theirs, their_isa) == (records.get("__amdgpu"), records.get("__amdgpu_arch"))


SAME_ROCM = """
import json, os, sys
from conda_amdgpu_arch.detect import find_rocm
from channel_tools.client.host import detect_rocm
print(json.dumps([find_rocm(), detect_rocm()[0]]))
"""


@needs_namespace
def test_rocm_channel_finds_the_same_release(tmp_path: Path) -> None:
    said = []
    for number, (roots, named, _) in enumerate(ROOTS):
        root = tmp_path / str(number)
        (root / "opt").mkdir(parents=True)
        make_roots(root, roots)
        script = 'mount --bind "$1" /opt; ROCM_PATH=$2 exec "$3" -c "$4"'
        rocm_path = f"/opt/{named}" if named else ""
        done = in_namespace(script, str(root / "opt"), rocm_path, sys.executable, SAME_ROCM)
        assert done.returncode == 0, done.stderr
        said.append(json.loads(done.stdout))
    assert said == [[release, release] for _, _, release in ROOTS]
