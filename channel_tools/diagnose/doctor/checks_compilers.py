"""Checks of a build host: GCC, clang, hipcc, and the libstdc++ that they and ROCm use."""

from __future__ import annotations

import posixpath
import re
from typing import Final

from channel_tools.diagnose.doctor import checks as c
from channel_tools.diagnose.doctor.checks import Context, Outcome, check
from channel_tools.diagnose.doctor.host_root import HostRoot
from channel_tools.diagnose.doctor.rocm_roots import hip_compiler, root_of
from channel_tools.diagnose.doctor.symbol_levels import glibcxx_needed, glibcxx_of
from channel_tools.diagnose.doctor.versions import at_least, parts

_LAUNCHERS: Final = ("ccache", "sccache", "distcc", "icecc", "buildcache")
_GCC_LINE = re.compile(r"\) (\d+\.\d+(?:\.\d+)?)")
_CLANG_LINE = re.compile(r"clang version (\d{1,4})")
_SELECTED = re.compile(r"^Selected GCC installation: (.+)$", re.MULTILINE)
_GCC_FOLDERS: Final = (
    "/usr/lib/gcc/x86_64-linux-gnu",
    "/usr/lib/gcc/x86_64-redhat-linux",
    "/usr/lib64/gcc/x86_64-suse-linux",
)
_INSTALL_GCC: Final = "apt install gcc-11 g++-11, then CC=gcc-11 CXX=g++-11; or build with -c conda-forge"


def _program_of(host: HostRoot, variable: str, default: str) -> tuple[str, str | None]:
    """What a compiler variable names, and the program's path."""
    words = (host.variable(variable) or default).split()
    while len(words) > 1 and posixpath.basename(words[0]) in _LAUNCHERS:
        del words[0]
    name = words[0] if words else default
    return name, host.which(name)


@check("compilers")
def compilers(context: Context) -> Outcome:
    host, versions = context.host, context.data.versions
    found: dict[str, str] = {}
    for variable, default in (("CC", "gcc"), ("CXX", "g++")):
        name, program = _program_of(host, variable, default)
        if program is None:
            return c.warning(f"no program {name}", _INSTALL_GCC)
        output = host.run(program, "--version")
        if output is None:
            return c.skipped(f"{program} does not say its version")
        match = _GCC_LINE.search(output.text)
        if "clang" in output.text.partition("\n")[0] or match is None:
            return c.error(f"{program} is no GCC", f"unset {variable}, or set it to a GCC", wanted="GCC")
        found[program] = match[1]
    text = ", ".join(f"{program} {version}" for program, version in found.items())
    if len(set(found.values())) > 1:
        return c.error(text, "set CC and CXX to the gcc and g++ of one installation")
    version = next(iter(found.values()))
    if not at_least(version, versions.gcc):
        return c.error(text, _INSTALL_GCC)
    if parts(version)[0] != context.data.gcc_major:
        other = host.which(f"g++-{context.data.gcc_major}")
        if other is None:
            return c.warning(f"{text}; no g++-{context.data.gcc_major}", _INSTALL_GCC)
        return c.ok(f"{text}; {other} is there for builds on this host's own tools")
    return c.ok(text)


def _newest_gcc(host: HostRoot) -> str | None:
    """The GCC folder that clang takes by itself: the newest that has ``crtbegin.o``.

    Source: clang/lib/Driver/ToolChains/Gnu.cpp, GCCInstallationDetector (software collections come first).
    """
    collections = sorted(host.glob("/opt/rh", r"(gcc-toolset|devtoolset)-\d+"), key=parts, reverse=True)
    for collection in collections:
        if found := _newest_in(host, [f"{collection}/root/usr/lib/gcc/x86_64-redhat-linux"]):
            return found
    return _newest_in(host, list(_GCC_FOLDERS))


def _newest_in(host: HostRoot, folders: list[str]) -> str | None:
    found = [path for folder in folders for path in host.glob(folder, r"\d[\d.]*")]
    found = [path for path in found if host.is_file(f"{path}/crtbegin.o")]
    return max(found, key=lambda path: parts(posixpath.basename(path)), default=None)


def _headers(host: HostRoot, gcc: str) -> bool:
    """Does the C++ library of a GCC folder have its headers?"""
    version = posixpath.basename(gcc)
    root, found, _ = gcc.partition("/lib")
    return bool(found) and any(
        host.is_file(f"{root}/include/c++/{name}/cstddef") for name in (version, version.partition(".")[0])
    )


