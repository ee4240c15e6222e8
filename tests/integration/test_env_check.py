"""``env check`` on environments that py-rattler and pip really installed, clean and damaged in every way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channel_tools import rattler_process
from channel_tools.client.env_check.check import EnvironmentCheck, check_environment
from channel_tools.client.env_check.findings import KINDS, Finding
from channel_tools.client.host import Host
from channel_tools.client.prefix_facts import UNFINISHED
from channel_tools.model.arch import Arch
from channel_tools.model.errors import EnvironmentCheckError
from tests.integration import tiny_packages, tiny_wheels
from tests.integration.clang_hip import SHARED, compile_hip, offload, write_source
from tests.integration.helpers import ROOT, rocm_channel, rocm_like
from tests.integration.test_folder_channel import BUILD
from tests.unit import elf_files

SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
GFX942 = Host((Arch("gfx942", "9.4.2"),), "7.2", Path("/opt/rocm"))
NO_GPU = Host((), None, None)
TORCH = f"{SITE}/torch/lib/libtorch_hip.so"


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A library with GPU code for each arch."""
    folder = tmp_path_factory.mktemp("code")
    source = write_source(folder)
    return {
        arch: compile_hip(source, folder / f"{arch}.so", *SHARED, *offload(arch)).read_bytes()
        for arch in ("gfx90a", "gfx942")
    }


def python_package(name: str, module: str, version: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """Files of a conda package that has a Python distribution, as conda's builds leave it."""
    info = f"{SITE}/{name}-{version}.dist-info"
    found = {f"{SITE}/{module}/{path}": data for path, data in files.items()}
    found[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    found[f"{info}/INSTALLER"] = b"conda\n"
    rows = [
        f"{path.removeprefix(SITE + '/')},sha256={tiny_wheels.digest(d)},{len(d)}"
        for path, d in found.items()
    ]
    found[f"{info}/RECORD"] = "\n".join([*rows, f"{info.removeprefix(SITE + '/')}/RECORD,,"]).encode() + b"\n"
    return found


def userspace(folder: Path) -> None:
    """``rocm-userspace`` as the engine builds it, with the link, and a text that holds the prefix."""
    recipe = {
        "package": {"name": "rocm-userspace", "version": "7.2"},
        "build": {
            "string": "system_detected_0",
            "script": [
                'mkdir -p "$PREFIX/lib" "$PREFIX/share/rocm-channel"',
                'ln -s /opt/rocm/lib "$PREFIX/lib/rocm-host"',
                'echo "prefix=$PREFIX" > "$PREFIX/share/rocm-channel/rocm-userspace.pc"',
            ],
        },
        "requirements": {"run": ["__rocm_userspace ==7.2"]},
        "about": {"license": "BSD-3-Clause"},
    }
    payload = json.dumps([recipe, str(folder), str(folder)])
    subprocess.run([sys.executable, "-c", BUILD], input=payload, text=True, check=True, capture_output=True)


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, bytes]) -> Path:
    folder = tmp_path_factory.mktemp("channel")
    userspace(folder)
    helper = elf_files.build(elf_files.Library(soname="libhelper.so.1"))
    user = elf_files.build(elf_files.Library(needed=("libhelper.so.1", "libc.so.6"), runpath="$ORIGIN"))
    hip = elf_files.build(elf_files.Library(needed=("libamdhip64.so.7",), runpath="$ORIGIN/rocm-host"))
    tiny_packages.tiny_package(folder, "helper", files={"lib/libhelper.so.1": helper, "share/helper": b"x\n"})
    for arch in ("gfx90a", "gfx942"):
        tiny_packages.arch_package(folder, arch)
        torch = {"__init__.py": b"import torch\n", "lib/libtorch_hip.so": binaries[arch]}
        tiny_packages.gpu_package(
            *(folder, "pytorch-rocm", "2.11.0", arch, "7.2"),
            files=python_package("torch", "torch", "2.11.0", torch),
        )
        tiny_packages.gpu_package(
            *(folder, "hip-demo", "0.1.0", arch, "7.2"),
            files={"lib/libhip_demo.so": user, "lib/libhip_uses.so": hip, "bin/hip-demo": b"#!/bin/sh\n"},
            depends=("helper",),
        )
    triton = {"__init__.py": b"import triton\n", "knobs.py": b"one = 1\n"}
    tiny_packages.gpu_package(
        *(folder, "triton-rocm", "3.6.0", "gfx942", "7.2"),
        files=python_package("triton", "triton", "3.6.0", triton),
    )
    rattler_process.call("index", {"channels": [str(folder)]})
    return folder


