"""Each rule that a release must pass, with a release that passes and one that does not. Nothing is read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from channel_tools.channel.index.encoding import SubdirIndex
from channel_tools.channel.publishing.checks.builds import of_package
from channel_tools.channel.publishing.checks.matrix_rule import parse_allowed
from channel_tools.channel.publishing.checks.names import conda_forge
from channel_tools.channel.publishing.release_checks import (
    RULES,
    RefusedRelease,
    check_release,
    completions,
    routes,
)
from channel_tools.channel.settings import Settings
from channel_tools.model.errors import ChannelError
from channel_tools.model.matrix import Matrix, read_matrix
from channel_tools.model.package import Package

ROOT = Path(__file__).resolve().parents[2]
REAL = read_matrix(ROOT / "variants" / "conda_build_config.yaml")
SMALL = Matrix(
    Path("variants/conda_build_config.yaml"),
    {
        "rocm_arch": ("gfx90a", "gfx942"),
        "rocm_isa": ("9.0.10", "9.4.2"),
        "rocm_version": ("7.0", "7.2"),
        "vllm_version": ("0.16.0", "0.26.0"),
        "python": ("3.12",),
    },
    (("rocm_arch", "rocm_isa"), ("rocm_version", "vllm_version")),
)
ISA = {"gfx90a": "9.0.10", "gfx942": "9.4.2"}
FORGE = Settings(url="https://conda.example.com/internal", dependency_channels=("conda-forge",))


@dataclass(frozen=True)
class Verdict:
    """A verification as the checks want it."""

    found: tuple[str, ...] = ()
    verdict: str = "pass"

    def targets(self) -> tuple[str, ...]:
        return self.found


@dataclass
class Case:
    """A release with all that it is held against; tests change what they are about."""

    packages: list[Package]
    settings: Settings = FORGE
    present: dict[str, SubdirIndex] = field(default_factory=dict)
    matrix: Matrix = SMALL
    allow_missing: Sequence[str] = ()
    local: bool = False
    provided: Callable[[str], bool | None] | None = None
    channels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reports: dict[str, Verdict] = field(default_factory=dict)

    def check(self) -> None:
        check_release(
            self.packages,
            {p.path: self.reports.get(p.path.name, _verdict(p)) for p in self.packages},
            self.settings,
            self.present,
            matrix=self.matrix,
            allow_missing=self.allow_missing,
            local=self.local,
            provided=self.provided,
            channels_of=lambda package: self.channels.get(package.path.name, ()),
            where="https://conda.example.com/internal",
        )

    def refused(self) -> list[str]:
        """``rule where`` of each reason; none when it passes."""
        try:
            self.check()
        except RefusedRelease as error:
            assert error.exit_code == 44
            return [f"{reason.rule} {reason.where}" for reason in error.reasons]
        return []

    def rules(self) -> set[str]:
        return {line.split()[0] for line in self.refused()}

    def change(self, name: str, **more: Any) -> None:
        """Change every package of that name, or whose file name begins so."""
        self.packages = [replace(p, **more) if p.path.name.startswith(name) else p for p in self.packages]


def _verdict(package: Package) -> Verdict:
    targets = package.extra.get("gfx_targets", ())
    return Verdict(tuple(targets))


def package(
    name: str,
    version: str,
    build: str,
    depends: Sequence[str] = (),
    suffix: str = ".conda",
    **extra: Any,
) -> Package:
    last = build.rpartition("_")[2]
    return Package(
        Path(f"{name}-{version}-{build}{suffix}"),
        name,
        version,
        build,
        int(last) if last.isdecimal() else 0,
        "linux-64",
        tuple(depends),
        extra,
    )


def selecting(kind: str = "detected", archs: Sequence[str] = tuple(ISA)) -> list[Package]:
    """``amdgpu-arch`` and ``rocm-userspace``."""
    detected = kind == "detected"
    made = [
        package(
            "amdgpu-arch",
            ISA[arch],
            f"{arch}_{kind}_0",
            ("__amdgpu", f"__amdgpu_arch =={ISA[arch]}") if detected else (),
            rocm_arch=arch,
        )
        for arch in archs
    ]
    return made + [
        package(
            "rocm-userspace",
            release,
            f"system_{kind}_0",
            ("libstdcxx >=12", *((f"__rocm_userspace =={release}",) if detected else ())),
            rocm_version=release,
        )
        for release in ("7.0", "7.2")
    ]


def hashed(*words: object) -> str:
    return "h" + hashlib.sha256(repr(words).encode()).hexdigest()[:7]


def canary(arch: str, rocm: str, version: str = "0.1.0", number: int = 0, **more: Any) -> Package:
    return package(
        "rocm-canary",
        version,
        f"rocm{rocm.replace('.', '')}_{arch}_{hashed(arch, rocm)}_{number}",
        (f"amdgpu-arch =={ISA[arch]}", f"rocm-userspace {rocm}.*", "libstdcxx >=11"),
        **{
            "rocm_arch": arch,
            "rocm_version": rocm,
            "toolchain": "conda",
            "hip_sdk": "rocm",
            "gfx_targets": [arch],
            **more,
        },
    )


def vllm(arch: str, rocm: str, number: int = 0, python: str = "312", version: str | None = None) -> Package:
    version = version or {"7.0": "0.16.0", "7.2": "0.26.0"}[rocm]
    return package(
        "vllm-rocm",
        version,
        f"rocm{rocm.replace('.', '')}_{arch}_py{python}_{hashed(arch, rocm, python)}_{number}",
        (
            f"amdgpu-arch =={ISA[arch]}",
            f"rocm-userspace {rocm}.*",
            "python 3.12.*",
            "python_abi 3.12.* *_cp312",
        ),
        rocm_arch=arch,
        rocm_version=rocm,
        gfx_targets=[arch],
    )


def canaries(**more: Any) -> list[Package]:
    return [canary(arch, rocm, **more) for arch in ISA for rocm in ("7.0", "7.2")]


def whole() -> Case:
    """A release that passes."""
    return Case([*selecting(), *selecting("declared"), *canaries()])


def index(*packages: Package, key: str = "linux-64", removed: Sequence[str] = ()) -> dict[str, SubdirIndex]:
    records = {
        p.path.name: {
            "name": p.name,
            "version": p.version,
            "build": p.build,
            "build_number": p.build_number,
            "depends": list(p.depends),
            "subdir": p.subdir,
        }
        for p in packages
    }
    return {key: SubdirIndex(key, records, frozenset(removed), True)}


def test_a_whole_release_passes() -> None:
    assert whole().refused() == []


def test_every_reason_is_told_at_once_with_file_and_fix() -> None:
    case = whole()
    case.packages = case.packages[:-1]
    case.change("rocm-canary-0.1.0-rocm70_gfx90a", depends=("nowhere-at-all",))
    case.packages.append(package("numpy", "2.0", "0"))
    with pytest.raises(RefusedRelease) as refused:
        case.check()
    rules = {reason.rule for reason in refused.value.reasons}
    assert rules == {"partial", "arch-pin", "dependency", "shadow"}
    text = str(refused.value)
    assert text.startswith("https://conda.example.com/internal: the release is refused for 4 reasons")
    assert (
        "fix: publish them together, or name what is missing: --allow-missing rocm-canary:rocm7.2/gfx942"
        in text
    )
    assert all(reason.fix for reason in refused.value.reasons)
    assert [reason.to_json()["rule"] for reason in refused.value.reasons]


def test_what_many_files_have_in_common_is_told_once() -> None:
    case = Case([*selecting(), *canaries(toolchain="host")])
    with pytest.raises(RefusedRelease) as refused:
        case.check()
    text = str(refused.value)
    assert "refused for one reason" in text
    assert len(refused.value.reasons) == 4
    assert "4 files: each was built against this host's own tools" in text
    assert text.count("fix:") == 1
    assert all(name in text for name in (p.path.name for p in canaries()))


# ---- where it was made


@pytest.mark.parametrize(
    ("key", "value"), [("toolchain", "host"), ("hip_sdk", "debian")], ids=["host tools", "Debian SDK"]
)
def test_builds_against_this_host_stay_in_a_channel_made_for_them(key: str, value: str) -> None:
    case = Case([*selecting(), *canaries(**{key: value})])
    assert case.rules() == {"host-tools"}
    assert len(case.refused()) == 4
    case.local = True
    case.settings = Settings(toolchain="host" if key == "toolchain" else "conda", dependency_channels=("x",))
    assert case.rules() == set()


def test_a_channel_takes_builds_of_one_toolchain() -> None:
    case = whole()
    case.local = True
    case.settings = replace_settings(toolchain="host")
    assert case.rules() == {"toolchain"}
    case.settings = replace_settings(toolchain="conda")
    assert case.rules() == set()
    case.packages += [package("tool", "1", "0", toolchain="host")]
    case.settings = FORGE
    assert case.rules() == {"toolchain"}, "two toolchains in one release"


def replace_settings(**more: Any) -> Settings:
    return FORGE.model_copy(update=more)


def test_what_was_not_verified_or_failed_is_refused() -> None:
    case = whole()
    name = case.packages[-1].path.name
    case.reports[name] = Verdict(("gfx942",), "fail")
    assert case.refused() == [f"verify {name}"]
    with pytest.raises(RefusedRelease, match="was not verified"):
        check_release(case.packages, {}, FORGE, {}, matrix=SMALL, channels_of=lambda p: ())


@pytest.mark.parametrize(
    ("channels", "fine"),
    [
        (("https://conda.anaconda.org/conda-forge",), True),
        ((), True),
        (("file:///build/channel/", "https://x"), False),
    ],
)
def test_addresses_of_the_build_host_do_not_leave_it(channels: Sequence[str], fine: bool) -> None:
    case = whole()
    name = case.packages[-1].path.name
    case.channels = {name: channels}
    assert case.refused() == ([] if fine else [f"local-address {name}"])
    case.local = True
    assert case.refused() == []


# ---- names


@pytest.mark.parametrize("name", ["numpy", "python", "cmake", "libgcc", "vllm", "libtorch", "pytorch-gpu"])
def test_a_name_of_conda_forge_is_refused(name: str) -> None:
    assert "shadow" in Case([package(name, "1", "0")]).rules()
    assert "shadow" not in Case([package(f"{name}-rocm-tools", "1", "0")]).rules()


def test_a_name_that_a_readable_dependency_channel_has_is_refused() -> None:
    case = Case([package("some-tool", "1", "0")], provided=lambda name: name == "some-tool")
    assert case.rules() == {"shadow"}
    case.provided = lambda name: False
    assert case.rules() == set()


@pytest.mark.parametrize(
    ("name", "build", "fine"),
    [
        ("triton", "rocm_py312_h1a2b3c4_0", True),
        ("triton", "cuda129_py312_h1a2b3c4_0", False),
        ("triton", "py312_h1a2b3c4_0", False),
        ("pytorch", "rocm72_gfx942_py312_h1a2b3c4_0", True),
        ("pytorch", "rocm_py312_h1a2b3c4_0", False),
        ("pytorch", "cpu_mkl_py312_h1a2b3c4_0", False),
    ],
)
def test_aliases_have_their_own_build_strings(name: str, build: str, fine: bool) -> None:
    found = {r for r in Case([package(name, "3.6.0", build)]).refused() if r.startswith("shadow")}
    assert bool(found) is not fine


def test_the_list_of_names_knows_what_the_recipes_need() -> None:
    """What our recipes ask for at run time is ours, or is on the list."""
    from tests.unit.test_heavy_recipes import render

    ours = {folder.parent.name for folder in (ROOT / "recipes").glob("*/recipe.yaml")}
    needed = {
        spec.split()[0] for name in sorted(ours) for output in render(name) for spec in output.specs("run")
    }
    known = conda_forge()
    assert not {n for n in needed if n not in ours and not known.has(n) and n not in known.virtual}
    assert not [name for name in ours if known.has(name) and name not in known.aliases]


# ---- dependencies


@pytest.mark.parametrize(
    ("spec", "fine"),
    [
        ("libstdcxx >=12", True),
        ("rocm-canary ==0.1.0", True),
        ("rocm-canary ==0.1.0 rocm72_*", True),
        ("rocm-canary >=0.2", False),
        ("rocm-canary ==0.1.0 rocm73_*", False),
        ("some-library-of-nobody", False),
        ("pytorch >=2", False),
        ("__glibc >=2.34", True),
        ("__amdgpu_arch ==9.4.2", False),
        ("__rocm_userspace ==7.2", False),
        ("__no_such_thing", False),
        ("[[nonsense", False),
    ],
)
def test_every_dependency_can_be_had(spec: str, fine: bool) -> None:
    case = whole()
    case.packages.append(package("tool", "1", "0", (spec,)))
    assert bool(case.refused()) is not fine
    assert all(line.endswith("tool-1-0.conda") for line in case.refused())


def test_what_provides_a_dependency() -> None:
    case = Case([package("tool", "1", "0", ("library-x",))])
    assert case.rules() == {"dependency"}
    case.present = index(package("library-x", "1", "0"))
    assert case.rules() == set()
    case.present = index(removed=["library-x-1-0.conda"])
    assert case.rules() == {"dependency"}, "a yanked build provides nothing"
    case.present = index(package("library-x", "1", "0"), key="label/gfx942/linux-64")
    assert case.rules() == {"dependency"}, "nor does a label"
    case.provided = lambda name: name == "library-x"
    assert case.rules() == set()
    case.settings = Settings()
    assert case.rules() == {"dependency"}, "a channel that consumers do not add provides nothing"
    case.packages = [package("tool", "1", "0", ("libstdcxx >=12",))]
    case.provided = None
    assert case.rules() == {"dependency"}
    case.settings = FORGE
    assert case.rules() == set()
    case.provided = lambda name: False
    assert case.rules() == {"dependency"}, "an index that was read has the last word"


def test_a_dependency_only_another_arch_has_is_a_mixed_stack() -> None:
    lib90 = package(
        "lib-rocm", "1", "rocm72_gfx90a_h1111111_0", ("amdgpu-arch ==9.0.10",), rocm_arch="gfx90a"
    )
    lib94 = package("lib-rocm", "1", "rocm72_gfx942_h2222222_0", ("amdgpu-arch ==9.4.2",), rocm_arch="gfx942")
    app = package(
        "app-rocm",
        "1",
        "rocm72_gfx942_h3333333_0",
        ("amdgpu-arch ==9.4.2", "lib-rocm ==1"),
        rocm_arch="gfx942",
    )
    case = Case([*selecting(), lib90, lib94, app], allow_missing=["app-rocm", "rocm7.0"])
    assert case.refused() == []
    case.packages.remove(lib94)
    case.allow_missing = ["app-rocm", "lib-rocm", "rocm7.0"]
    assert case.refused() == [f"mixed-stack {app.path.name}"]
    case.present = index(lib94)
    assert case.refused() == []


def test_a_stack_of_two_rocm_releases_or_pythons_is_mixed() -> None:
    case = Case([*selecting(), *canaries()])
    case.change("rocm-canary-0.1.0-rocm70_gfx942", depends=("amdgpu-arch ==9.4.2", "rocm-userspace 7.2.*"))
    assert case.rules() == {"mixed-stack"}
    tool = package("tool", "1", "py311_h1111111_0", ("lib",))
    lib = package("lib", "1", "py312_h1111111_0")
    case = Case([tool, lib], allow_missing=["py3.11", "py3.12"], matrix=_pythons("3.11", "3.12"))
    assert case.refused() == [f"mixed-stack {tool.path.name}"]


# ---- arch


def test_a_package_with_device_code_pins_its_arch() -> None:
    name = "rocm-canary-0.1.0-rocm72_gfx942"
    for depends, fine in (
        (("amdgpu-arch ==9.4.2",), True),
        (("amdgpu-arch 9.4.2",), True),
        (("amdgpu-arch =9.4.2",), False),
        (("amdgpu-arch >=9.4.2",), False),
        (("amdgpu-arch",), False),
        ((), False),
        (("amdgpu-arch ==9.4.2|==9.0.10",), False),
    ):
        case = whole()
        case.change(name, depends=depends)
        assert (case.rules() == set()) is fine, depends
        assert fine or case.rules() == {"arch-pin"}


@pytest.mark.parametrize(
    "more",
    [
        {"depends": ("amdgpu-arch ==9.0.10",)},
        {"extra": {"rocm_arch": "gfx90a", "gfx_targets": ["gfx942"]}},
        {"extra": {"rocm_arch": "gfx942", "gfx_targets": ["gfx90a", "gfx942"]}},
        {"extra": {"gfx_targets": "gfx90a"}},
    ],
    ids=["dependency", "rocm_arch", "two targets", "gfx_targets"],
)
def test_an_arch_is_the_same_everywhere(more: dict[str, Any]) -> None:
    case = whole()
    name = "rocm-canary-0.1.0-rocm72_gfx942"
    case.change(name, **more)
    assert "arch" in case.rules()
    assert all(name in line for line in case.refused())


def test_binaries_for_another_arch_than_the_package_says_are_refused() -> None:
    case = whole()
    name = next(p.path.name for p in case.packages if "rocm72_gfx942" in p.path.name)
    case.reports[name] = Verdict(("gfx90a",))
    assert case.refused() == [f"arch {name}"]
    case.reports[name] = Verdict(("gfx942:xnack-",))
    assert case.refused() == []
    case.reports[name] = Verdict(("gfx90a", "gfx942"))
    assert case.refused() == [], "what a policy lets in beside the declared arch is for verify to judge"


def test_device_code_in_a_package_that_says_nothing_of_it_needs_the_pin() -> None:
    tool = package("tool", "1", "0")
    case = Case([*selecting(), tool], reports={tool.path.name: Verdict(("gfx942",))})
    assert case.rules() == {"arch-pin"}
    case.change("tool", depends=("amdgpu-arch ==9.4.2",))
    assert case.rules() == set()


def test_an_alias_is_tied_to_its_arch_by_what_it_stands_for() -> None:
    def alias(depends: Sequence[str]) -> Package:
        build = f"rocm72_gfx942_py312_{hashed('alias')}_0"
        return package("pytorch", "2.11.0", build, depends, rocm_arch="gfx942", rocm_version="7.2")

    torch = package(
        "pytorch-rocm",
        "2.11.0",
        f"rocm72_gfx942_py312_{hashed('torch')}_0",
        ("amdgpu-arch ==9.4.2",),
        rocm_arch="gfx942",
        gfx_targets=["gfx942"],
    )
    missing = ["gfx90a", "rocm7.0"]
    tied = alias(["pytorch-rocm ==2.11.0 rocm72_gfx942_py312_*"])
    assert Case([*selecting(), torch, tied], allow_missing=missing).refused() == []
    loose = alias(["pytorch-rocm ==2.11.0"])
    assert Case([*selecting(), torch, loose], allow_missing=missing).rules() == {"arch-pin"}
    alone = Case([*selecting(), tied], allow_missing=missing)
    assert alone.rules() == {"arch-pin", "dependency"}


def test_build_string_and_metadata_name_one_rocm_release() -> None:
    case = whole()
    name = "rocm-canary-0.1.0-rocm72_gfx942"
    case.change(name, extra={"rocm_arch": "gfx942", "rocm_version": "7.0"})
    assert case.rules() == {"rocm"}


# ---- the packages that select


@pytest.mark.parametrize(
    ("name", "more", "rule"),
    [
        ("amdgpu-arch-9.4.2-gfx942_detected", {"depends": ()}, "selection"),
        ("amdgpu-arch-9.4.2-gfx942_detected", {"depends": ("__amdgpu",)}, "selection"),
        ("amdgpu-arch-9.4.2-gfx942_detected", {"depends": ("__amdgpu_arch >=9.4.2",)}, "selection"),
        ("amdgpu-arch-9.4.2-gfx942_detected", {"depends": ("__amdgpu_arch ==9.0.10",)}, "selection"),
        ("amdgpu-arch-9.4.2-gfx942_declared", {"depends": ("__amdgpu",)}, "selection"),
        ("amdgpu-arch-9.4.2-gfx942_detected", {"version": "9.0.10"}, "arch"),
        ("amdgpu-arch-9.4.2-gfx942_detected", {"extra": {"rocm_arch": "gfx90a"}}, "arch"),
        ("amdgpu-arch-9.4.2-gfx942_detected", {"build": "gfx942_0"}, "selection"),
        ("rocm-userspace-7.2-system_detected", {"depends": ()}, "selection"),
        ("rocm-userspace-7.2-system_declared", {"depends": ("__rocm_userspace ==7.2",)}, "selection"),
        ("rocm-canary-0.1.0-rocm72_gfx942", {"build": "rocm72_gfx942_declared_0"}, "declared"),
    ],
)
def test_what_selects_asks_for_what_it_selects(name: str, more: dict[str, Any], rule: str) -> None:
    case = whole()
    case.change(name, **more)
    assert rule in case.rules()


def test_a_build_that_ships_rocm_needs_neither_host_nor_label() -> None:
    bundled = package("rocm-userspace", "7.2", "bundled_gfx942_h1111111_0", rocm_version="7.2")
    assert Case([*selecting(), bundled]).refused() == []


# ---- doubles


def test_a_second_build_of_a_variant_is_refused() -> None:
    first = canary("gfx942", "7.2")
    other = replace(first, build=first.build.replace("_h", "_hf00"), path=Path("other.conda"))
    bz2 = replace(first, path=Path(first.path.name.replace(".conda", ".tar.bz2")))
    for second in (other, bz2):
        case = whole()
        case.present = index(second)
        assert case.refused() == [f"second-build {first.path.name}"]
        case.present = {}
        case.packages.append(second)
        assert "second-build" in case.rules(), "within one release"
        case = whole()
        case.present = index(removed=[second.path.name])
        if second is bz2:
            assert case.refused() == [f"second-build {first.path.name}"], "a yanked one may come back"
    case = whole()
    case.present = index(first)
    assert case.refused() == [], "the same file again is fine"


@pytest.mark.parametrize(
    "other",
    [
        {"version": "0.1.0RC1"},
        {"build": "ROCM72_gfx942_h1111111_0"},
        {"suffix": ".CONDA"},
    ],
)
def test_names_do_not_differ_in_capital_letters_alone(other: dict[str, str]) -> None:
    """Clients read names in small letters, and some file systems have one file for both."""
    said = {"name": "rocm-canary", "version": "0.1.0rc1", "build": "rocm72_gfx942_h1111111_0", **other}
    second = package(**said)
    first = replace(second, path=Path(second.path.name.lower()))
    case = whole()
    case.packages.append(second)
    case.present = index(first)
    assert f"case {second.path.name}" in case.refused()
    case.present = index(removed=[first.path.name])
    assert f"case {second.path.name}" in case.refused(), "a yanked one is still there"
    case.present = {}
    assert "case" not in case.rules()
    case.packages.append(first)
    assert f"case {first.path.name}" in case.refused(), "within one release"


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("rocm72_gfx942_py312_h1111111_0", "rocm72_gfx942_py312_h1111111_1"),
        ("rocm72_gfx942_py312_h1111111_0", "rocm72_gfx942_py313_h1111111_0"),
        ("rocm72_gfx942_py312_h1111111_0", "rocm70_gfx942_py312_h1111111_0"),
        ("mkl_h1111111_0", "openblas_h1111111_0"),
        ("gfx942_detected_0", "gfx942_declared_0"),
    ],
)
def test_other_variants_are_no_doubles(one: str, two: str) -> None:
    a, b = (of_package(package("x", "1", build)) for build in (one, two))
    assert (a.number, a.variant) != (b.number, b.variant)


def test_one_version_of_each_variant_in_a_release() -> None:
    case = whole()
    case.packages.append(canary("gfx942", "7.2", number=1))
    assert "one-version" in case.rules()
    case = whole()
    case.packages += [canary(arch, rocm, "0.2.0") for arch in ISA for rocm in ("7.0", "7.2")]
    assert case.rules() == {"one-version"}
    both = [package("triton-rocm", v, f"py312_{hashed(v)}_0", ("python",)) for v in ("3.5.1", "3.6.0")]
    assert Case(both).refused() == [], "one for each ROCm release, though it is of none"
    assert Case([*both, package("triton-rocm", "3.6.0", "py312_h2222222_1")]).rules() == {"one-version"}


# ---- the matrix


def vllms(**more: Any) -> list[Package]:
    return [*selecting(), *(vllm(arch, rocm, **more) for arch in ISA for rocm in ("7.0", "7.2"))]


def without(packages: list[Package], *words: str) -> list[Package]:
    return [p for p in packages if p.name != "vllm-rocm" or not all(word in p.build for word in words)]


def test_the_whole_matrix_passes_and_a_part_of_it_does_not() -> None:
    assert Case(vllms()).refused() == []
    partial = Case(without(vllms(), "gfx90a", "rocm72"))
    with pytest.raises(RefusedRelease, match="no build for rocm72 gfx90a py312") as refused:
        partial.check()
    assert "--allow-missing vllm-rocm:rocm7.2/gfx90a/py3.12" in str(refused.value)


def test_what_the_channel_has_at_that_version_and_number_counts() -> None:
    case = Case(without(vllms(), "gfx90a", "rocm72"))
    case.present = index(vllm("gfx90a", "7.2"))
    assert case.refused() == []
    case.present = index(vllm("gfx90a", "7.2", number=1))
    assert case.rules() == {"partial"}, "another build number"
    case.present = index(vllm("gfx90a", "7.2", version="0.25.0"))
    assert case.rules() == {"partial"}, "another version"
    case.present = index(removed=[vllm("gfx90a", "7.2").path.name])
    assert case.rules() == {"partial"}, "a yanked build"


def test_a_rocm_release_may_not_be_left_behind() -> None:
    case = Case(without(vllms(), "rocm70"))
    assert case.refused() == ["partial vllm-rocm 0.16.0 build 0"]
    case.present = index(vllm("gfx90a", "7.0", number=3), vllm("gfx942", "7.0", number=3))
    assert case.refused() == [], "each ROCm release has a version of its own, whose newest number counts"
    case.present = index(vllm("gfx90a", "7.0", number=2), vllm("gfx942", "7.0", number=3))
    assert case.refused() == ["partial vllm-rocm 0.16.0 build 3"]
    one = Case([*selecting(), *(canary(arch, "7.2", "0.2.0") for arch in ISA)])
    one.present = index(*canaries())
    assert one.refused() == ["partial rocm-canary 0.2.0 build 0"], "one version for all ROCm releases"


def test_a_version_that_is_the_rocm_release_is_another_for_each() -> None:
    """As amdsmi's is: 7.0 for ROCm 7.0."""

    def smi(rocm: str, number: int = 0) -> Package:
        return package("amdsmi", rocm, f"rocm{rocm.replace('.', '')}_py312_{hashed(rocm)}_{number}")

    assert Case([smi("7.0"), smi("7.2")]).refused() == []
    case = Case([smi("7.2", 1)])
    assert case.refused() == ["partial amdsmi 7.0 build 1"]
    case.present = index(smi("7.0"))
    assert case.refused() == []


