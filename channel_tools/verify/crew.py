"""Files that are read by several threads, their reports taken in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from channel_tools.verify.parallel import cores, submit
from channel_tools.verify.report import FileReport

_FILES_A_CORE: Final = 4
_BYTES: Final = 64 << 20
"""Of files that wait or are read: an archive's lie in memory until then."""


class FilesInOrder:
    """Hands files to the threads of :mod:`channel_tools.verify.parallel`.

    :param done: called here, in this thread, with each report, in the order in which the files came
    """

    def __init__(self, done: Callable[[FileReport], None]) -> None:
        self._done = done
        self._pending: deque[tuple[int, Future[FileReport]]] = deque()
        self._bytes = 0

    def add(self, size: int, work: Callable[[], FileReport]) -> None:
        """Have a file of ``size`` bytes read; wait first where many are under way.

        :raises Exception: whatever ``done`` or the work for an earlier file raises
        """
        while self._pending and (
            len(self._pending) >= _FILES_A_CORE * cores() or self._bytes + size > _BYTES
        ):
            self._take()
        self._bytes += size
        self._pending.append((size, submit(work)))

    def finish(self) -> None:
        """Wait for all that are under way.

        :raises Exception: as :meth:`add`
        """
        while self._pending:
            self._take()

    def _take(self) -> None:
        size, future = self._pending.popleft()
        self._bytes -= size
        self._done(future.result())
