"""`rocm-channel install` and `arch` from every kind of address: folder, file, http with credentials, S3."""

from __future__ import annotations

import http.server
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from channel_tools.channel.folder import FolderChannel
from channel_tools.client.arch_report import report
from channel_tools.client.host import Host, detect_host
from channel_tools.client.install import prepare
from channel_tools.client.reader import Reader, open_reader
from channel_tools.client.selection import select
from channel_tools.diagnose.doctor.hosts import Record, RecordedHost
from channel_tools.model.arch import lookup
from channel_tools.model.errors import AccessError, ArchRefusedError, ChannelError, RocmRefusedError
from tests.integration.guarded_channel import Way, guarded
from tests.integration.helpers import answer, rocm_channel
from tests.integration.s3 import S3Server, s3_server  # noqa: F401
from tests.integration.test_channel_access import FORMS, TOKEN, WRONG
from tests.integration.tiny_packages import release
from tests.unit.kfd_hosts import NAMES, make_host
from tests.unit.web import listening

GFX942 = lookup("gfx942")
assert GFX942 is not None
MACHINE = Host((GFX942,), "7.2", Path("/opt/rocm"))
HERE = ("--rocm", "7.2", "--arch", "gfx942")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("install-channels")
    channel = FolderChannel(root / "internal")
    channel.init()
    channel.add(release(root / "packages", "vllm-rocm", "0.26.0"))
    (root / "internal" / "channel.json").write_text(
        json.dumps({"version": 1, "name": "internal", "dependency_channels": ["conda-forge"]})
    )
    return root / "internal"


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without credentials, configuration and caches."""
    for name in ("RATTLER_AUTH_FILE", "NETRC", "CONDARC"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "cache"))


def names(records: Any) -> set[str]:
    return {record["name"] for record in records}


def test_a_folder_in_each_spelling(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    url = folder.as_uri()
    for spelling in (str(folder), folder, "internal", "./internal", url, f"file:{folder}", f"{url}/"):
        assert open_reader(spelling).url == url


def test_settings_offer_and_labels(folder: Path) -> None:
    look = open_reader(folder).look("all")
    assert [arch.target for arch in look.offer.archs] == ["gfx90a", "gfx942"]
    assert look.offer.releases == ("7.0", "7.2") and look.settings.name == "internal"
    assert {"gfx942", "rocm-7.2", "gfx90a-rocm7.0"} <= look.labels and len(look.labels) == 8
    assert look.names == {"amdgpu-arch", "rocm-userspace", "vllm-rocm"}
    assert open_reader(folder).look(["gfx942", "gfx1100"]).labels == {"gfx942"}


@pytest.mark.parametrize("way", FORMS)
def test_install_by_address_with_a_credential(
    folder: Path, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "credentials.json").write_text(json.dumps(FORMS[way](TOKEN)))
    monkeypatch.setenv("RATTLER_AUTH_FILE", str(tmp_path / "credentials.json"))
    with guarded(folder, way, TOKEN) as server:
        words = ("install", "--channel", server.url, *HERE, "--prefix", tmp_path / "env", "vllm-rocm")
        done = rocm_channel(*words, "--json")
    packages = answer(done)["packages"]
    assert names(packages) == {"vllm-rocm", "amdgpu-arch", "rocm-userspace"}
    assert "gfx942" in next(one["build"] for one in packages if one["name"] == "vllm-rocm")
    assert (tmp_path / "env" / "share" / "vllm-rocm.txt").is_file() and server.refused == []
    written = "".join(path.read_text() for path in (tmp_path / "env" / "conda-meta").glob("*.json"))
    assert TOKEN not in done.stdout + done.stderr + written


@pytest.mark.parametrize("token", [WRONG, None])
def test_no_credential_or_a_wrong_one_is_refused_as_such(
    folder: Path, token: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if token:
        (tmp_path / "credentials.json").write_text(json.dumps(FORMS["bearer"](token)))
        monkeypatch.setenv("RATTLER_AUTH_FILE", str(tmp_path / "credentials.json"))
    with guarded(folder, "bearer", TOKEN) as server:
        done = rocm_channel(
            "install", "--channel", server.url, *HERE, "--prefix", tmp_path / "env", "vllm-rocm"
        )
    assert done.returncode == AccessError.exit_code
    assert "401" in done.stderr and "docs/access.md" in done.stderr and "Traceback" not in done.stderr
    assert WRONG not in done.stdout + done.stderr and not (tmp_path / "env").exists()


def test_a_token_in_the_address_works_and_is_not_shown(folder: Path, tmp_path: Path) -> None:
    with guarded(folder, "path", TOKEN) as server:
        url = f"{server.url}/t/{TOKEN}"
        words = ("install", "--channel", url, *HERE, "--prefix", tmp_path / "env")
        good = rocm_channel(*words, "vllm-rocm", "--json")
        bad = rocm_channel(*words, "no-such-package")
        shown = rocm_channel("arch", "--channel", url)
    assert answer(good)["packages"] and bad.returncode == 21 and shown.returncode == 0
    for done in (good, bad, shown):
        assert TOKEN not in done.stdout + done.stderr


def test_no_channel_there(folder: Path, counting: str) -> None:
    for url in (f"{folder.as_uri()}/nothing", f"{counting}/linux-64"):
        with pytest.raises(ChannelError, match="no channel"):
            open_reader(url).look()


class _Counting(http.server.SimpleHTTPRequestHandler):
    """Counts files that were sent whole."""

    sent: ClassVar[Counter[str]] = Counter()
    cache: ClassVar[str | None] = None

    def end_headers(self) -> None:
        if self.cache:
            self.send_header("Cache-Control", self.cache)
        super().end_headers()

    def send_response(self, code: int, message: str | None = None) -> None:
        if code == 200 and self.command == "GET":
            self.sent[self.path] += 1
        super().send_response(code, message)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def counting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(_Counting, "sent", Counter())

    def handler(*args: Any) -> _Counting:
        return _Counting(*args, directory=str(folder))

    with listening(handler) as address:
        yield address


def test_no_index_is_fetched_twice(counting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the offer and solving are two processes with one cache; headers as docs/channel.md says."""
    monkeypatch.setattr(_Counting, "cache", "public, max-age=300")
    prepared = prepare(open_reader(counting), ["vllm-rocm"], prefix=tmp_path / "env", host=MACHINE)
    assert names(prepared.records) == {"vllm-rocm", "amdgpu-arch", "rocm-userspace"}
    index = {path: count for path, count in _Counting.sent.items() if "repodata" in path or "shard" in path}
    assert index and max(index.values()) == 1, index
    assert prepared.look.settings.dependency_channels == ("conda-forge",)


