"""Channels of tiny real packages: their names, versions, build strings and dependencies are all they hold.

``python -m tests.integration.stub_channel`` reads a JSON object with ``channel`` (its folder), ``stubs`` and
``real`` on standard input, and builds each of them with rattler-build. A stub has the fields of
:class:`Stub`. An entry of ``real`` is a recipe folder with one row of the matrix, and is built as it stands.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from channel_tools import rattler_process

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Stub:
    """One package without files."""

    name: str
    version: str
    build: str
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()


def make_channel(
    channel: Path, stubs: Iterable[Stub], real: Iterable[tuple[Path, Mapping[str, str]]] = ()
) -> Path:
    """Build all of them into one channel folder, in a process of its own."""
    payload = {
        "channel": str(channel),
        "stubs": [asdict(stub) for stub in stubs],
        "real": [[str(folder), dict(row)] for folder, row in real],
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.stub_channel"],
        input=json.dumps(payload),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    rattler_process.call("index", {"channels": [str(channel)]})
    return channel


def _main() -> None:
    from rattler_build import (
        PlatformConfig,
        RenderConfig,
        Stage0Recipe,
        ToolConfiguration,
        VariantConfig,
    )

    payload: dict[str, Any] = json.load(sys.stdin)
    target = Path(payload["channel"], "linux-64")
    target.mkdir(parents=True, exist_ok=True)
    tool = ToolConfiguration(test_strategy="skip", use_sharded=False)
    with tempfile.TemporaryDirectory(prefix="stubs-") as scratch:
        ready: list[Any] = []
        for stub in payload["stubs"]:
            recipe = Stage0Recipe.from_dict(_recipe(stub), recipe_dir=Path(scratch))
            ready += recipe.render(VariantConfig({}), _config(RenderConfig, PlatformConfig))
        for folder, row in payload["real"]:
            recipe = Stage0Recipe.from_file(Path(folder) / "recipe.yaml")
            variant = VariantConfig({key: [value] for key, value in row.items()})
            ready += recipe.render(variant, _config(RenderConfig, PlatformConfig))
        for index, output in enumerate(ready):
            result = output.run_build(
                tool_config=tool,
                output_dir=Path(scratch, str(index)),
                channels=[],
                package_format="conda:1",
                no_include_recipe=True,
            )
            package = Path(result.packages[0])
            (target / package.name).write_bytes(package.read_bytes())


def _config(render: Any, platform: Any) -> Any:
    return render(platform=platform(target_platform="linux-64"))


def _recipe(stub: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "package": {"name": stub["name"], "version": stub["version"]},
        "build": {
            "number": _number(stub["build"]),
            "string": stub["build"],
            "script": ["true"],
        },
        "requirements": {"run": list(stub["depends"]), "run_constraints": list(stub["constrains"])},
        "about": {"summary": "a stand-in for a solve", "license": "MIT"},
    }


def _number(build: str) -> int:
    """The build number, which a build string ends with, or has before a last word (``..._0_cpython``)."""
    return next(int(part) for part in reversed(build.split("_")) if part.isdecimal())


if __name__ == "__main__":
    _main()
