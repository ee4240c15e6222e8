"""Run one configuration of CMake, watched, and end it with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from channel_tools.preflight.watch import Watch, external_projects

_LIMIT_SECONDS = 600
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Configuration:
    """``log`` is all that CMake printed, ``downloads`` what it tried, ``status`` its exit status."""

    status: int
    log: str
    downloads: tuple[str, ...]
    compile_commands: Path


def configure(
    command: Sequence[str],
    environment: Mapping[str, str],
    source: Path,
    build: Path,
    work: Path,
    cancel: threading.Event | None = None,
) -> Configuration:
    """Configure ``source`` into ``build``; the first download attempt ends it.

    :param command: CMake's words, whose build folder is ``build``
    :param work: an empty folder for the watch and the log
    :param cancel: when set, the configuration is ended
    :raises KeyboardInterrupt: ``cancel`` was set
    """
    log = work / "cmake.log"
    with Watch(work) as watch, log.open("wb") as output:
        process = subprocess.Popen(
            [
                *command,
                f"-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES={watch.provider}",
                # Nothing is left out in silence: what would be fetched is seen.
                "-DFETCHCONTENT_FULLY_DISCONNECTED=OFF",
                "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
            ],
            cwd=source,
            env={**environment, **watch.environment(environment.get("PATH", os.defpath))},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait(process, watch, cancel)
        finally:
            _end(process)
        downloads = [*watch.attempts(), *external_projects(build)]
    text = log.read_text(encoding="utf-8", errors="replace")
    return Configuration(process.returncode, text, tuple(downloads), build / "compile_commands.json")


def _wait(process: subprocess.Popen[bytes], watch: Watch, cancel: threading.Event | None) -> None:
    end = time.monotonic() + _LIMIT_SECONDS
    while process.poll() is None and not watch.attempts() and time.monotonic() < end:
        if cancel is not None and cancel.is_set():
            raise KeyboardInterrupt
        time.sleep(_LOOK_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
