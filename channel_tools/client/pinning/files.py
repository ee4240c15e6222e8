"""The files of a pin: all of them written, or none.

Below the output folder: ``pixi.lock`` with every environment, and for each a folder, as ``gfx942-rocm7.2/``,
with ``environment.yml``, ``explicit.txt`` and ``conda-lock.yml``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from channel_tools import rattler_process
from channel_tools.client.locks.conda_lock import write_conda_lock
from channel_tools.client.locks.environment_yml import write_pinned
from channel_tools.client.locks.explicit import write_explicit
from channel_tools.client.pinning.pin import Pinned, Pins
from channel_tools.model.errors import LockError
from channel_tools.model.files import storage_errors

LOCK = "pixi.lock"
SUBDIR = "linux-64"


def content_of(pins: Pins, folder: Path, *, md5: bool = False) -> dict[str, bytes]:
    """Content of every file by its path below the output folder.

    :param md5: explicit lists with the older digest
    :raises LockError: a digest is missing, or a credential would get into a file
    """
    files: dict[str, bytes] = {LOCK: _rattler_lock(pins.environments)}
    source = pins.wanted.path
    for one in pins.environments:
        title = f"Pinned by rocm-channel for {one.title}, from {source.name}"
        name = f"{pins.wanted.name or 'environment'}-{one.key}"
        relative = os.path.relpath(source.resolve(), (folder / one.key).resolve())
        texts = {
            "environment.yml": write_pinned(pins.wanted, one.records, one.channels, name, title),
            "explicit.txt": write_explicit(one.records, one.bases, SUBDIR, title, md5=md5),
            "conda-lock.yml": write_conda_lock(one.records, one.bases, relative, SUBDIR, title),
        }
        files.update({f"{one.key}/{file}": text.encode() for file, text in texts.items()})
    for secret in pins.secrets:
        if any(secret.encode() in content for content in files.values()):
            raise LockError("a credential would get into a pinned file, so none was written")
    return files


def write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write every file, or leave everything as it was.

    :raises StorageError: it cannot be written
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".pin-", dir=folder) as name:
            scratch = Path(name)
            made: list[tuple[Path, Path, Path | None]] = []
            for number, (key, content) in enumerate(files.items()):
                new, target = scratch / f"{number}.new", folder / key
                new.write_bytes(content)
                new.chmod(0o644)
                target.parent.mkdir(exist_ok=True)
                old = None
                if target.exists():
                    old = scratch / f"{number}.old"
                    old.write_bytes(target.read_bytes())
                made.append((new, target, old))
            done: list[tuple[Path, Path | None]] = []
            try:
                for new, target, old in made:
                    new.replace(target)
                    done.append((target, old))
            except BaseException:
                for target, old in done:
                    old.replace(target) if old else target.unlink(missing_ok=True)
                raise


def _rattler_lock(environments: Sequence[Pinned]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="rocm-channel-lock-") as scratch:
        path = Path(scratch, LOCK)
        payload: dict[str, Any] = {
            "path": str(path),
            "environments": [
                {
                    "name": one.key,
                    "platform": one.platform,
                    "virtual": ["__amdgpu=0", f"__amdgpu_arch={one.arch.isa}"],
                    "channels": list(one.bases),
                    "records": [record["record"] for record in one.records],
                }
                for one in environments
            ],
        }
        try:
            rattler_process.call("write_lock", payload)
        except rattler_process.RattlerCallError as error:
            raise LockError("the lock could not be written", found=str(error)) from error
        return path.read_bytes()
