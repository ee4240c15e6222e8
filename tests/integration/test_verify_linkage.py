"""Linkage of real binaries: agreement with readelf and llvm-readelf, the loader and the compilers."""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from channel_tools.verify.elf import EM_AMDGPU, is_elf64, read_elf
from channel_tools.verify.evidence import judge_build_evidence
from channel_tools.verify.linkage import Linkage, read_linkage
from channel_tools.verify.linkage_rules import LinkageContext, gcc_version, judge_linkage, package_libraries
from channel_tools.verify.source import DamageError, Source
from tests.integration.clang_hip import run
from tests.nightly.mutations import damaged as mutate

READERS = ("readelf", "llvm-readelf-19")
# Debian 13 has GCC 11 in a folder of its own.
GCC_11_FOLDER = Path(shutil.which("g++-11") or "/usr/bin/g++-11").parents[1] / "lib/gcc/x86_64-linux-gnu/11"
LIBRARY = """
#include <string>
extern "C" int exported(int x) { return x + 1; }
__attribute__((weak)) std::string text(int x) { return std::to_string(x); }
__attribute__((visibility("protected"))) int guarded = 1;
__attribute__((visibility("hidden"))) int hidden = 2;
template <class T> struct Unique { static inline T value = 3; };
int unique() { return Unique<int>::value + hidden; }
"""
PROGRAM = 'extern "C" int exported(int); int main() { return exported(-1); }'
LARGE = ("-fno-pic", "-mcmodel=large", "-fno-plt")


@pytest.fixture(scope="module")
def newer_gcc() -> str:
    """A g++ newer than 11."""
    for name in ("g++-12", "g++-13", "g++-14", "g++"):
        if shutil.which(name) and int(run(name, "-dumpversion").split(".")[0]) > 11:
            return name
    pytest.skip("there is no g++ newer than 11")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "library.cpp").write_text(LIBRARY)
    (tmp_path / "program.cpp").write_text(PROGRAM)
    return tmp_path


def read(path: Path, name: str = "") -> Linkage:
    source = Source.of_bytes(name or str(path), path.read_bytes())
    return read_linkage(source, read_elf(source))


def seen_by(reader: str, path: Path, *, compilers: bool = True) -> Linkage:
    """The same facts out of a reader's text. Flags are left out: no reader prints sections in full lines."""
    text = run(reader, "-W", "-d", "-l", "-V", "--dyn-syms", *(["-p", ".comment"] if compilers else []), path)

    def entries(tag: str) -> list[str]:
        return re.findall(rf"\({tag}\)\s+[^\[\n]*\[(.*)\]$", text, re.MULTILINE)

    needs: dict[str, set[str]] = {}
    library = ""
    for line in text.splitlines():
        if match := re.search(r"Version: 1  File: (\S+)  Cnt: \d+", line):
            library = match[1]
        elif match := re.search(r"Name: (\S+)  Flags: (\S+)  Version: \d+", line):
            if library and match[2] != "WEAK":
                needs.setdefault(library, set()).add(match[1])
        elif "Version definition" in line:
            library = ""
    symbol = re.compile(
        r"\s+\d+: [0-9a-f]+\s+\S+\s+\S+\s+(GLOBAL|WEAK|UNIQUE|<OS specific>: 10)"
        r"\s+(DEFAULT|PROTECTED)\s+(\S+)\s+(\S+)"
    )
    names = {
        match[4].partition("@")[0]
        for match in map(symbol.match, text.splitlines())
        if match and match[3] != "UND"
    }
    stack = re.search(r"GNU_STACK\s+(?:0x[0-9a-f]+\s+){5}([RWE ]{3})", text)
    digest = hashlib.sha256("".join(f"{name}\n" for name in sorted(names)).encode()).hexdigest()
    rpath, runpath = entries("RPATH"), entries("RUNPATH")
    return Linkage(
        needed=tuple(entries("NEEDED")),
        soname=next(iter(entries("SONAME")), None),
        rpath=tuple(rpath[0].split(":")) if rpath else (),
        runpath=tuple(runpath[0].split(":")) if runpath else (),
        needs={name: tuple(sorted(versions)) for name, versions in sorted(needs.items())},
        compilers=tuple(re.findall(r"^\s*\[ *[0-9a-f]+\]\s+(\S.*)$", text, re.MULTILINE))
        if compilers
        else (),
        text_relocations="(TEXTREL)" in text or bool(re.search(r"\(FLAGS\).*TEXTREL", text)),
        executable_stack="E" in stack[1] if stack else "PROGRAM HEADERS" in text.upper() and "LOAD" in text,
        symbols=len(names),
        symbol_digest=digest if names else "",
    )


