"""All that ``rocm-channel clean`` finds, in one list."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from channel_tools.diagnose.cleaning.caches import cached_wheels, kernel_caches
from channel_tools.diagnose.cleaning.items import Item, Kept, apart, in_use, inside, size_of
from channel_tools.diagnose.cleaning.trees import (
    is_own_checkout,
    is_source_tree,
    leftovers,
    tracked,
    work_folders,
)
from channel_tools.diagnose.doctor.data import doctor_data
from channel_tools.diagnose.doctor.environments import conda_base
from channel_tools.diagnose.doctor.host_root import HostRoot
from channel_tools.model.errors import StorageError


@dataclass(frozen=True)
class Stale:
    """What may go, with its size in bytes, and what was left alone."""

    items: tuple[tuple[Item, int], ...]
    kept: tuple[Kept, ...]

    @property
    def total(self) -> int:
        return sum(size for _, size in self.items)


def find_stale(host: HostRoot, trees: Sequence[str], arch: str | None) -> Stale:
    """Everything stale on a host, and in the source trees that were named.

    :param trees: absolute paths of the host, without links
    :raises StorageError: a tree is no source tree
    """
    items: list[Item] = []
    kept: list[Kept] = []
    for tree in dict.fromkeys(trees):
        if not is_source_tree(host, tree):
            raise StorageError(
                "is no source tree",
                where=tree,
                wanted="a folder with setup.py, pyproject.toml, CMakeLists.txt or a recipe",
                fix="name source trees only; caches are found without being named",
            )
        if is_own_checkout(host, tree):
            kept.append(Kept(tree, "is a checkout of rocm-channel, which no build starts in"))
        for item in leftovers(host, tree, arch, deep=True):
            owner = tracked(host, item)
            if owner:
                kept.append(owner)
            else:
                items.append(item)
    items += cached_wheels(host, doctor_data().cached_wheels)
    caches, passed_over = kernel_caches(host)
    items += caches
    kept += passed_over
    items += work_folders(host, _build_places(host, trees))
    folders, mounted = in_use(host), [mount.point for mount in host.mounts()]
    chosen = []
    for item in apart(items):
        if worked_in := inside(item, folders):
            kept.append(Kept(item.path, f"process {folders[worked_in]} works in it"))
        elif point := inside(item, mounted):
            kept.append(Kept(item.path, f"something is mounted at {point}"))
        else:
            chosen.append((item, size_of(host, item)))
    return Stale(tuple(chosen), tuple(dict.fromkeys(kept)))


def _build_places(host: HostRoot, trees: Sequence[str]) -> list[str]:
    base = conda_base(host)
    named = host.variable("CONDA_BLD_PATH")
    roots = [named] if named else [*([f"{base}/conda-bld"] if base else []), f"{host.home}/conda-bld"]
    for tree in [*trees, host.variable("PWD") or ""]:
        if tree.startswith("/"):
            roots += [f"{tree}/output/bld", f"{tree}/bld"]
            roots += [f"{place}/bld" for place in host.glob(f"{tree}/work", ".+")]
    real = [found for place in roots if place.startswith("/") and (found := host.real(place)) is not None]
    return [place for place in real if posixpath.normpath(place) != "/"]


def to_json(stale: Stale, removed: Sequence[Item]) -> dict[str, Any]:
    """Sizes in bytes."""
    return {
        "version": 1,
        "total": stale.total,
        "items": [
            {
                "kind": item.kind,
                "path": item.path,
                "parts": list(item.parts),
                "reason": item.reason,
                "size": size,
                "removed": item in removed,
            }
            for item, size in stale.items
        ],
        "kept": [{"path": kept.path, "reason": kept.reason} for kept in stale.kept],
    }
