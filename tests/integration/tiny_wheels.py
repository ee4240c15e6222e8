"""Valid wheels in a millisecond each, with a RECORD that is true."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

STAMP = (2026, 11, 30, 12, 0, 0)


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def tiny_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, bytes] | None = None,
    *,
    tags: str = "py3-none-linux_x86_64",
    headers: str = "Requires-Python: >=3.9\n",
    info_files: Mapping[str, bytes] | None = None,
    metadata_version: str | None = None,
    wrong_record: bool = False,
) -> Path:
    """Make ``folder/name-version-tags.whl`` and return its path.

    :param files: path to content; one empty module by default
    :param info_files: more files of the ``.dist-info`` folder
    :param metadata_version: ``Version:`` in METADATA, where it is not that of the file name
    """
    info = f"{name}-{version}.dist-info"
    content = dict(files) if files is not None else {f"{name}/__init__.py": b""}
    said = metadata_version or version
    content[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {said}\n{headers}\n"
        "A description.\n\nVersion: not a header\n"
    ).encode()
    purelib = "true" if tags.endswith("-any") else "false"
    content[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {purelib}\nTag: {tags}\n"
    ).encode()
    for path, data in (info_files or {}).items():
        content[f"{info}/{path}"] = data
    unsigned = {f"{info}/RECORD.jws", f"{info}/RECORD.p7s"}
    rows = [
        f"{path},sha256={digest(b'other' if wrong_record else data)},{len(data)}"
        for path, data in content.items()
        if path not in unsigned
    ]
    content[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]).encode() + b"\n"
    target = folder / f"{name}-{version}-{tags}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(zipfile.ZipInfo(path, STAMP), data, zipfile.ZIP_DEFLATED)
    return target
