"""Do the records of an environment fit together?"""

from __future__ import annotations

from collections.abc import Iterator

from channel_tools import rattler_process
from channel_tools.build.nodes import spec_name
from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE
from channel_tools.client import prefix_facts
from channel_tools.client.env_check.findings import Finding, listed
from channel_tools.client.env_check.package import Package
from channel_tools.client.env_check.prefix import Prefix
from channel_tools.model.errors import EnvironmentCheckError


def unfinished(prefix: Prefix) -> Iterator[Finding]:
    """An installation of ours that did not end well."""
    if (prefix.path / prefix_facts.UNFINISHED).exists():
        there = {(one.name, one.version, one.build) for one in prefix.records}
        missing = [name for name, *rest in prefix_facts.unfinished(prefix.path) if (name, *rest) not in there]
        yield Finding(
            "unfinished",
            "an installation into this environment was broken off, so it may mix before and after",
            prefix_facts.UNFINISHED,
            found=f"not there yet: {listed(missing)}" if missing else "all packages are recorded",
            wanted="an installation that ended well",
            fix="run the same `rocm-channel install` again, which completes it",
        )


def two_records(prefix: Prefix) -> Iterator[Finding]:
    """Two packages of one name: an install that was broken off, or a record that was copied."""
    for name in dict.fromkeys(one.name for one in prefix.records):
        same = [one for one in prefix.records if one.name == name]
        if len(same) > 1:
            tied = "; what is installed may be for two GPU archs" if name == ARCH_PACKAGE else ""
            yield Finding(
                "two-records",
                f"{len(same)} packages called {name} are recorded as installed{tied}",
                same[0].info,
                found=", ".join(str(one) for one in same),
                wanted="one",
                fix="make the environment anew; to repair it, remove the record whose files are not there "
                "and reinstall the other",
                package=name,
                files=tuple(one.info for one in same),
            )


def missing_dependencies(prefix: Prefix) -> Iterator[Finding]:
    """Packages that records depend on by name, and that no record is of; virtual ones are not meant."""
    if prefix.faults:  # a record that cannot be read may be the very one
        return
    there = {one.name for one in prefix.records}
    wanted: dict[str, list[Package]] = {}
    for one in prefix.records:
        for name in sorted({spec_name(spec) for spec in one.depends}):
            if name not in there and not name.startswith("__"):
                wanted.setdefault(name, []).append(one)
    for name, by in sorted(wanted.items()):
        if name == ARCH_PACKAGE and any(one.archs for one in by):
            continue  # is told as arch-unguarded
        yield Finding(
            "dependency-missing",
            f"{name} is not installed, and other packages depend on it",
            by[0].info,
            found=f"{len(by)} that depend on it: {listed([str(one) for one in by])}",
            wanted=name,
            fix=f"install {name} from the channels of the environment, or make the environment anew",
            package=name,
            files=tuple(one.info for one in by),
        )


def unmet_dependencies(prefix: Prefix) -> Iterator[Finding]:
    """Packages that are not of the version or build that others want, as after ``--no-deps`` or ``--force``.

    Arch and release are told as such.
    """
    by_info = {one.info: one for one in prefix.records}
    unmet: dict[str, list[str]] = {}
    for info, spec, other in _unmet(prefix):
        if by_info[other].name not in (ARCH_PACKAGE, ROCM_PACKAGE):
            unmet.setdefault(other, []).append(f"{spec} of {by_info[info].name}")
    for other, wants in sorted(unmet.items()):
        package = by_info[other]
        yield Finding(
            "dependency-unmet",
            f"{package.name} is not the one that other packages want",
            other,
            found=str(package),
            wanted=listed(wants),
            fix="install what the others want, or make the environment anew",
            package=package.name,
            files=(other,),
        )


def _unmet(prefix: Prefix) -> Iterator[tuple[str, str, str]]:
    """Record, spec and the record that does not fit it; records as paths below the prefix."""
    infos = {str(prefix.path / one.info): one.info for one in prefix.records}
    try:
        answer = rattler_process.call("unmet", {"records": list(infos)})
    except rattler_process.RattlerCallError as error:
        raise EnvironmentCheckError(f"cannot be judged: {error}", where=prefix.path) from error
    for path, spec, other in answer:
        yield infos[path], spec, infos[other]
