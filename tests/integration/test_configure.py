"""Configuration files: what is written, what stays, what comes back; and names that lead to the channel."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
import tomlkit
import yaml
from hypothesis import given
from hypothesis import strategies as st

from channel_tools import rattler_process
from channel_tools.client.channel_order import merge_order
from channel_tools.client.configuring import backup as config_backup
from channel_tools.client.configuring.channel_names import (
    ChannelNames,
    configuration_files,
    is_name,
    read_names,
)
from channel_tools.client.configuring.configure import Plan, plan, wanted_of
from channel_tools.client.reader import open_dependency, open_reader
from channel_tools.model.errors import ArchRefusedError, ChannelError, ChannelToolsError
from tests.integration.helpers import answer, rocm_channel
from tests.integration.solve_cases import SCENES, index, make_channels

URL = "https://conda.example.com/team/internal"
LABEL = "label/gfx942-rocm7.2"
CONDARC = """\
# my settings
channels:
  - bioconda   # keep this
  - conda-forge
  # last one
  - defaults
channel_priority: flexible  # hm
custom_channels:
  other: https://other.example.com   # theirs
ssl_verify: "/etc/ssl/company.pem"
channel_settings:
- channel: https://conda.example.com/*
  auth: conda-auth
"""
PIXI = """\
# ws
[workspace]
name = "x"  # n
channels = [
  # forge
  "conda-forge", # cf
  { channel = "bioconda", priority = -1 },
] # end
platforms = ["linux-64", "osx-arm64"] # p

