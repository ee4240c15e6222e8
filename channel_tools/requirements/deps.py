"""``rocm-channel deps``: what a release asks for against each output of its recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channel_tools.model.errors import RecipeError, RequirementsError
from channel_tools.model.matrix import Matrix
from channel_tools.model.project import Project
from channel_tools.requirements.check import DIFFERS, LEFT_OUT, MAPPED, Checked, check_output
from channel_tools.requirements.data_file import FILE, ROLES, DataFile, Role, read_data_file
from channel_tools.requirements.lists import Asked, read_lists
from channel_tools.requirements.rendered import Rendered, render_outputs
from channel_tools.requirements.sdist import Sdist, read_sdist

# Given file name, sha256 and public addresses of an archive, where it lies.
Obtain = Callable[[str, str, tuple[str, ...]], Path]


@dataclass(frozen=True)
class OutputReport:
    """One release against the recipe of one stack and Python. ``archs``: GPU archs with the same answer."""

    recipe: Rendered
    archs: tuple[str, ...]
    sdist: Sdist
    checked: Checked

    @property
    def title(self) -> str:
        variant = self.recipe.variant
        parts = [("ROCm", variant.get("rocm_version")), ("Python", variant.get("python"))]
        stack = ", ".join(f"{label} {value}" for label, value in parts if value)
        return f"{self.recipe.package} {self.recipe.version}" + (f" ({stack})" if stack else "")

    def count(self, verdict: str) -> int:
        return sum(row.verdict == verdict for row in self.checked.rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "package": self.recipe.package,
            "package_version": self.recipe.version,
            "rocm_version": self.recipe.variant.get("rocm_version"),
            "python": self.recipe.python,
            "archs": list(self.archs),
            "source": {"path": str(self.sdist.path), "sha256": self.sdist.sha256},
            "counts": {verdict: self.count(verdict) for verdict in (MAPPED, LEFT_OUT, DIFFERS)},
            "requirements": [row.to_json() for row in self.checked.rows],
            "differences": [difference.to_json() for difference in self.checked.differences],
        }


@dataclass(frozen=True)
class DepsReport:
    """All outputs that were looked at."""

    recipe: Path
    outputs: tuple[OutputReport, ...]

    @property
    def differences(self) -> int:
        return sum(len(output.checked.differences) for output in self.outputs)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": 1,
            "recipe": str(self.recipe),
            "ok": self.differences == 0,
            "outputs": [output.to_json() for output in self.outputs],
        }

    def error(self) -> RequirementsError:
        """What ends the command where something differs."""
        first = next(output for output in self.outputs if output.checked.differences)
        difference = first.checked.differences[0]
        rest = self.differences - 1
        return RequirementsError(
            f"{difference.name} {difference.what}" + (f", and {rest} more" if rest else ""),
            where=f"{self.recipe.parent.name}/{self.recipe.name}",
            found=difference.found,
            wanted=difference.wanted,
            fix=difference.fix,
        )


def check_recipe(
    project: Project, matrix: Matrix, name: str, obtain: Obtain, source: Path | None = None
) -> DepsReport:
    """Compare each output of a recipe with the source distribution that it is built from.

    :param obtain: finds the archive that the recipe names
    :param source: a source distribution to take instead; one of a release that the matrix does not have is
        compared with the newest stack, as if that had it
    :raises RequirementsError: the data file, or a list of the release, cannot be read
    :raises RecipeError: there is no such recipe, or it does not render
    """
    folder = recipe_folder(project, name)
    data = read_data_file(folder / FILE)
    outputs = render_outputs(folder, matrix)
    given = read_sdist(source) if source else None
    if given:
        outputs = outputs_of_release(folder, matrix, outputs, given)
    sdists: dict[str, Sdist] = {}
    reports: list[OutputReport] = []
    for output in outputs:
        if given is None and output.sha256 not in sdists:
            sdists[output.sha256] = read_sdist(obtain(output.archive, output.sha256, output.urls))
        sdist = given or sdists[output.sha256]
        _merge(reports, OutputReport(output, _archs(output), sdist, check_release(sdist, output, data)))
    return DepsReport(folder / "recipe.yaml", tuple(reports))


def check_release(sdist: Sdist, output: Rendered, data: DataFile) -> Checked:
    """All requirements of one release against one output of the recipe."""
    return check_output(requirements_of(sdist, data, output.python or "3.12"), output, data)


def requirements_of(sdist: Sdist, data: DataFile, python: str) -> Mapping[Role, tuple[Asked, ...]]:
    """What a release asks for, by role."""
    paths = {role: [_first(sdist, choice) for choice in getattr(data.files, role)] for role in ROLES}
    other: dict[Role, Role] = {"build": "run", "run": "build"}
    return {role: read_lists(sdist.files, paths[role], python, paths[other[role]]) for role in ROLES}


def recipe_folder(project: Project, name: str) -> Path:
    """Folder of a recipe by its name.

    :raises RecipeError: there is none
    """
    folder = project.recipes / name
    if not (folder / "recipe.yaml").is_file():
        known = ", ".join(path.name for path in project.recipe_folders())
        raise RecipeError(f"no recipe {name}", where=project.recipes, wanted=f"one of {known}")
    return folder


def outputs_of_release(
    folder: Path, matrix: Matrix, outputs: Sequence[Rendered], sdist: Sdist
) -> list[Rendered]:
    """Outputs of that release; where the matrix has none, those of its newest stack with that version put in.

    :raises RequirementsError: the source distribution is of another project, or has another sha256
    """
    from packaging.version import Version

    key = version_key(folder, outputs, sdist)
    same = [output for output in outputs if output.version == sdist.version]
    if same:
        if sdist.sha256 not in (None, same[0].sha256):
            raise RequirementsError(
                f"is not the {sdist.version} of the matrix",
                where=sdist.path,
                found=f"sha256 {sdist.sha256}",
                wanted=f"sha256 {same[0].sha256}",
                fix="fetch it again",
            )
        return same
    newest = max((output.version for output in outputs), key=Version)
    return render_outputs(folder, matrix.restricted({key: [newest]}).overridden({key: sdist.version}))


def version_key(folder: Path, outputs: Sequence[Rendered], sdist: Sdist) -> str:
    """The matrix key with the version of that project.

    :raises RequirementsError: the recipe is built from another project
    """
    from packaging.utils import canonicalize_name

    first = outputs[0]
    project = first.archive.removesuffix(f"-{first.version}.tar.gz")
    key = f"{project}_version"
    if canonicalize_name(sdist.name) != canonicalize_name(project) or key not in first.variant:
        raise RequirementsError(
            f"is not what recipe {folder.name} is built from",
            where=sdist.path,
            found=f"{sdist.name} {sdist.version}",
            wanted=first.archive,
        )
    return key


def _first(sdist: Sdist, choice: Sequence[str]) -> str:
    found = next((path for path in choice if path in sdist.files), None)
    if found is None:
        lists = sorted(path for path in sdist.files if path.startswith("requirements/"))
        raise RequirementsError(
            "has none of the lists that requirements.toml names",
            where=sdist.path,
            found=", ".join(lists) or "no folder requirements",
            wanted=" or ".join(choice),
            fix="see where this release keeps its requirements, and correct [files] in requirements.toml",
        )
    return found


def _archs(output: Rendered) -> tuple[str, ...]:
    arch = output.variant.get("rocm_arch")
    return (arch,) if arch else ()


def _merge(reports: list[OutputReport], new: OutputReport) -> None:
    """Add a report, or only its arch to one that says the same."""
    for index, old in enumerate(reports):
        if old.checked == new.checked and old.title == new.title:
            reports[index] = OutputReport(old.recipe, old.archs + new.archs, old.sdist, old.checked)
            return
    reports.append(new)
