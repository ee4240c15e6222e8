"""Linkage of ELF files that are laid out byte by byte, whole and damaged, and the rules for it."""

from __future__ import annotations

import hashlib
import json
import random
import re
import struct
import time
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from channel_tools.build.host_tools import GCC_OF_LIBSTDCXX
from channel_tools.verify import elf_symbols
from channel_tools.verify.elf import read_elf
from channel_tools.verify.findings import Fault
from channel_tools.verify.libraries import library_table, lower_bound, matches, release, spec_name
from channel_tools.verify.linkage import Linkage, read_linkage
from channel_tools.verify.linkage_rules import LinkageContext, gcc_version, judge_linkage, package_libraries
from channel_tools.verify.run_paths import judge_run_path, origin_path, search_folder
from channel_tools.verify.source import DamageError, Source
from tests.nightly.mutations import damaged as mutate
from tests.unit.elf_files import ADDRESS, EXECUTABLE, Library, build, build_with_places
from tests.unit.test_verify_support import DATA

WHOLE = Library(
    needed=("libc.so.6", "libstdc++.so.6"),
    soname="libx.so.1",
    runpath="$ORIGIN/:$ORIGIN/rocm-host",
    needs={"libc.so.6": ("GLIBC_2.34", "GLIBC_2.2.5"), "libstdc++.so.6": ("GLIBCXX_3.4.9", "GLIBCXX_3.4.21")},
    exports=("run", "stop", "_ZN1xC1Ev"),
    comment=("GCC: (Debian 11.3.0-12) 11.3.0", "Debian clang version 19.1.7 (3~deb12u1)"),
    command_lines=("GNU C++17 11.3.0 -O2",),
)


def read(data: bytes, name: str = "lib/libx.so") -> Linkage:
    source = Source.of_bytes(name, data)
    return read_linkage(source, read_elf(source))


def digest(*names: str) -> str:
    return hashlib.sha256("".join(f"{name}\n" for name in sorted(names)).encode()).hexdigest()


def test_every_fact_is_read() -> None:
    linkage = read(build(WHOLE))
    assert linkage == Linkage(
        needed=("libc.so.6", "libstdc++.so.6"),
        soname="libx.so.1",
        runpath=("$ORIGIN/", "$ORIGIN/rocm-host"),
        needs={
            "libc.so.6": ("GLIBC_2.2.5", "GLIBC_2.34"),
            "libstdc++.so.6": ("GLIBCXX_3.4.21", "GLIBCXX_3.4.9"),
        },
        compilers=("GCC: (Debian 11.3.0-12) 11.3.0", "Debian clang version 19.1.7 (3~deb12u1)"),
        flags=("GNU C++17 11.3.0 -O2",),
        symbols=3,
        symbol_digest=digest("run", "stop", "_ZN1xC1Ev"),
    )
    assert linkage.versions == {"GLIBC": ("2.2.5", "2.34"), "GLIBCXX": ("3.4.9", "3.4.21")}


def test_json_gives_the_same_linkage_back() -> None:
    linkage = read(build(WHOLE))
    data = json.loads(json.dumps(linkage.to_json()))
    assert data["versions"]["GLIBC"] == ["2.2.5", "2.34"]
    assert Linkage.from_json(data) == linkage


def test_a_file_without_section_table_tells_all_but_its_compilers() -> None:
    bare = Library(**{**vars(WHOLE), "section_table": False})
    linkage = read(build(bare))
    assert linkage.compilers == linkage.flags == ()
    assert linkage.needed == WHOLE.needed
    assert linkage.symbols == 3


def test_objects_and_static_programs_have_no_linkage() -> None:
    for kind in (1, 2, 3):
        linkage = read(build(Library(dynamic=False, kind=kind, comment=("GCC: (GNU) 9.4.0",))))
        assert linkage == Linkage(compilers=("GCC: (GNU) 9.4.0",))


@pytest.mark.parametrize("kind", ["gnu", "sysv"])
@pytest.mark.parametrize("exports", [(), ("a",), ("b", "a", "c" * 2000)])
def test_symbols_by_either_hash_table(kind: str, exports: tuple[str, ...]) -> None:
    linkage = read(build(Library(hash=kind, exports=exports)))
    assert linkage.symbols == len(exports)
    assert linkage.symbol_digest == ("" if kind == "gnu" and not exports else digest(*exports))


