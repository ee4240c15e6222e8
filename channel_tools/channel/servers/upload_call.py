"""Uploading by py-rattler-build, in a process of its own.

Its functions hold the interpreter and do not react to signals, so they run in a child process, which ends
with an interrupt. The child takes the credential from its environment, never from its arguments. Protocol:
a JSON object on standard input, ``{"ok": true}`` or ``{"error": text}`` on standard output.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from channel_tools.channel.servers.upload_targets import Target, Upload
from channel_tools.model.errors import AccessError, ChannelError, StorageError
from channel_tools.model.redaction import redact

_DENIED = re.compile(r"HTTP 40[13]|authentication failed|api key was given|no .*(?:token|key) .*found", re.I)
_TAKEN = re.compile(r"HTTP 409|already exists", re.I)


def send(place: Target, item: Upload, path: Path, *, done: int = 0, total: int = 1) -> None:
    """Upload one package, which lies at ``path``.

    :param done: packages of this release sent before it, of ``total``
    :raises AccessError: no credential, or one that the server refuses
    :raises ChannelError: the name was taken meanwhile
    :raises StorageError: any other failure
    """
    payload = {
        "kind": place.kind,
        "service": place.service,
        "channel": place.channel,
        "label": place.label,
        "variable": place.variable,
        "file": str(path),
    }
    command = [sys.executable, "-m", "channel_tools.channel.servers.upload_call"]
    ran = subprocess.run(command, input=json.dumps(payload), capture_output=True, text=True, check=False)
    try:
        answer = json.loads(ran.stdout)
    except ValueError:
        answer = {"error": ran.stderr.strip() or f"the process ended with status {ran.returncode}"}
    if "error" in answer:
        raise _error(place, item, redact(str(answer["error"]).strip()), done, total)


def _error(place: Target, item: Upload, said: str, done: int, total: int) -> Exception:
    where = f"{place.url}/{item.subdir}/{item.name}"
    sent = f"{done} of {total} packages of this release were uploaded before it; upload it again to go on"
    login = f"give a credential that may write there by {place.variable} or RATTLER_AUTH_FILE"
    if _DENIED.search(said):
        return AccessError("the server refused the upload", where=where, found=said, fix=f"{login}; {sent}")
    if _TAKEN.search(said):
        return ChannelError(
            "a file of this name was uploaded by somebody else meanwhile", where=where, found=said, fix=sent
        )
    return StorageError(
        "the package could not be uploaded",
        where=where,
        found=said,
        fix=f"make sure that the channel exists there; {login}; {sent}",
    )


def _upload(payload: dict[str, Any]) -> None:
    from rattler_build import upload

    files = [payload["file"]]
    service, channel = payload["service"], payload["channel"]
    key = os.environ.get(payload["variable"]) or None
    kind = payload["kind"]
    if kind == "prefix":
        upload.upload_package_to_prefix(files, service, channel, api_key=key)
    elif kind == "quetz":
        upload.upload_package_to_quetz(files, service, channel, api_key=key)
    elif kind == "artifactory":
        upload.upload_package_to_artifactory(files, service, channel, token=key)
    elif kind == "anaconda":
        labels = [payload["label"] or "main"]
        upload.upload_package_to_anaconda(files, channel, channel=labels, api_key=key, url=service or None)
    else:
        owner, repository = channel.split("/")
        upload.upload_package_to_cloudsmith(files, owner, repository, api_key=key, url=service or None)


def main() -> None:
    try:
        _upload(json.load(sys.stdin))
        answer: dict[str, Any] = {"ok": True}
    except BaseException as error:
        answer = {"error": str(error) or type(error).__name__}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
