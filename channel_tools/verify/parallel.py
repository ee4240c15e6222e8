"""Work on all cores: threads, for what unpacks, hashes and searches leaves the interpreter's lock alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from typing import Final, TypeVar

_AHEAD: Final = 4

T = TypeVar("T")
_here = threading.local()


@cache
def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def submit(work: Callable[[], T]) -> Future[T]:
    """Have a thread do ``work``; whoever asks for its result before one came to it does it himself.

    So work may submit work, and wait for it.
    """
    task = _Task(work)
    _crew().submit(task.run)
    return task


class _Task(Future[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__()
        self._work = [work]
        self._taken = threading.Lock()

    def run(self) -> None:
        if not self._taken.acquire(blocking=False):
            return
        work = self._work.pop()  # and keep nothing that it holds, once it is done
        try:
            self.set_result(work())
        except BaseException as error:
            self.set_exception(error)

    def result(self, timeout: float | None = None) -> T:
        self.run()
        return super().result(timeout)


def in_crew() -> bool:
    """Is this thread one of those that do what was submitted?"""
    return getattr(_here, "in_crew", False)


@cache
def _crew() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), thread_name_prefix="verify", initializer=_mark)


def _mark() -> None:
    _here.in_crew = True


class Room:
    """Bytes that may be taken at one time; who wants more waits until others gave theirs back."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._changed = threading.Condition()

    def acquire(self, size: int) -> None:
        """More than there is in all is given to one alone."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken or self._taken + size <= self._size)
            self._taken += size

    def release(self, size: int) -> None:
        with self._changed:
            self._taken -= size
            self._changed.notify_all()

    @contextmanager
    def take(self, size: int) -> Iterator[None]:
        """:meth:`acquire`, and :meth:`release` after the block."""
        self.acquire(size)
        try:
            yield
        finally:
            self.release(size)


class _End:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def ahead(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same chunks, made by a thread of their own while the last ones are looked at."""
    made: SimpleQueue[bytes | _End] = SimpleQueue()
    wanted: SimpleQueue[None] = SimpleQueue()  # one for each chunk that may be made
    given_up = False

    def make() -> None:
        error: BaseException | None = None
        try:
            while True:
                wanted.get()
                if given_up:
                    break
                made.put(next(chunks))
        except StopIteration:
            pass
        except BaseException as caught:
            error = caught
        finally:
            close = getattr(chunks, "close", None)
            if close:
                close()
            made.put(_End(error))

    for _ in range(_AHEAD):
        wanted.put(None)
    thread = threading.Thread(target=make, name="verify-ahead", daemon=True)
    thread.start()
    try:
        while not isinstance(chunk := made.get(), _End):
            yield chunk
            wanted.put(None)
        if chunk.error:
            raise chunk.error
    finally:
        given_up = True
        wanted.put(None)
        thread.join()
