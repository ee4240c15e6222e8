"""``rocm-channel preflight``: vLLM's real sources configured with PyTorch's own build files, and judged.

Nothing is compiled but CMake's own small checks. docs/preflight.md lists what is not the real thing here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from channel_tools.model.errors import GuardError
from channel_tools.model.matrix import read_matrix
from channel_tools.model.project import Project
from channel_tools.preflight import PreflightError, Report, Request, requests, run_preflight
from channel_tools.preflight.configure import Configuration, configure
from channel_tools.preflight.judge import Wanted, judge_configuration, judge_request
from channel_tools.preflight.request import recipe_settings
from channel_tools.preflight.source import staged_source
from channel_tools.preflight.stand_in import make_torch
from channel_tools.preflight.torch_files import Wheel, torch_files
from channel_tools.preflight.units import CompileUnit, read_compile_commands
from tests.integration.helpers import make_project

ROOT = Path(__file__).resolve().parents[2]
MATRIX = read_matrix(ROOT / "variants" / "conda_build_config.yaml")
PLAIN = MATRIX.restricted({"selection": ["declared"], "python": MATRIX.values["python"][:1]})
ARCHS = MATRIX.values["rocm_arch"]
STACKS = list(zip(MATRIX.values["rocm_version"], MATRIX.values["vllm_version"], strict=True))
# HIP and C++ units of the whole of vLLM.
UNITS = {"0.16.0": (27, 4), "0.26.0": (33, 7)}
STANDARDS = {"0.16.0": "-std=gnu++17", "0.26.0": "-std=gnu++20"}
PYTHON = Path(sys.executable)

needs_tools = pytest.mark.skipif(shutil.which("g++-11") is None, reason="needs gcc-11 and g++-11")


def request_for(
    rocm: str, arch: str, sdk: Path, build_type: str = "Release", project: Path = ROOT, **more: Any
) -> Request:
    matrix = PLAIN.restricted({"rocm_version": [rocm], "rocm_arch": [arch]})
    python = more.pop("python", PYTHON)
    (request,) = requests(Project(project), "vllm-rocm", matrix, build_type, sdk, python, **more)
    return request


Key = tuple[str, str, str]


@pytest.fixture(scope="module")
def matrix_reports(sdk_root: Path) -> dict[Key, Future[Report]]:
    """Both versions, both archs, both build types; as many at once as there are processors.

    All have ended before the first test runs: pytest sets PYTEST_CURRENT_TEST between the phases of a test,
    and a thread that starts a program while another one changes the environment can get EFAULT from execve.
    """
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return {
            (vllm, arch, build_type): pool.submit(
                run_preflight, request_for(rocm, arch, sdk_root, build_type)
            )
            for rocm, vllm in STACKS
            for arch in ARCHS
            for build_type in ("Release", "RelWithDebInfo")
        }


@needs_tools
@pytest.mark.network
@pytest.mark.parametrize("build_type", ["Release", "RelWithDebInfo"])
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("vllm", [vllm for _, vllm in STACKS])
def test_every_unit_is_o2_for_the_arch_of_the_variant(
    matrix_reports: dict[Key, Future[Report]], vllm: str, arch: str, build_type: str
) -> None:
    report = matrix_reports[vllm, arch, build_type].result()
    assert report.faults == []
    languages = {language.name: language for language in report.languages}
    hip, cxx = UNITS[vllm]
    assert {name: language.units for name, language in languages.items()} == {"HIP": hip, "C++": cxx}
    for language in languages.values():
        assert language.levels == {"-O2": language.units}
        assert language.standards == {STANDARDS[vllm]: language.units}
        assert language.flags == {}
    assert languages["HIP"].targets == {arch: hip}
    assert languages["C++"].compilers.keys() == {shutil.which("g++-11")}
    (hip_compiler,) = languages["HIP"].compilers
    assert hip_compiler.endswith("lib/llvm/bin/clang++"), "CMake refuses hipcc"
    # What the report was made from, looked at with other eyes.
    assert report.compile_commands is not None
    commands = [unit["command"] for unit in json.loads(Path(report.compile_commands).read_text())]
    assert len(commands) == hip + cxx
    for command in commands:
        words = command.split()
        assert [word for word in words if word.startswith("-O")][-1] == "-O2"
        if "-x hip" in command:
            assert [word for word in words if word.startswith("--offload-arch")] == [f"--offload-arch={arch}"]
            assert "--gcc-install-dir=" in command
            # Of PyTorch's own cpp_extension.py.
            assert "-DHIP_ENABLE_WARP_SYNC_BUILTINS=1" in words and "-DHIPBLAS_V2" in words


@needs_tools
@pytest.mark.network
def test_what_stands_in_is_said(matrix_reports: dict[Key, Future[Report]]) -> None:
    report = matrix_reports["0.26.0", "gfx942", "Release"].result()
    text = " ".join(report.stands_in)
    for words in ("PyTorch 2.11.0 (its own build files)", "hipblaslt", "triton_kernels", "Debian packages"):
        assert words in text
    assert "0001-cap-optimisation-at-O2.patch" in report.source
    log = Path(str(report.compile_commands).replace(".compile_commands.json", ".log")).read_text()
    # PyTorch's LoadHIP.cmake ran, for the ROCm of the variant.
    assert "Building PyTorch for GPU arch: gfx942" in log and "ROCM_VERSION_DEV: 7.2.0" in log


def without_patch(folder: Path) -> Path:
    """A project whose vllm-rocm has lost the patch that caps the level."""
    project = make_project(folder)
    recipe = project / "recipes" / "vllm-rocm" / "recipe.yaml"
    text = recipe.read_text()
    assert text.count("      - patches/0001-cap-optimisation-at-O2.patch\n") == 1
    recipe.write_text(text.replace("      - patches/0001-cap-optimisation-at-O2.patch\n", ""))
    return project


@needs_tools
@pytest.mark.network
@pytest.mark.parametrize(("rocm", "vllm"), STACKS)
def test_without_the_patch_release_fails_with_the_number_of_units(
    rocm: str, vllm: str, sdk_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCM_CHANNEL_CACHE", str(Project(ROOT).cache))
    report = run_preflight(request_for(rocm, "gfx942", sdk_root, project=without_patch(tmp_path)))
    hip, cxx = UNITS[vllm]
    faults = {(fault.what, fault.units) for fault in report.faults}
    assert faults == {
        (f"{cxx} of {cxx} C++ units are compiled at -O3", cxx),
        (f"{hip} of {hip} HIP units are compiled at -O3", hip),
    }
    assert {language.name: language.levels for language in report.languages} == {
        "C++": {"-O3": cxx},
        "HIP": {"-O3": hip},
    }


@needs_tools
@pytest.mark.network
def test_o3_from_cxxflags_fails(sdk_root: Path) -> None:
    changed = {"CXXFLAGS": "-O3 -pipe"}
    report = run_preflight(request_for("7.0", "gfx90a", sdk_root, engine=changed))
    (fault,) = report.faults
    assert fault.what == "4 of 4 C++ units are given -O3, which only a later option on the line undoes"
    assert "CXXFLAGS" in fault.fix
    cxx = next(language for language in report.languages if language.name == "C++")
    assert cxx.levels == {"-O2": 4} and cxx.flags == {"-O3": 4}


def python_with(site: Path, program: Path) -> Path:
    """A Python that finds that ``torch``, as the Python of a build environment does."""
    program.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture
def rocm_torch(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a Python with a PyTorch that says it is for ROCm, as on a build host."""

    def make(version: str) -> Path:
        files = torch_files(version, Project(ROOT).cache / "sources")
        return python_with(make_torch(files, tmp_path / "site", "7.2"), tmp_path / "python")

    return make


