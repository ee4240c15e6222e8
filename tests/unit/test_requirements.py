"""Requirement lists, ranges, the data file, CMake and setup.py as text, and edits of the matrix."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channel_tools.model.errors import DamagedFileError, MatrixError, RequirementsError
from channel_tools.model.matrix import read_matrix
from channel_tools.requirements.bump import exported_names
from channel_tools.requirements.check import LEFT_OUT, MAPPED, Checked, check_output
from channel_tools.requirements.cmake_text import Argument, Condition, read_commands
from channel_tools.requirements.cmake_walk import CMakeWalk
from channel_tools.requirements.data_file import DataFile, read_data_file
from channel_tools.requirements.lists import Asked, read_lists
from channel_tools.requirements.matrix_edit import set_values
from channel_tools.requirements.patch_check import check_patches, touched
from channel_tools.requirements.ranges import compare_ranges
from channel_tools.requirements.rendered import Rendered, Spec
from channel_tools.requirements.sdist import read_sdist
from channel_tools.requirements.setup_modules import Module, extension_modules

ROOT = Path(__file__).resolve().parents[2]
MATRIX_FILE = ROOT / "variants" / "conda_build_config.yaml"


# --- lists


def names(files: dict[str, str], python: str = "3.12") -> dict[str, Asked]:
    return {asked.name: asked for asked in read_lists(files, ["requirements/a.txt"], python)}


def test_comments_continued_lines_options_and_names_are_read_as_pip_reads_them() -> None:
    text = (
        "# a comment\n\n--extra-index-url https://example.invalid/whl\nnumpy#1 is no comment\n"
        "Outlines_Core==0.2.11 # one\n  typing.extensions >= 4.10   # two\nprotobuf >= 5, \\\n  != 6.30.*\n"
    ).replace("numpy#1 is no comment", "numpy # a comment")
    found = names({"requirements/a.txt": text})
    assert {name: asked.range for name, asked in found.items()} == {
        "numpy": "",
        "outlines-core": "==0.2.11",
        "typing-extensions": ">=4.10",
        "protobuf": "!=6.30.*,>=5",
    }
    assert found["protobuf"].where == ("requirements/a.txt:7",)


@pytest.mark.parametrize(("python", "there"), [("3.11", False), ("3.12", True), ("3.13", True)])
def test_a_marker_is_asked_for_the_python_of_the_variant(python: str, there: bool) -> None:
    text = 'six>=1.16; python_version > "3.11"\nwinreg; sys_platform == "win32"\n'
    text += 'llguidance >=1; platform_machine == "x86_64" or platform_machine == "arm64"\n'
    found = names({"requirements/a.txt": text}, python)
    assert set(found) == {"llguidance", *(["six"] if there else [])}


def test_lines_of_one_name_are_joined_with_their_places_and_extras() -> None:
    files = {
        "requirements/a.txt": "-r b.txt\nsetuptools >=77,<81\nray[cgraph]\n",
        "requirements/b.txt": "-r ../other/c.txt\nSetuptools <80\nray[data]>=2\n",
        "other/c.txt": "-r ../requirements/a.txt\nwheel @ https://example.invalid/wheel.whl\n",
    }
    found = names(files)
    assert found["setuptools"].range == "<80,<81,>=77"
    assert found["setuptools"].where == ("requirements/a.txt:2", "requirements/b.txt:2")
    assert found["ray"].extras == ("cgraph", "data") and found["ray"].range == ">=2"
    assert found["wheel"].address == "https://example.invalid/wheel.whl"


def test_a_list_of_the_other_role_is_not_read_when_it_is_included() -> None:
    files = {"build.txt": "-r common.txt\ncmake\n", "common.txt": "numpy\n"}
    assert [asked.name for asked in read_lists(files, ["build.txt"], "3.12", ["common.txt"])] == ["cmake"]


def test_build_requirements_of_a_pyproject_come_with_their_line() -> None:
    text = '[build-system]\nrequires = [\n  "ninja",\n  "torch == 2.9.1",\n]\n'
    torch = next(
        a for a in read_lists({"pyproject.toml": text}, ["pyproject.toml"], "3.12") if a.name == "torch"
    )
    assert torch.range == "==2.9.1" and torch.where == ("pyproject.toml:4",)


@pytest.mark.parametrize("text", ["numpy =>1.0", "a b c", "-r missing.txt", "torch==2.9.1 extra"])
def test_a_line_that_is_no_requirement_is_an_error_with_its_place(text: str) -> None:
    with pytest.raises(RequirementsError) as refused:
        names({"requirements/a.txt": f"six\n{text}\n"})
    assert refused.value.exit_code == 16
    assert refused.value.where in ("requirements/a.txt:2", "requirements/missing.txt")


# --- ranges


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        ("", ""),
        ("==0.11.3", "==0.11.3"),
        ("<80.0.0,<81,>=77.0.3", ">=77.0.3,<80"),
        ("!=6.30.*,!=6.33.0.*,>=5.29.6", ">=5.29.6,!=6.30.*,!=6.33.0.*"),
        ("~=1.4.2", ">=1.4.2,<1.5"),
        ("==1.4.*", "1.4.*"),
        (">=3.5,>=3.4", ">=3.5.0"),
        ("==2.9", "==2.9.0"),
        ("==0.12.post1", "==0.12.post1"),
    ],
)
def test_ranges_that_are_equal(asked: str, taken: str) -> None:
    assert compare_ranges(asked, taken) is None


@pytest.mark.parametrize(
    ("asked", "taken", "refused", "missed"),
    [
        (">=1.2", "", "0", None),
        ("", ">=1.2", None, "0"),
        ("==0.2.14", "==0.2.11", "0.2.11", "0.2.14"),
        (">=1,<2", ">=1", "2", None),
        (">=1,<=2", ">=1,<2", None, "2"),
        (">=1,!=1.5", ">=1", "1.5", None),
        ("==1.4.2", "1.4.2.*", "1.4.2.0.0.1", None),
        ("==2.11.0", "2.11.*", "2.11.0.0.0.1", None),
        ("==3.7.1+git0263a6a6", "==3.6.0", "3.6.0", "3.7.1+git0263a6a6"),
    ],
)
def test_ranges_that_differ(asked: str, taken: str, refused: str | None, missed: str | None) -> None:
    found = compare_ranges(asked, taken)
    assert found is not None and (found.refused, found.missed) == (refused, missed)
    assert not found.impossible


def test_lists_that_contradict_each_other_allow_nothing() -> None:
    found = compare_ranges("==2.11.0,==2.13.0", "==2.11.0")
    assert found is not None and found.impossible and "no version" in found.words


@pytest.mark.parametrize(("asked", "taken"), [("about 1", ""), ("", "1.0 or so")])
def test_text_that_is_no_range(asked: str, taken: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        compare_ranges(asked, taken)


versions = st.lists(st.integers(0, 12), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))
comparators = st.tuples(st.sampled_from([">=", "<", "<=", "==", "!="]), versions).map("".join)
wildcards = st.tuples(st.sampled_from(["==", "!="]), versions).map(lambda pair: f"{pair[0]}{pair[1]}.*")
ranges = st.lists(comparators | wildcards, max_size=4).map(",".join)


@settings(max_examples=150, deadline=None)
@given(ranges)
def test_pip_and_conda_read_the_common_operators_alike(text: str) -> None:
    # conda spells ==1.4.* as 1.4.*
    conda = ",".join(
        part.removeprefix("==") if part.endswith(".*") and part[0] == "=" else part
        for part in text.split(",")
    )
    assert compare_ranges(text, conda) is None


@settings(max_examples=150, deadline=None)
@given(ranges, comparators)
def test_a_tighter_range_is_seen(text: str, more: str) -> None:
    tighter = f"{text},{more}" if text else more
    conda = ",".join(
        part.removeprefix("==") if part.endswith(".*") and part[0] == "=" else part
        for part in text.split(",")
    )
    found = compare_ranges(tighter, conda)
    assert found is None or (found.refused is not None and found.missed is None)


# --- the data file


def data_file(folder: Path, text: str) -> DataFile:
    path = folder / "requirements.toml"
    path.write_text(f"version = 1\n[files]\nbuild = []\nrun = []\n{text}")
    return read_data_file(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[left_out]]\nnames = ['a']\n", "left_out[0].reason: Field required"),
        ("[[left_out]]\nnames = ['a']\nreason = 'no'\n", "left_out[0].reason"),
        ("[[left_out]]\nnames = ['A_b']\nreason = 'it is written in another way'\n", "write 'a-b'"),
        ("[[left_out]]\nnames = []\nreason = 'it is written in another way'\n", "left_out[0].names"),
        ("[[left_out]]\nname = 'a'\nreason = 'it is written in another way'\n", "left_out[0]"),
        ("[[added]]\nnames = ['a']\nversions = 'new'\nreason = 'it is written in another way'\n", "versions"),
        (
            "[[added]]\nnames = ['a']\nrole = 'host'\nreason = 'it is written in another way'\n",
            "added[0].role",
        ),
        ("[other]\na = 1\n", "other"),
        ("names = [\n", "is no TOML"),
    ],
)
def test_a_wrong_data_file_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RequirementsError) as refused:
        data_file(tmp_path, text)
    assert message in str(refused.value) and "requirements.toml" in str(refused.value)


def test_no_data_file_is_an_error_that_says_where_one_is(tmp_path: Path) -> None:
    with pytest.raises(RequirementsError, match=r"recipes/vllm-rocm/requirements\.toml"):
        read_data_file(tmp_path / "requirements.toml")


# --- the check

REASON = "a reason that says enough"


def check(asked: dict[str, list[Asked]], specs: list[Spec], **tables: Any) -> Checked:
    data = DataFile.model_validate({"version": 1, "files": {"build": [], "run": []}, **tables})
    recipe = Rendered("p", "1.0", "p-1.0.tar.gz", "0" * 64, (), (), tuple(specs), (), (), {})
    return check_output(
        {"build": tuple(asked.get("build", [])), "run": tuple(asked.get("run", []))}, recipe, data
    )


def ask(name: str, range_: str = "", *extras: str) -> Asked:
    return Asked(name, range_, extras, ("common.txt:1",))


def kinds(checked: Checked) -> list[tuple[str, str]]:
    return [(difference.kind, difference.name) for difference in checked.differences]


def test_what_is_in_the_recipe_under_the_same_or_a_mapped_name_is_mapped() -> None:
    found = check(
        {"run": [ask("prometheus-client", ">=0.18"), ask("ray", ">=2")]},
        [Spec("prometheus_client", ">=0.18", "run"), Spec("ray-core", ">=2", "run")],
        names={"ray": "ray-core"},
    )
    assert not found.differences and [row.verdict for row in found.rows] == [MAPPED, MAPPED]
    assert [row.conda for row in found.rows] == ["prometheus_client", "ray-core"]


def test_new_dropped_and_changed_requirements_are_told() -> None:
    found = check(
        {"run": [ask("new"), ask("changed", ">=2")]},
        [Spec("changed", ">=1", "run"), Spec("dropped", "", "run")],
    )
    assert kinds(found) == [("new", "new"), ("range", "changed"), ("dropped", "dropped")]


def test_a_requirement_of_the_run_lists_is_not_met_by_the_host_section() -> None:
    found = check({"run": [ask("numpy")]}, [Spec("numpy", "", "host")])
    assert kinds(found) == [("new", "numpy"), ("dropped", "numpy")]


def test_build_and_host_together_meet_the_build_lists() -> None:
    found = check(
        {"build": [ask("cmake", ">=3.26,<4")]},
        [Spec("cmake", ">=3.26", "build"), Spec("cmake", "<4", "host")],
    )
    assert not found.differences


def test_an_exclusion_holds_for_its_releases_and_its_role() -> None:
    rule = {"names": ["timm"], "role": "run", "versions": ">=0.9", "reason": REASON}
    found = check({"run": [ask("timm")]}, [], left_out=[rule])
    assert not found.differences and found.rows[0].verdict == LEFT_OUT and found.rows[0].reason == REASON
    assert kinds(check({"run": [ask("timm")]}, [], left_out=[{**rule, "versions": ">=2"}])) == [
        ("new", "timm")
    ]
    build = check({"build": [ask("timm")]}, [], left_out=[rule])
    assert kinds(build) == [("new", "timm"), ("stale", "timm")]


def test_what_is_left_out_and_there_is_a_contradiction() -> None:
    rule = {"names": ["timm"], "reason": REASON}
    found = check({"run": [ask("timm")]}, [Spec("timm", "", "run")], left_out=[rule])
    assert ("contradiction", "timm") in kinds(found)


def test_another_range_is_taken_only_for_the_one_that_it_was_looked_at() -> None:
    rule = {"names": ["grpcio"], "asks": "==1.78.0", "takes": ">=1.78.0", "reason": REASON}
    recipe = [Spec("grpcio", ">=1.78.0", "run")]
    assert not check({"run": [ask("grpcio", "==1.78.0")]}, recipe, other_range=[rule]).differences
    newer = check({"run": [ask("grpcio", "==1.79.0")]}, recipe, other_range=[rule])
    assert kinds(newer) == [("range", "grpcio"), ("stale", "grpcio")]
    looser = check({"run": [ask("grpcio", "==1.78.0")]}, [Spec("grpcio", "", "run")], other_range=[rule])
    assert kinds(looser) == [("range", "grpcio"), ("stale", "grpcio")]


def test_an_extra_needs_a_word_of_its_own() -> None:
    recipe = [Spec("fastapi", "", "run")]
    assert kinds(check({"run": [ask("fastapi", "", "standard")]}, recipe)) == [("extra", "fastapi")]
    rule = {"name": "fastapi", "extras": ["standard"], "reason": REASON}
    assert not check({"run": [ask("fastapi", "", "standard")]}, recipe, extras=[rule]).differences
    assert kinds(check({"run": [ask("fastapi")]}, recipe, extras=[rule])) == [("stale", "fastapi[standard]")]


def test_a_build_requirement_may_be_met_at_run_time_where_that_is_said() -> None:
    rule = {"names": ["triton"], "reason": REASON}
    found = check({"build": [ask("triton", "==3.6.0")]}, [Spec("triton", "==3.6.0", "run")], at_run=[rule])
    assert not found.differences and found.rows[0].section == "run"


def test_a_requirement_by_address_is_never_met_by_a_name() -> None:
    by_address = Asked("wheel", "", (), ("a.txt:1",), "https://example.invalid/wheel.whl")
    found = check({"run": [by_address]}, [Spec("wheel", "", "run")])
    assert ("address", "wheel") in kinds(found)


# --- source distributions


def test_an_archive_and_its_folder_give_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "p-1.0"
    for name, text in {
        "PKG-INFO": "Metadata-Version: 2.4\nName: p\nVersion: 1.0\n",
        "requirements/build/rocm.txt": "torch\n",
        "cmake/deep/er/x.cmake": "set(A 1)\n",
        "p/deep.py": "import this\n",
        "LICENSE": "free\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    archive = tmp_path / "p-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, "p-1.0")
    also = frozenset({"p/deep.py"})
    packed, unpacked = read_sdist(archive, also), read_sdist(folder, also)
    assert packed.files == unpacked.files and packed.paths == unpacked.paths
    assert set(packed.files) == {
        "PKG-INFO",
        "requirements/build/rocm.txt",
        "cmake/deep/er/x.cmake",
        "p/deep.py",
    }
    assert "LICENSE" in packed.paths and packed.sha256 and unpacked.sha256 is None

    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(DamagedFileError, match="source distribution"):
        read_sdist(cut)
    with pytest.raises(RequirementsError, match="PKG-INFO"):
        read_sdist(folder / "p")
    with pytest.raises(RequirementsError, match="there is no source distribution"):
        read_sdist(tmp_path / "missing.tar.gz")


# --- CMake


def test_commands_are_read_with_comments_brackets_quotes_and_parentheses() -> None:
    text = '# set(A 1)\n#[[ set(B 2)\n]] SET(C "a;b (c)" [=[d ]] e]=] f\\ g)\nif((X) AND NOT Y)\n'
    first, second = read_commands(text)
    assert (first.name, first.words, first.line) == ("set", ["C", "a;b (c)", "d ]] e", "f\\ g"], 3)
    assert second.words == ["(", "X", ")", "AND", "NOT", "Y"] and second.line == 4


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('LANG STREQUAL "HIP"', True),
        ('LANG STREQUAL "CUDA"', False),
        ('"${LANG}" STREQUAL HIP', None),
        ('"${LANG}" STREQUAL "HIP"', True),
        ('OTHER STREQUAL "HIP"', None),
        ('NOT OTHER STREQUAL "HIP"', None),
        ('OTHER STREQUAL "x" AND LANG STREQUAL "CUDA"', False),
        ('OTHER STREQUAL "x" OR LANG STREQUAL "HIP"', True),
        ("FOUND", True),
        ("NOT FOUND", False),
        ("MISSING", False),
        ("OTHER", None),
        ("DEFINED ENV{SET}", True),
        ("DEFINED ENV{UNSET}", False),
        ("NOT (FOUND AND MISSING)", True),
        ('VERSION VERSION_LESS "11.3"', False),
        ('VERSION VERSION_GREATER_EQUAL "11.4.0"', True),
        ('OTHER_VERSION VERSION_LESS "11.3"', None),
        ('LANG MATCHES "^H"', True),
        ("EXISTS /some/file", None),
        ("TARGET x AND MISSING", False),
        ("FOUND FOUND", None),
    ],
)
def test_conditions_are_known_or_not(text: str, value: bool | None) -> None:
    variables = {"LANG": "HIP", "FOUND": "TRUE", "MISSING": "x-NOTFOUND", "VERSION": "11.4"}
    (command,) = read_commands(f"if({text})")
    assert Condition(variables, frozenset({"SET"})).value(command.arguments) is value


def walk(text: str, environment: frozenset[str] = frozenset(), **files: str) -> CMakeWalk:
    found = CMakeWalk(
        {"CMakeLists.txt": text, **{f"cmake/{name}.cmake": body for name, body in files.items()}},
        {"HIP_FOUND": "TRUE", "DEVICE": "rocm"},
        environment,
    )
    found.run()
    return found


DECLARE = 'FetchContent_Declare(x GIT_REPOSITORY "${REPO}" GIT_TAG v1)\n'


def test_downloads_are_found_where_a_rocm_configure_gets_to() -> None:
    body = 'set(REPO "https://example.invalid/x.git")\n' + DECLARE
    text = """
    if(HIP_FOUND)
      set(LANG "HIP")
    else()
      set(LANG "CUDA")
    endif()
    if(LANG STREQUAL "CUDA")
      include(cmake/cuda.cmake)
    elseif(LANG STREQUAL "HIP")
      include(${CMAKE_CURRENT_LIST_DIR}/cmake/hip.cmake)
    endif()
    if(SOMETHING)
      ExternalProject_Add(y URL https://example.invalid/y.tar.gz)
      file(DOWNLOAD https://example.invalid/z ${CMAKE_BINARY_DIR}/z)
      execute_process(COMMAND git clone https://example.invalid/g.git)
      execute_process(COMMAND git describe)
    endif()
    function(later)
      FetchContent_Declare(f URL https://example.invalid/f)
    endfunction()
    FetchContent_Declare(local SOURCE_DIR /here)
    """
    found = walk(text, hip=body, cuda=body.replace("x.git", "cuda.git")).downloads
    assert [(d.name, d.address, d.revision, d.certain) for d in found] == [
        ("x", "https://example.invalid/x.git", "v1", True),
        ("y", "https://example.invalid/y.tar.gz", "", False),
        ("z", "https://example.invalid/z", "", False),
        ("git", "COMMAND git clone https://example.invalid/g.git", "", False),
    ]
    assert found[0].where == "cmake/hip.cmake:2"


def test_a_variable_of_the_environment_switches_a_download_off() -> None:
    text = (
        f"if(DEFINED ENV{{SRC}})\nFetchContent_Declare(x SOURCE_DIR $ENV{{SRC}})\nelse()\n{DECLARE}endif()\n"
    )
    assert len(walk(text).downloads) == 1
    assert not walk(text, frozenset({"SRC"})).downloads


def test_a_certain_return_ends_the_file() -> None:
    text = 'if(NOT DEVICE STREQUAL "cuda" AND NOT DEVICE STREQUAL "rocm")\nreturn()\nendif()\n'
    assert len(walk(text + DECLARE).downloads) == 1
    assert not walk('if(DEVICE STREQUAL "rocm")\nreturn()\nendif()\n' + DECLARE).downloads
    assert len(walk(f"if(UNKNOWN)\nreturn()\nendif()\n{DECLARE}").downloads) == 1


def test_cached_values_give_way_to_those_of_the_command_line() -> None:
    text = 'set(DEVICE "cuda" CACHE STRING "x")\nset(NEW "a" CACHE STRING "x")\nlist(APPEND NEW b c)\n'
    assert walk(text).variables["DEVICE"] == "rocm" and walk(text).variables["NEW"] == "a;b;c"


def test_compilers_that_a_configure_ends_at_are_gates() -> None:
    text = """
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS "11.3")
      message(FATAL_ERROR "GCC >= " "11.3")
    endif()
    if(DEVICE STREQUAL "cuda")
      if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
        message(FATAL_ERROR "for CUDA")
      endif()
    endif()
    if(NOT DEVICE)
      message(FATAL_ERROR "no compiler")
    endif()
    """
    (gate,) = walk(text).gates
    assert gate.condition.endswith('CMAKE_CXX_COMPILER_VERSION VERSION_LESS "11.3"')
    assert gate.message == "GCC >= 11.3" and gate.where == "CMakeLists.txt:3"


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet='if(else)endset# "\\[]=${}AB\n;', max_size=120))
def test_no_text_breaks_the_reader(text: str) -> None:
    walk(text)
    Condition({}, frozenset()).value([Argument(word, False) for word in text.split()])


# --- setup.py

SETUP = '''
import sys
DEVICE = envs.DEVICE
PRECOMPILED = envs.PRECOMPILED

def _is_cuda() -> bool:
    """A docstring."""
    has_cuda = torch.version.cuda is not None
    return DEVICE == "cuda" and has_cuda

def _is_hip() -> bool:
    return (DEVICE == "cuda" or DEVICE == "rocm") and torch.version.hip is not None

def _custom() -> bool:
    return _is_cuda() or _is_hip()

def _asks_the_host() -> bool:
    for path in sys.path:
        return True
    return False

ext_modules = []
if _is_cuda() or _is_hip():
    ext_modules.append(CMakeExtension(name="p.cumem"))
    ext_modules.append(CMakeExtension(name="p.copied", optional=True))
if not _is_hip() or sys.version_info >= (3, 11):
    ext_modules.append(CMakeExtension("p.spinloop"))
if _is_cuda():
    ext_modules.append(CMakeExtension(name="p.flash"))
    if PRECOMPILED:
        ext_modules.append(CMakeExtension(name="p.more"))
elif _custom():
    ext_modules.append(CMakeExtension(name="p.hip"))
if _asks_the_host():
    ext_modules.append(CMakeExtension(name="p.perhaps"))
'''
KNOWN = {"torch.version.cuda": None, "torch.version.hip": "7.0", "envs.DEVICE": "rocm"}


def test_modules_are_those_whose_conditions_hold() -> None:
    found = extension_modules(SETUP, {**KNOWN, "sys.version_info": (3, 12, 0)})
    assert found == (
        Module("p.copied", True, True),
        Module("p.cumem", False, True),
        Module("p.hip", False, True),
        Module("p.perhaps", False, False),
        Module("p.spinloop", False, True),
    )
    older = extension_modules(SETUP, {**KNOWN, "sys.version_info": (3, 10, 0)})
    assert {m.name for m in found} - {m.name for m in older} == {"p.spinloop"}


def test_the_same_file_for_cuda_gives_other_modules() -> None:
    known = {"torch.version.cuda": "12.9", "torch.version.hip": None, "envs.DEVICE": "cuda"}
    found = {m.name: m.certain for m in extension_modules(SETUP, {**known, "sys.version_info": (3, 12, 0)})}
    assert found["p.flash"] is True and found["p.more"] is False and "p.hip" not in found


# --- the matrix, patches, build scripts


def test_only_the_values_change(tmp_path: Path) -> None:
    path = tmp_path / "conda_build_config.yaml"
    shutil.copy(MATRIX_FILE, path)
    before = path.read_text().splitlines()
    set_values(path, 1, {"vllm_version": "0.27.0", "vllm_sha256": "a" * 64})
    after = path.read_text().splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert [new for _, new in changed] == ['  - "0.27.0"', f'  - "{"a" * 64}"']
    matrix = read_matrix(path)
    assert matrix.values["vllm_version"] == ("0.16.0", "0.27.0")
    assert matrix.values["vllm_sha256"][0] == read_matrix(MATRIX_FILE).values["vllm_sha256"][0]


def test_a_link_stays_a_link_and_comments_stay_behind_values(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text(
        '# top\nkey:\n  - "a"  # first\n\n  # between\n  - \'b\' # second\nother:\n  - "c"\n'
    )
    (tmp_path / "link.yaml").symlink_to("real.yaml")
    set_values(tmp_path / "link.yaml", 1, {"key": "z"})
    assert (tmp_path / "link.yaml").is_symlink()
    assert (tmp_path / "real.yaml").read_text().splitlines()[2:6] == [
        '  - "a"  # first',
        "",
        "  # between",
        "  - 'z' # second",
    ]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        (0, {"no_such_key": "1"}, "no_such_key has no value number 1"),
        (2, {"vllm_version": "1"}, "vllm_version has no value number 3"),
        (0, {"rocm_arch": "gfx9999"}, "gfx9999 is no AMD GPU target"),
    ],
)
def test_a_matrix_that_would_be_wrong_is_not_written(
    tmp_path: Path, column: int, values: dict[str, str], message: str
) -> None:
    path = tmp_path / "conda_build_config.yaml"
    shutil.copy(MATRIX_FILE, path)
    with pytest.raises(MatrixError, match=message):
        set_values(path, column, values)
    assert path.read_bytes() == MATRIX_FILE.read_bytes()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


PATCH = "Why\n\n--- a/p/x.py\n+++ b/p/x.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"


@pytest.mark.parametrize(
    ("text", "state", "note"),
    [
        ("one\ntwo\nthree\n", "fits", ""),
        ("zero\none\ntwo\nthree\n", "moved", "fits at line 2"),
        ("one\nTWO\nthree\n", "rejected", "TWO"),
        (None, "rejected", "does not have"),
    ],
)
def test_a_patch_fits_moves_or_is_rejected(tmp_path: Path, text: str | None, state: str, note: str) -> None:
    folder = tmp_path / "p-1"
    (folder / "p").mkdir(parents=True)
    (folder / "PKG-INFO").write_text("Name: p\nVersion: 1\n")
    if text is not None:
        (folder / "p" / "x.py").write_text(text)
    patch = tmp_path / "0001-x.patch"
    patch.write_text(PATCH)
    sdist = read_sdist(folder, touched([patch]))
    (found,) = check_patches(sdist, (patch,))
    assert found.state == state and note in "\n".join(found.notes)
    assert text is None or (folder / "p" / "x.py").read_text() == text, "the source itself is not changed"


def test_names_that_a_build_script_exports(tmp_path: Path) -> None:
    script = tmp_path / "x.sh"
    script.write_text('export A=1 B_C="$D"\n  export E\nexport F G=2\nlocal H=3\n# export I=4\n')
    assert exported_names(script) == {"A", "B_C", "E", "F", "G"}
    assert "TRITON_KERNELS_SRC_DIR" in exported_names(ROOT / "build_scripts" / "vllm-rocm.sh")
    assert exported_names(tmp_path / "missing.sh") == frozenset()


def test_what_the_recipe_leaves_out_stands_in_the_docs() -> None:
    data = read_data_file(ROOT / "recipes" / "vllm-rocm" / "requirements.toml")
    text = (ROOT / "docs" / "exclusions.md").read_text()
    named = {name for rule in data.left_out for name in rule.names} - {"amdsmi"}  # a package of its own
    assert named and all(name in text for name in named)
    assert all(f"`{extra}`" in text for rule in data.extras for extra in rule.extras if rule.name in ("ray",))
    assert not (ROOT / "recipes" / "torchvision-rocm").exists(), "correct docs/exclusions.md"


def test_every_kind_of_difference_and_table_stands_in_the_docs() -> None:
    text = (ROOT / "docs" / "updating.md").read_text()
    kinds = ("new", "range", "extra", "dropped", "contradiction", "address", "stale")
    assert all(f"| `{kind}` |" in text for kind in kinds)
    tables = set(DataFile.model_fields) - {"version"}
    assert all(f"`[{name}]`" in text or f"`[[{name}]]`" in text for name in tables)