def test_a_server_whose_304_py_rattler_takes_for_an_error(
    counting: str, folder: Path, tmp_path: Path
) -> None:
    """Its shards are asked for again, whole; conda/rattler issue 2719."""
    for path in folder.rglob("repodata*"):
        path.touch()
    for _ in range(2):
        prepare(open_reader(counting), ["vllm-rocm"], rocm="7.2", arch="gfx942", host=MACHINE)


def test_s3(folder: Path, s3_server: S3Server, tmp_path: Path) -> None:  # noqa: F811
    bucket, client = s3_server.bucket(), s3_server.client()
    for path in folder.rglob("*"):
        if path.is_file() and ".channel" not in path.parts:
            client.upload_file(str(path), bucket, f"internal/{path.relative_to(folder)}")
    url = f"s3://{bucket}/internal"
    words = ("install", "--channel", url, *HERE, "--prefix", tmp_path / "env", "vllm-rocm", "--json")
    done = rocm_channel(*words, **s3_server.environment)
    assert all(one["url"].startswith(url) for one in answer(done)["packages"])
    assert (tmp_path / "env" / "share" / "vllm-rocm.txt").is_file()
    assert open_reader(url).look().settings.name == "internal"
    missing = rocm_channel(
        "install", "--channel", f"s3://{bucket}/no", *HERE, "--dry-run", "x", **s3_server.environment
    )
    assert missing.returncode in (ChannelError.exit_code, AccessError.exit_code)
    assert "Traceback" not in missing.stderr


