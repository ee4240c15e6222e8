"""Progress bars of downloads and copies: on a terminal, and only for work of more than two seconds."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

QUIET_S = 2.0


class ByteBars:
    """One bar a file. Methods may be called from any thread; without a terminal they do nothing."""

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
