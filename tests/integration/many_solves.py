"""Many solves in one process, each form of the index by itself: see :func:`tests.integration.faults`.

Reads ``{"forms": {name: options of rattler.SourceConfig}, "solves": [{"channels", "specs", "virtual"}]}`` on
standard input; writes, for each form, a list of ``{"records": [file name]}``, ``{"refused": text}`` or
``{"unreachable": text}``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from rattler import (
    BuildString,
    Channel,
    Gateway,
    GenericVirtualPackage,
    PackageName,
    SourceConfig,
    Version,
    solve,
)
from rattler.exceptions import GatewayError, SolverError


async def _one(gateway: Gateway, wanted: dict[str, Any]) -> dict[str, Any]:
    virtual = [
        GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))
        for name, version, build in wanted["virtual"]
    ]
    try:
        found = await solve(
            sources=[Channel(channel) for channel in wanted["channels"]],
            specs=wanted["specs"],
            gateway=gateway,
            platforms=["linux-64", "noarch"],
            virtual_packages=virtual,
        )
    except SolverError as error:
        return {"refused": str(error)}
    except GatewayError as error:
        return {"unreachable": str(error)}
    return {"records": sorted(record.file_name for record in found)}


async def _run(payload: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    answers = {}
    for form, options in payload["forms"].items():
        with tempfile.TemporaryDirectory() as cache:
            config = SourceConfig(**options, bz2_enabled=False, cache_action="no-cache")
            gateway = Gateway(cache_dir=Path(cache), default_config=config)
            answers[form] = [await _one(gateway, wanted) for wanted in payload["solves"]]
    return answers


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(_run(json.load(sys.stdin)))))
    sys.stdout.flush()
    os._exit(0)
