"""Whether a file of a package will load where the package is installed, and who compiled it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from channel_tools.verify.findings import Fault
from channel_tools.verify.libraries import Release, matches, release
from channel_tools.verify.library_rules import judge_libraries
from channel_tools.verify.linkage import Linkage
from channel_tools.verify.linkage_context import LinkageContext, package_libraries
from channel_tools.verify.run_paths import file_folder, judge_run_path
from channel_tools.verify.version_rules import judge_versions

__all__ = ["LinkageContext", "gcc_version", "judge_linkage", "package_libraries"]

_GCC_ENTRY: Final = "GCC: "
_GCC = re.compile(r"GCC: \(.*\) (?P<version>\d+(?:\.\d+)*)(?: .*)?")


def judge_linkage(path: str, linkage: Linkage, context: LinkageContext) -> list[Fault]:
    """Every reason why a file may fail to load, or is not what its package declares.

    :param path: the file in its package
    """
    folder = file_folder(path, context.root)
    return [
        *_judge_compilers(linkage, context),
        *_judge_run_paths(linkage, folder, context),
        *judge_libraries(linkage, folder, context),
        *judge_versions(linkage, context),
        *_judge_memory(linkage),
    ]


def gcc_version(entry: str) -> Release | None:
    """GCC's version in an entry of ``.comment``, ``GCC: (Debian 11.3.0-12) 11.3.0``; () where it has none.

    None for the entry of another compiler or of a linker.
    """
    if not entry.startswith(_GCC_ENTRY):
        return None
    match = _GCC.fullmatch(entry)
    return release(match["version"]) if match else ()


def _judge_compilers(linkage: Linkage, context: LinkageContext) -> Iterator[Fault]:
    if context.gcc_major is None:
        return
    for entry in linkage.compilers:
        version = gcc_version(entry)
        if version is None or any(re.fullmatch(allowed, entry) for allowed in context.allowed_compilers):
            continue
        if not version or version[0] > context.gcc_major:
            gcc = "a newer GCC than the package" if version else "a GCC of unknown version"
            yield Fault(
                f"a part of it was compiled with {gcc}",
                found=entry,
                wanted=f"GCC {context.gcc_major} or older",
                fix="build all of it, static libraries too, with the GCC of the variant; where it is a start "
                "file of the C library, allow this entry in the policy",
                rule="compiler",
            )


def _judge_run_paths(linkage: Linkage, folder: str, context: LinkageContext) -> Iterator[Fault]:
    for kind, entries in (("RPATH", linkage.rpath), ("RUNPATH", linkage.runpath)):
        for entry in entries:
            if not matches(entry, context.allowed_run_paths):
                fault = judge_run_path(entry, kind, folder)
                if fault:
                    yield fault


def _judge_memory(linkage: Linkage) -> Iterator[Fault]:
    if linkage.text_relocations:
        yield Fault(
            "its code must be changed when it is loaded (text relocations)",
            found="DT_TEXTREL",
            wanted="code that is independent of its address",
            fix="compile all of it, static libraries and assembler too, with -fPIC",
            rule="text-relocations",
        )
    if linkage.executable_stack:
        yield Fault(
            "it asks for a stack that can be executed",
            found="program header GNU_STACK with the flag X, or none",
            wanted="GNU_STACK without X",
            fix="give each assembler file a section .note.GNU-stack, or link with -Wl,-z,noexecstack",
            rule="executable-stack",
        )
