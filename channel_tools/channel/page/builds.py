"""The builds that the channel page shows, gathered from indexes, yanked entries and release manifests.

Everything here may come from a package that somebody else made: a value of the wrong type counts as absent,
and text is cut and freed of control characters before it reaches the template, which escapes it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE, is_package, label_of
from channel_tools.channel.release import Release, ReleaseFile
from channel_tools.model.package import SUFFIXES

if TYPE_CHECKING:
    from channel_tools.channel.care.yanked import Yanked
    from channel_tools.channel.index.encoding import SubdirIndex

_LONGEST_TEXT = 400
_WORD = re.compile(r"(?P<arch>gfx[0-9a-f]{3,5})|rocm(?P<rocm>\d{2,4})|py(?P<major>\d)(?P<minor>\d{1,2})")
_MILLISECONDS = 1e11
"""Timestamps above this are milliseconds, as conda-build writes them; below, seconds."""


def plain(value: object, longest: int = _LONGEST_TEXT) -> str:
    """``value`` as one line without control characters and without marks that turn the writing direction."""
    text = " ".join(str(value).split()) if isinstance(value, (str, int, float)) else ""
    if not (text.isascii() and text.isprintable()):
        text = "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") else c for c in text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


@dataclass(frozen=True)
class Variant:
    """What a build is for; None where it does not matter."""

    arch: str | None = None
    rocm: str | None = None
    python: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        named = (
            self.arch,
            f"ROCm {self.rocm}" if self.rocm else None,
            f"Python {self.python}" if self.python else None,
        )
        return tuple(word for word in named if word) or ("any machine",)

    @property
    def text(self) -> str:
        return " · ".join(self.words)

    @cached_property
    def order(self) -> tuple[Any, ...]:
        """The newest ROCm release first, then by arch and Python."""
        newest_first = tuple(-part for part in _numbers(self.rocm or ""))
        return (self.rocm is None, newest_first, self.arch or "~", _numbers(self.python or ""))


@dataclass(frozen=True)
class Yank:
    """Why a build was taken out of the index, by whom and when (ISO 8601)."""

    reason: str
    who: str
    when: str


@dataclass(frozen=True)
class Build:
    """One package file. ``size`` in bytes, ``made`` in seconds since 1970."""

    key: str
    name: str
    version: str
    build: str
    number: int
    variant: Variant
    size: int | None
    made: float | None
    verdict: str | None
    """``pass`` or ``fail`` as a release manifest has it for exactly this content, else None."""
    attestation: str | None
    """sha256 of the attestation bundles."""
    yank: Yank | None = None

    @property
    def file(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def selects(self) -> bool:
        """Is it one of the two packages that say for which machine an environment is?"""
        return self.name in (ARCH_PACKAGE, ROCM_PACKAGE)

    @property
    def age_key(self) -> tuple[Any, ...]:
        """Sorts older builds of a package first."""
        return (*self.release_key, self.made or 0.0, self.key)

    @cached_property
    def release_key(self) -> tuple[Any, ...]:
        """Sorts by version and build number."""
        from rattler import Version

        try:
            version: tuple[Any, ...] = (1, Version(self.version))
        except Exception:  # whatever the library raises for a version that is none
            version = (0, self.version)
        return (*version, self.number)


def gather(
    indexes: Mapping[str, SubdirIndex], yanked: Yanked, releases: Sequence[Release]
) -> dict[str | None, list[Build]]:
    """Every build by label (None: the main channel), yanked ones included."""
    known = _Known(indexes, releases)
    found: dict[str | None, list[Build]] = {}
    for subdir, index in sorted(indexes.items()):
        for file, record in index.records.items():
            key = f"{subdir}/{file}"
            found.setdefault(label_of(key), []).append(known.build(key, record, None))
    for key, entry in _yanked_entries(indexes, yanked):
        yank = Yank(
            plain(entry.get("reason")) or "no reason is recorded",
            plain(entry.get("who")),
            plain(entry.get("when"), 40),
        )
        kept = entry.get("record")
        found.setdefault(label_of(key), []).append(
            known.build(key, kept if isinstance(kept, Mapping) else {}, yank)
        )
    return found


def _yanked_entries(
    indexes: Mapping[str, SubdirIndex], yanked: Yanked
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yanked files with their entries, also those that only an index lists as removed."""
    removed = {f"{subdir}/{file}" for subdir, index in indexes.items() for file in index.removed}
    for key in sorted(removed | {key for key in yanked.entries if is_package(key)}):
        yield key, yanked.entries.get(key, {})