def test_without_a_hash_table_nothing_can_be_looked_up() -> None:
    linkage = read(build(Library(hash="", exports=("a",))))
    assert (linkage.symbols, linkage.symbol_digest) == (0, "")


def test_too_many_symbols_are_counted_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elf_symbols, "MAX_SYMBOLS", 3)
    linkage = read(build(Library(exports=("a", "b", "c"))))
    assert (linkage.symbols, linkage.symbol_digest) == (5, "")


def test_a_weak_version_is_not_needed() -> None:
    library = Library(needs={"libc.so.6": ("GLIBC_2.4", "GLIBC_ABI_X")}, weak=("GLIBC_ABI_X",))
    assert read(build(library)).needs == {"libc.so.6": ("GLIBC_2.4",)}


@pytest.mark.parametrize(
    ("stack", "machine", "executable"),
    [(6, 62, False), (EXECUTABLE, 62, True), (None, 62, True), (None, 183, False)],
)
def test_stack(stack: int | None, machine: int, executable: bool) -> None:
    assert read(build(Library(stack=stack, machine=machine))).executable_stack is executable


@pytest.mark.parametrize(("entry", "found"), [((22, 0), True), ((30, 4), True), ((30, 8), False)])
def test_text_relocations(entry: tuple[int, int], found: bool) -> None:
    assert read(build(Library(entries=(entry,)))).text_relocations is found


def test_rpath_and_runpath_are_kept_apart() -> None:
    linkage = read(build(Library(rpath="/a:/b", runpath="$ORIGIN")))
    assert (linkage.rpath, linkage.runpath) == (("/a", "/b"), ("$ORIGIN",))


def test_names_that_no_terminal_should_see_are_escaped() -> None:
    linkage = read(build(Library(needed=("lib\x1b[31m.so",), runpath="/\x07")))
    assert linkage.needed == ("lib\\x1b[31m.so",)
    assert linkage.runpath == ("/\\x07",)


def patched(table: str, offset: int, layout: str, *values: int) -> bytes:
    data, places = build_with_places(WHOLE)
    changed = bytearray(data)
    struct.pack_into(layout, changed, places[table] + offset, *values)
    return bytes(changed)


def entry_of(tag: int, value: int) -> bytes:
    """WHOLE with another value of a dynamic entry."""
    data, places = build_with_places(WHOLE)
    changed = bytearray(data)
    for place in range(places["dynamic"], len(data), 16):
        if struct.unpack_from("<Q", data, place)[0] == tag:
            struct.pack_into("<Q", changed, place + 8, value)
            return bytes(changed)
    raise LookupError(tag)


