"""What is said while work goes on: bars of downloads and copies, and the steps of a publish."""

from __future__ import annotations

import re
import threading
import time
from types import TracebackType

import typer
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

QUIET_S = 2.0
LOG_S = 10.0
LOG_WIDTH = 200
_COUNTED = re.compile(r" \((\d+) of \d+\)$")


class ByteBars:
    """One bar a file, once the work takes more than two seconds.

    Methods may be called from any thread. Without a terminal there are no bars.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False, quiet=quiet)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._shown = self._console.is_terminal and not quiet
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._running = False

    def __enter__(self) -> ByteBars:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running:
            self._progress.stop()

    def update(self, name: str, there: int, size: int | None) -> None:
        """``there`` of ``size`` bytes of a file are done; a size of ``None`` is not known."""
        if not self._shown:
            return
        with self._lock:
            if not self._running and time.monotonic() - self._start > QUIET_S:
                self._progress.start()
                self._running = True
            task = self._tasks.get(name)
            if task is None:
                task = self._tasks[name] = self._progress.add_task(name, total=size)
            self._progress.update(task, completed=there, total=size)

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        with self._lock:
            self._console.print(line, soft_wrap=True, markup=False)

    def ended(self, name: str) -> None:
        """Take a file's bar away."""
        with self._lock:
            task = self._tasks.pop(name, None)
            if task is not None:
                self._progress.remove_task(task)


class Steps:
    """Lines on the way. Those that count, as ``storing x (3 of 20)``, would bury the result.

    A terminal shows the newest of them only, and takes it away at the end; a log gets the first of each row
    and then one every ten seconds.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("")
        self._logged = 0.0

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def say(self, line: str) -> None:
        """Say a line: on standard error, where results are not."""
        counted = _COUNTED.search(line)
        if counted is None:
            self._status.stop()
            self._console.print(line, soft_wrap=True, markup=False)
        elif self._console.is_terminal:
            self._status.update(Text(line))
            self._status.start()
        elif counted[1] == "1" or time.monotonic() - self._logged >= LOG_S:
            self._logged = time.monotonic()
            self._console.print(line, soft_wrap=True, markup=False)


def print_table(table: RenderableType) -> None:
    """Print a table: whole lines without blanks at their end, where there is no terminal."""
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(table)
        return
    console.width = LOG_WIDTH
    with console.capture() as text:
        console.print(table)
    typer.echo("\n".join(line.rstrip() for line in text.get().splitlines()))
