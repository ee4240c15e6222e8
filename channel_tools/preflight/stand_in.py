"""Stand-ins for what this host lacks: a PyTorch for ROCm, and the parts of ROCm that a small SDK leaves out.

PyTorch's side is its own files with the few edits of ``torch_files.toml``. ROCm's side is package files of
CMake without content, for the libraries that PyTorch's ``LoadHIP.cmake`` itself names as required, and the
two programs that ``FindHIP.cmake`` asks; none of it where ROCM_PATH has the real one.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from channel_tools.model.errors import PreflightError
from channel_tools.preflight.data import read_data

LOAD_HIP = Path("Caffe2") / "public" / "LoadHIP.cmake"
_REQUIRED = re.compile(r"find_package_and_print_version\((\S+) REQUIRED")
# hipconfig as FindHIP.cmake asks it.
_HIPCONFIG = """#!/bin/sh
case $1 in
--version) printf %s {release}.0 ;;
--platform) printf amd ;;
--compiler) printf clang ;;
--runtime) printf rocclr ;;
*) exit 1 ;;
esac
"""
_ROCM_CORE = """get_filename_component(_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(ROCM_INCLUDE_DIRS "${_root}/include;${ROCM_INCLUDE_DIRS}")
"""


@dataclass(frozen=True)
class RocmPieces:
    """``names`` of what was made up, ``arguments`` that CMake needs to find it."""

    names: tuple[str, ...]
    arguments: tuple[str, ...]


def make_torch(files: Path, folder: Path, rocm_version: str) -> Path:
    """Make a ``torch`` package in ``folder`` that says it is for that ROCm; returns ``folder``.

    :param files: of :func:`channel_tools.preflight.torch_files.torch_files`
    :raises PreflightError: an edit finds nothing to edit in this version
    """
    data = read_data("torch_files")
    shutil.copytree(files, folder, dirs_exist_ok=True)
    for edit in data["edits"]:
        path = folder / edit["file"]
        replacement = edit["replacement"].replace("@ROCM@", f"{rocm_version}.0")
        text, count = re.subn(edit["pattern"], replacement, path.read_text(encoding="utf-8"))
        if not count:
            raise PreflightError(
                f"PyTorch's file is another one than expected: {edit['why']}",
                where=path,
                wanted=f"a match of {edit['pattern']}",
                fix="see what the new release has there, and correct torch_files.toml",
            )
        path.write_text(text, encoding="utf-8")
    for made in data["made"]:
        path = folder / made["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made["text"].lstrip(), encoding="utf-8")
    (folder / "torch" / "lib").mkdir()
    for name in data["libraries"]["names"]:
        (folder / "torch" / "lib" / f"lib{name}.so").touch()
    return folder


def make_rocm_pieces(load_hip: Path, rocm: Path, prefix: Path, rocm_version: str) -> RocmPieces:
    """Make in ``prefix`` what ``load_hip`` requires of ROCm and ``rocm`` has not."""
    required = dict.fromkeys(_REQUIRED.findall(load_hip.read_text(encoding="utf-8")))
    missing = [name for name in required if not _has_package(rocm, name)]
    for name in missing:
        _write(prefix / "lib" / "cmake" / name / f"{name}-config.cmake", f"set({name}_FOUND TRUE)\n")
    names, arguments = list(missing), []
    if not (rocm / "include" / "rocm-core" / "rocm_version.h").is_file():
        major, minor = rocm_version.split(".")
        numbers = {"MAJOR": major, "MINOR": minor, "PATCH": "0"}
        text = "".join(f"#define ROCM_VERSION_{key} {value}\n" for key, value in numbers.items())
        _write(prefix / "include" / "rocm-core" / "rocm_version.h", text)
        _write(prefix / "lib" / "cmake" / "rocm-core" / "rocm-core-config.cmake", _ROCM_CORE)
        names.append("rocm-core")
    if not (rocm / "bin" / "hipconfig").is_file():
        tools = prefix / "share" / "hip-tools"
        for name, text in (
            ("hipconfig", _HIPCONFIG.format(release=rocm_version)),
            ("hipcc", "#!/bin/sh\nexit 1\n"),
        ):
            _write(tools / "bin" / name, text)
            (tools / "bin" / name).chmod(0o755)
        names.append("hipconfig")
        arguments.append(f"-DHIP_ROOT_DIR={tools}")
    return RocmPieces(tuple(names), tuple(arguments))


def _has_package(rocm: Path, name: str) -> bool:
    folder = rocm / "lib" / "cmake" / name
    files = (f"{name}-config.cmake", f"{name.lower()}-config.cmake", f"{name}Config.cmake")
    return any((folder / file).is_file() for file in files)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
