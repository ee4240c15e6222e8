"""The solver on packages with the names, build strings and dependencies of the real ones.

Our own are stand-ins with what our recipes render to; the aliases are built from their recipes. Those of
conda-forge have the shape of its recipes (pytorch-cpu-feedstock, triton-feedstock, xgrammar-feedstock).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rattler import MatchSpec

from channel_tools.model.package import read_package
from tests.integration.helpers import ROOT, answer, rocm_channel
from tests.integration.stub_channel import Stub, make_channel
from tests.unit.test_heavy_recipes import MATRIX, STACKS, Output, package, render

OURS = ("amdgpu-arch", "rocm-userspace", "amdsmi", "triton-rocm", "pytorch-rocm", "vllm-rocm")
ALIASES = ("pytorch", "triton")
STACK = {row["rocm_version"]: row for row in STACKS}
ISA = {row["rocm_arch"]: row["rocm_isa"] for row in STACKS}
GPU_HOSTS = [(release, arch) for release in STACK for arch in ISA]


def stubs_of_ours(selection: str) -> Iterator[Stub]:
    """One stand-in for each output of our recipes that needs no other selection."""
    for name in OURS:
        for output in render(name):
            if output.variant.get("selection", selection) == selection:
                yield Stub(
                    name,
                    str(output.recipe["package"]["version"]),
                    output.build,
                    (*output.specs("run"), *exported(output)),
                    tuple(output.specs("run_constraints")),
                )


def exported(output: Output) -> list[str]:
    """What the engine adds to the run requirements: run_exports of our packages in the host environment."""
    found = []
    for spec in output.specs("host"):
        name = spec.split()[0]
        if name in OURS:
            fitting = next(
                o for o in render(name) if all(output.variant.get(k, v) == v for k, v in o.variant.items())
            )
            exports = fitting.recipe["requirements"].get("run_exports", {})
            found += [*exports.get("strong", []), *exports.get("weak", [])]
    return found


# What these need on conda-forge besides what is of no matter here.
NEED_TORCH = {
    "compressed-tensors": ("pytorch >=1.7.0",),
    "peft": ("pytorch >=1.13.0",),
    "runai-model-streamer": ("pytorch >=2.0.0,<3.0.0",),
    "tensorizer": ("pytorch >=1.9.0",),
    "xgrammar": ("pytorch >=1.10.0", "triton"),
}
HASH = "h1a2b3c4"


def stubs_of_conda_forge() -> Iterator[Stub]:
    """Builds of PyTorch and Triton for CUDA and for processors, what depends on them, and what vLLM needs."""
    for torch, triton in (("2.9.1", "3.5.1"), ("2.11.0", "3.6.0"), ("2.12.1", "3.7.1")):
        cuda, cpu = f"cuda129_mkl_py312_{HASH}_300", f"cpu_mkl_py312_{HASH}_100"
        library = {"cuda": f"cuda129_mkl_{HASH}_300", "cpu": f"cpu_mkl_{HASH}_100"}
        yield Stub("libtorch", torch, library["cuda"], ("__cuda",))
        yield Stub("libtorch", torch, library["cpu"])
        yield Stub(
            "pytorch",
            torch,
            cuda,
            ("python", f"libtorch =={torch} {library['cuda']}", f"triton =={triton}", "__cuda"),
            (f"pytorch-gpu =={torch}", "pytorch-cpu <0.0a0"),
        )
        yield Stub(
            "pytorch",
            torch,
            cpu,
            ("python", f"libtorch =={torch} {library['cpu']}"),
            (f"pytorch-cpu =={torch}", "pytorch-gpu <0.0a0"),
        )
        yield Stub("pytorch-gpu", torch, "cuda129_mkl_300", (f"pytorch =={torch} {cuda}",))
        yield Stub("pytorch-cpu", torch, "cpu_mkl_100", (f"pytorch =={torch} {cpu}",))
        yield Stub("triton", triton, f"cuda129py312{HASH}_0", ("python",))
    yield Stub(
        "torchvision", "0.26.0", f"cuda129_py312_{HASH}_0", ("pytorch * cuda*", "libtorch >=2.11,<2.12.0a0")
    )
    yield Stub("needs-torch", "1.0", "py_0", ("python", "pytorch >=2.1"))
    yield Stub("needs-triton", "1.0", "py_0", ("python", "triton >=3"))
    yield Stub("needs-libtorch", "1.0", f"{HASH}_0", ("libtorch >=2.9,<3",))
    yield Stub("needs-cuda-torch", "1.0", f"{HASH}_0", ("pytorch * cuda*",))
    yield Stub("python", "3.12.9", f"{HASH}_0_cpython")
    yield from sorted(stubs_of_requirements(), key=lambda stub: (stub.name, stub.version))


def stubs_of_requirements() -> set[Stub]:
    """A stand-in in the version that it names for every other requirement of our packages."""
    names = {*OURS, *ALIASES, "python"}
    specs = {
        spec
        for name in OURS
        for output in render(name)
        for spec in output.specs("run")
        if spec.split()[0] not in names and not spec.startswith("__")
    }
    return {
        Stub(spec.split()[0], version_of(spec), "py_0", NEED_TORCH.get(spec.split()[0], ())) for spec in specs
    }


def version_of(spec: str) -> str:
    """A version that the spec allows: one that it names, or 1.0."""
    named = re.findall(r"(?:==|>=)([0-9.]+)", spec) or ["1.0"]
    matches = MatchSpec(spec, strict=True).matches
    return next(version for version in named if matches(package(spec.split()[0], version, "py_0")))


@dataclass(frozen=True)
class Channels:
    """``main`` has the detected builds, ``label`` the declared ones, ``forge`` stands for conda-forge."""

    main: Path
    label: Path
    forge: Path


@pytest.fixture(scope="module")
def channels(tmp_path_factory: pytest.TempPathFactory) -> Channels:
    folder = tmp_path_factory.mktemp("aliases")
    real = [(ROOT / "recipes" / alias, fitting(output)) for alias in ALIASES for output in render(alias)]
    declared = [stub for stub in stubs_of_ours("declared") if stub.name in ("amdgpu-arch", "rocm-userspace")]
    return Channels(
        make_channel(folder / "main", stubs_of_ours("detected"), real),
        make_channel(folder / "label", declared),
        make_channel(folder / "forge", stubs_of_conda_forge()),
    )


def fitting(output: Output) -> dict[str, str]:
    """The first row of the matrix with the variant of an output."""
    return next(row for row in MATRIX.rows() if all(row[k] == v for k, v in output.variant.items()))


SOLVE = """
import asyncio, json, os, sys
from rattler import BuildString, Channel, ChannelPriority, GenericVirtualPackage, PackageName, Version, solve
async def one(asked):
    try:
        found = await solve(
            [Channel(c) for c in asked["channels"]], asked["specs"], platforms=["linux-64", "noarch"],
            virtual_packages=[GenericVirtualPackage(PackageName(n), Version(v), BuildString("0"))
                              for n, v in asked["virtual"].items()],
            channel_priority=getattr(ChannelPriority, asked["priority"]))
        return {r.name.normalized: [str(r.version), str(r.build), str(r.channel)] for r in found}
    except Exception as error:
        return {"refused": str(error)}
