"""Addresses that everybody can read: they go into pages, settings, statements and public logs."""

from __future__ import annotations

from urllib.parse import urlsplit

from channel_tools.model.errors import ChannelError
from channel_tools.model.redaction import redact


def consumer_url(url: str, where: str, option: str = "--url") -> str:
    """The address where consumers read, without a final ``/``.

    :param where: what it is the address of, for the message
    :raises ChannelError: no address of a channel, or one with a credential in it
    """
    if not _is_address(url):
        raise ChannelError(
            "has no usable address for consumers",
            where=where,
            found=redact(url),
            wanted="https://host/channel, without credentials",
            fix=f"see {option}",
        )
    check_no_credential(url, where)
    return url.rstrip("/")


def check_no_credential(channel: str, where: str) -> None:
    """:raises ChannelError: the address, or name, of a channel has a credential in it"""
    if redact(channel, {}) != channel:
        raise ChannelError(
            "has a credential in the address of a channel, which everybody could read",
            where=where,
            found=redact(channel),
            fix="leave it out; docs/access.md says where each client takes its credentials from",
        )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    if parts.query or parts.fragment or "@" in parts.netloc:
        return False
    return parts.scheme == "file" or (parts.scheme in ("http", "https", "s3") and bool(parts.netloc))
