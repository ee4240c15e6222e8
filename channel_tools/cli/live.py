"""What a terminal shows while something runs; of builds one line each, and a table at the end."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from channel_tools.cli.progress import print_table

if TYPE_CHECKING:
    from channel_tools.build.builder import Outcome

_FINAL = ("built", "failed")
_COLOURS = {"built": "green", "kept": "blue", "failed": "red", "skipped": "yellow"}


class LiveDisplay(ABC):
    """Something that is drawn again and again on standard error, where that is a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False, quiet=quiet)
        self._lock = threading.Lock()
        self._live: Live | None = None

    @abstractmethod
    def _render(self) -> RenderableType:
        """What is shown at this moment; called from a thread of its own."""

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, get_renderable=self._render, refresh_per_second=4, transient=True
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()


class Display(LiveDisplay):
    """Live lines where there is a terminal, one line a change of state where there is none."""

    def __init__(self, headline: str | None, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._started: dict[str, float] = {}
        self._doing: dict[str, str] = {}
        if headline:
            self._console.print(headline, soft_wrap=True)

    def update(self, stem: str, text: str) -> None:
        """Take what one build is doing now; called from any thread."""
        with self._lock:
            start = self._started.setdefault(stem, time.monotonic())
            self._doing[stem] = text
            if text in _FINAL:
                del self._doing[stem]
        if text in _FINAL:
            colour = _COLOURS[text]
            self._console.print(f"[{colour}]{text:<8}[/] {stem} ({time.monotonic() - start:.1f} s)")
        elif text == "starting" and not self._console.is_terminal:
            self._console.print(f"building {stem}")

    def summary(self, outcomes: list[Outcome]) -> None:
        """The table of what became of every package."""
        table = Table(box=None, pad_edge=False)
        for title in ("package", "result", "time", "targets found"):
            table.add_column(title)
        for outcome in outcomes:
            status = outcome.status
            note = " (stale: inputs changed, raise the build number)" if outcome.step.state == "stale" else ""
            targets = ", ".join(sorted(outcome.report.targets())) if outcome.report else ""
            table.add_row(
                outcome.step.node.stem,
                Text(status + (note if status == "kept" else ""), style=_COLOURS[status]),
                f"{outcome.seconds:.1f} s" if outcome.seconds else "",
                targets,
            )
        print_table(table)

    def _render(self) -> Table:
        table = Table.grid(padding=(0, 2))
        with self._lock:
            for stem, text in self._doing.items():
                table.add_row(stem, f"{time.monotonic() - self._started[stem]:.0f} s", text)
        return table