@needs_tools
@pytest.mark.network
def test_levels_from_torch_s_options_fail_though_the_patch_is_there(
    rocm_torch: Callable[[str], Path], sdk_root: Path, tmp_path: Path
) -> None:
    python = rocm_torch("2.11.0")
    torch = tmp_path / "site" / "torch"
    edits = {
        # What vLLM asks Python for, and gives to HIP units.
        "utils/cpp_extension.py": ("'-DHIPBLAS_V2',", "'-DHIPBLAS_V2', '-O3',"),
        # What PyTorch's targets hand to whoever links them.
        "share/cmake/Caffe2/Caffe2Targets.cmake": (
            "set_target_properties(c10 PROPERTIES",
            "set_target_properties(c10 PROPERTIES\n"
            '  INTERFACE_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:-Ofast>"',
        ),
    }
    for file, (old, new) in edits.items():
        text = (torch / file).read_text()
        assert old in text
        (torch / file).write_text(text.replace(old, new))
    report = run_preflight(request_for("7.2", "gfx942", sdk_root, python=python))
    # As on a build host: a PyTorch for ROCm in the build's Python is used, and nothing stands in for it.
    assert report.torch == "PyTorch 2.11.0 for HIP 7.2.0, of this Python"
    assert not any("PyTorch" in text for text in report.stands_in)
    assert {fault.what: fault.units for fault in report.faults} == {
        "33 of 33 HIP units are compiled at -O3": 33,
        "7 of 7 C++ units are compiled at -Ofast": 7,
    }
    assert all("PyTorch's options" in fault.fix for fault in report.faults)


