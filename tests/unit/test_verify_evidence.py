"""Compiler command lines, and what a package's build record shows."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channel_tools.verify.command_lines import optimisation_level, read_command, read_recorded, split_command
from channel_tools.verify.evidence import Evidence, judge_build_evidence

GFX942 = frozenset({"gfx942"})


@pytest.mark.parametrize(
    ("command", "levels"),
    [
        ("g++ -O2 -c a.cpp", ("-O2",)),
        ("g++ -O3 -g -O2 -c a.cpp", ("-O2",)),
        ("g++ -O2 -c a.cpp -O3", ("-O3",)),
        ("g++ -c a.cpp", ("-O0",)),
        ("g++ -O -c a.cpp", ("-O1",)),
        ("g++ -O3 -O -c a.cpp", ("-O1",)),
        ("g++ -O9 -c a.cpp", ("-O3",)),
        ("g++ -O2 -Ofast -c a.cpp", ("-Ofast",)),
        ("g++ -Ofast -Oz -c a.cpp", ("-Oz",)),
        ("g++ -O3 -Og -c a.cpp", ("-Og",)),
        ("g++ -O2 --optimize=3 -c a.cpp", ("-O3",)),
        ("g++ -O3 --optimize -c a.cpp", ("-O1",)),
        ("g++ -O2 -Wl,-O1 -Wl,-O3 -ObjC++ -c a.cpp", ("-O2",)),
        ("g++ -O2 -Xlinker -O3 -mllvm -O3 -Xassembler -O3 -c a.cpp", ("-O2",)),
        ("g++ -O2 -D -O3 -o -O3 -MF -O3 -c a.cpp", ("-O2",)),
        ("g++ '-O2' -c a.cpp", ("-O2",)),
        ('g++ "-O""3" -c a.cpp', ("-O3",)),
        ("g++ -O2 -DX=\\\"-O3\\\" '-DY=a -O3 b' -c a.cpp", ("-O2",)),
        ("ccache /usr/bin/g++-11 -O2 -c a.cpp", ("-O2",)),
        ("cd b && g++ -O2 -c a.cpp && objcopy -O3 a.o", ("-O2",)),
        ("cmake -E __run_co_compile --tidy=x --source=a.cpp -- g++ -O3 -c a.cpp", ("-O3",)),
        ("g++ -O3 -c a.S", ()),
        ("clang++ -O2 -Xclang -O3 -c a.cpp", ("-O3",)),
        ("clang++ -Xclang -O3 -O2 -c a.cpp", ("-O3",)),
        ("clang++ -Xclang=-O1 -O2 -c a.cpp", ("-O1",)),
        ("clang++ -O2 -Xarch_device -O3 -x hip -c a.hip", ("-O2", "-O3")),
        ("clang++ -Xarch_device -O3 -O2 -x hip -c a.hip", ("-O2",)),
        ("clang++ -O2 -Xarch_gfx942 -O3 -x hip -c a.hip", ("-O2", "-O3")),
        ("clang++ -O2 -Xarch_host -O3 -c a.hip", ("-O3", "-O2")),
        ("clang++ -O2 -Xoffload-linker -O3 -Xopenmp-target=amdgcn -O3 -c a.hip", ("-O2",)),
        ("hipcc -c a.cpp", ("-O3",)),
        ("hipcc -O1 -c a.cpp", ("-O1",)),
        ("nvcc -O2 -Xcompiler -O3,-fPIC -Xptxas -O3 -c a.cu", ("-O3",)),
        ("nvcc -O2 -Xptxas -O3 --compiler-options '-fPIC -Wall' -c a.cu", ("-O2",)),
    ],
)
def test_the_level_that_takes_effect(command: str, levels: tuple[str, ...]) -> None:
    assert read_command(split_command(command)).levels == levels


@pytest.mark.parametrize("word", ["-Oabc", "-ObjC", "-o", "O3", "--optimize-x", "-fO3", "-O2x", ""])
def test_what_is_no_level(word: str) -> None:
    assert optimisation_level(word) is None


@pytest.mark.parametrize(
    ("command", "is_hip", "targets"),
    [
        ("clang++ -x hip --offload-arch=gfx942 -c a.cpp", True, ("gfx942",)),
        ("clang++ -xhip --offload-arch=gfx942 -c a.cpp", True, ("gfx942",)),
        ("clang++ --offload-arch=gfx90a,gfx942 -c a.hip", True, ("gfx90a", "gfx942")),
        ("clang++ --cuda-gpu-arch=gfx90a --offload-arch=gfx942 -c a.hip", True, ("gfx90a", "gfx942")),
        (
            "clang++ --offload-arch=gfx90a --offload-arch=gfx942 --no-offload-arch=gfx90a -c a.hip",
            True,
            ("gfx942",),
        ),
        ("clang++ --offload-arch=gfx90a --no-offload-arch=all -c a.hip", True, ()),
        ("clang++ -x hip -c a.cpp", True, ()),
        ("clang++ -x hip --cuda-host-only -c a.cpp", False, ()),
        ("clang++ -x c++ -c a.hip", False, ()),
        ("clang++ -c a.cpp -x hip", False, ()),
        ("hipcc --amdgpu-target=gfx942 -c a.cpp", True, ("gfx942",)),
        ("g++ -c a.cpp", False, ()),
    ],
)
def test_units_of_hip(command: str, is_hip: bool, targets: tuple[str, ...]) -> None:
    unit = read_command(split_command(command))
    assert (unit.is_hip, unit.targets) == (is_hip, targets)


@pytest.mark.parametrize(
    ("command", "flag", "used"),
    [
        ("g++ -Ofast -c a.cpp", "-O3", True),
        ("g++ -O4 -c a.cpp", "-O3", True),
        ("g++ -O3 -c a.cpp", "-Ofast", False),
        ("g++ -O3 -O2 -c a.cpp", "-O3", False),
        ("g++ -ffast-math -c a.cpp", "-ffast-math", True),
        ("g++ -ffast-math -fno-fast-math -c a.cpp", "-ffast-math", False),
        ("g++ -fno-fast-math -c a.cpp", "-fno-fast-math", True),
        ("g++ -Ofast -c a.cpp", "-ffast-math", True),
        ("g++ -Ofast -fno-fast-math -c a.cpp", "-ffast-math", False),
        ("g++ -march=native -c a.cpp", "-march=native", True),
        ("g++ -o -march=native -c a.cpp", "-march=native", False),
        ("clang++ -Xclang -ffast-math -c a.cpp", "-ffast-math", True),
    ],
)
def test_flags_in_force(command: str, flag: str, used: bool) -> None:
    assert read_command(split_command(command)).uses(flag) is used


@given(st.lists(st.text(st.characters(blacklist_categories=["Cs"]), max_size=8), max_size=6))
def test_splitting_undoes_quoting(words: list[str]) -> None:
    quoted = " ".join(map(shlex.quote, words))
    assert split_command(quoted) == words


@given(st.text(alphabet="ab \\\"'\t$", max_size=12))
def test_splitting_is_the_shells(text: str) -> None:
    try:
        expected = shlex.split(text)
    except ValueError:
        with pytest.raises(ValueError, match="quoting"):
            split_command(text)
    else:
        # shlex keeps the backslash in front of $ in double quotes, which a shell takes away.
        if "\\$" not in text:
            assert split_command(text) == expected


def test_splitting_takes_time_in_proportion_to_length() -> None:
    assert len(split_command("g++ " + '-DX=\\"a\\" ' * 100_000)) == 100_001
    with pytest.raises(ValueError, match="quoting"):
        split_command("a" * 1_000_000 + '"' + "b" * 1_000_000)


def test_recorded_lines_of_every_compiler() -> None:
    gcc, clang = read_recorded(
        [
            "GNU C++17 11.3.0 -mtune=generic -march=x86-64 -O3 -O2 -fPIC",
            "/usr/bin/clang --driver-mode=g++ -x hip --offload-arch=gfx942 -O3 -D X=a\\ b -c a\\ b.hip",
        ]
    )
    assert (gcc.name, gcc.levels, gcc.is_hip) == ("", ("-O2",), False)
    assert (clang.name, clang.levels, clang.targets) == ("a b.hip", ("-O3",), ("gfx942",))
    (merged,) = read_recorded(["a.cpp", "-mtune=generic", "-O2", "-O3", "-fPIC"])
    assert merged.levels == ("-O2", "-O3"), "of several units; no one knows which"
    (red_hat,) = read_recorded(["GNU C17 11.4.1 20231218 (Red Hat 11.4.1-3) -O2"])
    assert red_hat.levels == ("-O2",)


def entry(command: str, file: str = "$SRC_DIR/a.hip") -> dict[str, str]:
    return {"directory": "$SRC_DIR/_build", "command": command, "file": file}


def judge(
    *entries: object,
    raw: bytes | None = None,
    recorded: dict[str, tuple[str, ...]] | None = None,
    record: object = None,
    **settings: object,
) -> Evidence:
    commands = raw if raw is not None or not entries else json.dumps(entries).encode()
    build = None if record is None else (record if isinstance(record, bytes) else json.dumps(record).encode())
    return judge_build_evidence(
        "canary",
        build_json=build,
        compile_commands=commands,
        recorded={"lib/libx.so": ()} if recorded is None else recorded,
        **settings,  # type: ignore[arg-type]
    )


HIP = entry("clang++ -O2 --offload-arch=gfx942 -x hip -c $SRC_DIR/a.hip")
CXX = entry("g++-11 -O2 -c $SRC_DIR/b.cpp", "$SRC_DIR/b.cpp")


def test_good_commands() -> None:
    evidence = judge(HIP, CXX, targets=GFX942, forbidden=("-O3", "-ffast-math"))
    assert not evidence.faults
    assert evidence.source == "compile_commands.json (2 units)"
    assert (evidence.units, evidence.levels) == (2, {"-O2": 2})
    assert json.loads(json.dumps(evidence.to_json()))["source"] == evidence.source


def test_arguments_as_a_list() -> None:
    unit = {"directory": "/", "file": "a.c", "arguments": ["gcc", "-O3", "-c", "a b.c"]}
    assert [fault.rule for _, fault in judge(unit, forbidden=("-O3",)).faults] == ["optimisation"]


def test_both_kinds_of_evidence_are_judged_and_named() -> None:
    recorded = {"lib/libx.so": ("GNU C++17 11.3.0 -O3",), "lib/liby.so": ()}
    evidence = judge(HIP, recorded=recorded, forbidden=("-O3",))
    assert evidence.source == "flags recorded in 1 of 2 files (1 units) and compile_commands.json (1 units)"
    ((path, fault),) = evidence.faults
    assert (path, fault.rule) == ("lib/libx.so", "optimisation")
    assert "recorded in the file" in fault.what
    evidence = judge(
        entry("g++ -O3 -c a.cpp", "a.cpp"),
        recorded={"lib/libx.so": ("GNU C++17 11.3.0 -O2",)},
        forbidden=("-O3",),
    )
    ((path, fault),) = evidence.faults
    assert path is None
    assert "compile_commands.json" in fault.what and fault.found == "a.cpp"


def test_no_evidence_is_a_fault_only_where_flags_are_forbidden() -> None:
    assert judge().source == "none"
    assert not judge(targets=GFX942).faults
    for evidence in (judge(forbidden=("-O3",)), judge(raw=b"[]", forbidden=("-O3",))):
        ((path, fault),) = evidence.faults
        assert path is None
        assert fault.rule == "evidence"
        assert "share/rocm-channel/canary/compile_commands.json" in str(fault.found)


@pytest.mark.parametrize(
    ("command", "rule", "words"),
    [
        ("clang++ -O3 --offload-arch=gfx942 -c a.hip", "optimisation", "-O3"),
        ("clang++ -O2 --offload-arch=gfx90a -c a.hip", "offload-arch", "gfx90a"),
        ("clang++ -O2 --offload-arch=gfx942 --offload-arch=native -c a.hip", "offload-arch", "native"),
        ("clang++ -O2 --offload-arch=gfx942:xnack- -c a.hip", "offload-arch", "gfx942:xnack-"),
        ("clang++ -O2 -c a.hip", "offload-arch", "name no target"),
        ("clang++ -O2 @flags.rsp --offload-arch=gfx942 -c a.hip", "evidence", "@flags.rsp"),
        ("clang++ -O2 --config=x.cfg --offload-arch=gfx942 -c a.hip", "evidence", "--config x.cfg"),
        ("nvcc -O2 --options-file x.rsp --offload-arch=gfx942 -c a.hip", "evidence", "--options-file x.rsp"),
        ("clang++ -O2 -march=native --offload-arch=gfx942 -c a.hip", "forbidden-flag", "-march=native"),
    ],
)
def test_units_that_must_not_be(command: str, rule: str, words: str) -> None:
    ((path, fault),) = judge(entry(command), CXX, targets=GFX942, forbidden=("-O3", "-march=native")).faults
    assert path is None
    assert (fault.rule, fault.damage) == (rule, False)
    assert words in str(fault)
    assert "a.hip" in str(fault.found) and "2 units in all" in fault.what
    assert fault.wanted and fault.fix


def test_features_in_any_order_are_the_same_target() -> None:
    unit = entry("clang++ --offload-arch=gfx942:xnack-:sramecc+ -c a.hip")
    assert not judge(unit, targets=frozenset({"gfx942:sramecc+:xnack-"})).faults


def test_many_units_make_one_fault() -> None:
    units = [entry("g++ -O3 -c x.cpp", f"$SRC_DIR/{number}.cpp") for number in range(500)]
    ((_, fault),) = judge(*units, CXX, forbidden=("-O3",)).faults
    assert fault.what.startswith("500 units are compiled with -O3")
    assert fault.found == "$SRC_DIR/0.cpp, $SRC_DIR/1.cpp, $SRC_DIR/2.cpp and 497 more"


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"", "Expecting value"),
        (b"\xff\xfe\x00", "codec"),
        (b"[" * 100_000, ""),
        (b"{}", "dict"),
        (b"[1]", "entry 0: no object"),
        (b'[{"file": "a"}]', "neither a command"),
        (b'[{"file": "a", "arguments": [1]}]', "neither a command"),
        (b'[{"file": "a", "command": "g++ \'"}]', "quoting without an end"),
        (b'[{"command": "g++"}]', "no object with a file"),
    ],
)
def test_broken_compile_commands(raw: bytes, found: str) -> None:
    evidence = judge(raw=raw)
    ((path, fault),) = evidence.faults
    assert (path, fault.rule) == (None, "evidence")
    assert found in str(fault.found) and fault.wanted and fault.fix
    assert evidence.units == 0


def test_a_recorded_line_that_no_shell_takes() -> None:
    evidence = judge(recorded={"lib/libx.so": ("clang -O2 'x",)})
    ((path, fault),) = evidence.faults
    assert (path, fault.rule) == ("lib/libx.so", "evidence")


RECORD = {
    "version": 1,
    "package": "canary",
    "rocm_arch": "gfx942",
    "gcc_version": "11.3.0",
    "hip_version": "7.2.1",
}


def test_the_build_record_is_of_this_build() -> None:
    good = judge(record=RECORD, targets=GFX942, gcc_major=11)
    assert not good.faults
    assert (good.gcc_version, good.hip_version) == ("11.3.0", "7.2.1")
    for changed, words in (
        ({"package": "other"}, "canary"),
        ({"rocm_arch": "gfx90a"}, "gfx942"),
        ({"gcc_version": "12.2.0"}, "11 or older"),
    ):
        ((path, fault),) = judge(record=RECORD | changed, targets=GFX942, gcc_major=11).faults
        assert (path, fault.rule, fault.wanted) == (None, "evidence", words)
        assert fault.found in changed.values()


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"version": 2}', b'{"version": "\x1b"}', b"null"])
def test_broken_build_records(raw: bytes) -> None:
    ((path, fault),) = judge(record=raw).faults
    assert (path, fault.rule) == (None, "evidence")
    assert fault.found and fault.found.isprintable()


@given(st.binary(max_size=40), st.binary(max_size=40), st.lists(st.text(max_size=30), max_size=4))
def test_no_record_is_a_surprise(build: bytes, commands: bytes, lines: list[str]) -> None:
    judge_build_evidence(
        "x",
        build_json=build,
        compile_commands=commands,
        recorded={"a": tuple(lines)},
        targets=GFX942,
        forbidden=("-O3",),
        gcc_major=11,
    )