class _Known:
    """What the whole channel tells about a single record."""

    def __init__(self, indexes: Mapping[str, SubdirIndex], releases: Sequence[Release]) -> None:
        self.files: dict[tuple[str, str], ReleaseFile] = {}
        for release in sorted(releases, key=lambda release: release.created):
            for file in release.files:
                self.files[file.key, file.sha256] = file
        self._variants: dict[tuple[str | None, ...], Variant] = {}
        self.releases = {
            version.replace(".", ""): version
            for index in indexes.values()
            for record in index.records.values()
            if record.get("name") == ROCM_PACKAGE and (version := plain(record.get("version"), 20))
        }

    def build(self, key: str, record: Mapping[str, Any], yank: Yank | None) -> Build:
        file = key.rpartition("/")[2]
        named = _name_parts(file)
        build = plain(record.get("build")) or named[2]
        listed = self.files.get((key, str(record.get("sha256"))))
        verdict = (listed.verify or {}).get("verdict") if listed else None
        attestation = record.get("attestations_sha256")
        return Build(
            key=key,
            name=plain(record.get("name"), 120) or named[0],
            version=plain(record.get("version"), 80) or named[1],
            build=build,
            number=int(_number(record.get("build_number")) or 0),
            variant=self.variant(build, record.get("depends"), listed),
            size=_size(record.get("size")),
            made=_seconds(record.get("timestamp")) or _seconds(record.get("indexed_timestamp")),
            verdict=verdict if verdict in ("pass", "fail") else None,
            attestation=plain(attestation, 64) if isinstance(attestation, str) else None,
            yank=yank,
        )

    def variant(self, build: str, depends: object, listed: ReleaseFile | None) -> Variant:
        """By the release manifest, else by the build string (``rocm72_gfx942_py312_h1a2b3c4_0``)."""
        arch = rocm = python = None
        for word in build.split("_"):
            match = _WORD.fullmatch(word)
            if match is None:
                continue
            if match["arch"]:
                arch = word
            elif match["rocm"]:
                rocm = _needed_release(depends) or self.releases.get(match["rocm"]) or _dotted(match["rocm"])
            else:
                python = f"{match['major']}.{match['minor']}"
        if listed is not None:
            arch, rocm, python = listed.arch or arch, listed.rocm or rocm, listed.python or python
        words = (arch, rocm, python)
        if words not in self._variants:
            self._variants[words] = Variant(*(plain(word, 20) if word else None for word in words))
        return self._variants[words]


def _needed_release(depends: object) -> str | None:
    """Release in the dependency ``rocm-userspace 7.2.*``."""
    for spec in depends if isinstance(depends, (list, tuple)) else ():
        if isinstance(spec, str) and (match := re.match(rf"{ROCM_PACKAGE} =*(\d+\.\d+)(\.\*)?$", spec)):
            return match[1]
    return None


def _dotted(digits: str) -> str:
    """``7.2`` of ``72``, ``7.14`` of ``714``, ``10.0`` of ``100``: nothing else says which one it is."""
    major = 2 if digits[0] in "12" else 1
    return f"{digits[:major]}.{digits[major:] or '0'}"


def _name_parts(file: str) -> tuple[str, str, str]:
    stem = next((file.removesuffix(suffix) for suffix in SUFFIXES if file.endswith(suffix)), file)
    parts = [plain(part, 120) for part in stem.rsplit("-", 2)]
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else (plain(stem), "", "")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d{1,6}", text))


def _number(value: object) -> float | None:
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if usable else None  # type: ignore[arg-type]


def _size(value: object) -> int | None:
    size = _number(value)
    return None if size is None else int(size)


def _seconds(value: object) -> float | None:
    seconds = _number(value)
    if seconds and seconds > _MILLISECONDS:
        seconds /= 1000
    return seconds if seconds and seconds < _MILLISECONDS else None