def test_versions_of_another_time_are_held_against_their_own_release_only() -> None:
    old = [vllm(arch, "7.2", version="0.20.0") for arch in ISA]
    assert Case([*selecting(), *old]).refused() == []
    assert Case([*selecting(), old[0]]).rules() == {"partial"}


def _pythons(*versions: str) -> Matrix:
    return Matrix(SMALL.path, {**SMALL.values, "python": versions}, SMALL.zip_groups)


def test_every_python_is_wanted_of_packages_that_have_one() -> None:
    case = Case(vllms(), matrix=_pythons("3.12", "3.13"))
    assert case.rules() == {"partial"}
    case.packages += [vllm(arch, rocm, python="313") for arch in ISA for rocm in ("7.0", "7.2")]
    assert case.refused() == []
    triton = package("triton-rocm", "3.6.0", "py312_h1111111_0")
    assert Case([triton], matrix=_pythons("3.12", "3.13")).rules() == {"partial"}
    assert Case([triton]).refused() == []


def test_a_build_for_what_the_matrix_does_not_have_is_refused() -> None:
    case = whole()
    case.matrix = SMALL.restricted({"rocm_version": ["7.2"]})
    assert case.rules() == {"partial"}
    assert len(case.refused()) == 2


@pytest.mark.parametrize(
    ("allow", "fine"),
    [
        ("gfx90a", True),
        ("vllm-rocm:gfx90a", True),
        ("vllm-rocm", True),
        ("vllm-rocm:rocm7.2/gfx90a", True),
        ("vllm-rocm:rocm7.2/gfx90a/py3.12", True),
        ("rocm7.2", True),
        ("py3.12", True),
        ("gfx942", False),
        ("rocm7.0", False),
        ("rocm-canary:gfx90a", False),
        ("rocm-canary", False),
        ("vllm-rocm:rocm7.0/gfx90a", False),
        ("py3.13", False),
    ],
)
def test_allow_missing_names_places_of_the_matrix(allow: str, fine: bool) -> None:
    case = Case(without(vllms(), "gfx90a", "rocm72"), allow_missing=[allow])
    assert (case.refused() == []) is fine