def header(offset: int, layout: str, *values: int) -> bytes:
    changed = bytearray(build(WHOLE))
    struct.pack_into(layout, changed, offset, *values)
    return bytes(changed)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (header(0x36, "<H", 32), "program header table"),
        (header(0x38, "<H", 0xFFFF), "program header table"),
        (header(0x20, "<Q", 1 << 40), "leaves the file"),
        (header(64 + 56 + 8, "<Q", 0x40), "contradict each other"),
        (header(64 + 56 + 16, "<Q", 0x999999), "lies nowhere"),
        (header(64 + 56 + 32, "<Q", 1 << 50), "leaves its segment"),
        (header(64 + 56 + 32, "<Q", 32), "has no end"),
        (header(64 + 112, "<I", 2), "dynamic section"),
        (header(64 + 8, "<Q", 1 << 60), "leaves the file"),
        (entry_of(5, 0), "lies nowhere"),
        (entry_of(10, 1 << 62), "leaves its segment"),
        (entry_of(10, 3), "name of a dynamic symbol"),
        (entry_of(1, 1 << 63), "has no name"),
        (entry_of(29, 1 << 20), "run path has no name"),
        (entry_of(6, ADDRESS + (1 << 30)), "lies nowhere"),
        (entry_of(11, 16), "dynamic symbol table"),
        (entry_of(0x6FFFFEF5, 5), "GNU hash table lies nowhere"),
        (entry_of(0x6FFFFFFE, (1 << 64) - 1), "lies nowhere"),
        (entry_of(0x6FFFFFFF, 3), "table of needed versions"),
        (entry_of(0x6FFFFFFF, 1), "table of needed versions"),
        (entry_of(0x6FFFFFFF, 0), "table of needed versions"),
        (patched("verneed", 0, "<H", 2), "table of needed versions"),
        (patched("verneed", 2, "<H", 9), "table of needed versions"),
        (patched("verneed", 8, "<I", 1 << 31), "cut off"),
        (patched("verneed", 16, "<I", 0), "differ"),
        (patched("verneed", 24, "<I", 1 << 31), "has no name"),
        (patched("hash", 0, "<I", 1 << 31), "GNU hash table"),
        (patched("hash", 8, "<I", 1 << 31), "GNU hash table"),
        (patched("hash", 24, "<I", 1), "GNU hash table"),
        (patched("hash", 24, "<I", 1 << 30), "GNU hash table"),
        (patched("symbols", 48, "<I", 1 << 31), "name of a dynamic symbol"),
    ],
)
def test_damage_is_told_with_what_was_found_and_expected(data: bytes, what: str) -> None:
    with pytest.raises(DamageError) as caught:
        read(data)
    assert what in caught.value.what
    assert caught.value.found and caught.value.wanted
    assert caught.value.where == "lib/libx.so"


def test_names_that_overlap_far_beyond_their_table_are_refused() -> None:
    """A table of 5 MB with one end: each offset in it is a name of megabytes."""
    long = "x" * (5 << 20)
    data, places = build_with_places(Library(exports=tuple(["a"] * 64), soname=long, imports=()))
    changed = bytearray(data)
    for index in range(1, 65):
        at = len(long) - 900_000 + index
        struct.pack_into("<I", changed, places["symbols"] + 24 * index, at)
    with pytest.raises(DamageError):
        read(bytes(changed))


def test_2000_damaged_files_raise_nothing_else() -> None:
    """Real libraries and one made here, changed all over and in the tables of their linkage."""
    whole, places = build_with_places(WHOLE)
    samples = [path.read_bytes() for path in sorted(DATA.glob("*.so"))]
    assert samples
    dice = random.Random(3)
    started = time.monotonic()
    refused = changed_facts = 0
    for number in range(2000):
        data = whole if number % 3 else dice.choice(samples)
        if number % 2 and data is whole:
            damaged = bytearray(data)
            start = places[dice.choice(["strings", "symbols", "hash", "verneed", "dynamic"])]
            for _ in range(dice.randint(1, 3)):
                place = min(start + dice.randrange(160), len(data) - 8)
                layout = dice.choice(["<I", "<Q", "<H"])
                value = dice.choice([0, 1, 0xFFFF, 1 << 31, 1 << 63, dice.getrandbits(64)])
                struct.pack_into(layout, damaged, place, value % (1 << 8 * struct.calcsize(layout)))
            broken = bytes(damaged)
        else:
            broken = mutate(data, dice)
        try:
            linkage = read(broken)
        except DamageError as damage:
            assert damage.what and damage.where
            refused += 1
        else:
            assert Linkage.from_json(json.loads(json.dumps(linkage.to_json()))) == linkage
            judge_linkage("lib/libx.so", linkage, LinkageContext(gcc_major=11, depends=("libgcc >=11",)))
            changed_facts += linkage != read(data)
    assert refused > 500
    assert changed_facts > 50
    assert time.monotonic() - started < 10


# Compilers


