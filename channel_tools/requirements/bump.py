"""``rocm-channel bump``: what a new upstream release changes for a recipe, and what is left to a person."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.model.errors import RecipeError, RequirementsError
from channel_tools.model.matrix import Matrix
from channel_tools.model.project import Project
from channel_tools.requirements.bump_left import left_to_a_person
from channel_tools.requirements.check import Difference
from channel_tools.requirements.data_file import FILE, ROLES, Role, read_data_file
from channel_tools.requirements.deps import Obtain, check_release, version_key
from channel_tools.requirements.lists import Asked
from channel_tools.requirements.matrix_edit import set_values
from channel_tools.requirements.patch_check import PatchCheck, check_patches, touched
from channel_tools.requirements.release import Release, read_release
from channel_tools.requirements.rendered import Rendered, render_outputs
from channel_tools.requirements.sdist import read_sdist

ROCM = "rocm_version"
_EXPORT = re.compile(r"^\s*export\s+(.+)$", re.MULTILINE)
_NAME = re.compile(r"\b([A-Z][A-Z0-9_]*)(?==|\s|$)")


@dataclass(frozen=True)
class RequirementChange:
    """One requirement that is ``new``, ``dropped`` or ``changed`` between two releases."""

    role: Role
    name: str
    change: str
    before: str
    after: str

    def to_json(self) -> dict[str, str]:
        return dict(vars(self))


@dataclass(frozen=True)
class Bump:
    """A release against the recipe of one stack.

    ``column`` is the stack's in the matrix, from 0, and ``stack`` its values; ``keys`` are those that change,
    with old and new value. ``policy`` are the modules that the verifier's policy lists for the new version,
    ``no_licences`` licence files of the recipe that the release does not have.
    """

    recipe: Path
    column: int
    stack: Mapping[str, str]
    archs: tuple[str, ...]
    pythons: tuple[str, ...]
    keys: Mapping[str, tuple[str, str]]
    before: Release
    after: Release
    patches: tuple[PatchCheck, ...]
    requirements: tuple[RequirementChange, ...]
    differences: tuple[Difference, ...]
    imports: tuple[str, ...]
    policy: tuple[str, ...] | None
    no_licences: tuple[str, ...]

    @property
    def new_modules(self) -> tuple[str, ...]:
        old = {module.name for module in self.before.modules}
        return tuple(module.name for module in self.after.modules if module.name not in old)

    @property
    def dropped_modules(self) -> tuple[str, ...]:
        new = {module.name for module in self.after.modules}
        return tuple(module.name for module in self.before.modules if module.name not in new)

    def left(self) -> list[str]:
        """What this command does not do, in the order of a build."""
        return list(left_to_a_person(self))

    def to_json(self) -> dict[str, Any]:
        release = self.after
        return {
            "recipe": str(self.recipe),
            "stack": dict(self.stack),
            "matrix": {key: {"before": old, "after": new} for key, (old, new) in self.keys.items()},
            "patches": [patch.to_json() for patch in self.patches],
            "torch": {
                "upstream": [said.to_json() for said in release.torch],
                "stable_abi": release.stable_abi,
                "matrix": self.stack.get("pytorch_version"),
            },
            "triton": {
                "upstream": [said.to_json() for said in release.triton],
                "matrix": self.stack.get("triton_version"),
            },
            "modules": {
                "all": [vars(module) for module in release.modules],
                "new": list(self.new_modules),
                "dropped": list(self.dropped_modules),
                "imported": list(self.imports),
                "policy": None if self.policy is None else list(self.policy),
            },
            "downloads": {
                "before": [download.to_json() for download in self.before.downloads],
                "after": [download.to_json() for download in release.downloads],
                "left": [download.to_json() for download in release.left],
            },
            "triton_kernels": {
                "before": self.before.kernels.to_json() if self.before.kernels else None,
                "after": release.kernels.to_json() if release.kernels else None,
                "matrix": self.stack.get("triton_kernels_version"),
            },
            "requirements": [change.to_json() for change in self.requirements],
            "differences": [difference.to_json() for difference in self.differences],
            "compilers": {
                "gates": [gate.to_json() for gate in release.gates],
                "least_gcc": release.least_gcc,
                "matrix_gcc": self.stack.get("cxx_compiler_version"),
                "cxx_standard": {"before": self.before.cxx_standard, "after": release.cxx_standard},
            },
            "archs": {"supported": list(release.archs), "missing": list(self.missing_archs)},
            "requires_python": {"before": self.before.requires_python, "after": release.requires_python},
            "no_licences": list(self.no_licences),
            "left": self.left(),
        }

    @property
    def missing_archs(self) -> tuple[str, ...]:
        """Archs of the matrix that the release drops without a word."""
        return tuple(arch for arch in self.archs if self.after.archs and arch not in self.after.archs)


def prepare(
    project: Project,
    matrix: Matrix,
    package: str,
    release: str | None,
    archive: Callable[[str], Path],
    obtain: Obtain,
) -> Bump:
    """Compare a new release with the recipe of one stack.

    :param package: upstream's name, as ``vllm``
    :param release: ROCm release whose column changes; ``None``: the one with the newest version now
    :param archive: given the file name of the recipe's archive now, where the new one lies
    :param obtain: finds an archive of the matrix
    :raises RequirementsError: a source distribution or a list cannot be read, or it is the release there is
    """
    folder, outputs = find_recipe(project, matrix, package)
    output = _of_stack(outputs, release)
    data = read_data_file(folder / FILE)
    new_path = archive(output.archive)
    patches = frozenset(patch for one in outputs for patch in one.patches)
    sdist = read_sdist(new_path, touched(patches))
    key = version_key(folder, outputs, sdist)
    if sdist.version == output.version:
        raise RequirementsError(
            f"the stack of ROCm {output.variant.get(ROCM)} has this release already",
            where=new_path,
            found=sdist.version,
            fix="give another version",
        )
    column = matrix.values[ROCM].index(output.variant[ROCM])
    stack = matrix.restricted({ROCM: [output.variant[ROCM]]})
    renewed_output = render_outputs(folder, stack.overridden({key: sdist.version}))[0]
    python = output.python or "3.12"
    exported = exported_names(project.build_scripts / f"{folder.name}.sh")
    before_sdist = read_sdist(obtain(output.archive, output.sha256, output.urls))
    before = read_release(before_sdist, data, python, exported)
    after = read_release(sdist, data, python, exported)
    keys = {key: (output.version, sdist.version)}
    if sdist.sha256:
        keys[key.replace("_version", "_sha256")] = (output.sha256, sdist.sha256)
    return Bump(
        recipe=folder / "recipe.yaml",
        column=column,
        stack={key: stack.values[key][0] for group in stack.zip_groups if ROCM in group for key in group},
        archs=matrix.values.get("rocm_arch", ()),
        pythons=matrix.values.get("python", ()),
        keys=keys,
        before=before,
        after=after,
        patches=check_patches(sdist, renewed_output.patches),
        requirements=tuple(_changes(before.asked, after.asked)),
        differences=check_release(sdist, renewed_output, data).differences,
        imports=renewed_output.imports,
        policy=_policy_modules(folder.name, sdist.version),
        no_licences=tuple(name for name in renewed_output.licences if name not in sdist.paths),
    )


def write(bump: Bump, matrix_file: Path) -> None:
    """Put the new version and sha256 into the matrix.

    :raises RequirementsError: the source distribution was a folder, so there is no sha256
    :raises MatrixError: the matrix is not as this command can change it
    """
    if len(bump.keys) < 2:
        raise RequirementsError(
            "the sha256 of the release is not known",
            where=matrix_file,
            fix="give the archive, not its folder, with --source",
        )
    set_values(matrix_file, bump.column, {key: new for key, (_, new) in bump.keys.items()})


def find_recipe(project: Project, matrix: Matrix, package: str) -> tuple[Path, list[Rendered]]:
    """The recipe that is built from that project, and its outputs.

    :raises RecipeError: none with a data file is
    """
    known = []
    for folder in project.recipe_folders():
        if (folder / FILE).is_file():
            outputs = render_outputs(folder, matrix)
            name = outputs[0].archive.removesuffix(f"-{outputs[0].version}.tar.gz")
            if package in (name, folder.name):
                return folder, outputs
            known.append(name)
    raise RecipeError(
        f"no recipe with a {FILE} is built from {package}",
        where=project.recipes,
        wanted=" or ".join(known) or f"a recipe with a {FILE}",
    )


def exported_names(script: Path) -> frozenset[str]:
    """Environment variables that a build script exports."""
    text = script.read_text(encoding="utf-8") if script.is_file() else ""
    return frozenset(name for match in _EXPORT.finditer(text) for name in _NAME.findall(match[1]))


def _policy_modules(package: str, version: str) -> tuple[str, ...] | None:
    """Modules that the policy of a package wants in that version; ``None`` where it has no policy."""
    from channel_tools.verify.policy import POLICIES
    from channel_tools.verify.policy_file import read_policy

    path = POLICIES / f"{package}.toml"
    if not path.is_file():
        return None
    listed = [modules for modules in read_policy(path).modules if modules.applies_to(version)]
    return tuple(f"{_dotted(modules.folder)}.{name}" for modules in listed for name in modules.names)


def _dotted(folder: str) -> str:
    return folder.strip("/").replace("/", ".")


def _of_stack(outputs: Sequence[Rendered], release: str | None) -> Rendered:
    from packaging.version import Version

    if release is None:
        return max(outputs, key=lambda output: Version(output.version))
    found = next((output for output in outputs if output.variant.get(ROCM) == release), None)
    if found is None:
        known = sorted({output.variant.get(ROCM, "") for output in outputs})
        raise RequirementsError(f"no stack of ROCm {release} is in the matrix", wanted=" or ".join(known))
    return found


def _changes(
    before: Mapping[Role, tuple[Asked, ...]], after: Mapping[Role, tuple[Asked, ...]]
) -> Iterator[RequirementChange]:
    for role in ROLES:
        old, new = ({one.name: _spell(one) for one in asked[role]} for asked in (before, after))
        for name in sorted(old.keys() | new.keys()):
            if name not in old:
                yield RequirementChange(role, name, "new", "", new[name])
            elif name not in new:
                yield RequirementChange(role, name, "dropped", old[name], "")
            elif old[name] != new[name]:
                yield RequirementChange(role, name, "changed", old[name], new[name])


def _spell(asked: Asked) -> str:
    extras = f"[{','.join(asked.extras)}]" if asked.extras else ""
    return f"{asked.name}{extras} {asked.range}".strip()