@pytest.mark.parametrize(
    "text", ["vllm-rocm:", "vllm-rocm:gfx90a/gfx942", "gfx90a/banana", "x:7.2", "a:b:gfx"]
)
def test_an_allow_missing_that_says_nothing_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="--allow-missing"):
        parse_allowed(text)
    case = whole()
    case.allow_missing = [text]
    assert case.refused() == ["allow-missing the command line"]


def test_a_third_arch_is_wanted_once_the_matrix_has_it() -> None:
    values = {
        **SMALL.values,
        "rocm_arch": ("gfx90a", "gfx942", "gfx950"),
        "rocm_isa": ("9.0.10", "9.4.2", "9.5.0"),
    }
    case = Case(vllms(), matrix=Matrix(SMALL.path, values, SMALL.zip_groups))
    assert case.rules() == {"partial"}
    case.allow_missing = ["gfx950"]
    assert case.refused() == []


# ---- routing


def test_declared_builds_go_to_labels_and_nothing_else_does() -> None:
    declared, detected = selecting("declared"), selecting()
    assert {key for p in (*detected, *canaries()) for key in routes(p, {}, declared)} == {"linux-64"}
    arch = next(p for p in declared if p.build.startswith("gfx942"))
    assert routes(arch, {}) == ["label/gfx942/linux-64"]
    assert routes(arch, {}, declared) == [
        "label/gfx942-rocm7.0/linux-64",
        "label/gfx942-rocm7.2/linux-64",
        "label/gfx942/linux-64",
    ]
    rocm = next(p for p in declared if p.version == "7.2")
    assert routes(rocm, index(arch, key="label/gfx942/linux-64")) == [
        "label/gfx942-rocm7.2/linux-64",
        "label/rocm-7.2/linux-64",
    ]
    with pytest.raises(ChannelError, match="no label channel is for"):
        routes(package("tool", "1", "gfx942_declared_0"), {})


