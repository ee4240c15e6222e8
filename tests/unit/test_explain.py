"""How explain reads logs of any kind, what it ranks first, and what it prints."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from channel_tools.build.failures import explained
from channel_tools.diagnose import report
from channel_tools.diagnose.explain import Explanation, explain_blocks, explain_file
from channel_tools.diagnose.matcher import WINDOW
from channel_tools.diagnose.rules import Rule, all_rules
from channel_tools.model.errors import ChannelToolsError

DEVICE_LIBRARY = "clang: error: cannot find ROCm device library; provide its path via '--rocm-path'"
UNDEFINED = "/usr/bin/ld: a.o: undefined reference to `std::ios_base_library_init()'"
KILLED = "c++: fatal error: Killed signal terminated program cc1plus"
NOISE = "[12/99] /usr/bin/c++ -DUSE_ROCM -O2 --offload-arch=gfx942 -c a.cpp -o a.o"


def explain(*lines: str) -> Explanation:
    return explain_blocks(["\n".join(lines).encode()])


def ids(explanation: Explanation) -> list[str]:
    return [finding.rule.id for finding in explanation.findings]


def first(explanation: Explanation) -> tuple[str, int]:
    finding = explanation.findings[0]
    return finding.rule.id, finding.lines[0].number


# What comes first


def test_the_first_error_beats_the_thousand_that_follow() -> None:
    rest = ["a.hip:1:1: error: use of undeclared identifier 'blockIdx'"] * 1000
    rest += ["/usr/bin/ld: main.o: undefined reference to `launch'"] * 1000
    found = explain(NOISE, DEVICE_LIBRARY, *rest)
    assert first(found) == ("device-library-not-found", 2)
    assert found.verdict == "explained"


def test_a_consequence_ranks_behind_its_cause_however_many_lines_there_are() -> None:
    found = explain(KILLED, *[NOISE] * 100, "PLEASE submit a bug report to https://example.org", *[NOISE] * 5)
    assert ids(found) == ["compiler-out-of-memory", "compiler-crash"]
    assert found.findings[1].follows == "compiler-out-of-memory"


def test_the_earlier_event_beats_the_later_one() -> None:
    gap = [NOISE] * 100
    assert ids(explain(UNDEFINED, *gap, KILLED))[0] == "hip-newer-libstdcxx"
    assert ids(explain(KILLED, *gap, UNDEFINED))[0] == "compiler-out-of-memory"


def test_in_one_event_the_specific_rule_beats_the_general_one() -> None:
    found = explain("/usr/bin/ld: a.o: undefined reference to `other()'", UNDEFINED)
    assert ids(found)[0] == "hip-newer-libstdcxx" and ids(found)[-1] == "symbol-of-a-missing-library"


def test_errors_beat_signs_and_harmless_lines_come_last() -> None:
    found = explain(
        "No ROCm runtime is found, using ROCM_HOME='/opt/rocm'",
        "  Using cached vllm-0.16.0-cp312-cp312-linux_x86_64.whl",
        *[NOISE] * 60,
        KILLED,
    )
    assert ids(found) == ["compiler-out-of-memory", "wheel-from-cache", "no-rocm-runtime-notice"]
    assert found.findings[-1].rule.harmless


def test_only_harmless_lines_are_no_fault() -> None:
    found = explain(
        "Warning: Attempting to use hipBLASLt on an unsupported architecture! "
        "Overriding blas backend to hipblas"
    )
    assert found.verdict == "clean"
    assert [finding.rule.harmless for finding in found.findings] == [True]


@pytest.mark.parametrize(
    ("device", "harmless"),
    [("gcnArchName: gfx1100", True), ("GPU 0: AMD Instinct MI300X", False), ("  Name:      gfx90a", False)],
)
def test_the_same_words_are_told_apart_by_the_gpu(device: str, harmless: bool) -> None:
    notice = "Attempting to use hipBLASLt on an unsupported architecture! Overriding blas backend to hipblas"
    found = explain(device, *[NOISE.replace("gfx942", "gfx1100")] * 3, notice)
    assert found.findings[0].rule.harmless is harmless


def test_a_sign_alone_is_no_error() -> None:
    found = explain("Warning: rpath /opt/rocm/lib is outside prefix /x (removing it)")
    assert found.verdict == "signs"
    assert "no error found" in "\n".join(report.text(found))


def test_failed_checks_of_a_configuration_are_no_errors() -> None:
    check = [
        "Change Dir: '/build/CMakeFiles/CMakeTmp'",
        "FAILED: CMakeFiles/cmTC_6c470.dir/test.cc.o",
        "test.cc:2:10: fatal error: hipblaslt/hipblaslt.h: No such file or directory",
        "ninja: build stopped: subcommand failed.",
    ]
    assert explain(*check, "-- Build files have been written to: /build").verdict == "clean"
    broken = explain(*check, *[NOISE] * 30, DEVICE_LIBRARY)
    assert ids(broken) == ["device-library-not-found", "rocm-library-headers-not-found", "header-not-found"]
    assert broken.findings[1].check and not broken.findings[0].check


def test_a_check_that_has_to_pass_is_an_error() -> None:
    found = explain(
        "CMake Error at /usr/share/cmake/Modules/CMakeTestHIPCompiler.cmake:73 (message):",
        "  The HIP compiler",
        "  is not able to compile a simple test program.",
        "    Change Dir: '/build/CMakeFiles/CMakeScratch/TryCompile-x'",
        "    [1/2] clang++ -o CMakeFiles/cmTC_b6f3d.dir/a.o",
        f"    {DEVICE_LIBRARY}",
    )
    assert first(found) == ("device-library-not-found", 6)
    assert not found.findings[0].check


def test_no_match_shows_the_first_errors_and_what_to_try() -> None:
    found = explain(NOISE, "foo.cpp:3:1: error: expected ';'", *[NOISE] * 3, "ninja: build stopped: failed.")
    assert found.verdict == "unknown" and found.findings == ()
    assert [(error.number, error.kind) for error in found.errors] == [(2, "compiler"), (6, "aftermath")]
    text = "\n".join(report.text(found))
    assert "no known cause" in text and "expected ';'" in text and "what to try" in text


def test_a_traceback_without_a_rule_shows_its_last_line() -> None:
    found = explain(
        "Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "ValueError: 3"
    )
    assert [error.text for error in found.errors] == ["ValueError: 3"]


@pytest.mark.parametrize("text", ["", "\n", "\n\n\n", "all is well"])
def test_next_to_nothing_is_clean(text: str) -> None:
    found = explain_blocks([text.encode()])
    assert found.verdict == "clean"
    assert "nothing wrong found" in "\n".join(report.text(found))


# Conditions


def make_rule(**changes: object) -> Rule:
    values: dict[str, object] = {
        "id": "made",
        "category": "missing lib",
        "title": "t",
        "cause": "c",
        "fix": ["f"],
        "confidence": "sure",
        "match": [{"regex": "the words"}],
        "sources": ["a/b#1"],
        "examples": {"positive": ["the words"], "negative": ["other"]},
    }
    return Rule.model_validate({**values, **changes})


def fires(rule: Rule, *lines: str) -> bool:
    return bool(explain_blocks(["\n".join(lines).encode()], [rule]).findings)


def test_near_looks_both_ways_and_not_too_far() -> None:
    rule = make_rule(match=[{"regex": "the words", "near": "a neighbour", "within": 3}])
    assert fires(rule, "a neighbour", "", "", "the words")
    assert fires(rule, "the words", "", "", "a neighbour")
    assert fires(rule, "the words: a neighbour")
    assert not fires(rule, "a neighbour", "", "", "", "the words")
    assert not fires(rule, "the words", "", "", "", "a neighbour")
    assert fires(rule, "a neighbour", "", "", "", "the words", "a neighbour")


def test_not_after_bars_what_stands_in_a_warning() -> None:
    rule = make_rule(match=[{"regex": "the words", "not_after": "CMake Warning"}])
    assert fires(rule, "CMake Error", "the words")
    assert not fires(rule, "CMake Warning", "the words")
    assert fires(rule, "CMake Warning", *[""] * 6, "the words")


def test_lines_may_be_joined() -> None:
    rule = make_rule(match=[{"regex": "the words wrap here", "lines": 3, "anchors": ["the words"]}])
    assert fires(rule, "  the words", "  wrap", "    here")
    assert fires(rule, " │ the words", " │   wrap here")
    assert not fires(rule, "the words", "", "", "wrap here")


def test_context_present_absent_gpu_and_versions() -> None:
    present = make_rule(context={"present": ["also this"]})
    assert fires(present, "the words", "also this") and fires(present, "also this", "the words")
    assert not fires(present, "the words")
    absent = make_rule(context={"absent": ["never this"]})
    assert fires(absent, "the words") and not fires(absent, "the words", *[""] * 99, "never this")
    gpu = make_rule(context={"gpu": ["gfx942"]})
    assert fires(gpu, "the words", "gcnArchName: gfx942:sramecc+")
    assert not fires(gpu, "the words") and not fires(gpu, "the words", "gcnArchName: gfx90a")
    old = make_rule(context={"versions": {"gcc": "<12"}})
    assert fires(old, "gcc version 11.4.0 (Ubuntu)", "the words")
    assert not fires(old, "gcc version 13.2.0", "the words") and not fires(old, "the words")


def test_many_hits_are_counted_and_few_are_kept() -> None:
    found = explain(*[KILLED] * 5000)
    finding = found.findings[0]
    assert finding.count == 1000 and [line.number for line in finding.lines] == [1, 2, 3, 4, 5]


# Hostile and odd input


def test_colours_hyperlinks_and_typographic_quotes() -> None:
    lines = [
        "\x1b[01m\x1b[Ka.cpp:1:10:\x1b[m\x1b[K \x1b[01;31m\x1b[Kfatal error: "
        "\x1b[m\x1b[Kthrust/\x1b[1mcomplex.h\x1b[0m: No such file or directory",
        "\x1b]8;;https://example.org/x\x1b\\clang: error: cannot find ROCm\x1b]8;;\x07 device library\x1b[0m",
        "g++: error: unrecognized command-line option \u2018--offload-arch=gfx942\u2019",
    ]
    found = explain(*lines)
    assert {"rocm-library-headers-not-found", "device-library-not-found", "gcc-got-hip-code"} <= set(
        ids(found)
    )
    assert "\x1b" not in "\n".join(report.text(found, every=True))


def test_progress_bars_do_not_hide_an_error_in_their_line() -> None:
    bar = "".join(f"\r   {at}/1000 MB" for at in range(1000))
    found = explain(NOISE, f"{bar}\r{DEVICE_LIBRARY}\r\n{NOISE}")
    assert first(found) == ("device-library-not-found", 2)
    assert found.findings[0].lines[0].text == DEVICE_LIBRARY


def test_an_error_inside_a_line_of_many_megabytes() -> None:
    junk = "x" * 3_000_000
    found = explain(NOISE, f"{junk} {DEVICE_LIBRARY} {junk}", *[NOISE] * 40, UNDEFINED)
    assert first(found) == ("device-library-not-found", 2)
    assert found.findings[1].lines[0].number == 43
    assert len(found.findings[0].lines[0].text) <= 3 * WINDOW
    assert len(report.shown(found.findings[0].lines[0].text)) <= 300


def test_binary_junk_and_mixed_encodings() -> None:
    junk = bytes(range(256)) * 50
    log = b"".join(
        [
            junk,
            "\nfichier introuvable: été\n".encode("latin-1"),
            DEVICE_LIBRARY.encode(),
            b"\0\n",
            junk,
            b"\xff\xfe",
        ]
    )
    found = explain_blocks([log])
    assert first(found)[0] == "device-library-not-found"
    assert found.findings[0].lines[0].number == log[: log.index(b"clang")].count(b"\n") + 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_other_unicode_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(f"{NOISE}\r\n{DEVICE_LIBRARY}\r\n".encode(encoding))
    assert first(explain_file(path)) == ("device-library-not-found", 2)


def test_lines_that_parallel_jobs_mixed() -> None:
    mixed = []
    error = [
        "CMake Error at LoadHIP.cmake:55 (message):",
        "  No GPU arch specified for ROCm build.  Please use",
    ]
    for line in error:
        mixed += [NOISE, line, "b.cpp:1:1: warning: unused", NOISE]
    assert first(explain(*mixed)) == ("no-arch-given", 6)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
def test_compressed_logs(tmp_path: Path, pack: object) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(f"{NOISE}\n{DEVICE_LIBRARY}\n".encode() * 1000))  # type: ignore[operator]
    found = explain_file(path)
    assert first(found) == ("device-library-not-found", 2)
    assert found.lines == 2000 and found.truncated is None


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_cut_off_compressed_log_is_read_as_far_as_it_goes(tmp_path: Path, pack: object) -> None:
    path = tmp_path / "log"
    dice = "".join(f"{at * 7919 % 100003}\n" for at in range(300_000))
    packed = pack(f"{DEVICE_LIBRARY}\n{dice}".encode())  # type: ignore[operator]
    path.write_bytes(packed[: len(packed) * 2 // 3])
    found = explain_file(path)
    assert found.truncated
    assert "could be read to line" in "\n".join(report.text(found))


def test_damaged_compressed_bytes_end_no_program(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for head in (b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"):
        path.write_bytes(head + b"junk" * 100)
        assert explain_file(path).truncated


def test_a_log_made_to_waste_time_ends() -> None:
    """Every line holds anchors of many rules, and none matches."""
    anchors = " ".join(sorted({a for rule in all_rules() for w in rule.match for a in w.anchors})[:200])
    explain_blocks([f"{anchors}\n".encode() * 100])
    explain_blocks([b"undefined reference to " * 30_000])
    explain_blocks([b"\x1b" * 100_000 + b"\x1b[" * 100_000 + b"\x1b]8;;" * 10_000])


def test_memory_stays_bounded() -> None:
    block = (NOISE + "\n").encode() * 10_000
    long_line = b"x" * 1_000_000

    def blocks() -> Iterator[bytes]:
        for _ in range(30):
            yield block
            yield long_line

    explain_blocks([block])
    tracemalloc.start()
    explain_blocks(blocks())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 << 20


# Where blocks end makes no difference

PIECES = st.sampled_from(
    [
        DEVICE_LIBRARY,
        UNDEFINED,
        KILLED,
        NOISE,
        "CMake Error at a.cmake:1 (find_package):",
        "CMake Warning at a.cmake:1 (find_package):",
        '  Could not find a package configuration file provided by "hip" with any of',
        "  the following names:",
        "gcnArchName: gfx90a",
        "\x1b[31mclang: \x1b[1merror: cannot find ROCm\x1b[0m device library",
        "\x1b]8;;https://example.org\x1b\\text\x1b]8;;\x1b\\",
        "Attempting to use hipBLASLt on an unsupported architecture! Overriding",
        "\r 10 %\r 20 %",
        "x" * (2 * WINDOW),
        "y" * (WINDOW - 60) + DEVICE_LIBRARY + "z" * WINDOW,
        "\N{LEFT SINGLE QUOTATION MARK}é\0",
        "",
    ]
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(PIECES, max_size=25),
    st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
    st.lists(st.integers(1, 9000), min_size=1, max_size=8),
)
def test_block_borders_never_change_the_result(pieces: list[str], end: str, sizes: list[int]) -> None:
    log = end.join(pieces).encode()

    def blocks() -> Iterator[bytes]:
        at = turn = 0
        while at < len(log):
            size = sizes[turn % len(sizes)]
            yield log[at : at + size]
            at, turn = at + size, turn + 1

    assert explain_blocks(blocks()) == explain_blocks([log])


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    found = explain_blocks([data[:7], data[7:]])
    assert found.size == len(data)
    assert found.lines == data.count(b"\n") + (not data.endswith(b"\n") and bool(data)) or b"\x1b" in data
    for line in report.text(found, every=True):
        assert line.isprintable()


# The command


def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "channel_tools", "explain", *words]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


def test_the_command_reads_a_file_and_standard_input(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"{NOISE}\n{DEVICE_LIBRARY}\n")
    for done in (run(str(log)), run("-", stdin=log.read_bytes()), run(stdin=log.read_bytes())):
        assert done.returncode == 0
        text = done.stdout.decode()
        for part in (
            "line 2: clang: error",
            "why:",
            "fix:",
            "fix with plain pip and CMake:",
            "sure",
            "ROCm/TheRock#785",
        ):
            assert part in text


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_lines_that_the_terminal_has_no_signs_for_are_shown(
    tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    log = tmp_path / "\udcff.log"
    log.write_bytes(f"  ╰─▶ \u2603 {DEVICE_LIBRARY} ".encode() + b"\xff\n")
    done = run(str(log))
    assert done.returncode == 0 and b"clang: error" in done.stdout and not done.stderr


def test_the_json_form(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"clang version 19.1.7\n{DEVICE_LIBRARY}\n")
    found = json.loads(run("--json", str(log)).stdout)
    assert found["version"] == 1 and found["verdict"] == "explained"
    assert found["context"] == {"clang": ["19.1.7"]}
    assert found["log"] == {"lines": 2, "bytes": log.stat().st_size, "truncated": None}
    finding = found["findings"][0]
    assert finding["rule"] == "device-library-not-found" and finding["category"] == "missing ROCm path"
    assert finding["lines"] == [{"number": 2, "text": DEVICE_LIBRARY}]
    assert finding["harmless"] is False and finding["confidence"] == "sure" and finding["fix"]


def test_require_ends_with_its_own_code() -> None:
    assert run("--require", stdin=b"all is well\n").returncode == 82
    assert run("--require", stdin=DEVICE_LIBRARY.encode()).returncode == 0


def test_a_log_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        done = run(str(path))
        assert done.returncode == 1 and b"Traceback" not in done.stderr
        assert done.stderr.startswith(b"error: ") and str(path).encode() in done.stderr
    with pytest.raises(ChannelToolsError):
        explain_file(tmp_path)


def test_a_failed_build_shows_nothing_where_nothing_is_found(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert explained(log) == []
    log.write_text("all is well\n")
    assert explained(log) == []
    log.write_text(f"{DEVICE_LIBRARY}\n")
    assert "missing ROCm path" in explained(log)[0]
