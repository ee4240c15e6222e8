"""From recipe to arch-matched install with the real compiler, engine, solver and installer."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from channel_tools.client.env_check.check import check_environment
from channel_tools.client.host import Host
from tests.integration.helpers import answer, host_build, make_project, rocm_channel, rocm_like

GLIBC = (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 0").split()[-1]
ISA = {"gfx942": "9.4.2", "gfx90a": "9.0.10"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, sdk_root: Path) -> Path:
    """A project whose channel has the canary for two archs and two ROCm releases."""
    root = make_project(tmp_path_factory.mktemp("end-to-end") / "project")
    built = answer(host_build(root, sdk_root, "--json"))
    assert {p["status"] for p in built["packages"]} == {"built"}
    canaries = [p for p in built["packages"] if p["package"].startswith("rocm-canary")]
    assert len(canaries) == 4
    for package in canaries:
        assert package["targets"] == [re.search(r"gfx\w+?(?=_)", package["package"])[0]]  # type: ignore[index]
    return root


@pytest.fixture(scope="module")
def tools(repo_root: Path, project: Path) -> Path:
    """The bridge channel that the build made."""
    return repo_root / ".cache" / "host-tools"


@pytest.fixture(scope="module")
def prefix(project: Path, tools: Path) -> Path:
    """An environment declared for gfx942 and ROCm 7.2."""
    path = project / "prefix"
    words = ("install", "--channel", project / "channel", "-c", tools, "--arch", "gfx942", "--rocm", "7.2")
    answer(rocm_channel(*words, "--prefix", path, "--json", "rocm-canary"))
    return path


def test_what_was_built_is_published_as_one_release(project: Path, tools: Path, tmp_path: Path) -> None:
    channel = tmp_path / "internal"
    words = (
        "channel",
        "init",
        channel,
        "--toolchain",
        "host",
        "--dependency-channel",
        tools.resolve().as_uri(),
    )
    assert rocm_channel(*words).returncode == 0
    told = answer(rocm_channel("publish", project / "channel", "--channel", channel, "--json"))
    assert told["stored"]
    assert rocm_channel("audit", channel).returncode == 0
    words = ("install", "--channel", channel, "-c", tools, "--arch", "gfx90a", "--rocm", "7.0")
    packages = answer(rocm_channel(*words, "--dry-run", "--json", "rocm-canary"))["packages"]
    canary = next(one for one in packages if one["name"] == "rocm-canary")
    assert canary["build"].startswith("rocm70_gfx90a_")
    strict = tmp_path / "strict"
    assert rocm_channel("channel", "init", strict).returncode == 0
    refused = rocm_channel("publish", project / "channel", "--channel", strict)
    assert refused.returncode == 44
    assert "host" in refused.stderr and not list(strict.rglob("*.conda"))


def test_an_environment_of_real_binaries_is_checked(prefix: Path, tmp_path: Path) -> None:
    env = tmp_path / "env"
    shutil.copytree(prefix, env, symlinks=True)
    host = Host((), None, None)
    clean = check_environment(env, host, arch="gfx942", rocm="7.2")
    assert clean.findings == ()
    assert clean.targets == {"lib/librocm_canary.so": ("gfx942",)}
    library = env / "lib" / "librocm_canary.so"
    library.write_bytes(library.read_bytes().replace(b"rocm", b"ROCM", 1))
    (env / "lib/rocm-host").unlink()
    (env / "lib/rocm-host").symlink_to("/opt")
    found = check_environment(env, host, arch="gfx90a", rocm="7.2").findings
    assert sorted(one.kind for one in found) == [
        "arch-other",
        "file-altered",
        "file-replaced",
        "rocm-library-missing",
    ]


def solve(
    project: Path, tools: Path, arch: str | None, rocm: Path | None
) -> subprocess.CompletedProcess[str]:
    """What a host with that GPU and that ROCm root gets."""
    gpu = {"ROCM_BOOTSTRAP_FORCE_GFX_ARCH": arch} if arch else {"ROCM_BOOTSTRAP_DISABLE_DETECTION": "1"}
    root = {"ROCM_PATH": str(rocm)} if rocm else {}
    words = ("install", "--channel", project / "channel", "-c", tools, "--dry-run", "--json", "rocm-canary")
    return rocm_channel(*words, **gpu, **root)


@pytest.mark.parametrize("arch", ["gfx942", "gfx90a"])
@pytest.mark.parametrize("release", ["7.0", "7.2"])
def test_each_host_gets_the_build_made_for_it(
    project: Path, tools: Path, tmp_path: Path, arch: str, release: str
) -> None:
    records = answer(solve(project, tools, arch, rocm_like(tmp_path / "rocm", f"{release}.3-99")))["packages"]
    builds = {r["name"]: (r["version"], r["build"]) for r in records}
    assert builds["rocm-canary"][1].startswith(f"rocm{release.replace('.', '')}_{arch}_")
    assert builds["amdgpu-arch"] == (ISA[arch], f"{arch}_detected_0")
    assert builds["rocm-userspace"] == (release, "system_detected_0")


@pytest.mark.parametrize(
    ("arch", "code"), [("gfx1100", 50), ("gfx950", 50), (None, 50), ("gfx90a,gfx942", 50)]
)
def test_a_foreign_gpu_or_none_is_refused(
    project: Path, tools: Path, tmp_path: Path, arch: str | None, code: int
) -> None:
    done = solve(project, tools, arch, rocm_like(tmp_path / "rocm", "7.2.0"))
    assert done.returncode == code
    assert "--arch" in done.stderr and "gfx942" in done.stderr
    assert (arch or "no AMD GPU").split(",")[0] in done.stderr


@pytest.mark.parametrize("release", ["6.4.1", None])
def test_another_rocm_or_none_is_refused(
    project: Path, tools: Path, tmp_path: Path, release: str | None
) -> None:
    if release is None and Path("/opt/rocm/.info/version").exists():
        pytest.skip("this host has a ROCm of its own")
    done = solve(project, tools, "gfx942", rocm_like(tmp_path / "rocm", release) if release else None)
    assert done.returncode == 51
    assert "ROCm 7.0 or 7.2" in done.stderr and "--rocm 7.2" in done.stderr


SOLVE_AS_CLIENT = """
import asyncio, os, sys
from rattler import BuildString, Channel, GenericVirtualPackage, PackageName, Version, solve
channels, virtual = sys.argv[1].split(","), [v.split("=") for v in sys.argv[2].split(",") if v]
async def run():
    try:
        found = await solve([Channel(c) for c in channels], ["rocm-canary"], virtual_packages=[
            GenericVirtualPackage(PackageName(n), Version(v), BuildString("0")) for n, v in virtual])
        print(next(str(r.build) for r in found if r.name.normalized == "rocm-canary"))
    except Exception as error:
        print("refused:", str(error).replace(chr(10), " "))
