"""What the channel page says of builds: variants, order, verdicts, commands. The browser is elsewhere."""

from __future__ import annotations

import re
from typing import Any

import pytest

from channel_tools.channel.care.yanked import Yanked
from channel_tools.channel.index.encoding import SubdirIndex
from channel_tools.channel.page.builds import Variant, gather, plain
from channel_tools.channel.page.commands import Machine, machines
from channel_tools.channel.page.matrix import tables
from channel_tools.channel.settings import Settings
from tests.integration.page_channel import PageChannel, stack_channel

KNOWN = {"u.conda": {"name": "rocm-userspace", "version": "7.14", "build": "system_detected_0"}}


def variant_of(build: str, depends: Any = (), known: dict[str, Any] | None = None) -> Variant:
    record = {"name": "x", "version": "1", "build": build, "depends": depends}
    index = SubdirIndex(key="linux-64", records={"x.conda": record, **(known or {})})
    (found,) = (b for b in gather({"linux-64": index}, Yanked(), [])[None] if b.name == "x")
    return found.variant


@pytest.mark.parametrize(
    ("build", "depends", "wanted"),
    [
        ("rocm72_gfx942_py312_h1a2b3c4_0", (), Variant("gfx942", "7.2", "3.12")),
        ("rocm70_gfx90a_h1a2b3c4_3", (), Variant("gfx90a", "7.0", None)),
        ("rocm72_py313_h1a2b3c4_0", (), Variant(None, "7.2", "3.13")),
        ("rocm_py312_h1a2b3c4_0", (), Variant(None, None, "3.12")),
        ("h1a2b3c4_0", (), Variant()),
        ("rocm714_gfx942_h1_0", (), Variant("gfx942", "7.14", None)),
        ("rocm100_gfx942_h1_0", (), Variant("gfx942", "10.0", None)),
        ("rocm714_gfx942_h1_0", ["rocm-userspace 7.14.*"], Variant("gfx942", "7.14", None)),
        ("rocm101_gfx942_h1_0", ["rocm-userspace ==1.01"], Variant("gfx942", "1.01", None)),
        ("gfxbogus_rocm_py_", "no list", Variant()),
    ],
)
def test_variant_of_a_build_string(build: str, depends: Any, wanted: Variant) -> None:
    assert variant_of(build, depends) == wanted


def test_digits_of_a_release_are_read_as_the_channel_spells_it() -> None:
    assert variant_of("rocm714_gfx942_h1_0", known=KNOWN).rocm == "7.14"


def test_verdict_counts_for_the_same_bytes_only() -> None:
    channel = PageChannel(Settings())
    key = channel.add("linux-64", "x", "1", "rocm72_gfx942_h1_0")
    channel.release("r", [key])
    subdir, file = key.split("/")
    before = gather(channel.indexes(), channel.yanked, channel.releases)[None][0]
    channel.records[subdir][file]["sha256"] = "0" * 64
    after = gather(channel.indexes(), channel.yanked, channel.releases)[None][0]
    assert (before.verdict, after.verdict) == ("pass", None)


def test_newest_is_by_version_then_build_number_and_never_yanked() -> None:
    channel = PageChannel(Settings())
    for version, number in (("0.9", 0), ("0.10", 0), ("0.10", 2), ("0.10", 10), ("not a version", 99)):
        channel.add("linux-64", "x", version, f"rocm72_gfx942_h1_{number}")
    last = channel.add("linux-64", "x", "0.11", "rocm72_gfx942_h1_0")
    channel.yank(last, "bad")
    (row,) = tables(gather(channel.indexes(), channel.yanked, [])[None])[0].rows
    (place,) = row.cells[0]
    assert place.shown is not None
    assert (place.shown.version, place.shown.number) == ("0.10", 10)
    assert [build.version for build in place.yanked] == ["0.11"]
    assert [(b.version, b.number) for b in row.older] == [
        ("0.10", 2),
        ("0.10", 0),
        ("0.9", 0),
        ("not a version", 99),
    ]


def test_removed_without_an_entry_is_shown_as_yanked() -> None:
    index = SubdirIndex(key="linux-64", removed=frozenset({"x-y-1.0-rocm72_gfx942_h1_0.conda"}), exists=True)
    (build,) = gather({"linux-64": index}, Yanked(), [])[None]
    assert (build.name, build.version, build.variant.arch) == ("x-y", "1.0", "gfx942")
    assert build.yank is not None and build.yank.reason == "no reason is recorded"