@pytest.mark.network
def test_a_torch_of_another_release_than_the_variant_s_is_refused(
    rocm_torch: Callable[[str], Path], sdk_root: Path
) -> None:
    python = rocm_torch("2.11.0")
    with pytest.raises(PreflightError) as caught:
        run_preflight(request_for("7.0", "gfx90a", sdk_root, python=python))
    assert (caught.value.found, caught.value.wanted) == ("2.11.0", "2.9.1")


@needs_tools
@pytest.mark.network
@pytest.mark.parametrize(
    ("value", "whats", "found"),
    [
        (
            None,
            [
                "PYTORCH_ROCM_ARCH is not set: PyTorch would take this host's GPUs",
                "PYTORCH_ROCM_ARCH is not set or empty, and PyTorch's LoadHIP.cmake found no GPU",
            ],
            "No GPU arch specified for ROCm build",
        ),
        (
            "gfx90a:xnack-",
            [
                "the source compares archs letter by letter, and drops gfx90a:xnack- without a word",
                "vLLM compares archs with HIP_SUPPORTED_ARCHS letter by letter, and kept none",
            ],
            "None of the detected ROCm architectures: gfx90a:xnack- is supported",
        ),
    ],
)
def test_a_wrong_arch_fails_and_says_why(
    sdk_root: Path, value: str | None, whats: Sequence[str], found: str
) -> None:
    """Below the guards, as if one of them had missed it."""
    report = run_preflight(request_for("7.0", "gfx90a", sdk_root, forced={"PYTORCH_ROCM_ARCH": value}))
    assert len(report.faults) == len(whats)
    for fault, what in zip(report.faults, whats, strict=True):
        assert fault.what.startswith(what)
        assert fault.wanted and fault.fix
    assert found in report.faults[-1].found


@needs_tools
@pytest.mark.network
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "rocm_arch is not set"),
        ("gfx90a:xnack-", "rocm_arch carries target features"),
        ("gfx942;gfx90a", "rocm_arch names more than one target"),
    ],
)
def test_the_guard_of_the_build_script_says_it_first(sdk_root: Path, value: str | None, words: str) -> None:
    with pytest.raises(GuardError) as caught:
        run_preflight(request_for("7.0", "gfx90a", sdk_root, engine={"rocm_arch": value}))
    assert caught.value.exit_code == 61 and words in caught.value.what


@needs_tools
@pytest.mark.network
def test_a_download_fails(sdk_root: Path) -> None:
    """Without TRITON_KERNELS_SRC_DIR, vLLM fetches Triton with git."""
    forced = {"TRITON_KERNELS_SRC_DIR": None}
    source = staged_source(request_for("7.2", "gfx942", sdk_root).output, Project(ROOT))
    report = run_preflight(request_for("7.2", "gfx942", sdk_root, forced=forced, source=source))
    assert report.source == str(source)
    (fault,) = report.faults
    assert fault.what == "the source would download in its build"
    assert fault.found == "FetchContent triton_kernels: https://github.com/triton-lang/triton.git"


