"""Whether each library that a file needs will be there, in a folder where the loader looks."""

from __future__ import annotations

from collections.abc import Iterator

from channel_tools.verify.findings import Fault
from channel_tools.verify.libraries import library_table, matches, release, spec_name
from channel_tools.verify.linkage import Linkage
from channel_tools.verify.linkage_context import LinkageContext
from channel_tools.verify.run_paths import ROCM_HOST, file_folder, origin_path, search_folder


def judge_libraries(linkage: Linkage, folder: str, context: LinkageContext) -> Iterator[Fault]:
    """The faults of a file in ``folder`` of the prefix; none where the dependencies are not known."""
    if context.depends is None:
        return
    for library in linkage.needed:
        if not matches(library, context.allowed_libraries):
            fault = _judge_library(library, linkage, folder, context, context.depends)
            if fault:
                yield fault


def _judge_library(
    library: str, linkage: Linkage, folder: str, context: LinkageContext, depends: tuple[str, ...]
) -> Fault | None:
    table = library_table()
    if library in context.package_libraries:
        homes = {
            file_folder(f"{home}/{library}", context.root) for home in context.package_libraries[library]
        }
        if homes & _search_folders(linkage, folder):
            return None
        return _unreachable(
            library, sorted(homes)[0], linkage, folder, f"{library} is in the package, but not"
        )
    if matches(library, table.base):
        return None
    names = table.closure(map(spec_name, depends))
    homes_of_rocm = matches(library, table.rocm)
    if names.intersection(table.packages_with(library)):
        if not homes_of_rocm:
            return None
        if ROCM_HOST not in _search_folders(linkage, folder):
            return _unreachable(library, ROCM_HOST, linkage, folder, f"{library} of ROCm is not")
        return _judge_hip_number(library, context)
    return _homeless(library, depends)


def _search_folders(linkage: Linkage, folder: str) -> set[str | None]:
    """Where the loader looks: RPATH counts only where there is no RUNPATH."""
    return {search_folder(entry, folder) for entry in linkage.runpath or linkage.rpath} - {None}


def _unreachable(library: str, home: str, linkage: Linkage, folder: str, what: str) -> Fault:
    return Fault(
        f"{what} in a folder where the loader looks",
        found=":".join(linkage.runpath or linkage.rpath) or "no run path",
        wanted=origin_path(folder, home),
        fix=f"add {origin_path(folder, home)} to the run path",
        rule="runpath",
    )


def _judge_hip_number(library: str, context: LinkageContext) -> Fault | None:
    table = library_table()
    number = library.rpartition(".so.")[2].partition(".")[0]
    wanted = release(context.hip_version or "")
    if not wanted or not matches(library, table.numbered_by_hip) or number == str(wanted[0]):
        return None
    return Fault(
        "it needs the HIP of another ROCm release",
        found=library,
        wanted=f"{library.rpartition('.so.')[0]}.so.{wanted[0]}, for {context.hip_version}",
        fix="build it against the ROCm that the package declares",
        rule="library-release",
    )


def _homeless(library: str, depends: tuple[str, ...]) -> Fault:
    table = library_table()
    owners = table.packages_with(library)
    if owners:
        return Fault(
            f"it needs {library}, and the package does not depend on what has it",
            found=_list_names(depends),
            wanted=f"a dependency on {owners[0]}",
            fix=f"add {owners[0]} to the recipe's requirements",
            rule="library-undeclared",
        )
    unknown = sorted(
        {name for name in map(spec_name, depends) if name not in table.packages and not name.startswith("__")}
    )
    if unknown:
        return Fault(
            f"it needs {library}, which no package known here has",
            found=f"dependencies with unknown libraries: {', '.join(unknown)}",
            wanted=f"{library} in the package or in a known dependency",
            fix=f"if one of them has it, allow {library} in the policy",
            rule="library-unknown-origin",
        )
    return Fault(
        f"it needs {library}, which nothing brings",
        found=_list_names(depends),
        wanted=f"{library} in the package, in a dependency, in ROCm or in the C library",
        fix="add the dependency that has it, or link without it",
        rule="library-missing",
    )


def _list_names(depends: tuple[str, ...]) -> str:
    return ", ".join(sorted(set(map(spec_name, depends)))) or "no dependencies"
