"""Compiler command lines: the optimisation level and the GPU targets that take effect in each.

GCC and clang let the last ``-O`` win. clang hands ``-Xclang -O3`` to its inner compiler, where it wins over
all others, and ``-Xarch_device -O3`` counts for device code alone (seen in ``clang++ -###``, clang 19).
``hipcc`` adds ``-O3`` of its own where there is no ``-O`` (hipBin_amd.h in
https://github.com/ROCm/llvm-project).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

_PLAIN = r"[^ \t\r\n'\"\\]+"
_SINGLE = r"'[^']*'"
_DOUBLE = r'"(?:[^"\\]|\\.)*"'
_ESCAPED = r"\\."
_PART = re.compile(f"{_PLAIN}|{_SINGLE}|{_DOUBLE}|{_ESCAPED}", re.DOTALL)
_WORD = re.compile(rf"[ \t\r\n]*((?:{_PLAIN}|{_SINGLE}|{_DOUBLE}|{_ESCAPED})+)", re.DOTALL)
_ESCAPE_IN_DOUBLE = re.compile(r'\\([$`"\\\n])')
_CHAIN: Final = frozenset({"&&", "||", ";", "|"})

_LEVEL = re.compile(r"(?:-O|--optimize=)(?P<level>[0-9]+|s|z|g|fast|)|--optimize")
_ARCH = re.compile(r"--(?P<no>no-)?(?:offload-arch|cuda-gpu-arch|amdgpu-target)=(?P<targets>.*)", re.DOTALL)
_NO_DEVICE: Final = frozenset({"--cuda-host-only", "--offload-host-only"})
_HIP_SUFFIXES: Final = (".hip",)
_HIPCC_SUFFIXES: Final = (".hip", ".cu", ".cpp", ".cxx", ".cc", ".C")
_ASSEMBLER_SUFFIXES: Final = (".s", ".S", ".asm", ".sx")
# Options whose value is the next word, which is then no option of the compiler proper.
_TAKES_VALUE: Final = frozenset(
    (
        *("-o", "-x", "-D", "-U", "-I", "-L", "-l", "-F", "-B", "-T", "-u", "-z", "-e"),
        *("-MF", "-MT", "-MQ", "-MJ", "-arch", "-target", "-mllvm", "--param", "-wrapper", "-aux-info"),
        *("-include", "-imacros", "-isystem", "-cxx-isystem", "-iquote", "-idirafter", "-isysroot"),
        *("-iprefix", "-iwithprefix", "-iwithprefixbefore", "-imultilib", "-imultiarch"),
        *("-dumpbase", "-dumpbase-ext", "-dumpdir", "-main-file-name", "--serialize-diagnostics"),
        *("-Xlinker", "-Xassembler", "-Xpreprocessor", "-Xopenmp-target"),
        *("-Xptxas", "-Xnvlink", "-Xcuda-ptxas", "-Xcuda-fatbinary"),
    )
)
_INNER: Final = ("-Xclang",)
_HOST_COMPILER: Final = ("-Xcompiler", "--compiler-options")
_OPTION_FILES: Final = ("--config", "--options-file", "-optf")


@dataclass(frozen=True)
class Unit:
    """One compiler call.

    ``name`` is its source file, ``""`` where the record does not say. ``levels`` are the optimisation levels
    that take effect in it, spelled ``-O2``: one, or two where host and device differ, or all that occur where
    the record keeps no order. ``targets`` are the GPU targets named; ``is_hip`` tells device code that needs
    one. ``options`` are all words that are options, ``option_files`` files with more options, which no one
    kept.
    """

    name: str
    levels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    is_hip: bool = False
    options: tuple[str, ...] = ()
    option_files: tuple[str, ...] = ()

    def uses(self, flag: str) -> bool:
        """Is this flag in force? ``-Ofast`` implies ``-O3``; a later ``-fno-...`` takes ``-f...`` back."""
        level = optimisation_level(flag)
        if level is not None:
            return level in self.levels or (level == "-O3" and "-Ofast" in self.levels)
        active = flag == "-ffast-math" and "-Ofast" in self.levels
        opposite = _opposite(flag)
        for option in self.options:
            if option == flag:
                active = True
            elif option == opposite:
                active = False
        return active


def _opposite(flag: str) -> str | None:
    letter, rest = flag[:2], flag[2:]
    if letter not in ("-f", "-m", "-W"):
        return None
    return letter + rest[3:] if rest.startswith("no-") else f"{letter}no-{rest}"


def optimisation_level(word: str) -> str | None:
    """``-O`` is ``-O1``, ``-O9`` is ``-O3``, ``--optimize=2`` is ``-O2``; None for any other word."""
    match = _LEVEL.fullmatch(word)
    if match is None:
        return None
    level = match["level"] or "1"
    return f"-O{min(int(level[:9]), 3)}" if level.isdecimal() else f"-O{level}"


def split_command(text: str) -> list[str]:
    """Split a command as a POSIX shell does, without expanding anything.

    :raises ValueError: a quotation mark or backslash without its partner
    """
    words = []
    position = 0
    while match := _WORD.match(text, position):
        words.append("".join(map(_unquote, _PART.findall(match[1]))))
        position = match.end()
    rest = text[position:].strip(" \t\r\n")
    if rest:
        raise ValueError(f"quoting without an end: {rest[:60]}")
    return words


def _unquote(part: str) -> str:
    if part[0] == "'":
        return part[1:-1]
    if part[0] == '"':
        return _ESCAPE_IN_DOUBLE.sub(lambda match: match[1].strip("\n"), part[1:-1])
    if part[0] == "\\":
        return part[1:].strip("\n")
    return part


@dataclass
class _Call:
    """What the words of a call have said so far."""

    host: str | None = None
    device: str | None = None
    inner: str | None = None
    language: str | None = None
    targets: dict[str, None] = field(default_factory=dict)
    host_only: bool = False
    inputs: list[tuple[str, str | None]] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    option_files: list[str] = field(default_factory=list)


def read_command(words: Sequence[str], name: str = "") -> Unit:
    """Read one compiler call; the words in front of the options may be launchers and the compiler."""
    words = _compiler_part(words)
    call = _Call()
    is_hipcc = any(_base_name(word).startswith("hipcc") for word in _leading(words))
    left = iter(words)
    for word in left:
        _take(call, word, left)
    sources = [source for source, _ in call.inputs]
    is_hip = not call.host_only and any(
        language == "hip"
        or (language is None and source.endswith(_HIPCC_SUFFIXES if is_hipcc else _HIP_SUFFIXES))
        for source, language in call.inputs
    )
    default = "-O3" if is_hipcc else "-O0"
    sides = [call.host, call.device] if is_hip else [call.host]
    levels = dict.fromkeys(call.inner or side or default for side in sides)
    if any(source.endswith(_ASSEMBLER_SUFFIXES) for source in (sources[-1:] or [name])):
        levels = {}
    return Unit(
        name=name or next(iter(sources[-1:]), ""),
        levels=tuple(levels),
        targets=tuple(call.targets),
        is_hip=is_hip,
        options=tuple(call.options),
        option_files=tuple(call.option_files),
    )


def _take(call: _Call, word: str, left: Iterator[str]) -> None:
    """Understand one word, with the value behind it where it takes one."""
    key, _, joined = word.partition("=")
    if word.startswith("@") and len(word) > 1:
        call.option_files.append(word)
    elif key in _OPTION_FILES:
        call.option_files.append(f"{key} {joined or next(left, '')}")
    elif key in _INNER:
        value = joined or next(left, "")
        call.options.append(value)
        call.inner = optimisation_level(value) or call.inner
    elif word.startswith("-Xarch_"):
        _take_for_one_side(call, word.removeprefix("-Xarch_"), next(left, ""))
    elif key in _HOST_COMPILER:
        for value in re.split(r"[,\s]+", joined or next(left, "")):
            call.options.append(value)
            call.host = optimisation_level(value) or call.host
    elif word in _TAKES_VALUE or word.startswith(("-Xoffload-linker", "-Xopenmp-target=")):
        value = next(left, "")
        if word == "-x":
            call.language = None if value == "none" else value
    elif word.startswith("-x") and len(word) > 2:
        call.language = None if word[2:] == "none" else word[2:]
    elif word.startswith("-"):
        _take_option(call, word)
    else:
        call.inputs.append((word, call.language))


def _take_option(call: _Call, word: str) -> None:
    call.options.append(word)
    level = optimisation_level(word)
    if level:
        call.host = call.device = level
    match = _ARCH.fullmatch(word)
    if match and match["no"]:
        for target in match["targets"].split(","):
            if target == "all":
                call.targets.clear()
            call.targets.pop(target, None)
    elif match:
        call.targets.update(dict.fromkeys(filter(None, match["targets"].split(","))))
    call.host_only |= word in _NO_DEVICE


def _take_for_one_side(call: _Call, side: str, value: str) -> None:
    call.options.append(value)
    level = optimisation_level(value)
    if level and side.startswith(("device", "gfx", "amdgcn")):
        call.device = level
    elif level:
        call.host = level


def _compiler_part(words: Sequence[str]) -> Sequence[str]:
    """The part of a chain of commands that compiles, without what ``cmake -E`` puts in front of it."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word in _CHAIN:
            parts.append([])
        else:
            parts[-1].append(word)
    part = next((part for part in parts if "-c" in part), max(parts, key=len))
    if "__run_co_compile" in part and "--" in part:
        return part[part.index("--") + 1 :]
    return [word for word in part if word != "--"]


def _leading(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if word.startswith("-"):
            return
        yield word


def _base_name(word: str) -> str:
    return word.rpartition("/")[2]


def read_recorded(lines: Sequence[str]) -> list[Unit]:
    """Units of the section ``.GCC.command.line`` of one file.

    clang writes one command a unit, quoted for a shell and with response files put in. GCC 11 and newer write
    ``GNU C++17 11.3.0 -mtune=generic -O2 ...``, one line for all units with the same options. Older GCC wrote
    each option as a line, and the linker merged those of all units: which of them belong together is lost.

    :raises ValueError: a command that no shell could split
    """
    units = []
    loose: list[str] = []
    for line in lines:
        if line.startswith("GNU "):
            units.append(read_command([word for word in line.split() if word.startswith("-")]))
        elif line.startswith("-"):
            loose += line.split()
        elif " " in line:
            units.append(read_command(split_command(line)))
    if loose:
        levels = dict.fromkeys(level for level in map(optimisation_level, loose) if level)
        units.append(Unit("", tuple(levels) or ("-O0",), options=tuple(loose)))
    return units
