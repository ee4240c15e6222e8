"""Source distributions from the Python index that pip is configured for.

pip's own finder asks the index, with pip's own session: index address, proxy, certificates and credentials
are whatever pip uses on this host. ``pip download`` cannot be used, since it runs a package's ``setup.py``,
and vLLM's imports torch. The finder is internal to pip; where a pip has it otherwise, the index is left out
with that reason.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from packaging.utils import InvalidSdistFilename, canonicalize_name, parse_sdist_filename
from packaging.version import InvalidVersion

from channel_tools.sources.download import PlaceFailed, Transport


def project_of(name: str) -> str | None:
    """The project whose source distribution has that very file name: ``vllm`` of ``vllm-0.1.tar.gz``."""
    try:
        project, version = parse_sdist_filename(name)
    except (InvalidSdistFilename, InvalidVersion):
        return None
    written = name.removesuffix(".tar.gz").removesuffix(".zip")
    return project if canonicalize_name(written) == canonicalize_name(f"{project}-{version}") else None


@dataclass
class PythonIndex:
    """The index of this process's pip; asked once for a project. May be used from several threads."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stack: ExitStack = field(default_factory=ExitStack)
    _links: dict[str, dict[str, Any] | PlaceFailed] = field(default_factory=dict)
    _transport: Transport | None = None
    _finder: Any = None

    def find(self, name: str, sha256: str) -> tuple[str, Transport]:
        """Address of the file of that name, and the session that it is fetched with.

        :raises PlaceFailed: the index cannot be asked, does not have it, or lists it with another sha256
        """
        project = project_of(name)
        if project is None:
            raise PlaceFailed("no name of a Python source distribution")
        with self._lock:
            if project not in self._links:
                try:
                    self._links[project] = self._ask(project)
                except Exception as error:  # whatever pip's internals raise
                    text = " ".join(str(error).split())[:200]
                    self._links[project] = PlaceFailed(
                        f"pip could not ask it: {text or type(error).__name__}"
                    )
            links, transport = self._links[project], self._transport
        if isinstance(links, PlaceFailed):
            raise links
        if name not in links or transport is None:
            raise PlaceFailed("it has no such file")
        link = links[name]
        listed = link.hash if link.hash_name == "sha256" else None
        if listed not in (None, sha256):
            raise PlaceFailed(f"it lists the file with sha256 {listed}")
        return str(link.url_without_fragment), transport

    def close(self) -> None:
        self._stack.close()

    def _ask(self, project: str) -> dict[str, Any]:
        if self._finder is None:
            self._start(project)
        return {found.link.filename: found.link for found in self._finder.find_all_candidates(project)}

    def _start(self, project: str) -> None:
        from pip._internal.commands import create_command
        from pip._vendor.requests.exceptions import RequestException
        from pip._vendor.urllib3.exceptions import HTTPError

        # Without a log of its own, pip's warnings would go to the terminal.
        logging.getLogger("pip").setLevel(logging.CRITICAL)
        command: Any = create_command("download")
        options, _ = command.parse_args(
            ["--no-binary", ":all:", "--ignore-requires-python", "--no-cache-dir", project]
        )
        self._stack.enter_context(command.main_context())
        session = command.get_default_session(options)
        self._transport = Transport(session, (RequestException, HTTPError))
        self._finder = command._build_package_finder(options, session)
