"""Reports as SARIF 2.1.0, the form in which CI systems take results of checks.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html. A file in a package is an artifact
nested in the package's (section 3.24), so that an offset counts from the start of the file that it is in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from channel_tools import __version__
from channel_tools.verify.catalogue import CATALOGUE, Rule, rule_of
from channel_tools.verify.findings import Fault
from channel_tools.verify.report import FileReport, Report

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_RULES: Final = tuple(CATALOGUE.values())
_INDEX_OF: Final = {rule.id: index for index, rule in enumerate(_RULES)}
_FOLDERS: Final = ("folder", "prefix", "extracted package")
_SAFE: Final = "/!@+=~,:"
_MAX_RESULTS: Final = 25_000  # what GitHub takes of one run
_FINGERPRINT: Final = "rocmChannelFault/v1"


def to_sarif(reports: Sequence[Report]) -> dict[str, Any]:
    """One run with a result for each fault; a package without faults is only in ``artifacts``."""
    run = _Run()
    for report in reports:
        run.add(report)
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "rocm-channel verify",
                        "semanticVersion": __version__,
                        "rules": [_rule(rule) for rule in _RULES],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "artifacts": run.artifacts,
                "results": run.results,
                "properties": {"omittedResults": run.omitted},
            }
        ],
    }


class _Run:
    def __init__(self) -> None:
        self.artifacts: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []
        self.omitted = 0

    def add(self, report: Report) -> None:
        container: dict[str, Any] = {
            "location": {"uri": _uri(report.path)},
            "length": report.size,
            "roles": ["analysisTarget"],
            "properties": {
                "kind": report.kind,
                "declared": list(report.declared),
                "targets": list(report.targets()),
                "verdict": report.verdict,
                "reportDigest": report.digest(),
            },
        }
        if report.kind in _FOLDERS:
            container["roles"].append("directory")
            del container["length"]
        if report.sha256:
            container["hashes"] = {"sha-256": report.sha256}
        parent = self._artifact(container)
        for fault in report.faults:
            self._result(report, None, fault, parent)
        for file in report.files:
            if not file.faults:
                continue
            if len(self.results) + len(file.faults) > _MAX_RESULTS:
                self.omitted += len(file.faults)
                continue
            index = parent if report.kind == "file" else self._member(report, file, parent)
            for fault in file.faults:
                self._result(report, file, fault, index)

    def _artifact(self, artifact: dict[str, Any]) -> int:
        self.artifacts.append(artifact)
        return len(self.artifacts) - 1

    def _member(self, report: Report, file: FileReport, parent: int) -> int:
        artifact: dict[str, Any] = {
            "length": file.size,
            "properties": {"kind": file.kind, "targets": list(file.targets)},
        }
        if report.kind in _FOLDERS:
            return self._artifact({"location": {"uri": _uri(f"{report.path}/{file.path}")}, **artifact})
        inside = {"uri": quote(f"/{file.path}", safe=_SAFE)}
        return self._artifact({"location": inside, "parentIndex": parent, **artifact})

    def _result(self, report: Report, file: FileReport | None, fault: Fault, index: int) -> None:
        rule = rule_of(fault)
        place = None if file is None or report.kind == "file" else file.path
        physical: dict[str, Any] = {
            "artifactLocation": {"uri": self.artifacts[index]["location"]["uri"], "index": index}
        }
        if fault.offset is not None:
            physical["region"] = {"byteOffset": fault.offset}
        whole = f"{report.path}: {place}" if place else report.path
        self.results.append(
            {
                "ruleId": rule.id,
                "ruleIndex": _INDEX_OF[rule.id],
                "level": "error",
                "message": {"text": f"{whole}: {fault}"},
                "locations": [
                    {
                        "physicalLocation": physical,
                        "logicalLocations": [{"fullyQualifiedName": whole, "kind": "resource"}],
                    }
                ],
                "partialFingerprints": {_FINGERPRINT: _fingerprint(report, place, fault, rule)},
            }
        )


def _fingerprint(report: Report, place: str | None, fault: Fault, rule: Rule) -> str:
    """The same for the same fault of another build of the package."""
    name = report.package.name if report.package else Path(report.path).name
    parts = (rule.id, name, place or "", fault.what)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.id.split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.meaning},
        "defaultConfiguration": {"level": "error"},
    }


def _uri(path: str) -> str:
    """A path of the machine as a URI: absolute ones with their scheme, others as a reference."""
    quoted = quote(path, safe=_SAFE)
    if path.startswith("/"):
        return f"file://{quoted}"
    return f"./{quoted}" if ":" in path.partition("/")[0] else quoted
