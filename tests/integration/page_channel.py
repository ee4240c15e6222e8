"""Indexes, manifests and yanked entries of channels that the tests of the channel page show."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from channel_tools.channel.index.encoding import SubdirIndex
from channel_tools.channel.release import Release, ReleaseFile
from channel_tools.channel.settings import Settings

NOW = 1_796_000_000.0
DAY = 86_400
ARCHS = {"gfx90a": "9.0.10", "gfx942": "9.4.2"}
STACKS = {
    "7.0": {"vllm-rocm": "0.16.0", "pytorch-rocm": "2.9.1", "triton-rocm": "3.5.1", "amdsmi": "7.0.2"},
    "7.2": {"vllm-rocm": "0.26.0", "pytorch-rocm": "2.11.0", "triton-rocm": "3.6.0", "amdsmi": "7.2.3"},
}
SIZES = {"vllm-rocm": 412_000_000, "pytorch-rocm": 1_260_000_000, "triton-rocm": 38_400_000}


@dataclass
class Entries:
    """What ``yanked.json`` holds."""

    entries: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class PageChannel:
    """Everything that :func:`channel_tools.channel.page.page.render_page` takes."""

    settings: Settings
    records: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    removed: dict[str, set[str]] = field(default_factory=dict)
    yanked: Entries = field(default_factory=Entries)
    releases: list[Release] = field(default_factory=list)

    def add(self, key: str, name: str, version: str, build: str, **more: Any) -> str:
        """Put one record in; its key."""
        file = f"{name}-{version}-{build}.conda"
        record = {
            "name": name,
            "version": version,
            "build": build,
            "build_number": int(build.rsplit("_", 1)[-1]),
            "subdir": key.rsplit("/", 1)[-1],
            "depends": [],
            "size": SIZES.get(name, 21_000),
            "timestamp": int((NOW - 3 * DAY) * 1000),
            "sha256": hashlib.sha256(f"{key}/{file}".encode()).hexdigest(),
        }
        self.records.setdefault(key, {})[file] = record | more
        return f"{key}/{file}"

    def yank(self, key: str, reason: str, who: str = "ops@example.com") -> None:
        subdir, _, file = key.rpartition("/")
        record = self.records[subdir].pop(file)
        self.removed.setdefault(subdir, set()).add(file)
        self.yanked.entries[key] = {
            "reason": reason,
            "who": who,
            "when": _iso(NOW - DAY),
            "record": record,
        }

    def release(self, release_id: str, keys: Iterable[str], **more: Any) -> None:
        files = [self._release_file(key) for key in keys]
        fields = {"action": "publish", "created": _iso(NOW - 3 * DAY), "who": "ci@example.com", **more}
        self.releases.append(Release(id=release_id, files=tuple(files), **fields))

    def _release_file(self, key: str) -> ReleaseFile:
        subdir, _, file = key.rpartition("/")
        record = self.records[subdir][file]
        return ReleaseFile(
            key=key,
            **{name: record[name] for name in ("sha256", "size", "name", "version", "build", "build_number")},
            verify={"version": 1, "verdict": "pass"},
        )

    def indexes(self) -> Mapping[str, SubdirIndex]:
        return {
            key: SubdirIndex(
                key=key,
                records=self.records.get(key, {}),
                removed=frozenset(self.removed.get(key, ())),
                exists=True,
            )
            for key in {"linux-64", "noarch", *self.records, *self.removed}
        }

    def page(self) -> bytes:
        from channel_tools.channel.page.page import render_page

        return render_page(self.settings, self.indexes(), self.yanked, self.releases, NOW)


def stack_channel(url: str | None = "https://conda.example.com/internal") -> PageChannel:
    """Two stacks for two archs with their labels; an older build, a yanked one, one that is behind."""
    channel = PageChannel(
        Settings(url=url, name="internal", dependency_channels=("conda-forge",), attestations="warn")
    )
    keys = []
    for rocm, versions in STACKS.items():
        digits = rocm.replace(".", "")
        for arch in ARCHS:
            for name in ("vllm-rocm", "pytorch-rocm"):
                keys.append(
                    channel.add(
                        "linux-64",
                        name,
                        versions[name],
                        f"rocm{digits}_{arch}_py312_h{_hash(name, arch, rocm)}_0",
                        attestations_sha256="ab" * 32,
                    )
                )
            keys.append(
                channel.add("linux-64", "rocm-canary", "1.0.0", f"rocm{digits}_{arch}_h{_hash(arch, rocm)}_0")
            )
        keys.append(
            channel.add("linux-64", "amdsmi", versions["amdsmi"], f"rocm{digits}_py312_h{_hash(rocm)}_0")
        )
        keys.append(channel.add("linux-64", "rocm-userspace", rocm, "system_detected_0"))
        channel.add(f"label/rocm-{rocm}/linux-64", "rocm-userspace", rocm, "system_declared_0")
    for arch, isa in ARCHS.items():
        keys.append(channel.add("linux-64", "amdgpu-arch", isa, f"{arch}_detected_0"))
        channel.add(f"label/{arch}/linux-64", "amdgpu-arch", isa, f"{arch}_declared_0")
        for rocm in STACKS:
            label = f"label/{arch}-rocm{rocm}/linux-64"
            channel.add(label, "amdgpu-arch", isa, f"{arch}_declared_0")
            channel.add(label, "rocm-userspace", rocm, "system_declared_0")
    keys.append(channel.add("noarch", "triton", "3.6.0", f"rocm_py312_h{_hash('triton')}_0"))
    channel.release("2026.11-1", keys, commit="3f9c2d18aa01")
    old = channel.add("linux-64", "vllm-rocm", "0.25.0", "rocm72_gfx942_py312_h0000001_0", timestamp=0)
    bad = channel.add("linux-64", "vllm-rocm", "0.26.0", "rocm72_gfx942_py312_h0000002_1")
    newer = channel.add("linux-64", "rocm-canary", "1.0.1", "rocm72_gfx942_h0000003_0")
    channel.release("2026.10-1", [old], created=_iso(NOW - 40 * DAY), commit="77aa00bb11cc-dirty")
    channel.release(
        "2026.11-2",
        [newer],
        created=_iso(NOW - 2 * DAY),
        allow_missing=("gfx90a",),
        action="promote",
        promoted_from={"channel": "s3://staging/internal", "release": "2026.11-2"},
    )
    channel.yank(bad, "Wrong attention kernel for head size 96: results differ from the CPU's")
    return channel


def large_channel(names: int, versions: int) -> PageChannel:
    """``names`` packages with ``versions`` versions each, for two archs, so 2 * names * versions builds."""
    channel = PageChannel(Settings(url="https://conda.example.com/large", name="large"))
    keys = []
    for number in range(names):
        for version in range(versions):
            for arch in ARCHS:
                build = f"rocm72_{arch}_py312_h{_hash(number, version, arch)}_0"
                keys.append(channel.add("linux-64", f"package-{number:04}", f"1.{version}.0", build))
    for arch, isa in ARCHS.items():
        channel.add("linux-64", "amdgpu-arch", isa, f"{arch}_detected_0")
        channel.add(f"label/{arch}-rocm7.2/linux-64", "amdgpu-arch", isa, f"{arch}_declared_0")
    channel.add("linux-64", "rocm-userspace", "7.2", "system_detected_0")
    channel.release("2026.11-1", keys)
    return channel


def _hash(*words: object) -> str:
    return hashlib.sha256(repr(words).encode()).hexdigest()[:7]


def _iso(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