@check("clang-gcc")
def clang_gcc(context: Context) -> Outcome:
    host = context.host
    clang = hip_compiler(host, context.rocm)
    if clang is None:
        return c.skipped("no clang++ on this host")
    output = host.run(clang, "-v")
    said = _SELECTED.findall(output.text) if output else []
    gcc = said[-1].strip() if said else _newest_gcc(host)
    if gcc is None:
        return c.error("clang finds no GCC", "apt install g++-11")
    gcc = posixpath.normpath(gcc)
    version = posixpath.basename(gcc)
    major = version.partition(".")[0]
    if not _headers(host, gcc):
        return c.error(
            f"{gcc}, without C++ headers",
            f"apt install libstdc++-{major}-dev, or give clang another GCC with --gcc-install-dir",
            wanted=f"include/c++/{major} beside it",
        )
    _, program = _program_of(host, "CXX", "g++")
    output = host.run(program, "--version") if program else None
    match = _GCC_LINE.search(output.text) if output else None
    if match and parts(match[1])[0] != parts(version)[0]:
        return c.warning(
            f"{gcc}, while {program} is {match[1]}",
            "rocm-channel's builds tie clang to g++; by hand: --gcc-install-dir in HIPFLAGS and "
            "HIPCC_COMPILE_FLAGS_APPEND",
        )
    return c.ok(gcc)


@check("hip-compiler")
def hip_compiler_archs(context: Context) -> Outcome:
    host = context.host
    clang = hip_compiler(host, context.rocm)
    if clang is None:
        return c.warning("no clang++", "install ROCm, or: apt install clang-19 clang-tools-19 lld-19")
    output = host.run(clang, "--version")
    match = _CLANG_LINE.search(output.text) if output else None
    if output is None or match is None:
        return c.skipped(f"{clang} does not say its version")
    version = int(match[1])
    fix = "use the clang++ of ROCm: unset HIP_CLANG_PATH, or set it to the folder of Clang 17 or newer"
    if version < context.data.versions.clang:
        lacks = "gfx942 and --gcc-install-dir" if version < 16 else "gfx942"
        return c.error(f"{clang}: Clang {version}, which does not know {lacks}", fix)
    listed = host.run(clang, "--target=amdgcn", "-print-supported-cpus")
    known = set(re.findall(r"\bgfx[0-9a-f]+\b", listed.text)) if listed else set()
    missing = [arch for arch in context.data.archs if arch not in known]
    if known and missing:
        return c.error(f"{clang}: Clang {version}, which does not know {', '.join(missing)}", fix)
    return c.ok(f"{clang}: Clang {version}")


@check("hipcc")
def hipcc(context: Context) -> Outcome:
    host, rocm = context.host, context.rocm
    program = host.which("hipcc")
    if program is None:
        return c.ok("none on PATH")
    real = host.real(program) or program
    if rocm is None:
        return c.warning(f"{program} ({real}), and no ROCm root", "set ROCM_PATH, or remove that hipcc")
    if real.startswith(rocm.real + "/"):
        return c.ok(f"{program}, of {rocm.real}")
    whose = f"of {root_of(real)}" if root_of(real) else "the distribution's own"
    return c.error(
        f"{program} is {whose}",
        f"PATH={rocm.path}/bin:$PATH, or remove the other one",
        wanted=f"one below {rocm.real}",
    )


@check("libstdcxx")
def libstdcxx(context: Context) -> Outcome:
    host, rocm = context.host, context.rocm
    if rocm is None:
        return c.skipped("no ROCm on this host")
    needed: tuple[int, ...] = ()
    whose = ""
    for name in context.data.rocm_libraries:
        level = glibcxx_needed(host, f"{rocm.path}/lib/{name}")
        if level and level > needed:
            needed, whose = level, name
    if not needed:
        return c.skipped(f"no library of {rocm.path}/lib says what it needs")
    places = [f"{context.prefix}/lib"] if context.prefix else []
    places += ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64"]
    for place in places:
        given = glibcxx_of(host, f"{place}/libstdc++.so.6")
        if given is None:
            continue
        wanted = f"GLIBCXX_{'.'.join(map(str, needed))}, for {whose}"
        text = f"GLIBCXX_{'.'.join(map(str, given))} in {place}"
        if given >= needed:
            return c.ok(text, wanted=wanted)
        in_prefix = context.prefix is not None and place == f"{context.prefix}/lib"
        fix = "conda install 'libstdcxx>=12'" if in_prefix else "install a newer libstdc++6"
        return c.error(text, fix, wanted=wanted)
    return c.skipped("no libstdc++.so.6 was found")
