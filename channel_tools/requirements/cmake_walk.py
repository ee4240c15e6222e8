"""Following a project's CMake files as a configure of one kind would, without running anything."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from channel_tools.requirements.cmake_text import Command, Condition, expand, read_commands

_ADDRESSES = ("GIT_REPOSITORY", "URL", "SVN_REPOSITORY", "HG_REPOSITORY")
_DOWNLOADERS = frozenset({"fetchcontent_declare", "fetchcontent_populate", "externalproject_add"})
_FETCHING_PROGRAM = re.compile(r"\b(git|curl|wget|pip|pip3|svn|hg)\b")
_NO, _MAYBE, _YES = 0, 1, 2


@dataclass(frozen=True)
class Download:
    """Something that a configure would fetch. ``certain``: whatever the rest of the conditions say."""

    name: str
    address: str
    revision: str
    where: str
    certain: bool

    def to_json(self) -> dict[str, str | bool]:
        return dict(vars(self))


@dataclass(frozen=True)
class Gate:
    """A compiler that a configure ends at: the condition as written, and the message."""

    condition: str
    message: str
    where: str

    def to_json(self) -> dict[str, str]:
        return dict(vars(self))


@dataclass(frozen=True)
class _Branch:
    """One ``if``: whether the branch at hand is taken, whether one after it may be, and its condition."""

    outer: int
    reach: int
    left: int
    condition: str


@dataclass
class CMakeWalk:
    """A walk from ``CMakeLists.txt`` through the files that it includes.

    ``files`` is text by path in the source tree, ``variables`` what is known before, ``environment`` the
    names of the environment variables that are set. After :meth:`run`, ``variables`` has the last value of
    each variable that a branch sets which may be taken, and ``texts`` every argument of such commands.
    """

    files: Mapping[str, str]
    variables: dict[str, str]
    environment: frozenset[str] = frozenset()
    downloads: list[Download] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def run(self, path: str = "CMakeLists.txt", reach: int = _YES) -> None:
        if path in self._seen or path not in self.files:
            return
        self._seen.add(path)
        branches: list[_Branch] = []
        inside = ""
        for command in read_commands(self.files[path]):
            if inside:
                inside = "" if command.name == f"end{inside}" else inside
            elif command.name in ("function", "macro"):
                inside = command.name
            elif command.name in ("if", "elseif", "else", "endif"):
                self._branch(command, branches, reach)
            else:
                now = branches[-1].reach if branches else reach
                if now == _NO:
                    continue
                if command.name == "return" and now == _YES:
                    return
                self._command(command, path, now, branches)

    def _branch(self, command: Command, branches: list[_Branch], reach: int) -> None:
        if command.name == "endif":
            branches[-1:] = []
            return
        if command.name == "if":
            outer = branches[-1].reach if branches else reach
            branches.append(_Branch(outer, _NO, outer, ""))
        if not branches:
            return
        before = branches[-1]
        value = True if command.name == "else" else self._value(command)
        taken = {True: before.left, None: min(before.left, _MAYBE), False: _NO}[value]
        left = {True: _NO, None: min(before.left, _MAYBE), False: before.left}[value]
        branches[-1] = _Branch(before.outer, taken, left, " ".join(_written(command)))

    def _value(self, command: Command) -> bool | None:
        return Condition(self.variables, self.environment).value(command.arguments)

    def _command(self, command: Command, path: str, reach: int, branches: Sequence[_Branch]) -> None:
        where = f"{path}:{command.line}"
        words = [expand(word, self.variables) for word in command.words]
        self.texts += words
        if command.name == "set" and words:
            self._set(words, reach)
        elif command.name == "list" and len(words) > 2 and words[0] == "APPEND":
            joined = ";".join(words[2:])
            old = self.variables.get(words[1])
            self.variables[words[1]] = f"{old};{joined}" if old else joined
        elif command.name == "include" and words:
            self.run(self._included(path, words[0]), reach)
        elif command.name in _DOWNLOADERS:
            self._declared(words, where, reach)
        elif command.name == "file" and words[:1] == ["DOWNLOAD"]:
            _, address, file, *_ = [*words, "", ""]
            self.downloads.append(Download(posixpath.basename(file), address, "", where, reach == _YES))
        elif command.name == "execute_process" and _fetches(words):
            self.downloads.append(Download(words[1], " ".join(words), "", where, reach == _YES))
        elif command.name == "message" and words[:1] == ["FATAL_ERROR"]:
            condition = next(
                (b.condition for b in reversed(branches) if "COMPILER_VERSION" in b.condition), ""
            )
            if condition:
                self.gates.append(Gate(condition, "".join(words[1:]), where))

    def _set(self, words: list[str], reach: int) -> None:
        name, values = words[0], words[1:]
        if "CACHE" in values:
            forced = values[-1] == "FORCE"
            values = values[: values.index("CACHE")]
            if name in self.variables and not forced:
                return
        if values[-1:] == ["PARENT_SCOPE"]:
            values = values[:-1]
        self.variables[name] = ";".join(values)

    def _included(self, path: str, name: str) -> str:
        folder = posixpath.dirname(path)
        for variable in (
            "${CMAKE_CURRENT_LIST_DIR}/",
            "${CMAKE_CURRENT_SOURCE_DIR}/",
            "${CMAKE_SOURCE_DIR}/",
        ):
            if name.startswith(variable):
                here = folder if "LIST" in variable else ""
                return posixpath.normpath(posixpath.join(here, name.removeprefix(variable)))
        return posixpath.normpath(name)

    def _declared(self, words: list[str], where: str, reach: int) -> None:
        keys = {key: words[i + 1] for i, key in enumerate(words[:-1]) if key in (*_ADDRESSES, "GIT_TAG")}
        address = next((keys[key] for key in _ADDRESSES if key in keys), None)
        if address is not None:
            revision = keys.get("GIT_TAG", "")
            self.downloads.append(Download(words[0], address, revision, where, reach == _YES))


def _written(command: Command) -> list[str]:
    return [f'"{argument.text}"' if argument.quoted else argument.text for argument in command.arguments]


def _fetches(words: list[str]) -> bool:
    text = " ".join(words)
    return bool(_FETCHING_PROGRAM.search(text)) and any(
        w in words for w in ("clone", "fetch", "install", "-O")
    )
