"""Taking the build host's own addresses out of a package's metadata, before it is hashed and recorded.

Every engine writes the channels of a build into ``info/about.json``, and they and the addresses of its
sources into the rendered recipe. Those that begin with ``file:`` are folders of the build host, of no use to
anybody else. ``info/paths.json`` covers neither file.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
import zipfile
from pathlib import Path

import zstandard

from channel_tools.model.errors import DamagedFileError
from channel_tools.model.files import written_whole

_ABOUT = "info/about.json"
_RECIPES = ("info/recipe/", "info/tests/")
_ADDRESS = re.compile(rb"file:/+[^\s\"'\],}]*?([^\s\"'\],}/]*)/?(?=[\s\"'\],}]|$)")
_PIECE = 1 << 20


def without_local_addresses(package: Path) -> bool:
    """Rewrite a ``.conda`` so that no metadata names a folder of this host; its files stay as they are.

    :returns: whether there was anything to take out; if not, the file was not touched
    :raises DamagedFileError: it cannot be read
    """
    if package.suffix != ".conda":
        return False
    try:
        with zipfile.ZipFile(package) as archive:
            info = next(name for name in archive.namelist() if name.startswith("info-"))
            with zstandard.ZstdDecompressor().stream_reader(archive.read(info)) as stream:
                old = stream.read()
            new = _rewritten(old)
            if new is None:
                return False
            with written_whole(package) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as target:
                for entry in archive.infolist():
                    name = zipfile.ZipInfo(entry.filename, entry.date_time)
                    with target.open(name, "w", force_zip64=True) as out:
                        if entry.filename == info:
                            out.write(zstandard.ZstdCompressor(level=19).compress(new))
                            continue
                        with archive.open(entry) as content:
                            while piece := content.read(_PIECE):
                                out.write(piece)
    except (zipfile.BadZipFile, zstandard.ZstdError, tarfile.TarError, StopIteration, ValueError) as error:
        raise DamagedFileError(
            "cannot be read as a .conda package", where=package, found=str(error)
        ) from error
    return True


def _rewritten(raw: bytes) -> bytes | None:
    """The info archive without local addresses; None when it has none."""
    changed = False
    buffer = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(raw)) as old,
        tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in old:
            stream = old.extractfile(member) if member.isreg() else None
            if stream is None:
                new.addfile(member)
                continue
            content = before = stream.read()
            if member.name == _ABOUT:
                content = _without_local_channels(content)
            elif member.name.startswith(_RECIPES):
                content = _ADDRESS.sub(rb"local:\1", content)
            changed = changed or content != before
            member.size = len(content)
            new.addfile(member, io.BytesIO(content))
    return buffer.getvalue() if changed else None


def _without_local_channels(content: bytes) -> bytes:
    about = json.loads(content)
    channels = about.get("channels") or []
    kept = [url for url in channels if not str(url).startswith("file:")]
    if kept == channels:
        return content
    return (json.dumps({**about, "channels": kept}, indent=2) + "\n").encode()
