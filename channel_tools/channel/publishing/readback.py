"""Reading a channel as its consumers do, before they can: which packages does each kind of host get?

For each GPU arch, ROCm release and Python that a release has packages for, each of its packages is solved for
a host that detects that GPU, for one that is declared by the label in front, and for one with a GPU that
nothing is built for, which must be refused. Nothing runs on a GPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from channel_tools import rattler_process
from channel_tools.channel.index.encoding import SubdirIndex, read_index
from channel_tools.channel.layout import SUBDIRS, label_of, label_prefix, subdir_key
from channel_tools.channel.publishing.checks.builds import of_record
from channel_tools.channel.publishing.consumers import UNKNOWN, Case, cases_of, exactly, glibc_of_hosts
from channel_tools.channel.publishing.standins import missing_specs, write_stand_ins
from channel_tools.channel.release import ReleaseFile
from channel_tools.channel.settings import read_settings
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.change import Record
from channel_tools.model.errors import ChannelError


def read_back(
    store: Store, release_files: Sequence[ReleaseFile], dependency_channels: Sequence[str]
) -> list[dict[str, Any]]:
    """Solve for each kind of host that the release has packages for.

    Where the dependency channels cannot be reached, or there are none, stand-ins take the place of what they
    would provide; ``assumed`` of each result names them.

    :returns: for each solve ``name``, ``as``, ``arch``, ``rocm``, ``python``, ``packages`` (keys of this
        channel), ``refused``, ``assumed``
    :raises ChannelError: a host gets nothing, something else than the release has for it, or code for a GPU
        that it does not have
    """
    main = [file for file in release_files if label_of(file.key) is None]
    cases = list(cases_of(main))
    labels = sorted({case.label for case in cases if case.label is not None})
    indexes = {
        key: read_index(store, key)
        for label in (None, *labels)
        for key in (subdir_key(label, subdir) for subdir in SUBDIRS)
    }
    for label in labels:
        if not indexes[subdir_key(label, "linux-64")].exists:
            raise ChannelError(
                "has no label for hosts that the release has packages for",
                where=store.address,
                wanted=f"label/{label}",
                fix="publish the declared builds of amdgpu-arch and rocm-userspace, too",
            )
    with tempfile.TemporaryDirectory(prefix="rocm-channel-readback-") as scratch:
        reader = _Reader(store, Path(scratch), indexes, main, tuple(dependency_channels))
        results = reader.solve(cases)
        chosen = {key for result in results for key in result["packages"]}
        left = [file for file in main if file.key not in chosen]
        return results + reader.solve([case for file in left for case in exactly(file, cases)])


class _Reader:
    """A copy of a channel's indexes, and what solving with it gives."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        indexes: dict[str, SubdirIndex],
        main: Sequence[ReleaseFile],
        dependency_channels: tuple[str, ...],
    ) -> None:
        self.address = store.address
        self.indexes = indexes
        self.main = main
        self.folder = folder / "channel"
        self.others = dependency_channels
        self.assumed: list[str] | None = None
        self._stand_ins = folder / "stand-ins"
        for key, index in indexes.items():
            content = store.read(f"{key}/repodata.json")
            if index.exists and content is not None:
                (self.folder / key).mkdir(parents=True, exist_ok=True)
                (self.folder / key / "repodata.json").write_bytes(content)
        settings = read_settings(store)
        records = [record for index in indexes.values() for record in index.records.values()]
        self.glibc = glibc_of_hosts(settings.toolchain if settings else None, records)
        self.missing = self._missing(records)
        if not self.others or not self.missing:
            self._assume()

    def solve(self, cases: Sequence[Case]) -> list[dict[str, Any]]:
        """:raises ChannelError: at the first one that is not as the release says"""
        answers = self._answers(cases)
        unreachable = next((answer for answer in answers if "unreachable" in answer), None)
        if unreachable and self.assumed is None:
            self._assume()
            return self.solve(cases)
        if unreachable:
            raise self._unreadable(unreachable["unreachable"])
        return [self._judged(case, answer) for case, answer in zip(cases, answers, strict=True)]

    def _answers(self, cases: Sequence[Case]) -> list[dict[str, Any]]:
        solves = [
            {"channels": self._channels(case), "specs": case.specs(), "virtual": case.virtual(self.glibc)}
            for case in cases
        ]
        try:
            answers: list[dict[str, Any]] = (
                rattler_process.call("solves", {"solves": solves}) if solves else []
            )
        except rattler_process.RattlerCallError as error:
            raise self._unreadable(str(error)) from error
        return answers

    def _unreadable(self, found: str) -> ChannelError:
        return ChannelError(
            "the channel's new state cannot be read as a client reads it",
            where=self.address,
            found=found,
            fix="run `rocm-channel audit`",
        )

    def _channels(self, case: Case) -> list[str]:
        own = [self.folder / label_prefix(case.label), self.folder] if case.label else [self.folder]
        return [folder.resolve().as_uri() for folder in own] + list(self.others)

    def _assume(self) -> None:
        """Take stand-ins in the place of the channels that consumers add after this one."""
        self.others = (write_stand_ins(self._stand_ins, self.missing),)
        self.assumed = sorted(self.missing)

    def _missing(self, records: Sequence[Record]) -> dict[str, set[str]]:
        """Specs, by name, of what other channels must have for this release."""
        missing = missing_specs(records, {file.name for file in self.main})
        for python in {file.python for file in self.main if file.python}:
            missing.setdefault("python", set()).add(f"python {python}.*")
        return missing

    def _judged(self, case: Case, answer: dict[str, Any]) -> dict[str, Any]:
        refused = case.way == UNKNOWN
        if ("records" not in answer) != refused:
            raise ChannelError(
                "a host with a GPU that nothing is built for is given a build"
                if refused
                else "the new state of the channel does not give its consumers what the release has for them",
                where=self.address,
                found=f"{case}: " + (self._names(answer) if refused else answer["refused"].strip()),
                wanted="a refusal" if refused else "an environment",
                fix="nothing was published: see that each package depends on amdgpu-arch and rocm-userspace",
            )
        packages = [] if refused else self._own(answer)
        self._check_packages(case, packages)
        return {
            "name": case.name,
            "as": case.way,
            "arch": None if refused else case.arch,
            "rocm": case.rocm,
            "python": case.python,
            "packages": packages,
            "refused": refused,
            "assumed": self.assumed or [],
        }

    def _own(self, answer: dict[str, Any]) -> list[str]:
        """Keys of the packages that come from this channel."""
        root = self.folder.resolve().as_uri() + "/"
        keys = []
        for channel, file_name, _ in answer["records"]:
            if channel.startswith(root):
                prefix = channel.removeprefix(root)
                keys += [
                    f"{prefix}{subdir}/{file_name}"
                    for subdir in SUBDIRS
                    if file_name in self.indexes[f"{prefix}{subdir}"].records
                ][:1]
        return sorted(keys)

    def _names(self, answer: dict[str, Any]) -> str:
        return ", ".join(file_name for _, file_name, _ in answer["records"])

    def _check_packages(self, case: Case, keys: Sequence[str]) -> None:
        for key in keys:
            subdir, _, file_name = key.rpartition("/")
            build = of_record(subdir, file_name, self.indexes[subdir].records[file_name])
            if build.arch not in (None, case.arch):
                raise self._wrong(case, key, f"nothing for {build.arch}")
            if label_of(key) is not None:
                continue
            if case.exact is not None:
                if build.name == case.exact.name and key != case.exact.key:
                    raise self._wrong(case, key, case.exact.key)
                continue
            meant = [file for file in self.main if file.name == build.name and case.fits(file)]
            if meant and all(file.key != key for file in meant):
                newest = max(meant, key=lambda file: _rank(file.version, file.build_number))
                if _rank(build.version, build.number) <= _rank(newest.version, newest.build_number):
                    raise self._wrong(case, key, newest.key)
        if case.way != UNKNOWN and not keys:
            raise self._wrong(case, "no package of this channel", case.name)

    def _wrong(self, case: Case, found: str, wanted: str) -> ChannelError:
        return ChannelError(
            "the new state of the channel gives its consumers another package than the release has for them",
            where=self.address,
            found=f"{case}: {found}",
            wanted=wanted,
            fix="nothing was published: see what the packages of the release depend on",
        )


def _rank(version: str, number: int) -> tuple[Any, int]:
    from rattler import Version

    return Version(version), number
