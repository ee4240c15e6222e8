"""What the commands say about sources: lines for people, dictionaries for ``--json``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from channel_tools.model.errors import ChannelToolsError, DamagedFileError, SourceError
from channel_tools.sources.fetch import Fetched
from channel_tools.sources.needed import Source, Use
from channel_tools.sources.store import Finding, Store

PLACES = {"folder": "the store's folder", "mirror": "SOURCE_MIRROR", "index": "the Python index"}
SHOWN_KEYS = {"rocm_version": "ROCm ", "rocm_arch": ""}


def mib(size: int | None) -> str:
    return "" if size is None else f"{size / (1 << 20):.1f} MiB"


def users(uses: Iterable[Use]) -> list[str]:
    """One line a package, with the ROCm releases and GPU archs among which it tells apart."""
    by_package: dict[str, dict[str, set[str]]] = {}
    for use in uses:
        keys = by_package.setdefault(f"{use.package} {use.version}", {})
        for key in SHOWN_KEYS:
            if key in use.variant:
                keys.setdefault(key, set()).add(use.variant[key])
    return [
        " ".join([package, *(f"{SHOWN_KEYS[key]}{','.join(sorted(values))}" for key, values in keys.items())])
        for package, keys in by_package.items()
    ]


def source_json(store: Store, source: Source) -> dict[str, Any]:
    state, size = store.state(source)
    return {
        "name": source.name,
        "sha256": source.sha256,
        "urls": list(source.urls),
        "state": state,
        "size": size,
        "needed_by": [
            {
                "package": use.package,
                "version": use.version,
                "stem": use.stem,
                "variant": dict(use.variant),
                "target_directory": use.target_directory or ".",
            }
            for use in source.uses
        ],
    }


def wanted_line(store: Store, source: Source) -> str:
    state, size = store.state(source)
    if state == "partial":
        return f"would go on with {source.name}, {mib(size)} are there"
    return f"would fetch {source.name}"


def fetched_line(fetched: Fetched) -> str:
    if fetched.error is not None:
        return f"failed    {fetched.source.name}"
    place = PLACES.get(fetched.place, fetched.url)
    return f"fetched   {fetched.source.name} from {place} ({mib(fetched.size)}, {fetched.seconds:.1f} s)"


def fetched_json(store: Store, fetched: Fetched) -> dict[str, Any]:
    there = fetched.error is None
    return {
        "name": fetched.source.name,
        "sha256": fetched.source.sha256,
        "status": fetched.status,
        "place": fetched.place or None,
        "url": fetched.url or None,
        "path": str(store.path(fetched.source.sha256)) if there else None,
        "size": fetched.size if there else None,
        "seconds": round(fetched.seconds, 1),
        "notes": list(fetched.notes),
    }


def finding_line(finding: Finding) -> str:
    line = f"{finding.state:<10} {finding.name} {mib(finding.size)}".rstrip()
    if finding.found is not None:
        return f"{line}: sha256 {finding.found} instead of {finding.sha256}, kept as {finding.path}"
    return f"{line}: needed by no recipe, {finding.path}" if finding.state == "orphaned" else line


def finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "state": finding.state,
        "name": finding.name,
        "sha256": finding.sha256,
        "size": finding.size,
        "path": str(finding.path),
        "found": finding.found,
    }


def verify_error(store: Store, findings: Iterable[Finding]) -> ChannelToolsError | None:
    """The error that ``sources verify`` ends with; a damaged file weighs more than a missing one."""
    findings = list(findings)
    damaged = [finding for finding in findings if finding.state == "damaged"]
    if damaged:
        return DamagedFileError(
            f"damaged: {', '.join(finding.name for finding in damaged)}",
            where=store.root,
            found=f"sha256 {damaged[0].found}",
            wanted=f"sha256 {damaged[0].sha256}",
            fix="rocm-channel sources fetch; if it happens again, check the disk",
        )
    missing = [finding for finding in findings if finding.state in ("missing", "unfinished")]
    return missing_error(store, [finding.name for finding in missing]) if missing else None


def missing_error(store: Store, names: list[str]) -> SourceError:
    return SourceError(
        f"the store lacks {len(names)} of the sources",
        where=store.root,
        found=f"no {', '.join(names)}",
        fix="rocm-channel sources fetch",
    )
