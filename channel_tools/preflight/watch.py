"""What a configuration tries to download.

Four ways lead out of CMake, and each is watched: FetchContent by a dependency provider of CMake's own
(cmake_language(SET_DEPENDENCY_PROVIDER)), ``git`` by a program of that name first on PATH, everything that
obeys a proxy variable (file(DOWNLOAD), curl, pip, Python) by a proxy on 127.0.0.1 that notes the request and
refuses it, and ExternalProject, which would download in the build, by the files that it leaves for that.
"""

from __future__ import annotations

import re
import shutil
import socketserver
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROVIDER = """function(rocm_channel_note_fetch method name)
  if("${ARGN}" MATCHES "(GIT_REPOSITORY|SVN_REPOSITORY|HG_REPOSITORY|CVS_REPOSITORY|URL);([^;]+)")
    set(address "${CMAKE_MATCH_2}")
    if(NOT address MATCHES "^(file:|/)")
      file(APPEND "@NOTES@" "FetchContent ${name}: ${address}\\n")
      message(FATAL_ERROR "FetchContent ${name} would download ${address}")
    endif()
  endif()
endfunction()
cmake_language(SET_DEPENDENCY_PROVIDER rocm_channel_note_fetch
  SUPPORTED_METHODS FETCHCONTENT_MAKEAVAILABLE_SERIAL)
"""
_GIT = """#!/bin/sh
for word in "$@"; do
  case $word in
  clone | fetch | pull | ls-remote | submodule | remote)
    printf 'git %s\\n' "$*" >>"@NOTES@"
    echo "git $word: no downloads in a configuration" >&2
    exit 128
    ;;
  esac
done
exec @GIT@ "$@"
"""
_ADDRESS = re.compile(r"[a-z+]+://[^\s'\"]+")


class Watch:
    """Notes download attempts of the programs that get :meth:`environment`; a context manager.

    ``folder`` must be there, and is written to.
    """

    def __init__(self, folder: Path) -> None:
        self._notes = folder / "downloads"
        self._programs = folder / "programs"
        self.provider = folder / "provider.cmake"
        self._notes.touch()
        self._programs.mkdir()
        self.provider.write_text(_PROVIDER.replace("@NOTES@", str(self._notes)), encoding="utf-8")
        git = self._programs / "git"
        text = _GIT.replace("@NOTES@", str(self._notes)).replace("@GIT@", shutil.which("git") or "false")
        git.write_text(text, encoding="utf-8")
        git.chmod(git.stat().st_mode | stat.S_IXUSR)
        self._proxy = _Proxy(self._notes)

    def __enter__(self) -> Watch:
        self._proxy.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._proxy.stop()

    def environment(self, path: str) -> dict[str, str]:
        """Variables for the watched program; ``path`` is the PATH that it would have."""
        names = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")
        proxies = {name: self._proxy.address for lower in names for name in (lower, lower.upper())}
        return {**proxies, "PATH": f"{self._programs}:{path}"}

    def attempts(self) -> list[str]:
        """What was tried so far, one line each."""
        return list(dict.fromkeys(self._notes.read_text(encoding="utf-8", errors="replace").splitlines()))


def external_projects(build: Path) -> list[str]:
    """What ExternalProject would download in the build, by what it wrote at configure."""
    found = []
    for pattern in ("*-urlinfo.txt", "*-gitinfo.txt"):
        for path in sorted(build.rglob(pattern)):
            for address in _ADDRESS.findall(path.read_text(encoding="utf-8", errors="replace")):
                if not address.startswith("file:"):
                    found.append(f"ExternalProject {path.name.rpartition('-')[0]}: {address}")
    return list(dict.fromkeys(found))


class _Proxy:
    """Takes connections, notes the first line of each, and refuses."""

    def __init__(self, notes: Path) -> None:
        lock = threading.Lock()

        class Handler(socketserver.StreamRequestHandler):
            timeout = 5

            def handle(self) -> None:
                with _quiet():
                    words = self.rfile.readline(2048).decode("latin-1").split()
                    with lock, notes.open("a", encoding="utf-8") as file:
                        file.write(f"network: {' '.join(words[:2])}\n")
                    self.wfile.write(
                        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    )

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def _quiet() -> Iterator[None]:
    """A client that went away is no matter."""
    try:
        yield
    except OSError:
        return