async def run():
    print(json.dumps([await one(asked) for asked in json.load(sys.stdin)]))
asyncio.run(run())
sys.stdout.flush()
os._exit(0)
"""


@dataclass(frozen=True)
class Answer:
    """What the solver says: records by name as (version, build, channel), or why there are none."""

    records: dict[str, list[str]]
    refused: str | None


def solve_all(
    channels: Iterable[Path], wanted: Iterable[list[str]], virtual: dict[str, str], priority: str = "Strict"
) -> list[Answer]:
    """Solve each list of specs, as a client of these channels on a host with these virtual packages."""
    urls = [path.as_uri() for path in channels]
    # A machine that could run CUDA as well: nothing but our constraints keeps its builds out.
    host = {"__glibc": "2.36", "__linux": "6", "__unix": "0", "__cuda": "13.0", **virtual}
    payload = [{"channels": urls, "specs": specs, "virtual": host, "priority": priority} for specs in wanted]
    done = subprocess.run(
        [sys.executable, "-c", SOLVE], input=json.dumps(payload), capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout)
    return [Answer({} if "refused" in one else one, one.get("refused")) for one in said]


def solve(
    channels: Iterable[Path], specs: list[str], virtual: dict[str, str], priority: str = "Strict"
) -> Answer:
    return solve_all(channels, [specs], virtual, priority)[0]


def gpu_host(release: str, arch: str) -> dict[str, str]:
    return {"__amdgpu": "0", "__amdgpu_arch": ISA[arch], "__rocm_userspace": release}


def assert_ours(found: Answer, release: str, arch: str) -> None:
    """No package of conda-forge's PyTorch or Triton is there, and ours are those of the host."""
    assert found.refused is None, found.refused
    row = STACK[release]
    prefix = f"rocm{release.replace('.', '')}_{arch}_py312_h"
    for name in ("pytorch", "pytorch-rocm"):
        assert found.records[name][0] == row["pytorch_version"] and found.records[name][1].startswith(prefix)
    if "triton" in found.records:
        assert found.records["triton"][0] == row["triton_version"]
        assert found.records["triton"][1].startswith("rocm_py312_h")
    assert not {"libtorch", "pytorch-gpu", "pytorch-cpu", "torchvision"} & set(found.records)
    assert not [record for record in found.records.values() if "cuda" in record[1]]


@pytest.mark.parametrize(("release", "arch"), GPU_HOSTS)
def test_vllm_with_a_package_that_needs_pytorch_gets_ours(
    channels: Channels, release: str, arch: str
) -> None:
    wanted = ["vllm-rocm", "needs-torch", "needs-triton"]
    found = solve((channels.main, channels.forge), wanted, gpu_host(release, arch))
    assert_ours(found, release, arch)
    assert found.records["vllm-rocm"][0] == STACK[release]["vllm_version"]
    assert {"needs-torch", "needs-triton", "compressed-tensors", "xgrammar", "triton"} <= set(found.records)


