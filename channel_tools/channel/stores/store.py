"""Where a channel's files lie: one small interface for a folder and for S3.

A key is the path of a file below the channel's root, with ``/``: ``linux-64/repodata.json``. An etag names
one content of one key; it is opaque, and of no use outside the store that gave it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

IMMUTABLE = "public, max-age=31536000, immutable"
"""``Cache-Control`` of what never changes: packages, shards, attestations by hash, release manifests."""

SHORT = "public, max-age=300"
"""``Cache-Control`` of index files."""

NO_CACHE = "no-cache"
"""``Cache-Control`` of what must be seen at once: the page, ``.sigs`` aliases, control files."""


@dataclass(frozen=True)
class Stat:
    """One stored file: ``size`` in bytes; ``modified`` in seconds since 1970 by the store's own clock."""

    key: str
    size: int
    etag: str
    modified: float


class Store(Protocol):
    """Files by key. Every method may raise StorageError (exit code 41), with credentials left out of it."""

    @property
    def address(self) -> str:
        """As the operator writes it: a folder path or ``s3://bucket/prefix``; never has credentials."""

    def now(self) -> float:
        """Seconds since 1970 by the store's own clock, which all publishers share."""

    def stat(self, key: str) -> Stat | None:
        """What lies at ``key``; None when nothing does."""

    def read(self, key: str) -> bytes | None:
        """Content of a small file; None when there is none."""

    def read_with_etag(self, key: str) -> tuple[bytes, str] | None:
        """Content and its etag, from one request."""

    def open(self, key: str) -> IO[bytes]:
        """A stream over a file of any size. :raises StorageError: also when it is not there"""

    def list(self, prefix: str = "") -> Iterator[Stat]:
        """Every file whose key starts with ``prefix`` (a folder's with its ``/``), sorted by key."""

    def put_new(self, key: str, content: bytes | Path, *, sha256: str, cache: str = IMMUTABLE) -> bool:
        """Store a file that must not be there yet, whole or not at all.

        Large files go in parts; parts of an earlier try that broke off are taken up again.

        :param sha256: hexadecimal digest of ``content``; checked while the bytes pass
        :returns: False when the same content is there already
        :raises ChannelError: other content is there
        :raises DamagedFileError: ``content`` has another sha256
        """

    def replace(self, key: str, content: bytes, *, expect: str | None, cache: str) -> str:
        """Put ``content`` in the place of what has the etag ``expect`` (None: of nothing), atomically.

        :returns: the new etag
        :raises ConflictError: something else is there
        """

    def delete(self, key: str, *, expect: str | None = None) -> None:
        """Remove a file; nothing happens when it is not there.

        :raises ConflictError: ``expect`` was given and something else is there
        """

    def copy_from(self, source: Store, source_key: str, key: str, *, sha256: str) -> bool:
        """As :meth:`put_new`, from another store; on the server where both are of one service."""