@pytest.mark.parametrize(
    ("given", "whats"),
    [
        ("gfx90a", []),
        ("gfx942", ["PYTORCH_ROCM_ARCH is not the variant's arch"]),
        ("", ["PYTORCH_ROCM_ARCH is empty: PyTorch would take this host's GPUs"]),
        (
            "gfx90a;gfx90c",
            [
                "PYTORCH_ROCM_ARCH names 2 archs",
                "the source compares archs letter by letter, and drops gfx90c",
            ],
        ),
        (
            "gfx90a gfx942:sramecc+",
            [
                "PYTORCH_ROCM_ARCH names 2 archs",
                "the source compares archs letter by letter, and drops gfx942:",
            ],
        ),
    ],
)
def test_what_the_environment_asks_for(given: str, whats: list[str]) -> None:
    wanted = Wanted("gfx90a", "-O2", ("HIP",), (), "PYTORCH_ROCM_ARCH", ("gfx90a", "gfx942"))
    faults = list(judge_request({"PYTORCH_ROCM_ARCH": given}, wanted))
    assert len(faults) == len(whats)
    assert all(fault.what.startswith(what) for fault, what in zip(faults, whats, strict=True))


# --- downloads, each way out of CMake --------------------------------------------------------------

PROJECT = "cmake_minimum_required(VERSION 3.26)\nproject(one LANGUAGES NONE)\n"
WAYS = {
    "FetchContent with git": (
        """
        include(FetchContent)
        FetchContent_Declare(json GIT_REPOSITORY https://example.invalid/json.git GIT_TAG v1)
        FetchContent_MakeAvailable(json)
        """,
        "FetchContent json: https://example.invalid/json.git",
    ),
    "FetchContent with an archive": (
        """
        include(FetchContent)
        FetchContent_Declare(json URL https://example.invalid/json.tar.gz)
        FetchContent_MakeAvailable(json)
        """,
        "FetchContent json: https://example.invalid/json.tar.gz",
    ),
    "FetchContent the old way": (
        """
        cmake_policy(SET CMP0169 OLD)
        include(FetchContent)
        FetchContent_Declare(json GIT_REPOSITORY https://example.invalid/json.git GIT_TAG v1)
        FetchContent_Populate(json)
        """,
        "git clone --no-checkout",
    ),
    "ExternalProject, in the build": (
        """
        include(ExternalProject)
        ExternalProject_Add(zlib URL https://example.invalid/zlib.tar.gz)
        """,
        "ExternalProject zlib: https://example.invalid/zlib.tar.gz",
    ),
    "git": (
        "execute_process(COMMAND git clone https://example.invalid/a.git)",
        "git clone https://example.invalid/a.git",
    ),
    "file(DOWNLOAD)": (
        'file(DOWNLOAD https://example.invalid/a "${CMAKE_BINARY_DIR}/a" STATUS status)',
        "network: CONNECT example.invalid:443",
    ),
    "a Python of its own": (
        f"""
        execute_process(COMMAND {sys.executable} -c
          "import urllib.request as u; u.urlopen('http://example.invalid/b')")
        """,
        "network: GET http://example.invalid/b",
    ),
}


def configured(folder: Path, text: str) -> Configuration:
    source, build, work = folder / "source", folder / "build", folder / "watch"
    source.mkdir()
    work.mkdir()
    (source / "CMakeLists.txt").write_text(PROJECT + textwrap.dedent(text))
    environment = {"PATH": f"{PYTHON.parent}:{os.environ['PATH']}", "HOME": str(folder)}
    command = ["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja"]
    return configure(command, environment, source, build, work)


@pytest.mark.parametrize("way", WAYS)
def test_a_download_attempt_is_seen(tmp_path: Path, way: str) -> None:
    text, noted = WAYS[way]
    started = time.monotonic()
    configuration = configured(tmp_path, text)
    assert time.monotonic() - started < 15, "CMake's retries are not waited for"
    assert any(attempt.startswith(noted) for attempt in configuration.downloads), configuration
    assert {fault.what for fault in judge_configuration(configuration)} == {
        "the source would download in its build"
    }


def test_what_is_there_already_is_no_download(tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "CMakeLists.txt").touch()
    configuration = configured(
        tmp_path,
        f"""
        include(FetchContent)
        FetchContent_Declare(json SOURCE_DIR {tmp_path}/json)
        FetchContent_MakeAvailable(json)
        execute_process(COMMAND git --version OUTPUT_VARIABLE version)
        message("${{version}}")
        """,
    )
    assert (configuration.status, configuration.downloads) == (0, ())
    assert "git version" in configuration.log
    assert list(judge_configuration(configuration)) == []


