"""The parts of one file, read on all cores, their findings in the order of the file."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final

from channel_tools.verify import parallel
from channel_tools.verify.findings import Findings

Read = Callable[[Findings], None]
"""Reads a part; must not raise damage, but note it."""

_AHEAD: Final = 4  # parts for each core


@dataclass
class _Part:
    """Findings that are there, or that ``read`` will make, here or in a thread."""

    findings: Findings
    read: Read | None = None
    apart: bool = False
    done: Future[None] | None = None

    def submit(self) -> None:
        if self.read and self.apart and not self.done:
            self.done = parallel.submit(partial(self.read, self.findings))

    def wait(self) -> None:
        if self.done:
            self.done.result()
        elif self.read:
            self.read(self.findings)


class Parts:
    """Findings of what follows each other."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._parts: deque[_Part] = deque()
        self._many = False

    def here(self) -> Findings:
        """Where the findings of what is read now go."""
        if not self._parts or self._parts[-1].read:
            self._parts.append(_Part(Findings(self._findings.name)))
        return self._parts[-1].findings

    def later(self, read: Read) -> None:
        """Read in a thread, if there is more than one: one alone may use two threads for itself."""
        self._many = self._many or any(part.apart for part in self._parts)
        self._add(_Part(Findings(self._findings.name), read, apart=True))
        if self._many:
            for part in self._parts:
                part.submit()

    def then(self, read: Read) -> None:
        """Read here, when it is its turn."""
        self._add(_Part(Findings(self._findings.name), read))

    def _add(self, part: _Part) -> None:
        self._parts.append(part)
        while len(self._parts) > _AHEAD * parallel.cores():
            self._take()

    def finish(self) -> None:
        """Wait for all."""
        while self._parts:
            self._take()

    def _take(self) -> None:
        part = self._parts.popleft()
        part.wait()
        self._findings.extend(part.findings)
