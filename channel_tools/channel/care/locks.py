"""Which packages lock files name, in whatever format: explicit lists, pixi.lock, conda-lock.yml, and pinned
environment.yml.

For yank and prune, only names are looked for, so that a format of tomorrow protects as well: a package file
has the same name in each of them, whole or as the end of a URL. All that a lock says is read by
:mod:`channel_tools.client.locks.lock_files`; the lines of an explicit list are read here for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from channel_tools.model.errors import ChannelError
from channel_tools.model.package import SUFFIXES
from channel_tools.model.redaction import redact

_FILE = re.compile(r"[\w.!+%~-]+\.(?:conda|tar\.bz2)(?![\w-])")
_PINNED = re.compile(
    r"^\s*-\s+[\"']?(?:[^\s\"']*::)?([\w.-]+)={1,2}([\w.!+]+)=([\w.+]+)[\"']?\s*(?:#.*)?$", re.M
)
_DIGEST = re.compile(r"(?:(?P<md5>[0-9a-f]{32})|(?:sha256:)?(?P<sha256>[0-9a-f]{64}))?")


def file_names(text: str) -> frozenset[str]:
    """File names of conda packages in a text; of a pinned environment.yml, in both package formats."""
    found = {unquote(match[0]) for match in _FILE.finditer(text)}
    for match in _PINNED.finditer(text):
        found.update(f"{'-'.join(match.groups())}{suffix}" for suffix in SUFFIXES)
    return frozenset(found)


@dataclass(frozen=True)
class ExplicitEntry:
    """One line of an explicit list: where a package lies, and its digest where the line has one."""

    url: str
    sha256: str | None = None
    md5: str | None = None


def explicit_entries(text: str) -> list[ExplicitEntry]:
    """Entries of an explicit list (``@EXPLICIT``), by CEP 23: ``url``, ``url#md5``, ``url#[sha256:]sha256``.

    A path without scheme becomes a ``file://`` URL.

    :raises ChannelError: a line that names no package, a digest that is none, or no line at all
    """
    wanted = "an explicit list, as @EXPLICIT"
    found = []
    for line in text.splitlines():
        entry = line.strip()
        if not entry or entry.startswith(("#", "@")):
            continue
        url, _, digest = entry.partition("#")
        if "://" not in url and url.startswith("/"):
            url = Path(url).as_uri()
        if "://" not in url or not url.endswith(SUFFIXES):
            raise ChannelError("is no URL of a package", where=redact(entry), wanted=wanted)
        match = _DIGEST.fullmatch(digest)
        if match is None:
            raise ChannelError(
                "has a digest that is none, so nothing could be checked by it",
                where=redact(url),
                found=digest,
                wanted="32 hexadecimal digits of an MD5, or 64 of a SHA-256",
            )
        found.append(ExplicitEntry(url, match["sha256"], match["md5"]))
    if not found:
        raise ChannelError("the list names no package", wanted=wanted)
    return found


def named_in_locks(paths: Iterable[Path]) -> dict[str, list[str]]:
    """The lock files that name a package file, by its file name.

    :raises ChannelError: a lock file cannot be read, or names no conda package at all
    """
    found: dict[str, list[str]] = {}
    for path in paths:
        try:
            names = file_names(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ChannelError("cannot be read as a lock file", where=path, found=str(error)) from error
        if not names:
            raise ChannelError(
                "names no conda package, so it is no lock file that could protect one",
                where=path,
                wanted="an explicit list, pixi.lock or conda-lock.yml",
            )
        for name in names:
            found.setdefault(name, []).append(str(path))
    return found
