"""A package server on this host that speaks quetz, Artifactory and prefix.dev as far as uploads need it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote, urlsplit

import zstandard

from tests.unit.web import listening

UPLOADS = {
    "quetz": re.compile(r"POST /api/channels/([^/]+)/upload/([^/?]+)"),
    "artifactory": re.compile(r"PUT /artifactory/([^/]+)/[^/]+/([^/?]+)"),
    "prefix": re.compile(r"POST /api/v1/upload/([^/]+)()$"),
}
READ = re.compile(r"GET (?:/get|/artifactory/api/conda)?/([^/]+)/(linux-64|noarch)/([^/]+)$")


@dataclass
class PackageServer:
    """``channels`` has file names and contents by channel.

    A ``late`` server does not list what was uploaded; a ``private`` one wants the token for reading, too.
    ``fails`` has the numbers (from 0) of uploads that are answered with status 400.
    """

    address: str = ""
    token: str = "right-token-0123456789"
    channels: dict[str, dict[str, bytes]] = field(default_factory=dict)
    late: bool = False
    private: bool = False
    zst: bool = True
    checksums: bool = True
    fails: frozenset[int] = frozenset()
    broken_index: bytes | None = None
    uploads: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)


def _authorized(server: PackageServer, headers: Any) -> bool:
    given = (headers.get("X-API-Key"), headers.get("Authorization"))
    return server.token in given or f"Bearer {server.token}" in given


@contextmanager
def package_server() -> Iterator[PackageServer]:
    """A running server."""
    server = PackageServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Nothing on the terminal."""

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            data = b""
            while length := int(self.rfile.readline(), 16):
                data += self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
            return data

        def answer(self, status: int, content: bytes = b"{}", headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for key, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(content)

        def upload(self) -> None:
            content = self.body()
            request = f"{self.command} {urlsplit(self.path).path}"
            server.seen.append(request)
            kind, found = next(
                (kind, found) for kind, pattern in UPLOADS.items() if (found := pattern.match(request))
            )
            if not _authorized(server, self.headers):
                given = self.headers.get("X-API-Key") or self.headers.get("Authorization")
                self.answer(401, json.dumps({"detail": f"{given} may not"}).encode())
                return
            channel, name = found[1], unquote(found[2])
            if kind == "prefix":
                name = re.search(rb'filename="([^"]+)"', content)[1].decode()  # type: ignore[index]
                boundary = content[: content.index(b"\r\n")]
                content = content.split(b"\r\n\r\n", 1)[1].rsplit(b"\r\n" + boundary, 1)[0]
            server.uploads.append(f"{channel}/{name}")
            if len(server.uploads) - 1 in server.fails:
                self.answer(400)
                return
            files = server.channels.setdefault(channel, {})
            if name in files and kind != "artifactory":
                self.answer(409)
                return
            files[name] = content
            self.answer(201)

        do_POST = do_PUT = upload  # noqa: N815

        def do_GET(self) -> None:
            server.seen.append(f"GET {self.path}")
            found = READ.match(f"GET {self.path}")
            files = server.channels.get(found[1]) if found else None
            if server.private and not _authorized(server, self.headers):
                self.answer(401)
            elif found is None or files is None:
                self.answer(404)
            elif found[3].startswith("repodata.json"):
                self.index(found[2], found[3], {} if server.late else files)
            elif unquote(found[3]) in files:
                content = files[unquote(found[3])]
                known = {"X-Checksum-Sha256": hashlib.sha256(content).hexdigest()} if server.checksums else {}
                self.answer(200, content, known)
            else:
                self.answer(404)

        def index(self, subdir: str, name: str, files: dict[str, bytes]) -> None:
            records = {file: {"sha256": hashlib.sha256(data).hexdigest()} for file, data in files.items()}
            content = json.dumps(
                {"info": {"subdir": subdir}, "packages": {}, "packages.conda": records}
            ).encode()
            if server.broken_index is not None:
                content = server.broken_index
            if name == "repodata.json":
                self.answer(200, content)
            elif server.zst:
                self.answer(200, zstandard.compress(content))
            else:
                self.answer(404)

    with listening(Handler) as server.address:
        yield server
