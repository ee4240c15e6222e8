from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channel_tools.verify.targets import (
    PROCESSOR_OF_MACH,
    Target,
    base_of,
    bundle_id_target,
    same_target,
)

SETTINGS = {None: 1, False: 2, True: 3}


@pytest.mark.parametrize(
    ("flags", "abi_version", "expected"),
    [
        (0x53F, 3, "gfx90a"),
        (0x54C, 3, "gfx942"),
        (0x73F, 3, "gfx90a:xnack+"),
        (0xE4C, 3, "gfx942:sramecc+:xnack-"),
        (0xE4C, 2, "gfx942:sramecc+:xnack-"),
        (0x0100055F, 4, "gfx9-4-generic"),
        (0x54F, 4, "gfx950"),
        (0x036, 3, "gfx1030"),
        (0x349, 4, "gfx1250"),
        (0x12F, 1, "gfx906:xnack+"),
        (0x22F, 1, "gfx906:sramecc+"),
        (0x32A, 0, "gfx803"),
        (0x000, 0, "unknown"),
    ],
)
def test_flags_of_each_code_object_version(flags: int, abi_version: int, expected: str) -> None:
    assert str(Target.from_flags(flags, abi_version)) == expected


@pytest.mark.parametrize("flags", [0x500, 0x527, 0x5FF])
def test_unknown_processor_number_is_refused(flags: int) -> None:
    with pytest.raises(ValueError, match="unknown"):
        Target.from_flags(flags, 3)


def test_every_processor_name_is_a_target_and_occurs_once() -> None:
    names = list(PROCESSOR_OF_MACH.values())
    assert len(set(names)) == len(names)
    assert [str(Target.parse(name)) for name in names] == names


@given(
    st.sampled_from(sorted(set(PROCESSOR_OF_MACH.values()) - {"gfx1250", "gfx1251", "gfx12-5-generic"})),
    st.sampled_from([None, False, True]),
    st.sampled_from([None, False, True]),
)
def test_text_and_flags_say_the_same(processor: str, sramecc: bool | None, xnack: bool | None) -> None:
    target = Target(processor, sramecc, xnack)
    mach = next(number for number, name in PROCESSOR_OF_MACH.items() if name == processor)
    flags = mach | SETTINGS[xnack] << 8 | SETTINGS[sramecc] << 10
    assert Target.parse(str(target)) == target
    assert Target.from_flags(flags, 3) == target


def test_features_may_come_in_any_order() -> None:
    assert Target.parse("gfx942:xnack-:sramecc+") == Target("gfx942", sramecc=True, xnack=False)
    assert same_target("gfx942:xnack-:sramecc+", Target("gfx942", True, False))
    assert not same_target("gfx942", Target("gfx942", True, False))
    assert not same_target("sm_90", Target("gfx942"))
    assert base_of("gfx942:sramecc+:xnack-") == "gfx942"


@pytest.mark.parametrize(
    "text", ["", "gfx", "sm_90", "gfx942:", "gfx942:xnack", "gfx942:wave64+", "gfx942:xnack+:xnack-"]
)
def test_text_that_is_no_target(text: str) -> None:
    with pytest.raises(ValueError, match="no GPU target"):
        Target.parse(text)


@pytest.mark.parametrize(
    ("bundle_id", "target"),
    [
        ("host-x86_64-unknown-linux--", None),
        ("host-x86_64-unknown-linux-gnu-", None),
        ("hipv4-amdgcn-amd-amdhsa--gfx942", "gfx942"),
        ("hip-amdgcn-amd-amdhsa--gfx942", "gfx942"),
        ("hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-"),
        ("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic", "gfx9-4-generic"),
        ("hip-amdgcn-amd-amdhsa-gfx900", "gfx900"),
        ("hip-spirv64-amd-amdhsa--amdgcnspirv", "amdgcnspirv"),
        ("openmp-amdgcn-amd-amdhsa--gfx90a", "gfx90a"),
        ("openmp-nvptx64-nvidia-cuda--sm_90", "sm_90"),
        ("sycl-amdgcn-amd-amdhsa--gfx90a", "gfx90a"),
        ("sycl-amdgcn-amd-amdhsa-gfx90a", "gfx90a"),
        ("sycl-spir64", None),
        ("sycl-spir64_gen", None),
        ("sycl-spir64-unknown-unknown", None),
        ("sycl-native_cpu-unknown-unknown", None),
    ],
)
def test_bundle_ids(bundle_id: str, target: str | None) -> None:
    assert bundle_id_target(bundle_id) == target


@pytest.mark.parametrize(
    "bundle_id", ["", "gfx942", "cuda-x-y-z--sm_90", "hipv4-amdgcn-amd-amdhsa--", "hipv4-amdgcn"]
)
def test_text_that_is_no_bundle_id(bundle_id: str) -> None:
    with pytest.raises(ValueError):
        bundle_id_target(bundle_id)