def agree(path: Path, *, compilers: bool = True) -> Linkage:
    """What both readers say, too."""
    linkage = read(path)
    mine = replace(linkage, flags=(), compilers=tuple(sorted(linkage.compilers)) if compilers else ())
    if not mine.symbols:
        mine = replace(mine, symbol_digest="")
    for reader in READERS:
        seen = seen_by(reader, path, compilers=compilers)
        assert replace(seen, compilers=tuple(sorted(set(seen.compilers)))) == mine, f"{reader} {path}"
    return linkage


def compile_library(folder: Path, compiler: str, *options: str, output: str = "library.so") -> Path:
    shared = () if "-c" in options else ("-shared",)
    run(compiler, "-fPIC", folder / "library.cpp", *shared, *options, "-o", folder / output)
    return folder / output


@pytest.mark.parametrize(
    ("compiler", "options", "expected"),
    [
        (
            "g++-11",
            ("-Wl,-soname,libx.so.1", "-Wl,--enable-new-dtags,-rpath,/opt/rocm/lib"),
            {"runpath": ("/opt/rocm/lib",)},
        ),
        ("g++-11", ("-Wl,--disable-new-dtags,-rpath,$ORIGIN:/b",), {"rpath": ("$ORIGIN", "/b")}),
        ("g++-11", ("-Wl,-z,execstack",), {"executable_stack": True}),
        ("g++-11", (*LARGE, "-Wl,-z,notext"), {"text_relocations": True}),
        ("g++-11", ("-Wl,--hash-style=gnu",), {}),
        ("g++-11", ("-Wl,--hash-style=sysv",), {}),
        ("g++-11", ("-Wl,--hash-style=both", "-Wl,-z,now", "-O2"), {}),
        ("g++-11", ("-nostdlib", "-Wl,--build-id=none"), {"needed": ()}),
        ("g++-11", ("-static-libstdc++", "-static-libgcc"), {}),
        ("clang++-19", ("-fuse-ld=lld", "-Wl,--pack-dyn-relocs=relr"), {}),
        (
            "clang++-19",
            ("-fuse-ld=lld", "-Wl,-z,execstack", "-Wl,--hash-style=sysv"),
            {"executable_stack": True},
        ),
        ("clang++-19", (f"--gcc-install-dir={GCC_11_FOLDER}",), {}),
    ],
)
def test_what_compilers_and_linkers_make(
    sources: Path, compiler: str, options: tuple[str, ...], expected: dict[str, object]
) -> None:
    linkage = agree(compile_library(sources, compiler, *options))
    assert {key: getattr(linkage, key) for key in expected} == expected
    assert linkage.symbols > 4


def test_stripping_what_the_loader_does_not_need_leaves_the_facts(sources: Path) -> None:
    whole = compile_library(sources, "g++-11", "-Wl,-soname,libx.so.1")
    linkage = agree(whole)
    assert linkage.compilers == ("GCC: (Debian 11.3.0-12) 11.3.0",) or gcc_version(linkage.compilers[0])[
        :1
    ] == (11,)
    bare = sources / "bare.so"
    run("llvm-objcopy-19", "--strip-sections", whole, bare)
    assert read(bare) == replace(linkage, compilers=())
    run("llvm-objcopy-19", "--remove-section=.comment", whole, bare)
    assert agree(bare, compilers=False) == replace(linkage, compilers=())
    run("objcopy", "--only-keep-debug", whole, bare)
    assert read(bare) == Linkage(compilers=linkage.compilers)


def test_programs_and_objects(sources: Path) -> None:
    library = compile_library(sources, "g++-11", "-Wl,-soname,libx.so")
    for name, options in {"pie": ("-pie",), "fixed": ("-no-pie",)}.items():
        program = sources / name
        run("g++-11", sources / "program.cpp", library, *options, "-o", program)
        assert "libx.so" in agree(program).needed
    static = sources / "static"
    run("g++-11", "-static", sources / "program.cpp", sources / "library.cpp", "-o", static)
    assert read(static).needed == ()
    item = compile_library(sources, "g++-11", "-c", "-frecord-gcc-switches", "-O3", "-O2", output="library.o")
    assert "-O3 -O2" in read(item).flags[0]