asyncio.run(run())
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.parametrize(
    ("label", "virtual", "expected"),
    [
        (None, "__amdgpu=0,__amdgpu_arch=9.4.2,__rocm_userspace=7.2", "rocm72_gfx942_"),
        (None, "__amdgpu=0,__amdgpu_arch=9.0.10,__rocm_userspace=7.0", "rocm70_gfx90a_"),
        (None, "__amdgpu=0,__amdgpu_arch=11.0.0,__rocm_userspace=7.2", "refused:.*__amdgpu_arch"),
        (None, "__rocm_userspace=7.2", "refused:.*__amdgpu"),
        (None, "__amdgpu=0,__amdgpu_arch=9.4.2", "refused:.*__rocm_userspace"),
        (None, "__amdgpu=0,__amdgpu_arch=9.4.2,__rocm_userspace=6.4", "refused:.*__rocm_userspace"),
        ("gfx942-rocm7.0", "", "rocm70_gfx942_"),
        ("gfx90a-rocm7.2", "", "rocm72_gfx90a_"),
        ("gfx942", "__rocm_userspace=7.2", "rocm72_gfx942_"),
        ("rocm-7.0", "__amdgpu=0,__amdgpu_arch=9.0.10", "rocm70_gfx90a_"),
    ],
)
def test_any_conda_client_solves_the_same(
    project: Path, tools: Path, label: str | None, virtual: str, expected: str
) -> None:
    """Without our client: channels as `-c` gives them, virtual packages as a client reports them."""
    channel = project / "channel"
    channels = [channel / "label" / label] if label else []
    urls = ",".join(path.as_uri() for path in [*channels, channel, tools])
    base = f"__glibc={GLIBC},__linux=6,__unix=0" + (f",{virtual}" if virtual else "")
    done = subprocess.run(
        [sys.executable, "-c", SOLVE_AS_CLIENT, urls, base], capture_output=True, text=True, check=True
    )
    assert re.match(expected, done.stdout), done.stdout


