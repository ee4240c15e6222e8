"""Reading a channel back: what each kind of host gets, and which faults of a release that brings to light."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from channel_tools.channel.folder import FolderChannel
from channel_tools.channel.publishing.placing import candidate, places
from channel_tools.channel.publishing.readback import read_back
from channel_tools.channel.publishing.release_files import release_files
from channel_tools.channel.publishing.standins import missing_specs, write_stand_ins
from channel_tools.model.errors import ChannelError
from tests.integration.tiny_packages import arch_package, gpu_package, release, tiny_package


def read(folder: Path, made: list[Path], *, earlier: list[Path] = [], others: tuple[str, ...] = ()) -> Any:  # noqa: B006
    """Add packages to a new channel, unchecked, and read ``made`` back as one release."""
    channel = FolderChannel(folder / "channel")
    for packages in (earlier, made):
        channel.add(packages)
    new = [candidate(path) for path in made]
    return read_back(channel.store, release_files(list(places(new, {})), new, {}, {}), others)


def chosen(results: Any, name: str, **wanted: Any) -> set[str]:
    """File names, less their hash, that hosts get who ask for a name."""
    return {
        key.rpartition("/")[2].split("_h")[0]
        for result in results
        if result["name"] == name and all(result[key] == value for key, value in wanted.items())
        for key in result["packages"]
    }


def test_each_host_gets_its_own(tmp_path: Path) -> None:
    results = read(tmp_path, release(tmp_path))
    for way in ("detected", "declared"):
        found = chosen(results, "hip-demo", arch="gfx942", rocm="7.0", **{"as": way})
        assert found == {
            "hip-demo-0.1.0-rocm70_gfx942",
            f"amdgpu-arch-9.4.2-gfx942_{way}_0.conda",
            f"rocm-userspace-7.0-system_{way}_0.conda",
        }
    refused = [result for result in results if result["as"] == "unknown GPU"]
    assert refused and all(result["refused"] and not result["packages"] for result in refused)


@pytest.mark.parametrize("toolchain", ["host", "conda"])
def test_builds_of_a_host_that_is_newer_than_today(tmp_path: Path, toolchain: str) -> None:
    """Debian 13 has glibc 2.41: its own builds are for such hosts, and no others may ask for that."""
    made = release(tmp_path, depends=["__glibc >=2.99,<3.0.a0"])
    channel = FolderChannel(tmp_path / "channel")
    channel.add(made)
    (channel.path / "channel.json").write_text(json.dumps({"version": 1, "toolchain": toolchain}))
    new = [candidate(path) for path in made]
    files = release_files(list(places(new, {})), new, {}, {})
    if toolchain == "host":
        assert chosen(read_back(channel.store, files, ()), "hip-demo", arch="gfx942")
    else:
        with pytest.raises(ChannelError, match="does not give its consumers"):
            read_back(channel.store, files, ())


def test_a_build_that_any_gpu_would_get(tmp_path: Path) -> None:
    made = release(tmp_path, archs=["gfx942"])
    arch_package(tmp_path, "gfx942", "detected", depends=[])
    with pytest.raises(ChannelError, match="a GPU that nothing is built for is given a build"):
        read(tmp_path, made)


def test_no_label_for_those_who_declare(tmp_path: Path) -> None:
    made = [path for path in release(tmp_path) if "declared" not in path.name]
    with pytest.raises(ChannelError, match="has no label"):
        read(tmp_path, made)


def test_a_dependency_of_the_other_arch(tmp_path: Path) -> None:
    helper = tiny_package(tmp_path, "helper", "1", "rocm72_gfx90a_h0_0", extra={"rocm_arch": "gfx90a"})
    made = [*release(tmp_path, depends=["helper"]), helper]
    with pytest.raises(ChannelError, match="a GPU that nothing is built for is given a build") as error:
        read(tmp_path, made)
    assert "helper-1-rocm72_gfx90a" in str(error.value.found)


def test_an_older_build_that_stays_in_use(tmp_path: Path) -> None:
    """The new version asks for what the ROCm release's environment cannot have, so the old one is taken."""
    old = release(tmp_path)
    rule = ["rocm-userspace <7"]
    new = release(tmp_path, version="0.2.0", selection=False, constrains=rule)
    with pytest.raises(ChannelError, match="another package than the release has"):
        read(tmp_path, new, earlier=old)