def test_channel_priority_is_not_what_keeps_cuda_out(channels: Channels) -> None:
    both = (channels.forge, channels.main)
    wanted = ["vllm-rocm", "needs-torch", "needs-triton"]
    assert_ours(solve(both, wanted, gpu_host("7.2", "gfx942"), "Disabled"), "7.2", "gfx942")


FOREIGN = (
    *("pytorch * cuda*", "pytorch * cpu*", "pytorch ==2.12.1", "pytorch-gpu", "pytorch-cpu", "libtorch"),
    *("triton * cuda*", "needs-libtorch", "needs-cuda-torch", "torchvision"),
)


@pytest.mark.parametrize("priority", ["Strict", "Disabled"])
@pytest.mark.parametrize("name", ["vllm-rocm", "pytorch-rocm"])
def test_builds_of_conda_forge_are_refused_beside_ours(channels: Channels, name: str, priority: str) -> None:
    both = (channels.main, channels.forge)
    pairs = [[name, foreign] for foreign in FOREIGN]
    for pair, found in zip(pairs, solve_all(both, pairs, gpu_host("7.2", "gfx942"), priority), strict=True):
        assert found.refused is not None, (pair, found.records)
        assert pair[1].split()[0] in found.refused


def test_the_constraints_are_what_refuses_them(channels: Channels, tmp_path: Path) -> None:
    """The stand-in of conda-forge is sound, and beside packages of ours without constraints it installs."""
    alone = solve_all((channels.forge,), [[foreign] for foreign in FOREIGN], {})
    assert all(found.refused is None for found in alone)
    loose = [
        replace(stub, constrains=())
        for stub in stubs_of_ours("detected")
        if stub.name in ("pytorch-rocm", "triton-rocm", "amdgpu-arch", "rocm-userspace")
    ]
    ours = make_channel(tmp_path / "loose", loose)
    pairs = [["pytorch-rocm", foreign] for foreign in FOREIGN]
    together = solve_all((ours, channels.forge), pairs, gpu_host("7.2", "gfx942"), "Disabled")
    assert all(found.refused is None for found in together)


@pytest.mark.parametrize("priority", ["Strict", "Disabled"])
def test_pytorch_beside_pytorch_rocm_is_the_alias(channels: Channels, priority: str) -> None:
    found = solve(
        (channels.main, channels.forge), ["pytorch-rocm", "pytorch"], gpu_host("7.0", "gfx90a"), priority
    )
    assert_ours(found, "7.0", "gfx90a")
    assert found.records["pytorch"][2].rstrip("/") == channels.main.as_uri()


def test_pytorch_alone_is_ours_where_our_channel_comes_first(channels: Channels) -> None:
    assert_ours(
        solve((channels.main, channels.forge), ["pytorch"], gpu_host("7.2", "gfx90a")), "7.2", "gfx90a"
    )


def test_without_a_gpu_the_aliases_are_refused_as_what_they_stand_for(channels: Channels) -> None:
    found = solve((channels.main, channels.forge), ["pytorch"], {"__rocm_userspace": "7.2"})
    assert found.refused is not None and "__amdgpu" in found.refused


@pytest.mark.parametrize(
    "specs",
    [
        ["vllm-rocm * rocm72_gfx942_*", "pytorch-rocm * rocm72_gfx90a_*"],
        ["vllm-rocm * rocm72_gfx942_*", "pytorch * rocm72_gfx90a_*"],
        ["pytorch * rocm72_gfx942_*", "pytorch-rocm * rocm72_gfx90a_*"],
        ["pytorch * rocm70_gfx942_*", "pytorch-rocm * rocm72_gfx942_*"],
        ["pytorch * rocm72_gfx942_*", "amdgpu-arch ==9.0.10"],
        ["vllm-rocm * rocm70_gfx942_*", "triton ==3.6.0"],
    ],
)
def test_two_archs_or_releases_never_meet(channels: Channels, specs: list[str]) -> None:
    """Declared for every arch and release at once, as no host can be: only the packages' own word is left."""
    all_of_them = (channels.label, channels.main, channels.forge)
    together, *alone = solve_all(all_of_them, [specs, *([spec] for spec in specs)], {}, "Disabled")
    assert together.refused is not None, together.records
    assert all(found.refused is None for found in alone), "each of them alone is there"


def test_an_alias_holds_no_file_and_passes_the_verifier(channels: Channels) -> None:
    packages = [path for name in ALIASES for path in sorted(channels.main.glob(f"linux-64/{name}-[0-9]*"))]
    assert len(packages) == 6
    for path in packages:
        alias = read_package(path)
        (needed,) = alias.depends
        assert needed.startswith(f"{alias.name}-rocm =={alias.version} ")
    report = answer(rocm_channel("verify", *packages, "--json"))
    assert report["verdict"] == "pass" and report["files"] == [] and len(report["packages"]) == 6
