"""One build, in a process and session of its own.

Why: rattler-build's call holds the interpreter, loses signals, and two builds of one package name in one
second mix their work folders (a gfx90a package once came out with gfx942 code). So each build has its own
process, its own session (the whole compiler tree ends with it) and its own output folder.

Protocol: ``python -m channel_tools.build.job`` reads one :class:`Job` as JSON on standard input, writes the
log to the job's ``log``, and prints JSON lines: ``{"progress": text}`` while it runs, then one
``{"package": path}`` or ``{"error": text}``.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

NINJA = re.compile(r"^\[(\d+)/(\d+)\]")


@dataclass(frozen=True)
class Job:
    """What one rattler-build call needs. Paths are strings, since the job travels as JSON.

    ``variant`` is a whole row of the matrix; ``stem`` is what the build must come out as; ``compression``
    is a zstd level; ``threads`` compress the package.
    """

    recipe: str
    variant: dict[str, str]
    stem: str
    channels: list[str]
    output: str
    log: str
    test: bool
    compression: int
    threads: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Events:
    """Receives rattler-build's events; must not raise, since it would be lost. Writes log and progress."""

    def __init__(self, log: TextIO) -> None:
        self._log = log
        self._last = ""

    def on_log(self, event: Any) -> None:
        try:
            message = str(event.message)
            if not message.strip():
                return
            prefix = "" if event.level == "info" else f"{event.level}: "
            self._log.write(f"{prefix}{message}\n")
            self._log.flush()
            self._report(event.span or "", message)
        except Exception as error:
            sys.stderr.write(f"log: {error}\n")

    def _report(self, span: str, message: str) -> None:
        step = NINJA.match(message)
        text = f"{span.lower()} {step[0]}" if step else span.lower()
        if text.strip() and text != self._last:
            self._last = text
            say({"progress": text.strip()})

    def on_build_step(self, event: Any) -> None: ...

    def on_download_start(self, event: Any) -> None: ...

    def on_download_progress(self, event: Any) -> None: ...

    def on_download_complete(self, event: Any) -> None: ...


def say(answer: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def run(job: Job, log: TextIO) -> Path:
    """Render the one variant, check that it is the one that was planned, build and test it."""
    from rattler_build import PlatformConfig, RenderConfig, Stage0Recipe, ToolConfiguration, VariantConfig

    stage0 = Stage0Recipe.from_file(Path(job.recipe) / "recipe.yaml")
    config = VariantConfig({key: [value] for key, value in job.variant.items()})
    outputs = stage0.render(config, RenderConfig(platform=PlatformConfig(target_platform="linux-64")))
    if len(outputs) != 1:
        raise RuntimeError(f"one variant gave {len(outputs)} outputs")
    recipe = outputs[0].recipe.to_dict()
    stem = "-".join((recipe["package"]["name"], str(recipe["package"]["version"]), recipe["build"]["string"]))
    if stem != job.stem:
        raise RuntimeError(f"rendered {stem}, planned {job.stem}")
    tool = ToolConfiguration(
        test_strategy="native" if job.test else "skip",
        compression_threads=job.threads,
        use_sharded=False,
    )
    result = outputs[0].run_build(
        tool_config=tool,
        output_dir=job.output,
        channels=job.channels,
        progress_callback=Events(log),
        package_format=f"conda:{job.compression}",
    )
    return Path(result.packages[0])


def main() -> None:
    job = Job(**json.load(sys.stdin))
    try:
        with Path(job.log).open("w", encoding="utf-8") as log:
            try:
                package = run(job, log)
                answer = {"package": str(package)}
            except Exception as error:
                text = str(error).strip() or type(error).__name__
                log.write(f"error: {text}\n")
                answer = {"error": text}
    except OSError as error:
        answer = {"error": f"{error}"}
    say(answer)
    os._exit(0)


if __name__ == "__main__":
    main()
