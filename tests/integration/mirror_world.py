"""Pins of two served channels, for the tests of mirrors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from channel_tools.client.locks.lock_files import read_lock_file
from channel_tools.client.mirroring.mirror import Mirrored, mirror
from tests.integration.pin_channels import Server, forge, internal, pin, served_environment, serving

KEY = "gfx942-rocm7.2"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """A folder with both channels, and pins of them as they are served at ``http://SITE``."""
    root = tmp_path_factory.mktemp("site")
    internal(root)
    forge(root)
    with serving(root) as server:
        file = served_environment(server, root)
        pin(file, "--arch", "gfx942", "--arch", "gfx90a")
        for path in (root / "pinned").rglob("*"):
            if path.is_file():
                path.write_text(path.read_text().replace(server.url, "http://SITE"))
        yield root, root / "pinned"


@pytest.fixture
def world(site: tuple[Path, Path], tmp_path: Path) -> Iterator[tuple[Server, Path]]:
    """A server of its own for each test, and the pins of it."""
    pins = tmp_path / "pins"
    shutil.copytree(site[1], pins)
    with serving(site[0]) as server:
        for path in pins.rglob("*"):
            if path.is_file():
                path.write_text(path.read_text().replace("http://SITE", server.url))
        yield server, pins


def run(to: Path, *locks: Path, url: str | None = None) -> Mirrored:
    return mirror([read_lock_file(lock) for lock in locks], str(to), url=url)


def all_of(pins: Path) -> list[Path]:
    return [pins / "pixi.lock", *sorted(path for path in pins.glob("*/*") if path.is_file())]


def big(site_root: Path) -> str:
    (path,) = (site_root / "internal" / "linux-64").glob("vllm-rocm-*rocm72_gfx942*.conda")
    return path.name
