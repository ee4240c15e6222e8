"""Work on all cores: threads, for what unpacks, hashes and searches leaves the interpreter's lock alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from queue import Empty, Full, Queue
from typing import Final, TypeVar

_AHEAD: Final = 4
_PATIENCE: Final = 0.1  # seconds until a thread looks whether it is still wanted

T = TypeVar("T")
_here = threading.local()


@cache
def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def submit(work: Callable[[], T]) -> Future[T]:
    """Have a thread do ``work``; at once and here, where this is such a thread already."""
    if in_crew():
        done: Future[T] = Future()
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)
        return done
    return _crew().submit(_marked, work)


def in_crew() -> bool:
    """Is this thread one of those that do what was submitted?"""
    return getattr(_here, "in_crew", False)


@cache
def _crew() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), thread_name_prefix="verify")


def _marked(work: Callable[[], T]) -> T:
    _here.in_crew = True
    return work()


class Room:
    """Bytes that may be taken at one time; who wants more waits until others gave theirs back."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def take(self, size: int) -> Iterator[None]:
        """More than there is in all is given to one alone."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken or self._taken + size <= self._size)
            self._taken += size
        try:
            yield
        finally:
            with self._changed:
                self._taken -= size
                self._changed.notify_all()


class _End:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def ahead(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same chunks, made by a thread of their own while the last ones are looked at."""
    queue: Queue[bytes | _End] = Queue(_AHEAD)
    wanted = threading.Event()
    wanted.set()

    def put(thing: bytes | _End) -> None:
        while wanted.is_set():
            try:
                return queue.put(thing, timeout=_PATIENCE)
            except Full:
                continue

    def run() -> None:
        error: BaseException | None = None
        try:
            for chunk in chunks:
                put(chunk)
                if not wanted.is_set():
                    break
        except BaseException as caught:
            error = caught
        finally:
            close = getattr(chunks, "close", None)
            if close:
                close()
            put(_End(error))

    thread = threading.Thread(target=run, name="verify-ahead", daemon=True)
    thread.start()
    try:
        while True:
            thing = queue.get()
            if isinstance(thing, _End):
                if thing.error:
                    raise thing.error
                return
            yield thing
    finally:
        wanted.clear()
        with_room = True
        while with_room and thread.is_alive():
            try:
                queue.get_nowait()
            except Empty:
                with_room = False
        thread.join()
