"""The package files of a release, and what is kept about them beside them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from channel_tools.channel.layout import ROCM_PACKAGE, SUFFIXES
from channel_tools.channel.publishing.checks.builds import of_record
from channel_tools.channel.publishing.placing import Candidate, Place
from channel_tools.channel.release import ReleaseFile
from channel_tools.model.errors import ChannelError, DamagedFileError
from channel_tools.model.package import sha256


def package_files(paths: Iterable[Path]) -> list[Path]:
    """Packages named one by one, and all that lie in a folder, such as a channel that `build` filled.

    A declared build lies in several labels of a channel; it is taken once.

    :raises ChannelError: nothing is there, or two files of one name differ
    """
    found: dict[str, Path] = {}
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        packages = [
            file
            for file in inside
            if file.name.endswith(SUFFIXES) and not file.name.startswith(".") and file.is_file()
        ]
        if not packages:
            raise ChannelError(
                "no package is here", where=path, wanted="a .conda or .tar.bz2 file, or a folder with some"
            )
        for file in packages:
            other = found.setdefault(file.name, file)
            if other != file and sha256(other) != sha256(file):
                raise ChannelError(
                    "has the name of another file of the release, and other content",
                    where=file,
                    found=str(other),
                    fix="name the one that is meant",
                )
    return sorted(found.values(), key=lambda file: file.name)


def check_metadata(one: Candidate, build_record: dict[str, Any] | None) -> None:
    """A package must be what its build record says.

    :raises DamagedFileError: it is something else
    """
    recorded = build_record.get("sha256") if build_record else None
    if recorded is not None and recorded != one.record["sha256"]:
        raise DamagedFileError(
            "is not the file that its build record is of",
            where=one.package.path,
            found=f"sha256 {one.record['sha256']}",
            wanted=f"sha256 {recorded}",
            fix="build it again",
        )


def build_record(package: Path) -> dict[str, Any] | None:
    """The record that `rocm-channel build` wrote, from ``records/`` beside the package or above it.

    :raises DamagedFileError: it cannot be read
    """
    for folder in (package.parent, *package.absolute().parents[:5]):
        path = folder / "records" / f"{package.name}.json"
        if path.is_file():
            try:
                data = json.loads(path.read_text(encoding="utf-8"))
                if isinstance(data, dict):
                    return data
                raise ValueError("no JSON object")
            except (OSError, ValueError) as error:
                raise DamagedFileError("is no build record", where=path, found=str(error)) from error
    return None


def commit_of(records: Iterable[dict[str, Any] | None]) -> str | None:
    """Commits of the recipes that packages were built from, sorted; None where no record names one."""
    commits = sorted({str(record["commit"]) for record in records if record and record.get("commit")})
    return ", ".join(commits) or None


def release_files(
    wanted: Sequence[Place],
    new: Sequence[Candidate],
    verified: dict[str, dict[str, Any]],
    attested: dict[str, str],
) -> tuple[ReleaseFile, ...]:
    """What the manifest says of each place that the release takes.

    :param verified: summaries of verify, by file name
    :param attested: sha256 of attestations, by key
    """
    packages = {one.name: one.package for one in new}
    files = []
    for place in sorted(wanted, key=lambda place: place.key):
        build = of_record(place.subdir, place.name, place.record)
        extra = packages[place.name].extra if place.name in packages else {}
        rocm = extra.get("rocm_version") or (build.version if build.name == ROCM_PACKAGE else None)
        arch = build.arch or extra.get("rocm_arch")
        files.append(
            ReleaseFile(
                key=place.key,
                sha256=place.record["sha256"],
                size=place.record["size"],
                name=build.name,
                version=build.version,
                build=build.build,
                build_number=build.number,
                arch=None if arch is None else str(arch),
                rocm=None if rocm is None else str(rocm),
                python=_python(build.python),
                attestation=attested.get(place.key),
                verify=verified.get(place.name),
            )
        )
    return tuple(files)


def _python(word: str | None) -> str | None:
    """``3.12`` of ``py312``."""
    return None if word is None else f"{word[2]}.{word[3:]}"
