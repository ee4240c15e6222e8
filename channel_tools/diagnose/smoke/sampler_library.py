"""Readings out of the library ``amdsmi`` of an environment, read by a child process with its Python."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from channel_tools.diagnose.smoke.sampler_programs import SourceError
from channel_tools.diagnose.smoke.sampler_readings import Reading, celsius, megahertz, percent, size, watts

PROGRAM: Final = Path(__file__).parent / "steps" / "amdsmi_reader.py"

# The library asks each GPU's firmware; a node of eight answers well within a second.
_START_SECONDS: Final = 30.0
_READ_SECONDS: Final = 10.0


class AmdsmiSource:
    """The Python module ``amdsmi``, of any release from 5.7 on.

    :param python: the environment's interpreter
    :param environ: environment variables of the child
    :raises SourceError: there is no such module, or the library finds no driver
    """

    name = "amdsmi"

    def __init__(self, python: Path, environ: Mapping[str, str]) -> None:
        read_end, write_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                [python, "-B", PROGRAM, str(write_end)],
                env={**environ, "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[write_end],
                start_new_session=True,
            )
        except OSError as error:
            os.close(read_end)
            raise SourceError(f"{python} cannot be run: {error.strerror}") from error
        finally:
            os.close(write_end)
        self._answers = read_end
        self._rest = b""
        try:
            hello = self._answer(_START_SECONDS)
            if "error" in hello:
                raise SourceError(str(hello["error"]))
            self.release = str(hello.get("release", ""))
            self._addresses = [one if isinstance(one, str) else None for one in hello.get("addresses", [])]
            if not self._addresses:
                raise SourceError("the library sees no GPU")
        except SourceError:
            self.close()
            raise

    def read(self) -> list[Reading]:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(b"\n")
            stdin.flush()
        except (OSError, ValueError) as error:
            raise SourceError("the reader of amdsmi has ended") from error
        rows = self._answer(_READ_SECONDS)
        return [
            Reading(
                number=index,
                address=address.lower() if address else None,
                power_watts=watts(*row.get("power_watts", ())),
                temperature_celsius=celsius(row.get("temperature_celsius")),
                clock_mhz=megahertz(row.get("clock_mhz")),
                busy_percent=percent(row.get("busy_percent")),
                vram_used_bytes=size(row.get("vram_used_bytes"), unit="B"),
                vram_total_bytes=size(row.get("vram_total_bytes"), unit="B"),
            )
            for index, (address, row) in enumerate(zip(self._addresses, rows, strict=False))
        ]

    def close(self) -> None:
        """End the child."""
        with suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._answers >= 0:
            os.close(self._answers)
        self._answers = -1

    def _answer(self, seconds: float) -> Any:
        """The next line of the child.

        :raises SourceError: it ended, or did not answer in time
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(seconds):
                    # A late answer would be taken for that to the next question.
                    self._process.kill()
                    raise SourceError(f"the library did not answer within {seconds:.0f} s")
                data = os.read(self._answers, 1 << 16)
                if not data:
                    code = self._process.wait()
                    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
                    raise SourceError(f"the reader of the library ended {how}")
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)
