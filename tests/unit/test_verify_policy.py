"""Policies: what the files may say, which one applies to a package, and what each key catches."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from channel_tools.verify import Report, containers, exit_code, verify_path
from channel_tools.verify.catalogue import CATALOGUE, rule_of
from channel_tools.verify.findings import Fault
from channel_tools.verify.policy import POLICIES, Policy, named_policy
from channel_tools.verify.policy_file import PolicyError, policy_keys, policy_schema, read_policy
from channel_tools.verify.version_range import VersionRange
from tests.unit.test_verify_support import conda_info, host_library, target_bundle, write_conda, write_wheel

LIB942 = host_library(target_bundle("gfx942"))
BOTH = host_library(target_bundle("gfx90a", "gfx942"))
PLAIN = host_library()


def package(
    folder: Path,
    files: Mapping[str, bytes],
    *,
    name: str = "canary",
    version: str = "1.0",
    gfx_targets: list[str] | None = None,
    **index: Any,
) -> Path:
    info = conda_info(gfx_targets)
    stated = json.loads(info["info/index.json"]) | {"name": name, "version": version, **index}
    info["info/index.json"] = json.dumps(stated).encode()
    return write_conda(folder / f"{name}-{version}-h0_0.conda", files, info)


def policy_file(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text)
    return path


def rules(report: Report) -> set[str]:
    return {rule_of(fault).id for _, fault in report.located_faults()}


def vllm(names: list[str], suffix: str = ".abi3.so") -> dict[str, bytes]:
    return {f"lib/python3.12/site-packages/vllm/{name}{suffix}": LIB942 for name in names}


OLD_MODULES = ["_C", "_moe_C", "_rocm_C", "cumem_allocator"]
NEW_MODULES = [
    *("_C", "_C_stable_libtorch", "_moe_C_stable_libtorch", "_rocm_C"),
    *("cumem_allocator", "spinloop", "fs_io_C"),
]


def test_every_policy_that_comes_along_is_sound_and_named_for_its_package() -> None:
    files = sorted(POLICIES.glob("*.toml"))
    assert "vllm-rocm.toml" in [file.name for file in files]
    for file in files:
        assert read_policy(file).package == file.stem
        assert named_policy(file.stem) == file


def test_each_recipe_with_compiled_code_has_a_policy_for_its_versions(repo_root: Path) -> None:
    matrix = (repo_root / "variants" / "conda_build_config.yaml").read_text()
    for name, key in (("vllm-rocm", "vllm"), ("pytorch-rocm", "pytorch"), ("triton-rocm", "triton")):
        listed = re.search(rf"^{key}_version:\n((?:  - .*\n)+)", matrix, re.M)
        assert listed
        for version in re.findall(r'"(.*)"', listed[1]):
            assert read_policy(POLICIES / f"{name}.toml").modules_of(version), (name, version)


def test_the_schema_file_is_what_the_model_gives() -> None:
    stored = json.loads((POLICIES / "policy-schema.json").read_text())
    assert stored == policy_schema()
    assert stored["additionalProperties"] is False


def test_the_page_explains_every_key_and_every_rule(repo_root: Path) -> None:
    page = (repo_root / "docs" / "verify.md").read_text()
    for key, description in policy_keys():
        assert f"| `{key}` | {description} |" in page
    for rule in CATALOGUE.values():
        assert f"| `{rule.id}` | {rule.title}. {rule.meaning} |" in page
    assert page.count("\n| `") >= len(policy_keys()) + len(CATALOGUE)


def test_the_page_states_the_memory_bound_of_the_readers(repo_root: Path) -> None:
    page = (repo_root / "docs" / "verify.md").read_text()
    (stated,) = re.findall(r"less than (\d+) MiB of memory", page)
    assert int(stated) == getattr(containers, "MEMORY_BOUND_MIB", int(stated))


def test_every_rule_that_the_code_names_is_in_the_catalogue(repo_root: Path) -> None:
    used = set()
    for file in (repo_root / "channel_tools" / "verify").glob("*.py"):
        used |= set(re.findall(r'rule="([a-z-]+)"', file.read_text()))
    assert len(used) > 15
    assert used <= set(CATALOGUE)
    assert rule_of(Fault("x", damage=True)).id == "damage"
    assert rule_of(Fault("x", rule="unheard-of")).id == "policy"


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("version = 1\nforbiden_flags = []\n", ":2", ["unknown key forbiden_flags", "write forbidden_flags"]),
        ("[budget]\npackage_mb = 3\n", ":2", ["unknown key budget.package_mb", "write package_mib"]),
        ("[budgets]\n", ":1", ["unknown key budgets", "write budget"]),
        ("gcc = '11'\n", ":1", ["gcc has the wrong type", "a valid integer", '"11"']),
        ("# no\n\ngcc = 3\n", ":3", ["gcc: 3 is no major release"]),
        ("code = 1\n", ":1", ["code has the wrong type"]),
        ("targets = 'gfx942'\n", ":1", ["targets has the wrong type"]),
        ("targets = ['gfx942', 3]\n", ":1", ["targets[1] has the wrong type"]),
        ("targets = ['sm_90']\n", ":1", ["targets: 'sm_90' is no GPU target"]),
        ("targets = []\n", ":1", ["the list is empty"]),
        ("version = 2\n", ":1", ["version: 2 is not known"]),
        ("compilers = ['GCC: (']\n", ":1", ["no regular expression"]),
        ("forbidden_flags = ['O3']\n", ":1", ["'O3' is no flag"]),
        ("[budget]\n\nfile_mib = 0\n", ":3", ["budget.file_mib: 0 is no size"]),
        ("[[modules]]\nfolder = 'x'\nnames = ['a']\n", ":1", ["modules[0].versions is missing"]),
        (
            "[[modules]]\nversions = '>=1'\nfolder = 'x'\nnames = ['a']\n"
            "[[modules]]\nversions = '~1'\nfolder = 'x'\nnames = ['a']\n",
            ":6",
            ["modules[1].versions: '~1' is no range of versions"],
        ),
        (
            "[[modules]]\nversions = '>=1'\nfolder = 'x'\nnames = ['a']\nwith_code = ['b']\n",
            ":5",
            ["'b' is not in names"],
        ),
        ("[[accepted]]\nrules = ['damage']\nfiles = ['*']\nreason = 'x'\n", ":2", ["'damage' is no rule"]),
        ("[[accepted]]\nrules = ['runpath']\nfiles = ['*']\nreason = ' '\n", ":4", ["reason: it is empty"]),
        ("[[extra_targets]]\nfiles = []\nreason = 'x'\n", ":2", ["files: the list is empty"]),
        ("version = 1\nversion = 1\n", ":2", ["no TOML"]),
        ("gcc = 2026-12-01\n", "policy.toml", ["date or time"]),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_place(
    tmp_path: Path, text: str, where: str, words: list[str]
) -> None:
    path = policy_file(tmp_path, text)
    with pytest.raises(PolicyError) as caught:
        read_policy(path)
    message = str(caught.value)
    assert message.splitlines()[0].startswith(str(path))
    assert where in message.splitlines()[0]
    for expected in words:
        assert expected in message
    assert caught.value.exit_code == 32


def test_a_policy_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be read"):
        read_policy(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError, match="cannot be read"):
        read_policy(tmp_path / "binary.toml")


def test_names_of_packages_do_not_lead_out_of_the_folder() -> None:
    assert named_policy("../policies/vllm-rocm") is None
    assert named_policy("no-such-package") is None
    assert named_policy("") is None


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (">=0.26,<0.34", ["0.26", "0.26.0", "0.33.9", "0.26.0rc1"], ["0.25.9", "0.34.0", "1", "", "dev"]),
        ("==0.16.0", ["0.16.0", "0.16"], ["0.16.1", "0.1"]),
        (" > 1 , <= 2 ", ["1.0.1", "2.0.0"], ["1", "2.0.1"]),
    ],
)
def test_version_ranges(text: str, inside: list[str], outside: list[str]) -> None:
    for version in inside:
        assert version in VersionRange.parse(text)
    for version in outside:
        assert version not in VersionRange.parse(text)
    with pytest.raises(ValueError, match="no range"):
        VersionRange.parse("")


def test_the_default_policy_is_the_packages_own_word(tmp_path: Path) -> None:
    report = verify_path(package(tmp_path, {"lib/x.so": LIB942}, gfx_targets=["gfx942"]))
    assert report.policy is not None
    assert report.policy.sources == ("the package's metadata",)
    assert report.policy.to_json()["rules"]["targets"] == ("gfx942",)
    assert report.to_json()["packages"][0]["policy"]["sources"] == ["the package's metadata"]
    assert verify_path(package(tmp_path, {"lib/x.so": PLAIN})).policy is None


@pytest.mark.parametrize(
    ("variant", "record", "pin"),
    [
        ({"cxx_compiler": "gxx", "cxx_compiler_version": "11"}, "12.1.0", 11),
        ({"cxx_compiler": "gxx", "cxx_compiler_version": "11.4"}, None, 11),
        ({"cxx_compiler": "clangxx", "cxx_compiler_version": "19"}, None, None),
        ({}, "12.1.0", 12),
        ({}, None, None),
        ({"cxx_compiler": "gxx", "cxx_compiler_version": ["11"]}, None, None),
    ],
)
def test_the_gcc_pin_comes_from_the_variant_else_from_the_build_record(
    tmp_path: Path, variant: dict[str, Any], record: str | None, pin: int | None
) -> None:
    files = {"lib/x.so": LIB942}
    if record:
        files["share/rocm-channel/canary/build.json"] = json.dumps({"gcc_version": record}).encode()
    info = {**conda_info(["gfx942"]), "info/hash_input.json": json.dumps(variant).encode()}
    report = verify_path(write_conda(tmp_path / "x.conda", files, info))
    assert report.package is not None
    assert report.package.gcc_pin == pin


def test_a_stated_policy_counts_more_than_the_package_and_the_one_that_comes_along(tmp_path: Path) -> None:
    path = package(tmp_path, vllm(NEW_MODULES), name="vllm-rocm", version="0.26.0", gfx_targets=["gfx942"])
    report = verify_path(path)
    assert report.policy is not None
    assert report.policy.sources == ("the package's metadata", "policies/vllm-rocm.toml")
    stated = policy_file(tmp_path, "gcc = 13\n")
    report = verify_path(path, policy=stated)
    assert report.policy is not None
    assert report.policy.sources == ("the package's metadata", str(stated))
    assert report.policy.policy.gcc == 13
    assert report.policy.policy.modules == ()
    assert report.policy.policy.targets == ("gfx942",)


def test_targets_of_a_policy(tmp_path: Path) -> None:
    stated = policy_file(tmp_path, "targets = ['gfx90a']\n")
    report = verify_path(package(tmp_path, {"lib/x.so": LIB942}, gfx_targets=["gfx942"]), policy=stated)
    assert rules(report) == {"other-declaration", "surplus-target", "missing-target"}
    wheel = write_wheel(tmp_path / "x.whl", {"x/x.so": LIB942})
    assert verify_path(wheel).verdict == "pass"
    assert rules(verify_path(wheel, policy=stated)) == {"surplus-target", "missing-target"}
    assert verify_path(wheel, policy=policy_file(tmp_path, "targets = ['gfx942']\n")).verdict == "pass"


def test_a_policy_for_another_package_is_an_error(tmp_path: Path) -> None:
    stated = policy_file(tmp_path, "package = 'other'\n")
    with pytest.raises(PolicyError, match="the policy is for other"):
        verify_path(package(tmp_path, {}), policy=stated)


@pytest.mark.parametrize(("version", "modules"), [("0.16.0", OLD_MODULES), ("0.26.0", NEW_MODULES)])
@pytest.mark.parametrize("suffix", [".abi3.so", ".cpython-312-x86_64-linux-gnu.so", ".so"])
def test_modules_of_a_version(tmp_path: Path, version: str, modules: list[str], suffix: str) -> None:
    def made(names: list[str]) -> Report:
        files = vllm(names, suffix)
        return verify_path(
            package(tmp_path, files, name="vllm-rocm", version=version, gfx_targets=["gfx942"])
        )

    assert "missing-module" not in rules(made(modules))
    for missing in modules:
        report = made([name for name in modules if name != missing])
        (fault,) = [fault for _, fault in report.located_faults() if fault.rule == "missing-module"]
        assert fault.what == f"no module vllm/{missing}"
        assert exit_code([report]) == 30


def test_modules_of_another_version_do_not_do(tmp_path: Path) -> None:
    path = package(tmp_path, vllm(OLD_MODULES), name="vllm-rocm", version="0.26.0", gfx_targets=["gfx942"])
    missing = {f.what for _, f in verify_path(path).located_faults() if f.rule == "missing-module"}
    assert missing == {
        f"no module vllm/{name}"
        for name in ("_C_stable_libtorch", "_moe_C_stable_libtorch", "spinloop", "fs_io_C")
    }


def test_a_module_elsewhere_is_not_the_module(tmp_path: Path) -> None:
    files = {name.replace("/vllm/", "/other/"): data for name, data in vllm(OLD_MODULES).items()}
    path = package(tmp_path, files, name="vllm-rocm", version="0.16.0", gfx_targets=["gfx942"])
    assert "missing-module" in rules(verify_path(path))


def test_a_module_that_must_hold_code(tmp_path: Path) -> None:
    files = vllm(OLD_MODULES)
    name = "lib/python3.12/site-packages/vllm/_rocm_C.abi3.so"
    files[name] = PLAIN
    path = package(tmp_path, files, name="vllm-rocm", version="0.16.0", gfx_targets=["gfx942"])
    report = verify_path(path)
    assert [(p.rpartition(": ")[2], f.rule) for p, f in report.located_faults() if "module" in f.rule] == [
        (name, "module-without-code")
    ]


def test_a_version_that_the_policy_does_not_know(tmp_path: Path) -> None:
    path = package(tmp_path, vllm(NEW_MODULES), name="vllm-rocm", version="0.99.0", gfx_targets=["gfx942"])
    (line,) = [line for line in verify_path(path).all_faults() if "lists no modules" in line]
    assert "found: 0.99.0" in line
    assert ">=0.26,<0.34" in line


def test_extra_targets_are_for_their_files_alone(tmp_path: Path) -> None:
    stated = policy_file(
        tmp_path,
        "[[extra_targets]]\nfiles = ['lib/libhsa-runtime64.so*']\nreason = 'fill kernels for all'\n",
    )
    runtime = {"lib/libhsa-runtime64.so.1": BOTH}
    declared = package(tmp_path, {**runtime, "lib/x.so": LIB942}, gfx_targets=["gfx942"])
    assert "surplus-target" in rules(verify_path(declared))
    assert not rules(verify_path(declared, policy=stated)) & {"surplus-target", "missing-target"}
    alone = package(tmp_path, runtime, gfx_targets=["gfx90a"])
    assert "surplus-target" not in rules(verify_path(alone, policy=stated))
    elsewhere = package(tmp_path, {"lib/y.so": BOTH}, gfx_targets=["gfx942"])
    assert "surplus-target" in rules(verify_path(elsewhere, policy=stated))
    narrow = policy_file(
        tmp_path,
        "[[extra_targets]]\nfiles = ['lib/*']\ntargets = ['gfx11*']\nreason = 'x'\n",
    )
    assert "surplus-target" in rules(verify_path(declared, policy=narrow))


def test_a_package_for_no_gpu_may_ship_the_runtime(tmp_path: Path) -> None:
    files = {"lib/libhsa-runtime64.so.1": BOTH}
    path = package(tmp_path, files, name="rocm-userspace", version="7.2")
    assert not rules(verify_path(path)) & {"undeclared-target", "surplus-target"}
    other = package(tmp_path, {"lib/x.so": BOTH}, name="rocm-userspace", version="7.2")
    assert "undeclared-target" in rules(verify_path(other))


def test_code_where_there_must_be_none(tmp_path: Path) -> None:
    path = package(
        tmp_path,
        {"lib/python3.12/site-packages/triton/_C/libtriton.so": BOTH},
        name="triton-rocm",
        version="3.6.0",
    )
    assert "GPU code in a package that must hold none" in "\n".join(verify_path(path).all_faults())


def test_code_that_must_be_there(tmp_path: Path) -> None:
    path = package(tmp_path, {"lib/x.so": PLAIN}, build="rocm72_gfx942_h0_0")
    assert verify_path(path).verdict == "pass"
    assert "no-code" in rules(verify_path(path, policy=policy_file(tmp_path, "code = true\n")))


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("package_mib", "the package is larger than its budget"),
        ("installed_mib", "the package, unpacked, is larger"),
        ("file_mib", "share/big.bin: the file is larger"),
    ],
)
def test_budgets(tmp_path: Path, key: str, words: str) -> None:
    import random

    big = random.Random(1).randbytes(3 << 20)
    path = package(tmp_path, {"share/big.bin": big, "lib/x.so": LIB942}, gfx_targets=["gfx942"])
    report = verify_path(path, policy=policy_file(tmp_path, f"[budget]\n{key} = 2\n"))
    (line,) = report.all_faults()
    assert words in line
    assert "at most 2 MiB" in line
    assert rules(report) == {"size"}
    assert verify_path(path, policy=policy_file(tmp_path, f"[budget]\n{key} = 4\n")).verdict == "pass"


def test_accepted_faults_are_kept_apart(tmp_path: Path) -> None:
    path = package(tmp_path, {"lib/x.so": BOTH, "lib/y.so": BOTH}, gfx_targets=["gfx942"])
    stated = policy_file(
        tmp_path,
        "[[accepted]]\nrules = ['surplus-target']\nfiles = ['lib/x.so']\nreason = 'known, issue 7'\n",
    )
    report = verify_path(path, policy=stated)
    assert [line.partition(": ")[2].partition(":")[0] for line in report.all_faults()] == ["lib/y.so"]
    (taken,) = report.accepted
    assert (taken.path, taken.fault.rule, taken.reason) == ("lib/x.so", "surplus-target", "known, issue 7")
    assert report.to_json()["packages"][0]["accepted"][0]["reason"] == "known, issue 7"
    assert report.summary()["accepted"] == 1


def test_damage_is_never_accepted(tmp_path: Path) -> None:
    path = package(tmp_path, {"lib/x.so": BOTH[:-40]}, gfx_targets=["gfx942"])
    every = ", ".join(f"'{rule}'" for rule in CATALOGUE if rule not in ("damage", "unsafe-entry"))
    stated = policy_file(tmp_path, f"[[accepted]]\nrules = [{every}]\nfiles = ['*']\nreason = 'x'\n")
    report = verify_path(path, policy=stated)
    assert report.verdict == "fail"
    assert exit_code([report]) == 31


def test_the_digest_of_a_policy_is_that_of_its_content(tmp_path: Path) -> None:
    one = read_policy(policy_file(tmp_path, "gcc = 11\ncode = true\n"))
    other = read_policy(policy_file(tmp_path, "# the same\ncode = true\n\ngcc = 11\nversion = 1\n"))
    assert one.digest() == other.digest() != Policy().digest()


@pytest.mark.parametrize(
    ("name", "processors"),
    [
        ("TensileLibrary_Type_HH_HPA_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx90a.dat", ("gfx90a",)),
        ("gfx942130.HIP.fdb.txt", ("gfx942",)),
        ("gfx90a68.db.txt", ("gfx90a",)),
        ("gfx942_304.HIP.fdb.txt", ("gfx942",)),
        ("gfx103036.kdb", ("gfx1030",)),
        ("gfx1030_36.db", ("gfx1030",)),
        ("gfx942_metadata.tn.model", ("gfx942",)),
        ("TensileLibrary_Type_SS_fallback.dat", ()),
        ("gfxabc.dat", ()),
        ("gfx942.txt", ()),
    ],
)
def test_data_that_is_named_for_a_gpu(tmp_path: Path, name: str, processors: tuple[str, ...]) -> None:
    path = package(tmp_path, {f"share/{name}": b"\x82data", "lib/x.so": LIB942}, gfx_targets=["gfx942"])
    report = verify_path(path)
    files = {file.path: file for file in report.files}
    if processors:
        file = files[f"share/{name}"]
        assert (file.kind, file.named, file.targets, file.objects) == ("named data", processors, (), 0)
    else:
        assert f"share/{name}" not in files
    assert rules(report) == (set() if processors in ((), ("gfx942",)) else {"named-data"})
    assert not report.damaged
