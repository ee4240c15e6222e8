"""Stand-ins for packages of other channels, for a solve where those channels cannot be read.

A stand-in has a name, versions and build strings taken from the very specs that ask for it, and no
dependencies: a solve with it tells whether our own packages fit together, and nothing about the others.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from channel_tools.channel.layout import SUBDIRS
from channel_tools.channel.transaction.change import Record

_VERSION = re.compile(r"\d[0-9A-Za-z._]*(?:\+[0-9A-Za-z._]+)?")


def missing_specs(records: Iterable[Record], wanted: Iterable[str]) -> dict[str, set[str]]:
    """What ``wanted`` names need, in the end, and no record provides: spec texts by name.

    Virtual packages are what a client finds on its host, so they are left out.
    """
    by_name: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_name[record["name"]].append(record)
    missing: dict[str, set[str]] = defaultdict(set)
    queue, seen = list(wanted), set(wanted)
    while queue:
        for record in by_name.get(queue.pop(), ()):
            for spec in record.get("depends", ()):
                name = _parts(spec)[0]
                if name in by_name:
                    if name not in seen:
                        seen.add(name)
                        queue.append(name)
                elif not name.startswith("__"):
                    missing[name].add(spec)
    return dict(missing)


def write_stand_ins(folder: Path, missing: Mapping[str, Iterable[str]]) -> str:
    """Make a channel of stand-ins, of their index alone; returns its URL."""
    packages = {}
    for name, specs in missing.items():
        for record in _records(name, specs):
            packages[f"{name}-{record['version']}-{record['build']}.conda"] = record
    for subdir in SUBDIRS:
        (folder / subdir).mkdir(parents=True, exist_ok=True)
        here = packages if subdir == "linux-64" else {}
        text = json.dumps({"info": {"subdir": subdir}, "packages": {}, "packages.conda": here})
        (folder / subdir / "repodata.json").write_text(text, encoding="utf-8")
    return folder.resolve().as_uri()


def _records(name: str, specs: Iterable[str]) -> list[dict[str, Any]]:
    versions, builds = {"0"}, {"0"}
    for spec in specs:
        _, version, build = _parts(spec)
        for literal in _VERSION.findall(version):
            known = literal.rstrip("._")
            versions |= {known, f"{known}.1"}
        if build:
            builds.add(build.replace("*", "0") if build.startswith("*") else build.replace("*", ""))
    return [
        {
            "name": name,
            "version": version,
            "build": build,
            "build_number": 0,
            "depends": [],
            "subdir": "linux-64",
            "sha256": "0" * 64,
            "size": 0,
        }
        for version in sorted(versions)
        for build in sorted(builds)
    ]


def _parts(spec: str) -> tuple[str, str, str]:
    """Name, version part and build part of a spec as packages write it: ``name [version [build]]``."""
    name = re.split(r"[\s=<>!~\[]", spec.strip(), maxsplit=1)[0]
    words = spec.strip().removeprefix(name).split()
    if len(words) > 1 and not words[-1].startswith(("<", ">", "=", "!", "~", "|", ",")):
        return name, " ".join(words[:-1]), words[-1]
    return name, " ".join(words), ""
