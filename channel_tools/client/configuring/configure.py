"""Making a channel known to a conda client: what its configuration file would be, and the difference.

conda and mamba get names (``custom_channels``), so that ``-c internal`` is this channel and not a public one
of that name; pixi and ``environment.yml`` get addresses. Channels are put in front, in order, with strict
priority: what is declared, this channel, those of its dependencies, and then what was there before.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from channel_tools.client.configuring.channel_names import PUBLIC, split_url
from channel_tools.client.configuring.pixi import edit_pixi
from channel_tools.client.configuring.yaml_file import edit_condarc, edit_environment
from channel_tools.client.selection import label_of
from channel_tools.model.arch import lookup
from channel_tools.model.errors import ArchRefusedError, ChannelToolsError
from channel_tools.model.files import reason
from channel_tools.model.redaction import redact

Client = Literal["conda", "mamba", "pixi", "environment"]
CLIENTS: tuple[Client, ...] = ("conda", "mamba", "pixi", "environment")
DEFAULT_FILES = {
    "conda": Path("~/.condarc"),
    "mamba": Path("~/.mambarc"),
    "pixi": Path("pixi.toml"),
    "environment": Path("environment.yml"),
}


@dataclass(frozen=True)
class Wanted:
    """What to configure. ``url`` without a final ``/``; ``arch`` and ``rocm`` where they are declared."""

    url: str
    name: str
    client: Client
    arch: str | None = None
    rocm: str | None = None
    dependencies: tuple[str, ...] = ("conda-forge",)
    check_host: bool = False

    @property
    def label(self) -> str | None:
        return label_of(self.arch, self.rocm)

    @property
    def urls(self) -> list[str]:
        """Channels in order, by address."""
        front = [f"{self.url}/label/{self.label}"] if self.label else []
        return [*front, self.url, *self.dependencies]

    @property
    def names(self) -> list[str]:
        """Channels in order, by name."""
        front = [f"{self.name}/label/{self.label}"] if self.label else []
        return [*front, self.name, *self.dependencies]


@dataclass(frozen=True)
class Plan:
    """A configuration file before (None: not there) and after, and what the user should know."""

    file: Path
    before: str | None
    after: str
    notes: tuple[str, ...]

    @property
    def changes(self) -> bool:
        return self.before != self.after

    @property
    def diff(self) -> str:
        """Unified difference for people, without credentials."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            str(self.file) if self.before is not None else "/dev/null",
            str(self.file),
        )
        return redact("".join(line if line.endswith("\n") else f"{line}\n" for line in lines))


