"""The store that an address names."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.store import Store
from channel_tools.model.errors import ChannelError
from channel_tools.model.redaction import redact

POSSIBLE = "a folder, file:///folder, or s3://bucket/prefix"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/|(?:file|s3):", re.I)


def open_store(address: str | Path) -> Store:
    """A folder path, a ``file://`` address, or ``s3://bucket/prefix``. Nothing is read or written yet.

    :raises ChannelError: any other address
    :raises AccessError: an AWS profile that is not there
    """
    if isinstance(address, Path):
        return FolderStore(address)
    scheme = _SCHEME.match(address)
    if scheme is None:
        if not address.strip():
            raise ChannelError("no channel is named", wanted=POSSIBLE)
        return FolderStore(Path(address).expanduser())
    parts = urlsplit(address)
    if parts.scheme == "file":
        return FolderStore(_folder(address, parts))
    if parts.scheme == "s3":
        if "@" in parts.netloc or parts.query or parts.fragment or not _BUCKET.fullmatch(parts.netloc):
            raise ChannelError(
                "is no address of a bucket",
                where=redact(address),
                wanted="s3://bucket/prefix; credentials come from the AWS configuration",
            )
        from channel_tools.channel.stores.s3_store import S3Store

        return S3Store(parts.netloc, parts.path.strip("/"))
    raise ChannelError("is no place that a channel can be kept in", where=redact(address), wanted=POSSIBLE)


def same_place(a: Store, b: Store) -> bool:
    """Do two stores name one place? Folders may be spelled in several ways, and lie behind links."""
    if isinstance(a, FolderStore) and isinstance(b, FolderStore):
        return a.path.resolve() == b.path.resolve()
    return a.address == b.address


def absolute(store: Store) -> str:
    """The address as it holds in any working folder."""
    return str(store.path.absolute()) if isinstance(store, FolderStore) else store.address


def _folder(address: str, parts: SplitResult) -> Path:
    if parts.netloc not in ("", "localhost"):
        raise ChannelError("names a folder of another machine", where=address, wanted="file:///folder")
    if parts.query or parts.fragment or not parts.path.startswith("/"):
        raise ChannelError(
            "is no address of a folder",
            where=address,
            wanted="file:///folder, with %23 for # and %3F for ? in names",
            fix="write the path itself, without file://",
        )
    return Path(unquote(parts.path))