def test_owning_an_address() -> None:
    reader = Reader("https://h.example.com/internal", None)
    for url in (
        "https://h.example.com/internal/linux-64/a.conda",
        "https://u:p@H.example.com/t/tk-1/internal/label/x",
    ):
        assert reader.owns(url)
    for url in (
        "https://h.example.com/internal2/linux-64/a.conda",
        "http://h.example.com/internal/a",
        "https://x/a",
    ):
        assert not reader.owns(url)
    assert Reader("https://h.example.com/t/tk-2/internal", None).owns(
        "https://h.example.com/internal/noarch/a.conda"
    )


def kfd(root: Path, *versions: int, simds: int = 912) -> RecordedHost:
    """A host with GPUs of these ``gfx_target_version``."""
    for number, version in enumerate((0, *versions)):
        node = root / "sys/class/kfd/kfd/topology/nodes" / str(number)
        node.mkdir(parents=True)
        size = simds if version else 0
        node.joinpath("properties").write_text(
            f"simd_count {size}\nsimd_per_cu 4\ngfx_target_version {version}\ndrm_render_minor 128\n"
        )
    return RecordedHost(root, Record())


def test_hosts_by_the_kernels_topology(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCM_BOOTSTRAP_FORCE_GFX_ARCH", raising=False)
    many = kfd(tmp_path / "many", *[90010] * 10, 90402)
    archs = [str(arch) for arch in detect_host(many).archs]
    assert archs == ["gfx90a (ISA 9.0.10)", "gfx942 (ISA 9.4.2)"]
    assert detect_host(kfd(tmp_path / "none")).archs == ()
    host = detect_host(kfd(tmp_path / "one", 90402))
    assert [(gpu.target, gpu.compute_units) for gpu in host.gpus] == [("gfx942", 228)]


@pytest.mark.parametrize(
    ("version", "target"), [(130100, "gfx1310"), (91011, "gfx9ab"), (1000000, "gfx10000")]
)
def test_a_gpu_that_nobody_knows_is_refused_by_its_number(
    folder: Path, tmp_path: Path, version: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROCM_BOOTSTRAP_FORCE_GFX_ARCH", raising=False)
    archs = detect_host(kfd(tmp_path / "host", version)).archs
    with pytest.raises(ArchRefusedError, match=target) as error:
        select(open_reader(folder).look().offer, Host(archs, "7.2", None), "ch")
    assert error.value.exit_code == 50


def test_a_forced_target_that_is_none_is_no_traceback(folder: Path) -> None:
    done = rocm_channel(
        *("install", "--channel", folder, "--dry-run", "vllm-rocm"),
        ROCM_BOOTSTRAP_FORCE_GFX_ARCH="gfx942,gfx9zz",
    )
    assert done.returncode == 50 and "gfx9zz" in done.stderr and "Traceback" not in done.stderr


def test_a_channel_without_anything_for_gpus(tmp_path: Path) -> None:
    from tests.integration.solve_cases import index
    from tests.integration.tiny_packages import tiny_package

    tiny_package(tmp_path / "other", "python", "3.12.9", "0")
    index([tmp_path / "other"])
    with pytest.raises(ChannelError, match="no amdgpu-arch"):
        prepare(open_reader(tmp_path / "other"), ["python"], host=MACHINE)


def test_rocm_is_refused_by_release(folder: Path) -> None:
    with pytest.raises(RocmRefusedError, match=r"6\.4"):
        prepare(open_reader(folder), ["vllm-rocm"], host=Host(MACHINE.archs, "6.4", Path("/opt/rocm")))


@pytest.mark.parametrize("client", ["conda", "mamba", "micromamba", "pixi", "rocm-channel"])
def test_arch_shows_a_command_for_each_client(folder: Path, client: str) -> None:
    reader = open_reader(folder)
    look = reader.look("all")
    found = report(MACHINE, reader, look, [client])
    assert found.arch == GFX942 and found.rocm == "7.2" and found.reasons == ()
    declared = [command for _, purpose, command in found.commands if "declared" in purpose]
    assert len(declared) == 1
    if client == "rocm-channel":
        assert declared[0].endswith("-c conda-forge --arch gfx942 --rocm 7.2 --prefix ./rocm vllm-rocm")
        assert found.commands[0][2].endswith("-c conda-forge --prefix ./rocm vllm-rocm")
    else:
        label, main = (
            declared[0].index("/label/gfx942-rocm7.2"),
            declared[0].index("/internal -c conda-forge"),
        )
        assert label < main


def test_arch_of_hosts_that_nothing_fits(folder: Path) -> None:
    reader = open_reader(folder)
    look = reader.look("all")
    other = lookup("gfx1100")
    assert other is not None
    for host, words in (
        (Host((), None, None), "no AMD GPU"),
        (Host((other,), "7.2", Path("/opt/rocm")), "nothing there is built for gfx1100"),
        (Host(MACHINE.archs, "6.4", Path("/opt/rocm")), "ROCm 6.4 is not on offer"),
    ):
        found = report(host, reader, look, ["conda"])
        assert words in " ".join(found.reasons) and found.commands
        assert "for this host, found by itself" not in " ".join(found.lines)


def test_arch_as_a_command(folder: Path) -> None:
    data = answer(rocm_channel("arch", "--channel", folder, "--json", ROCM_BOOTSTRAP_FORCE_GFX_ARCH="gfx942"))
    assert data["version"] == 1 and data["archs"] == ["gfx942"] and data["chosen"]["arch"] == "gfx942"
    assert data["offer"]["archs"] == ["gfx90a", "gfx942"] and len(data["offer"]["labels"]) == 8
    alone = rocm_channel("arch", ROCM_BOOTSTRAP_DISABLE_DETECTION="1")
    assert alone.returncode == 0 and "GPU: none" in alone.stdout


@pytest.mark.parametrize("name", NAMES)
def test_no_recorded_machine_ends_in_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renamed nodes, files that cannot be read, virtual machines, partitions: a list of archs, or none."""
    for variable in ("ROCM_BOOTSTRAP_FORCE_GFX_ARCH", "ROCM_BOOTSTRAP_DISABLE_DETECTION"):
        monkeypatch.delenv(variable, raising=False)
    for closed in make_host(name, tmp_path):
        if closed.is_file():  # as root reads whatever has a mode, something that nobody can read as a file
            closed.unlink()
            closed.mkdir()
    host = detect_host(RecordedHost(tmp_path, Record()))
    assert all(arch.target.startswith("gfx") and arch.isa.count(".") == 2 for arch in host.archs)
    assert {gpu.target for gpu in host.gpus} == {arch.target for arch in host.archs}


def test_arch_of_a_host_with_two_kinds_says_what_others_take(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROCM_BOOTSTRAP_FORCE_GFX_ARCH", raising=False)
    for number, (version, simds) in enumerate(((90402, 1216), (90010, 416))):
        node = tmp_path / "sys/class/kfd/kfd/topology/nodes" / str(number + 1)
        node.mkdir(parents=True)
        node.joinpath("properties").write_text(
            f"simd_count {simds}\nsimd_per_cu 4\ngfx_target_version {version}\n"
        )
    reader = open_reader(folder)
    found = report(detect_host(RecordedHost(tmp_path, Record())), reader, reader.look("all"), ["conda"])
    assert found.arch is None and "take gfx942, which has most compute units" in " ".join(found.reasons)
    assert len([one for one in found.commands if "declared" in one[1]]) == 2


def test_the_channel_that_cannot_be_read_is_named(folder: Path, tmp_path: Path) -> None:
    words = ("install", "--channel", folder, *HERE, "--prefix", tmp_path / "env", "vllm-rocm")
    for further in ("./not-there", tmp_path / "not-there"):
        done = rocm_channel(*words, "-c", further, cwd=tmp_path)
        assert done.returncode == 40 and "address given by -c" in done.stderr
        assert done.stderr.startswith(f"error: {(tmp_path / 'not-there').as_uri()}: is no channel")


def test_a_folder_with_other_files_is_left_alone(folder: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "home-of-somebody"
    prefix.mkdir()
    (prefix / "thesis.tex").touch()
    words = ("install", "--channel", folder, *HERE, "--prefix", prefix, "vllm-rocm")
    done = rocm_channel(*words)
    assert done.returncode == 41 and "thesis.tex" in done.stderr
    assert [one.name for one in prefix.iterdir()] == ["thesis.tex"]
    (prefix / "thesis.tex").unlink()
    assert rocm_channel(*words).returncode == 0, "an empty folder will do"
    assert rocm_channel(*words).returncode == 0, "and so will an environment"