@pytest.mark.parametrize("arch", ["gfx942", "gfx90a"])
def test_a_package_holds_code_for_its_arch_only_and_says_gcc_11(
    project: Path, tmp_path: Path, arch: str
) -> None:
    packages = sorted((project / "channel" / "linux-64").glob(f"rocm-canary-*_{arch}_*.conda"))
    assert len(packages) == 2
    for package in packages:
        report = answer(rocm_channel("verify", package, "--want", arch, "--json"))
        assert report["verdict"] == "pass"
        assert {t for file in report["files"] for t in file["targets"]} == {arch}
        other = ({"gfx942", "gfx90a"} - {arch}).pop()
        assert rocm_channel("verify", package, "--want", other).returncode == 30
        library = unpack(package, tmp_path / package.stem) / "lib" / "librocm_canary.so"
        comment = run("llvm-readelf-19", "--string-dump=.comment", library)
        versions = re.findall(r"GCC: \([^)]*\) (\d+)", comment)
        assert "11" in versions
        assert set(versions) <= {"11", "12"}, "12: the C library's own start files on Debian 12"
        compilers = json.loads(
            (tmp_path / package.stem / "share/rocm-channel/rocm-canary/build.json").read_text()
        )
        assert compilers["rocm_arch"] == arch
        assert compilers["toolchain"] == "host" and compilers["hip_sdk"] == "debian"


def unpack(package: Path, folder: Path) -> Path:
    """The files of a .conda, by its own format: a zip with a tar in zstd."""
    folder.mkdir()
    with zipfile.ZipFile(package) as archive:
        name = next(n for n in archive.namelist() if n.startswith("pkg-"))
        (folder / "pkg.tar.zst").write_bytes(archive.read(name))
    import zstandard

    from channel_tools.model.tar import tarfile

    with (folder / "pkg.tar.zst").open("rb") as stream:
        reader = zstandard.ZstdDecompressor().stream_reader(stream)
        with tarfile.open(fileobj=reader, mode="r|") as tar:
            tar.extractall(folder, filter="tar")
    return folder


def run(*command: object, **environ: str) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, env={**os.environ, **environ}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_info_works_in_an_empty_environment_with_the_sdk_out_of_sight(prefix: Path, sdk_root: Path) -> None:
    """The SDK folder is covered by an empty file system in a mount namespace of its own."""
    if os.geteuid() != 0:
        pytest.skip("mounts a file system")
    script = f"mount -t tmpfs tmpfs {sdk_root} && exec env -i {prefix}/bin/rocm-canary info"
    text = run("unshare", "--mount", "bash", "-c", script)
    assert re.search(r"baked targets\s+gfx942\b", text)
    assert "GNU 11" in text and "Debian" in text