def test_a_part_of_a_newer_gcc_is_found_and_can_be_allowed(sources: Path, newer_gcc: str) -> None:
    compile_library(sources, newer_gcc, "-c", output="new.o")
    mixed = sources / "mixed.so"
    run(
        "g++-11",
        "-shared",
        "-fPIC",
        "-x",
        "c++",
        sources / "program.cpp",
        "-x",
        "none",
        sources / "new.o",
        "-o",
        mixed,
    )
    linkage = agree(mixed)
    newer = [entry for entry in linkage.compilers if (gcc_version(entry) or (0,))[0] > 11]
    (fault,) = judge_linkage("lib/mixed.so", linkage, LinkageContext(gcc_major=11))
    assert [fault.found] == newer
    allowed = LinkageContext(gcc_major=11, allowed_compilers=tuple(map(re.escape, newer)))
    assert not judge_linkage("lib/mixed.so", linkage, allowed)
    alone = agree(compile_library(sources, "g++-11", output="old.so"))
    assert not judge_linkage("lib/old.so", alone, LinkageContext(gcc_major=11)), (
        "start files carry no newer entry"
    )


def test_versions_are_those_of_the_libraries_of_this_host(sources: Path) -> None:
    """What g++-11 makes needs no more than libstdc++ of GCC 11 and this glibc."""
    linkage = agree(compile_library(sources, "g++-11"))
    glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[-1]
    depends = ("libgcc >=11", "libstdcxx >=11", f"__glibc >={glibc},<3.0.a0")
    assert not judge_linkage("lib/library.so", linkage, LinkageContext(depends=depends))
    depends = ("libgcc >=4", "libstdcxx >=4.4", "__glibc >=2.2")
    faults = judge_linkage("lib/library.so", linkage, LinkageContext(depends=depends))
    assert {fault.rule for fault in faults} == {"symbol-version"}


def test_the_rule_for_run_paths_is_the_loaders(sources: Path) -> None:
    """A program starts exactly where no fault is found."""
    (sources / "lib").mkdir()
    (sources / "bin").mkdir()
    library = compile_library(sources, "g++-11", "-Wl,-soname,libx.so", output="lib/libx.so")
    libraries = package_libraries({"lib/libx.so": read(library)})
    program = sources / "bin" / "x"
    for folder, starts in {
        "$ORIGIN/../lib": True,
        "${ORIGIN}/../lib/.": True,
        "$ORIGIN": False,
        "": False,
    }.items():
        option = [f"-Wl,-rpath,{folder}"] if folder else []
        run("g++-11", sources / "program.cpp", library, *option, "-o", program)
        done = subprocess.run([program], cwd="/", capture_output=True, text=True, check=False, env={})
        assert (done.returncode == 0) is starts, done.stderr
        context = LinkageContext(depends=("libstdcxx >=11", "__glibc >=2.36"), package_libraries=libraries)
        rules = [fault.rule for fault in judge_linkage("bin/x", read(program), context)]
        assert rules == ([] if starts else ["runpath"])


def test_recorded_options_say_what_took_effect(sources: Path) -> None:
    gcc = compile_library(sources, "g++-11", "-frecord-gcc-switches", "-O3", "-O2", output="gcc.so")
    (sources / "options.rsp").write_text("-Ofast -DX='a b'")
    clang = compile_library(
        sources,
        "clang++-19",
        "-frecord-command-line",
        "-O1",
        f"@{sources / 'options.rsp'}",
        "-w",
        output="clang.so",
    )
    recorded = {"gcc.so": read(gcc).flags, "clang.so": read(clang).flags, "none.so": ()}
    evidence = judge_build_evidence(
        "x", build_json=None, compile_commands=None, recorded=recorded, forbidden=("-O3",)
    )
    assert evidence.source == "flags recorded in 2 of 3 files (2 units)"
    assert evidence.levels == {"-O2": 1, "-Ofast": 1}
    assert [(path, fault.rule) for path, fault in evidence.faults] == [("clang.so", "optimisation")]


