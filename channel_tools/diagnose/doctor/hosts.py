"""The hosts that the doctor can look at: this machine, a recorded one, and a bare folder of files.

A recorded host is a folder with ``host.json`` and the files in ``root/``. What is not in ``host.json`` is not
known, and checks that need it are skipped. Its keys:

===========  ==============================================================================================
``environ``  environment variables
``devices``  by path: ``mode`` (octal), ``uid``, ``gid``
``programs`` by command line, words joined by spaces: ``status`` and ``text``
``space``    by path of a folder: ``total_mib``, ``free_mib``
``now``      the clock, ISO 8601
``modified`` by path: ISO 8601
===========  ==============================================================================================
"""

from __future__ import annotations

import os
import posixpath
import pwd
import signal
import stat
import subprocess
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from channel_tools.diagnose.doctor.host_root import Device, HostRoot, Output, Space
from channel_tools.model.errors import ToolMissingError

RECORD: Final = "host.json"
FILES: Final = "root"
MIB: Final = 1 << 20

_PROGRAM_SECONDS: Final = 1.0
_OUTPUT_LIMIT: Final = 1 << 20

Octal = Annotated[int, BeforeValidator(lambda value: int(value, 8) if isinstance(value, str) else value)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Device(_Model):
    mode: Octal
    uid: int
    gid: int


class _Program(_Model):
    status: int = 0
    text: str


class _Space(_Model):
    total_mib: int
    free_mib: int


class Record(_Model):
    """``host.json``."""

    environ: dict[str, str] = {}
    devices: dict[str, _Device] = {}
    programs: dict[str, _Program] = {}
    space: dict[str, _Space] = {}
    now: datetime | None = None
    modified: dict[str, datetime] = {}


class LiveHost(HostRoot):
    """This machine. What the shell did not tell of home, user and current folder, the system does."""

    live = True

    def __init__(self) -> None:
        super().__init__(Path("/"), _own_environ())

    def is_program(self, path: str) -> bool:
        return super().is_program(path) and os.access(path, os.X_OK)

    def device(self, path: str) -> Device | None:
        return _device_node(Path(path))

    def opens(self, path: str) -> bool | None:
        return os.access(path, os.R_OK | os.W_OK)

    def run(self, *command: str) -> Output | None:
        environ = {**self.environ, "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            process = subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError):
            return None
        try:
            text, _ = process.communicate(timeout=_PROGRAM_SECONDS)
        except BaseException as ended:  # the time is over, or the user ends it
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if not isinstance(ended, subprocess.TimeoutExpired):
                raise
            return None
        return Output(process.returncode, text[:_OUTPUT_LIMIT].decode("utf-8", "replace"))

    def space(self, path: str) -> Space | None:
        try:
            found = os.statvfs(path)
        except OSError:
            return None
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def now(self) -> float | None:
        return time.time()

    def modified(self, path: str) -> float | None:
        try:
            return Path(path).stat().st_mtime
        except OSError:
            return None


class RecordedHost(HostRoot):
    """A host out of a folder; with an empty record, no more than its files."""

    def __init__(self, root: Path, record: Record) -> None:
        super().__init__(root, record.environ)
        self._record = record

    def is_program(self, path: str) -> bool:
        return super().is_program(path) and not path.endswith("/")

    def device(self, path: str) -> Device | None:
        found = self._record.devices.get(path)
        return Device(found.mode, found.uid, found.gid) if found else _device_node(self.path(path))

    def exists(self, path: str) -> bool:
        return path in self._record.devices or super().exists(path)

    def names(self, path: str) -> list[str]:
        nodes = {posixpath.basename(node) for node in self._record.devices if posixpath.dirname(node) == path}
        return sorted(nodes.union(super().names(path)))

    def run(self, *command: str) -> Output | None:
        found = self._record.programs.get(" ".join(command))
        return Output(found.status, found.text) if found else None

    def space(self, path: str) -> Space | None:
        here = self.real(path) or posixpath.normpath(path)
        while here not in self._record.space:
            if here in ("/", ""):
                return None
            here = posixpath.dirname(here)
        found = self._record.space[here]
        return Space(found.total_mib * MIB, found.free_mib * MIB)

    def now(self) -> float | None:
        return self._record.now.timestamp() if self._record.now else None

    def modified(self, path: str) -> float | None:
        found = self._record.modified.get(path)
        return found.timestamp() if found else None


def open_host(root: Path | None) -> HostRoot:
    """This machine for ``None`` and ``/``, else the host that a folder holds.

    :raises ToolMissingError: no such folder, or a record that cannot be read
    """
    if root is None or root.resolve() == Path("/"):
        return LiveHost()
    if not root.is_dir():
        raise ToolMissingError("there is no such folder", where=root, fix="give a folder with --root")
    record = root / RECORD
    if not record.exists():
        return RecordedHost(root, Record())
    try:
        return RecordedHost(root / FILES, Record.model_validate_json(record.read_bytes()))
    except (OSError, ValidationError, OverflowError) as error:
        raise ToolMissingError(
            "the record of the host cannot be read",
            where=record,
            found=_said(error),
            fix="see the keys in channel_tools/diagnose/doctor/hosts.py",
        ) from error


def _said(error: Exception) -> str:
    """What is wrong with a record, and at which key."""
    if not isinstance(error, ValidationError):
        return str(error) or type(error).__name__
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(part for part in (".".join(map(str, first["loc"])), first["msg"]) if part)


def _own_environ() -> dict[str, str]:
    environ = dict(os.environ)
    try:
        user = pwd.getpwuid(os.getuid())
        told = {"HOME": user.pw_dir, "USER": environ.get("LOGNAME") or user.pw_name}
    except KeyError:  # a number that /etc/passwd does not have, as in containers
        told = {}
    with suppress(OSError):
        told["PWD"] = str(Path.cwd())
    for name, value in told.items():
        environ[name] = environ.get(name) or value
    return environ


def _device_node(path: Path) -> Device | None:
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISCHR(found.st_mode):
        return None
    return Device(stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)
