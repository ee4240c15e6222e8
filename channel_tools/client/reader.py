"""A channel as its consumers read it: a folder, ``file://``, ``http(s)://``, ``s3://``, or a configured name.

Indexes are read by py-rattler in a child process, with the user's own credentials and cache (see
``docs/access.md``), so that the solve after it takes the same files from the cache.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from channel_tools import rattler_process
from channel_tools.channel.care.yanked import Yanked, read_yanked
from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE, SETTINGS_KEY, YANKED_KEY, label_prefix
from channel_tools.channel.settings import Settings, read_settings
from channel_tools.channel.stores.memory_store import MemoryStore
from channel_tools.channel.stores.store import Store
from channel_tools.client.addresses import declared_by
from channel_tools.client.configuring.channel_names import is_name, read_names
from channel_tools.model.arch import Arch
from channel_tools.model.errors import AccessError, ChannelError, StorageError
from channel_tools.model.redaction import redact

_CHECK = "check the address given by --channel"
_SIGNED = re.compile(r"\?(x-id|X-Amz)[^\s)]*")
_NO_CACHE = re.compile(r"failed to create (?:cache )?(?:directory:? )?[`']([^`']+)")
_TOKEN = re.compile(r"^(/t/)[^/]+(?=/|$)")


@dataclass(frozen=True)
class Offer:
    """What a channel is built for: targets by ISA version, and ROCm releases."""

    archs: tuple[Arch, ...]
    releases: tuple[str, ...]


@dataclass(frozen=True)
class Look:
    """What a channel had when it was read.

    ``names`` of its packages, in any version, yanked ones too; ``labels`` are of those that were asked for.
    """

    names: frozenset[str]
    labels: frozenset[str]
    offer: Offer
    settings: Settings
    yanked: Yanked
    files: Store


@dataclass(frozen=True)
class Reader:
    """``url`` is what solvers take, without a final ``/``; it may hold a token, so print :attr:`shown`."""

    url: str
    store: Store | None

    @property
    def shown(self) -> str:
        """The address for people, without credentials."""
        return self.store.address if self.store else redact(self.url)

    @property
    def plain(self) -> str:
        """The address without credentials, as attestations name it."""
        return _plain(self.url)

    def label_url(self, label: str | None) -> str:
        return f"{self.url}/{label_prefix(label)}".rstrip("/")

    def owns(self, url: str) -> bool:
        """Is it the URL of a file, or of a label, of this channel?"""
        return (_plain(url) + "/").startswith(_plain(self.url) + "/")

    def refuse_label(self) -> None:
        """
        :raises ChannelError: it is a label for a GPU or a ROCm release, and not the channel that has it
        """
        channel, _, label = self.url.rpartition("/label/")
        if channel and declared_by(label):
            raise ChannelError(
                "is a label of a channel",
                where=self.shown,
                wanted="the channel's own address",
                fix=f"--channel {self.shown.rpartition('/label/')[0]}: --arch and --rocm choose the label",
            )

    def look(self, labels: Sequence[str] | Literal["all"] = ()) -> Look:
        """Read names, the offer, settings, and what was yanked.

        :param labels: those to look for; ``all``: each that the offer gives rise to
        :raises ChannelError: no channel is there, or it cannot be read
        :raises AccessError: it wants a credential
        """
        wanted = {key: f"{self.url}/{key}" for key in (SETTINGS_KEY, YANKED_KEY)}
        payload = {
            "channel": self.url,
            "labels": labels if labels == "all" else list(labels),
            "files": [] if self.store else list(wanted.values()),
        }
        try:
            found: dict[str, Any] = rattler_process.call("look", payload)
        except rattler_process.RattlerCallError as error:
            raise reading_error(self.shown, str(error)) from error
        if not found["names"]:
            raise ChannelError("no packages here", where=self.shown, fix=_CHECK)
        texts = {key: found["files"].get(url) for key, url in wanted.items()}
        files = self.store or MemoryStore(
            {key: text.encode() for key, text in texts.items() if text is not None}, redact(self.url)
        )
        yanked = read_yanked(files)
        gone = {record["name"] for entry in yanked.entries.values() if (record := entry.get("record"))}
        return Look(
            frozenset(found["names"]) | gone,
            frozenset(found["labels"]),
            _offer(found["selectors"]),
            _careful(read_settings(files) or Settings()),
            yanked,
            files,
        )


def open_reader(address: str | Path) -> Reader:
    """The reader of an address, or of a name that this host's ``.condarc`` maps. Nothing is read of it yet.

    :raises ChannelError: neither
    """
    text = _expanded(str(address))
    if isinstance(address, str) and is_name(text):
        url = read_names().resolve(text)
        if url is not None:
            return open_reader(url)
        if not Path(text).is_dir():
            raise ChannelError(
                "is neither a folder nor a channel that this host's configuration names",
                where=text,
                wanted="a folder, an address (https://, s3://, file://), or a name of custom_channels",
                fix="`rocm-channel configure --channel https://...` makes a name of an address. Without "
                "that, clients take a name for a public channel, which anybody could own",
            )
    if text.startswith(("http://", "https://")):
        return Reader(text.rstrip("/"), None)
    from channel_tools.channel.stores.folder_store import FolderStore
    from channel_tools.channel.stores.opening import open_store

    if text.startswith("file:") and not text.startswith("file://"):
        text = text.removeprefix("file:")
    store = open_store(Path(text) if is_name(text) else text)
    if isinstance(store, FolderStore):
        return Reader(store.path.resolve().as_uri(), FolderStore(store.path.absolute()))
    return Reader(store.address, store)


def open_dependency(channel: str) -> str:
    """A channel that comes after ours, as the solver takes it: a URL where one is known.

    :raises ChannelError: it is in the home folder of somebody who is not known here
    """
    channel = _expanded(channel)
    if Path(channel).is_dir() or channel.startswith(("/", "./", "../")):
        return Path(channel).resolve().as_uri()
    return (read_names().resolve(channel) or channel) if is_name(channel) else channel


def _expanded(text: str) -> str:
    """With the folder that a ``~`` stands for: of ``--channel=~/x`` no shell has put it there."""
    try:
        return str(Path(text).expanduser()) if text.startswith("~") else text
    except RuntimeError as error:
        raise ChannelError("is in a home folder that is not known here", where=text, fix=_CHECK) from error


def reading_error(where: str, text: str, fix: str = _CHECK) -> ChannelError | StorageError:
    """The error of a channel that py-rattler could not read."""
    found = _SIGNED.sub("", redact(text.strip()))
    if "cache" in text and (folder := _NO_CACHE.search(text)):
        return StorageError(
            "the cache of py-rattler cannot be written",
            where=folder[1],
            found=found,
            fix="make it writable, or set XDG_CACHE_HOME to a folder that is, and no RATTLER_CACHE_DIR",
        )
    file = os.environ.get("RATTLER_AUTH_FILE", "")
    if file and file in text:
        return AccessError(
            "the file of credentials cannot be used",
            where=file,
            found=found,
            fix="docs/access.md shows its form, and what RATTLER_AUTH_FILE is for",
        )
    if any(sign in text for sign in ("(401", "(403", "AccessDenied", "InvalidAccessKeyId")):
        gone = (
            f"; RATTLER_AUTH_FILE names {file}, which is not there"
            if file and not Path(file).exists()
            else ""
        )
        return AccessError(
            "is not readable with the credentials that were sent, if any",
            where=where,
            found=found,
            fix=f"docs/access.md says where each client takes its credentials from{gone}",
        )
    if "could not find subdir" in text:
        return ChannelError("is no channel", where=where, found=found, fix=fix)
    return ChannelError("cannot be read", where=where, found=found, fix=fix)


def _offer(selectors: Sequence[dict[str, Any]]) -> Offer:
    archs = {Arch(r["build"].split("_")[0], r["version"]) for r in selectors if r["name"] == ARCH_PACKAGE}
    releases = {r["version"] for r in selectors if r["name"] == ROCM_PACKAGE}
    return Offer(tuple(sorted(archs)), tuple(sorted(releases, key=_release_key)))


def printable(text: str) -> str:
    """Text that others wrote, without what a terminal would act upon."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _careful(settings: Settings) -> Settings:
    channels = tuple(printable(one) for one in settings.dependency_channels)
    return settings.model_copy(update={"dependency_channels": channels})


def _release_key(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())


def _plain(url: str) -> str:
    """Host and path of a URL, without credentials."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme}://{host}{_TOKEN.sub('', unquote(parts.path)).rstrip('/')}"
