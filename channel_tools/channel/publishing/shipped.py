"""What a release has in the channel that it is promoted from, held against its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.channel.care.upkeep import read_state
from channel_tools.channel.release import Release, ReleaseFile
from channel_tools.channel.settings import Settings
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.change import Record
from channel_tools.model.errors import ChannelError
from channel_tools.model.package import Package


@dataclass(frozen=True)
class Verified:
    """The verification that a release manifest records, as the checks want it."""

    summary: Mapping[str, Any] | None

    @property
    def verdict(self) -> str:
        return str((self.summary or {}).get("verdict"))

    def targets(self) -> tuple[str, ...]:
        return tuple((self.summary or {}).get("targets") or ())


@dataclass(frozen=True)
class Shipped:
    """One package of the release; ``package.path`` is its key in the staging channel."""

    file: ReleaseFile
    record: Record
    package: Package


def shipped(source: Store, release: Release) -> list[Shipped]:
    """The packages of a release, each once, as the staging channel has them now.

    :raises ChannelError: one of them was yanked there, is gone, or is another file than the manifest says
    """
    staging = read_state(source)
    verified = {
        content_of(file): file.verify for r in staging.releases for file in r.files if file.verify is not None
    }
    found: dict[str, Shipped] = {}
    for file in release.files:
        subdir, _, name = file.key.rpartition("/")
        index = staging.indexes.get(subdir)
        record = index.records.get(name) if index else None
        where = f"{source.address}/{file.key}"
        if record is None:
            yanked = index is not None and name in index.removed
            raise ChannelError(
                "was yanked, and is not promoted" if yanked else "is in the release, and not in the index",
                where=where,
                found=staging.yanked.reason(file.key) if yanked else None,
                fix="publish a release without it, with a higher build number"
                if yanked
                else "run `rocm-channel audit` on the staging channel",
            )
        if record.get("sha256") != file.sha256:
            raise ChannelError(
                "is another file than the release manifest says",
                where=where,
                found=str(record.get("sha256")),
                wanted=file.sha256,
                fix="run `rocm-channel audit` on the staging channel",
            )
        # Combined labels bring what an earlier release verified.
        whole = file.model_copy(update={"verify": file.verify or verified.get(content_of(file))})
        found.setdefault(name, Shipped(whole, record, _package(whole, record, staging.settings)))
    return list(found.values())


def _package(file: ReleaseFile, record: Record, staging: Settings) -> Package:
    """Metadata of a package from its record and the manifest; the toolchain is the staging channel's."""
    targets = (file.verify or {}).get("targets") or ()
    extra = {
        "rocm_arch": file.arch,
        "rocm_version": file.rocm,
        "toolchain": staging.toolchain,
        "gfx_targets": [file.arch] if targets and file.arch else None,
    }
    return Package(
        Path(file.key),
        str(record["name"]),
        str(record["version"]),
        str(record["build"]),
        int(record["build_number"]),
        str(record.get("subdir") or file.key.split("/")[-2]),
        tuple(record.get("depends", ())),
        {key: value for key, value in extra.items() if value is not None},
    )


def content_of(file: ReleaseFile) -> tuple[str, str]:
    """File name and sha256."""
    return file.key.rpartition("/")[2], file.sha256