[tasks]
a = "b"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without configuration."""
    for name in ("CONDARC", "CONDA_ROOT", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)
    return folder


def made(client: str = "conda", file: Path | None = None, url: str = URL, **more: object) -> Plan:
    options = {"arch": "gfx942", "rocm": "7.2", **more}
    return plan(wanted_of(url, client, **options), file)  # type: ignore[arg-type]


def test_a_new_condarc(home: Path) -> None:
    config_backup.apply(made())
    assert yaml.safe_load((home / ".condarc").read_text()) == {
        "channels": [f"internal/{LABEL}", "internal", "conda-forge"],
        "custom_channels": {"internal": "https://conda.example.com/team"},
        "channel_priority": "strict",
    }


def test_only_what_must_change_changes(home: Path) -> None:
    (home / ".condarc").write_text(CONDARC)
    after = made().after
    assert set(CONDARC.splitlines()) - set(after.splitlines()) == {"channel_priority: flexible  # hm"}
    data = yaml.safe_load(after)
    assert data["channels"] == [f"internal/{LABEL}", "internal", "bioconda", "conda-forge", "defaults"]
    assert data["channel_priority"] == "strict"
    assert data["custom_channels"] == {
        "other": "https://other.example.com",
        "internal": "https://conda.example.com/team",
    }


def test_twice_is_once_and_another_arch_takes_the_label_away(home: Path) -> None:
    (home / ".condarc").write_text(CONDARC)
    config_backup.apply(made())
    assert not made().changes
    other = made(arch="gfx90a")
    assert yaml.safe_load(other.after)["channels"][:2] == ["internal/label/gfx90a-rocm7.2", "internal"]
    assert "gfx942" not in other.after
    assert f"internal/{LABEL} is no longer in front" in other.notes
    undeclared = made(arch=None, rocm=None)
    assert yaml.safe_load(undeclared.after)["channels"][0] == "internal"
    assert any("conda-amdgpu-arch" in note for note in undeclared.notes)


def test_a_new_file_is_whole_at_once(home: Path) -> None:
    config_backup.apply(made())
    assert not made().changes, "not even an empty line"


def test_it_warns_of_the_public_name(home: Path) -> None:
    assert any("public channel of that name" in note and "anybody" in note for note in made().notes)
    assert any("mamba does not find" in note for note in made("mamba", arch=None).notes)


def test_undo_gives_back_every_byte_and_mode(home: Path) -> None:
    file = home / ".condarc"
    file.write_text(CONDARC)
    file.chmod(0o600)
    for arch in ("gfx942", "gfx90a"):
        config_backup.apply(made(arch=arch))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (kept,) = list(home.glob(".*rocm-channel-undo"))
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600, "it may hold credentials"
    config_backup.undo(file)
    assert "gfx942" in file.read_text()
    config_backup.undo(file)
    assert file.read_text() == CONDARC and not kept.exists()
    with pytest.raises(ChannelToolsError, match="nothing"):
        config_backup.undo(file)


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("conda", CONDARC),
        ("conda", "channels:\n- conda-forge\n"),
        ("pixi", PIXI),
        ("environment", "name: a\ndependencies:\n- numpy\n"),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test_line_ends_of_windows_stay(home: Path, client: str, text: str, mark: str) -> None:
    if mark and client == "pixi":
        pytest.skip("TOML has no byte order mark")
    file = home / "configuration"
    before = (mark + text).replace("\n", "\r\n").encode()
    file.write_bytes(before)
    config_backup.apply(made(client, file))
    after = file.read_bytes()
    assert b"gfx942" in after and after.count(b"\n") == after.count(b"\r\n")
    assert not made(client, file).changes
    config_backup.undo(file)
    assert file.read_bytes() == before


@pytest.mark.parametrize("text", [None, CONDARC])
def test_a_change_that_was_noted_and_never_made_is_not_in_the_way(
    home: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    file = home / ".condarc"
    if text is not None:
        file.write_text(text)
    config_backup.apply(made())
    write = config_backup._write

    def dies(path: Path, *rest: object) -> None:
        if path == file:
            raise KeyboardInterrupt
        write(path, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(config_backup, "_write", dies)
        config_backup.apply(made(arch="gfx90a"))
    config_backup.undo(file)
    assert (file.read_text() if file.exists() else None) == text
    assert list(home.glob("*undo")) == []
    config_backup.apply(made())
    config_backup.undo(file)
    assert (file.read_text() if file.exists() else None) == text


def test_undo_of_a_new_file_removes_it_and_leaves_edited_ones(home: Path) -> None:
    file = home / ".condarc"
    config_backup.apply(made())
    config_backup.undo(file)
    assert list(home.iterdir()) == []
    config_backup.apply(made())
    edited = file.read_text() + "always_yes: true\n"
    file.write_text(edited)
    with pytest.raises(ChannelToolsError, match="edited since"):
        config_backup.undo(file)
    assert file.read_text() == edited


def test_a_link_to_a_file_elsewhere_stays_a_link(home: Path) -> None:
    real = home / "dotfiles" / "condarc"
    real.parent.mkdir()
    real.write_text(CONDARC)
    (home / ".condarc").symlink_to(real)
    config_backup.apply(made())
    assert (home / ".condarc").is_symlink() and "internal" in real.read_text()
    config_backup.undo(home / ".condarc")
    assert real.read_text() == CONDARC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing here\n",
        "---\nchannels: []\n",
        "channels:\n- conda-forge\n",
        "channels: [conda-forge]\n",
    ],
)
def test_odd_files_are_edited(home: Path, text: str) -> None:
    (home / ".condarc").write_text(text)
    after = made().after
    assert yaml.safe_load(after)["channels"] == [f"internal/{LABEL}", "internal", "conda-forge"]
    assert all(line in after for line in text.splitlines() if line.startswith(("#", "---")))


@pytest.mark.parametrize(
    "text", ["channels: 7\n", "- a\n", "channels: [a\n", "custom_channels: [x]\n", "\x00", "a: b: c\n"]
)
def test_files_of_another_form_are_left_alone(home: Path, text: str) -> None:
    (home / ".condarc").write_text(text)
    with pytest.raises(ChannelToolsError) as error:
        made()
    assert ".condarc" in str(error.value) and (home / ".condarc").read_text() == text


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        (URL, {"name": "ours"}, "cannot be called ours"),
        ("https://conda.example.com/conda-forge", {}, "public channel"),
        ("https://user:secret1@conda.example.com/internal", {}, "credential"),
        ("https://conda.example.com/t/tk-123456/internal", {}, "credential"),
        ("conda.example.com/internal", {}, "no address"),
        (URL, {"client": "pixi", "rocm": None}, "ROCm release"),
        (URL, {"check_host": True}, "--check-host"),
        (URL, {"client": "npm"}, "no client"),
        (f"{URL}?x=1", {}, "no address of a channel"),
        (f"{URL}#x", {}, "no address of a channel"),
        ("https://conda.example.com/", {}, "no address of a channel"),
        ("file:///", {}, "no address"),
        (f"{URL}/{LABEL}", {}, f"--channel {URL};"),
        (URL, {"rocm": "7.2.1"}, "7.2.1 is no ROCm release"),
        (URL, {"rocm": "seven"}, "no ROCm release"),
    ],
)
def test_what_cannot_be_is_refused(url: str, more: dict[str, object], words: str) -> None:
    with pytest.raises(ChannelToolsError, match=words) as error:
        made(**{"url": url, **more})  # type: ignore[arg-type]
    assert "secret1" not in str(error.value) and "tk-123456" not in str(error.value)


def test_an_arch_that_is_none_is_refused() -> None:
    with pytest.raises(ArchRefusedError):
        made(arch="gfx94x")


def test_names_of_several_parts() -> None:
    after = made(name="team/internal").after
    assert yaml.safe_load(after)["custom_channels"] == {"team/internal": "https://conda.example.com"}
    assert yaml.safe_load(after)["channels"][0] == f"team/internal/{LABEL}"


def test_credentials_of_other_lines_do_not_show_in_the_difference(home: Path) -> None:
    (home / ".condarc").write_text("channels:\n  - https://c.example.com/t/tk-998877aa/x\n  - conda-forge\n")
    shown = made()
    assert "tk-998877aa" in shown.after and "tk-998877aa" not in shown.diff


@pytest.mark.parametrize("client", ["conda", "environment"])
@pytest.mark.parametrize(
    "text",
    [
        "channels: [a\n",
        "channels:\n- !!python/object:os.system x\n",
        "channels:\n- a\nx: !Mine {y: 1}\n",
        "channels:\n- a\n---\nchannels:\n- b\n",
        "channels:\n- a\nchannels:\n- b\n",
        "channels:\n- *nobody\n",
    ],
)
def test_yaml_that_conda_would_not_read_is_refused(home: Path, client: str, text: str) -> None:
    file = home / "config.yml"
    file.write_text(text)
    with pytest.raises(ChannelToolsError, match="is no YAML"):
        made(client, file)
    assert file.read_text() == text


def test_pixi_keeps_comments_and_tables(home: Path) -> None:
    (home / "pixi.toml").write_text(PIXI)
    after = made("pixi", check_host=True).after
    lost = set(PIXI.splitlines()) - set(after.splitlines())
    assert lost == {'platforms = ["linux-64", "osx-arm64"] # p'}
    workspace = tomlkit.parse(after).unwrap()["workspace"]
    assert workspace["channels"] == [
        f"{URL}/{LABEL}",
        URL,
        "conda-forge",
        {"channel": "bioconda", "priority": -1},
    ]
    assert workspace["platforms"] == [{"platform": "linux-64", "amdgpu": "gfx942"}, "osx-arm64"]
    (home / "pixi.toml").write_text(after)
    assert not made("pixi", check_host=True).changes


def taken(workspace: dict[str, Any]) -> list[str]:
    """Channels in the order in which pixi takes them."""
    entries = [one if isinstance(one, dict) else {"channel": one} for one in workspace["channels"]]
    return [one["channel"] for one in sorted(entries, key=lambda one: -one.get("priority", 0))]


@pytest.mark.parametrize(
    ("listed", "rest"),
    [
        ('[{ channel = "conda-forge", priority = 2 }]', ["conda-forge"]),
        ('["a", { channel = "b", priority = 7 }, "conda-forge"]', ["b", "a", "conda-forge"]),
        (f'["conda-forge", {{ channel = "{URL}", priority = -1 }}]', ["conda-forge"]),
        (f'["{URL}/{LABEL}", "{URL}", {{ channel = "conda-forge", priority = 1 }}]', ["conda-forge"]),
        (f'[{{ channel = "{URL}/label/gfx90a", priority = 9 }}, "conda-forge"]', ["conda-forge"]),
        (f'["{URL}/", {{ channel = "{URL}/{LABEL}", priority = 3 }}, "conda-forge"]', ["conda-forge"]),
        ('["conda-forge", { channel = "x", priority = -3 }]', ["conda-forge", "x"]),
    ],
)
def test_ours_comes_first_whatever_priorities_pixi_has(home: Path, listed: str, rest: list[str]) -> None:
    file = home / "pixi.toml"
    file.write_text(f'[workspace]\nname = "x"\nplatforms = ["linux-64"]\nchannels = {listed}\n')
    after = made("pixi").after
    assert taken(tomlkit.parse(after).unwrap()["workspace"]) == [f"{URL}/{LABEL}", URL, *rest]
    file.write_text(after)
    assert not made("pixi").changes


def test_features_with_channels_of_their_own_are_told(home: Path) -> None:
    feature = '[feature.cuda]\nchannels = ["nvidia"]\n[feature.plain]\nplatforms = ["linux-64"]\n'
    (home / "pixi.toml").write_text(PIXI + feature)
    assert [note for note in made("pixi").notes if "feature" in note and "cuda" in note]
    assert not [note for note in made("pixi").notes if "plain" in note]


def test_pixi_in_pyproject_and_without_a_workspace(home: Path) -> None:
    file = home / "pyproject.toml"
    file.write_text('[project]\nname = "x"\n\n[tool.pixi.workspace]\nchannels = ["conda-forge"]\n')
    workspace = tomlkit.parse(made("pixi", file).after).unwrap()["tool"]["pixi"]["workspace"]
    assert workspace["channels"] == [f"{URL}/{LABEL}", URL, "conda-forge"]
    file.write_text('[project]\nname = "x"\n')
    with pytest.raises(ChannelToolsError, match="no pixi workspace"):
        made("pixi", file)
    for key in ("channels", "platforms"):
        file.write_text(f'[tool.pixi.workspace]\n{key} = "linux-64"\n')
        with pytest.raises(ChannelToolsError, match=f"{key} is no list"):
            made("pixi", file, check_host=True)


def test_environment_yml_takes_channels_and_pins(home: Path) -> None:
    file = home / "environment.yml"
    file.write_text(
        "name: x\nchannels:\n  - conda-forge\ndependencies:\n  - amdgpu-arch=9.0.10  # gpu\n  - vllm-rocm\n"
    )
    data = yaml.safe_load(made("environment").after)
    assert data["channels"] == [f"{URL}/{LABEL}", URL, "conda-forge"]
    assert data["dependencies"] == ["amdgpu-arch=9.4.2", "rocm-userspace=7.2", "vllm-rocm"]
    assert "# gpu" in made("environment").after


NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join)


@given(st.dictionaries(NAMES, st.just("https://h.example.com/x"), max_size=5), NAMES)
def test_resolving_names_is_condas_rule(custom: dict[str, str], name: str) -> None:
    """The rule said another way: strip parts from the end until a name is known."""
    left = name
    while left and left not in custom:
        left = left.rpartition("/")[0]
    assert ChannelNames(custom).resolve(name) == (f"https://h.example.com/x/{name}" if left else None)


CHANNELS = st.lists(st.sampled_from(["o", "o/label/a", "o/label/b", "f", "x", "y"]), unique=True)


@given(CHANNELS, st.sampled_from([["o", "f"], ["o/label/a", "o", "f"], ["o/label/b", "o", "f", "x"]]))
def test_order_is_ours_first_and_others_as_they_were(present: list[str], wanted: list[str]) -> None:
    front, rest, _ = merge_order(present, wanted, ("o",))
    after = [*front, *(one for n, one in enumerate(present) if n not in rest)]
    own = [one for one in wanted if one.startswith("o")]
    assert after[: len(own)] == own and len(set(after)) == len(after)
    assert [one for one in after if one.startswith("o")] == own
    assert set(wanted) <= set(after)
    theirs = [one for one in present if not one.startswith("o")]
    assert [one for one in after if one in theirs] == theirs
    assert merge_order(after, wanted, ("o",)) == ([], [], [])


@pytest.mark.parametrize(("text", "name"), [("internal", True), ("a/b", True), ("./a", False), ("/a", False)])
def test_what_clients_take_for_a_name(text: str, name: bool) -> None:
    assert is_name(text) is name and not is_name("https://a/b") and not is_name("~/a")


def test_stronger_files_win(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".condarc").write_text("custom_channels:\n  internal: https://one.example.com\n")
    (home / "named").write_text(
        "custom_channels: {internal: 'https://two.example.com'}\nchannel_alias: https://a.b\n"
    )
    assert read_names().resolve("internal") == "https://one.example.com/internal"
    assert read_names().resolve("elsewhere") is None
    monkeypatch.setenv("CONDARC", str(home / "named"))
    assert configuration_files()[-1] == home / "named"
    assert read_names().resolve("internal") == "https://two.example.com/internal"
    assert read_names().resolve("elsewhere") == "https://a.b/elsewhere"


def test_a_name_without_configuration_is_refused_and_says_why() -> None:
    with pytest.raises(ChannelError, match="configure") as error:
        open_reader("internal")
    assert "public channel" in str(error.value)


def test_names_that_configure_wrote_lead_to_the_channel(home: Path, tmp_path: Path) -> None:
    """As the file says, resolved by conda's rule and solved with py-rattler; conda was not run."""
    ours, forge = make_channels(tmp_path / "made", SCENES[0])
    index([ours, forge])
    said = answer(
        rocm_channel(
            *("configure", "--channel", ours.as_uri(), "--arch", "gfx90a", "--rocm", "7.0", "--json"),
            HOME=str(home),
        )
    )
    assert said["changed"] and said["version"] == 1
    config = yaml.safe_load((home / ".condarc").read_text())
    urls = [open_dependency(name) for name in config["channels"]]
    assert urls == [f"{ours.as_uri()}/label/gfx90a-rocm7.0", ours.as_uri(), "conda-forge"]
    solve = {
        "channels": [*urls[:2], forge.as_uri()],
        "specs": ["vllm-rocm"],
        "virtual": [["__glibc", "2.39", "0"]],
    }
    (found,) = [one for one in rattler_process.call("solve", solve) if one["name"] == "vllm-rocm"]
    assert found["version"] == "0.16.0" and "_gfx90a_" in found["build"]
    assert open_reader("internal").url == ours.as_uri()
    words = (
        "install",
        "--channel",
        "internal",
        "-c",
        forge,
        "--arch",
        "gfx942",
        "--rocm",
        "7.2",
        "--dry-run",
    )
    packages = answer(rocm_channel(*words, "vllm-rocm", "--json", HOME=str(home), cwd=home))["packages"]
    assert {one["build"].split("_")[1] for one in packages if one["name"] == "vllm-rocm"} == {"gfx942"}


def test_command_dry_run_and_undo(home: Path) -> None:
    words = ("configure", "--channel", URL, "--arch", "gfx942", "--rocm", "7.2")
    dry = rocm_channel(*words, "--dry-run", HOME=str(home))
    assert dry.returncode == 0 and "+channel_priority: strict" in dry.stdout and not list(home.iterdir())
    assert rocm_channel(*words, HOME=str(home)).returncode == 0 and (home / ".condarc").exists()
    assert rocm_channel("configure", "--undo", HOME=str(home)).returncode == 0 and not list(home.iterdir())
    again = rocm_channel("configure", "--undo", HOME=str(home))
    assert again.returncode == 1 and "Traceback" not in again.stderr and "nothing" in again.stderr
