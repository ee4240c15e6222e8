"""A channel behind a small HTTP server that demands a credential, in each way that clients can send one."""

from __future__ import annotations

import base64
import functools
import http.server
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.unit.web import listening

Way = Literal["bearer", "basic", "path"]


@dataclass
class Guarded:
    """``url`` without credentials; ``refused`` and ``served`` are the paths asked for, tokens left out."""

    url: str
    refused: list[str] = field(default_factory=list)
    served: list[str] = field(default_factory=list)


class _Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, way: Way, token: str, guarded: list[Guarded], *args: Any, **options: Any) -> None:
        self.way, self.token, self.guarded = way, token, guarded[0]
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        self._answer(super().do_GET)

    def do_HEAD(self) -> None:
        self._answer(super().do_HEAD)

    def _answer(self, serve: Callable[[], None]) -> None:
        header = self.headers.get("Authorization")
        inside = self.path.startswith(f"/t/{self.token}/")
        if self.path.startswith("/t/"):
            self.path = "/" + self.path.split("/", 3)[3]
        basic = base64.b64encode(f"reader:{self.token}".encode()).decode()
        right = {
            "bearer": header == f"Bearer {self.token}",
            "basic": header == f"Basic {basic}",
            "path": inside,
        }
        if right[self.way]:
            self.guarded.served.append(self.path)
            serve()
        else:
            self.guarded.refused.append(self.path)
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def guarded(channel: Path, way: Way, token: str) -> Iterator[Guarded]:
    """Serve the folder ``channel`` to whoever shows ``token``; the user of ``basic`` is ``reader``."""
    holder: list[Guarded] = []
    handler = functools.partial(_Handler, way, token, holder, directory=str(channel))
    with listening(handler) as address:
        holder.append(Guarded(address))
        yield holder[0]
