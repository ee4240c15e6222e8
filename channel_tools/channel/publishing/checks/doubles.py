"""One build for each name, version, build number and variant, whatever engine or suffix made it."""

from __future__ import annotations

from collections.abc import Iterator

from channel_tools.channel.publishing.checks.builds import Build, in_labels, in_main, yanked
from channel_tools.channel.publishing.checks.reasons import Candidate, Reason


def second_build(candidate: Candidate) -> Iterator[Reason]:
    """A variant that the channel, or the release itself, has under another hash or suffix.

    What is yanked counts: its file is still there, and may come back.
    """
    present = [
        *in_main(candidate.present),
        *(build for _, build in in_labels(candidate.present)),
        *yanked(candidate.present),
    ]
    first: dict[tuple[object, ...], Build] = {}
    for build in present:
        first.setdefault(_identity(build), build)
    for build in candidate.builds:
        other = first.setdefault(_identity(build), build)
        if other is build or other.file == build.file:
            continue
        same = other.build == build.build
        yield Reason(
            "second-build",
            build.where,
            f"is a second build of a variant that {'the release' if other.package else 'the channel'} has",
            found=other.where,
            wanted="one file a build" if same else "one hash for one version, build number and variant",
            fix="leave one of the two out" if same or other.package else "raise the build number",
        )


def only_case(candidate: Candidate) -> Iterator[Reason]:
    """A file name that differs from another one in capital letters only: some file systems mix the two up."""
    first: dict[tuple[str, str], str] = {}
    for key, index in candidate.present.items():
        for file in (*index.records, *index.removed):
            first.setdefault((index.subdir, file.lower()), f"{key}/{file}")
    for build in candidate.builds:
        other = first.setdefault((build.subdir, build.file.lower()), build.where)
        if other.rpartition("/")[2] != build.file:
            yield Reason(
                "case",
                build.where,
                "has the name of another file but for capital letters",
                found=other,
                wanted="names that every file system and client keeps apart",
                fix="spell version and build string as the other one does, and raise the build number",
            )


def one_version(candidate: Candidate) -> Iterator[Reason]:
    """One version and build number of each name and variant in a release.

    Packages that are not of one ROCm release may have a version for each of them (Triton has); then there
    is one build number a version.
    """
    seen: dict[tuple[object, ...], Build] = {}
    for build in candidate.builds:
        by_release = build.rocm is not None and not build.selects
        key = (build.name, build.variant, build.subdir, None if by_release else build.version)
        first = seen.setdefault(key, build)
        if (first.version, first.number) != (build.version, build.number):
            yield Reason(
                "one-version",
                build.where,
                "is another version or build number of a variant that the release has",
                found=f"{first.version} build {first.number} and {build.version} build {build.number}",
                wanted="one of them",
                fix="publish the older one first, in a release of its own, or leave it out",
            )


def _identity(build: Build) -> tuple[object, ...]:
    return (build.name, build.version, build.number, build.variant, build.subdir)
