"""Two small channels to pin from, a web server that can misbehave, and a look at what was installed."""

from __future__ import annotations

import http.server
import json
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from channel_tools.channel.publishing.placing import candidate, empty_channel, with_packages
from channel_tools.channel.settings import Settings
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.transaction.apply import apply
from tests.integration.helpers import answer, rocm_channel
from tests.integration.tiny_packages import ISA, gpu_package, release, tiny_package
from tests.unit.web import listening

BIG = 3_000_000
"""Bytes of the one large file."""

NO_GPU = {"ROCM_BOOTSTRAP_DISABLE_DETECTION": "1"}


def add(store: FolderStore, packages: list[Path]) -> None:
    apply(store, plan=lambda view: with_packages(view, [candidate(path) for path in packages]), who="test")


def make_channel(path: Path, packages: list[Path], settings: Settings | None = None) -> FolderStore:
    store = FolderStore(path)
    apply(store, empty_channel(settings or Settings()), who="test")
    add(store, packages)
    return store


def internal(root: Path, **settings: Any) -> FolderStore:
    """``internal``: vllm-rocm for two GPUs and releases, with a large file, and the canary."""
    built = root / "built"
    noise = random.Random(7).randbytes(BIG)
    packages = release(built, "rocm-canary", "0.1.0")
    for arch in ISA:
        for rocm in ("7.0", "7.2"):
            files = {
                "lib/libvllm.so": noise + f"{arch} {rocm}".encode(),
                "lib/python3.12/site-packages/vllm/__init__.py": f"target = '{arch}'\n".encode(),
                f"share/only-{arch}.txt": b"",
            }
            packages.append(
                gpu_package(
                    built, "vllm-rocm", "0.26.0", arch, rocm, depends=["python >=3.12", "numpy"], files=files
                )
            )
    return make_channel(root / "internal", packages, Settings(toolchain="conda", **settings))


def forge(root: Path) -> FolderStore:
    """A second channel, which also has newer packages under the first one's names."""
    built = root / "forge-built"
    packages = [
        tiny_package(built, "python", "3.12.9", "0_cpython", build_number=0, depends=["zlib", "tzdata"]),
        tiny_package(built, "zlib", "1.3", "h0_0"),
        tiny_package(built, "numpy", "2.0", "py312_0", depends=["python 3.12.*"]),
        tiny_package(built, "tzdata", "2026", "0", subdir="noarch"),
        tiny_package(built, "amdgpu-arch", "99", "h0_0", suffix=".tar.bz2"),
        tiny_package(built, "rocm-canary", "99", "h0_0"),
    ]
    return make_channel(root / "conda-forge", packages)


def served_environment(server: Server, folder: Path) -> Path:
    """An environment.yml of the served channels, for gfx942 and ROCm 7.2."""
    ours = f"{server.url}/internal"
    channels = [f"{ours}/label/gfx942-rocm7.2", ours, f"{server.url}/conda-forge"]
    return environment_yml(folder / "environment.yml", channels)


def pin(file: Path, *words: object, **environ: str) -> Any:
    """What `rocm-channel pin` answers."""
    return answer(rocm_channel("pin", file, "--json", *words, **{**NO_GPU, **environ}))


def environment_yml(path: Path, channels: list[str], *more: str) -> Path:
    lines = [
        "name: demo",
        "channels:",
        *(f"  - {one}" for one in channels),
        "  - nodefaults",
        "dependencies:",
    ]
    lines += ["  - vllm-rocm=0.26.0", "  - rocm-canary", *(f"  - {one}" for one in more)]
    path.write_text("\n".join(lines) + "\n")
    return path


@dataclass
class Server:
    """``asked`` has path and ``Range`` of each request; ``sent`` bytes of packages.

    By file name: ``cuts`` says how many bytes of each answer come before the server hangs up; ``wrong`` has
    other content; ``gone`` are not found; ``slow`` stop in the middle and hang, once.
    """

    url: str = ""
    ranges: bool = True
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    cuts: dict[str, list[int]] = field(default_factory=dict)
    wrong: dict[str, bytes] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    slow: set[str] = field(default_factory=set)
    sent: int = 0

    def packages(self) -> list[tuple[str, str | None]]:
        return [one for one in self.asked if one[0].endswith((".conda", ".tar.bz2"))]


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Serve a folder."""
    state = Server()
    ended = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            name = path.rpartition("/")[2]
            wanted = self.headers.get("Range")
            if self.command == "GET":
                state.asked.append((path, wanted))
            file = folder / path.lstrip("/")
            if name in state.gone or not file.is_file():
                self.answer(404, b"")
                return
            data = state.wrong.get(name, file.read_bytes())
            start = re.fullmatch(r"bytes=(\d+)-", wanted or "")
            if start and state.ranges:
                self.answer(206, data[int(start[1]) :], name, f"bytes {start[1]}-{len(data) - 1}/{len(data)}")
            else:
                self.answer(200, data, name)

        def answer(self, status: int, data: bytes, name: str = "", part: str | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            if part:
                self.send_header("Content-Range", part)
            self.end_headers()
            if self.command == "HEAD":
                return
            cut = state.cuts.get(name)
            if cut:
                data = data[: cut.pop(0)]
                self.close_connection = True
            if name.endswith((".conda", ".tar.bz2")):
                state.sent += len(data)
            if name in state.slow:
                state.slow.discard(name)
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
                ended.wait(60)
                self.close_connection = True
                return
            self.wfile.write(data)

    with listening(Handler) as state.url:
        try:
            yield state
        finally:
            ended.set()


BOTH = ("--arch", "gfx942", "--arch", "gfx90a")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """Channels that do not change, behind a web server."""
    root = tmp_path_factory.mktemp("served")
    internal(root)
    forge(root)
    with serving(root) as server:
        yield server, root


@pytest.fixture(scope="module")
def pinned(served: tuple[Server, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pins of both GPUs."""
    folder = tmp_path_factory.mktemp("pinned")
    file = served_environment(served[0], folder)
    done = rocm_channel("pin", file, *BOTH, "--output-dir", folder / "pins", **NO_GPU)
    assert done.returncode == 0, done.stderr
    return folder / "pins"


def installed(prefix: Path) -> dict[str, bytes]:
    """Every file of an environment with its bytes; of ``conda-meta``, what does not say how it came there."""
    found = {}
    for path in sorted(prefix.rglob("*")):
        name = path.relative_to(prefix).as_posix()
        if not path.is_file() or name == "conda-meta/history":
            continue
        content = path.read_bytes()
        if name.startswith("conda-meta/"):
            data = json.loads(content)
            kept = ("name", "version", "build", "sha256", "files", "paths_data")
            content = json.dumps({key: data.get(key) for key in kept}, sort_keys=True).encode()
        found[name] = content
    return found
