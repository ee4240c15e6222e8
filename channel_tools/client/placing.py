"""Making an environment hold exactly the solved records: a new one has all of them, or is not there.

py-rattler changes an environment package by package. One that was there already cannot be put back, so it
has a mark while it changes: ``env check`` names it, and the next installation completes it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence, Set
from contextlib import suppress
from pathlib import Path

from channel_tools import rattler_process
from channel_tools.client.prefix_facts import UNFINISHED
from channel_tools.client.reader import reading_error
from channel_tools.client.solving import Record
from channel_tools.model.errors import ChannelToolsError, DamagedFileError, StorageError
from channel_tools.model.files import check_writable, storage_errors, write_text_whole
from channel_tools.model.redaction import redact

_NO_ROOM = ("os error 28", "os error 30", "os error 13", "No space left")
_HALF_RECORDS = "prefix_record_*"  # what py-rattler calls a record before it is whole
_HARMLESS = {"lost+found", "CACHEDIR.TAG"}


def place(prefix: Path, records: Sequence[Record]) -> None:
    """Make an environment hold exactly the solved records.

    Whatever ends this early, Ctrl-C too: of a new environment nothing is left, and one that was there keeps
    the mark :data:`channel_tools.client.prefix_facts.UNFINISHED` where it may have changed.

    :raises StorageError: it cannot be written, or is a folder with files of somebody else
    :raises ChannelError: a package cannot be read
    :raises AccessError: a channel wants a credential
    :raises DamagedFileError: a package is another one than its record says
    """
    with storage_errors(prefix):
        is_new = not (prefix / "conda-meta").is_dir()
        before = {one.name for one in prefix.iterdir()} if prefix.is_dir() else None
    if is_new and before:
        _refuse_others(prefix, before)
    payload = {"records": [record["record"] for record in records], "prefix": str(prefix)}
    try:
        check_writable(prefix)
        names = [f"{one['name']}-{one['version']}-{one['build']}\n" for one in records]
        write_text_whole(prefix / UNFINISHED, "".join(names))
        rattler_process.call("place", payload)
        for left in (prefix / "conda-meta").glob(_HALF_RECORDS):
            left.unlink()
        (prefix / UNFINISHED).unlink()
    except BaseException as error:
        if is_new:
            _take_back(prefix, before)
        if isinstance(error, rattler_process.RattlerCallError):
            raise _place_error(prefix, str(error).strip(), is_new) from error
        raise


def _refuse_others(prefix: Path, names: Set[str]) -> None:
    others = sorted(one for one in names - _HARMLESS if one[0] != ".")
    if others:
        raise StorageError(
            "is no environment, and has other files",
            where=prefix,
            found=", ".join([*others[:3], *(["..."] if len(others) > 3 else [])]),
            fix="choose another --prefix, a new or an empty folder",
        )


def _take_back(prefix: Path, before: Set[str] | None) -> None:
    """Remove what came into a folder, and the folder where it was not there."""
    with suppress(OSError):
        for one in prefix.iterdir():
            if one.name in (before or ()):
                continue
            if one.is_dir() and not one.is_symlink():
                shutil.rmtree(one, ignore_errors=True)
            else:
                one.unlink(missing_ok=True)
        if before is None:
            prefix.rmdir()


def _place_error(prefix: Path, text: str, is_new: bool) -> ChannelToolsError:
    state = (
        "nothing was installed"
        if is_new
        else "the environment is incomplete, until an installation into it ends well"
    )
    if any(sign in text for sign in _NO_ROOM):
        more = ", or choose another --prefix" if is_new else ""
        more += ", or set XDG_CACHE_HOME to another folder" if "cache" in text else ""
        return StorageError(
            f"cannot be written: {redact(text)}",
            where=prefix,
            fix=f"{state}; make room{more}, and run it again",
        )
    if "hash mismatch" in text or "invalid zip archive" in text.lower():
        return DamagedFileError(
            "a package is not the file that its record says",
            where=prefix,
            found=redact(text),
            fix=f"{state}; ask the channel's operator to run `rocm-channel audit`",
        )
    return reading_error(str(prefix), text, f"{state}; run it again when the channel can be read")
