"""Which label and which virtual packages a host gets, and who is refused with what words."""

from __future__ import annotations

from pathlib import Path

import pytest

from channel_tools.client.host import Host, detect_rocm, read_release
from channel_tools.client.reader import Offer
from channel_tools.client.selection import select
from channel_tools.model.arch import Arch, lookup
from channel_tools.model.errors import ArchRefusedError, RocmRefusedError

GFX90A, GFX942 = Arch("gfx90a", "9.0.10"), Arch("gfx942", "9.4.2")
OFFER = Offer((GFX90A, GFX942), ("7.0", "7.2"))


def host(*targets: str, rocm: str | None = "7.2") -> Host:
    archs = tuple(found for target in targets if (found := lookup(target)))
    return Host(archs, rocm, Path("/opt/rocm") if rocm else None)


def test_a_known_gpu_and_release_become_virtual_packages() -> None:
    chosen = select(OFFER, host("gfx942"), "ch")
    assert chosen.label is None
    assert chosen.virtual == (
        ("__amdgpu", "0", "0"),
        ("__amdgpu_arch", "9.4.2", "0"),
        ("__rocm_userspace", "7.2", "0"),
    )


@pytest.mark.parametrize(
    ("arch", "rocm", "label", "virtual"),
    [
        ("gfx942", "7.2", "gfx942-rocm7.2", []),
        ("gfx90a", None, "gfx90a", ["__rocm_userspace"]),
        (None, "7.0", "rocm-7.0", ["__amdgpu", "__amdgpu_arch"]),
    ],
)
def test_what_is_declared_comes_from_a_label_not_from_the_host(
    arch: str | None, rocm: str | None, label: str, virtual: list[str]
) -> None:
    chosen = select(OFFER, host("gfx942"), "ch", arch, rocm)
    assert chosen.label == label
    assert [package[0] for package in chosen.virtual] == virtual


def test_an_integrated_gpu_beside_one_on_offer_does_not_confuse() -> None:
    assert ("__amdgpu_arch", "9.0.10", "0") in select(OFFER, host("gfx1036", "gfx90a"), "ch").virtual


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (
            ["gfx1100"],
            ["gfx1100 (ISA 11.0.0)", "gfx90a (ISA 9.0.10), gfx942 (ISA 9.4.2)", "--arch", "variants/"],
        ),
        (["gfx950"], ["gfx950 (ISA 9.5.0)", "gfx942"]),
        ([], ["no AMD GPU", "gfx942", "--arch"]),
        (["gfx90a", "gfx942"], ["several archs", "--arch gfx90a"]),
    ],
)
def test_an_unknown_or_foreign_gpu_is_refused_by_name(targets: list[str], words: list[str]) -> None:
    with pytest.raises(ArchRefusedError) as refused:
        select(OFFER, host(*targets), "ch")
    for word in words:
        assert word in str(refused.value)
    assert refused.value.exit_code == 50


def test_a_declared_arch_that_nothing_is_built_for_is_refused() -> None:
    with pytest.raises(ArchRefusedError, match="no package is built for gfx1100") as error:
        select(OFFER, host("gfx942"), "ch", arch="gfx1100")
    assert "add gfx1100 to variants/" in str(error.value)
    for name in ("gfx9999", "gfx942:xnack+", "GFX942", ""):
        with pytest.raises(ArchRefusedError, match="is no AMD GPU target") as error:
            select(OFFER, host("gfx942"), "ch", arch=name)
        assert "variants" not in str(error.value), "nobody can build for it"


@pytest.mark.parametrize("rocm", ["6.4", "7.1", "10.0", None])
def test_another_rocm_or_none_is_refused_with_the_ways_out(rocm: str | None) -> None:
    with pytest.raises(RocmRefusedError) as refused:
        select(OFFER, host("gfx942", rocm=rocm), "ch")
    text = str(refused.value)
    assert "ROCm 7.0 or 7.2" in text and "--rocm 7.2" in text
    assert (rocm or "no ROCm was found") in text
    assert refused.value.exit_code == 51


def test_declaring_something_else_than_the_host_has_is_said() -> None:
    notes = " ".join(select(OFFER, host("gfx90a", rocm="7.0"), "ch", "gfx942", "7.2").notes)
    assert "this host has gfx90a" in notes and "ROCm 7.0" in notes


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("7.2.3-123\n", "7.2"),
        ("7.0.0", "7.0"),
        ("10.0", "10.0"),
        ("7.14.1+git\n", "7.14"),
        ("", None),
        ("x", None),
    ],
)
def test_release_of_a_rocm_root(tmp_path: Path, text: str, release: str | None) -> None:
    (tmp_path / ".info").mkdir()
    (tmp_path / ".info" / "version").write_text(text)
    assert read_release(tmp_path) == release


def test_rocm_path_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".info").mkdir()
    (tmp_path / ".info" / "version").write_text("7.0.2-9\n")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    assert detect_rocm() == ("7.0", tmp_path)
