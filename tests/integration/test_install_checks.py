"""What `rocm-channel install` refuses, keeps and updates: names of others, archs, releases."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from channel_tools.channel.care.yank import yank
from channel_tools.channel.folder import FolderChannel
from channel_tools.client.addresses import declared_by
from channel_tools.client.host import Host
from channel_tools.client.install import Prepared, prepare
from channel_tools.client.locks.environment_yml import read_environment
from channel_tools.client.pinning.pin import pin
from channel_tools.client.placing import place
from channel_tools.client.prefix_facts import read_prefix
from channel_tools.client.reader import open_reader
from channel_tools.client.solved_checks import check
from channel_tools.model.arch import lookup
from channel_tools.model.errors import (
    ArchRefusedError,
    ChannelError,
    DependencyError,
    RocmRefusedError,
    StorageError,
)
from tests.integration.pin_channels import environment_yml
from tests.integration.solve_cases import ISA, STACKS, Scene, index, make_channels, stack
from tests.integration.tiny_packages import release, tiny_package

ROCM = Path("/opt/rocm")


def host(*targets: str, rocm: str | None = "7.2") -> Host:
    return Host(tuple(found for target in targets if (found := lookup(target))), rocm, ROCM if rocm else None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The channel with both archs alike, and a conda-forge behind it. Not to be changed."""
    folders = make_channels(tmp_path_factory.mktemp("checks"), Scene("both archs alike"))
    index(folders)
    return folders


def builds(prepared: Prepared) -> dict[str, str]:
    return {record["name"]: f"{record['version']} {record['build']}" for record in prepared.records}


def archs(prefix: Path) -> set[str]:
    names = [path.name for path in (prefix / "conda-meta").glob("*.json")]
    return {target for target in ISA for name in names if f"{target}_" in name}


def install(made: tuple[Path, Path], prefix: Path, *specs: str, **more: object) -> Prepared:
    ours, forge = made
    prepared = prepare(
        open_reader(ours), specs or ("vllm-rocm",), prefix=prefix, others=[forge.as_uri()], **more
    )  # type: ignore[arg-type]
    place(prefix, prepared.records)
    return prepared


@pytest.mark.parametrize("priority", ["strict", "flexible"])
@pytest.mark.parametrize("name", ["vllm-rocm", "pytorch-rocm"])
def test_a_version_of_ours_from_elsewhere_is_refused(
    made: tuple[Path, Path], tmp_path: Path, name: str, priority: str
) -> None:
    with pytest.raises(ChannelError, match=f"{name} 99.0") as error:
        install(made, tmp_path / "env", f"{name}=99.0", host=host("gfx942"), priority=priority)
    assert error.value.exit_code == 40 and "conda-forge" in str(error.value)
    assert not (tmp_path / "env").exists()


def test_yanked_names_are_still_ours(made: tuple[Path, Path], tmp_path: Path) -> None:
    """A name whose every build was yanked leaves the index; nobody else may take it."""
    channel = FolderChannel(tmp_path / "internal")
    channel.init()
    channel.add(
        [*release(tmp_path / "packages", "vllm-rocm", "0.26.0"), tiny_package(tmp_path, "extra-rocm")]
    )
    yank(channel.store, "extra-rocm", "broken", "me", every=True)
    tiny_package(tmp_path / "forge", "extra-rocm", "2")
    index([tmp_path / "forge"])
    with pytest.raises(ChannelError, match="extra-rocm 2"):
        install((channel.path, tmp_path / "forge"), tmp_path / "env", "extra-rocm", host=host("gfx942"))


def test_mixed_archs_or_releases_never_pass_the_check(made: tuple[Path, Path]) -> None:
    """As a damaged index could give them; belt and braces."""
    reader = open_reader(made[0])

    def record(name: str, build: str) -> dict[str, str]:
        return {
            "name": name,
            "version": "1",
            "build": build,
            "channel": "",
            "url": f"{reader.url}/linux-64/{name}",
        }

    one, other = record("a", "rocm72_gfx942_h1_0"), record("b", "rocm72_gfx90a_h1_0")
    check(reader, (), [one, record("c", "py312_0")], "gfx942", "7.2")
    for records, arch in (([one, other], None), ([one], "gfx90a")):
        with pytest.raises(ArchRefusedError):
            check(reader, (), records, arch, None)
    for records, rocm in (([one, record("b", "rocm70_gfx942_h1_0")], None), ([one], "7.0")):
        with pytest.raises(RocmRefusedError):
            check(reader, (), records, None, rocm)


