"""The matrix: what is read, and what is refused with file and line before an engine can misread it."""

from __future__ import annotations

from pathlib import Path

import pytest

from channel_tools.model.errors import MatrixError
from channel_tools.model.matrix import check_subsets, read_matrix

GOOD = """\
rocm_arch:
  - "gfx90a"
  - "gfx942"
rocm_isa:
  - "9.0.10"
  - "9.4.2"
rocm_version:
  - "7.0"
  - "7.2"
vllm_version:
  - "0.16.0"
  - "0.26.0"
python:
  - "3.12"
zip_keys:
  -
    - rocm_arch
    - rocm_isa
  -
    - rocm_version
    - vllm_version
"""


@pytest.fixture
def matrix_file(tmp_path: Path) -> Path:
    path = tmp_path / "conda_build_config.yaml"
    path.write_text(GOOD)
    return path


def test_rows_keep_zipped_keys_together(matrix_file: Path) -> None:
    rows = read_matrix(matrix_file).rows()
    assert [(r["rocm_arch"], r["rocm_isa"], r["rocm_version"], r["vllm_version"]) for r in rows] == [
        ("gfx90a", "9.0.10", "7.0", "0.16.0"),
        ("gfx90a", "9.0.10", "7.2", "0.26.0"),
        ("gfx942", "9.4.2", "7.0", "0.16.0"),
        ("gfx942", "9.4.2", "7.2", "0.26.0"),
    ]


def test_restricting_one_key_restricts_its_group(matrix_file: Path) -> None:
    part = read_matrix(matrix_file).restricted({"rocm_arch": ["gfx942"], "vllm_version": ["0.16.0"]})
    assert part.values["rocm_isa"] == ("9.4.2",)
    assert part.values["rocm_version"] == ("7.0",)
    assert len(part.rows()) == 1


def test_overriding_a_zipped_key_keeps_the_length_of_its_group(matrix_file: Path) -> None:
    part = read_matrix(matrix_file).overridden({"vllm_version": "1", "toolchain": "host"})
    assert part.values["vllm_version"] == ("1", "1")
    assert part.values["toolchain"] == ("host",)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('  - "9.0.10"\n', "", 4, "differ in length"),
        ('  - "0.16.0"\n', '  - "0.16.0"\n  - "1"\n', 10, "3 values"),
        ('"gfx942"', '"gfx943"', 3, "no AMD GPU target"),
        ('"gfx942"', '"gfx942:xnack-"', 3, "no AMD GPU target"),
        ('"9.0.10"', '"9.0.a"', 5, "9.0.10"),
        ('"9.4.2"', '"9.4.1"', 6, "not the ISA version of gfx942"),
        ('python:\n  - "3.12"', 'python: ["3.12"]', 13, "selector"),
        ('python:\n  - "3.12"', 'python: [\n  "3.12"\n  ]', 13, "flow-style"),
        ("  -\n    - rocm_arch\n    - rocm_isa", "  - [rocm_arch, rocm_isa]", 16, "selector"),
        ('  - "3.12"', '  - "3.12"  # [linux]', 14, "selector"),
        ('  - "3.12"', "  - 3.12", 14, "not quoted"),
        ('  - "7.0"', "  - 7.0", 8, "not quoted"),
        ("    - vllm_version", "    - vllm", 21, "no values"),
        ("    - vllm_version", "    - rocm_isa", 21, "twice"),
        ('  - "3.12"', '  - "3.12"\n  - "3.12"', 13, "twice"),
        ("python:", "py-thon:", 13, "variable of a build script"),
        ("python:", "python: {", 0, "not YAML"),
        ('python:\n  - "3.12"', "python:", 13, "not a list"),
    ],
)
def test_what_engines_misread_is_refused_with_file_and_line(
    matrix_file: Path, old: str, new: str, line: int, words: str
) -> None:
    assert old in GOOD
    matrix_file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(MatrixError) as refused:
        read_matrix(matrix_file)
    text = str(refused.value)
    assert words in text
    assert text.startswith(f"{matrix_file}:{line}:" if line else f"{matrix_file}:")


def test_a_subset_file_holds_one_known_key_with_known_values(matrix_file: Path) -> None:
    matrix = read_matrix(matrix_file)
    subset = matrix_file.with_name("gfx942.yaml")
    subset.write_text('rocm_arch:\n  - "gfx942"\n')
    assert check_subsets(matrix) == [subset]
    for text, words in (
        ('rocm_arch:\n  - "gfx950"\n', f"{subset}:2: rocm_arch has no value"),
        ('arch:\n  - "gfx942"\n', f"{subset}:1: no key"),
        ('rocm_arch:\n  - "gfx942"\npython:\n  - "3.12"\n', "holds one key"),
    ):
        subset.write_text(text)
        with pytest.raises(MatrixError) as refused:
            check_subsets(matrix)
        assert words in str(refused.value)


def test_the_projects_own_matrix_is_good_and_names_two_archs_and_two_releases(repo_root: Path) -> None:
    matrix = read_matrix(repo_root / "variants" / "conda_build_config.yaml")
    check_subsets(matrix)
    assert matrix.values["rocm_arch"] == ("gfx90a", "gfx942")
    assert matrix.values["rocm_version"] == ("7.0", "7.2")
    assert set(matrix.values["cxx_compiler_version"]) == {"11"}
    for key, values in matrix.values.items():
        if key.endswith("_sha256"):
            assert all(len(value) == 64 for value in values), key
