"""environment.yml: its pins are a row of the matrix, and a solver gives exactly those builds for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from channel_tools import rattler_process
from channel_tools.model.matrix import read_matrix
from tests.integration.tiny_packages import arch_package, gpu_package, rocm_package, tiny_package

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "https://conda.example.com/internal"
STACKS = {
    "7.0": {"vllm-rocm": "0.16.0", "pytorch-rocm": "2.9.1", "triton-rocm": "3.5.1"},
    "7.2": {"vllm-rocm": "0.26.0", "pytorch-rocm": "2.11.0", "triton-rocm": "3.6.0"},
}


@pytest.fixture(scope="module")
def wanted() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((ROOT / "environment.yml").read_text())
    return data


@pytest.fixture(scope="module")
def channels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A channel with every variant, and a conda-forge that has newer packages of the same names."""
    internal = tmp_path_factory.mktemp("internal")
    forge = tmp_path_factory.mktemp("conda-forge")
    label = internal / "label" / "gfx942-rocm7.2"
    for release, versions in STACKS.items():
        rocm_package(internal, release)
        for arch in ("gfx90a", "gfx942"):
            gpu_package(internal, "rocm-canary", "0.1.0", arch, release)
            for name, version in versions.items():
                gpu_package(internal, name, version, arch, release, depends=["python >=3.12,<3.13.0a0"])
    for arch in ("gfx90a", "gfx942"):
        arch_package(internal, arch)
    arch_package(label, "gfx942", "declared")
    rocm_package(label, "7.2", "declared")
    for version in ("3.12.9", "3.13.1"):
        tiny_package(forge, "python", version, "0_cpython", build_number=0)
    for name in ("vllm-rocm", "amdgpu-arch", "rocm-userspace"):
        tiny_package(forge, name, "99.0", "h0_0")
    for folder in (internal, label, forge):
        (folder / "noarch").mkdir()
    rattler_process.call("index", {"channels": [str(folder) for folder in (internal, label, forge)]})
    return {f"{ADDRESS}/label/gfx942-rocm7.2": label, ADDRESS: internal, "conda-forge": forge}


def solved(order: Sequence[Path], specs: Sequence[str], prefix: Path | None = None) -> dict[str, str]:
    payload = {
        "channels": [folder.as_uri() for folder in order],
        "specs": list(specs),
        "virtual": [["__linux", "6.8", "0"], ["__glibc", "2.39", "0"]],
        "prefix": str(prefix) if prefix else None,
    }
    records = rattler_process.call("solve", payload)
    return {record["name"]: f"{record['version']} {record['build']}" for record in records}


def test_pins_are_one_stack_of_the_matrix(wanted: dict[str, Any]) -> None:
    pins = dict(spec.split("=") for spec in wanted["dependencies"] if "=" in spec)
    rows = read_matrix(ROOT / "variants" / "conda_build_config.yaml").rows()
    fitting = [
        row
        for row in rows
        if (row["rocm_isa"], row["rocm_version"]) == (pins["amdgpu-arch"], pins["rocm-userspace"])
    ]
    assert fitting
    for row in fitting:
        assert wanted["channels"][0] == f"{ADDRESS}/label/{row['rocm_arch']}-rocm{row['rocm_version']}"
        for name, key in (("vllm-rocm", "vllm"), ("pytorch-rocm", "pytorch"), ("triton-rocm", "triton")):
            assert pins[name] == row[f"{key}_version"]
    assert pins["python"] in {row["python"] for row in fitting}


def test_solver_gives_the_builds_of_that_machine(
    wanted: dict[str, Any], channels: dict[str, Path], tmp_path: Path
) -> None:
    """On a host without GPU and without ROCm, as a container build is."""
    assert wanted["channels"] == [*channels, "nodefaults"]
    found = solved(list(channels.values()), wanted["dependencies"], tmp_path / "env")
    assert found["amdgpu-arch"] == "9.4.2 gfx942_declared_0"
    assert found["rocm-userspace"] == "7.2 system_declared_0"
    assert found["python"] == "3.12.9 0_cpython"
    for name, version in STACKS["7.2"].items():
        assert found[name].startswith(f"{version} rocm72_gfx942_")
    assert (tmp_path / "env" / "share" / "vllm-rocm.txt").is_file()


def test_order_of_the_channels_matters(wanted: dict[str, Any], channels: dict[str, Path]) -> None:
    label, internal, forge = channels.values()
    with pytest.raises(rattler_process.RattlerCallError, match=r"amdgpu-arch|rocm-userspace"):
        solved([internal, forge], wanted["dependencies"])
    assert solved([label, internal, forge], ["vllm-rocm"])["vllm-rocm"].startswith("0.26.0 rocm72_gfx942_")
    assert solved([forge, label, internal], ["vllm-rocm"])["vllm-rocm"] == "99.0 h0_0"


def test_strict_priority_does_not_cover_a_version_that_the_user_names(channels: dict[str, Path]) -> None:
    """As docs/channel.md warns: py-rattler takes it from a later channel when the first has it not."""
    order = list(channels.values())
    assert solved(order, ["vllm-rocm =99.0"])["vllm-rocm"] == "99.0 h0_0"
    with pytest.raises(rattler_process.RattlerCallError):
        solved(order, [f"{order[1].as_uri()}::vllm-rocm =99.0"])
