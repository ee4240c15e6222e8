"""Calls into py-rattler, each in a process of its own.

py-rattler may crash the interpreter while it exits, after the result is there, and its calls do not react
to signals. A child process that ends itself as soon as it has written its answer has neither fault.

Protocol: ``python -m channel_tools.rattler_process TASK`` reads a JSON object on standard input and writes
one on standard output: ``{"ok": result}`` or ``{"error": text}``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


class RattlerCallError(Exception):
    """What py-rattler said when it could not do as asked."""


def call(task: str, payload: Json) -> Any:
    """Run one of :data:`TASKS` in a child process.

    :raises RattlerCallError: with py-rattler's own message
    """
    command = [sys.executable, "-m", "channel_tools.rattler_process", task]
    done = subprocess.run(command, input=json.dumps(payload), capture_output=True, text=True, check=False)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        text = done.stderr.strip() or f"the process ended with status {done.returncode}"
        raise RattlerCallError(text) from None
    if "error" in answer:
        raise RattlerCallError(answer["error"])
    return answer["ok"]


def _index(payload: Json) -> Any:
    """Index channel folders: ``{"channels": [path, ...]}``."""
    import asyncio

    from rattler.index import index_fs

    async def run() -> None:
        for channel in payload["channels"]:
            await index_fs(channel, force=payload.get("force", False))

    asyncio.run(run())
    return len(payload["channels"])


def _solve(payload: Json) -> Any:
    """Solve, and install when ``prefix`` is given.

    ``{"channels": [...], "specs": [...], "virtual": [[name, version, build], ...], "prefix": path or null,
    "locked": bool}``; the answer is a list of records with ``name``, ``version``, ``build``, ``channel``,
    ``url``, ``sha256`` and ``size``.
    """
    import asyncio
    from pathlib import Path

    from rattler import (
        BuildString,
        Channel,
        GenericVirtualPackage,
        PackageName,
        PrefixRecord,
        Version,
        install,
        solve,
    )

    prefix = payload.get("prefix")
    records = sorted(Path(prefix, "conda-meta").glob("*.json")) if prefix else []
    installed = [PrefixRecord.from_path(path) for path in records]

    async def run() -> list[Json]:
        solution = await solve(
            sources=[Channel(channel) for channel in payload["channels"]],
            specs=payload["specs"] + [str(p) for p in payload.get("keep", [])],
            platforms=["linux-64", "noarch"],
            locked_packages=installed or None,
            virtual_packages=[
                GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))
                for name, version, build in payload["virtual"]
            ],
        )
        if prefix and not payload.get("dry_run"):
            await install(records=solution, target_prefix=prefix, requested_specs=None, show_progress=False)
        return [
            {
                "name": record.name.normalized,
                "version": str(record.version),
                "build": str(record.build),
                "channel": str(record.channel),
                "url": str(record.url),
                "sha256": record.sha256.hex() if record.sha256 else None,
                "size": record.size,
            }
            for record in solution
        ]

    return asyncio.run(run())


def _virtual(payload: Json) -> Any:
    """The virtual packages that py-rattler finds on this host: ``[[name, version, build], ...]``."""
    from rattler.virtual_package import VirtualPackage, VirtualPackageOverrides

    found = VirtualPackage.detect(VirtualPackageOverrides.from_env())
    generic = [package.into_generic() for package in found]
    return [[g.name.normalized, str(g.version), str(g.build_string)] for g in generic]


def _assemble(payload: Json) -> Any:
    """Build bridge packages into one channel folder: ``{"output": path, "bridges": [...]}``."""
    import tempfile
    from pathlib import Path

    from rattler_build import Stage0Recipe

    from channel_tools.build.host_tools import bridge_recipe

    output = Path(payload["output"])
    with tempfile.TemporaryDirectory(prefix="rocm-channel-bridges-") as scratch:
        for bridge in payload["bridges"]:
            folder = Path(scratch, bridge["name"])
            for name, text in bridge["files"].items():
                file = folder / "files" / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
                file.chmod(0o755)
            folder.mkdir(exist_ok=True)
            Stage0Recipe.from_dict(bridge_recipe(bridge), recipe_dir=folder).run_build(
                output_dir=Path(scratch, "out"), channels=[], no_include_recipe=True, package_format="conda:3"
            )
        for package in Path(scratch, "out", "linux-64").glob("*.conda"):
            (output / "linux-64" / package.name).write_bytes(package.read_bytes())
    return _index({"channels": [str(output)]})


TASKS: dict[str, Callable[[Json], Any]] = {
    "assemble": _assemble,
    "index": _index,
    "solve": _solve,
    "virtual": _virtual,
}


def main() -> None:
    task = TASKS[sys.argv[1]]
    try:
        answer = {"ok": task(json.load(sys.stdin))}
    except BaseException as error:
        answer = {"error": str(error) or type(error).__name__}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