# --- reading commands ------------------------------------------------------------------------------


def unit_of(folder: Path, command: str, file: str = "a.cpp") -> CompileUnit:
    path = folder / "compile_commands.json"
    path.write_text(json.dumps([{"directory": str(folder), "command": command, "file": file}]))
    return read_compile_commands(path)[0]


@pytest.mark.parametrize(
    ("words", "level", "given"),
    [
        ("-O3 -O2", "-O2", ("-O3", "-O2")),
        ("-O2 -O3", "-O3", ("-O2", "-O3")),
        ("-O2 -Ofast", "-Ofast", ("-O2", "-Ofast")),
        ("-O2 -Oz", "-Oz", ("-O2", "-Oz")),
        ("-O2 -DX=-O3", "-O2", ("-O2",)),
        ("-O2 -Xclang -O3", "-O3", ("-O2", "-O3")),
        ("-O2 -Xarch_device -O3", "-O2/-O3", ("-O2", "-O3")),
        ("-O", "-O1", ("-O1",)),
        ("", "-O0", ()),
    ],
)
def test_the_level_that_wins(tmp_path: Path, words: str, level: str, given: tuple[str, ...]) -> None:
    unit = unit_of(
        tmp_path, f"hip_cuid.sh /x/clang++ {words} --offload-arch=gfx942 -std=gnu++17 -x hip -c a.hip"
    )
    assert (unit.level, unit.given_levels) == (level, given)
    assert (unit.language, unit.compiler, unit.standard) == ("HIP", "/x/clang++", "-std=gnu++17")


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '[{"file": "a.cpp"}]', '[{"command": "g++ \'", "file": "a"}]']
)
def test_what_is_no_compile_commands(tmp_path: Path, content: str) -> None:
    path = tmp_path / "compile_commands.json"
    path.write_text(content)
    with pytest.raises(PreflightError):
        read_compile_commands(path)


# --- PyTorch's files -------------------------------------------------------------------------------


def test_every_torch_of_the_matrix_has_a_pinned_wheel() -> None:
    assert [Wheel.of(version).version for version in MATRIX.values["pytorch_version"]]
    with pytest.raises(PreflightError, match=r"no build files of PyTorch 3\.0\.0 are pinned"):
        Wheel.of("3.0.0")


def test_another_wheel_than_the_pinned_is_refused(tmp_path: Path) -> None:
    wheel = Wheel.of("2.9.1")
    (tmp_path / wheel.file).write_bytes(b"something else")
    with pytest.raises(PreflightError) as caught:
        torch_files("2.9.1", tmp_path)
    assert wheel.sha256 in str(caught.value)
    assert (tmp_path / wheel.file).read_bytes() == b"something else", "nothing is deleted"


