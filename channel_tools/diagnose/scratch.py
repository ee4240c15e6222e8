"""The parts of a log that show checks of a configuration, which may fail without anything being wrong.

CMake compiles small programs to find out what a compiler can do, and some projects print what came of it.
Errors there are no reason for a failure, unless CMake itself says that the check had to pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from channel_tools.diagnose.matcher import Hit, Probe

LENGTH: Final = 15
"""Lines that output of a check may follow its last mark."""

_CHECK: Final = r"CMakeFiles/(?:CMakeTmp|CMakeScratch)|\bcmTC_[0-9a-f]{5}\b|Performing C\w* SOURCE FILE Test"
_MUST_PASS: Final = r"able to compile a simple test program|CMake Error at \S*/CMakeTest\w+Compiler"
_DONE: Final = ("Build files have been written to", "Generating done")
_OFTEN: Final = 100_000


@dataclass
class Scratch:
    """Which lines are output of checks.

    :ivar configured: a configuration ended well, whatever its checks said
    """

    configured: bool = False
    _parts: list[list[int]] = field(default_factory=list)
    _must_pass: int | None = None

    def probes(self) -> Iterator[Probe]:
        anchors = ("CMakeFiles/CMakeTmp", "CMakeFiles/CMakeScratch", "cmTC_", "SOURCE FILE Test")
        yield Probe(_CHECK, anchors, self._check, limit=_OFTEN)
        yield Probe("Build files have been written to|Generating done", _DONE, self._well, limit=1)
        yield Probe(_MUST_PASS, ("able to compile a", "CMake Error at "), self._required, limit=_OFTEN)

    def covers(self, line: int) -> bool:
        """Whether a line is output of a check that may fail."""
        return any(first <= line <= last for first, last in self._parts)

    def _check(self, hit: Hit) -> None:
        if self._must_pass is not None and hit.line - self._must_pass <= 4 * LENGTH:
            return
        if self._parts and hit.line <= self._parts[-1][1]:
            self._parts[-1][1] = hit.line + LENGTH
        else:
            self._parts.append([hit.line, hit.line + LENGTH])

    def _well(self, hit: Hit) -> None:
        self.configured = True

    def _required(self, hit: Hit) -> None:
        self._must_pass = hit.line
