"""What a package server has already, so that nothing is overwritten there.

Servers have different rules for a second upload of a name, and some replace the file. So the channel's
index is read first, past all caches; a file that the index does not list yet is asked for itself, as some
servers index a while after an upload.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
import zstandard

from channel_tools.channel.servers.upload_targets import Target, Upload
from channel_tools.channel.stores.content import CHUNK, other_content
from channel_tools.model.errors import AccessError, ChannelError, StorageError
from channel_tools.model.redaction import redact

TIMEOUT_S = 60
LIMIT = 1 << 30
"""Bytes of an unpacked index."""


class Present:
    """The packages of one channel of a server."""

    def __init__(self, place: Target) -> None:
        self._place = place
        self._session = _Session()
        self._session.headers["Cache-Control"] = "no-cache"
        _log_in(self._session, place)
        self._records: dict[str, dict[str, Any]] = {}

    def has(self, item: Upload) -> bool:
        """Is that package there with that content?

        :raises ChannelError: it is there with other content
        :raises AccessError: the server wants a credential, or another one
        :raises StorageError: the server does not answer as a channel does
        """
        url = f"{self._place.url}/{item.subdir}/{item.name}"
        record = self._index(item.subdir).get(item.name) or {}
        found = record.get("sha256") or self._of_file(url)
        if found is None:
            return False
        if found != item.sha256:
            raise other_content(redact(url))
        return True

    def _index(self, subdir: str) -> dict[str, Any]:
        if subdir not in self._records:
            self._records[subdir] = self._read(subdir)
        return self._records[subdir]

    def _read(self, subdir: str) -> dict[str, Any]:
        url = f"{self._place.url}/{subdir}/repodata.json"
        answer = self._get(f"{url}.zst")
        content = b""
        try:
            if answer is not None:
                unpacker = zstandard.ZstdDecompressor().stream_reader(answer.content, read_across_frames=True)
                content = unpacker.read(LIMIT)
            elif (answer := self._get(url)) is not None:
                content = answer.content
            data = json.loads(content) if answer is not None else {}
            packages = {**data.get("packages", {}), **data.get("packages.conda", {})}
            if not all(isinstance(record, dict) for record in packages.values()):
                raise ValueError("records that are no objects")
        except (ValueError, AttributeError, TypeError, zstandard.ZstdError) as error:
            raise ChannelError(
                "the index cannot be read", where=redact(url), found=redact(str(error))
            ) from error
        return packages

    def _of_file(self, url: str) -> str | None:
        """SHA-256 of a file that the index does not list; None when it is not there."""
        answer = self._get(url, stream=True)
        if answer is None:
            return None
        with answer:
            known = answer.headers.get("X-Checksum-Sha256")
            if known:
                return known
            digest = hashlib.sha256()
            try:
                for chunk in answer.iter_content(CHUNK):
                    digest.update(chunk)
            except requests.RequestException as error:
                raise _unreachable(url, error) from error
        return digest.hexdigest()

    def _get(self, url: str, *, stream: bool = False) -> requests.Response | None:
        try:
            answer = self._session.get(url, timeout=TIMEOUT_S, stream=stream)
        except requests.RequestException as error:
            raise _unreachable(url, error) from error
        if answer.status_code == 404:
            return None
        if answer.status_code in (401, 403):
            raise AccessError(
                "the server refused to show the channel",
                where=redact(url),
                found=f"status {answer.status_code}",
                fix=f"give a credential that may read it by {self._place.variable} or RATTLER_AUTH_FILE",
            )
        if not answer.ok:
            raise StorageError(
                "the server failed",
                where=redact(url),
                found=f"status {answer.status_code}",
                fix="try again later",
            )
        return answer


def _unreachable(url: str, error: Exception) -> StorageError:
    return StorageError(
        "the server cannot be reached", where=redact(url), found=redact(str(error)), fix="check the address"
    )


def _log_in(session: requests.Session, place: Target) -> None:
    """Credential of the environment, else of the clients' own file, else of ``.netrc`` (by requests)."""
    token = os.environ.get(place.variable)
    if token:
        _send(session, place.sends, token)
        return
    entry = _of_login_file(urlsplit(place.url).hostname or "")
    if "BearerToken" in entry:
        _send(session, "bearer", str(entry["BearerToken"]))
    elif "BasicHTTP" in entry:
        basic = entry["BasicHTTP"]
        session.auth = (str(basic.get("username", "")), str(basic.get("password", "")))
    elif "CondaToken" in entry:
        _send(session, place.sends, str(entry["CondaToken"]))


class _Session(requests.Session):
    """Takes the credential off a request that is sent on to another host, whatever header it is in."""

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        super().rebuild_auth(prepared_request, response)
        if self.should_strip_auth(str(response.request.url), str(prepared_request.url)):
            prepared_request.headers.pop("X-API-Key", None)


class _Header(requests.auth.AuthBase):
    """A credential in a header; as an ``auth``, so that requests does not put ``.netrc`` in its place."""

    def __init__(self, name: str, value: str) -> None:
        self._name, self._value = name, value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers[self._name] = self._value
        return request


def _send(session: requests.Session, how: str, token: str) -> None:
    if how == "basic":
        session.auth = ("token", token)
    elif how == "x-api-key":
        session.auth = _Header("X-API-Key", token)
    else:
        session.auth = _Header("Authorization", f"Bearer {token}")


def _of_login_file(host: str) -> dict[str, Any]:
    """Entry for a host in the file that rattler, rattler-build and pixi keep."""
    given = os.environ.get("RATTLER_AUTH_FILE")
    path = Path(given) if given else Path.home() / ".rattler" / "credentials.json"
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        for pattern, entry in entries.items():
            if fnmatch.fnmatchcase(host, pattern) or pattern == f"*.{host}":
                return dict(entry)
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
    return {}