@pytest.mark.network
@pytest.mark.parametrize("version", MATRIX.values["pytorch_version"])
def test_the_stand_in_is_pytorch_s_own_but_for_the_edits(version: str, tmp_path: Path) -> None:
    files = torch_files(version, Project(ROOT).cache / "sources")
    site = make_torch(files, tmp_path / "site", "7.2")
    changed = {
        str(path.relative_to(files))
        for path in files.rglob("*")
        if path.is_file() and path.read_bytes() != (site / path.relative_to(files)).read_bytes()
    }
    assert changed == {
        "torch/version.py",
        "torch/share/cmake/Caffe2/Caffe2Config.cmake",
        "torch/share/cmake/Caffe2/Caffe2Targets-release.cmake",
        "torch/share/cmake/Caffe2/Caffe2Targets.cmake",
    }
    ask = (
        "import torch, torch.utils.cpp_extension as c;"
        "print(torch.__version__, torch.version.hip, c.ROCM_HOME, *c.COMMON_HIP_FLAGS, *c.COMMON_HIPCC_FLAGS)"
    )
    done = subprocess.run(
        [PYTHON, "-c", ask],
        env={"PYTHONPATH": str(site), "ROCM_HOME": "/opt/rocm"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.split()
    assert said[:3] == [version, "7.2.0", "/opt/rocm"]
    assert "-D__HIP_PLATFORM_AMD__=1" in said and not [word for word in said if word.startswith("-O")]


def test_a_new_pytorch_that_the_edits_do_not_fit_is_an_error(tmp_path: Path) -> None:
    version = tmp_path / "files" / "torch" / "version.py"
    version.parent.mkdir(parents=True)
    version.write_text("rocm = None\n")
    with pytest.raises(PreflightError, match="another one than expected"):
        make_torch(tmp_path / "files", tmp_path / "site", "7.2")


# --- the command -----------------------------------------------------------------------------------


def app() -> Any:
    import typer

    from channel_tools.cli.preflight import preflight

    made = typer.Typer()
    made.command("preflight")(preflight)
    made.command("other")(lambda: None)
    return made


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app(), ["preflight", *map(str, words)])


def test_recipes_without_a_preflight_say_why() -> None:
    for name in ("pytorch-rocm", "triton-rocm", "triton-llvm", "amdsmi", "rocm-canary", "nothing"):
        with pytest.raises(PreflightError) as caught:
            recipe_settings(name)
        assert caught.value.exit_code == 22
        assert ("custom commands" in caught.value.what) is (name == "pytorch-rocm")


@needs_tools
@pytest.mark.network
def test_json_and_exit_code(sdk_root: Path) -> None:
    words = ("vllm-rocm", "--arch", "gfx942", "--rocm", "7.0", "--rocm-path", sdk_root)
    done = invoke(*words, "--force-env", "PYTORCH_ROCM_ARCH=gfx942;gfx90a", "--json")
    assert isinstance(done.exception, PreflightError) and done.exception.exit_code == 22
    data = json.loads(done.stdout)
    assert data["version"] == 1
    (report,) = data["reports"]
    assert not report["passed"] and report["rocm_arch"] == "gfx942"
    assert [fault["what"] for fault in report["faults"]] == [
        "PYTORCH_ROCM_ARCH names 2 archs, and a package of this channel is for one",
        "27 of 27 HIP units are compiled for gfx90a",
    ]
    hip = next(language for language in report["languages"] if language["language"] == "HIP")
    assert hip["targets"] == {"gfx942,gfx90a": 27} and hip["levels"] == {"-O2": 27}
    assert data["error"]["exit_code"] == 22 and "1 of 1 configurations" in data["error"]["what"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("vllm-rocm", "--arch", "gfx90a:xnack-"), 10),
        (("vllm-rocm", "--rocm", "6.0"), 10),
        (("vllm-rocm", "--build-type", "Debug"), 22),
        (("pytorch-rocm",), 22),
        (("vllm-rocm", "--rocm-path", "/nowhere"), 13),
    ],
)
def test_wrong_words_have_one_clear_error(words: tuple[str, ...], code: int, sdk_root: Path) -> None:
    given = words if "--rocm-path" in words else (*words, "--rocm-path", str(sdk_root))
    done = invoke(*given)
    assert done.exception is not None and getattr(done.exception, "exit_code", None) == code


def test_a_source_folder_that_is_none(sdk_root: Path, tmp_path: Path) -> None:
    done = invoke("vllm-rocm", "--arch", "gfx942", "--rocm-path", sdk_root, "--source", tmp_path)
    assert isinstance(done.exception, PreflightError) and "no CMakeLists.txt" in done.exception.what


def command_lines() -> Iterator[str]:
    """Of every process of this machine."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_text(errors="replace")


@needs_tools
@pytest.mark.network
def test_ctrl_c_leaves_no_cmake_and_no_folder(sdk_root: Path, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    script = tmp_path / "run.py"
    script.write_text(
        "from channel_tools.cli import main, preflight\n"
        "if not any(c.name == 'preflight' for c in main.app.registered_commands):\n"
        "    main.app.command('preflight')(preflight.preflight)\n"
        "main.main()\n"
    )
    process = subprocess.Popen(
        [
            *(sys.executable, script, "preflight", "vllm-rocm", "--rocm", "7.2", "--arch", "gfx942"),
            *("--rocm-path", sdk_root),
        ],
        cwd=project,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "ROCM_CHANNEL_ROOT": str(project),
            "ROCM_CHANNEL_CACHE": str(Project(ROOT).cache),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list((project / "work").glob(".preflight.*/_configured/CMakeCache.txt")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in said, said
    assert list((project / "work").iterdir()) == []
    assert not [line for line in command_lines() if str(project / "work") in line]
