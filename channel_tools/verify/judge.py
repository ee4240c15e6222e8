"""From what was read to a verdict: the package's own word, its policy, and what the caller wants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from channel_tools.verify import package_info
from channel_tools.verify.build_record import COMPILE_COMMANDS
from channel_tools.verify.catalogue import rule_of
from channel_tools.verify.findings import Fault
from channel_tools.verify.package_info import PackageInfo
from channel_tools.verify.policy import (
    FROM_METADATA,
    POLICIES,
    AppliedPolicy,
    Policy,
    merge,
    named_policy,
    policy_of,
)
from channel_tools.verify.policy_rules import PolicyRules
from channel_tools.verify.reading import Reading
from channel_tools.verify.report import Entry, FileReport, Report, Taken
from channel_tools.verify.rules import compare_files, compare_whole, surplus_targets

_DECLARED: Final = "as the package declares"


def judge(
    reading: Reading, want: frozenset[str] | None, policy_file: Path | None, sha256: str | None
) -> Report:
    """Hold a reading against what the package declares, its policy and ``want``.

    :param policy_file: in place of the one in ``policies/``
    :param sha256: of the package, where it is known
    :raises PolicyError: a policy file that cannot be used, or that is for another package
    """
    conda, metadata_faults = package_info.read_conda_info(reading.metadata)
    package = conda or _wheel_info(reading.metadata)
    applied = _applied(conda, package, policy_file)
    policy = applied.policy if applied else Policy()
    expected, whose = _expected(conda, want, policy)
    whole = [*reading.faults, *metadata_faults]
    damaged = any(fault.damage for fault in [*whole, *(f for file in reading.files for f in file.faults)])
    whole += compare_whole(
        _own_targets(reading, expected, policy),
        conda,
        None if whose == _DECLARED else expected,
        damaged=damaged,
        code=policy.code,
    )
    files = list(compare_files(reading.files, expected, whose, policy.extra_targets))
    evidence = None
    if applied:
        rules = PolicyRules(reading, package, policy, expected, files)
        rules.judge(damaged=damaged)
        files, evidence = rules.files, rules.evidence
        whole += rules.faults
    taken: list[Taken] = []
    return Report(
        path=reading.path,
        kind=reading.kind,
        size=reading.size,
        members=reading.members,
        faults=tuple(_unaccepted(None, whole, policy, taken)),
        files=tuple(
            replace(file, faults=tuple(_unaccepted(file.path, file.faults, policy, taken)))
            for file in sorted(files, key=lambda file: file.path)
        ),
        package=package,
        want=None if want is None else tuple(sorted(want)),
        policy=applied,
        evidence=evidence,
        accepted=tuple(taken),
        sha256=sha256,
        inventory=_inventory(reading),
        compile_commands=reading.build_record(package.name, COMPILE_COMMANDS) if package else None,
    )


def _wheel_info(metadata: Mapping[str, bytes]) -> PackageInfo | None:
    for name, raw in metadata.items():
        if package_info.WHEEL_METADATA.fullmatch(name):
            return package_info.read_wheel_info(raw)
    return None


def _applied(
    conda: PackageInfo | None, package: PackageInfo | None, policy_file: Path | None
) -> AppliedPolicy | None:
    """The policy that applies; None for what is only listed."""
    default = policy_of(conda) if conda else Policy()
    file = policy_file or (named_policy(conda.name) if conda else None)
    if file is None:
        return AppliedPolicy(default, (FROM_METADATA,)) if conda and conda.declared else None
    from channel_tools.verify.policy_file import PolicyError, read_policy

    stated = read_policy(file)
    if stated.package and package and package.name and stated.package != package.name:
        raise PolicyError(
            f"the policy is for {stated.package}",
            where=file,
            found=f"the package {package.name}",
            fix="verify that package alone, or leave out `package` in the policy",
        )
    source = f"policies/{file.name}" if file.parent == POLICIES else str(file)
    return AppliedPolicy(merge(default, stated), (FROM_METADATA, source) if conda else (source,))


def _expected(
    conda: PackageInfo | None, want: frozenset[str] | None, policy: Policy
) -> tuple[frozenset[str], str]:
    """The targets that must be there, and who says so."""
    if want is not None:
        return want, "as asked for"
    declared = frozenset(conda.declared if conda else ())
    if policy.targets is not None and frozenset(policy.targets) != declared:
        return frozenset(policy.targets), "as the policy says"
    return declared, _DECLARED


def _own_targets(reading: Reading, expected: frozenset[str], policy: Policy) -> frozenset[str]:
    """The targets of all files, without those that some may hold beyond what is expected."""
    return frozenset(
        target
        for file in reading.files
        for target in (*expected.intersection(file.targets), *_surplus(file, expected, policy))
    )


def _surplus(file: FileReport, expected: frozenset[str], policy: Policy) -> tuple[str, ...]:
    return surplus_targets(file, expected, policy.extra_targets)


def _inventory(reading: Reading) -> dict[str, Entry]:
    digests = {entry["_path"]: entry.get("sha256") for entry in package_info.read_paths(reading.metadata)}
    return {path: Entry(size, digests.get(path)) for path, size in reading.sizes.items()}


def _unaccepted(
    path: str | None, faults: list[Fault] | tuple[Fault, ...], policy: Policy, taken: list[Taken]
) -> Iterator[Fault]:
    """The faults that the policy does not accept; the others go to ``taken``."""
    for fault in faults:
        entry = next((e for e in policy.accepted if e.covers(path or "*", rule_of(fault).id)), None)
        if entry is None or fault.damage:
            yield fault
        else:
            taken.append(Taken(path, fault, entry.reason))
