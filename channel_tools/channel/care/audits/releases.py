"""Release manifests against the files, and what they record of the verification."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from channel_tools.channel.care.audits.findings import Finding, listed
from channel_tools.channel.care.audits.packages import compared
from channel_tools.channel.care.upkeep import State
from channel_tools.channel.index.records import record_of
from channel_tools.channel.release import Release, ReleaseFile
from channel_tools.channel.stores.content import stored_chunks, write_chunks
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.change import Record
from channel_tools.model.package import read_package


def check_releases(
    store: Store, state: State, records: Mapping[str, Record], say: Callable[[str], None] | None
) -> Iterator[Finding]:
    """Each file of each manifest is there, in the index or yanked, and passed verification.

    :param records: as the package files give them, by key
    :param say: told each file that is verified again; None: verify nothing again
    """
    # Combined labels bring what an earlier release verified.
    verified = {
        (file.key.rpartition("/")[2], file.sha256): file.verify
        for release in state.releases
        for file in release.files
        if file.verify is not None
    }
    again: dict[tuple[str, ...], ReleaseFile] = {}
    for release in state.releases:
        for file in release.files:
            yield from _check_file(state, release, file, records)
            summary = file.verify or verified.get((file.key.rpartition("/")[2], file.sha256))
            if summary is None:
                yield Finding(file.key, "verify", f"has no verification in release {release.id}")
            elif summary.get("verdict") != "pass":
                yield Finding(
                    file.key,
                    "verify",
                    f"did not pass verification in release {release.id}",
                    listed(summary.get("faults") or ()),
                    fix="yank it",
                )
            elif file.key in records and records[file.key]["sha256"] == file.sha256:
                said = (file.sha256, *(summary.get("targets") or ()))
                again.setdefault(said, file.model_copy(update={"verify": summary}))
    if say is not None:
        for file in again.values():
            say(f"verifying {file.key}")
            yield from verified_again(store, file)


def unreleased(state: State) -> list[str]:
    """Keys of packages that no manifest names, where the channel has manifests at all."""
    named = {file.key for release in state.releases for file in release.files}
    there = {f"{key}/{file}" for key, index in state.indexes.items() for file in index.records}
    return sorted(there - named) if named else []


def _check_file(
    state: State, release: Release, file: ReleaseFile, records: Mapping[str, Record]
) -> Iterator[Finding]:
    subdir, _, name = file.key.rpartition("/")
    index = state.indexes.get(subdir)
    known = index.records.get(name) if index else None
    unread = index is not None and not index.exists  # a finding of its own
    if known is None and not unread and not (index and name in index.removed):
        yield Finding(
            file.key,
            "release",
            f"is in release {release.id}, and neither in the index nor yanked",
            fix="`rocm-channel channel repair --reindex` lists it again, if its file is there",
        )
    if known is not None and known.get("sha256") != file.sha256:
        yield Finding(
            file.key,
            "release",
            f"has another record than release {release.id} published",
            f"sha256 {known.get('sha256')}",
            f"sha256 {file.sha256}",
            "restore the file from a backup, then `rocm-channel channel repair --reindex`",
        )
    record = records.get(file.key)
    if record is not None and (record["sha256"], record["size"]) != (file.sha256, file.size):
        yield Finding(
            file.key,
            "release",
            f"is another file than release {release.id} published",
            f"sha256 {record['sha256']}, {record['size']} bytes",
            f"sha256 {file.sha256}, {file.size} bytes",
            "restore it from a backup",
        )


def verified_again(
    store: Store, file: ReleaseFile, record: Record | None = None, toolchain: str | None = None
) -> Iterator[Finding]:
    """Read the binaries once more; the verdict of today's rules may differ from that of its time.

    :param record: what the index says of the file, to be held against what the file says
    :param toolchain: what the channel says that the file was built with, looked at where ``record`` is given
    :raises DamagedFileError: it is no package
    """
    from channel_tools.verify import verify_path

    with tempfile.TemporaryDirectory(prefix="rocm-channel-audit-") as folder:
        copy = Path(folder, file.key.rpartition("/")[2])
        write_chunks(stored_chunks(store, file.key), copy)
        if record is not None:
            yield from compared(file.key, record, record_of(copy))
            found = read_package(copy).toolchain
            if found not in (None, toolchain):
                what = "was built with another toolchain than its channel says"
                yield Finding(file.key, "verify", what, found, toolchain or "none", "yank it")
        report = verify_path(copy)
    before = set((file.verify or {}).get("targets") or ())
    if report.verdict != "pass":
        faults = [line.removeprefix(f"{copy}: ") for line in report.all_faults()]
        yield Finding(file.key, "verify", "does not pass verification now", listed(faults), fix="yank it")
    elif set(report.targets()) != before:
        yield Finding(
            file.key,
            "verify",
            "holds code for other GPUs than its manifest records",
            listed(report.targets()) or "none",
            listed(before) or "none",
            "yank it",
        )