@pytest.mark.parametrize(
    ("entry", "version"),
    [
        ("GCC: (Debian 11.3.0-12) 11.3.0", (11, 3, 0)),
        ("GCC: (GNU) 11.4.1 20231218 (Red Hat 11.4.1-3)", (11, 4, 1)),
        ("GCC: (conda-forge gcc 11.4.0-13) 11.4.0", (11, 4, 0)),
        ("GCC: (crosstool-NG 1.26.0.107_ee8ed8c) 13.3.0", (13, 3, 0)),
        ("GCC: (Toolchain 10.3-2021.07 (arm-10.29)) 10.3.1 20210621", (10, 3, 1)),
        ("GCC: (GNU) 4.8.5 20150623 (Red Hat 4.8.5-44)", (4, 8, 5)),
        ("GCC: (GNU) unknown", ()),
        ("GCC: ", ()),
        ("Debian clang version 19.1.7 (3~deb12u1)", None),
        ("AMD clang version 19.0.0git (https://github.com/RadeonOpenCompute/llvm-project roc-7.0)", None),
        ("Linker: LLD 19.1.7", None),
        ("rustc version 1.95.0", None),
        ("mold 2.4.0 (compatible with GNU ld)", None),
    ],
)
def test_entries_of_comment(entry: str, version: tuple[int, ...] | None) -> None:
    assert gcc_version(entry) == version
    faults = judge_linkage("x.o", Linkage(compilers=(entry,)), LinkageContext(gcc_major=11))
    assert bool(faults) is (version == () or (version is not None and version[0] > 11))


def test_a_start_file_of_a_newer_gcc_passes_only_by_the_policy() -> None:
    start, built = "GCC: (Debian 12.2.0-14+deb12u1) 12.2.0", "GCC: (Debian 12.2.0-14) 12.2.0"
    linkage = Linkage(compilers=("GCC: (Debian 11.3.0-12) 11.3.0", start, built))
    pinned = judge_linkage("lib/libx.so", linkage, LinkageContext(gcc_major=11))
    assert [(fault.rule, fault.found) for fault in pinned] == [("compiler", start), ("compiler", built)]
    assert "policy" in str(pinned[0].fix)
    allowed = LinkageContext(gcc_major=11, allowed_compilers=(re.escape(start),))
    assert [fault.found for fault in judge_linkage("lib/libx.so", linkage, allowed)] == [built]
    assert not judge_linkage("lib/libx.so", linkage, LinkageContext())


# Run paths

SITE = "lib/python3.12/site-packages"


@pytest.mark.parametrize(
    ("entry", "folder", "target"),
    [
        ("$ORIGIN", "lib", "lib"),
        ("$ORIGIN/", "lib", "lib"),
        ("${ORIGIN}/rocm-host", "lib", "lib/rocm-host"),
        ("$ORIGIN/../lib", "bin", "lib"),
        ("$ORIGIN/../../../..", f"{SITE}/torch/lib", "lib"),
        ("$ORIGIN/../torch/lib", f"{SITE}/vllm", f"{SITE}/torch/lib"),
        ("$ORIGIN/..", "lib", "."),
        ("$ORIGIN/../..", "lib", None),
        ("$ORIGIN/../../../../../..", f"{SITE}/vllm", None),
        ("$ORIGINAL/lib", "lib", None),
        ("/usr/lib", "lib", None),
        ("", "lib", None),
    ],
)
def test_where_a_run_path_leads(entry: str, folder: str, target: str | None) -> None:
    assert search_folder(entry, folder) == target
    assert (judge_run_path(entry, "RUNPATH", folder) is None) is (target is not None)


@pytest.mark.parametrize(
    ("entry", "what", "fix"),
    [
        ("$ORIGIN/../../../../../..", "leaves the prefix", "$ORIGIN/../../.."),
        ("/opt/rocm/lib", "ROCm by its absolute path", "$ORIGIN/../../../rocm-host"),
        ("/opt/rocm-7.2.0/lib", "ROCm by its absolute path", "$ORIGIN/../../../rocm-host"),
        ("/home/x/mc/envs/_h_env_placehold_placehold_placehold/lib", "prefix of the build", "$ORIGIN"),
        ("/b/rattler-build_x_17/host_env_placehold_placehold/lib", "prefix of the build", "$ORIGIN"),
        ("/tmp/x/_build/lib", "machine that built it", "$ORIGIN"),
        ("/opt/conda/conda-bld/x_17/work/build", "machine that built it", "$ORIGIN"),
        ("/usr/lib/x86_64-linux-gnu", "is absolute", "$ORIGIN"),
        ("lib", "the program is started in", "$ORIGIN"),
        ("", "empty entry", "colon"),
    ],
)
def test_bad_run_paths_say_what_to_do(entry: str, what: str, fix: str) -> None:
    fault = judge_run_path(entry, "RPATH", f"{SITE}/vllm")
    assert fault and fault.rule == "runpath"
    assert what in fault.what and fix in str(fault.fix)


