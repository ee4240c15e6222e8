"""Reading all GPUs of a host again and again, beside what else goes on.

Sources in order: the library ``amdsmi`` of the environment, ``amd-smi``, ``rocm-smi``, sysfs. The first that
says anything of a GPU is kept for the whole run, so that all numbers come from one clock and one meaning.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from channel_tools.diagnose.doctor.host_root import HostRoot
from channel_tools.diagnose.smoke.devices import Device, devices_of, matched, read_devices
from channel_tools.diagnose.smoke.sampler_library import AmdsmiSource
from channel_tools.diagnose.smoke.sampler_programs import AmdSmiSource, RocmSmiSource, SourceError
from channel_tools.diagnose.smoke.sampler_readings import Reading, Sample
from channel_tools.diagnose.smoke.sampler_sysfs import SysfsSource
from channel_tools.model.clock import elapsed

SOURCES: Final = ("amdsmi", "amd-smi", "rocm-smi", "sysfs")

_PROGRAM_SECONDS: Final = 20.0
"""amd-smi starts a Python and asks each GPU: about a second on a node of eight, more on a busy one."""


class Source(Protocol):
    """Where readings come from."""

    name: str

    def read(self) -> list[Reading]:
        """All GPUs now.

        :raises SourceError: nothing can be read
        """

    def close(self) -> None: ...


@dataclass(frozen=True)
class Opened:
    """The source that is used, if any; why others are not; the GPUs."""

    source: Source | None
    refused: tuple[tuple[str, str], ...]
    devices: tuple[Device, ...]

    @property
    def reasons(self) -> str:
        return "; ".join(f"{name}: {reason}" for name, reason in self.refused)


def open_source(host: HostRoot, python: Path, names: Sequence[str] = SOURCES) -> Opened:
    """The first source that says anything of a GPU.

    :param host: the machine, or a recorded one
    :param python: interpreter whose ``amdsmi`` is asked
    :param names: sources to try, in order
    """
    devices = read_devices(host)
    refused: list[tuple[str, str]] = []
    for name in names:
        source: Source | None = None
        try:
            source = _open(name, host, python)
            readings = source.read()
            if not any(one.says_anything for one in readings):
                raise SourceError("it says neither power, nor load, nor memory of any GPU")
            if devices and not matched(devices, readings):
                raise SourceError("its GPUs are not those of the kernel's topology")
        except SourceError as reason:
            refused.append((name, str(reason)))
            if source is not None:
                source.close()
            continue
        return Opened(source, tuple(refused), devices or devices_of(readings))
    return Opened(None, tuple(refused), devices)


def _open(name: str, host: HostRoot, python: Path) -> Source:
    if name == "amdsmi":
        if not host.live:
            raise SourceError("a recorded host has no library")
        return AmdsmiSource(python, host.environ)
    if name == "sysfs":
        found = SysfsSource(host)
        if not found.read():
            raise SourceError("no card of the driver amdgpu in /sys/class/drm")
        return found
    run = _runner(host)
    return AmdSmiSource(run) if name == "amd-smi" else RocmSmiSource(run)


def _runner(host: HostRoot) -> Callable[[Sequence[str]], str]:
    """Runs a program of the host; of a recorded one, gives what was recorded."""

    def recorded(command: Sequence[str]) -> str:
        found = host.run(*command)
        if found is None:
            raise SourceError(f"{command[0]} is not there")
        return found.text

    def live(command: Sequence[str]) -> str:
        program = host.which(command[0]) or host.which(f"/opt/rocm/bin/{command[0]}")
        if program is None:
            raise SourceError(f"{command[0]} is neither on PATH nor in /opt/rocm/bin")
        try:
            done = subprocess.run(
                [program, *command[1:]],
                env={**host.environ, "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROGRAM_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise SourceError(f"{command[0]} did not end within {_PROGRAM_SECONDS:.0f} s") from None
        except OSError as error:
            raise SourceError(f"{program} cannot be run: {error.strerror}") from error
        text = done.stdout.decode("utf-8", "replace")
        if done.returncode and not text.strip():
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise SourceError(f"{command[0]} ended with {done.returncode}: {said[-1] if said else 'no word'}")
        return text

    return live if host.live else recorded


@dataclass
class Sampler:
    """Reads a source in a thread of its own, every ``interval`` seconds, from :meth:`start` to :meth:`stop`.

    A read that fails is counted and leaves a gap; the next one is tried all the same.

    :param source: where readings come from
    :param devices: the GPUs, whose numbers the readings get
    :param interval: seconds from one read to the next; a source that takes longer is read without a pause
    :param listen: called with each sample, in the sampler's thread
    """

    source: Source
    devices: Sequence[Device]
    interval: float = 1.0
    listen: Callable[[Sample], None] | None = None
    phase: str = ""
    samples: list[Sample] = field(default_factory=list)
    failures: int = 0
    last_failure: str = ""

    def __post_init__(self) -> None:
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="gpu-sampler", daemon=True)
        self._begin = 0.0

    def start(self) -> None:
        self._begin = elapsed()
        self._thread.start()

    def seconds(self) -> float:
        """Seconds since the start."""
        return elapsed() - self._begin

    def stop(self) -> None:
        """Take no more samples, and close the source."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(_PROGRAM_SECONDS + 5)
        self.source.close()

    def _loop(self) -> None:
        due = self.seconds()
        while not self._end.is_set():
            self._take()
            due = max(due + self.interval, self.seconds())
            self._end.wait(max(0.0, due - self.seconds()))

    def _take(self) -> None:
        phase = self.phase  # the one in which the reading began
        try:
            readings = matched(self.devices, self.source.read())
        except Exception as reason:  # whatever a source or a library does: the next read may work
            self.failures += 1
            named = "" if isinstance(reason, SourceError) else f"{type(reason).__name__}: "
            self.last_failure = f"{named}{reason}"
            return
        sample = Sample(self.seconds(), readings, phase)
        self.samples.append(sample)
        if self.listen is not None:
            self.listen(sample)