@pytest.fixture(scope="module")
def canary(repo_root: Path, sdk_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The canary, installed, with compilers that record their options."""
    folder = tmp_path_factory.mktemp("canary")
    hip = next(
        (p for p in (sdk_root / "lib/llvm/bin/clang++", sdk_root / "llvm/bin/clang++") if p.exists()), None
    )
    gcc_folder = Path(run("g++-11", "-print-libgcc-file-name").strip()).parent
    cmake = Path(sys.executable).with_name("cmake")
    words = [
        *("-S", repo_root / "recipes/rocm-canary/src", "-B", folder / "build", "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={Path(sys.executable).with_name('ninja')}",
        *("-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_HIP_ARCHITECTURES=gfx942", "-DCMAKE_CXX_COMPILER=g++-11"),
        f"-DCMAKE_HIP_COMPILER={hip or 'clang++-19'}",
        f"-DCMAKE_HIP_COMPILER_ROCM_ROOT={sdk_root}",
        f"-DCMAKE_HIP_FLAGS=--rocm-path={sdk_root} --gcc-install-dir={gcc_folder} -frecord-command-line",
        "-DCMAKE_CXX_FLAGS=-frecord-gcc-switches",
        f"-DCMAKE_SHARED_LINKER_FLAGS=-Wl,-rpath-link,{sdk_root}/lib",
        *("-DROCM_CANARY_ROCM_VERSION=7.2", "-DROCM_CANARY_HIP_SDK=debian", "-DROCM_CANARY_TOOLCHAIN=host"),
        *(
            "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
            "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
            "-DCMAKE_INSTALL_LIBDIR=lib",
        ),
        f"-DCMAKE_INSTALL_PREFIX={folder / 'prefix'}",
    ]
    run(cmake, *words)
    run(cmake, "--build", folder / "build", "--target", "install")
    return folder


def test_the_canary(canary: Path) -> None:
    prefix = canary / "prefix"
    linkages = {name: agree(prefix / name) for name in ("lib/librocm_canary.so", "bin/rocm-canary")}
    commands = (canary / "build" / "compile_commands.json").read_bytes()
    evidence = judge_build_evidence(
        "rocm-canary",
        build_json=None,
        compile_commands=commands,
        recorded={name: linkage.flags for name, linkage in linkages.items()},
        targets=frozenset({"gfx942"}),
        forbidden=("-O3",),
    )
    assert not evidence.faults
    assert re.fullmatch(
        r"flags recorded in 2 of 2 files \(\d+ units\) and compile_commands.json \(\d+ units\)",
        evidence.source,
    )
    assert set(evidence.levels) == {"-O2"}
    other = judge_build_evidence(
        "rocm-canary",
        build_json=None,
        compile_commands=commands,
        recorded={name: linkage.flags for name, linkage in linkages.items()},
        targets=frozenset({"gfx90a"}),
    )
    assert [(path, fault.rule) for path, fault in other.faults] == [
        ("lib/librocm_canary.so", "offload-arch"),
        (None, "offload-arch"),
    ]
    glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[-1]
    context = LinkageContext(
        gcc_major=11,
        depends=("libgcc >=11", "libstdcxx >=11", f"__glibc >={glibc}", "rocm-userspace 7.2.*"),
        package_libraries=package_libraries(dict(linkages)),
        hip_version="5.7.1",
    )
    for name, linkage in linkages.items():
        assert not judge_linkage(name, linkage, context), name
    library = linkages["lib/librocm_canary.so"]
    (fault,) = judge_linkage("lib/librocm_canary.so", library, replace(context, hip_version="7.2"))
    assert fault.rule == "library-release"


SYSTEM_LIBRARIES = (
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libc.so.6",
    "libm.so.6",
    "libpython3*.so.1.0",
    "libz.so.1",
    "lib[a-e]*.so.[0-9]",
)


def system_files() -> list[Path]:
    """Libraries and programs that nobody here made: at most 40, none above 60 MB."""
    folders = [Path("/usr/lib/x86_64-linux-gnu"), Path("/lib64")]
    found = {
        path.resolve()
        for folder in folders
        for name in SYSTEM_LIBRARIES
        for path in sorted(folder.glob(name))
    }
    programs = (shutil.which(name) for name in ("clang-19", "ld.lld-19", "g++-11", "readelf", "bash"))
    found |= {Path(program).resolve() for program in programs if program}
    found |= {path.resolve() for path in sorted(Path("/usr/lib/llvm-19/lib").glob("*.so*"))}
    files = [
        path for path in sorted(found) if is_elf64(path.read_bytes()[:16]) and path.stat().st_size < 60 << 20
    ]
    return files[:40]


def test_system_libraries() -> None:
    files = system_files()
    assert len(files) >= 10
    for path in files:
        linkage = read(path)
        agree(path, compilers=bool(linkage.compilers))
        assert read_elf(Source.of_bytes("x", path.read_bytes())).machine != EM_AMDGPU


def test_damaged_real_libraries_raise_nothing_else(sources: Path) -> None:
    data = compile_library(sources, "g++-11", "-O2", "-frecord-gcc-switches").read_bytes()
    dice = random.Random(5)
    refused = 0
    for _ in range(1000):
        source = Source.of_bytes("lib/x.so", mutate(data, dice))
        try:
            judge_linkage(
                "lib/x.so", read_linkage(source, read_elf(source)), LinkageContext(gcc_major=11, depends=())
            )
        except DamageError:
            refused += 1
    assert refused > 200
