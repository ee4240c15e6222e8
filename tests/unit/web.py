"""A web server on this host that keeps, breaks and bends the promises of real ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Page:
    """One file of the server.

    ``breaks`` ends each answer's body after so many bytes; ``announces`` is the Content-Length where it is
    not the true one; ``busy`` answers 503 so many times first; ``after`` replaces the content after the first
    answer; ``pause_s`` is slept after each 64 KiB.
    """

    content: bytes
    ranges: bool = True
    tag: str = '"one"'
    kind: str = "application/gzip"
    status: int = 200
    breaks: int | None = None
    announces: int | None = None
    busy: int = 0
    wrong_range: bool = False
    after: bytes | None = None
    pause_s: float = 0.0


@dataclass
class Web:
    """``pages`` by path; ``asked`` has each request as path and headers."""

    address: str = ""
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def add(self, path: str, page: Page) -> str:
        self.pages[path] = page
        return f"{self.address}{path}"

    def ranges(self) -> list[str | None]:
        return [headers.get("range") for _, headers in self.asked]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is what some tests are about."""


@contextmanager
def listening(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a web server that answers with these handlers until the block ends."""
    server = _Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def serve() -> Iterator[Web]:
    """A running server; its address has another port each time."""
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Nothing on the terminal."""

        def do_GET(self) -> None:
            headers = {key.lower(): value for key, value in self.headers.items()}
            web.asked.append((self.path, headers))
            page = web.pages.get(self.path)
            if page is None:
                self.answer(404, b"no such file", {})
            elif page.busy > 0:
                page.busy -= 1
                self.answer(503, b"later", {"Retry-After": "0"})
            else:
                self.page(page, headers)

        def page(self, page: Page, headers: dict[str, str]) -> None:
            begin, status = 0, page.status
            known = {"ETag": page.tag, "Content-Type": page.kind}
            wanted = headers.get("range")
            if wanted and page.ranges and headers.get("if-range", page.tag) == page.tag:
                begin, status = int(wanted.removeprefix("bytes=").rstrip("-")), 206
                size = len(page.content)
                if begin >= size:
                    self.answer(416, b"", {"Content-Range": f"bytes */{size}"})
                    return
                begin -= 100 if page.wrong_range else 0
                known["Content-Range"] = f"bytes {begin}-{size - 1}/{size}"
            self.answer(status, page.content[begin:], known, page)
            if page.after is not None:
                page.content, page.after, page.tag = page.after, None, '"two"'

        def answer(self, status: int, body: bytes, headers: dict[str, str], page: Page | None = None) -> None:
            self.send_response(status)
            announced = page.announces if page and page.announces is not None else len(body)
            for key, value in {"Content-Length": str(announced), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            sent = body if page is None or page.breaks is None else body[: page.breaks]
            try:
                for begin in range(0, len(sent), 1 << 16):
                    self.wfile.write(sent[begin : begin + (1 << 16)])
                    self.wfile.flush()
                    time.sleep(page.pause_s if page else 0)
            except OSError:
                pass
            if announced != len(sent):
                self.close_connection = True

    with listening(Handler) as web.address:
        yield web
