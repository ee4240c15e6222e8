"""Addresses of channels and packages, as pinned files may have them: without credentials."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from channel_tools.model.errors import LockError
from channel_tools.model.package import SUFFIXES
from channel_tools.model.redaction import redact

_TOKEN = re.compile(r"^/t/[^/]+(?=/|$)")
_PART = re.compile(r"[\w.!+%~-]+")
_DECLARED = re.compile(r"(?P<arch>gfx[0-9a-f]+)(?:-rocm(?P<rocm>\d+\.\d+))?|rocm-(?P<alone>\d+\.\d+)")
_SUBDIR = re.compile(r"noarch|[a-z]+-[a-z0-9_]+")


@dataclass(frozen=True)
class Place:
    """Where a package file lies: ``channel`` is a URL without label and without a final ``/``."""

    channel: str
    label: str | None
    subdir: str
    file: str

    @property
    def base(self) -> str:
        """The channel as clients name it: with its label."""
        return self.channel if self.label is None else f"{self.channel}/label/{self.label}"

    @property
    def url(self) -> str:
        return f"{self.base}/{self.subdir}/{quote(self.file, safe='!+~')}"


def without_credentials(url: str) -> str:
    """The URL without user, token, query and fragment; other text as it is."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    path = parts.path if parts.scheme == "file" else _TOKEN.sub("", parts.path)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path.rstrip("/"), "", ""))


def credentials(url: str) -> list[str]:
    """The secrets that a URL holds: user and password, a token of the path, the query."""
    if "://" not in url:
        return []
    parts = urlsplit(url)
    token = _TOKEN.match(parts.path) if parts.scheme != "file" else None
    user = parts.netloc.rpartition("@")[0]
    found = [user.partition(":")[2] or user, token[0][3:] if token else "", parts.query]
    return [secret for secret in found if secret]


def place_of(url: str) -> Place:
    """The parts of a package's URL.

    :raises LockError: it leads to no package file of a channel
    """
    plain = without_credentials(url)
    parts = urlsplit(plain)
    base, _, name = parts.path.rpartition("/")
    above, _, subdir = base.rpartition("/")
    file = unquote(name)
    if (
        not parts.scheme
        or not file.endswith(SUFFIXES)
        or not _PART.fullmatch(file)
        or not _SUBDIR.fullmatch(subdir)
        or posixpath.normpath(unquote(above) or "/") != (unquote(above) or "/")
    ):
        raise LockError(
            "names something that is no package of a channel",
            found=redact(url),
            wanted="an address such as https://host/channel/linux-64/name-version-build.conda",
        )
    channel, mark, label = above.partition("/label/")
    if mark and not re.fullmatch(r"[\w.+-]+", label):
        raise LockError("names a label that is none", found=redact(url))
    origin = f"{parts.scheme}://{parts.netloc}"
    return Place(f"{origin}{channel}", label if mark else None, subdir, file)


def declared_by(label: str) -> tuple[str | None, str | None] | None:
    """GPU target and ROCm release that a label of ours declares; None for another label."""
    match = _DECLARED.fullmatch(label)
    return None if match is None else (match["arch"], match["rocm"] or match["alone"])


def build_of(file: str) -> tuple[str, str, str]:
    """Name, version and build string of a package's file name.

    :raises LockError: it has none
    """
    stem = file
    for suffix in SUFFIXES:
        stem = stem.removesuffix(suffix)
    parts = stem.rsplit("-", 2)
    if len(parts) != 3 or not all(parts):
        raise LockError("is no name of a package file", found=file, wanted="name-version-build.conda")
    return parts[0], parts[1], parts[2]
