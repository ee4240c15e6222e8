"""A proxy in front of an S3 service that fails as services and networks do, where a test asks for it."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from tests.unit.web import listening

ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"


@dataclass
class Fault:
    """What goes wrong with requests whose ``METHOD /path?query`` matches ``pattern``.

    :param kind: ``status`` (answers with ``status`` and ``code``), ``hang`` (no answer for ``seconds``),
        ``drop`` (hangs up at once), ``cut upload`` (the service gets half the body), ``cut answer`` (half the
        answer's body, then hangs up), ``lose answer`` (the service does it, but the answer is lost)
    :param times: how often; then requests pass
    """

    pattern: str
    kind: str
    status: int = 500
    code: str = "InternalError"
    message: str = "We encountered an internal error."
    times: int = 1_000_000
    seconds: float = 3.0
    skip: int = 0


@dataclass
class Proxy:
    """``asked`` has every request as ``METHOD /path?query``, with the length of its body in bytes."""

    endpoint: str = ""
    faults: list[Fault] = field(default_factory=list)
    asked: list[tuple[str, int]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    drop_headers: frozenset[str] = frozenset()

    def count(self, pattern: str) -> int:
        return sum(bool(re.search(pattern, asked)) for asked, _ in self.asked)

    def fault_for(self, request: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and re.search(fault.pattern, request):
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                return fault
        return None


@contextmanager
def faulty_proxy(service: str) -> Iterator[Proxy]:
    """A running proxy to ``service``."""
    proxy = Proxy()
    target = urlsplit(service).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = 1 << 16

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Nothing on the terminal."""

        def pass_on(self) -> None:
            if self.headers.get("Expect"):
                self.send_response_only(100)
                self.end_headers()
                self.wfile.flush()
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            request = f"{self.command} {self.path}"
            proxy.asked.append((request, length))
            proxy.headers.append(dict(self.headers.items()))
            fault = proxy.fault_for(request)
            kind = fault.kind if fault else ""
            if fault and kind == "status":
                text = ERROR.format(code=fault.code, message=fault.message).encode()
                self.answer(fault.status, {"Content-Type": "application/xml"}, text)
                return
            if fault and kind in ("hang", "drop"):
                time.sleep(fault.seconds if kind == "hang" else 0)
                self.close_connection = True
                return
            if kind == "cut upload":
                body = body[: len(body) // 2]
            status, headers, data = self.ask(body)
            if kind == "lose answer":
                self.close_connection = True
            else:
                self.answer(status, headers, data, cut=kind == "cut answer")

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on  # noqa: N815

        def ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
            connection = http.client.HTTPConnection(target, timeout=30)
            dropped = {"host", "content-length", "expect", "connection", *proxy.drop_headers}
            headers = {k: v for k, v in self.headers.items() if k.lower() not in dropped}
            connection.request(self.command, self.path, body, {**headers, "Content-Length": str(len(body))})
            answer = connection.getresponse()
            data = answer.read()
            connection.close()
            kept = {
                k: v for k, v in answer.getheaders() if k.lower() not in ("connection", "transfer-encoding")
            }
            return answer.status, kept, data

        def answer(self, status: int, headers: dict[str, str], data: bytes, *, cut: bool = False) -> None:
            self.send_response_only(status)
            if self.command != "HEAD":
                headers = {k: v for k, v in headers.items() if k.lower() != "content-length"}
                headers["Content-Length"] = str(len(data))
            for key, value in headers.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data[: len(data) // 2] if cut else data)
            self.close_connection = self.close_connection or cut

    with listening(Handler) as proxy.endpoint:
        yield proxy
