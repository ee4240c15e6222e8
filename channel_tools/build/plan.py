"""The plan: what there is to build, in order, and what the channel has of it already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from channel_tools.build.nodes import Node, render_all
from channel_tools.build.record import inputs_digest, read_records
from channel_tools.build.toolchain import Toolchain
from channel_tools.channel.folder import FolderChannel
from channel_tools.model.errors import RecipeError
from channel_tools.model.matrix import Matrix
from channel_tools.model.project import Project

MISSING, BUILT, STALE = "missing", "built", "stale"


@dataclass(frozen=True)
class Step:
    """A node and its state in the channel: ``missing``, ``built``, or ``stale`` (built from other inputs)."""

    node: Node
    state: str
    inputs: str

    def to_json(self) -> dict[str, Any]:
        return {
            "package": self.node.package,
            "version": self.node.version,
            "build": self.node.build,
            "variant": dict(self.node.variant),
            "needs": list(self.node.needs),
            "state": self.state,
        }


@dataclass(frozen=True)
class Plan:
    """Steps in the order in which they can be built."""

    steps: tuple[Step, ...]

    def by_stem(self) -> dict[str, Step]:
        return {step.node.stem: step for step in self.steps}

    def select(self, packages: Iterable[str]) -> Plan:
        """The steps of those packages and all that they need.

        :raises RecipeError: a name that no recipe has
        """
        packages = list(packages)
        names = {step.node.package for step in self.steps}
        unknown = [package for package in packages if package not in names]
        if unknown:
            raise RecipeError(f"no recipe {', '.join(unknown)}", wanted="one of " + ", ".join(sorted(names)))
        steps = self.by_stem()
        wanted: set[str] = set()
        queue = [step.node.stem for step in self.steps if step.node.package in packages]
        while queue:
            stem = queue.pop()
            if stem not in wanted:
                wanted.add(stem)
                queue += steps[stem].node.needs
        return Plan(tuple(step for step in self.steps if step.node.stem in wanted))

    def to_json(self) -> dict[str, Any]:
        return {"version": 1, "nodes": [step.to_json() for step in self.steps]}


def make_plan(project: Project, matrix: Matrix, toolchain: Toolchain, channel: FolderChannel) -> Plan:
    """Render all recipes for ``matrix`` and compare with ``channel``, which need not exist.

    :raises RecipeError: a recipe does not render
    :raises ChannelError: the channel's index cannot be read
    """
    nodes = render_all(project.recipe_folders(), matrix.overridden(toolchain.overrides()))
    present = channel.stems()
    records = read_records(channel.path)
    recorded: dict[tuple[Any, ...], Mapping[str, Any]] = {_identity_of(record): record for record in records}
    steps = []
    for node in nodes:
        inputs = inputs_digest(node, project.build_scripts, toolchain)
        record = recorded.get(_identity(node))
        # Another engine gives the same variant another hash, so the record decides where there is one.
        there = node.stem in present or (record is not None and _stem_of(record) in present)
        state = MISSING if not there else STALE if record and record["inputs"] != inputs else BUILT
        steps.append(Step(node, state, inputs))
    return Plan(tuple(steps))


def _identity(node: Node) -> tuple[Any, ...]:
    return (node.package, node.version, node.build_number, tuple(sorted(node.variant.items())))


def _identity_of(record: Mapping[str, Any]) -> tuple[Any, ...]:
    variant = tuple(sorted(record["variant"].items()))
    return (record["package"], record["package_version"], record["build_number"], variant)


def _stem_of(record: Mapping[str, Any]) -> str:
    return str(record["file"]).removesuffix(".conda").removesuffix(".tar.bz2")
