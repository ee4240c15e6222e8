"""The report of ``rocm-channel bump`` as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from channel_tools.requirements.bump import Bump
from channel_tools.requirements.cmake_walk import Download
from channel_tools.requirements.release import Said


def lines(bump: Bump, *, dry_run: bool) -> Iterator[str]:
    """The whole report: what changes by topic, then what is left to a person."""
    before, after = bump.before, bump.after
    yield f"{bump.recipe.parent.name}: {before.version} -> {after.version}, ROCm {bump.stack['rocm_version']}"
    yield from _section(
        "variants/conda_build_config.yaml" + (" (not written)" if dry_run else ""),
        (f"{key}: {old} -> {new}" for key, (old, new) in bump.keys.items()),
    )
    yield from _section("patches", _patches(bump))
    yield from _section("torch", _said(after.torch, bump.stack.get("pytorch_version"), after.stable_abi))
    yield from _section("triton", _said(after.triton, bump.stack.get("triton_version"), ""))
    yield from _section("extension modules", _modules(bump))
    yield from _section("downloads of a ROCm build", _downloads(bump))
    yield from _section("requirements", _requirements(bump))
    yield from _section("compilers", _compilers(bump))
    yield from _section("GPU archs", _archs(bump))
    yield from _section("Python", _changed("requires-python", before.requires_python, after.requires_python))
    yield from _section("left to a person", bump.left())


def _section(title: str, entries: Iterable[str]) -> Iterator[str]:
    yield ""
    yield title
    some = False
    for entry in entries:
        some = True
        first, *rest = entry.splitlines()
        yield f"  {first}"
        yield from (f"    {line}" for line in rest)
    if not some:
        yield "  nothing"


def _patches(bump: Bump) -> Iterator[str]:
    for patch in bump.patches:
        notes = "\n".join(patch.notes)
        yield f"{patch.patch.name}: {patch.state}" + (f"\n{notes}" if notes else "")


def _said(said: Iterable[Said], ours: str | None, abi: str) -> Iterator[str]:
    yield f"{ours} in the matrix"
    for one in said:
        yield f"{one.value} in {one.where}" + ("" if one.value == ours else "  (differs)")
    if abi:
        yield f"stable interface of {abi}: it needs that release or a newer one"


def _modules(bump: Bump) -> Iterator[str]:
    for title, names in (("new", bump.new_modules), ("dropped", bump.dropped_modules)):
        for name in names:
            yield f"{title}: {name}"
    for module in bump.after.modules:
        if not module.certain:
            yield f"{module.name}: its condition in setup.py is not understood"
    kept = [m.name for m in bump.after.modules if m.name not in bump.new_modules]
    if kept:
        yield "as before: " + ", ".join(kept)


def _downloads(bump: Bump) -> Iterator[str]:
    old = {download.name: download for download in bump.before.downloads}
    left = {download.where for download in bump.after.left}
    for download in bump.after.downloads:
        was = old.get(download.name)
        change = "new" if was is None else "as before" if _same(was, download) else "changed"
        off = "" if download.where in left else ", switched off by the build script"
        now = f"{download.name}: {change}{off}; {download.address} {download.revision} ({download.where})"
        yield now + (f"\nbefore: {was.address} {was.revision}" if was and change == "changed" else "")
    for name in old.keys() - {download.name for download in bump.after.downloads}:
        yield f"{name}: dropped"


def _same(one: Download, other: Download) -> bool:
    return (one.address, one.revision) == (other.address, other.revision)


def _requirements(bump: Bump) -> Iterator[str]:
    for change in bump.requirements:
        parts = [part for part in (change.before, change.after) if part]
        yield f"{change.change} ({change.role}): {' -> '.join(parts)}"


def _compilers(bump: Bump) -> Iterator[str]:
    gcc = bump.stack.get("cxx_compiler_version")
    for gate in bump.after.gates:
        yield f"ends where {gate.condition} ({gate.where}); the matrix has GCC {gcc}"
    yield from _changed("C++ standard", bump.before.cxx_standard, bump.after.cxx_standard)


def _archs(bump: Bump) -> Iterator[str]:
    old, new = set(bump.before.archs), set(bump.after.archs)
    for arch in sorted(new - old):
        yield f"new: {arch}"
    for arch in sorted(old - new):
        yield f"dropped: {arch}"
    for arch in bump.archs:
        yield f"{arch} of the matrix: {'supported' if arch in new else 'NOT supported'}"


def _changed(what: str, old: str, new: str) -> Iterator[str]:
    yield f"{what}: {new}, as before" if old == new else f"{what}: {old} -> {new}"