def install(channel: Path, prefix: Path, isa: str, *specs: str) -> Path:
    """A virtual environment (its Python is what pip needs) that py-rattler then installs into."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    virtual = (("__amdgpu", "0"), ("__amdgpu_arch", isa), ("__rocm_userspace", "7.2"))
    rattler_process.call(
        "solve",
        {
            "channels": [channel.as_uri()],
            "specs": list(specs),
            "virtual": [[name, version, "0"] for name, version in virtual],
            "prefix": str(prefix),
        },
    )
    return prefix


@pytest.fixture(scope="module", autouse=True)
def own_package_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Files are hard links into the package cache, and what is damaged here is nobody else's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RATTLER_CACHE_DIR", str(tmp_path_factory.mktemp("rattler")))
        patch.setenv("ROCM_CHANNEL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def installed(channel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("installed") / "env"
    return install(channel, prefix, "9.4.2", "pytorch-rocm", "triton-rocm", "hip-demo")


@pytest.fixture(scope="module")
def other(channel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(channel, tmp_path_factory.mktemp("other") / "env", "9.0.10", "hip-demo", "pytorch-rocm")


@pytest.fixture
def env(installed: Path, tmp_path: Path) -> Path:
    """A copy to damage; its files are its own."""
    return Path(shutil.copytree(installed, tmp_path / "env", symlinks=True))


def look(prefix: Path, host: Host = NO_GPU, **options: Any) -> EnvironmentCheck:
    return check_environment(prefix, host, environ=options.pop("environ", {}), **options)


def found(prefix: Path, kind: str, **options: Any) -> Finding:
    """The one finding of that kind, which is complete."""
    check = look(prefix, **options)
    fitting = [one for one in check.findings if one.kind == kind]
    assert len(fitting) == 1, [one.lines() for one in check.findings]
    (finding,) = fitting
    assert finding.kind in KINDS
    assert all((finding.what, finding.where, finding.found, finding.wanted, finding.fix)), finding
    return finding


def record(prefix: Path, name: str) -> Path:
    (path,) = (prefix / "conda-meta").glob(f"{name}-[0-9]*.json")
    return path


def anew(path: Path, content: bytes) -> None:
    """Put other content there in a new file."""
    path.unlink()
    path.write_bytes(content)


@pytest.mark.parametrize("quick", [False, True])
def test_nothing_is_found_in_a_clean_environment(installed: Path, env: Path, quick: bool) -> None:
    for prefix in (installed, env):
        check = look(prefix, GFX942 if not quick else NO_GPU, quick=quick, arch="gfx942", rocm="7.2")
        assert check.findings == ()
        assert [one.name for one in check.prefix.records] == [
            *("amdgpu-arch", "helper", "hip-demo", "pytorch-rocm", "rocm-userspace", "triton-rocm")
        ]
        assert check.targets == ({} if quick else {TORCH: ("gfx942",)})
        assert {
            entry.path for one in check.prefix.records for entry in one.entries if entry.kind == "link"
        } == {"lib/rocm-host"}


def test_a_host_without_a_gpu_compares_nothing_and_says_so(env: Path) -> None:
    check = look(env)
    assert check.findings == ()
    assert [note.partition(":")[0] for note in check.notes] == [
        "this host has no AMD GPU that was found",
        "this host has no ROCm that was found",
        "needs of ROCm, which is not on this host (lib/rocm-host -> /opt/rocm/lib)",
    ]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (f"{SITE}/triton/knobs.py", b"one = 2\n"),
        (f"{SITE}/triton/knobs.py", b"one = 1\ntwo = 2\n"),
        ("share/rocm-channel/rocm-userspace.pc", b"prefix=/somewhere/else\n"),
    ],
)
def test_an_altered_file(env: Path, path: str, content: bytes) -> None:
    before = (env / path).read_bytes()
    anew(env / path, content)
    finding = found(env, "file-altered")
    assert (finding.where, finding.files) == (path, (path,))
    assert f"{len(content)} bytes" in str(finding.found)
    if len(content) == len(before):
        assert look(env, quick=True).findings == ()


def test_an_altered_file_that_the_package_cache_shares(channel: Path, tmp_path: Path) -> None:
    prefix = install(channel, tmp_path / "env", "9.4.2", "triton-rocm")
    file = prefix / SITE / "triton" / "__init__.py"
    if file.stat().st_nlink == 1:
        pytest.skip("this file system has no hard links to the package cache")
    content = file.read_bytes()
    file.write_bytes(b"import other!\n")
    try:
        fix = str(found(prefix, "file-altered").fix)
        assert "rm -r " in fix and "triton-rocm-3.6.0" in fix
    finally:
        file.write_bytes(content)  # the cache of this module is in use


def test_a_missing_file(env: Path) -> None:
    (env / SITE / "triton" / "knobs.py").unlink()
    finding = found(env, "file-missing")
    assert finding.where == f"{SITE}/triton/knobs.py" and "triton-rocm 3.6.0" in str(finding.package)
    assert [one.kind for one in look(env, quick=True).findings] == ["file-missing"]


def test_a_file_that_became_a_link(env: Path) -> None:
    path = env / SITE / "triton" / "knobs.py"
    path.unlink()
    path.symlink_to("/etc/hostname")
    finding = found(env, "file-replaced")
    assert finding.where == f"{SITE}/triton/knobs.py" and "/etc/hostname" in str(finding.found)


def test_the_link_to_rocm_leads_elsewhere(env: Path) -> None:
    (env / "lib/rocm-host").unlink()
    (env / "lib/rocm-host").symlink_to("/opt/rocm-6.4.0/lib")
    finding = found(env, "file-replaced", host=GFX942)
    assert finding.where == "lib/rocm-host" and "/opt/rocm-6.4.0/lib" in str(finding.found)


def test_a_record_whose_files_are_gone(env: Path) -> None:
    (env / "lib/libhelper.so.1").unlink()
    (env / "share/helper").unlink()
    finding = found(env, "package-gone")
    assert finding.where.startswith("conda-meta/helper-1-0") and len(finding.files) == 2
    missing = found(env, "library-missing")
    assert (missing.wanted, missing.where) == ("libhelper.so.1", "lib/libhip_demo.so")


def test_a_record_that_cannot_be_read(env: Path) -> None:
    record(env, "helper").write_text('{"name": "helper", ')
    finding = found(env, "record-unreadable")
    assert finding.where.startswith("conda-meta/helper")


def hand_made(prefix: Path) -> dict[str, Path]:
    """A virtual environment of a few files, by what each is."""
    files = {
        "record": prefix / "conda-meta/hip-demo-1-0.json",
        "RECORD": prefix / SITE / "torch-1.0.dist-info/RECORD",
        "METADATA": prefix / SITE / "torch-1.0.dist-info/METADATA",
        "INSTALLER": prefix / SITE / "torch-1.0.dist-info/INSTALLER",
        "pyvenv.cfg": prefix / "pyvenv.cfg",
        "module": prefix / SITE / "torch/__init__.py",
    }
    record = {
        "name": "hip-demo",
        "version": "1",
        "build": "rocm72_gfx942_h0_0",
        "depends": ["amdgpu-arch ==9.4.2", "rocm-userspace ==7.2"],
        "files": ["lib/a.so"],
        "paths_data": {"paths": [{"_path": "lib/a.so", "path_type": "hardlink", "sha256": "ab"}]},
    }
    texts = {
        "record": json.dumps(record),
        "RECORD": "torch/__init__.py,sha256=abc,3\ntorch-1.0.dist-info/RECORD,,\n",
        "METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n",
        "INSTALLER": "pip\n",
        "pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = false\n",
        "module": "",
    }
    for name, path in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[name])
    return files


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("RECORD", b"a" * 200_000 + b",,\n"),
        ("RECORD", b"torch/__init__.py,sha256=abc," + b"9" * 5000 + b"\n"),
        ("RECORD", b"a\0b,,\n,,\n"),
        ("RECORD", b'"torch/__init__.py\n'),
        ("pyvenv.cfg", b"home = \xff\n"),
        ("METADATA", b"Name: \xff\0\nVersion: " + b"1" * 5000 + b"\n"),
        ("record", b'{"name": "a", "version": 1, "paths_data": {"paths": [{"_path": "a\\u0000b"}]}}'),
        ("record", b'{"name": "a", "version": 1, "files": ["a\\u0000b"], "paths_data": null}'),
        ("record", b'{"name": "a", "version": 1, "paths_data": {"paths": 5}, "depends": 5}'),
    ],
)
def test_metadata_of_foreign_hands_is_read_or_told(tmp_path: Path, name: str, content: bytes) -> None:
    hand_made(tmp_path)[name].write_bytes(content)
    assert look(tmp_path).to_json()["version"] == 1


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["record", "RECORD", "METADATA", "INSTALLER", "pyvenv.cfg"]),
    edits=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 20), st.binary(max_size=8)), max_size=4),
)
def test_no_metadata_ends_the_check(tmp_path: Path, name: str, edits: list[tuple[int, int, bytes]]) -> None:
    file = hand_made(tmp_path / "env")[name]
    content = file.read_bytes()
    for at, length, new in edits:
        content = content[:at] + new + content[at + length :]
    file.write_bytes(content)
    check = look(tmp_path / "env", environ={"PYTHONPATH": f"/{'a' * 300}:{tmp_path}/\0"})
    assert json.loads(json.dumps(check.to_json()))["damage"] == bool(check.findings)
    assert {one.kind for one in check.findings} <= set(KINDS)


def test_two_amdgpu_arch(env: Path, other: Path) -> None:
    shutil.copy(record(other, "amdgpu-arch"), env / "conda-meta")
    finding = found(env, "two-records")
    assert "two GPU archs" in finding.what and "gfx90a" in str(finding.found)
    assert "gfx90a" in str(found(env, "arch-mixed").found)


def test_a_package_of_another_arch_that_was_forced_in(env: Path, other: Path) -> None:
    record(env, "hip-demo").unlink()
    shutil.copy(record(other, "hip-demo"), env / "conda-meta")
    finding = found(env, "arch-mixed")
    assert "gfx90a: hip-demo" in str(finding.found) and finding.where.startswith("conda-meta/hip-demo")
    assert found(env, "arch-other", host=GFX942).wanted == "gfx942"


def test_gpu_code_of_another_arch(env: Path, binaries: dict[str, bytes]) -> None:
    anew(env / TORCH, binaries["gfx90a"])
    finding = found(env, "code-other")
    assert (finding.where, finding.found, finding.wanted) == (TORCH, "gfx90a", "gfx942")
    assert {one.kind for one in look(env).findings} == {"code-other", "file-altered"}


def test_damaged_gpu_code_is_told_once(env: Path, binaries: dict[str, bytes]) -> None:
    anew(env / TORCH, binaries["gfx942"][:-3000])
    assert [one.kind for one in look(env).findings] == ["file-altered"]


def pip(prefix: Path, *words: object) -> None:
    """The pip of the tests, for that environment, with nothing but what is given to it."""
    command = [sys.executable, "-m", "pip", "--python", prefix / "bin" / "python", "--isolated"]
    command += ["--disable-pip-version-check", *words]
    variables = {**os.environ, "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr


def pip_install(prefix: Path, wheel: Path) -> None:
    pip(prefix, "install", "--no-index", "--no-deps", "--no-cache-dir", wheel)


def test_torch_that_pip_installed_over_conda(env: Path, tmp_path: Path) -> None:
    wheel = tiny_wheels.tiny_wheel(tmp_path, "torch", "2.12.0", {"torch/__init__.py": b"from pip\n"})
    pip_install(env, wheel)
    finding = found(env, "pip-over-conda")
    assert "torch 2.12.0" in finding.what and "pytorch-rocm 2.11.0" in finding.what
    assert "pip uninstall torch" in str(finding.fix) and TORCH in finding.files
    assert [one.kind for one in look(env).findings] == ["pip-over-conda"]
    assert [one.kind for one in look(env, quick=True).findings] == ["pip-over-conda"]


def test_the_same_version_of_torch_by_pip_is_found_as_well(env: Path, tmp_path: Path) -> None:
    wheel = tiny_wheels.tiny_wheel(tmp_path, "torch", "2.11.0", {"torch/__init__.py": b"from pip\n"})
    pip(env, "install", "--force-reinstall", "--no-index", "--no-deps", "--no-cache-dir", wheel)
    assert "pip installed torch 2.11.0 over pytorch-rocm" in found(env, "pip-over-conda").what


def test_two_tritons(env: Path, tmp_path: Path) -> None:
    content = {"triton/__init__.py": b"of pip\n", "triton/more.py": b""}
    pip_install(env, tiny_wheels.tiny_wheel(tmp_path, "pytorch_triton_rocm", "3.5.0", content))
    finding = found(env, "two-distributions")
    assert "pytorch-triton-rocm 3.5.0 (pip)" in str(finding.found)
    assert "triton 3.6.0 (conda)" in str(finding.found)
    assert "pip uninstall pytorch-triton-rocm" in str(finding.fix)
    over = found(env, "pip-over-conda")
    assert over.files == (f"{SITE}/triton/__init__.py",)


def test_doubled_metadata_of_one_distribution(env: Path) -> None:
    shutil.copytree(env / SITE / "torch-2.11.0.dist-info", env / SITE / "torch-2.10.0.dist-info")
    assert "torch 2.11.0" in str(found(env, "two-distributions").found)


def test_what_pip_installed_beside_conda_is_nobodys_business(env: Path, tmp_path: Path) -> None:
    pip_install(env, tiny_wheels.tiny_wheel(tmp_path, "harmless", tags="py3-none-any"))
    assert look(env).findings == ()
    (env / SITE / "harmless" / "__init__.py").write_text("changed = True\n")
    finding = found(env, "file-altered")
    assert finding.package == "harmless 1.0" and "pip install --force-reinstall" in str(finding.fix)


def test_modules_that_python_takes_first(env: Path, tmp_path: Path) -> None:
    for folder in (tmp_path / "path", tmp_path / "home/.local" / SITE):
        (folder / "torch").mkdir(parents=True)
        (folder / "torch" / "__init__.py").touch()
    shadow = found(env, "shadowed", environ={"PYTHONPATH": f"{tmp_path}/none:{tmp_path}/path"})
    assert shadow.where == f"{tmp_path}/path/torch/__init__.py" and "PYTHONPATH" in shadow.what
    home = {"HOME": str(tmp_path / "home")}
    assert look(env, environ=home).findings == (), "a virtual environment has no user packages"
    (env / "pyvenv.cfg").unlink()
    assert str(tmp_path / "home") in found(env, "shadowed", environ=home).where
    assert look(env, environ={**home, "PYTHONNOUSERSITE": "1"}).findings == ()
    assert look(env, environ={"PYTHONPATH": str(env / SITE)}).findings == ()


def test_files_of_nobody(env: Path) -> None:
    (env / SITE / "torch" / "extra.py").touch()
    (env / SITE / "torch" / "__pycache__").mkdir()
    (env / SITE / "torch" / "__pycache__" / "extra.cpython-311.pyc").touch()
    finding = found(env, "file-foreign")
    assert finding.files == (f"{SITE}/torch/extra.py",)


def test_rocm_of_another_release_and_without_a_library(env: Path, tmp_path: Path) -> None:
    root = rocm_like(tmp_path / "rocm", "7.0.2")
    (root / "lib").mkdir()
    link = env / "lib/rocm-host"
    link.unlink()
    link.symlink_to(root / "lib")
    missing = found(env, "rocm-library-missing", host=GFX942)
    assert missing.wanted == "libamdhip64.so.7" and missing.files == ("lib/libhip_uses.so",)
    other = found(env, "rocm-other", host=GFX942)
    assert other.wanted == "ROCm 7.0" and "rocm-userspace 7.2" in str(other.found)
    (root / "lib" / "libamdhip64.so.7").touch()
    assert "rocm-library-missing" not in {one.kind for one in look(env, GFX942).findings}


def test_rocm_that_is_not_there_is_wrong_only_where_the_gpu_is(env: Path) -> None:
    if Path("/opt/rocm").exists():
        pytest.skip("this host has a ROCm of its own")
    assert "/opt/rocm/lib" in str(found(env, "rocm-library-missing", host=GFX942).found)
    assert look(env, GFX942, arch="gfx942").findings == ()


def test_a_gpu_package_without_amdgpu_arch(env: Path) -> None:
    path = record(env, "amdgpu-arch")
    for file in json.loads(path.read_text())["files"]:
        (env / file).unlink()
    path.unlink()
    assert "amdgpu-arch for gfx942" in str(found(env, "arch-unguarded").wanted)
    assert "dependency-missing" not in {one.kind for one in look(env).findings}, "told once"


@pytest.mark.parametrize("name", ["rocm-userspace", "helper"])
@pytest.mark.parametrize("quick", [False, True])
def test_a_package_that_others_depend_on_is_gone(env: Path, name: str, quick: bool) -> None:
    path = record(env, name)
    for file in json.loads(path.read_text())["files"]:
        (env / file).unlink()
    path.unlink()
    finding = found(env, "dependency-missing", quick=quick)
    assert finding.package == name and all(file.startswith("conda-meta/") for file in finding.files)


def test_a_record_that_cannot_be_read_is_no_missing_dependency(env: Path) -> None:
    record(env, "helper").write_text("{")
    assert "dependency-missing" not in {one.kind for one in look(env).findings}


@pytest.mark.parametrize(
    ("key", "spec"),
    [("depends", "helper >=99"), ("depends", "helper 1.* other_*"), ("constrains", "helper <0")],
)
def test_a_package_of_another_version_than_others_want(env: Path, key: str, spec: str) -> None:
    path = record(env, "rocm-userspace")
    data = json.loads(path.read_text())
    data[key] = [*data.get(key, ()), spec, "absent >=99", "__glibc >=99"]
    path.write_text(json.dumps(data))
    finding = found(env, "dependency-unmet", quick=True)
    assert finding.package == "helper" and finding.wanted == f"{spec} of rocm-userspace"


def test_an_installation_that_was_broken_off(env: Path) -> None:
    (env / UNFINISHED).write_text("hip-demo-9-0\namdgpu-arch-9.4.2-gfx942_detected_0\n")
    assert found(env, "unfinished").found == "not there yet: hip-demo"


def test_two_rocm_releases(env: Path) -> None:
    path = record(env, "rocm-userspace")
    path.write_text(path.read_text().replace('"version": "7.2"', '"version": "7.0"'))
    assert "7.0, as rocm-userspace says" in str(found(env, "rocm-mixed").wanted)


def test_the_command(env: Path) -> None:
    run: Callable[..., subprocess.CompletedProcess[str]] = lambda *words, **variables: rocm_channel(  # noqa: E731
        *("env", "check", env, *words),
        **{
            "ROCM_BOOTSTRAP_FORCE_GFX_ARCH": "gfx942",
            "PYTHONNOUSERSITE": "1",
            "PYTHONPATH": str(ROOT),
            **variables,
        },
    )
    done = run("--arch", "gfx942", "--rocm", "7.2", "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["findings"], answer["version"], answer["damage"]) == (0, [], 1, False)
    assert {one["name"]: one["archs"] for one in answer["packages"]["gpu"]}["pytorch-rocm"] == ["gfx942"]
    wrong = run("--json", ROCM_BOOTSTRAP_FORCE_GFX_ARCH="gfx90a")
    assert wrong.returncode == 53
    assert [f["wanted"] for f in json.loads(wrong.stdout)["findings"] if f["kind"] == "arch-other"] == [
        "gfx90a"
    ]
    (env / SITE / "triton" / "knobs.py").unlink()
    text = run("--arch", "gfx942")
    assert text.returncode == 53 and "[file-missing]" in text.stdout and "one thing is wrong" in text.stdout
    nothing = rocm_channel("env", "check", env / "share")
    assert nothing.returncode == 53 and "is no environment" in nothing.stderr
    assert "Traceback" not in done.stderr + wrong.stderr + text.stderr + nothing.stderr
    assert rocm_channel("env", "check", env, "--arch", "gfx9xx").returncode == 2


def test_the_page_lists_every_kind() -> None:
    rows = [f"| `{kind}` | {meaning} |" for kind, meaning in KINDS.items()]
    assert "\n".join(rows) in (ROOT / "docs" / "pip.md").read_text()


def test_a_folder_that_is_no_environment(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentCheckError, match="is no environment"):
        look(tmp_path)


def test_a_file_nobody_may_read_is_told(env: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (env / SITE / "triton" / "knobs.py").chmod(0)
    assert found(env, "file-altered").where.endswith("knobs.py")


@pytest.mark.parametrize("words", [("--rocm", "7"), ("--rocm", "7.2.1"), ("--arch", "mi300")])
def test_what_is_declared_must_be_a_machine(tmp_path: Path, words: tuple[str, str]) -> None:
    refused = rocm_channel("env", "check", tmp_path, *words)
    assert refused.returncode == 2
    assert words[1] in refused.stderr
