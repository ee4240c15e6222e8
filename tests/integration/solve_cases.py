"""Every kind of machine against every kind of declaration: what our client and what a plain client gets.

The channel has the stack of the recipes (Triton, PyTorch, vLLM and both aliases) for two archs and two ROCm
releases; behind it stands a channel like conda-forge, with PyTorch and Triton of its own in higher versions,
and with packages under our names that somebody uploaded there. All packages are real files in miniature.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from channel_tools import rattler_process
from channel_tools.client.host import Host
from channel_tools.client.reader import Look, Reader, open_reader
from channel_tools.client.selection import select
from channel_tools.client.solved_checks import check
from channel_tools.client.solving import request
from channel_tools.model.arch import lookup
from channel_tools.model.errors import ChannelToolsError
from tests.integration.tiny_packages import ISA, arch_package, gpu_package, rocm_package, tiny_package

DETECTED = ("gfx90a", "gfx942", "gfx950", None)
DECLARED = ("gfx90a", "gfx942", None)
PRIORITIES = ("strict", "flexible")
WAYS = ("rocm-channel", "plain client")
ROCM = "7.2"
STACKS = {"7.0": ("0.16.0", "2.9.1", "3.5.1"), "7.2": ("0.26.0", "2.11.0", "3.6.0")}
HOST = [["__unix", "0", "0"], ["__linux", "6.8", "0"], ["__glibc", "2.39", "0"], ["__cuda", "13.0", "0"]]
OURS = ("vllm-rocm", "pytorch-rocm", "triton-rocm", "pytorch", "triton", "amdgpu-arch", "rocm-userspace")


@dataclass(frozen=True)
class Scene:
    """One state of the channel and what a user asks for."""

    title: str
    specs: tuple[str, ...] = ("vllm-rocm",)
    newer_for: tuple[str, ...] = ()
    rebuilt_for: tuple[str, ...] = ()


SCENES = (
    Scene("both archs alike"),
    Scene("newer version for gfx90a only", newer_for=("gfx90a",)),
    Scene("newer build number for gfx90a only", rebuilt_for=("gfx90a",)),
    Scene("pin amdgpu-arch=*=gfx90a*", ("vllm-rocm", "amdgpu-arch=*=gfx90a*")),
    Scene("with a package that needs pytorch", ("vllm-rocm", "needs-torch", "needs-triton")),
    Scene("a version that only the other channel has", ("vllm-rocm=99.0",)),
)


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    scene: Scene
    detected: str | None
    declared: str | None
    priority: str
    way: str

    @property
    def wanted_arch(self) -> str | None:
        """The arch that the environment must be for; None: it must be refused."""
        arch = self.declared or self.detected
        return arch if arch in ISA else None


@dataclass(frozen=True)
class Answer:
    """``records`` by name as (version, build, from our channel?); ``refused`` by whom, with ``text``."""

    records: Mapping[str, tuple[str, str, bool]] = field(default_factory=dict)
    refused: str | None = None
    text: str = ""

    @property
    def archs(self) -> set[str]:
        """GPU targets that build strings of our packages name."""
        words = (word for _, build, _ in self.records.values() for word in build.split("_"))
        return {word for word in words if word.startswith("gfx")}

    @property
    def foreign(self) -> list[str]:
        """Packages under our names that are not ours."""
        return sorted(name for name, found in self.records.items() if name in OURS and not found[2])

    @property
    def short(self) -> str:
        if self.refused:
            return f"refused ({self.refused})"
        version, _, _ = self.records.get("vllm-rocm", ("-", "-", True))
        what = f"{'+'.join(sorted(self.archs)) or 'no arch'} {version}"
        return f"{what}, FOREIGN {' '.join(self.foreign)}" if self.foreign else what


def make_channels(folder: Path, scene: Scene) -> tuple[Path, Path]:
    """Our channel in one state, and the one behind it."""
    ours, forge = folder / "internal", folder / "conda-forge"
    for release, arch in product(STACKS, ISA):
        stack(ours, arch, release, *STACKS[release])
        label = ours / "label" / f"{arch}-rocm{release}"
        arch_package(label, arch, "declared")
        rocm_package(label, release, "declared")
        arch_package(ours / "label" / arch, arch, "declared")
        rocm_package(ours / "label" / f"rocm-{release}", release, "declared")
    for arch in ISA:
        arch_package(ours, arch)
    for release in STACKS:
        rocm_package(ours, release)
    for arch in scene.newer_for:
        stack(ours, arch, ROCM, "0.27.0", *STACKS[ROCM][1:])
    for arch in scene.rebuilt_for:
        stack(ours, arch, ROCM, *STACKS[ROCM], number=1)
    like_conda_forge(forge)
    return ours, forge


def stack(folder: Path, arch: str, release: str, vllm: str, torch: str, triton: str, number: int = 0) -> None:
    """One row of the matrix as the recipes make it."""
    word = f"rocm{release.replace('.', '')}"
    python = "python >=3.12,<3.13.0a0"
    exact = f"{word}_{arch}_*"
    gpu_package(
        folder,
        "vllm-rocm",
        vllm,
        arch,
        release,
        number,
        depends=[python, f"pytorch-rocm =={torch} {exact}"],
    )
    gpu_package(
        folder, "pytorch-rocm", torch, arch, release, number, depends=[python, f"triton-rocm =={triton}"]
    )
    tiny_package(folder, "triton-rocm", triton, "py312_h1_0", depends=[python])
    alias = f"{word}_{arch}_py312_h2_0"
    tiny_package(folder, "pytorch", torch, alias, depends=[f"pytorch-rocm =={torch} {exact}"])
    tiny_package(folder, "triton", triton, "rocm_py312_h3_0", depends=[f"triton-rocm =={triton} py312_*"])


def like_conda_forge(folder: Path) -> None:
    """PyTorch and Triton for CUDA, newer than ours; what needs them; and squatters of our names."""
    tiny_package(folder, "python", "3.12.9", "h0_0_cpython", build_number=0)
    tiny_package(folder, "pytorch", "2.12.1", "cuda129_py312_h4_300", depends=["python", "__cuda"])
    tiny_package(folder, "pytorch", "2.12.1", "cpu_py312_h5_100", depends=["python"])
    tiny_package(folder, "triton", "3.7.1", "cuda129py312h6_0", depends=["python"])
    tiny_package(folder, "needs-torch", "1.0", "py_0", depends=["python", "pytorch >=2.1"])
    tiny_package(folder, "needs-triton", "1.0", "py_0", depends=["python", "triton >=3"])
    for name in ("vllm-rocm", "pytorch-rocm", "amdgpu-arch", "rocm-userspace"):
        tiny_package(folder, name, "99.0", "h7_0")


def index(folders: Iterable[Path]) -> None:
    """Index channels together with their labels."""
    paths = [one for folder in folders for one in (folder, *sorted(folder.glob("label/*")))]
    for path in paths:
        (path / "noarch").mkdir(exist_ok=True)
    rattler_process.call("index", {"channels": [str(path) for path in paths]})


def cases(scenes: Sequence[Scene] = SCENES) -> list[Case]:
    return [Case(*one) for one in product(scenes, DETECTED, DECLARED, PRIORITIES, WAYS)]


def solve_all(folder: Path, wanted: Sequence[Case]) -> dict[Case, Answer]:
    """Make the channels of each scene, and solve every case with py-rattler, in one process."""
    made = {}
    for number, scene in enumerate(dict.fromkeys(case.scene for case in wanted)):
        made[scene] = make_channels(folder / str(number), scene)
    index(path for pair in made.values() for path in pair)
    looks = {scene: open_reader(ours).look("all") for scene, (ours, _) in made.items()}
    answers: dict[Case, Answer] = {}
    asked: dict[Case, dict[str, Any]] = {}
    for case in wanted:
        ours, forge = made[case.scene]
        try:
            asked[case] = _payload(case, open_reader(ours), looks[case.scene], forge.as_uri())
        except ChannelToolsError as error:
            answers[case] = Answer(refused=f"{error.exit_code}, before the solve", text=str(error))
    solves = [{**payload, "described": True} for payload in asked.values()]
    found = rattler_process.call("solves", {"solves": solves})
    for case, answer in zip(asked, found, strict=True):
        reader = open_reader(made[case.scene][0])
        answers[case] = _answer(case, reader, looks[case.scene], answer)
    return {case: answers[case] for case in wanted}


def _payload(case: Case, reader: Reader, look: Look, forge: str) -> dict[str, Any]:
    known = lookup(case.detected) if case.detected else None
    if case.way == "rocm-channel":
        host = Host((known,) if known else (), ROCM, Path("/opt/rocm"))
        selection = select(look.offer, host, reader.shown, case.declared)
        return request(reader, case.scene.specs, selection, [forge], case.priority, HOST)  # type: ignore[arg-type]
    label = f"{case.declared}-rocm{ROCM}" if case.declared else f"rocm-{ROCM}"
    gpu = [["__amdgpu", "0", "0"], ["__amdgpu_arch", known.isa, "0"]] if known else []
    return {
        "channels": [reader.label_url(label), reader.url, forge],
        "specs": list(case.scene.specs),
        "virtual": HOST + gpu,
        "priority": case.priority,
    }


def _answer(case: Case, reader: Reader, look: Look, answer: Mapping[str, Any]) -> Answer:
    if "refused" in answer:
        return Answer(refused="solver", text=answer["refused"])
    assert "records" in answer, answer
    records = answer["records"]
    if case.way == "rocm-channel":
        try:
            check(reader, look.names, records, case.wanted_arch, ROCM)
        except ChannelToolsError as error:
            return Answer(refused=f"{error.exit_code}, after the solve", text=str(error))
    return Answer({r["name"]: (r["version"], r["build"], reader.owns(r["url"])) for r in records})