def test_an_older_release_beside_a_newer_one(tmp_path: Path) -> None:
    """A correction of an old version is not what a plain name gives, and is asked for by itself."""
    new = release(tmp_path, version="0.2.0")
    results = read(tmp_path, release(tmp_path, version="0.1.1", selection=False), earlier=new)
    assert chosen(results, "hip-demo", arch="gfx942", rocm="7.2") >= {
        "hip-demo-0.2.0-rocm72_gfx942",
        "hip-demo-0.1.1-rocm72_gfx942",
    }


def test_each_python_gets_its_own(tmp_path: Path) -> None:
    made = release(tmp_path, archs=["gfx942"], releases=["7.2"], depends=["lib"])
    made.append(tiny_package(tmp_path, "lib", "1"))
    for python in ("3.11", "3.12"):
        word = f"py{python.replace('.', '')}"
        made.append(
            tiny_package(
                tmp_path,
                "vllm-demo",
                "1",
                f"rocm72_gfx942_{word}_h0000000_0",
                depends=[
                    "hip-demo",
                    f"python >={python},<3.{int(python[2:]) + 1}.0a0",
                    f"python_abi {python}.* *_{word}",
                ],
                extra={"rocm_arch": "gfx942", "rocm_version": "7.2"},
            )
        )
    results = read(tmp_path, made)
    for python in ("3.11", "3.12"):
        word = f"py{python.replace('.', '')}"
        found = chosen(results, "vllm-demo", python=python, **{"as": "declared"})
        assert any(word in name for name in found if name.startswith("vllm"))
        assert not any("py3" in name and word not in name for name in found)
    assert results[0]["assumed"] == ["python", "python_abi"]


def test_channels_that_are_there_are_read(tmp_path: Path) -> None:
    other = FolderChannel(tmp_path / "other")
    other.add([tiny_package(tmp_path / "o", "libstdcxx", "12")])
    made = release(tmp_path, depends=["libstdcxx >=12"])
    results = read(tmp_path / "a", made, others=(other.url,))
    assert results[0]["assumed"] == []
    with pytest.raises(ChannelError, match="does not give its consumers"):
        read(
            tmp_path / "b",
            release(tmp_path, version="2", depends=["libstdcxx >=13"], selection=True),
            others=(other.url,),
        )


def test_channels_that_cannot_be_reached_are_assumed(tmp_path: Path) -> None:
    made = release(tmp_path, depends=["libstdcxx >=12", "numpy >=1.23,<3"])
    results = read(tmp_path, made, others=("http://127.0.0.1:9/none",))
    assert results[0]["assumed"] == ["libstdcxx", "numpy"]


@pytest.mark.parametrize(
    "specs",
    [
        ["x"],
        ["x >=1.23,<3"],
        ["x 3.12.* *_cp312"],
        ["x ==1.2.3"],
        ["x ==1.2.3 h123_0"],
        ["x >1.2"],
        ["x ~=1.4.2"],
        ["x !=1.5"],
        ["x 1.2.*"],
        ["x =1.2"],
        ["x >=1.0", "x <2.0a0", "x !=1.0"],
        ["x >=2.17,<3.0.a0"],
        ["x 1.*|2.*"],
        ["x * *_openblas"],
    ],
)
def test_stand_ins_satisfy_the_specs_that_they_are_for(tmp_path: Path, specs: list[str]) -> None:
    package = tiny_package(tmp_path / "p", "needs", "1", depends=specs)
    channel = FolderChannel(tmp_path / "channel")
    channel.add([package])
    missing = missing_specs(channel.records(), ["needs"])
    assert missing == {"x": set(specs)}
    url = write_stand_ins(tmp_path / "stand-ins", missing)
    from channel_tools import rattler_process

    (answer,) = rattler_process.call(
        "solves", {"solves": [{"channels": [channel.url, url], "specs": ["needs"], "virtual": []}]}
    )
    assert "records" in answer, answer


def test_a_package_for_no_gpu(tmp_path: Path) -> None:
    results = read(
        tmp_path, [tiny_package(tmp_path, "tool", "1"), tiny_package(tmp_path, "data", "1", subdir="noarch")]
    )
    assert {(r["name"], r["as"], tuple(r["packages"])) for r in results} == {
        ("tool", "detected", ("linux-64/tool-1-0.conda",)),
        ("data", "detected", ("noarch/data-1-0.conda",)),
    }


def test_one_arch_after_the_other(tmp_path: Path) -> None:
    first = release(tmp_path, archs=["gfx90a"])
    second = [gpu_package(tmp_path, "hip-demo", "0.1.0", "gfx942", rocm) for rocm in ("7.0", "7.2")]
    second += [arch_package(tmp_path, "gfx942", kind) for kind in ("detected", "declared")]
    results = read(tmp_path, second, earlier=first)
    assert {result["arch"] for result in results} == {"gfx942", None}
