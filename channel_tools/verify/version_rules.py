"""Whether the symbol versions that a file needs come with the lowest releases that its package depends on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from channel_tools.verify.findings import Fault
from channel_tools.verify.libraries import (
    Release,
    library_table,
    lower_bound,
    matches,
    release,
    spec_name,
    spell,
)
from channel_tools.verify.linkage import Linkage, version_key
from channel_tools.verify.linkage_context import LinkageContext

_GLIBC: Final = "__glibc"
_PRIVATE: Final = "PRIVATE"


def judge_versions(linkage: Linkage, context: LinkageContext) -> Iterator[Fault]:
    """The faults of a file; none where the dependencies are not known."""
    if context.depends is None:
        return
    table = library_table()
    named = set(map(spec_name, context.depends))
    for library, names in linkage.needs.items():
        if library in context.package_libraries or matches(library, context.allowed_libraries):
            continue
        if matches(library, table.base):
            yield from _judge_glibc(names, context.depends)
            continue
        for family_name, family in table.families.items():
            if library != family.library or not table.closure(named).intersection(family.packages):
                continue
            versions = [name.partition("_")[2] for name in names if name.startswith(f"{family_name}_")]
            bound = lower_bound(context.depends, family.packages)
            late = [version for version in versions if _is_later(family.release_of(version), bound)]
            if late:
                newest = max(late, key=version_key)
                wanted = family.release_of(newest)
                yield _version_fault(f"{family_name}_{newest}", library, family.packages[0], wanted, bound)


def _is_later(wanted: Release | None, bound: Release | None) -> bool:
    """GCC's first release of a series is x.1, so ``>=11`` brings all of 11.1."""
    if wanted is None or bound is None:
        return True
    return wanted > (bound if len(bound) > 1 else (*bound, 1))


def _judge_glibc(names: tuple[str, ...], depends: tuple[str, ...]) -> Iterator[Fault]:
    table = library_table()
    bound = lower_bound(depends, (_GLIBC,))
    versions = [name.partition("_")[2] for name in names if name.startswith("GLIBC_")]
    if _PRIVATE in versions:
        yield Fault(
            "it uses inner parts of the C library, which fit one release only",
            found="GLIBC_PRIVATE",
            wanted="public versions",
            fix="find what links to symbols such as __libc_*, and build it anew",
            rule="symbol-version",
        )
    wanted = {version: table.glibc_marks.get(version) or release(version) for version in versions}
    newest = max(wanted, key=lambda version: wanted[version], default="")
    if newest and wanted[newest] > (bound or table.glibc):
        yield _version_fault(f"GLIBC_{newest}", "libc.so.6", _GLIBC, wanted[newest], bound)


def _version_fault(
    version: str, library: str, package: str, wanted: Release | None, bound: Release | None
) -> Fault:
    given = f"{package} >={spell(bound)}" if bound else f"no lower bound of {package}"
    need = f"{package} >={spell(wanted)}" if wanted else "a release that is not in the table yet"
    return Fault(
        f"it needs {version} of {library}, which the dependencies do not promise",
        found=given,
        wanted=need,
        fix=f"add {need} to the recipe's requirements, or build with an older toolchain"
        if wanted
        else "add the version to libraries.toml",
        rule="symbol-version",
    )
