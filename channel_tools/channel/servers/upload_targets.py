"""Channels on package servers, which take uploads and make their own index.

An address has the service's name in front: ``artifactory:https://host/artifactory/internal``. Such a server
knows no transaction: each package appears when it arrives. What our own channels give is kept as far as it
can be without one: all files are checked before the first is sent, nothing is overwritten, labels come
first, and a release that broke off goes on when it is uploaded again.
"""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from channel_tools.channel.layout import label_of
from channel_tools.channel.stores.content import check_sha256, stored_chunks, write_chunks
from channel_tools.channel.stores.store import Store
from channel_tools.model.errors import ChannelError
from channel_tools.model.package import sha256
from channel_tools.model.redaction import redact


@dataclass(frozen=True)
class Target:
    """One channel of a server, or one label of it.

    :param kind: service, as in ``upload_services.toml``
    :param service: address that uploads go to; empty for the service's own
    :param channel: name there; ``owner/repository`` on Cloudsmith
    :param url: channel as consumers write it
    :param label: of a server that knows labels
    """

    kind: str
    service: str
    channel: str
    url: str
    label: str | None = None

    @property
    def has_labels(self) -> bool:
        """Do labels lie below the channel? Where they do not, sibling channels take their place."""
        return bool(_services()[self.kind]["labels"])

    @property
    def variable(self) -> str:
        """Environment variable that has the credential."""
        return str(_services()[self.kind]["variable"])

    @property
    def sends(self) -> str:
        """How a credential is sent to read the index: ``bearer``, ``x-api-key`` or ``basic``."""
        return str(_services()[self.kind]["sends"])

    def for_label(self, label: str | None) -> Target:
        """The place of a label: below this channel, or the channel ``NAME-LABEL`` beside it."""
        if label is None:
            return self
        if self.has_labels:
            return replace(self, label=label, url=f"{self.url}/label/{label}")
        return replace(self, channel=f"{self.channel}-{label}", url=f"{self.url}-{label}")


@dataclass(frozen=True)
class Upload:
    """One package.

    :param key: as in a channel of ours: ``label/gfx942/linux-64/x.conda``
    :param source: a file here, or a store and the key there
    """

    key: str
    sha256: str
    source: Path | tuple[Store, str]

    @property
    def subdir(self) -> str:
        return self.key.split("/")[-2]

    @property
    def name(self) -> str:
        return self.key.split("/")[-1]

    @contextmanager
    def file(self) -> Iterator[Path]:
        """The package as a file of its own name, whole.

        :raises DamagedFileError: it is not what ``sha256`` says
        """
        if isinstance(self.source, Path):
            check_sha256(sha256(self.source), self.sha256, self.source)
            yield self.source
            return
        store, key = self.source
        with tempfile.TemporaryDirectory(prefix="rocm-channel-upload-") as folder:
            path = Path(folder, self.name)
            write_chunks(stored_chunks(store, key), path)
            check_sha256(sha256(path), self.sha256, f"{store.address}/{key}")
            yield path


def parse_target(address: str) -> Target:
    """The channel that an address names.

    :raises ChannelError: no such service, or not the form that its addresses have
    """
    full = f"prefix:{address}" if address.startswith("https://prefix.dev/") else address
    kind, _, rest = full.partition(":")
    service = _services().get(kind)
    examples = ", ".join(str(entry["example"]) for entry in _services().values())
    if service is None:
        raise ChannelError("is no package server that we know", where=redact(address), wanted=examples)
    found = re.fullmatch(service["pattern"], rest.rstrip("/"))
    if found is None or re.search(r"[@?#\s]", rest):
        raise ChannelError(
            "is no address of a channel there; credentials do not belong into it",
            where=redact(address),
            wanted=str(service["example"]),
            fix=f"give the credential by {service['variable']} or the client's own login",
        )
    parts = {"service": "", **found.groupdict()}
    return Target(kind, service["upload"].format(**parts), parts["channel"], service["read"].format(**parts))


def upload(
    target: Target, uploads: Sequence[Upload], *, say: Callable[[str], None], dry_run: bool = False
) -> list[Upload]:
    """Send what is not there yet, labels first.

    :returns: what was sent; a package that is there with the same content is not
    :raises ChannelError: a name is there with other content; nothing is sent then
    :raises AccessError: the server wants a credential, or another one
    :raises StorageError: the server cannot be reached, or refuses
    """
    from channel_tools.channel.servers.upload_call import send
    from channel_tools.channel.servers.upload_check import Present

    present: dict[str, Present] = {}
    wanted = []
    for item in sorted(uploads, key=_labels_first):
        place = target.for_label(label_of(item.key))
        there = present.setdefault(place.url, Present(place))
        if there.has(item):
            say(f"is there already: {item.key}")
        else:
            wanted.append((place, item))
    for number, (place, item) in enumerate(wanted, 1):
        if not dry_run:
            with item.file() as path:
                send(place, item, path, done=number - 1, total=len(wanted))
        verb = "would upload" if dry_run else "uploaded"
        say(f"{verb} {number} of {len(wanted)}: {item.key} to {place.url}")
    return [item for _, item in wanted]


def install_commands(
    target: Target, label: str | None, spec: str, dependency_channels: Sequence[str] = ()
) -> dict[str, str]:
    """What consumers type, by client; where labels are sibling channels, the commands name those.

    :param label: ``gfx942-rocm7.2``; None for clients that find the GPU themselves
    """
    places = [target.for_label(label).url] if label else []
    channels = [*places, target.url, *dependency_channels]
    options = " ".join(f"-c {channel}" for channel in channels)
    return {
        "conda": f"conda install --override-channels {options} {spec}",
        "mamba": f"mamba install --override-channels {options} {spec}",
        "pixi": f"pixi init {' '.join(f'-c {channel}' for channel in channels)} && pixi add {spec}",
    }


def _labels_first(item: Upload) -> tuple[bool, bool, str]:
    return (label_of(item.key) is None, item.subdir != "noarch", item.key)


@cache
def _services() -> dict[str, dict[str, Any]]:
    text = files("channel_tools.channel.servers").joinpath("upload_services.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