def test_an_environment_is_updated_within_its_arch(made: tuple[Path, Path], tmp_path: Path) -> None:
    """The newer version is there for one arch first, then for both; what is installed never mixes."""
    ours, env = tmp_path / "internal", tmp_path / "env"
    shutil.copytree(made[0], ours)
    pair = (ours, made[1])
    install(pair, env, host=host("gfx942"))
    before = builds(install(pair, env, host=host("gfx942")))
    stack(ours, "gfx90a", "7.2", "0.27.0", *STACKS["7.2"][1:])
    index([ours])
    assert builds(install(pair, env, host=host("gfx942"), update=True)) == before
    stack(ours, "gfx942", "7.2", "0.27.0", *STACKS["7.2"][1:])
    index([ours])
    assert builds(install(pair, env, "needs-torch", host=host("gfx942")))["vllm-rocm"] == before["vllm-rocm"]
    after = builds(install(pair, env, host=host("gfx942"), update=True))
    assert after["vllm-rocm"].startswith("0.27.0 rocm72_gfx942_") and archs(env) == {"gfx942"}
    assert after["needs-torch"]


def test_another_host_does_not_turn_an_environment_over(made: tuple[Path, Path], tmp_path: Path) -> None:
    env = tmp_path / "env"
    install(made, env, host=host("gfx942"))
    with pytest.raises(ArchRefusedError, match="another GPU") as error:
        install(made, env, "needs-torch", host=host("gfx90a"))
    assert "--arch gfx90a" in str(error.value) and archs(env) == {"gfx942"}
    with pytest.raises(ArchRefusedError, match="--arch gfx942"):
        install(made, env, "needs-torch", host=host())
    with pytest.raises(RocmRefusedError, match=r"--rocm 7\.0") as refused:
        install(made, env, "needs-torch", host=host("gfx942", rocm="7.0"))
    assert "--rocm 7.2" in str(refused.value) and archs(env) == {"gfx942"}
    install(made, env, host=host("gfx90a"), arch="gfx90a")
    assert archs(env) == {"gfx90a"} and read_prefix(env).arch_declared


def test_a_declared_environment_stays_declared(made: tuple[Path, Path], tmp_path: Path) -> None:
    """Later installs into it need no options, on whatever host."""
    env = tmp_path / "env"
    install(made, env, host=host(), arch="gfx90a", rocm="7.0")
    for here in (host(rocm=None), host("gfx942")):
        prepared = install(made, env, "needs-torch", host=here)
        assert archs(env) == {"gfx90a"} and builds(prepared)["vllm-rocm"].startswith("0.16.0 rocm70_gfx90a_")
        assert any("declared for gfx90a" in note for note in prepared.notes)


@pytest.mark.parametrize("declared", [True, False])
def test_rocm_is_downgraded_when_asked(made: tuple[Path, Path], tmp_path: Path, declared: bool) -> None:
    env = tmp_path / "env"
    first = {"arch": "gfx942", "rocm": "7.2"} if declared else {}
    install(made, env, host=host("gfx942"), **first)
    with pytest.raises(DependencyError):
        install(made, env, "rocm-userspace=7.0", host=host("gfx942"))
    after = builds(install(made, env, "rocm-userspace=7.0", host=host("gfx942"), rocm="7.0"))
    assert after["rocm-userspace"] == "7.0 system_declared_0"
    assert after["vllm-rocm"].startswith("0.16.0 rocm70_gfx942_")
    assert after["pytorch-rocm"].startswith("2.9.1 rocm70_gfx942_") and after["triton-rocm"].startswith(
        "3.5.1 "
    )
    back = builds(install(made, env, "vllm-rocm", host=host("gfx942"), rocm="7.2"))
    assert back["vllm-rocm"].startswith("0.26.0 rocm72_gfx942_") and archs(env) == {"gfx942"}