def test_run_paths_of_files_and_wheels() -> None:
    linkage = Linkage(runpath=("$ORIGIN/../..", "/opt/rocm/lib"))
    assert len(judge_linkage("lib/libx.so", linkage, LinkageContext())) == 2
    wheel = LinkageContext(root="lib/python3/site-packages", allowed_run_paths=("/opt/rocm*",))
    assert not judge_linkage("pkg/libx.so", linkage, wheel)
    assert not judge_linkage(
        "site-packages/pkg/libx.so", Linkage(runpath=("$ORIGIN/../../..",)), LinkageContext()
    )
    assert origin_path("lib", "lib") == "$ORIGIN"


# Libraries

DEPENDS = (
    "libgcc >=11",
    "libstdcxx >=11",
    "__glibc >=2.34,<3.0.a0",
    "amdgpu-arch ==9.4.2",
    "rocm-userspace 7.2.*",
)
RUNPATH = ("$ORIGIN/", "$ORIGIN/rocm-host")


def judged(
    *needed: str, runpath: tuple[str, ...] = RUNPATH, path: str = "lib/libx.so", **context: object
) -> list[Fault]:
    values: dict[str, object] = {"depends": DEPENDS, **context}
    return judge_linkage(path, Linkage(needed=needed, runpath=runpath), LinkageContext(**values))  # type: ignore[arg-type]


def test_libraries_with_a_home() -> None:
    own = {"libown.so.1": frozenset({"lib"})}
    names = (
        "libc.so.6",
        "libm.so.6",
        "ld-linux-x86-64.so.2",
        "libgcc_s.so.1",
        "libstdc++.so.6",
        "libgomp.so.1",
    )
    assert not judged(*names, "libamdhip64.so.7", "libMIOpen.so.1", "libown.so.1", package_libraries=own)
    assert not judged("libtorch_hip.so", "libopenblas.so.0", depends=("pytorch-rocm ==2.11.0",))
    assert not judged("libfoo.so.3", allowed_libraries=("libfoo.so.*",))
    assert not judged("libanything.so", depends=None)


@pytest.mark.parametrize(
    ("needed", "depends", "rule", "words"),
    [
        ("libfoo.so.3", DEPENDS, "library-missing", "libfoo.so.3"),
        ("/build/libfoo.so", DEPENDS, "library-missing", "/build/libfoo.so"),
        ("libamdhip64.so", DEPENDS, "library-missing", "libamdhip64.so"),
        ("libfoo.so.3", (*DEPENDS, "opencv >=4"), "library-unknown-origin", "opencv"),
        ("libstdc++.so.6", ("libgcc >=11",), "library-undeclared", "libstdcxx"),
        ("librocblas.so.5", ("libstdcxx >=12",), "library-undeclared", "rocm-userspace"),
        ("libtorch.so", DEPENDS, "library-undeclared", "pytorch-rocm"),
    ],
)
def test_libraries_without_one(needed: str, depends: tuple[str, ...], rule: str, words: str) -> None:
    (fault,) = judged(needed, depends=depends)
    assert fault.rule == rule
    assert words in str(fault)
    assert fault.found and fault.wanted and fault.fix


def test_a_library_must_lie_where_the_loader_looks() -> None:
    own = {"libown.so.1": frozenset({"lib"})}
    assert not judged("libown.so.1", package_libraries=own, path="bin/x", runpath=("$ORIGIN/../lib",))
    (fault,) = judged("libown.so.1", package_libraries=own, path="bin/x", runpath=())
    assert (fault.rule, fault.wanted, fault.found) == ("runpath", "$ORIGIN/../lib", "no run path")
    (fault,) = judged("libamdhip64.so.7", runpath=("$ORIGIN",))
    assert (fault.rule, fault.wanted) == ("runpath", "$ORIGIN/rocm-host")
    old_style = Linkage(needed=("libamdhip64.so.7",), rpath=RUNPATH)
    assert not judge_linkage("lib/libx.so", old_style, LinkageContext(depends=DEPENDS))
    hidden = Linkage(needed=("libamdhip64.so.7",), rpath=RUNPATH, runpath=("$ORIGIN",))
    assert judge_linkage("lib/libx.so", hidden, LinkageContext(depends=DEPENDS))


