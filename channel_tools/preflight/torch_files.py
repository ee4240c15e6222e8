"""PyTorch's own build files: fetched once through pip, checked by sha256, and kept in the cache.

PyTorch has no source release on the Python index, and its wheels for Linux are big. The wheels for macOS are
small, hold the same ``cpp_extension.py``, hipify and CMake files, and are there at exactly the versions of
the matrix (``torch_files.toml``).
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from channel_tools.model.errors import PreflightError, ToolMissingError
from channel_tools.model.files import locked, storage_errors
from channel_tools.preflight.data import read_data


@dataclass(frozen=True)
class Wheel:
    """One pinned wheel."""

    version: str
    file: str
    sha256: str
    mib: int

    @classmethod
    def of(cls, version: str) -> Wheel:
        """:raises PreflightError: no wheel of that version is pinned"""
        known = read_data("torch_files")["wheels"]
        if version not in known:
            raise PreflightError(
                f"no build files of PyTorch {version} are pinned",
                where="channel_tools/preflight/torch_files.toml",
                found=", ".join(known),
                wanted=version,
                fix="add its macOS wheel with the sha256, or give --python with a PyTorch for ROCm",
            )
        entry = known[version]
        return cls(version, entry["file"], entry["sha256"], entry["mib"])


def torch_files(version: str, sources: Path) -> Path:
    """A folder with ``torch/share/cmake``, ``torch/utils/cpp_extension.py`` and so on, of that version.

    :param sources: where wheels and unpacked files are kept
    :raises PreflightError: the wheel cannot be had, or is another one
    :raises StorageError: the cache cannot be written
    """
    wheel = Wheel.of(version)
    folder = sources / f"torch-{version}-{wheel.sha256[:16]}"
    if folder.is_dir():
        return folder
    with locked(sources / f".torch-{version}.lock"), storage_errors(sources):
        if not folder.is_dir():
            _unpack(fetch_wheel(wheel, sources), folder)
    return folder


def fetch_wheel(wheel: Wheel, sources: Path) -> Path:
    """The wheel in ``sources``, fetched if it is not there; its sha256 is checked each time.

    :raises PreflightError: pip cannot fetch it, or it is another one
    """
    path = sources / wheel.file
    if not path.is_file():
        sources.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".torch.", dir=sources) as folder:
            _download(wheel, Path(folder))
            _check(Path(folder) / wheel.file, wheel)
            (Path(folder) / wheel.file).replace(path)
    _check(path, wheel)
    return path


def _download(wheel: Wheel, folder: Path) -> None:
    settings = read_data("torch_files")
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"),
        *("--disable-pip-version-check", "--platform", settings["platform"]),
        *("--python-version", settings["python"], "--dest", str(folder), f"torch=={wheel.version}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No module named pip" in done.stderr:
        raise ToolMissingError("pip is not in this Python", where=sys.executable, fix="python -m ensurepip")
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise PreflightError(
            f"the build files of PyTorch {wheel.version} cannot be fetched ({wheel.mib} MiB)",
            where=wheel.file,
            found=(lines or done.stderr.splitlines() or ["pip said nothing"])[-1],
            fix=f"check pip's configuration, or put the file into {folder.parent}",
        )


def _check(path: Path, wheel: Wheel) -> None:
    if not path.is_file():
        found = ", ".join(other.name for other in path.parent.iterdir()) or "nothing"
        raise PreflightError("pip fetched another file", where=path, found=found, wanted=wheel.file)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wheel.sha256:
        raise PreflightError(
            "the wheel is another one than the pinned",
            where=path,
            found=f"sha256 {found}",
            wanted=f"sha256 {wheel.sha256}",
            fix="move the file away, and run this again",
        )


def _unpack(wheel: Path, folder: Path) -> None:
    wanted = tuple(read_data("torch_files")["taken"]["members"])
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name in wanted or name.startswith(tuple(w for w in wanted if w.endswith("/"))):
                    archive.extract(name, partial)
        partial.chmod(0o755)
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
