"""The channel page: one static ``index.html``, made at publish, that needs no server and no JavaScript.

It loads nothing from anywhere: style and script stand in it, and its Content-Security-Policy allows these two
by their hashes and nothing else. The script only adds what HTML cannot do: filters, a choice, copying.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE
from channel_tools.channel.page.builds import Build, gather, plain
from channel_tools.channel.page.commands import machines
from channel_tools.channel.page.matrix import Row, tables
from channel_tools.channel.release import Release
from channel_tools.channel.settings import Settings

if TYPE_CHECKING:
    from channel_tools.channel.care.yanked import Yanked
    from channel_tools.channel.index.encoding import SubdirIndex


def render_page(
    settings: Settings,
    indexes: Mapping[str, SubdirIndex],
    yanked: Yanked,
    releases: Sequence[Release],
    now: float,
) -> bytes:
    """The page of a channel, as UTF-8.

    :param indexes: by subdir key, those of the labels included
    :param now: seconds since 1970, shown as the time of the page
    """
    found = gather(indexes, yanked, releases)
    main = found.get(None, [])
    labels = {label: builds for label, builds in found.items() if label is not None}
    archs, rocms = _archs(main), _releases(main)
    with_code, without_code = tables(main)
    offered = machines(settings, labels, *_choices(main), main)
    numbers: dict[str, list[int]] = {}
    for number, machine in enumerate(offered, 1):
        for name in machine.packages:
            numbers.setdefault(name, []).append(number)
    everything = [build for builds in found.values() for build in builds]
    values = {
        "settings": settings,
        "name": plain(settings.name, 80) or "channel",
        "link": settings.url if urlsplit(settings.url or "").scheme in ("http", "https") else None,
        "with_code": with_code,
        "without_code": without_code,
        "archs": archs,
        "rocms": rocms,
        "arch_numbers": {arch: number for number, arch in enumerate(archs)},
        "rocm_numbers": {rocm: number for number, rocm in enumerate(rocms)},
        "selectors": sorted((b for b in main if b.selects and b.yank is None), key=lambda b: b.key),
        "labels": {label: sorted(labels[label], key=lambda b: b.key) for label in sorted(labels)},
        "machines": offered,
        "packages": sorted(numbers.items()),
        "yanked": _yanked_newest_first(everything),
        "releases": sorted(releases, key=lambda release: release.created, reverse=True),
        "builds": sum(build.yank is None for build in main),
        "words": _words(settings, [*with_code.rows, *without_code.rows]),
        "now": now,
    }
    return _template_page(values).encode()


def _words(settings: Settings, rows: Sequence[Row]) -> set[str]:
    """Words of the legend that the tables use."""
    places = [place for row in rows for cell in row.cells for place in cell]
    shown = [place.shown for place in places if place.shown]
    shown += [build for row in rows for build in row.older if build.yank is None]
    words = {{"pass": "verified", "fail": "verify failed"}.get(b.verdict or "", "no verdict") for b in shown}
    words |= {"attested" for build in shown if build.attestation}
    if settings.attestations != "off":
        words |= {"not attested" for build in shown if not build.attestation}
    return words | {"behind" for place in places if place.behind}


def _yanked_newest_first(builds: Sequence[Build]) -> list[Build]:
    dated = [(build.yank.when, build.key, build) for build in builds if build.yank]
    return [build for *_, build in sorted(dated, key=lambda entry: entry[:2], reverse=True)]


def _archs(builds: Sequence[Build]) -> list[str]:
    return sorted({build.variant.arch for build in builds if build.variant.arch})


def _releases(builds: Sequence[Build]) -> list[str]:
    """ROCm releases, the newest first."""
    named = {(build.variant.rocm, build.variant.order) for build in builds if build.variant.rocm}
    newest_first = sorted(named, key=lambda pair: pair[1][1])
    return list(dict.fromkeys(rocm for rocm, _ in newest_first if rocm))


def _choices(builds: Sequence[Build]) -> tuple[list[str], list[str]]:
    """Archs and releases that the main channel's two selecting packages stand for."""
    there = [build for build in builds if build.yank is None]
    archs = {b.variant.arch for b in there if b.name == ARCH_PACKAGE and b.variant.arch}
    versions = {b.version for b in there if b.name == ROCM_PACKAGE}
    newest_first = sorted(versions, key=_version_numbers, reverse=True)
    return sorted(archs), newest_first


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal() and len(part) < 7)


def _template_page(values: Mapping[str, Any]) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {
        "plain": plain,
        "size": _size_text,
        "day": _day,
        "moment": _moment,
        "href": _href,
        "shell": shlex.quote,
    }
    arch_numbers, rocm_numbers = range(len(values["archs"])), range(len(values["rocms"]))
    style = _part("page.css") + "".join(
        f".only-{kind}{number} .{kind}:not(.{kind}{number}){{display:none}}\n"
        for kind, numbers in (("g", arch_numbers), ("r", rocm_numbers))
        for number in numbers
    )
    script = _part("page.js")
    policy = (
        f"default-src 'none'; style-src '{_csp_hash(style)}'; script-src '{_csp_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return environment.from_string(_part("page.html.j2")).render(
        values, policy=policy, style=Markup(style), script=Markup(script)
    )


def _part(name: str) -> str:
    return (resources.files("channel_tools.channel.page") / "parts" / name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    """As Content-Security-Policy level 2 names the content of an element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _href(key: str) -> str:
    """A link to a file of the channel that stays in it, whatever the name holds."""
    return "./" + quote(key, safe="/")


def _size_text(size: int | None) -> str:
    """``1.2 GB``: decimal units, as package indexes and disks have them."""
    if size is None:
        return "size unknown"
    amount, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 999.5 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    digits = 0 if units[0] == "B" or amount >= 9.95 else 1
    return f"{amount:.{digits}f} {units[0]}"


def _day(seconds: float | None) -> str:
    """``2026-11-30`` in UTC."""
    return "" if seconds is None else _utc(seconds).strftime("%Y-%m-%d")


def _moment(seconds: float) -> str:
    return _utc(seconds).strftime("%Y-%m-%d %H:%M UTC")


def _utc(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