def test_combined_labels_are_completed_from_what_is_there() -> None:
    declared = selecting("declared")
    archs = [p for p in declared if p.name == "amdgpu-arch"]
    rocm = next(p for p in declared if p.version == "7.2")
    present: dict[str, SubdirIndex] = {}
    for arch in archs:
        present.update(index(arch, key=f"label/{arch.build.split('_')[0]}/linux-64"))
    assert completions([rocm], present) == [
        (f"label/{a}/linux-64/amdgpu-arch-{ISA[a]}-{a}_declared_0.conda", f"label/{a}-rocm7.2/linux-64")
        for a in ISA
    ]
    present.update(index(rocm, archs[0], key="label/gfx90a-rocm7.2/linux-64"))
    assert [key for _, key in completions([rocm], present)] == ["label/gfx942-rocm7.2/linux-64"]
    assert completions(canaries(), present) == []


def test_the_release_that_the_recipes_give_passes() -> None:
    """Every output of every recipe over the whole matrix, with the run exports that an engine adds."""
    from tests.integration.test_aliases import exported
    from tests.unit.test_heavy_recipes import render

    packages = []
    for folder in sorted((ROOT / "recipes").glob("*/recipe.yaml")):
        for output in render(folder.parent.name):
            recipe = output.recipe
            depends = (*output.specs("run"), *exported(output))
            extra = recipe.get("extra", {})
            name, version = recipe["package"]["name"], str(recipe["package"]["version"])
            packages.append(package(name, version, output.build, depends, **extra))
    case = Case(packages, matrix=REAL)
    assert case.refused() == []
    assert len(packages) > 30
    for missing in packages:
        build = of_package(missing)
        if not missing.declared and (build.selects or build.arch or build.rocm or build.python):
            case.packages = [p for p in packages if p is not missing]
            assert case.refused(), f"a release without {missing.path.name} is no whole one"


def test_rules_are_pure_and_fast() -> None:
    """A release of 24 against a channel of 5,000 takes well under a second."""
    import time

    old = [canary("gfx942", "7.2", f"0.0.{n}") for n in range(5000)]
    case = whole()
    case.present = index(*old)
    start = time.perf_counter()
    assert case.refused() == []
    assert time.perf_counter() - start < 5
    assert len(RULES) == len(set(RULES))
