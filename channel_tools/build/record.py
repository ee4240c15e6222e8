"""The record of a build: what went in, who made it, what came out.

It lies in ``CHANNEL/records/<file name>.json``, beside the packages and out of the clients' way.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from channel_tools.build.nodes import Node
from channel_tools.build.toolchain import SDK_MARKER, Toolchain
from channel_tools.model.files import write_text_whole
from channel_tools.model.package import sha256

GENERATED = {"meta.yaml", "conda_build_config.yaml"}
LEFTOVERS = {"__pycache__", "build", "dist", "_skbuild"}


def inputs_digest(node: Node, scripts: Path, toolchain: Toolchain) -> str:
    """SHA-256 over all that decides the content of a package: recipe, sources, scripts, variant, ROCm root.

    The path of the checkout is not part of it.
    """
    digest = hashlib.sha256()
    for name, file in _input_files(node, scripts):
        digest.update(f"{name}\0{sha256(file)}\n".encode())
    digest.update(json.dumps(dict(node.variant), sort_keys=True).encode())
    if "rocm_version" in node.variant and "hip_sdk" in node.variant and toolchain.rocm_path:
        digest.update(rocm_identity(toolchain.rocm_path).encode())
    return digest.hexdigest()


def rocm_identity(root: Path) -> str:
    """The first of the texts that say which ROCm a root is: release file or our SDK's marker."""
    for name in (SDK_MARKER, ".info/version"):
        file = root / name
        if file.is_file():
            return f"{name}: {file.read_text(encoding='utf-8').strip()}"
    return "unknown"


def _input_files(node: Node, scripts: Path) -> Iterator[tuple[str, Path]]:
    for label, folder in [("recipe", node.recipe), *(("source", folder) for folder in node.folders)]:
        for file in sorted(folder.rglob("*")):
            name = file.relative_to(folder)
            if file.is_file() and name.name not in GENERATED and not any(map(_left_over, name.parts)):
                yield f"{label}/{name}", file
    script = scripts / f"{node.package}.sh"
    if script.is_file():
        yield f"scripts/{script.name}", script
        if "/lib/" in script.read_text(encoding="utf-8"):
            for file in sorted((scripts / "lib").glob("*.sh")):
                yield f"scripts/lib/{file.name}", file


def _left_over(part: str) -> bool:
    return part in LEFTOVERS or part.startswith(".") or part.endswith(".egg-info")


def git_commit(root: Path) -> str | None:
    """Commit of the checkout, with ``-dirty`` when files differ from it; ``None`` outside git."""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def write_record(
    channel: Path,
    package: Path,
    node: Node,
    *,
    inputs: str,
    toolchain: Toolchain,
    engine: str,
    seconds: float,
    commit: str | None,
    verify: dict[str, Any],
) -> Path:
    """Write the record of one package that is now in ``channel``."""
    record = {
        "version": 1,
        "file": package.name,
        "sha256": sha256(package),
        "package": node.package,
        "package_version": node.version,
        "build_number": node.build_number,
        "variant": dict(node.variant),
        "inputs": inputs,
        "commit": commit,
        "engine": engine,
        "toolchain": toolchain.kind,
        "rocm": rocm_identity(toolchain.rocm_path) if toolchain.rocm_path else None,
        "seconds": round(seconds, 1),
        "built": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "verify": verify,
    }
    path = channel / "records" / f"{package.name}.json"
    write_text_whole(path, json.dumps(record, indent=1) + "\n")
    return path


def read_records(channel: Path) -> list[dict[str, Any]]:
    """Every record of a channel."""
    return [json.loads(p.read_text(encoding="utf-8")) for p in sorted(channel.glob("records/*.json"))]