def wanted_of(
    url: str,
    client: str,
    *,
    name: str | None = None,
    arch: str | None = None,
    rocm: str | None = None,
    dependencies: Sequence[str] = ("conda-forge",),
    check_host: bool = False,
) -> Wanted:
    """Check what the user asks for.

    :raises ChannelToolsError: the address cannot have that name, or is none that clients read
    :raises ArchRefusedError: no GPU target
    """
    url = url.rstrip("/")
    if client not in CLIENTS:
        raise ChannelToolsError(f"{client} is no client", wanted=", ".join(CLIENTS))
    if not url.startswith(("https://", "http://", "file://", "s3://")):
        raise ChannelToolsError(
            "is no address that clients read", where=redact(url), wanted="https://, file:// or s3://"
        )
    parts = urlsplit(url)
    if parts.query or parts.fragment or not parts.path.strip("/"):
        raise ChannelToolsError(
            "is no address of a channel",
            where=redact(url),
            wanted="host and path, as https://conda.example.com/internal",
        )
    if "/label/" in parts.path:
        raise ChannelToolsError(
            "is a label of a channel",
            where=redact(url),
            wanted="the channel's own address",
            fix=f"--channel {redact(url.partition('/label/')[0])}; --arch and --rocm choose the label",
        )
    if rocm is not None and not re.fullmatch(r"\d+\.\d+", rocm):
        raise ChannelToolsError(f"{rocm} is no ROCm release", wanted="X.Y, as 7.2", fix="correct --rocm")
    if redact(url) != url:
        raise ChannelToolsError(
            "has a credential in it, which would be written into the configuration and every environment",
            where=redact(url),
            wanted="the address alone",
            fix="docs/access.md says where each client keeps credentials",
        )
    if arch is not None and lookup(arch) is None:
        raise ArchRefusedError(f"{arch} is no AMD GPU target", wanted="for instance gfx942")
    name = (name or split_url(url)[1]).strip("/")
    if not f"{url}/".endswith(f"/{name}/") or not name:
        raise ChannelToolsError(
            f"cannot be called {name}",
            where=url,
            wanted=f"a name that the address ends with, as {split_url(url)[1]}",
            fix="clients make the address of a named channel by adding the name to a location "
            "(custom_channels), so serve it under that name, or take the other one",
        )
    if name in PUBLIC:
        raise ChannelToolsError(
            f"{name} is the name of a public channel", where=url, fix="serve the channel under another name"
        )
    if client in ("pixi", "environment") and rocm is None:
        raise ChannelToolsError(
            f"{client} needs the ROCm release, which only rocm-channel and conda's plugin detect",
            fix="name it with --rocm, as --rocm 7.2",
        )
    if check_host and (client != "pixi" or arch is None):
        raise ChannelToolsError("--check-host is for pixi with --arch")
    return Wanted(url, name, client, arch, rocm, tuple(dependencies), check_host)


def plan(wanted: Wanted, file: Path | None = None) -> Plan:
    """The change of one configuration file. Nothing is written.

    :param file: None: the client's usual one
    :raises ChannelToolsError: the file is there and cannot be read, or is not of its format
    """
    path = (file or DEFAULT_FILES[wanted.client]).expanduser()
    path = path.resolve() if path.is_symlink() else path.absolute()
    before = read_text(path)
    text = before and before.replace("\r\n", "\n")
    if wanted.client in ("conda", "mamba"):
        location = wanted.url[: -len(wanted.name)].rstrip("/")
        after, notes = edit_condarc(text, path, wanted.names, wanted.name, location)
    elif wanted.client == "environment":
        pins = [f"rocm-userspace={wanted.rocm}"]
        known = lookup(wanted.arch) if wanted.arch else None
        pins = [f"amdgpu-arch={known.isa}", *pins] if known else pins
        after, notes = edit_environment(text, path, wanted.urls, wanted.url, pins)
    else:
        after, notes = edit_pixi(
            text, path, wanted.urls, wanted.url, wanted.arch if wanted.check_host else None
        )
    if before is not None and before != text:
        after = before if after == text else after.replace("\n", "\r\n")
    return Plan(path, before, after, (*notes, *_notes(wanted)))


def read_text(path: Path) -> str | None:
    """Content of a configuration file; None when it is not there.

    :raises ChannelToolsError: it is there and cannot be read
    """
    try:
        return path.read_bytes().decode("utf-8")  # line ends as they are, for the way back
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ChannelToolsError("cannot be read", where=path, found=reason(error)) from error


def _notes(wanted: Wanted) -> list[str]:
    if wanted.client in ("conda", "mamba"):
        found = [
            f"where this is not configured, `-c {wanted.name}` means the public channel of that name, which "
            "anybody may own: configure each host and container, or write the whole address"
        ]
        missing = [
            what for what, value in (("arch", wanted.arch), ("ROCm release", wanted.rocm)) if not value
        ]
        if missing:
            how = (
                "mamba does not find it"
                if wanted.client == "mamba"
                else "conda finds it with conda-amdgpu-arch"
            )
            found.append(
                f"no {' and no '.join(missing)} is declared: {how}; "
                f"else put -c {wanted.name}/label/<arch>-rocm<release> in front"
            )
        return found
    if wanted.client == "pixi" and wanted.arch is None:
        return ["no arch is declared: pixi 0.82 or newer finds the GPU; older ones need --arch"]
    return []