def offered(channel: PageChannel) -> dict[str, Machine]:
    found = gather(channel.indexes(), channel.yanked, [])
    labels = {label: builds for label, builds in found.items() if label}
    made = machines(channel.settings, labels, ["gfx90a", "gfx942"], ["7.2", "7.0"], found[None])
    return {machine.title: machine for machine in made}


def test_only_machines_with_a_label_get_commands() -> None:
    channel = PageChannel(Settings(url="https://h/c/"))
    for arch in ("gfx90a", "gfx942"):
        channel.add("linux-64", "p", "1", f"rocm72_{arch}_h1_0")
    for name in ("amdgpu-arch", "rocm-userspace"):
        channel.add("label/gfx942-rocm7.2/linux-64", name, "7.2", "x_declared_0")
    assert list(offered(channel)) == ["gfx942, ROCm 7.2"]
    texts = [command.text for command in offered(channel)["gfx942, ROCm 7.2"].commands]
    assert all("https://h/c/label/gfx942-rocm7.2 -c https://h/c " in text for text in texts[:4])


def keys_of(channel: PageChannel, *words: str) -> list[str]:
    keys = [f"{subdir}/{file}" for subdir, files in channel.records.items() for file in files]
    return [key for key in keys if all(word in key for word in words)]


def test_only_packages_with_a_build_that_is_not_yanked_are_offered() -> None:
    channel = stack_channel()
    for key in keys_of(channel, "linux-64/vllm-rocm", "rocm72_gfx90a"):
        channel.yank(key, "bad")
    found = offered(channel)
    one, other = found["gfx90a, ROCm 7.2"], found["gfx942, ROCm 7.2"]
    assert (
        one.packages == ("amdsmi", "pytorch-rocm", "rocm-canary", "triton") and one.package == "pytorch-rocm"
    )
    assert all(command.text.endswith(" pytorch-rocm") for command in one.commands)
    assert other.package == found["GPU found by the client, ROCm 7.2"].package == "vllm-rocm"
    page = channel.page().decode()
    numbers = {name: m.split() for name, m in re.findall(r'<option value="([^"]+)" data-m="([\d ]+)"', page)}
    assert "1" not in numbers["vllm-rocm"] and "1" in numbers["pytorch-rocm"] and "2" in numbers["vllm-rocm"]


@pytest.mark.parametrize("words", [("linux-64/", "rocm72_"), ("label/gfx90a-rocm7.2/", "amdgpu-arch")])
def test_a_machine_whose_builds_or_label_are_all_yanked_is_not_offered(words: tuple[str, str]) -> None:
    channel = stack_channel()
    assert "gfx90a, ROCm 7.2" in offered(channel)
    for key in [*keys_of(channel, *words), *keys_of(channel, "noarch/triton")]:
        channel.yank(key, "bad")
    assert "gfx90a, ROCm 7.2" not in offered(channel) and "gfx90a, ROCm 7.0" in offered(channel)


def test_a_channel_with_everything_yanked_has_no_commands() -> None:
    channel = stack_channel()
    for key in keys_of(channel, ""):
        channel.yank(key, "bad")
    assert 'id="install"' not in channel.page().decode()


LEGEND = re.compile(r'<tr><th scope="row"><span class="b[^>]*>([^<]+)</span></th>')


@pytest.mark.parametrize(
    ("attestations", "attested", "verified", "wanted"),
    [
        ("off", False, True, ["verified"]),
        ("off", True, False, ["no verdict", "attested"]),
        ("warn", False, True, ["verified", "not attested"]),
        ("require", True, True, ["verified", "attested"]),
    ],
)
def test_the_legend_has_the_words_that_the_page_uses(
    attestations: Any, attested: bool, verified: bool, wanted: list[str]
) -> None:
    channel = PageChannel(Settings(attestations=attestations))
    more = {"attestations_sha256": "ab" * 32} if attested else {}
    key = channel.add("linux-64", "x", "1", "rocm72_gfx942_h1_0", **more)
    if verified:
        channel.release("r", [key])
    page = channel.page().decode()
    assert LEGEND.findall(page) == wanted
    assert ("not attested" in page) == ("not attested" in wanted)


def test_same_channel_gives_the_same_bytes() -> None:
    assert stack_channel().page() == stack_channel().page()


def test_plain_text() -> None:
    assert plain("a\x00b\u202ec\n d", 10) == "a\ufffdb\ufffdc d"
    assert plain("x" * 50, 10) == "x" * 9 + "…"
    assert plain(None) == plain(["x"]) == ""
    assert not re.search(r"\s{2}", plain("a \t\n b"))