def test_the_loader_finds_rocm_through_rocm_host_without_any_variable(prefix: Path, sdk_root: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounts a file system")
    library = prefix / "lib" / "librocm_canary.so"
    mounted = f"mkdir -p /opt/rocm && mount --bind {sdk_root} /opt/rocm && exec env -i /usr/bin/ldd {library}"
    covered = "mount -t tmpfs tmpfs /opt && "
    found = run("unshare", "--mount", "bash", "-c", covered + mounted)
    line = next(line for line in found.splitlines() if "libamdhip64" in line)
    assert f"{prefix}/lib/rocm-host/libamdhip64" in line, line
    without = run("unshare", "--mount", "bash", "-c", f"{covered}exec env -i /usr/bin/ldd {library}")
    assert "libamdhip64.so.5 => not found" in without


def test_run_refuses_without_a_gpu(prefix: Path) -> None:
    if Path("/dev/kfd").exists():
        pytest.skip("this host has an AMD GPU")
    done = subprocess.run(
        [prefix / "bin" / "rocm-canary", "run"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "no AMD GPU" in done.stderr


def test_installing_again_changes_nothing_and_more_packages_keep_what_is_there(
    prefix: Path, project: Path, tools: Path
) -> None:
    before = {path.name: path.read_bytes() for path in (prefix / "conda-meta").glob("*.json")}
    words = ("install", "--channel", project / "channel", "-c", tools, "--arch", "gfx942", "--rocm", "7.2")
    answer(rocm_channel(*words, "--prefix", prefix, "--json", "rocm-canary"))
    answer(rocm_channel(*words, "--prefix", prefix, "--json", "make"))
    after = {path.name: path.read_bytes() for path in (prefix / "conda-meta").glob("*.json")}
    assert set(before) < set(after)
    assert {name: after[name] for name in before} == before


def test_building_again_builds_nothing(project: Path, sdk_root: Path) -> None:
    again = answer(host_build(project, sdk_root, "--json"))
    assert {p["status"] for p in again["packages"]} == {"kept"}
    nodes = answer(
        rocm_channel(
            *("plan", "rocm-canary", "--toolchain", "host", "--rocm-path", sdk_root, "--json"),
            *("--channel", project / "channel"),
            ROCM_CHANNEL_ROOT=str(project),
        )
    )["nodes"]
    assert {node["state"] for node in nodes} == {"built"}
    assert not list((project / "work").iterdir()), "nothing is left of the builds"


def test_changed_inputs_are_told_and_a_rebuild_replaces(
    project: Path, sdk_root: Path, tmp_path: Path
) -> None:
    """A package whose recipe changed under the same build number is stale, not silently current."""
    other = make_project(tmp_path / "project")
    channel = other / "channel"
    shutil.copytree(project / "channel", channel)
    shell = other / "recipes" / "rocm-userspace" / "shells" / "activate.sh"
    shell.write_text(shell.read_text() + "# changed\n")
    words = (
        "rocm-userspace",
        "--rocm",
        "7.2",
        "--toolchain",
        "host",
        "--rocm-path",
        sdk_root,
        "--channel",
        channel,
    )

    def states() -> set[str]:
        plan = answer(rocm_channel("plan", *words, "--json", ROCM_CHANNEL_ROOT=str(other)))
        return {node["state"] for node in plan["nodes"]}

    assert states() == {"stale"}
    kept = rocm_channel("build", *words, ROCM_CHANNEL_ROOT=str(other))
    assert kept.returncode == 0 and "raise the build number" in kept.stdout
    answer(rocm_channel("build", *words, "--rebuild", "--json", ROCM_CHANNEL_ROOT=str(other)))
    assert states() == {"built"}


def test_another_arch_is_an_edit_of_variants_alone(tmp_path: Path, sdk_root: Path) -> None:
    project = make_project(tmp_path / "project")
    matrix = project / "variants" / "conda_build_config.yaml"
    text = matrix.read_text().replace('  - "gfx942"\n', '  - "gfx942"\n  - "gfx1100"\n')
    matrix.write_text(text.replace('  - "9.4.2"\n', '  - "9.4.2"\n  - "11.0.0"\n'))
    built = answer(host_build(project, sdk_root, "--arch", "gfx1100", "--rocm", "7.2", "--json"))
    canary = next(p for p in built["packages"] if p["package"].startswith("rocm-canary"))
    assert canary["package"].startswith("rocm-canary-0.1.0-rocm72_gfx1100_")
    assert canary["targets"] == ["gfx1100"]
