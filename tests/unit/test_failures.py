"""What a failed build's log is taken for."""

from __future__ import annotations

from pathlib import Path

import pytest

from channel_tools.build.failures import classify
from channel_tools.model.errors import BuildFailedError, GuardError, StorageError

GUARD = (
    "guard arch: rocm_arch is not set; found: nothing; wanted: one GPU target; fix: build with rocm-channel"
)


@pytest.mark.parametrize(
    ("log", "said", "kind", "code", "words"),
    [
        (
            f"x\n{GUARD}\nerror: Script failed with status 61\n",
            "Script failed",
            GuardError,
            61,
            "rocm_arch is not",
        ),
        (f"{GUARD}\n", "conda build ended with status 1", GuardError, 60, "rocm_arch is not"),
        ("cc1plus: No space left on device\n", "Script failed", StorageError, 41, "disk is full"),
        ("", "Write error: No space left on device (os error 28)", StorageError, 41, "disk is full"),
        ("", "Read-only file system (os error 30)", StorageError, 41, "cannot be written"),
        ("ran\n", "Test failed", BuildFailedError, 20, "its test failed"),
        ("a.cpp:1: error: boom\n", "Script failed", BuildFailedError, 20, "boom"),
    ],
)
def test_classes(tmp_path: Path, log: str, said: str, kind: type, code: int, words: str) -> None:
    file = tmp_path / "build.log"
    file.write_text(log)
    error = classify(file, said, [], tmp_path)
    assert type(error) is kind
    assert error.exit_code == code
    assert words in str(error)
    assert str(tmp_path) in str(error)


def test_a_missing_log_is_no_second_failure(tmp_path: Path) -> None:
    assert classify(tmp_path / "none.log", "Script failed", [], tmp_path).exit_code == 20