@pytest.mark.parametrize(
    ("library", "hip", "good"),
    [
        ("libamdhip64.so.7", "7.2", True),
        ("libamdhip64.so.6", "7.2", False),
        ("libamdhip64.so.5", "5.7.31921", True),
        ("libhiprtc.so.6", "7.0", False),
        ("librocblas.so.5", "7.2", True),
        ("libamdhip64.so.6", None, True),
    ],
)
def test_hip_is_of_the_release_that_was_built_against(library: str, hip: str | None, good: bool) -> None:
    faults = judged(library, hip_version=hip)
    assert [fault.rule for fault in faults] == ([] if good else ["library-release"])


def test_names_of_a_package_are_files_links_and_sonames() -> None:
    linkages = {"lib/libx.so.1.2": Linkage(soname="libx.so.1"), "bin/x": None}
    assert package_libraries(linkages, ["lib/sub/liby.so"]) == {
        "libx.so.1.2": frozenset({"lib"}),
        "libx.so.1": frozenset({"lib"}),
        "liby.so": frozenset({"lib/sub"}),
        "x": frozenset({"bin"}),
    }


# Symbol versions


@pytest.mark.parametrize(
    ("library", "version", "depends", "wanted"),
    [
        ("libc.so.6", "GLIBC_2.34", ("__glibc >=2.34,<3.0.a0",), None),
        ("libc.so.6", "GLIBC_2.35", ("__glibc >=2.34,<3.0.a0",), "__glibc >=2.35"),
        ("libm.so.6", "GLIBC_2.29", ("__glibc >=2.28",), "__glibc >=2.29"),
        ("libc.so.6", "GLIBC_2.17", (), None),
        ("libc.so.6", "GLIBC_2.18", (), "__glibc >=2.18"),
        ("libc.so.6", "GLIBC_ABI_DT_RELR", ("__glibc >=2.34",), "__glibc >=2.36"),
        ("libc.so.6", "GLIBC_PRIVATE", ("__glibc >=2.34",), "public versions"),
        ("libstdc++.so.6", "GLIBCXX_3.4.29", ("libstdcxx >=11",), None),
        ("libstdc++.so.6", "GLIBCXX_3.4.30", ("libstdcxx >=11",), "libstdcxx >=12.1"),
        ("libstdc++.so.6", "GLIBCXX_3.4.32", ("libstdcxx >=13",), "libstdcxx >=13.2"),
        ("libstdc++.so.6", "GLIBCXX_3.4.32", ("libstdcxx-ng >=13.2",), None),
        ("libstdc++.so.6", "GLIBCXX_3.4.99", ("libstdcxx >=16",), "not in the table"),
        ("libstdc++.so.6", "GLIBCXX_3.4.21", ("libstdcxx",), "libstdcxx >=5.1"),
        ("libstdc++.so.6", "GLIBCXX_3.4.21", (), None),
        ("libstdc++.so.6", "CXXABI_1.3.13", ("libstdcxx >=11",), None),
        ("libstdc++.so.6", "CXXABI_1.3.14", ("libstdcxx >=11,<14",), "libstdcxx >=13.1"),
        ("libstdc++.so.6", "CXXABI_FLOAT128", ("libstdcxx >=11",), None),
        ("libgcc_s.so.1", "GCC_3.0", ("libgcc >=11",), None),
        ("libgcc_s.so.1", "GCC_12.0.0", ("libgcc >=11",), "libgcc >=12.0.0"),
        ("libgcc_s.so.1", "GCC_12.0.0", ("libgcc >=12",), None),
        ("libamdhip64.so.7", "hip_4.2", DEPENDS, None),
    ],
)
def test_symbol_versions(library: str, version: str, depends: tuple[str, ...], wanted: str | None) -> None:
    faults = judge_linkage("lib/x.so", Linkage(needs={library: (version,)}), LinkageContext(depends=depends))
    assert [fault.rule for fault in faults] == (["symbol-version"] if wanted else [])
    if wanted:
        assert wanted in str(faults[0].wanted)
        assert faults[0].found and faults[0].fix


