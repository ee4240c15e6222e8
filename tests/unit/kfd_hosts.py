"""The machines of ``tests/data/kfd`` as folders: see the README there for the form of the files."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[1] / "data" / "kfd"
NAMES = sorted(path.stem for path in DATA.glob("*.txt"))


def make_host(name: str, root: Path) -> list[Path]:
    """Make the files of one machine below ``root``.

    :returns: what may not be read; it is there, with nothing said about its rights
    """
    closed: list[Path] = []
    for part in re.split(r"^(?==|!|-)", (DATA / f"{name}.txt").read_text(), flags=re.MULTILINE)[1:]:
        head, _, text = part.partition("\n")
        mark, path, *target = head.split()
        for new in _each(path):
            (root / new).parent.mkdir(parents=True, exist_ok=True)
            if mark == "->":
                (root / new).symlink_to(target[0])
            elif mark == "==" or new.endswith("properties"):
                (root / new).write_text(text)
            else:
                (root / new).mkdir()
            if mark == "!!":
                closed.append(root / new)
    return closed


def close(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let reading these fail as sysfs does it for root, too: the file opens, and reading it fails."""
    kept = {"read_bytes": Path.read_bytes, "iterdir": Path.iterdir}

    def refusing(method: str) -> Any:
        def call(self: Path) -> Any:
            if self in paths:
                raise PermissionError(errno.EPERM, "Operation not permitted", str(self))
            return kept[method](self)

        return call

    for method in kept:
        monkeypatch.setattr(Path, method, refusing(method))


def _each(path: str) -> Iterator[str]:
    match = re.search(r"\[(\d+)-(\d+)\]", path)
    if match is None:
        yield path
        return
    for number in range(int(match[1]), int(match[2]) + 1):
        yield from _each(path[: match.start()] + str(number) + path[match.end() :])