def test_a_channel_that_moved_is_followed(made: tuple[Path, Path], tmp_path: Path) -> None:
    """Packages that an environment has from the old address are not taken for a stranger's."""
    env, moved = tmp_path / "env", tmp_path / "moved"
    install(made, env, host=host("gfx942"))
    shutil.copytree(made[0], moved)
    prepared = install((moved, made[1]), env, "needs-torch", host=host("gfx942"))
    ours = {one["name"] for one in prepared.records if one["url"].startswith(moved.as_uri())}
    assert {"vllm-rocm", "pytorch-rocm", "triton-rocm", "amdgpu-arch", "rocm-userspace"} <= ours


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\0", b"\xff", b"null", b'{"name": "python"}', b"[" * 100_000],
    ids=["empty", "cut", "list", "null byte", "no text", "null", "other object", "nested"],
)
def test_a_damaged_record_of_an_environment_is_named(
    made: tuple[Path, Path], tmp_path: Path, content: bytes
) -> None:
    env = tmp_path / "env"
    install(made, env, host=host("gfx942"))
    (record,) = (env / "conda-meta").glob("python-*.json")
    record.write_bytes(content)
    with pytest.raises(StorageError, match="records that cannot be read") as error:
        install(made, env, "needs-torch", host=host("gfx942"))
    assert error.value.where == str(record)


@pytest.mark.parametrize("label", ["gfx942-rocm7.2", "gfx942", "rocm-7.2"])
@pytest.mark.parametrize("declared", [{}, {"arch": "gfx942", "rocm": "7.2"}])
def test_a_label_in_the_place_of_the_channel_is_told(
    made: tuple[Path, Path], label: str, declared: dict[str, str], tmp_path: Path
) -> None:
    address = made[0] / "label" / label
    with pytest.raises(ChannelError, match="is a label of a channel") as error:
        prepare(open_reader(address), ["vllm-rocm"], host=host(), **declared)
    assert error.value.fix and f"--channel {made[0]}:" in error.value.fix
    file = environment_yml(tmp_path / "environment.yml", [str(made[0])])
    with pytest.raises(ChannelError, match="is a label of a channel"):
        pin(read_environment(file), host(), channel=str(address), archs=["gfx942"], rocm="7.2")


def test_what_a_label_declares() -> None:
    assert declared_by("gfx942-rocm7.2") == ("gfx942", "7.2")
    assert declared_by("gfx90a") == ("gfx90a", None) and declared_by("rocm-7.0") == (None, "7.0")
    for other in ("main", "dev", "gfx942-rocm", "rocm-7", "rocm7.2", ""):
        assert declared_by(other) is None


def test_a_file_of_ours_that_another_index_lists_is_not_ours(made: tuple[Path, Path]) -> None:
    reader = open_reader(made[0])
    record = {"name": "vllm-rocm", "version": "1", "build": "0", "url": f"{reader.url}/linux-64/a.conda"}
    check(reader, {"vllm-rocm"}, [{**record, "channel": f"{reader.url}/label/gfx942/"}], None, None)
    with pytest.raises(ChannelError, match=r"other\.example\.com"):
        check(reader, {"vllm-rocm"}, [{**record, "channel": "https://other.example.com/x/"}], None, None)


def test_a_hint_names_the_channels_that_are_missing(made: tuple[Path, Path], tmp_path: Path) -> None:
    ours = tmp_path / "internal"
    shutil.copytree(made[0], ours)
    (ours / "channel.json").write_text('{"version": 1, "dependency_channels": ["conda-forge"]}')
    with pytest.raises(DependencyError, match="-c conda-forge"):
        prepare(open_reader(ours), ["vllm-rocm"], host=host("gfx942"))


@pytest.mark.parametrize(
    "spec", ["vllm-rocm=0.26.0=rocm72_gfx942*", "vllm-rocm 0.26.* *gfx942*", "vllm-rocm>=0.20"]
)
def test_specs_as_conda_writes_them(made: tuple[Path, Path], spec: str) -> None:
    found = prepare(open_reader(made[0]), [spec], others=[made[1].as_uri()], host=host("gfx942"))
    assert builds(found)["vllm-rocm"].startswith("0.26.0 rocm72_gfx942_")


@pytest.mark.parametrize("spec", ["vllm-rocm[[[", "vllm-rocm >>=", "", "=="])
def test_a_spec_that_is_none_is_named(made: tuple[Path, Path], spec: str, tmp_path: Path) -> None:
    ours = tmp_path / "internal"
    shutil.copytree(made[0], ours)
    (ours / "channel.json").write_text('{"version": 1, "dependency_channels": ["conda-forge"]}')
    with pytest.raises(DependencyError, match="match spec") as error:
        prepare(open_reader(ours), ["rocm-canary", spec], host=host("gfx942"))
    assert f"found: {spec!r}: " in str(error.value) and "None" not in str(error.value)