def test_only_the_newest_version_is_told_and_own_libraries_are_not_judged() -> None:
    needs = {"libstdc++.so.6": ("GLIBCXX_3.4.30", "GLIBCXX_3.4.9", "GLIBCXX_3.4.32", "CXXABI_1.3")}
    (fault,) = judge_linkage("lib/x.so", Linkage(needs=needs), LinkageContext(depends=("libstdcxx >=11",)))
    assert "GLIBCXX_3.4.32" in fault.what
    own = LinkageContext(
        depends=("libstdcxx >=11",), package_libraries={"libstdc++.so.6": frozenset({"lib"})}
    )
    assert not judge_linkage("lib/x.so", Linkage(needs=needs), own)
    assert not judge_linkage("lib/x.so", Linkage(needs=needs), LinkageContext())


@pytest.mark.parametrize(
    ("specs", "name", "bound"),
    [
        (["libstdcxx >=11"], "libstdcxx", (11,)),
        (["libstdcxx>=11.2,<15"], "libstdcxx", (11, 2)),
        (["libstdcxx >= 11"], "libstdcxx", (11,)),
        (["conda-forge::libstdcxx >=11"], "libstdcxx", (11,)),
        (["libstdcxx 12.*"], "libstdcxx", (12,)),
        (["libstdcxx ==12.2.0 h123_0"], "libstdcxx", (12, 2, 0)),
        (["libstdcxx=12"], "libstdcxx", (12,)),
        (["libstdcxx >=11|>=9"], "libstdcxx", (9,)),
        (["libstdcxx >=11|<3"], "libstdcxx", None),
        (["libstdcxx <15"], "libstdcxx", None),
        (["libstdcxx"], "libstdcxx", None),
        (["libstdcxx *"], "libstdcxx", None),
        (["libstdcxx[version='>=13']"], "libstdcxx", (13,)),
        (["__glibc >=2.28,<3.0.a0", "__glibc >=2.34,<3.0.a0"], "__glibc", (2, 34)),
        (["libstdcxx >=11", "other >=20"], "libstdcxx", (11,)),
        (["?!"], "libstdcxx", None),
        ([""], "libstdcxx", None),
    ],
)
def test_lower_bounds(specs: list[str], name: str, bound: tuple[int, ...] | None) -> None:
    assert lower_bound(specs, [name]) == bound
    assert all(isinstance(spec_name(spec), str) for spec in specs)


# The table


def test_the_table_agrees_with_the_recipes_and_the_host_tools(repo_root: Path) -> None:
    table = library_table()
    since = table.families["GLIBCXX"].since
    for number, gcc in GCC_OF_LIBSTDCXX.items():
        assert since[f"3.4.{number}"][: len(release(gcc))] == release(gcc)
    patterns = [*table.rocm, *(library for libraries in table.packages.values() for library in libraries)]
    names = [pattern.replace("*", "1") for pattern in patterns]
    allowed = set()
    for recipe in sorted((repo_root / "recipes").glob("*/recipe.yaml")):
        linking = YAML(typ="safe").load(recipe)["build"].get("dynamic_linking") or {}
        allowed |= set(linking.get("missing_dso_allowlist", ()))
    assert len(allowed) > 10
    for pattern in allowed:
        assert any(matches(name, [pattern]) for name in names), pattern


def test_the_table_is_whole() -> None:
    table = library_table()
    for package, required in table.requires.items():
        assert set(required) <= set(table.packages), package
    for family in table.families.values():
        assert set(family.packages) <= set(table.packages)
        assert family.library in table.packages[family.packages[0]]
    assert table.closure(["pytorch-rocm"]) >= {"libstdcxx", "libgcc", "_openmp_mutex", "libgfortran5"}
    for cxx, abi in (("3.4.30", "1.3.13"), ("3.4.33", "1.3.15")):
        assert table.families["GLIBCXX"].since[cxx] >= table.families["CXXABI"].since[abi]
